//! `report memory`: how much physical memory is hot and how much is cold, by node, cgroup, owner or
//! kind.
//!
//! A record of physical memory holds looks at a sample of frames ([`Frames`]): what each holds, who
//! maps it, and whether it was touched since the look before. Each frame stands for an equal part
//! of the memory, so a group's share of the sample is its share of memory. Numbers are means over
//! the looks.
//!
//! A frame that several processes map is split evenly among them, as for `PSS`. If the set cannot
//! look at single frames (`kdamond`), a frame takes the rate of the region around it in the
//! snapshot nearest to the look: that share counts as hot, the rest as cold. This is coarser,
//! because a region mixes pages of many owners. The report says which of the two it did.
//!
//! **Error.** The sample of one look is a grid with a random place in each cell, whose error is at
//! most that of a plain random sample: `1.645 * sqrt(p (1 - p) / n)` of all memory for a share `p`
//! of `n` frames, for a 90 % interval. All looks use the same frames, so more looks do not make it
//! smaller. Accesses that the operations set cannot see are not part of this error.

use std::collections::BTreeMap;
use std::fmt::Write;

use isotherm_core::units::{mib, percent, span};
use isotherm_core::{AddrRange, Lengths, RegionInfo, Snapshot};
use isotherm_record::{Frame, Frames, Ram, Record, Touch};
use serde::Serialize;

use crate::error::Error;
use crate::filter::Filter;
use crate::scan::Scan;
use crate::shown::written;

/// The classes of age of cold memory, in ms.
pub const AGES_MS: [u64; 3] = [10_000, 30_000, 60_000];
/// Largest number of lines of the text. The JSON has all.
const MOST_LINES: usize = 40;
/// Standard errors on either side of a 90 % interval.
const Z: f64 = 1.645;

/// The key of a line: memory with the same key is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The node that it is on.
    Node,
    /// The memory cgroup that it is charged to.
    Cgroup,
    /// The process that maps it.
    #[default]
    Owner,
    /// What it holds.
    Kind,
}

impl By {
    const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Cgroup => "cgroup",
            Self::Owner => "owner",
            Self::Kind => "kind",
        }
    }
}

/// Mean bytes of one group.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Sums {
    /// Memory of the group, of every temperature.
    pub bytes: f64,
    /// Touched since the look before, or hot by the rate of the region around.
    pub hot: f64,
    /// Not touched.
    pub cold: f64,
    /// Not touched for at least this long, by [`AGES_MS`]. Each class includes the next.
    pub idle: [f64; 3],
    /// Unknown: free memory, memory of the kernel, and memory that the set cannot track.
    pub unknown: f64,
}

impl Sums {
    fn scale(&mut self, by: f64) {
        for x in [&mut self.bytes, &mut self.hot, &mut self.cold, &mut self.unknown] {
            *x *= by;
        }
        self.idle.iter_mut().for_each(|x| *x *= by);
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The node, cgroup, process or kind.
    pub name: String,
    /// Its pid, if it is a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its memory.
    #[serde(flatten)]
    pub sums: Sums,
    /// Half of the 90 % interval of `bytes` by sampling.
    pub error_bytes: f64,
    /// Half of the 90 % interval of `hot` by sampling.
    pub error_hot: f64,
}

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of the format. It is increased when a field changes its meaning.
    pub schema: u32,
    /// Which memory.
    pub title: String,
    /// What the lines are grouped by.
    pub by: By,
    /// Number of looks at the sample.
    pub looks: u64,
    /// Number of frames in the sample.
    pub frames: u64,
    /// Bytes that the sample stands for.
    pub bytes: f64,
    /// Mean time between looks, in ns; 0 for one look.
    pub every_ns: f64,
    /// Whether the set looked at single frames. If not, regions were used.
    pub by_frame: bool,
    /// The largest number of processes that could not be read in one look.
    pub unread: u32,
    /// The groups, hottest first.
    pub lines: Vec<Line>,
    /// What could not be read of the record; empty if nothing.
    pub damage: String,
}

type Key = (String, Option<u32>);

#[derive(Default)]
struct Build {
    by: By,
    groups: BTreeMap<Key, Sums>,
    looks: u64,
    frames: u64,
    bytes: f64,
    first_last: Option<(u64, u64)>,
    known: u64,
    guessed: u64,
    unread: u32,
}

