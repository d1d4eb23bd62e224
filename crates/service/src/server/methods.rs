//! The methods of the interface.

use std::sync::PoisonError;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use isotherm_control::error::{Kind, Refusal};
use isotherm_control::message::{Call, Reply};
use isotherm_control::{service, types};
use isotherm_fleet::{Fleet, State};
use isotherm_host::glob::glob_or_below;
use isotherm_host::proc::own_cost;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::access::{Peer, Right};
use crate::policy::order::Answer;
use crate::policy::shown;
use crate::shared::Shared;
use crate::state::Wanted;

/// How long contexts have to send what they see. A context answers within a turn of its loop.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);

/// Answers a call of any method but `Follow`.
pub(super) fn answer(call: Call, peer: &Peer, right: Right, shared: &Shared) -> Reply {
    let method = call.split().1.to_owned();
    let acts = matches!(&*method, "Start" | "Stop" | "Pause" | "Resume" | "Commit" | "Remove");
    if acts && right < Right::Act {
        info!(
            uid = peer.uid,
            pid = peer.pid,
            method,
            "a user without the right to act was refused"
        );
        return may_not_act(&method, peer).reply();
    }
    let policies = &shared.policies;
    let done = match &*method {
        "Status" => with(call, |types::NoArguments {}| Ok(status(right, shared))),
        "List" => {
            with(call, |types::NoArguments {}| Ok(types::Policies { policies: policies.list() }))
        }
        "Start" | "Resume" => become_(call, Wanted::Running, shared),
        "Stop" => become_(call, Wanted::Stopped, shared),
        "Pause" => become_(call, Wanted::Paused, shared),
        "Commit" => with(call, |types::Commit { policy, text, check }| {
            policies.commit(&policy, &text, check.unwrap_or(false))
        }),
        "Remove" => with(call, |types::OfPolicy { policy }| {
            policies.remove(&policy).map(|()| types::Nothing {})
        }),
        "Show" => with(call, |types::OfPolicy { policy }| policies.text(&policy)),
        "Snapshot" => with(call, |which| snapshots(&which, shared)),
        "Account" => with(call, |types::OfAny { policy }| {
            Ok(types::Accounts { schemes: policies.accounts(policy.as_deref())? })
        }),
        "Cgroups" => with(call, |which| cgroups(&which, shared)),
        _ => return service::no_such_method(&call.method),
    };
    if acts {
        let done = if done.error.is_none() { "done" } else { "refused" };
        info!(uid = peer.uid, pid = peer.pid, method, "{done}");
    }
    done
}

/// Calls a method with its arguments.
fn with<A: for<'a> Deserialize<'a>, R: Serialize>(
    call: Call,
    method: impl FnOnce(A) -> Result<R, Refusal>,
) -> Reply {
    match call.arguments() {
        Ok(arguments) => match method(arguments) {
            Ok(result) => Reply::with(&result),
            Err(refusal) => refusal.reply(),
        },
        Err(why) => service::invalid_parameter(&why),
    }
}

fn become_(call: Call, wanted: Wanted, shared: &Shared) -> Reply {
    with(call, |types::OfContext { policy, context }| {
        shared.policies.become_(&policy, context, wanted).map(|()| types::Nothing {})
    })
}

fn may_not_act(method: &str, peer: &Peer) -> Refusal {
    Refusal::new(
        Kind::NotAllowed,
        format!("to call {method}"),
        format!("user {} may only read", peer.uid),
        "root may act, and whoever is in the group of `isotherm agent --actors GROUP`",
    )
}

fn status(right: Right, shared: &Shared) -> types::Status {
    let own = own_cost(&mut Vec::new());
    types::Status {
        version: shared.settings.version.clone(),
        pid: u64::from(std::process::id()),
        uptime_ns: u64::try_from(shared.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        cpu_ns: own.cpu_ns,
        rss_bytes: own.rss_bytes,
        most_rss_bytes: shared.settings.most_memory,
        short: shared.short.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        budget_bp: u64::from(shared.settings.budget_bp),
        clients: shared.clients.served() as u64,
        may_act: right == Right::Act,
        fleet: shared.fleet.as_ref().map(|fleet| of_fleet(fleet)),
        history: shared.history.as_ref().map(|history| history.shown()),
        policies: shared.policies.list(),
    }
}

/// As the control interface has it.
fn of_fleet(fleet: &Fleet) -> types::Fleet {
    let (shown, now) = (fleet.shown(), clock::now());
    types::Fleet {
        dir: shown.dir.display().to_string(),
        session: shown.session,
        bytes: shown.bytes,
        parts: shown.parts,
        rows: shown.rows,
        lost_rows: shown.lost_rows,
        dropped_parts: shown.dropped_parts,
        trouble: shown.trouble,
        state: Some(match shown.state {
            State::Writing => types::FleetState::Writing,
            State::Failing => types::FleetState::Failing,
            State::Stuck => types::FleetState::Stuck,
        }),
        state_ns: Some(now.since(shown.since)),
        written_ns: shown.written_at.map(|at| now.since(at)),
        failures: Some(shown.failed_rounds),
        panics: Some(shown.panics),
    }
}

/// The cgroups whose path matches, and those below them.
fn cgroups(which: &types::WhichCgroups, shared: &Shared) -> Result<types::Cgroups, Refusal> {
    if !shared.settings.adds_up_cgroups() {
        let why = "this agent does not add it up: that takes 0.5 KiB of memory per 2 MiB watched";
        let hint = "start it with --cgroups; --metrics and --fleet have it, too";
        return Err(Refusal::new(Kind::Refused, "to tell what cgroups use", why, hint));
    }
    let mut cgroups = shared.policies.cgroups(which.policy.as_deref())?;
    if let Some(pattern) = &which.pattern {
        cgroups.retain(|group| glob_or_below(pattern, &group.cgroup));
    }
    Ok(types::Cgroups { cgroups })
}

fn snapshots(which: &types::Which, shared: &Shared) -> Result<types::Snapshots, Refusal> {
    let deadline = Instant::now() + LOOK_PATIENCE;
    let left = || deadline.saturating_duration_since(Instant::now());
    let mut snapshots = Vec::new();
    for (name, asked) in shared.policies.look(which.policy.as_deref())? {
        let looking = match asked.recv_timeout(left()) {
            Ok(Ok(Answer::Looking(looking))) => looking,
            Ok(Err(refusal)) if which.policy.is_some() => return Err(refusal),
            Err(RecvTimeoutError::Timeout) => return Err(no_look(&name)),
            // It does not run, so it sees nothing.
            Ok(_) | Err(RecvTimeoutError::Disconnected) => continue,
        };
        loop {
            match looking.recv_timeout(left()) {
                Ok(seen) if which.context.as_ref().is_none_or(|only| *only == seen.context) => {
                    snapshots.push(shown::snapshot(&name, &seen));
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(no_look(&name)),
            }
        }
    }
    if let Some(pid) = which.pid {
        for snapshot in &mut snapshots {
            snapshot.targets.retain(|target| target.pid == u64::from(pid));
        }
        snapshots.retain(|snapshot| !snapshot.targets.is_empty());
    }
    Ok(types::Snapshots { snapshots })
}

fn no_look(name: &str) -> Refusal {
    let what = format!("no snapshot of policy `{name}`");
    let hint = "try again; the agent's log says more: `journalctl -u isotherm`";
    Refusal::new(Kind::Failed, what, "it did not answer in time", hint)
}
