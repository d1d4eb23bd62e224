//! From what damo has, series of windows of one target each, to a record.
//!
//! The windows of several targets that ended at about the same time are one snapshot: DAMON tells
//! its targets one after another, so their times differ a little.

use std::collections::BTreeMap;

use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time, interval};

use crate::error::Error;
use crate::event::{AttrsInfo, Header, Target};
use crate::writer::Writer;

/// Samples per window if nothing says how many there were: DAMON's default.
const SAMPLES: u64 = 20;

/// Intervals in µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Intervals {
    pub(super) sample_us: u64,
    pub(super) aggr_us: u64,
    pub(super) update_us: u64,
}

/// One region of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Region {
    pub(super) range: AddrRange,
    pub(super) accesses: Accesses,
    /// In windows.
    pub(super) age: u32,
}

/// How often a region was accessed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Accesses {
    /// In so many samples.
    Samples(u32),
    /// In this share of all samples.
    Share(f64),
}

/// One window of a target.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Window {
    /// `None`: not told.
    pub(super) start_ns: Option<u64>,
    pub(super) end_ns: u64,
    pub(super) regions: Vec<Region>,
}

/// The windows of one target, in order of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Series {
    /// How damo calls the target: a number, or in old versions a kernel address.
    pub(super) target: String,
    pub(super) intervals: Option<Intervals>,
    pub(super) windows: Vec<Window>,
}

impl Series {
    /// Gives windows without a start one: the end of the window before, and for the first one the
    /// mean length of the others, as damo does.
    fn complete(&mut self) {
        self.windows.sort_by_key(|w| w.end_ns);
        let ends = |w: Option<&Window>| w.map_or(0, |w| w.end_ns);
        let all = ends(self.windows.last()).saturating_sub(ends(self.windows.first()));
        let others = (self.windows.len() as u64).saturating_sub(1);
        let asked = self.intervals.map_or(0, |i| i.aggr_us.saturating_mul(1000));
        let mean = all.checked_div(others).unwrap_or(asked);
        let mut before = None;
        for w in &mut self.windows {
            let start = w.start_ns.or(before).unwrap_or(w.end_ns.saturating_sub(mean));
            w.start_ns = Some(start.min(w.end_ns));
            before = Some(w.end_ns);
            w.regions.sort_by_key(|r| r.range.start);
            // Regions never overlap. Where they do, the file is damaged, or holds a scheme's.
            let mut end = 0;
            w.regions.retain(|r| {
                let is_behind = r.range.start >= end;
                end = end.max(r.range.end);
                is_behind
            });
        }
    }

    /// The intervals that follow from the windows.
    fn guess(&self) -> Intervals {
        let mut lengths: Vec<_> = self.windows.iter().map(length_ns).collect();
        lengths.sort_unstable();
        // damo counts seconds in floats, so its ns are not whole µs.
        let usual_ns = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
        let aggr_us = (usual_ns.saturating_add(500) / 1000).max(1);
        let counts = self.windows.iter().flat_map(|w| &w.regions).map(|r| match r.accesses {
            Accesses::Samples(nr) => u64::from(nr),
            Accesses::Share(_) => 0,
        });
        let samples = counts.max().unwrap_or(0).max(SAMPLES);
        let sample_us = (aggr_us / samples).max(1);
        // The window has to hold that many whole samples.
        Intervals { sample_us, aggr_us: aggr_us.max(sample_us * samples), update_us: 1_000_000 }
    }
}

fn length_ns(w: &Window) -> u64 {
    w.end_ns.saturating_sub(w.start_ns.unwrap_or(w.end_ns))
}

/// A record of these series. `notes` say what could not be read.
pub(super) fn record(mut series: Vec<Series>, mut notes: Vec<String>) -> Result<Vec<u8>, Error> {
    series.retain(|s| !s.windows.is_empty());
    if series.is_empty() {
        return Err(Error::damo("there is no window in it", "record again, for longer"));
    }
    series.iter_mut().for_each(Series::complete);
    notes.insert(0, ABSENT.into());
    let mut guessed = None;
    for s in series.iter_mut().filter(|s| s.intervals.is_none()) {
        s.intervals = Some(s.guess());
        guessed = guessed.or(s.intervals);
    }
    if let Some(Intervals { sample_us, aggr_us, .. }) = guessed {
        notes.push(format!(
            "it does not say its intervals either; a window is taken to last {aggr_us} us, with \
             samples of {sample_us} us"
        ));
    }
    let ids = ids(&series);
    let windows = grouped(&series);
    let start = windows.first().map_or(0, |w| w.start_ns);
    let mut writer = Writer::new(Vec::new(), &header(&series, start))?;
    for (name, id) in &ids {
        writer.target(&Target {
            id: *id,
            name: format!("target {name}"),
            t_ns: start,
            ..Target::default()
        })?;
    }
    for text in notes {
        writer.note(Time(start), text)?;
    }
    for (seq, group) in windows.iter().enumerate() {
        writer.push_snapshot(&snapshot(seq as u64, group, &series, &ids))?;
    }
    let end = windows.last().map_or(start, |w| w.end_ns);
    Ok(writer.finish(Time(end), "the end of damo's record")?.0)
}

