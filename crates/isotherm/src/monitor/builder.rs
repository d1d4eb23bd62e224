//! Building a monitor.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use isotherm_agent::policy::{TargetSpec, defaults};
use isotherm_core::{Attrs, Clock, Operations, TargetId};
use isotherm_sys::clock;

use super::live::{Live, Wanted};
use super::own::{AnyClock, AnySet, Own};
use super::simulated::Simulated;
use super::source::Source;
use super::{Monitor, Stopper};
use crate::doctor::{Method, Set};
use crate::operations::SystemClock;
use crate::raw::ops::targets::Memory;
use crate::sim::Workload;
use crate::units::micros;
use crate::{Bytes, Error};

/// What to watch, and how. [`Builder::build`] opens all that is needed.
///
/// Exactly one kind of thing is watched: processes (pids, a command, names, cgroups, together or
/// alone), physical memory, a simulation, or what an operations set of one's own sees.
#[derive(Debug)]
#[must_use = "nothing is watched until `build`"]
pub struct Builder {
    wanted: Wanted,
    memory: Option<String>,
    sim: Option<Workload>,
    own: Option<AnySet>,
    clock: Option<AnyClock>,
    own_targets: Vec<(TargetId, String)>,
    attrs: Attrs,
    /// Whether the user has said which method to use.
    is_method_given: bool,
    seed: Option<u64>,
}

impl Default for Builder {
    /// Nothing to watch yet; children are followed; 5 ms, 100 ms, 1 s; 10 to 1000 regions.
    fn default() -> Self {
        Self {
            wanted: Wanted::default(),
            memory: None,
            sim: None,
            own: None,
            clock: None,
            own_targets: Vec::new(),
            attrs: defaults::attrs(),
            is_method_given: false,
            seed: None,
        }
    }
}

/// What to watch.
impl Builder {
    /// Watches a process that runs.
    pub fn pid(self, pid: u32) -> Self {
        self.pids([pid])
    }

    /// Watches processes that run.
    pub fn pids(mut self, pids: impl IntoIterator<Item = u32>) -> Self {
        self.wanted.specs.extend(pids.into_iter().map(TargetSpec::Pid));
        self
    }

    /// Whether children of the targets are targets too, those to come as well. The default.
    pub const fn children(mut self, follow: bool) -> Self {
        self.wanted.children = follow;
        self
    }

    /// Starts this command and watches it. It shares this process's terminal and process group, and
    /// runs on if the monitor is dropped; see [`Monitor::end_command`]. One command per monitor.
    pub fn command(
        mut self,
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        self.wanted.command = Some((program.into(), args.into_iter().map(Into::into).collect()));
        self
    }

    /// Watches every process of this cgroup (v1 or v2) and of those below it, those to come as
    /// well: a path from the root of the hierarchy, or a pattern with `*` and `?`. Such a monitor
    /// waits when there is no process; it does not end by itself.
    pub fn cgroup(mut self, path: impl Into<String>) -> Self {
        self.wanted.specs.push(TargetSpec::Cgroup(path.into()));
        self
    }

    /// Watches every process whose command name (`/proc/PID/comm`, at most 15 bytes) matches, those
    /// to come as well: `*` and `?` as in a shell. Such a monitor waits when there is no process.
    pub fn name(mut self, pattern: impl Into<String>) -> Self {
        self.wanted.specs.push(TargetSpec::Name(pattern.into()));
        self
    }

    /// Watches every process of this systemd unit, those to come as well; a name without a type is
    /// a service. Such a monitor waits when there is no process.
    pub fn unit(mut self, name: impl Into<String>) -> Self {
        self.wanted.specs.push(TargetSpec::Unit(name.into()));
        self
    }

    /// Watches physical memory: `all`, a node (`node:1`), or ranges of addresses (`4G-6G,...`).
    pub fn physical_memory(mut self, which: impl Into<String>) -> Self {
        self.memory = Some(which.into());
        self
    }

    /// Watches a simulated workload, under a clock that does not wait.
    pub fn sim(mut self, workload: Workload) -> Self {
        self.sim = Some(workload);
        self
    }

    /// Looks by an operations set of one's own; say its targets by [`Builder::target`].
    pub fn operations(mut self, set: impl Operations + 'static) -> Self {
        self.own = Some(AnySet::new(set));
        self
    }

    /// A target of one's own operations set, named by a number that is never used twice.
    pub fn target(mut self, id: TargetId, name: impl Into<String>) -> Self {
        self.own_targets.push((id, name.into()));
        self
    }

    /// The clock for one's own operations set, instead of the machine's.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(AnyClock(Box::new(clock)));
        self
    }
}

/// How to watch. Times are counted in whole microseconds.
impl Builder {
    /// Time between two looks at a page (5 ms).
    pub fn sample(mut self, interval: Duration) -> Self {
        self.attrs.sample_us = micros(interval);
        self
    }

    /// Length of a window (100 ms); at least the sample interval.
    pub fn aggregation(mut self, interval: Duration) -> Self {
        self.attrs.aggr_us = micros(interval);
        self
    }

