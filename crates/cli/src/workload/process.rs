//! One process of a workload: its phases, forks and mapping changes, and its part of the truth.
//!
//! A process forks and changes its mappings only between episodes, while it has a single thread.
//! The threads that access memory live for one episode. All times come from one absolute schedule,
//! which the processes of a tree share.

use std::io::Write;
use std::path::Path;
use std::sync::mpsc;

use anyhow::Context;
use isotherm::raw::core::Time;
use isotherm::raw::sim::config::Config;
use isotherm::raw::sim::pattern::{Plan, plans};
use isotherm::raw::sim::truth::{Header, Line};
use isotherm::raw::sys::workload::{Arena, Child, fork_alone};
use isotherm::raw::sys::{clock, signals};

use super::episode::{self, Episode};
use super::log::Log;
use super::memory::Memory;
use super::slots::Slots;

const SLOT_NS: u64 = 100_000_000;
const NS_PER_MS: u64 = 1_000_000;

#[derive(Debug)]
struct Process<'a> {
    number: u32,
    parent: Option<u32>,
    config: &'a Config,
    plans: &'a [Vec<Plan>],
    memory: Vec<Memory>,
    leaves: Vec<u64>,
    log: Log,
    zero: Time,
    end: Time,
    children: Vec<Child>,
    accesses: u64,
}

/// A phase of the schedule, which begins again after the last one.
#[derive(Debug, Clone, Copy)]
struct Slice {
    phase: usize,
    from: Time,
    until: Time,
    /// Whether the schedule begins again here.
    first_of_round: bool,
}

/// Runs a whole workload in this process and its forks.
pub(super) fn run(
    name: &str,
    config: &Config,
    duration_ms: u64,
    truth: Option<&Path>,
    quiet: bool,
) -> anyhow::Result<()> {
    signals::install().context("set up signal handlers")?;
    let plans = plans(config);
    let mut log = Log::create(truth)?;
    let memory = Memory::map(config)?;
    let zero = clock::now() + NS_PER_MS;
    log.line(&Line::Header(Header::new(name, config, &plans, zero.as_ns(), SLOT_NS)));
    let mut process = Process {
        number: 0,
        parent: None,
        config,
        plans: &plans,
        memory,
        leaves: vec![0; config.regions.len()],
        log,
        zero,
        end: zero + duration_ms.saturating_mul(NS_PER_MS),
        children: Vec::new(),
        accesses: 0,
    };
    if !quiet {
        let seconds = duration_ms / 1000;
        writeln!(std::io::stderr(), "workload {name}: pid {}, {seconds} s", std::process::id())?;
    }
    process.live(zero)?;
    if !quiet {
        let seconds = clock::now().since(zero) / NS_PER_MS;
        let rate = process.accesses / seconds.max(1);
        writeln!(std::io::stderr(), "workload {name}: {rate} accesses/ms, {seconds} ms")?;
    }
    Ok(())
}