const ABSENT: &str = "this is a record of damo: it holds no names, no pids and no mappings, and \
                      its error bars are those of a sample of this size";

fn header(series: &[Series], start: u64) -> Header {
    let i = series.first().and_then(|s| s.intervals);
    Header {
        page_size: 4096,
        started_ns: start,
        ops: "kdamond".into(),
        attrs: AttrsInfo {
            sample_us: i.map_or(0, |i| i.sample_us),
            aggr_us: i.map_or(0, |i| i.aggr_us),
            update_us: i.map_or(0, |i| i.update_us),
            min_region_sz: 4096,
            method: "observed".into(),
            ..AttrsInfo::default()
        },
        capabilities: vec!["read from a record of damo".into()],
        ..Header::default()
    }
}

/// Ids of targets, in the order in which they first come.
fn ids(series: &[Series]) -> Vec<(&str, u32)> {
    let mut ids: Vec<(&str, u32)> = Vec::new();
    for s in series {
        if ids.iter().all(|(name, _)| *name != s.target) {
            let id = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            ids.push((&s.target, id));
        }
    }
    ids
}

/// Windows that are one snapshot.
#[derive(Debug, Default)]
struct Group {
    start_ns: u64,
    end_ns: u64,
    /// Indices of a series and of its window.
    parts: Vec<(usize, usize)>,
}

/// Joins the windows that belong together, in order of time.
fn grouped(series: &[Series]) -> Vec<Group> {
    let all = series
        .iter()
        .enumerate()
        .flat_map(|(nr, s)| s.windows.iter().enumerate().map(move |(at, w)| (w.end_ns, nr, at, w)));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(end, nr, ..)| (*end, *nr));
    let mut groups: Vec<Group> = Vec::new();
    for (end, nr, at, w) in all {
        let start = w.start_ns.unwrap_or(end);
        let target = &series[nr].target;
        let fits = |g: &Group| {
            g.parts.iter().all(|(other, _)| series[*other].target != *target)
                && end - g.end_ns < length_ns(w) / 2
        };
        match groups.last_mut().filter(|g| fits(g)) {
            Some(group) => {
                group.start_ns = group.start_ns.min(start);
                group.parts.push((nr, at));
            }
            None => groups.push(Group { start_ns: start, end_ns: end, parts: vec![(nr, at)] }),
        }
    }
    groups
}

fn snapshot(seq: u64, group: &Group, series: &[Series], ids: &[(&str, u32)]) -> Snapshot {
    let first = group.parts.first().map(|(nr, _)| &series[*nr]);
    let i = first.and_then(|s| s.intervals);
    let i = i.unwrap_or(Intervals { sample_us: 1, aggr_us: 1, update_us: 1 });
    let max = u32::try_from(i.aggr_us / i.sample_us.max(1)).unwrap_or(u32::MAX).max(1);
    let mut targets = BTreeMap::new();
    for (nr, at) in &group.parts {
        let s = &series[*nr];
        let id = ids.iter().find(|(name, _)| *name == s.target).map_or(0, |(_, id)| *id);
        let regions = s.windows[*at].regions.iter().map(|r| region(r, max)).collect();
        targets.insert(id, TargetInfo { id: TargetId(id), regions, ..TargetInfo::default() });
    }
    Snapshot {
        seq,
        start: Time(group.start_ns),
        end: Time(group.end_ns),
        sample_us: i.sample_us,
        aggr_us: i.aggr_us,
        max_nr_accesses: max,
        targets: targets.into_values().collect(),
        ..Snapshot::default()
    }
}

fn region(r: &Region, max: u32) -> RegionInfo {
    let nr_accesses = match r.accesses {
        Accesses::Samples(nr) => nr.min(max),
        Accesses::Share(share) => super::numbers::to_u64(share * f64::from(max))
            .and_then(|nr| u32::try_from(nr).ok())
            .unwrap_or(max),
    };
    #[expect(clippy::cast_precision_loss, reason = "a bound needs a few digits")]
    let (nr, most) = (nr_accesses as f32, max as f32);
    let (lo, hi) = interval::wilson(nr / most, most);
    RegionInfo {
        range: r.range,
        nr_accesses,
        age: r.age,
        lo: lo * most,
        hi: hi * most,
        resolved: true,
        ..RegionInfo::default()
    }
}
