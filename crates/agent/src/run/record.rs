//! The record that a context writes of what it sees, if it was asked to: every window, and every
//! few seconds what cgroups use, if that is added up.
//!
//! The numbers of cgroups are those that the context tells once per second. Rows are written every
//! 10 s, and at most five per second, so that thousands of cgroups do not fill the history. What is
//! lost when the agent is killed is therefore the time since the last rows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use isotherm_act::apply::PagedOut;
use isotherm_core::scheme::Action;
use isotherm_core::{Snapshot, TargetId, Time};
use isotherm_record::{CgroupUse, Cgroups};
use isotherm_sys::clock;

use super::context::Work;
use super::message::{Event, Summary};
use crate::groups::{Group, Groups};
use crate::monitor::Happened;
use crate::recorder::{self, Recorder};

/// How often rows of cgroups are written, in ns.
const ROWS_EVERY_NS: u64 = 10_000_000_000;
/// The time that a row has at least, in ns: so many cgroups have rows less often.
const PER_ROW_NS: u64 = 200_000_000;
/// The idle times of the rows, in ms.
const IDLE_MS: [u64; 3] = [60_000, 600_000, 3_600_000];

/// What the next rows of cgroups tell beside what is so when they are written.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// When rows were written last.
    written_at: Time,
    /// For how long windows have shown something since then, in ns.
    seen_ns: u64,
    /// What was paged out since then, by cgroup.
    paged_out: BTreeMap<String, PagedOut>,
}

impl Rows {
    /// A window has ended.
    pub(super) fn window(&mut self, s: &Snapshot) {
        self.seen_ns = self.seen_ns.saturating_add(s.end.since(s.start));
    }

    /// Adds what was paged out, where it is known of which cgroup that was.
    fn add(&mut self, groups: &Groups, paged_out: BTreeMap<TargetId, PagedOut>) {
        for (id, more) in paged_out {
            let Some(cgroup) = groups.name_of(id) else { continue };
            let sum = self.paged_out.entry(cgroup).or_default();
            sum.asked = sum.asked.saturating_add(more.asked);
            sum.done = sum.done.saturating_add(more.done);
            sum.refaulted = sum.refaulted.saturating_add(more.refaulted);
        }
    }

    /// Whether it is time for rows of so many cgroups.
    fn are_due(&self, cgroups: usize, now: Time) -> bool {
        let every = ROWS_EVERY_NS.max(PER_ROW_NS.saturating_mul(cgroups as u64));
        now.since(self.written_at) >= every
    }

    /// The rows of the time since the last ones. `pages_out`: whether a scheme really does.
    fn take(
        &mut self,
        groups: &[Group],
        spans_us: &[u64],
        pages_out: bool,
        now: Time,
    ) -> Option<Cgroups> {
        self.written_at = now;
        let seen_ns = std::mem::take(&mut self.seen_ns);
        let mut paged_out = std::mem::take(&mut self.paged_out);
        let mut cgroups: Vec<CgroupUse> = groups.iter().map(row).collect();
        for row in &mut cgroups {
            let of_row = paged_out.remove(&row.cgroup);
            row.paged_out = of_row.or(pages_out.then(PagedOut::default)).map(recorded);
        }
        // Of a cgroup that has no process any more.
        cgroups.extend(paged_out.into_iter().map(|(cgroup, done)| CgroupUse {
            cgroup,
            idle: vec![None; IDLE_MS.len()],
            paged_out: Some(recorded(done)),
            ..CgroupUse::default()
        }));
        (!cgroups.is_empty()).then(|| Cgroups {
            t_ns: now.as_ns(),
            seen_ns,
            spans_us: spans_us.to_vec(),
            idle_ms: IDLE_MS.to_vec(),
            cgroups,
        })
    }
}

const fn recorded(of: PagedOut) -> isotherm_record::PagedOut {
    isotherm_record::PagedOut { asked: of.asked, done: of.done, refaulted: of.refaulted }
}

fn row(group: &Group) -> CgroupUse {
    let touched = group.touched.iter().flat_map(|touched| touched.spans);
    CgroupUse {
        cgroup: group.cgroup.clone(),
        processes: group.processes as u64,
        waiting: group.waiting as u64,
        watched_ns: group.watched_ns,
        hot: group.tiers.hot,
        warm: group.tiers.warm,
        cold: group.tiers.cold,
        unresolved: group.tiers.unresolved,
        working_set: group.working_set,
        touched: touched.map(|span| span.map(|within| within.bytes)).collect(),
        idle: IDLE_MS.iter().map(|ms| idle(group, *ms)).collect(),
        paged_out: None,
    }
}

/// How much has been idle for so long. That nothing has is only known where the group has been
/// watched for so long.
fn idle(group: &Group, ms: u64) -> Option<u64> {
    let long = group.idle.iter().filter(|(idle_ms, _)| *idle_ms >= ms).map(|(_, bytes)| *bytes);
    let bytes = long.fold(0, u64::saturating_add);
    (bytes > 0 || group.watched_ns / 1_000_000 >= ms).then_some(bytes)
}

impl Work {
    /// Records what has just happened.
    pub(super) fn record(&mut self, happened: &Happened) {
        let Some(recorder) = &mut self.recorder else { return };
        recorder.record(&mut self.monitor, happened);
        self.tell_lost();
    }

    /// Tells what the record has lost.
    fn tell_lost(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        for event in recorder.take_events() {
            // All other events are told by the context itself.
            if let recorder::Event::Lost(err) = event {
                self.events.send(Event::Unrecorded { text: err.to_string() });
            }
        }
    }