    /// Time between two looks at what is mapped (1 s). A change of size is noticed within 100 ms.
    pub fn update(mut self, interval: Duration) -> Self {
        self.attrs.update_us = micros(interval);
        self
    }

    /// The least (3 or more) and the largest wanted number of regions over all targets (10 to
    /// 1000).
    pub const fn regions(mut self, bounds: RangeInclusive<u64>) -> Self {
        (self.attrs.min_nr_regions, self.attrs.max_nr_regions) = (*bounds.start(), *bounds.end());
        self
    }

    /// The smallest region: a power of two (4 KiB).
    pub const fn min_region(mut self, size: Bytes) -> Self {
        self.attrs.min_region_sz = size.0;
        self
    }

    /// How pages are sampled ([`Method::Census`]; [`Method::FirstTouch`] over sets of the user's
    /// that have no units). Some sets take only one method.
    pub const fn method(mut self, method: Method) -> Self {
        self.attrs.method = method.to_core();
        self.is_method_given = true;
        self
    }

    /// With [`Method::FirstTouch`]: the most accessed bits to clear per second (200). Each costs
    /// the targets a walk of the page table.
    pub const fn clears_per_second(mut self, clears: u32) -> Self {
        self.attrs.clears_per_sec = clears;
        self
    }

    /// With [`Method::Census`]: the share of one CPU that monitoring may use, in hundredths of a
    /// percent (100). It is for its own time, and for what the targets pay for pages that they
    /// touch again: half a microsecond each.
    pub const fn budget_bp(mut self, budget: u32) -> Self {
        self.attrs.budget_bp = budget;
        self
    }

    /// All attributes at once, as the core has them.
    pub const fn attrs(mut self, attrs: Attrs) -> Self {
        self.attrs = attrs;
        self.is_method_given = true;
        self
    }

    /// The operations set that looks; by default the best that passes its self-test here.
    pub const fn set(mut self, set: Set) -> Self {
        self.wanted.set = Some(set);
        self
    }

    /// What determines which pages are drawn; by default the time for real memory, 1 for a
    /// simulation.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

impl Builder {
    /// Opens and tests the operations set (well under two seconds), takes hold of the targets, and
    /// starts the command.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if there is nothing to watch, too much, or the
    /// attributes are not valid; [`Gone`](crate::ErrorKind::Gone) if there is no such process,
    /// cgroup or command; [`Permission`](crate::ErrorKind::Permission) and
    /// [`NotSupported`](crate::ErrorKind::NotSupported) if no operations set works here.
    pub fn build(mut self) -> Result<Monitor, Error> {
        self.attrs.validate()?;
        self.verify()?;
        let seed = self.seed;
        let (mut attrs, mut notes) = (self.attrs, Vec::new());
        let source: (Box<dyn Source>, &'static str) = if let Some(workload) = self.sim {
            (Box::new(Simulated::new(&workload, attrs, seed.unwrap_or(1))?), "sim")
        } else {
            let seed = seed.unwrap_or_else(|| clock::now().as_ns());
            if let Some(set) = self.own {
                if !self.is_method_given && !set.has_units() {
                    attrs.method = Attrs::default().method;
                }
                let clock = self.clock.unwrap_or_else(|| AnyClock(Box::new(SystemClock)));
                (Box::new(Own::new(set, clock, &self.own_targets, attrs, seed)?), "own")
            } else {
                self.wanted.memory = self.memory.as_deref().map(Memory::parse).transpose()?;
                self.wanted.any_method = !self.is_method_given;
                let (live, set, why) = Live::open(self.wanted, &mut attrs, seed)?;
                notes = why;
                (Box::new(live), set)
            }
        };
        Ok(Monitor {
            source: source.0,
            set: source.1,
            notes,
            attrs,
            schemes: Vec::new(),
            events: std::collections::VecDeque::new(),
            lost_events: 0,
            stop: Stopper::default(),
        })
    }

    fn verify(&self) -> Result<(), Error> {
        let processes = !self.wanted.specs.is_empty() || self.wanted.command.is_some();
        let kinds = [processes, self.memory.is_some(), self.sim.is_some(), self.own.is_some()];
        let hint =
            "give a pid, a command, a name, a cgroup, physical memory, a simulation or a set";
        match kinds.iter().filter(|is_given| **is_given).count() {
            0 => {
                return Err(Error::invalid(
                    "there is nothing to watch",
                    "no target was given",
                    hint,
                ));
            }
            1 => {}
            _ => {
                let why =
                    "a monitor watches processes, physical memory, a simulation or an own set";
                return Err(Error::invalid(
                    "there is too much to watch",
                    why,
                    "build two monitors",
                ));
            }
        }
        if self.own.is_none() && (self.clock.is_some() || !self.own_targets.is_empty()) {
            let what = "a clock or a numbered target without an operations set";
            return Err(Error::invalid(what, "both belong to Builder::operations", ""));
        }
        Ok(())
    }
}
