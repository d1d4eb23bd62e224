//! Which processes match rules now, followed cheaply on a machine with thousands of processes and
//! cgroups.
//!
//! A [`Roster`] is polled about once a second. A poll finds
//!
//! * that a process has started: the last pid in `/proc/loadavg` changes, and `/proc` is listed;
//! * that a young process runs another program or is moved: the young are read at every poll;
//! * that a process moves to or from a cgroup that matches: `cgroup.procs` of that cgroup is read,
//!   at every poll, or in turn if there are hundreds of such cgroups;
//! * that a cgroup is made or removed: inotify tells, and without it a walk of the tree every 5 s;
//! * anything else, such as a change of user: processes are read in turn, as far as the budget
//!   allows. [`Roster::oldest_ns`] tells how far that is.
//!
//! Listing `/proc` is the only part whose cost grows with the machine: about 1 µs per process.
//!
//! Never a member: we ourselves, threads of the kernel, zombies, and the machine's init process.

mod dirs;
mod known;
mod rule;

use std::collections::BTreeSet;
use std::path::PathBuf;

use isotherm_core::Time;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::Proc;

pub use dirs::Followed;
pub use rule::Rule;

use dirs::Dirs;
use known::Table;
use rule::Matcher;

/// The processes that match rules.
#[derive(Debug)]
pub struct Roster {
    proc: Proc,
    matcher: Matcher,
    table: Table,
    dirs: Dirs,
    has_begun: bool,
}

impl Roster {
    /// Of the machine with this `/proc`, whose other files are below `root`. Reads nothing yet.
    #[must_use]
    pub fn new(proc: Proc, root: impl Into<PathBuf>, rules: Vec<Rule>) -> Self {
        let mounted = Cgroups::mounted(&proc);
        let rules = rules.into_iter().map(|rule| match rule {
            // The full path of a cgroup's directory names it as well.
            Rule::Cgroup(pattern) => Rule::Cgroup(mounted.below_mount(&pattern).to_owned()),
            rule => rule,
        });
        let matcher = Matcher::new(rules.collect(), root.into());
        Self { proc, matcher, table: Table::default(), dirs: Dirs::default(), has_begun: false }
    }

    /// Takes in what has changed. The first time reads every process.
    pub fn poll(&mut self, now: Time) {
        let Self { proc, matcher, table, dirs, has_begun } = self;
        let renamed = matcher.refresh(now, table.take_unnamed());
        let all = renamed || !std::mem::replace(has_begun, true);
        let mut moved = BTreeSet::new();
        if matcher.asks_for_cgroups() {
            if renamed {
                dirs.walk_again();
            }
            moved = dirs.poll(proc, matcher, now);
        }
        table.poll(proc, matcher, now, &moved, all);
    }

    /// The processes that match, sorted.
    pub fn members(&self) -> impl Iterator<Item = u32> {
        self.table.members()
    }

    /// For how long the process that waits the longest was not read, in ns.
    #[must_use]
    pub fn oldest_ns(&self, now: Time) -> u64 {
        self.table.oldest_ns(now)
    }

    /// The cgroups that match, and how old what is known of each is.
    pub fn followed(&self, now: Time) -> impl Iterator<Item = Followed> {
        self.dirs.followed(now)
    }
}
