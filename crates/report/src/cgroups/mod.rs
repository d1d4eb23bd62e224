//! What cgroups used over time, from the rows that an agent writes into its history.
//!
//! The idea: every row stands for the time since the row before, as far as its cgroup was watched
//! then. Medians, quartiles and the greatest value are therefore over time that was watched. For
//! example, 1 MiB for 50 min and 9 MiB for 10 min have the median 1 MiB and the maximum 9 MiB.
//!
//! Invariants: what no row has measured is `None`. A time in which a cgroup was not watched counts
//! as nothing. Quartiles are rounded down by at most 0.1 %, so that a month of rows needs no more
//! memory than an hour; maxima are exact.
//!
//! Absent: snapshots. Memory that processes share would count several times in them.

mod over;
mod text;

use std::collections::BTreeMap;

use isotherm_core::Time;
use isotherm_record::{CgroupUse, Cgroups, PagedOut, Record};
use serde::Serialize;

use crate::error::Error;
use over::Values;

pub use over::Over;

/// How much was touched within a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Touched {
    /// The span, in ns.
    pub span_ns: u64,
    /// Bytes; none if that was never measured.
    #[serde(flatten)]
    pub over: Option<Over>,
}

/// How much was idle for at least so long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Idle {
    /// For so long, in ms.
    pub idle_ms: u64,
    /// Bytes; none if that was never measured.
    #[serde(flatten)]
    pub over: Option<Over>,
}

/// What a cgroup used, as one context saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its path.
    pub cgroup: String,
    /// Which context saw it, as POLICY/CONTEXT; empty for a single record.
    pub context: String,
    /// For how long it was watched within the time of the report, in ns.
    pub watched_ns: u64,
    /// How many rows there are.
    pub rows: u64,
    /// All its memory that was watched, in bytes.
    pub memory: Option<Over>,
    /// The working set of single windows by regions, in bytes.
    pub working_set: Option<Over>,
    /// By span, if the method sees single pages.
    pub touched: Vec<Touched>,
    /// By idle time.
    pub idle: Vec<Idle>,
    /// What was paged out in all that time; none if no scheme does that.
    pub paged_out: Option<PagedOut>,
}

/// The report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Version of the format. It is increased when a field changes its meaning.
    pub schema: u32,
    /// How long the time of the report is, in ns.
    pub of_ns: u64,
    /// The cgroups, those with the most memory first.
    pub cgroups: Vec<Line>,
    /// What could not be read of the records; empty if nothing.
    pub damage: String,
}

/// Adds up rows.
#[derive(Debug, Default)]
pub struct Build {
    groups: BTreeMap<(String, String), Sums>,
    first_last: Option<(Time, Time)>,
    has_rows: bool,
    damage: Vec<String>,
}

/// What is known of a cgroup in a context.
#[derive(Debug, Default)]
struct Sums {
    watched_ns: u64,
    rows: u64,
    memory: Values,
    working_set: Values,
    /// By span in µs.
    touched: BTreeMap<u64, Values>,
    /// By idle time in ms.
    idle: BTreeMap<u64, Values>,
    paged_out: Option<PagedOut>,
}

impl Build {
    /// Takes in the rows of a record from some time on (by the record's clock), of cgroups that
    /// match. `context`: whose record it is; empty if there is only one.
    ///
    /// # Errors
    ///
    /// If the operating system cannot read it. Damage is no error.
    pub fn add(
        &mut self,
        context: &str,
        record: &Record,
        from: Time,
        matches: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let started = Time(record.header().started_ns.max(from.as_ns()));
        self.first_last =
            Some(self.first_last.map_or((started, started), |(first, last)| {
                (first.min(started), last.max(started))
            }));
        let mut reader = record.reader()?;
        while let Some(rows) = reader.next_cgroups()? {
            let Some(reach) = rows.t_ns.checked_sub(from.as_ns()) else { continue };
            if let Some((_, last)) = &mut self.first_last {
                *last = (*last).max(Time(rows.t_ns));
            }
            self.has_rows |= !rows.cgroups.is_empty();
            for row in rows.cgroups.iter().filter(|row| matches(&row.cgroup)) {
                let key = (row.cgroup.clone(), context.to_owned());
                self.groups.entry(key).or_default().add(rows, row, reach);
            }
        }
        let damage = reader.damage();
        if !damage.is_none() {
            self.damage.push(format!("{}: {damage}", record.name()));
        }
        Ok(())
    }

