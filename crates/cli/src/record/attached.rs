//! A record of what an agent sees that watches the processes already.
//!
//! The agent sends every window of the context. Mappings and parents are read here, so reports name
//! the memory as in any record. Absent: single pages, which the agent does not tell.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::agent::recorder::{mappings_of, origin};
use isotherm::raw::core::{TargetId, Time};
use isotherm::raw::record::{AttrsInfo, Error, Exit, Target, Writer};
use isotherm::raw::sys::{clock, signals};
use isotherm_control::client::Client;
use isotherm_control::types::{self, Followed};

use super::{Args, Progress, say, tell_written};
use crate::attach::{Attached, Family, Found, snapshot};
use crate::ctl::told;
use crate::exit;
use crate::files::{not_created, not_kept};
use crate::options::sets::OpsArg;
use crate::terminal::warn;

/// How long the agent may say nothing before signals are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often mappings are read, in ns, and the time between two readings as a multiple of what one
/// costs.
const MAPS_NS: u64 = 1_000_000_000;
const MAPS_REST: u64 = 100;

/// What an agent watches of the processes that were asked for.
pub(super) enum Agents {
    /// Nothing, or there is none.
    None,
    /// All of them.
    All(Box<Watched>),
    /// These, which are not in the record.
    Some { held: BTreeSet<u32>, whose: String },
}

/// A context of an agent that watches all processes that were asked for.
pub(super) struct Watched {
    agent: Client,
    family: Family,
    /// What the context has seen by now.
    first: types::Snapshot,
    whose: String,
}

impl Watched {
    /// Asks the agent, if one runs.
    ///
    /// # Errors
    ///
    /// If it watches all processes, but not in one context, or something is wanted that it does not
    /// do: nothing is left to record then.
    pub(super) fn find(args: &Args) -> anyhow::Result<Agents> {
        let is_usual = args.attrs.is_auto() && args.targets.ops() == OpsArg::Auto;
        let (specs, children) = (args.targets.specs()?, args.targets.follow());
        let found = Attached::find(&args.socket.path(), &specs, children)?;
        let Some(Found { mut agent, mut snapshots, is_part }) = found else {
            return Ok(Agents::None);
        };
        let whose = agent.whose(&snapshots);
        if is_part {
            return Ok(Agents::Some { held: agent.held(&snapshots), whose });
        }
        if !is_usual || args.seed.is_some() {
            let why = "it has a method, intervals and an operations set of its own";
            let hint = "without options for them the agent's windows are recorded";
            return Err(agent.refused(&snapshots, why, hint));
        }
        let all = agent.held(&snapshots);
        let all_snapshots = snapshots.clone();
        snapshots.retain(|s| agent.held(std::slice::from_ref(s)) == all);
        snapshots.truncate(1);
        match snapshots.pop() {
            Some(first) => {
                let whose = agent.whose(std::slice::from_ref(&first));
                let (agent, family) = agent.parts();
                Ok(Agents::All(Box::new(Self { agent, family, first, whose })))
            }
            None => {
                let why = "a record has the windows of one context, and these are of several";
                let hint =
                    "record those of one context, or `isotherm report --since 1h --of POLICY`";
                Err(agent.refused(&all_snapshots, why, hint))
            }
        }
    }

    /// Writes the record until something ends that.
    pub(super) fn record(self, args: &Args, stdout: Option<File>) -> anyhow::Result<ExitCode> {
        let Self { mut agent, family, first, whose } = self;
        let attrs = AttrsInfo {
            sample_us: first.sample_us,
            aggr_us: first.aggr_us,
            method: first.method.clone(),
            ..AttrsInfo::default()
        };
        let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let header = origin(attrs, &first.ops, command.collect());
        let (writer, place) = match stdout {
            Some(file) => (Writer::new(file, &header), None),
            None => match Writer::create_beside(&args.output, &header) {
                Ok((writer, place)) => (Ok(writer), Some(place)),
                Err(err) => (Err(err), None),
            },
        };
        let mut recording = Recording {
            writer: writer.map_err(not_created(&args.output))?,
            family,
            context: first.context,
            known: BTreeMap::new(),
            next_id: 0,
            last: None,
            missed: 0,
            lost: 0,
            failed_writes: 0,
            maps_at: Time::default(),
            text: Vec::new(),
        };
        let follow = types::Follow {
            snapshots: Some(true),
            events: Some(true),
            accounts: None,
            policy: Some(first.policy),
            every_ms: Some(0),
        };
        agent.call_more("Follow", &follow).map_err(told)?;
        if let Some(place) = place {
            place.keep().map_err(not_kept)?;
        }
        let line = format!("these numbers are {whose}; windows of {} ms", first.aggr_us / 1000);
        say(args.quiet, &line);
        recording.note(&line);
        agent.set_patience(Some(LOOK))?;
        let (reason, complete) = recording.follow(&mut agent, args);
        recording.end(reason, complete, args)
    }
}

/// A target of the record.
struct Known {
    id: TargetId,
    name: String,
}

struct Recording {
    writer: Writer<File>,
    family: Family,
    context: String,
    /// By pid.
    known: BTreeMap<u32, Known>,
    next_id: u32,
    /// The number of the last window.
    last: Option<u64>,
    /// Windows that the agent had and that did not come.
    missed: u64,
    /// Messages that the agent dropped since we were too slow.
    lost: u64,
    failed_writes: u64,
    maps_at: Time,
    text: Vec<u8>,
}

