//! The targets that a context starts with.
//!
//! A process that the policy names may be gone, or one that we may not watch. That is no reason to
//! leave the other targets alone. But where no target is left, nothing would ever happen, so the
//! context says so before it begins.

use isotherm_ops::targets::{Claim, TargetError, TargetKind, Tracker};

use super::runner::Refused;
use crate::monitor::Monitor;
use crate::policy::{ContextPolicy, TargetSpec};

/// The pids that a policy names.
pub(super) fn pids(policy: &ContextPolicy) -> impl Iterator<Item = u32> {
    policy.targets.iter().filter_map(|target| match target {
        TargetSpec::Pid(pid) => Some(*pid),
        _ => None,
    })
}

/// Whether processes that do not exist yet can become targets.
pub(super) fn more_may_come(policy: &ContextPolicy) -> bool {
    policy.targets.iter().any(TargetSpec::is_rule)
}

/// Whether other targets can be watched although this process cannot be a target. Otherwise the
/// policy is wrong.
pub(super) const fn is_bearable(kind: TargetKind) -> bool {
    matches!(kind, TargetKind::NoSuchPid | TargetKind::Zombie | TargetKind::Permission)
}

/// A tracker of the targets that a policy names, and why the first of the named processes that
/// cannot be a target cannot. A command is started, but held before its first instruction.
pub(super) fn tracker(policy: &ContextPolicy) -> Result<(Tracker, Option<Refused>), Refused> {
    if let Some(memory) = policy.memory() {
        return Ok((Tracker::memory(memory.clone())?, None));
    }
    let mut tracker = Tracker::attach(&[], policy.children)?;
    let mut missing: Option<TargetError> = None;
    for pid in pids(policy) {
        match tracker.add(pid) {
            Ok(_) => Claim::check(pid)?,
            Err(err) if is_bearable(err.kind()) => missing = missing.or(Some(err)),
            Err(err) => return Err(err.into()),
        }
    }
    for target in &policy.targets {
        if let TargetSpec::Command(command) = target
            && let Some((program, args)) = command.split_first()
        {
            let args: Vec<_> = args.iter().map(Into::into).collect();
            tracker.spawn_into(program, &args)?;
            // A daemon that forks twice at once would get another parent and be lost. No process
            // but the command is our child, so only its descendants are adopted.
            let adopted = tracker.adopt_orphans();
            adopted.map_err(|e| Refused { code: 1, text: format!("cannot adopt orphans: {e}") })?;
        }
    }
    Ok((tracker, missing.map(Refused::from)))
}

/// Takes in the targets that are there now, before the first window. The reason that none can be
/// watched may be that a better operations set could not be used, so the lines of `why` that say so
/// (see [`open_set`](super::open_set)) become part of the message.
///
/// # Errors
///
/// If there are targets and none of them can be watched.
pub fn take_in_targets(monitor: &mut Monitor, why: &[String]) -> Result<(), Refused> {
    monitor.take_in_targets().map_err(|err| {
        let unused = why.iter().filter(|line| line.contains(" is not used: "));
        let notes: String = unused.map(|line| format!("\n  note:  {line}")).collect();
        Refused { code: err.exit_code(), text: format!("{err}{notes}") }
    })
}

/// Takes in the targets that are there. Returns why none can be watched, if that is so and no other
/// can come.
pub(super) fn nobody(
    monitor: &mut Monitor,
    policy: &ContextPolicy,
    missing: Option<&Refused>,
    why: &[String],
) -> Option<Refused> {
    let taken = take_in_targets(monitor, why);
    if more_may_come(policy) {
        return None;
    }
    match taken {
        Err(refused) => Some(refused),
        Ok(()) if monitor.tracker().all_gone() => missing.cloned(),
        Ok(()) => None,
    }
}
