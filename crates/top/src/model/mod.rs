//! What the view shows, as plain values.

pub(crate) mod detail;
mod sharers;
pub(crate) mod table;
pub(crate) mod tally;

use std::sync::Arc;

use isotherm::raw::agent::groups::{By, GroupNames};
use isotherm::raw::core::TouchedBytes;

pub(crate) use detail::Detail;
pub(crate) use sharers::{Member, Sharers};
pub(crate) use tally::Tiers;

/// The spans of the columns, among the spans of a snapshot: 1 s, 10 s and 1 min.
pub(crate) const COLUMNS: std::ops::Range<usize> = 2..5;
/// How many samples of a row's working set are kept for its trend.
pub(crate) const TREND: usize = 24;
/// The time between two samples of a trend, in ns.
pub(crate) const TREND_NS: u64 = 3_000_000_000;

/// Everything that one moment shows.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub(crate) rows: Vec<Row>,
    /// What pods, containers and users are called.
    pub(crate) names: Arc<GroupNames>,
    /// What the processes share.
    pub(crate) sharers: Arc<Sharers>,
    /// More about the target that is open.
    pub(crate) detail: Option<Arc<Detail>>,
    pub(crate) head: Head,
    /// Where in a record this is; none if it is live.
    pub(crate) position: Option<Position>,
}

impl World {
    /// The group that a row belongs to; `-` if to none.
    pub(crate) fn group_of(&self, by: By, row: &Row) -> String {
        self.names.of(by, &row.cgroup, row.uid)
    }
}

/// What concerns the view as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Head {
    /// What looks at the memory, in a few words; empty until that is known.
    pub(crate) set: String,
    /// The share of one CPU that this program has used lately and since its start, and that it may
    /// use, in hundredths of a percent.
    pub(crate) used_bp: Option<u64>,
    pub(crate) mean_bp: Option<u64>,
    pub(crate) budget_bp: u64,
    /// Our own resident memory, in bytes.
    pub(crate) own_rss: u64,
    /// Free swap, in bytes.
    pub(crate) swap_free: Option<u64>,
    /// Something that the user should know, in one line.
    pub(crate) note: String,
}

/// Where in a record the view is, in ns from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    pub(crate) at_ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) is_playing: bool,
}

/// Whether a process is watched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Watch {
    /// It will be, soon.
    #[default]
    Waiting,
    Watched,
    /// It cannot be, and why.
    Refused(String),
}

/// One process, or a group of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) pid: u32,
    pub(crate) ppid: u32,
    pub(crate) name: String,
    /// Its cgroup's path; empty if it has none, or that is not known.
    pub(crate) cgroup: String,
    /// Its effective user, if that is known.
    pub(crate) uid: Option<u32>,
    /// Resident memory, in bytes.
    pub(crate) rss: Option<u64>,
    /// What was touched within 1 s, 10 s and 1 min.
    pub(crate) within: [Option<TouchedBytes>; 3],
    /// Bytes of address space that are watched.
    pub(crate) watched: u64,
    pub(crate) tiers: Tiers,
    /// How long ago its memory was looked at, on average, in ns; without a place: since when it
    /// waits.
    pub(crate) age_ns: Option<u64>,
    /// Its working set over 1 s, the oldest first.
    pub(crate) trend: Vec<u64>,
    pub(crate) watch: Watch,
}

impl Row {
    /// Adds another process to a group.
    pub(crate) fn join(&mut self, other: &Self) {
        self.rss = sum(self.rss, other.rss);
        for (mine, theirs) in self.within.iter_mut().zip(other.within) {
            *mine = match (*mine, theirs) {
                (Some(a), Some(b)) => Some(a.with(b)),
                (a, b) => a.or(b),
            };
        }
        self.watched = self.watched.saturating_add(other.watched);
        self.tiers.add(other.tiers);
        // The oldest number counts: a group is no fresher than its parts.
        self.age_ns = self.age_ns.max(other.age_ns);
        let (mine, theirs) = (self.trend.len(), other.trend.len());
        let missing = theirs.saturating_sub(mine);
        self.trend.splice(0..0, std::iter::repeat_n(0, missing));
        let skip = self.trend.len() - theirs;
        for (a, b) in self.trend[skip..].iter_mut().zip(&other.trend) {
            *a = a.saturating_add(*b);
        }
        if other.watch == Watch::Watched {
            self.watch = Watch::Watched;
        }
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_the_sum_of_its_processes_and_as_old_as_the_oldest() {
        let touched = |bytes| Some(TouchedBytes { bytes, lo: bytes, hi: bytes, measured: 10 });
        let row = |bytes, age, trend: &[u64]| Row {
            rss: Some(100),
            within: [touched(bytes), None, None],
            age_ns: age,
            trend: trend.to_vec(),
            watch: Watch::Watched,
            ..Row::default()
        };
        let mut group = row(5, Some(3), &[1]);
        group.join(&row(7, Some(9), &[10, 20, 30]));
        group.join(&Row::default());
        assert_eq!(group.rss, Some(200));
        assert_eq!(group.within[0].map(|w| w.bytes), Some(12));
        assert_eq!(group.age_ns, Some(9));
        assert_eq!(group.trend, [10, 20, 31]);
    }

    #[test]
    fn a_unit_is_the_innermost_part_that_names_one() {
        for (cgroup, unit) in [
            ("/system.slice/redis.service", "redis.service"),
            ("/user.slice/user-0.slice/session-3.scope", "session-3.scope"),
            ("/system.slice/docker-1f.scope/inner", "docker-1f.scope"),
            ("/", "-"),
            ("", "-"),
        ] {
            let row = Row { cgroup: cgroup.into(), ..Row::default() };
            assert_eq!(World::default().group_of(By::Unit, &row), unit, "{cgroup}");
        }
    }
}