    /// Takes in what was paged out since this was called last, while processes that have ended
    /// since then are still known.
    pub(super) fn note_paged_out(&mut self) {
        let paged_out = self.monitor.actor().take_paged_out();
        if let (Some(groups), Some(_)) = (&self.groups, &self.recorder) {
            self.rows.add(groups, paged_out);
        }
    }

    /// Records what cgroups use, if it is time for that, or the `last` time.
    pub(super) fn record_cgroups(&mut self, summary: &Summary, now: Time, last: bool) {
        let Some(recorder) = &mut self.recorder else { return };
        if self.groups.is_none() || !(last || self.rows.are_due(summary.groups.len(), now)) {
            return;
        }
        let pages_out = self.policy.memory().is_none() && !self.place.is_kernel();
        let mut schemes = self.policy.schemes.iter();
        let pages_out =
            pages_out && schemes.any(|s| s.scheme.action == Action::Pageout && !s.settings.dry_run);
        if let Some(rows) = self.rows.take(&summary.groups, &summary.spans_us, pages_out, now) {
            recorder.cgroups(rows);
        }
        self.tell_lost();
    }

    /// Records what cgroups used until now, before the context ends or is paused.
    pub(super) fn last_rows(&mut self) {
        if self.groups.is_some() && self.recorder.is_some() {
            self.note_paged_out();
            let summary = self.summary();
            self.record_cgroups(&summary, clock::now(), true);
        }
    }

    /// Finishes the record, and begins one at this path, if there is one.
    pub(super) fn begin_record(&mut self, path: Option<PathBuf>) {
        let former = self.recorder.take();
        let finished = former.map(|r| r.finish(&mut self.monitor, "another record goes on"));
        if let Some(Err(err)) = finished {
            self.events.send(Event::Unrecorded { text: err.to_string() });
        }
        let Some(path) = path else { return };
        let command = ["isotherm", "agent", &self.policy.name].map(str::to_owned);
        let created = Recorder::builder(path).command(command).create(&mut self.monitor);
        match created.and_then(|mut recorder| recorder.keep().map(|()| recorder)) {
            Ok(mut recorder) => {
                recorder.take_over(&self.targets);
                self.recorder = Some(recorder);
            }
            Err(err) => self.events.send(Event::Unrecorded { text: err.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::{SPANS, Touched, TouchedBytes};

    use super::*;
    use crate::groups::Tiers;

    const S: u64 = 1_000_000_000;

    fn group(cgroup: &str, watched_s: u64) -> Group {
        let mut spans = [None; SPANS];
        spans[1] = Some(TouchedBytes { bytes: 7, ..TouchedBytes::default() });
        Group {
            cgroup: cgroup.to_owned(),
            processes: 2,
            tiers: Tiers { hot: 1, warm: 2, cold: 3, unresolved: 4 },
            touched: Some(Touched { spans, watched: 10 }),
            working_set: 5,
            idle: vec![(1000, 8), (60_000, 4), (700_000, 2)],
            watched_ns: watched_s * S,
            ..Group::default()
        }
    }

    #[test]
    fn what_was_not_measured_is_none() {
        let told = row(&group("/a", 700));
        assert_eq!((told.cgroup.as_str(), told.processes, told.working_set), ("/a", 2, 5));
        assert_eq!((told.hot, told.warm, told.cold, told.unresolved), (1, 2, 3, 4));
        assert_eq!(told.touched, [None, Some(7), None, None, None]);
        assert_eq!(told.idle, [Some(6), Some(2), None], "it is watched for less than an hour");
        let by_regions = Group { touched: None, idle: Vec::new(), ..group("/a", 700) };
        let told = row(&by_regions);
        assert_eq!((told.touched, told.idle), (vec![], vec![Some(0), Some(0), None]));
    }

    #[test]
    fn rows_tell_what_was_since_the_last_ones() {
        let mut rows = Rows::default();
        let paged = |asked| PagedOut { asked, done: asked / 2, refaulted: 1 };
        rows.paged_out = [("/a", 8), ("/gone", 4)].map(|(n, p)| (n.to_owned(), paged(p))).into();
        let window = Snapshot { start: Time(5 * S), end: Time(8 * S), ..Snapshot::default() };
        rows.window(&window);
        let groups = [group("/a", 1), group("/b", 1)];
        let told = rows.take(&groups, &[1, 2, 3, 4, 5], true, Time(9 * S)).unwrap();
        assert_eq!((told.t_ns, told.seen_ns), (9 * S, 3 * S));
        let paged = |told: &Cgroups| -> Vec<(String, Option<u64>)> {
            let of = |row: &CgroupUse| (row.cgroup.clone(), row.paged_out.map(|p| p.asked));
            told.cgroups.iter().map(of).collect()
        };
        let named = |name: &str, asked| (name.to_owned(), asked);
        let all = [named("/a", Some(8)), named("/b", Some(0)), named("/gone", Some(4))];
        assert_eq!(paged(&told), all);
        // Nothing twice, and nothing where no scheme pages out.
        let told = rows.take(&groups, &[], false, Time(19 * S)).unwrap();
        assert_eq!((told.seen_ns, paged(&told)), (0, vec![named("/a", None), named("/b", None)]));
        assert_eq!(rows.take(&[], &[], true, Time(29 * S)), None);
    }

    #[test]
    fn many_cgroups_have_rows_less_often() {
        let rows = Rows { written_at: Time(100 * S), ..Rows::default() };
        for (cgroups, after_s) in [(0, 10), (50, 10), (51, 11), (2000, 400)] {
            let due: Vec<u64> =
                (0..500).filter(|s| rows.are_due(cgroups, Time((100 + s) * S))).collect();
            assert_eq!(due.first(), Some(&after_s), "{cgroups}");
        }
        assert!(Rows::default().are_due(5, Time(100 * S)), "the first come at once");
    }
}
