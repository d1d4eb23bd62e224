//! Working sets from an agent that watches the processes already. A second monitor of the same
//! memory would make its pages old, and each would miss what the other has seen.
//!
//! Invariant: nothing is made old or looked at here. Absent: memory that processes share, which the
//! agent does not tell apart, so it counts in each of them.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use isotherm::raw::agent::policy::TargetSpec;
use isotherm::raw::core::{AddrRange, RegionInfo, SPANS, Touched, TouchedBytes};
use isotherm::raw::host::proc::Proc;
use isotherm::raw::report::wss::{WorkingSet, estimate};
use isotherm::raw::sys::signals;
use isotherm_control::client::Client;
use isotherm_control::types;

use super::Args;
use super::line::{Line, Now};
use super::text::Table;
use crate::ctl::told;
use crate::options::sets::OpsArg;
use crate::terminal::width;

/// How long the agent may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a signal is looked for while an interval goes on.
const LOOK: Duration = Duration::from_millis(50);

/// An agent that watches all processes that were asked for.
#[derive(Debug)]
pub(super) struct Attached {
    agent: Client,
    pids: Vec<u32>,
    /// Whether their children are asked for, too.
    children: bool,
    proc: Proc,
    buf: Vec<u8>,
}

impl Attached {
    /// Asks the agent, if one runs, and says whose numbers will be shown. `None` if the processes
    /// were not given by their pids, or the agent does not watch all of them, or may not be asked.
    pub(super) fn find(args: &Args) -> anyhow::Result<Option<(Self, String)>> {
        // Who wants another set or method would not get it from the agent.
        let is_usual = args.attrs.is_auto() && args.targets.ops() == OpsArg::Auto;
        if args.by.groups().is_some() || !is_usual {
            return Ok(None);
        }
        let mut pids = Vec::new();
        for spec in args.targets.specs()? {
            let TargetSpec::Pid(pid) = spec else { return Ok(None) };
            pids.push(pid);
        }
        let Ok(agent) = Client::connect(&args.socket.path()) else { return Ok(None) };
        agent.set_patience(Some(PATIENCE))?;
        let children = args.targets.follow();
        let mut this = Self { agent, pids, children, proc: Proc::default(), buf: Vec::new() };
        let Ok(snapshots) = this.ask() else { return Ok(None) };
        let is_watched = |pid: &u32| targets(&snapshots).any(|t| t.pid == u64::from(*pid));
        let all = !this.pids.is_empty() && this.pids.iter().all(is_watched);
        let whose = this.whose(&snapshots);
        Ok(all.then_some((this, whose)))
    }

    /// What is told to the user.
    fn whose(&mut self, snapshots: &[types::Snapshot]) -> String {
        let mut of = Vec::new();
        for s in snapshots {
            let pids = s.targets.iter().filter_map(|t| u32::try_from(t.pid).ok());
            if pids.into_iter().any(|pid| self.is_asked_for(pid)) {
                of.push(format!("{} / {}", s.policy, s.context));
            }
        }
        format!(
            "these numbers are the agent's ({}), which watches already; memory that processes share \
             counts in each",
            of.join(", ")
        )
    }

    fn ask(&mut self) -> Result<Vec<types::Snapshot>, isotherm_control::error::CallError> {
        let which = types::Which { policy: None, context: None, pid: None };
        self.agent.call("Snapshot", &which).map(|all: types::Snapshots| all.snapshots)
    }

    /// Prints lines until something ends that, and returns for how many intervals.
    pub(super) fn watch(mut self, args: &Args) -> anyhow::Result<u64> {
        let started = Instant::now();
        let mut next = started + args.interval;
        let mut out = std::io::stdout().lock();
        let mut table = Table::new(if out.is_terminal() { width() } else { usize::MAX });
        let interval_us = u64::try_from(args.interval.as_micros()).unwrap_or(u64::MAX);
        let mut shown = 0;
        loop {
            let over = args.duration.is_some_and(|d| started.elapsed() >= d);
            if over || signals::stop_requested().is_some() {
                return Ok(shown);
            }
            if Instant::now() < next {
                std::thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
                continue;
            }
            next += args.interval;
            let snapshots = self.ask().map_err(told)?;
            let Some(now) = self.lines(&snapshots, interval_us) else { return Ok(shown) };
            if now.lines.is_empty() {
                continue;
            }
            shown += 1;
            if args.json {
                let end_ns = snapshots.iter().map(|s| s.end_ns).max().unwrap_or_default();
                let regions = targets(&snapshots).map(|t| t.regions.len()).sum();
                writeln!(out, "{}", now.json(end_ns, regions)).and_then(|()| out.flush())?;
            } else {
                table.write(&mut out, &now, started.elapsed())?;
            }
        }
    }