impl Process<'_> {
    /// Runs everything from `from` to the end of the schedule.
    fn live(&mut self, from: Time) -> anyhow::Result<()> {
        let pid = std::process::id();
        let (p, parent) = (self.number, self.parent);
        self.log.line(&Line::Process { p, pid, parent, ns: clock::now().as_ns() });
        for r in 0..self.memory.len() {
            self.note_extent(r)?;
        }
        let mut at = from;
        let mut is_first = true;
        while at < self.end && signals::stop_requested().is_none() {
            let slice = self.slice_at(at);
            if slice.from == at || is_first {
                self.begin_phase(&slice, slice.from == at && at > self.zero)?;
                is_first = false;
            }
            let until = self.next_fork(at).map_or(slice.until, |(_, t)| t.min(slice.until));
            self.episode(&slice, at, until)?;
            at = until;
            while let Some((number, _)) = self.fork_due(at) {
                self.fork(number, at)?;
            }
        }
        self.note_leaves()?;
        self.log.line(&Line::End { p, ns: clock::now().min(self.end).as_ns() });
        self.wait_for_children();
        self.log.finish()
    }

    /// The phase at `at`.
    fn slice_at(&self, at: Time) -> Slice {
        let ns = |ms: u64| ms.saturating_mul(NS_PER_MS);
        let round = ns(self.config.total_ms()).max(1);
        let start = self.zero + at.since(self.zero) / round * round;
        let mut from = start;
        let mut last = 0;
        for (i, phase) in self.config.phases.iter().enumerate() {
            let until = from + ns(phase.time_ms);
            if at < until {
                let first_of_round = from == start;
                return Slice { phase: i, from, until: until.min(self.end), first_of_round };
            }
            (from, last) = (until, i);
        }
        Slice { phase: last, from, until: self.end, first_of_round: false }
    }

    /// Resizes regions as the phase says, and writes the change to the truth. A process that starts
    /// within a phase has inherited its parent's regions.
    fn begin_phase(&mut self, slice: &Slice, resize: bool) -> anyhow::Result<()> {
        let (p, i) = (self.number, slice.phase);
        let mut sizes = Vec::new();
        if slice.first_of_round && resize {
            sizes.extend(self.config.regions.iter().map(|r| r.mapped).enumerate());
        }
        if resize || slice.from == self.zero {
            sizes.extend(&self.config.phases[i].resize);
        }
        for (r, size) in sizes {
            if self.memory[r].arena.range().len() != size.next_multiple_of(4096) {
                let ns = clock::now().as_ns();
                self.log.line(&Line::Map { p, r, ns, start: 0, end: 0, leaf: 0 });
                self.memory[r].resize(size)?;
                self.note_extent(r)?;
            }
        }
        self.note_leaves()?;
        self.log.line(&Line::Phase { p, i, ns: clock::now().as_ns() });
        for plan in &self.plans[i] {
            let Some(every) = plan.moves_every_ns().filter(|e| *e > 0) else { continue };
            let mut ns = slice.from + every;
            while ns < slice.until {
                self.log.line(&Line::Move { p, id: plan.id, ns: ns.as_ns() });
                ns = ns + every;
            }
        }
        Ok(())
    }

    fn note_extent(&mut self, r: usize) -> anyhow::Result<()> {
        let range = self.memory[r].arena.range();
        let leaf = self.memory[r].leaf()?;
        self.leaves[r] = leaf;
        let (p, ns) = (self.number, clock::now().as_ns());
        self.log.line(&Line::Map { p, r, ns, start: range.start, end: range.end, leaf });
        Ok(())
    }

    /// Writes to the truth which regions' huge pages were made or split since the last look.
    fn note_leaves(&mut self) -> anyhow::Result<()> {
        for r in 0..self.memory.len() {
            if self.memory[r].leaf()? != self.leaves[r] {
                self.note_extent(r)?;
            }
        }
        Ok(())
    }

    fn episode(&mut self, slice: &Slice, from: Time, until: Time) -> anyhow::Result<()> {
        let number = self.number;
        let ours = self.plans[slice.phase].iter();
        let plans: Vec<Plan> =
            ours.filter(|plan| plan.process.is_none_or(|n| n == number)).cloned().collect();
        let arenas: Vec<&Arena> = self.memory.iter().map(|m| &m.arena).collect();
        let episode = Episode {
            plans: &plans,
            arenas: &arenas,
            from,
            until,
            phase: slice.from,
            zero: self.zero,
            slot_ns: SLOT_NS,
            threads: self.config.settings.threads,
            seed: self.config.settings.seed ^ (u64::from(number) << 56) ^ from.since(self.zero),
        };
        while clock::now() < from && signals::stop_requested().is_none() {
            clock::sleep_until(from);
        }
        let (log, accesses) = (&mut self.log, &mut self.accesses);
        std::thread::scope(|scope| {
            let (sender, reports) = mpsc::channel();
            let mut slots = Slots::new(usize::try_from(episode.threads).unwrap_or(1));
            let mut threads = Vec::new();
            for thread in 0..episode.threads {
                let (sender, episode) = (sender.clone(), &episode);
                let name = format!("access-{thread}");
                let body = move || episode::run(episode, thread, &sender);
                threads.push(std::thread::Builder::new().name(name).spawn_scoped(scope, body)?);
            }
            drop(sender);
            for report in reports {
                for (k, c) in slots.add(report) {
                    *accesses += c.iter().map(|(_, _, n)| n).sum::<u64>();
                    if !c.is_empty() {
                        log.line(&Line::Slot { p: number, k, c });
                    }
                }
            }
            // A scope ends before its threads have exited in the kernel, but a fork must wait for
            // that.
            for thread in threads {
                thread.join().map_err(|_panic| std::io::Error::other("a thread panicked"))?;
            }
            std::io::Result::Ok(())
        })
        .context("run the accessing threads")
    }

    /// The next process of the tree that this one forks, and when.
    fn next_fork(&self, at: Time) -> Option<(u32, Time)> {
        let settings = &self.config.settings;
        let (first, last) = (2 * self.number + 1, 2 * self.number + 2);
        let time = |n: u32| {
            self.zero + settings.fork_ms.saturating_mul(u64::from(n)).saturating_mul(NS_PER_MS)
        };
        let due = (first..=last).filter(|n| *n < settings.processes).map(|n| (n, time(n)));
        due.into_iter().find(|(_, t)| *t > at)
    }

    /// A process that is due to be forked at `at` and is not forked yet.
    fn fork_due(&self, at: Time) -> Option<(u32, Time)> {
        let forked = u32::try_from(self.children.len()).unwrap_or(u32::MAX);
        let before = self.next_fork(Time(at.as_ns().saturating_sub(1)));
        before.filter(|(n, t)| *t <= at && *n == 2 * self.number + 1 + forked)
    }

    fn fork(&mut self, number: u32, at: Time) -> anyhow::Result<()> {
        let child = fork_alone(|| {
            (self.number, self.parent) = (number, Some(self.number));
            self.children.clear();
            match self.live(at) {
                Ok(()) => 0,
                Err(error) => {
                    writeln!(std::io::stderr(), "error: process {number}: {error:#}").ok();
                    i32::from(crate::exit::UNEXPECTED)
                }
            }
        });
        self.children.push(child.with_context(|| format!("fork process {number}"))?);
        Ok(())
    }

    /// Waits for the children, which follow the same schedule. A stop is passed on to them.
    fn wait_for_children(&mut self) {
        while !self.children.is_empty() {
            if signals::stop_requested().is_some() {
                self.children.iter().for_each(Child::stop);
            }
            self.children.retain(|c| !c.has_ended());
            if !self.children.is_empty() {
                clock::sleep_until(clock::now().plus_us(10_000));
            }
        }
    }
}