    /// Whether there were rows within the time, of whatever cgroup.
    #[must_use]
    pub const fn has_rows(&self) -> bool {
        self.has_rows
    }

    /// The report. `of_ns`: how long the time is that was asked for; none: as long as the records
    /// are.
    #[must_use]
    pub fn report(self, of_ns: Option<u64>) -> Report {
        let length = self.first_last.map_or(0, |(first, last)| last.since(first));
        let lines = self.groups.into_iter();
        let mut cgroups: Vec<Line> = lines.map(|(key, sums)| sums.line(key)).collect();
        cgroups.sort_by_key(|line| std::cmp::Reverse(line.memory.map_or(0, |over| over.median)));
        Report {
            schema: crate::SCHEMA_VERSION,
            of_ns: of_ns.unwrap_or(length),
            cgroups,
            damage: self.damage.join("; "),
        }
    }
}

impl Sums {
    /// Adds a row. `reach`: how much time before it is within the report, in ns.
    fn add(&mut self, rows: &Cgroups, row: &CgroupUse, reach: u64) {
        let watched = row.watched_ns.min(rows.seen_ns).min(reach);
        self.watched_ns = self.watched_ns.saturating_add(watched);
        self.rows += 1;
        let memory = [row.hot, row.warm, row.cold, row.unresolved];
        self.memory.add(memory.into_iter().fold(0, u64::saturating_add), watched);
        self.working_set.add(row.working_set, watched);
        for (us, bytes) in rows.spans_us.iter().zip(&row.touched) {
            self.touched.entry(*us).or_default().add_if(*bytes, watched);
        }
        for (ms, bytes) in rows.idle_ms.iter().zip(&row.idle) {
            self.idle.entry(*ms).or_default().add_if(*bytes, watched);
        }
        if let Some(more) = row.paged_out {
            let sum = self.paged_out.get_or_insert_default();
            sum.asked = sum.asked.saturating_add(more.asked);
            sum.done = sum.done.saturating_add(more.done);
            sum.refaulted = sum.refaulted.saturating_add(more.refaulted);
        }
    }

    fn line(self, (cgroup, context): (String, String)) -> Line {
        let touched = self.touched.into_iter();
        let touched = touched
            .map(|(us, values)| Touched { span_ns: us.saturating_mul(1000), over: values.over() });
        let idle = self.idle.into_iter();
        let idle = idle.map(|(idle_ms, values)| Idle { idle_ms, over: values.over() });
        Line {
            cgroup,
            context,
            watched_ns: self.watched_ns,
            rows: self.rows,
            memory: self.memory.over(),
            working_set: self.working_set.over(),
            touched: touched.collect(),
            idle: idle.collect(),
            paged_out: self.paged_out,
        }
    }
}

impl Report {
    /// As JSON, in one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// For people: a block for every cgroup.
    #[must_use]
    pub fn to_text(&self) -> String {
        crate::shown::written(|out| text::write(self, out))
    }
}

#[cfg(test)]
mod tests {
    use isotherm_record::{Header, Writer};

    use super::*;

    const S: u64 = 1_000_000_000;
    const MIB: u64 = 1 << 20;

    fn used(cgroup: &str, watched_s: u64, mib: u64, idle: Option<u64>) -> CgroupUse {
        CgroupUse {
            cgroup: cgroup.to_owned(),
            processes: 1,
            watched_ns: watched_s * S,
            hot: mib * MIB,
            touched: vec![Some(mib * MIB), None],
            idle: vec![idle.map(|mib| mib * MIB)],
            ..CgroupUse::default()
        }
    }

    /// A record with rows every 10 s.
    fn record(rows: impl IntoIterator<Item = Vec<CgroupUse>>) -> Vec<u8> {
        let header = Header { started_ns: 100 * S, ..Header::default() };
        let mut writer = Writer::new(Vec::new(), &header).unwrap();
        for (nr, cgroups) in (1..).zip(rows) {
            let (spans_us, idle_ms) = (vec![1_000_000, 60_000_000], vec![60_000]);
            let (t_ns, seen_ns) = ((100 + nr * 10) * S, 10 * S);
            writer.cgroups(Cgroups { t_ns, seen_ns, spans_us, idle_ms, cgroups }).unwrap();
        }
        writer.finish(Time(0), "over").unwrap().0
    }

