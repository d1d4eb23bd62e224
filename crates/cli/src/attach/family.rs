//! The processes that were asked for, by their pids and by rules, and their children.
//!
//! Who matches a rule is found out anew whenever [`Family::refresh`] is called; a pid is that of
//! the process that had it first. Absent: whether somebody watches them.

use std::collections::BTreeSet;

use isotherm::raw::agent::policy::TargetSpec;
use isotherm::raw::host::proc::{Proc, TaskState};
use isotherm::raw::ops::targets::find;
use isotherm::raw::ops::targets::roster::Roster;
use isotherm::raw::sys::clock;

/// The processes that were asked for, and their children if these were, too.
#[derive(Debug)]
pub(crate) struct Family {
    /// Those that were named by their pids.
    named: BTreeSet<u32>,
    /// Those that match a rule now.
    matching: BTreeSet<u32>,
    children: bool,
    /// Finds what the rules name; none if there are none.
    roster: Option<Roster>,
    /// Processes with at least so much resident memory are meant, in bytes.
    least_rss: Option<u64>,
    proc: Proc,
    buf: Vec<u8>,
}

impl Family {
    /// What these specifications name. A command and physical memory name no process here.
    pub(super) fn new(specs: &[TargetSpec], children: bool) -> Self {
        let proc = Proc::default();
        let named = specs.iter().filter_map(|spec| match spec {
            TargetSpec::Pid(pid) => Some(*pid),
            _ => None,
        });
        let least = specs.iter().filter_map(|spec| match spec {
            TargetSpec::Rss(least) => Some(*least),
            _ => None,
        });
        let rules: Vec<_> = specs.iter().filter_map(TargetSpec::rule).collect();
        let roster = |rules| Roster::new(proc.clone(), "/", rules);
        Self {
            named: named.collect(),
            matching: BTreeSet::new(),
            children,
            roster: (!rules.is_empty()).then(|| roster(rules)),
            least_rss: least.min(),
            proc,
            buf: Vec::new(),
        }
    }

    /// Finds out who matches the rules now.
    pub(crate) fn refresh(&mut self) {
        let Self { matching, roster, least_rss, proc, .. } = self;
        matching.clear();
        if let Some(roster) = roster {
            roster.poll(clock::now());
            matching.extend(roster.members());
        }
        if let Some(least) = *least_rss {
            matching.extend(find::by_rss(proc, least).unwrap_or_default());
        }
    }

    /// Whether processes that do not exist yet can belong to it by a rule.
    pub(crate) const fn more_may_come(&self) -> bool {
        self.roster.is_some() || self.least_rss.is_some()
    }

    /// Those that were named or match, without their children.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.named.union(&self.matching).copied()
    }

    /// Those of [`Family::pids`] that have memory which could be watched, without this program.
    pub(super) fn living(&mut self) -> impl Iterator<Item = u32> {
        let Self { named, matching, proc, buf, .. } = self;
        let has_memory = |pid: &u32| {
            let stat = proc.stat(*pid, buf);
            stat.is_ok_and(|stat| stat.state == TaskState::Alive && stat.rss_pages > 0)
                && !find::is_init(proc, *pid)
        };
        let own = std::process::id();
        named.union(matching).copied().filter(move |pid| *pid != own).filter(has_memory)
    }

    /// Whether a process is one of those asked for, or a child of one.
    pub(crate) fn has(&mut self, pid: u32) -> bool {
        /// Deeper than processes are nested.
        const MOST: usize = 64;
        let mut pid = pid;
        for _ in 0..MOST {
            if self.named.contains(&pid) || self.matching.contains(&pid) {
                return true;
            }
            match self.proc.stat(pid, &mut self.buf) {
                Ok(stat) if self.children && stat.ppid > 1 => pid = stat.ppid,
                _ => return false,
            }
        }
        false
    }

    /// Whether a process runs still.
    pub(crate) fn is_alive(&mut self, pid: u32) -> bool {
        self.proc.stat(pid, &mut self.buf).is_ok_and(|stat| stat.state == TaskState::Alive)
    }

    /// The parent of a process; 0 if it is not known.
    pub(crate) fn parent(&mut self, pid: u32) -> u32 {
        self.proc.stat(pid, &mut self.buf).map_or(0, |stat| stat.ppid)
    }
}