impl Report {
    /// Reads a record of physical memory.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or holds no look at frames inside the filter.
    pub fn build(record: &Record, filter: &Filter, by: By) -> Result<Self, Error> {
        let mut build = Build { by, ..Build::default() };
        let (mut seen, mut last) = (0, Snapshot::default());
        let scan = Scan::run(record, filter, |scan, snapshot| {
            if scan.sample_version > seen {
                seen = scan.sample_version;
                build.look(scan, snapshot, filter);
            }
            last.clone_from(snapshot);
            Ok(())
        })?;
        // The last look comes after the last snapshot.
        let at = scan.since_start(scan.sample.t_ns);
        if scan.sample_version > seen && filter.has_window(at, at + 1) {
            build.look(&scan, &last, filter);
        }
        if build.looks == 0 {
            let hint = "record physical memory with `isotherm record --paddr`, for 10 s at least";
            let why = if scan.targets.values().any(|t| t.target.memory.is_some()) {
                "the record holds no look at page frames here".to_owned()
            } else {
                "the record is about processes, not about physical memory".to_owned()
            };
            return Err(Error::Nothing { why, hint });
        }
        Ok(build.finish(&scan))
    }

    /// One JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The report as a table.
    #[must_use]
    pub fn to_text(&self) -> String {
        written(|out| self.write(out))
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        if !self.damage.is_empty() {
            writeln!(out, "warning: {}", self.damage)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let stride = self.bytes / self.frames.max(1) as f64;
        writeln!(
            out,
            "{} by {}: {}, means of {} look(s) at {} frames (one per {})",
            self.title,
            self.by.name(),
            mib(self.bytes),
            self.looks,
            self.frames,
            mib(stride),
        )?;
        if self.by_frame {
            writeln!(out, "hot: touched since the look before ({})", span(self.every_ns))?;
        } else {
            writeln!(
                out,
                "hot: by the rate of the region around, because this set does not see single frames"
            )?;
        }
        if self.unread > 0 {
            writeln!(
                out,
                "{} process(es) could not be read: their memory has no owner",
                self.unread
            )?;
        }
        let ages: String =
            AGES_MS.iter().map(|ms| format!("{:>13}", format!("idle>={}s", ms / 1000))).collect();
        writeln!(
            out,
            "{:>13}{:>11}{:>13}{:>11}{:>13}{ages}{:>13}  {}",
            "total",
            "+-",
            "hot",
            "+-",
            "cold",
            "unknown",
            self.by.name()
        )?;
        for line in self.lines.iter().take(MOST_LINES) {
            let s = &line.sums;
            let idle: String = s.idle.iter().map(|b| format!("{:>13}", mib(*b))).collect();
            writeln!(
                out,
                "{:>13}{:>11}{:>13}{:>11}{:>13}{idle}{:>13}  {}",
                mib(s.bytes),
                mib(line.error_bytes),
                mib(s.hot),
                mib(line.error_hot),
                mib(s.cold),
                mib(s.unknown),
                shown(line),
            )?;
        }
        if self.lines.len() > MOST_LINES {
            let rest: f64 = self.lines[MOST_LINES..].iter().map(|l| l.sums.bytes).sum();
            let share = percent(rest / self.bytes.max(1.0));
            writeln!(
                out,
                "{} more with {share} of the memory; --json has all",
                self.lines.len() - MOST_LINES
            )?;
        }
        Ok(())
    }
}

fn shown(line: &Line) -> String {
    match line.pid {
        Some(pid) => format!("{} (pid {pid})", line.name),
        None => line.name.clone(),
    }
}

impl Build {
    /// Takes in the last look, with the snapshot nearest to it.
    fn look(&mut self, scan: &Scan, snapshot: &Snapshot, filter: &Filter) {
        let sample = &scan.sample;
        let wanted = scan.targets.get(&sample.target).is_some_and(|t| t.wanted);
        if !wanted || sample.frames.is_empty() {
            return;
        }
        let keep = filter.address.unwrap_or(AddrRange::new(0, u64::MAX));
        let regions = snapshot.targets.iter().find(|t| t.id.0 == sample.target);
        let regions = regions.map_or(&[][..], |t| &t.regions);
        #[expect(clippy::cast_precision_loss, reason = "sizes below 2^53 are exact")]
        let weight = sample.bytes as f64 / sample.frames.len() as f64;
        let mut frames = 0;
        for frame in sample.frames.iter().filter(|f| keep.contains(f.addr)) {
            frames += 1;
            let kind = sample.kinds.get(index(frame.kind)).map_or("", String::as_str);
            let mut one =
                self.heat(frame, kind, regions, (snapshot.max_nr_accesses, &scan.lengths));
            one.scale(weight);
            self.bytes += weight;
            let keys = self.keys(frame, kind, sample, scan.ram.as_ref());
            #[expect(clippy::cast_precision_loss, reason = "a handful")]
            one.scale(1.0 / keys.len() as f64);
            for key in keys {
                let sums = self.groups.entry(key).or_default();
                sums.bytes += one.bytes;
                sums.hot += one.hot;
                sums.cold += one.cold;
                sums.unknown += one.unknown;
                sums.idle.iter_mut().zip(one.idle).for_each(|(a, b)| *a += b);
            }
        }
        self.frames = self.frames.max(frames);
        self.looks += 1;
        self.unread = self.unread.max(sample.unread);
        let t = sample.t_ns;
        self.first_last = Some(self.first_last.map_or((t, t), |(first, _)| (first, t)));
    }