impl Recording {
    /// Records until something ends that. Returns why, and whether that was as it should be.
    fn follow(&mut self, agent: &mut Client, args: &Args) -> (&'static str, bool) {
        let mut progress = Progress::new(args.quiet);
        let started = Instant::now();
        let end = loop {
            if signals::stop_requested().is_some() {
                break ("interrupted", true);
            }
            if args.duration.is_some_and(|d| started.elapsed() >= d) {
                break ("the duration is over", true);
            }
            let followed: Followed = match agent.receive_within() {
                Ok(Some(followed)) => followed,
                Ok(None) => continue,
                Err(err) => {
                    warn(&err.to_string());
                    break ("the agent is gone", false);
                }
            };
            self.lost += followed.lost.unwrap_or(0);
            let has_ended = |e: &types::Event| e.event == "ended" && e.context == self.context;
            let mut is_over = followed.event.as_ref().is_some_and(has_ended);
            if let Some(told) = followed.snapshot.filter(|s| s.context == self.context) {
                self.window(&told, &mut progress);
                is_over |= self.known.is_empty() && !self.family.more_may_come();
            }
            if is_over {
                let pids: Vec<u32> = self.family.pids().collect();
                let is_gone = pids.iter().all(|pid| !self.family.is_alive(*pid));
                break match is_gone {
                    true => ("every target has exited", true),
                    false => ("the agent does not watch it any more", false),
                };
            }
        };
        progress.end();
        end
    }

    fn window(&mut self, told: &types::Snapshot, progress: &mut Progress) {
        // What is sent at once may come again.
        if self.last.is_some_and(|last| told.seq <= last) {
            return;
        }
        let after = self.last.map_or(told.seq, |last| last + 1);
        self.missed += told.seq - after;
        self.last = Some(told.seq);
        let now = clock::now();
        self.targets(told, now);
        let known = &self.known;
        let id = |target: &types::Target| {
            known.get(&u32::try_from(target.pid).ok()?).map(|known| known.id)
        };
        let snapshot = snapshot::of_agent(told, id);
        let written = self.writer.push_snapshot(&snapshot);
        self.count(written);
        progress.show(&snapshot);
        if now >= self.maps_at {
            let before = clock::thread_cpu_ns();
            let all: Vec<_> = self.known.iter().map(|(pid, known)| (*pid, known.id)).collect();
            for (pid, id) in all {
                self.mappings(pid, id, now);
            }
            let cost_ns = clock::thread_cpu_ns().saturating_sub(before);
            self.maps_at = now + MAPS_NS.max(cost_ns.saturating_mul(MAPS_REST));
        }
    }

    /// Takes in targets that are new, and ends those that are gone.
    fn targets(&mut self, told: &types::Snapshot, now: Time) {
        self.family.refresh();
        let mut present: BTreeMap<u32, &str> = BTreeMap::new();
        for target in &told.targets {
            let pid = u32::try_from(target.pid).unwrap_or_default();
            if self.known.contains_key(&pid) || self.family.has(pid) {
                present.insert(pid, &target.name);
            }
        }
        // Another name means another program, whose memory is another.
        let is_gone = |(pid, known): (&u32, &Known)| {
            present.get(pid).is_none_or(|name| **name != known.name).then_some(*pid)
        };
        let gone: Vec<u32> = self.known.iter().filter_map(is_gone).collect();
        for pid in gone {
            if let Some(Known { id, .. }) = self.known.remove(&pid) {
                let exit = Exit { id: id.0, status: None, t_ns: now.as_ns() };
                let written = self.writer.exit(&exit);
                self.count(written);
            }
        }
        for (pid, name) in present {
            if self.known.contains_key(&pid) {
                continue;
            }
            let id = TargetId(self.next_id);
            self.next_id += 1;
            let ppid = self.family.parent(pid);
            let name = name.to_owned();
            let target =
                Target { id: id.0, pid, ppid, name: name.clone(), t_ns: now.as_ns(), memory: None };
            let written = self.writer.target(&target);
            self.count(written);
            self.known.insert(pid, Known { id, name });
            self.mappings(pid, id, now);
        }
    }

    fn mappings(&mut self, pid: u32, id: TargetId, now: Time) {
        let mappings = mappings_of(pid, &mut self.text);
        if !mappings.is_empty() {
            let written = self.writer.mappings(now, id, &mappings);
            self.count(written);
        }
    }

    fn note(&mut self, text: &str) {
        let written = self.writer.note(clock::now(), text);
        self.count(written);
    }

    /// Counts a failed write. Recording goes on, since the disk may be full only for a moment.
    fn count(&mut self, written: Result<(), Error>) {
        if let Err(err) = written {
            if self.failed_writes == 0 {
                warn(&err.to_string());
            }
            self.failed_writes += 1;
        }
    }

    fn end(mut self, reason: &str, complete: bool, args: &Args) -> anyhow::Result<ExitCode> {
        if self.missed > 0 {
            let Self { missed, lost, .. } = self;
            let text = format!(
                "{missed} of the agent's windows are missing; it dropped {lost} messages since they \
                 were not read in time"
            );
            warn(&text);
            self.note(&text);
        }
        let (failed_writes, missed) = (self.failed_writes, self.missed);
        let (_, written) = match self.writer.finish(clock::now(), reason) {
            Ok(finished) => finished,
            Err(err) => {
                warn(&format!("the record has no end: {err}"));
                return Ok(ExitCode::from(exit::PARTIAL));
            }
        };
        tell_written(written, failed_writes, reason, args);
        let is_whole = complete && failed_writes == 0 && missed == 0;
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(exit::PARTIAL) })
    }
}
