//! A simulated world: processes with memory under a virtual clock, which the production core
//! watches.
//!
//! A [`World`] is an operations set, and a [`VirtualClock`] is its clock. So
//! [`Driver`](isotherm_core::Driver) runs the same code as over a real process. [`Simulation`]
//! joins the three, and adds and removes targets as processes start and end. Workloads are the
//! configs of [`crate::config`]. The same text runs as a real process (`isotherm workload`) and in
//! a world, and both write the same truth.
//!
//! # How hours pass in seconds
//!
//! No access is executed. A page-table leaf has one bit of state. Only when it is looked at does
//! the world compute whether the leaf was touched since the last look:
//!
//! * *random* patterns are Poisson processes: with m touches expected since then, the chance is 1 -
//!   exp(-m), and a hash of (seed, process, leaf, both times) decides. Poisson processes have no
//!   memory, so two looks in an interval find a touched page as often as one look does;
//! * *sweeps* are exact: access k happens at k / rate, and the world computes whether one of them
//!   falls on the leaf.
//!
//! A touched leaf stays young until it is made old. Example: a page touched 100 times per second on
//! average and looked at 5 ms after it was made old is young with chance 1 - exp(-0.5) = 0.39.
//!
//! Invariants: the answer to a look depends only on the seed, the leaf and the times of its looks.
//! So a seed replays a run bit for bit, and looks at one page change nothing for another. Absent:
//! caches, TLBs, and the time that the target loses because it is watched.

mod chance;
mod clock;
mod faults;
mod lane;
mod memory;
mod ops;
mod process;
mod schedule;
mod simulation;
mod truth;

use std::cell::Cell;
use std::rc::Rc;

use isotherm_core::{AddrRange, TargetId, Time};

use crate::config::Config;
use crate::pattern::{Plan, plans};

pub use clock::VirtualClock;
pub use faults::Faults;
pub use simulation::Simulation;

use chance::exponential;
use clock::Now;
use memory::Memory;
use process::Process;
use schedule::{NS_PER_MS, Schedule};

/// The cost of the operations in virtual ns. They are free by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Costs {
    /// Looking at one page.
    pub check_ns: u64,
    /// Clearing one accessed bit.
    pub clear_ns: u64,
}

/// Options of a world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Seed of all random choices.
    pub seed: u64,
    /// How long the world lasts, in ms; phases repeat until then. `None` runs all phases once.
    pub duration_ms: Option<u64>,
    /// Accesses per second of one thread, for patterns without a rate.
    pub full_speed: f64,
    /// The faults to inject.
    pub faults: Faults,
    /// The cost of the operations.
    pub costs: Costs,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            duration_ms: None,
            full_speed: 20e6,
            faults: Faults::default(),
            costs: Costs::default(),
        }
    }
}

/// Counts of the operations that a world was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pages looked at.
    pub checks: u64,
    /// Accessed bits cleared.
    pub clears: u64,
    /// Virtual time that both took.
    pub spent_ns: u64,
}

/// A process, as a monitor may know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its id as a target, which is its number in the fork tree.
    pub id: TargetId,
    /// Its pid in the truth.
    pub pid: u32,
    /// The pid of the process that forked it.
    pub parent_pid: Option<u32>,
    /// When it was forked.
    pub start: Time,
    /// When it ends.
    pub end: Time,
}

/// A simulated world.
#[derive(Debug)]
pub struct World {
    config: Config,
    plans: Vec<Vec<Plan>>,
    schedule: Schedule,
    /// Sorted by number. A process is missing if its parent died before the fork.
    processes: Vec<Process>,
    now: Now,
    options: Options,
    counts: Counts,
}

impl World {
    /// The world of `config`, at time 0.
    #[must_use]
    pub fn new(config: &Config, options: &Options) -> Self {
        let plans = plans(config);
        let ms = options.duration_ms.unwrap_or_else(|| config.total_ms());
        let schedule = Schedule::new(config, Time(ms.saturating_mul(NS_PER_MS)));
        let memory = Memory::map(config, &schedule);
        let mut processes: Vec<Process> = Vec::new();
        for number in 0..config.settings.processes {
            let fork_ms = config.settings.fork_ms.saturating_mul(u64::from(number));
            let start = Time(fork_ms.saturating_mul(NS_PER_MS));
            let parent = number.checked_sub(1).map(|n| n / 2);
            let is_forked =
                parent.is_none_or(|n| processes.iter().any(|p| p.number == n && p.is_alive(start)));
            if start < schedule.end && is_forked {
                let life = (start, end_of_life(options, number, start).min(schedule.end));
                let memory = memory.clone();
                let speed = options.full_speed;
                processes.push(Process::new(number, life, config, &plans, memory, speed));
            }
        }
        Self {
            config: config.clone(),
            plans,
            schedule,
            processes,
            now: Rc::new(Cell::new(Time(0))),
            options: *options,
            counts: Counts::default(),
        }
    }

    /// The clock of this world.
    #[must_use]
    pub fn clock(&self) -> VirtualClock {
        VirtualClock::new(Rc::clone(&self.now), self.options.seed, self.options.faults)
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now.get()
    }

    /// When the world ends.
    #[must_use]
    pub const fn end(&self) -> Time {
        self.schedule.end
    }

    /// Counts of the operations that it was asked for so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// All processes that ever exist, in order of their start.
    pub fn processes(&self) -> impl Iterator<Item = ProcessInfo> {
        self.processes.iter().map(|p| ProcessInfo {
            id: TargetId(p.number),
            pid: pid(p.number),
            parent_pid: p.parent.map(pid),
            start: p.start,
            end: p.end,
        })
    }

    /// The mappings of a process now, with the names of their regions.
    pub fn mappings(&self, id: TargetId) -> impl Iterator<Item = (AddrRange, &str)> {
        let (now, regions) = (self.now(), &self.config.regions);
        let process = self.process(id).filter(|p| p.is_alive(now));
        let memory = process.into_iter().flat_map(|p| &p.memory).zip(regions);
        memory.map(move |(m, r)| (m.mapped(now), r.name.as_str())).filter(|(m, _)| !m.is_empty())
    }

    /// The truth about the leaf at `addr` of a process: the mean chance, over all sample intervals
    /// of `sample_us` in `[from, until)`, that it is touched. `None` if nothing is mapped there at
    /// `from`.
    #[must_use]
    pub fn truth(
        &self,
        id: TargetId,
        addr: u64,
        from: Time,
        until: Time,
        sample_us: u64,
    ) -> Option<f64> {
        let process = self.process(id)?;
        let (region, leaf) = process.leaf(addr, from)?;
        let (mut sum, mut n) = (0.0, 0.0);
        let mut at = from;
        while at < until {
            let next = at.plus_us(sample_us.max(1));
            sum += process.chance(&self.schedule, region, leaf.bytes, at, next);
            n += 1.0;
            at = next;
        }
        (n > 0.0).then(|| sum / n)
    }

    fn process(&self, id: TargetId) -> Option<&Process> {
        self.processes.iter().find(|p| p.number == id.0)
    }
}

/// The pid of process `number`.
const fn pid(number: u32) -> u32 {
    1000 + number
}

/// When a fault kills process `number`.
fn end_of_life(options: &Options, number: u32, start: Time) -> Time {
    if options.faults.vanish <= 0.0 {
        return Time(u64::MAX);
    }
    let s = exponential(&[options.seed, 3, u64::from(number)]) / options.faults.vanish;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time from 0 on; `as` saturates"
    )]
    let ns = (s * 1e9) as u64;
    start + ns
}