    /// How much of a frame is hot, cold and unknown, as shares of 1.
    fn heat(
        &mut self,
        frame: &Frame,
        kind: &str,
        regions: &[RegionInfo],
        (max_nr, lengths): (u32, &Lengths),
    ) -> Sums {
        let none = Sums { bytes: 1.0, unknown: 1.0, ..Sums::default() };
        let cold = |share: f64, ms: u64| {
            let idle = AGES_MS.map(|age| if ms >= age { share } else { 0.0 });
            Sums { bytes: 1.0, hot: 1.0 - share, cold: share, idle, unknown: 0.0 }
        };
        match frame.touch {
            Touch::Touched => {
                self.known += 1;
                cold(0.0, 0)
            }
            Touch::Idle(ms) => {
                self.known += 1;
                cold(1.0, ms)
            }
            Touch::Unknown if self.known > 0 || !is_used(kind) => none,
            Touch::Unknown => {
                let at = regions.partition_point(|r| r.range.end <= frame.addr);
                let region = regions.get(at).filter(|r| r.range.contains(frame.addr));
                let Some(region) = region.filter(|r| r.resolved) else { return none };
                self.guessed += 1;
                let rate = f64::from(region.nr_accesses) / f64::from(max_nr.max(1));
                let windows_ms = lengths.of_last(region.age) / 1_000_000;
                cold(1.0 - rate.min(1.0), if region.nr_accesses == 0 { windows_ms } else { 0 })
            }
        }
    }

    /// The groups that a frame belongs to, in equal parts.
    fn keys(&self, frame: &Frame, kind: &str, sample: &Frames, ram: Option<&Ram>) -> Vec<Key> {
        let nobody = |what: &str| vec![(format!("[{what}]"), None)];
        match self.by {
            By::Kind => vec![(kind.to_owned(), None)],
            By::Node => {
                let holds = |(a, b): &(u64, u64)| (*a..*b).contains(&frame.addr);
                let mut nodes = ram.iter().flat_map(|r| &r.nodes);
                match nodes.find(|n| n.ranges.iter().any(holds)) {
                    Some(node) => vec![(format!("node {}", node.node), None)],
                    None => nobody("no node"),
                }
            }
            By::Cgroup => match frame.cgroup.and_then(|n| sample.cgroups.get(index(n))) {
                Some(path) => vec![(path.clone(), None)],
                None => nobody(kind),
            },
            By::Owner if frame.owners.is_empty() => nobody(kind),
            By::Owner => {
                let owners = frame.owners.iter().filter_map(|n| sample.owners.get(index(*n)));
                owners.map(|o| (o.name.clone(), Some(o.pid))).collect()
            }
        }
    }

    fn finish(self, scan: &Scan) -> Report {
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let (looks, n) = (self.looks as f64, self.frames.max(1) as f64);
        let bytes = self.bytes / looks;
        let error = |part: f64| {
            let p = (part / bytes.max(1.0)).clamp(0.0, 1.0);
            // A share of 0 or 1 is not known more exactly than to one frame.
            Z * (p * (1.0 - p)).max(1.0 / n / 4.0).sqrt() / n.sqrt() * bytes
        };
        let lines = self.groups.into_iter().map(|((name, pid), mut sums)| {
            sums.scale(1.0 / looks);
            let (error_bytes, error_hot) = (error(sums.bytes), error(sums.hot));
            Line { name, pid, sums, error_bytes, error_hot }
        });
        let mut lines: Vec<_> = lines.collect();
        lines.sort_by(|a, b| {
            let by_hot = b.sums.hot.total_cmp(&a.sums.hot);
            by_hot.then(b.sums.bytes.total_cmp(&a.sums.bytes)).then_with(|| a.name.cmp(&b.name))
        });
        let (first, last) = self.first_last.unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let every_ns = if self.looks > 1 { (last - first) as f64 / (looks - 1.0) } else { 0.0 };
        let memory = scan.targets.values().find_map(|t| t.target.memory.clone());
        Report {
            schema: crate::SCHEMA_VERSION,
            title: format!("memory ({})", memory.unwrap_or_default()),
            by: self.by,
            looks: self.looks,
            frames: self.frames,
            bytes,
            every_ns,
            by_frame: self.known > 0,
            unread: self.unread,
            lines,
            damage: scan.caveats(),
        }
    }
}

/// Whether a frame holds data of users. Free frames and those of the kernel do not.
fn is_used(kind: &str) -> bool {
    matches!(kind, "anon" | "file" | "file, unmapped" | "shared")
}

fn index(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
