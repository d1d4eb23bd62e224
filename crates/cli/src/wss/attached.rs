//! Working sets from an agent that watches the processes already.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use isotherm::raw::core::SPANS;
use isotherm::raw::core::units::counted;
use isotherm::raw::report::wss::{WorkingSet, estimate};
use isotherm::raw::sys::signals;
use isotherm_control::types;

use super::Args;
use super::line::{Line, Now};
use super::text::Table;
use crate::attach::snapshot::{narrow, region, touched};
use crate::attach::{self, Family, Found};
use crate::ctl::told;
use crate::options::sets::OpsArg;
use crate::terminal::width;

/// How often a signal is looked for while an interval goes on.
const LOOK: Duration = Duration::from_millis(50);

/// An agent that watches all processes that were asked for.
#[derive(Debug)]
pub(super) struct Attached(attach::Attached);

impl Attached {
    /// Asks the agent, if one runs, and says whose numbers will be shown, and whether others are
    /// left to watch. `None` if the agent watches none of them, or something is wanted that it does
    /// not tell and others are left.
    ///
    /// # Errors
    ///
    /// If something is wanted that it does not tell, and nothing is left to watch.
    pub(super) fn find(args: &Args) -> anyhow::Result<Option<(Self, String, bool)>> {
        // Who wants another set or method would not get it from the agent.
        let is_usual = args.attrs.is_auto() && args.targets.ops() == OpsArg::Auto;
        let (specs, children) = (args.targets.specs()?, args.targets.follow());
        let found = attach::Attached::find(&args.socket.path(), &specs, children)?;
        let Some(Found { mut agent, snapshots, is_part }) = found else { return Ok(None) };
        let unusual = match args.by.groups() {
            Some(_) => Some((
                "it does not tell which memory the processes of a group share",
                "without --by its numbers are shown",
            )),
            None if !is_usual => Some((
                "it has a method, intervals and an operations set of its own",
                "without options for them its numbers are shown",
            )),
            None => None,
        };
        match unusual {
            Some(_) if is_part => return Ok(None),
            Some((why, hint)) => return Err(agent.refused(&snapshots, why, hint)),
            None => {}
        }
        let whose = agent.whose(&snapshots);
        let which = if is_part {
            let nr = agent.held(&snapshots).len();
            format!("the numbers of {}", counted(nr as u64, "target"))
        } else {
            "these numbers".to_owned()
        };
        let text = format!("{which} are {whose}; memory that processes share counts in each");
        Ok(Some((Self(agent), text, is_part)))
    }

    /// The processes of which the agent tells.
    pub(super) fn held(&mut self) -> anyhow::Result<BTreeSet<u32>> {
        let snapshots = self.0.ask().map_err(told)?;
        Ok(self.0.held(&snapshots))
    }

    /// What the agent sees now, over an interval; `None` if it sees none of the processes.
    pub(super) fn now(&mut self, interval_us: u64) -> anyhow::Result<Option<Now>> {
        let snapshots = self.0.ask().map_err(told)?;
        Ok(lines(self.0.family(), &snapshots, interval_us))
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
            let snapshots = self.0.ask().map_err(told)?;
            let Some(now) = lines(self.0.family(), &snapshots, interval_us) else {
                if self.0.family().more_may_come() {
                    continue;
                }
                return Ok(shown);
            };
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
}

/// The lines of what the agent sees; `None` if it sees none of the processes any more. There is
/// no line before the first window of a process is over.
fn lines(family: &mut Family, snapshots: &[types::Snapshot], interval_us: u64) -> Option<Now> {
    let spans_us = spans(snapshots);
    let mut lines = Vec::new();
    let mut any = false;
    for snapshot in snapshots {
        for target in &snapshot.targets {
            let pid = u32::try_from(target.pid).ok()?;
            if !family.has(pid) {
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
    let touched = lines.iter().map(|line| line.touched).reduce(|a, b| Some(a?.with(b?)));
    let regions = lines.iter().map(|line| line.regions).fold(WorkingSet::default(), add);
    let whose = (0, format!("sum ({})", lines.len()));
    let total = Line::new(whose, touched.flatten(), regions, spans_us, interval_us);
    let spans_us = spans_us.into_iter().filter(|us| *us > 0).collect();
    Some(Now { interval_us, spans_us, lines, total, sum, is_shared: false })
}

fn targets(snapshots: &[types::Snapshot]) -> impl Iterator<Item = &types::Target> {
    snapshots.iter().flat_map(|snapshot| &snapshot.targets)
}

/// The spans that the agent tells of, the shortest first; 0 stands for none.
fn spans(snapshots: &[types::Snapshot]) -> [u64; SPANS] {
    let all = targets(snapshots).flat_map(|t| &t.touched).map(|t| t.span_ns / 1000);
    let sorted: BTreeSet<u64> = all.collect();
    let mut spans = [0; SPANS];
    for (span, us) in spans.iter_mut().zip(sorted) {
        *span = us;
    }
    spans
}

/// The working set by regions, in the last window.
fn regions(target: &types::Target, snapshot: &types::Snapshot) -> WorkingSet {
    let all: Vec<_> = target.regions.iter().map(region).collect();
    estimate(&all, narrow(snapshot.max_nr_accesses))
}

impl Now {
    /// These lines and those of the agent's processes. Nobody knows what the ones share with the
    /// others, so that counts in each.
    pub(super) fn beside(mut self, other: Self) -> Self {
        let has_same_spans = self.spans_us == other.spans_us;
        self.lines.extend(other.lines);
        self.lines.sort_by_key(|line| std::cmp::Reverse(line.over.bytes));
        self.sum = self.sum.saturating_add(other.sum);
        let total = &mut self.total;
        total.name = format!("total ({})", self.lines.len());
        total.over = total.over.with(other.total.over);
        total.regions = add(total.regions, other.total.regions);
        let touched = total.touched.zip(other.total.touched).filter(|_| has_same_spans);
        total.touched = touched.map(|(a, b)| a.with(b));
        self
    }
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