    /// The lines of what the agent sees; `None` if it sees none of the processes any more. There is
    /// no line before the first window of a process is over.
    fn lines(&mut self, snapshots: &[types::Snapshot], interval_us: u64) -> Option<Now> {
        let spans_us = spans(snapshots);
        let mut lines = Vec::new();
        let mut any = false;
        for snapshot in snapshots {
            for target in &snapshot.targets {
                let pid = u32::try_from(target.pid).ok()?;
                if !self.is_asked_for(pid) {
                    continue;
                }
                any = true;
                if !target.regions.is_empty() {
                    let (touched, regions) = (touched(target, spans_us), regions(target, snapshot));
                    let whose = (pid, target.name.clone());
                    lines.push(Line::new(whose, touched, regions, spans_us, interval_us));
                }
            }
        }
        if !any {
            return None;
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.over.bytes));
        let sum = lines.iter().map(|line| line.over.bytes).sum();
        let touched = lines.iter().map(|line| line.touched).reduce(|a, b| Some(both(a?, b?)));
        let regions = lines.iter().map(|line| line.regions).fold(WorkingSet::default(), add);
        let whose = (0, format!("sum ({})", lines.len()));
        let total = Line::new(whose, touched.flatten(), regions, spans_us, interval_us);
        let spans_us = spans_us.into_iter().filter(|us| *us > 0).collect();
        Some(Now { interval_us, spans_us, lines, total, sum, is_shared: false })
    }

    /// Whether a process is one of those asked for, or a child of one.
    fn is_asked_for(&mut self, pid: u32) -> bool {
        /// Deeper than processes are nested.
        const MOST: usize = 64;
        let mut pid = pid;
        for _ in 0..MOST {
            if self.pids.contains(&pid) {
                return true;
            }
            match self.proc.stat(pid, &mut self.buf) {
                Ok(stat) if self.children && stat.ppid > 1 => pid = stat.ppid,
                _ => return false,
            }
        }
        false
    }
}

fn targets(snapshots: &[types::Snapshot]) -> impl Iterator<Item = &types::Target> {
    snapshots.iter().flat_map(|snapshot| &snapshot.targets)
}

/// The spans that the agent tells of, the shortest first; 0 stands for none.
fn spans(snapshots: &[types::Snapshot]) -> [u64; SPANS] {
    let all = targets(snapshots).flat_map(|t| &t.touched).map(|t| t.span_ns / 1000);
    let sorted: std::collections::BTreeSet<u64> = all.collect();
    let mut spans = [0; SPANS];
    for (span, us) in spans.iter_mut().zip(sorted) {
        *span = us;
    }
    spans
}

fn touched(target: &types::Target, spans_us: [u64; SPANS]) -> Option<Touched> {
    if target.touched.is_empty() {
        return None;
    }
    let of = |us: u64| {
        let told = target.touched.iter().find(|t| t.span_ns / 1000 == us)?;
        let types::Touched { bytes, lo, hi, measured_bytes, .. } = *told;
        Some(TouchedBytes { bytes, lo, hi, measured: measured_bytes })
    };
    Some(Touched { spans: spans_us.map(of), watched: target.watched_bytes })
}

/// The working set by regions, in the last window.
fn regions(target: &types::Target, snapshot: &types::Snapshot) -> WorkingSet {
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let region = |r: &types::Region| RegionInfo {
        range: AddrRange::new(r.start, r.end.max(r.start)),
        nr_accesses: narrow(r.nr_accesses),
        age: narrow(r.age),
        lo: r.lo,
        hi: r.hi,
        resolved: r.resolved,
        ..RegionInfo::default()
    };
    let all: Vec<RegionInfo> = target.regions.iter().map(region).collect();
    estimate(&all, narrow(snapshot.max_nr_accesses))
}

fn both(a: Touched, b: Touched) -> Touched {
    let mut all = Touched { watched: a.watched.saturating_add(b.watched), ..a };
    for (one, other) in all.spans.iter_mut().zip(b.spans) {
        *one = match (*one, other) {
            (Some(one), Some(other)) => Some(one.with(other)),
            (one, other) => one.or(other),
        };
    }
    all
}

fn add(a: WorkingSet, b: WorkingSet) -> WorkingSet {
    WorkingSet {
        bytes: a.bytes.saturating_add(b.bytes),
        lo: a.lo.saturating_add(b.lo),
        hi: a.hi.saturating_add(b.hi),
        unresolved: a.unresolved.saturating_add(b.unresolved),
        mapped: a.mapped.saturating_add(b.mapped),
    }
}