    fn build(bytes: Vec<u8>, from_s: u64, matches: impl Fn(&str) -> bool) -> Report {
        let mut build = Build::default();
        let record = Record::from_bytes(bytes).unwrap();
        build.add("p/c", &record, Time(from_s * S), matches).unwrap();
        build.report(None)
    }

    #[test]
    fn rows_count_for_the_time_that_was_watched() {
        // Watched from 105 s on: a row of 5 s, then 9 of 10 s; large in the last two.
        let rows = (1..=10).map(|nr| {
            let mib = if nr > 8 { 9 } else { 1 };
            vec![used("/a", nr * 10 - 5, mib, (nr > 6).then_some(3)), used("/b", 0, 7, None)]
        });
        let report = build(record(rows), 0, |_| true);
        assert_eq!((report.of_ns, report.damage.as_str()), (100 * S, ""));
        let [a, b] = &report.cgroups[..] else { panic!("{report:?}") };
        assert_eq!((a.cgroup.as_str(), a.context.as_str(), a.rows), ("/a", "p/c", 10));
        assert_eq!(a.watched_ns, 95 * S);
        let over = |p25, median, p75, max, seconds| {
            let [p25, median, p75, max] = [p25, median, p75, max].map(|mib: u64| mib * MIB);
            Some(Over { p25, median, p75, max, measured_ns: seconds * S })
        };
        assert_eq!(a.memory, over(1, 1, 1, 9, 95));
        assert_eq!(a.touched[0].over, over(1, 1, 1, 9, 95));
        assert_eq!((a.touched[1].span_ns, a.touched[1].over), (60 * S, None));
        assert_eq!((a.idle[0].idle_ms, a.idle[0].over), (60_000, over(3, 3, 3, 3, 40)));
        assert_eq!(a.paged_out, None);
        // Seen, and not watched for any time.
        assert_eq!((b.watched_ns, b.rows, b.memory), (0, 10, None));
        let text = report.to_text();
        assert!(text.contains("watched for 95.0 s of 1.67 min (95.0 %), 10 rows"), "{text}");
    }

    #[test]
    fn only_the_time_and_the_cgroups_that_are_asked_for_count() {
        let rows = (1..=10).map(|nr| vec![used("/a", nr * 10, nr, None), used("/b", 0, 1, None)]);
        let bytes = record(rows);
        let report = build(bytes.clone(), 165, |cgroup| cgroup == "/a");
        let [a] = &report.cgroups[..] else { panic!("{report:?}") };
        // The row of 170 s reaches back to 160 s, of which 5 s are asked for.
        assert_eq!((a.rows, a.watched_ns, report.of_ns), (4, 35 * S, 35 * S));
        assert_eq!(a.memory.map(|over| (over.p25, over.max)), Some((8 * MIB, 10 * MIB)));
        // Whatever is cut off or destroyed: the rows before it are there, and none that is not.
        let whole = build(bytes.clone(), 0, |_| true).cgroups[0].rows;
        for len in (40..bytes.len()).step_by(7) {
            let Ok(record) = Record::from_bytes(bytes[..len].to_vec()) else { continue };
            let mut build = Build::default();
            build.add("", &record, Time(0), |cgroup| cgroup == "/a").unwrap();
            let report = build.report(None);
            let rows = report.cgroups.first().map_or(0, |line| line.rows);
            assert!(rows <= whole, "{len}");
            let share = len * 10 / bytes.len();
            assert!(rows + 2 >= share as u64, "{rows} rows of {len} bytes");
        }
    }

    #[test]
    fn what_was_paged_out_is_summed_also_of_cgroups_that_are_gone() {
        let paged = |done| Some(PagedOut { asked: 2 * done, done, refaulted: 1 });
        let with =
            |cgroup: &str, done| CgroupUse { paged_out: paged(done), ..used(cgroup, 10, 1, None) };
        let gone = CgroupUse { watched_ns: 0, ..with("/b", 7) };
        let report = build(record([vec![with("/a", 5)], vec![with("/a", 6), gone]]), 0, |_| true);
        let sums: Vec<_> = report.cgroups.iter().map(|l| l.paged_out.unwrap()).collect();
        assert_eq!(sums[0], PagedOut { asked: 22, done: 11, refaulted: 2 });
        assert_eq!(sums[1], PagedOut { asked: 14, done: 7, refaulted: 1 });
        let text = report.to_text();
        assert!(text.contains("asked 22 B, done 11 B, touched again 2 B"), "{text}");
    }
}
