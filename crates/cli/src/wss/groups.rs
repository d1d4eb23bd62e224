//! The working set by cgroup, unit, pod, container or user, in place of processes.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use isotherm::raw::agent::groups::{By, Group, Groups};
use isotherm::raw::agent::monitor::Monitor;
use isotherm::raw::core::units::{bytes, span};
use isotherm::raw::core::{Snapshot, TargetId, TouchedBytes};
use isotherm::raw::host::proc::Proc;
use isotherm::raw::report::page_maps::span_name;
use isotherm::raw::report::wss::over::over;
use serde_json::{Value, json};

use super::text::known;

/// `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ByArg {
    /// A line per process.
    Process,
    /// A line per cgroup.
    Cgroup,
    /// A line per systemd unit.
    Unit,
    /// A line per Kubernetes pod.
    Pod,
    /// A line per container.
    Container,
    /// A line per effective user.
    User,
}

impl ByArg {
    /// What makes a group; `None` for processes.
    pub(super) const fn groups(self) -> Option<By> {
        match self {
            Self::Process => None,
            Self::Cgroup => Some(By::Cgroup),
            Self::Unit => Some(By::Unit),
            Self::Pod => Some(By::Pod),
            Self::Container => Some(By::Container),
            Self::User => Some(By::User),
        }
    }
}

/// What is gathered over an interval.
#[derive(Debug)]
pub(super) struct Grouped {
    groups: Groups,
    by: By,
    interval_us: u64,
    has_head: bool,
}

/// The width of a group's name.
const NAME: usize = 36;

impl Grouped {
    pub(super) fn new(by: By, interval_us: u64) -> Self {
        let groups = Groups::new(Proc::default(), by);
        Self { groups, by, interval_us, has_head: false }
    }

    /// Takes in a window.
    pub(super) fn learn(&mut self, s: &Snapshot) {
        self.groups.learn(s);
    }

    /// Writes the lines of the interval that ends with the last window.
    pub(super) fn write(
        &mut self,
        out: &mut impl Write,
        monitor: &mut Monitor,
        elapsed: Duration,
        as_json: bool,
    ) -> std::io::Result<()> {
        let pids: BTreeMap<TargetId, u32> =
            monitor.tracker().targets().map(|t| (t.id, t.pid)).collect();
        let looks = monitor.looks();
        let (s, lengths) = (monitor.snapshot(), monitor.lengths());
        let mut groups = self.groups.now(s, lengths, &pids, &looks);
        let of = |group: &Group| self.over(group, s);
        groups.sort_by_key(|group| std::cmp::Reverse(of(group).map_or(0, |over| over.bytes)));
        if as_json {
            writeln!(out, "{}", self.json(&groups, s))?;
        } else {
            if !std::mem::replace(&mut self.has_head, true) {
                self.head(out)?;
            }
            for group in &groups {
                row(out, group, self.over(group, s), elapsed)?;
            }
            if groups.is_empty() {
                writeln!(out, "{:9.1} s{:>7}  (nobody is watched)", elapsed.as_secs_f64(), 0)?;
            }
        }
        out.flush()
    }

    /// How much of a group was touched over the interval; `None`: not measured yet.
    fn over(&self, group: &Group, s: &Snapshot) -> Option<TouchedBytes> {
        group.touched.and_then(|touched| over(&touched, s.spans_us(), self.interval_us))
    }

    fn head(&self, out: &mut impl Write) -> std::io::Result<()> {
        let by = match self.by {
            By::Cgroup => "cgroup",
            By::Unit => "unit",
            By::Pod => "pod",
            By::Container => "container",
            By::User => "user",
        };
        let over = format!("over {}", span_name(self.interval_us));
        write!(out, "{:>11}{:>7}  {by:<NAME$}{over:>16}", "time", "procs")?;
        writeln!(
            out,
            "{:>11}{:>11}{:>11}{:>12}{:>10}",
            "hot", "warm", "cold", "unresolved", "looked"
        )
    }

    fn json(&self, groups: &[Group], s: &Snapshot) -> Value {
        let group = |group: &Group| {
            let tiers = group.tiers;
            let mut fields = json!({
                "name": group.cgroup, "processes": group.processes,
                "hot_bytes": tiers.hot, "warm_bytes": tiers.warm, "cold_bytes": tiers.cold,
                "unresolved_bytes": tiers.unresolved,
                "accessed_bytes": group.working_set,
                "idle": group.idle.iter().map(|(ms, bytes)| json!({ "ms": ms, "bytes": bytes }))
                    .collect::<Vec<_>>(),
                "membership_age_ms": group.age_ns / 1_000_000,
                "waiting": group.waiting,
                "look_age_ms": group.look_age_ns / 1_000_000,
            });
            if let Some(over) = self.over(group, s) {
                (fields["wss_bytes"], fields["lo"], fields["hi"]) =
                    (over.bytes.into(), over.lo.into(), over.hi.into());
            }
            fields
        };
        json!({
            "t_ns": s.end.as_ns(),
            "interval_us": self.interval_us,
            "groups": groups.iter().map(group).collect::<Vec<_>>(),
        })
    }
}

fn row(
    out: &mut impl Write,
    group: &Group,
    over: Option<TouchedBytes>,
    elapsed: Duration,
) -> std::io::Result<()> {
    let (tiers, procs) = (group.tiers, group.processes);
    let name = end_of(&group.cgroup);
    write!(out, "{:9.1} s{procs:>7}  {name:<NAME$}{:>16}", elapsed.as_secs_f64(), known(over))?;
    let [hot, warm, cold, unresolved] =
        [tiers.hot, tiers.warm, tiers.cold, tiers.unresolved].map(bytes);
    write!(out, "{hot:>11}{warm:>11}{cold:>11}{unresolved:>12}")?;
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let looked = span(group.look_age_ns as f64);
    write!(out, "{looked:>10}")?;
    if group.waiting > 0 {
        write!(out, "  and {} without a place", group.waiting)?;
    }
    writeln!(out)
}

/// As much of a name as fits. The end of a path says more than its begin.
fn end_of(name: &str) -> String {
    let shown: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let len = shown.chars().count();
    if len < NAME {
        return shown;
    }
    format!("..{}", shown.chars().skip(len + 3 - NAME).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_begin() {
        assert_eq!(end_of("/a/b"), "/a/b");
        let long = format!("/{}/redis.service", "x".repeat(60));
        let shown = end_of(&long);
        assert!(shown.starts_with("..") && shown.ends_with("x/redis.service"), "{shown}");
        assert_eq!(shown.chars().count(), NAME - 1);
        assert_eq!(end_of("a\nb"), "a?b");
    }
}
