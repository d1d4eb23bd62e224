//! Online tuning by the agent: where it keeps values, and what of it the agent refuses.
//!
//! Who may commit a policy need not be root, and the agent mostly is. So a policy can neither name
//! a command nor a file to be written: the values are kept in the agent's own directory.

use std::fs;
use std::path::{Path, PathBuf};

use isotherm_agent::gauge::{Counter, Source};
use isotherm_agent::policy::Policy;
use isotherm_agent::run::Refused;
use tracing::warn;

/// The file of a policy's values.
fn file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.json"))
}

/// Lets a policy that is tuned online keep its values in this directory.
///
/// # Errors
///
/// If it names a command as its measure, or a file of its own.
pub(super) fn keep(policy: &mut Policy, dir: &Path, name: &str) -> Result<(), Refused> {
    refuse(policy, name)?;
    if let Some(online) = &mut policy.tuning.online {
        online.state = Some(file(dir, name));
        if let Err(err) = fs::create_dir_all(dir) {
            warn!(policy = name, "tuned values are not kept: {}: {err}", dir.display());
        }
    }
    Ok(())
}

/// Refuses what an agent does not do for a policy.
///
/// # Errors
///
/// As [`keep`].
pub(crate) fn refuse(policy: &Policy, name: &str) -> Result<(), Refused> {
    let Some(online) = &policy.tuning.online else { return Ok(()) };
    let refuse = |what: &str, why: &str, hint: &str| {
        let text = format!("policy `{name}`: `{what}` in [tune]\n  why:   {why}\n  hint:  {hint}");
        Err(Refused { code: 2, text })
    };
    let command = match &online.source {
        Source::Work(Counter::Command(_)) => Some("progress_cmd"),
        Source::Latency(_) => Some("latency_cmd"),
        Source::Work(Counter::File(_)) | Source::Pressure | Source::Cpu => None,
    };
    if let Some(key) = command {
        let hint = "progress = \"FILE\", which a loop beside the program may write";
        return refuse(key, "an agent starts no command", hint);
    }
    match &online.state {
        Some(_) => refuse(
            "state",
            "the agent keeps the values itself, in its own directory",
            "leave it out",
        ),
        None => Ok(()),
    }
}

/// Forgets the values of a policy.
pub(super) fn forget(dir: &Path, name: &str) {
    // Most policies have none.
    fs::remove_file(file(dir, name)).ok();
}
