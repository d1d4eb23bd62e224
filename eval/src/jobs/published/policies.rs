//! Policies that Isotherm makes for a program, once: by `isotherm plan` from what it sees, and by
//! `isotherm tune` from trials.
//!
//! The program is started for it, and put under load while Isotherm watches. The policy names the
//! process that was watched, and every phase starts another one, so it is aimed anew each time
//! ([`aim`]). A policy that could not be made has a file with the reason instead, so that a run
//! that goes on does not try again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use isotherm_sys::clock;

use super::configs::{Config, TUNED};
use super::phase::SWAP_BYTES;
use super::suite::Plan;
use crate::cli::say;
use crate::job::Bench;
use crate::jobs::thp::setting::{self, Setting};
use crate::measure;
use crate::processes::child::Child;
use crate::programs::{Place, Program, Running};
use crate::readings::sampling::tree;

/// What there is for a program and a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Policy {
    /// The file.
    Made(PathBuf),
    /// Why there is none.
    LeftOut(String),
}

fn path(bench: &Bench<'_>, program: &dyn Program, config: Config, ending: &str) -> PathBuf {
    bench.dir.raw(&format!("{}-{}.{ending}", program.name(), config.name))
}

/// The policy, if it has been made or given up.
pub(super) fn known(bench: &Bench<'_>, program: &dyn Program, config: Config) -> Option<Policy> {
    let file = path(bench, program, config, "toml");
    if file.exists() {
        return Some(Policy::Made(file));
    }
    fs::read_to_string(path(bench, program, config, "why")).ok().map(Policy::LeftOut)
}

/// The policy; it is made if it has not been made yet.
pub(super) fn get(
    bench: &Bench<'_>,
    program: &dyn Program,
    plan: &Plan,
    config: Config,
) -> anyhow::Result<Policy> {
    if let Some(policy) = known(bench, program, config) {
        return Ok(policy);
    }
    let [file, why, draft] =
        ["toml", "why", "draft"].map(|ending| path(bench, program, config, ending));
    say(&format!("published: {}: the policy of {}", program.name(), config.name));
    // Under another name until it is complete.
    let made = make(bench, program, plan, config, &draft);
    if isotherm_sys::signals::stop_requested().is_some() {
        bail!("interrupted");
    }
    match made {
        Ok(None) => {
            fs::rename(&draft, &file).context("keep a policy")?;
            Ok(Policy::Made(file))
        }
        told => {
            let text = told.map_or_else(|e| format!("{e:#}"), Option::unwrap_or_default);
            say(&format!("published: {}: no {}: {text}", program.name(), config.name));
            fs::write(&why, &text).with_context(|| format!("write {}", why.display()))?;
            Ok(Policy::LeftOut(text))
        }
    }
}

/// Makes it; or says why there is none.
fn make(
    bench: &Bench<'_>,
    program: &dyn Program,
    plan: &Plan,
    config: Config,
    draft: &Path,
) -> anyhow::Result<Option<String>> {
    let _setting = setting::found().map(|_| Setting::set("madvise")).transpose()?;
    let zram = measure::swap(SWAP_BYTES)?;
    let place = Place::create(program.name())?;
    let mut running = program.begin(&place, plan.size())?;
    let told = if config.name != TUNED {
        planned(bench, running.as_mut(), plan, draft)
    } else if running.lasts() {
        tuned(bench, running.as_mut(), plan, draft)
    } else {
        Ok(Some("a program that ends with its work is gone before trials are over".to_owned()))
    };
    drop(running);
    drop(place);
    zram.tear_down()?;
    told
}

/// A time on the command line.
fn ms(seconds: f64) -> String {
    format!("{:.0}ms", seconds * 1e3)
}

fn planned(
    bench: &Bench<'_>,
    running: &mut dyn Running,
    plan: &Plan,
    draft: &Path,
) -> anyhow::Result<Option<String>> {
    let mut command = Command::new(&bench.spec.isotherm);
    // Idle times up to a fifth of what was seen can be told of.
    let seen = if running.lasts() { 1.5 * plan.seconds } else { 0.8 * plan.seconds };
    command.args(["plan", "--duration", &ms(seen), "--no-pager", "--output"]).arg(draft);
    for pid in tree(&running.roots()) {
        command.arg(format!("--pid={pid}"));
    }
    under_load(command, running, plan, draft)
}

fn tuned(
    bench: &Bench<'_>,
    running: &mut dyn Running,
    plan: &Plan,
    draft: &Path,
) -> anyhow::Result<Option<String>> {
    let start = draft.with_extension("start");
    let mut print = Command::new(&bench.spec.isotherm);
    let unlimited = ["--watermarks", "none", "--quota", "none", "--quota-time", "none"];
    print.args(["reclaim", "--print-policy", "--age", "1s"]).args(unlimited);
    fs::write(&start, crate::jobs::output(&mut print)?)
        .context("write the policy to begin with")?;
    let (phase, trials, watch) = if plan.quick { (0.5, "1", "0s") } else { (3.0, "3", "15s") };
    let mut command = Command::new(&bench.spec.isotherm);
    command.arg("tune").arg(&start).args(["--quiet", "--output"]).arg(draft);
    for pid in tree(&running.roots()) {
        command.arg(format!("--pid={pid}"));
    }
    command.args(["--range", "reclaim.age=1s..8s", "--candidates", "2", "--trials", trials]);
    command.args(["--phase", &ms(phase), "--watch", watch]);
    under_load(command, running, plan, draft)
}

/// Runs a command that watches a program, with the program under load until it has ended.
fn under_load(
    mut command: Command,
    running: &mut dyn Running,
    plan: &Plan,
    draft: &Path,
) -> anyhow::Result<Option<String>> {
    let log = draft.with_extension("log");
    let out = draft.with_extension("out");
    let file = fs::File::create(&out).with_context(|| format!("create {}", out.display()))?;
    command.stdin(Stdio::null()).stdout(file);
    let mut child = Child::spawn(command, &log)?;
    if running.lasts() {
        while child.runs() {
            running.load(1.0)?;
        }
    } else {
        running.load(plan.seconds)?;
    }
    child.succeeds(clock::now().plus_us(30_000_000))?;
    let said = || {
        let [errors, answer] = [&log, &out].map(|f| fs::read_to_string(f).unwrap_or_default());
        last_words(if errors.trim().is_empty() { &answer } else { &errors })
    };
    Ok((!draft.exists()).then(said))
}

/// What a command said at last; it says so why there is no policy.
fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(2)..].join("; ")
}

/// Writes the policy to `now`, with these processes as its only targets.
pub(super) fn aim(policy: &Path, pids: &BTreeSet<u32>, now: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(policy).with_context(|| format!("read {}", policy.display()))?;
    let aimed = aimed(&text, pids)
        .with_context(|| format!("{} has not one line of targets", policy.display()))?;
    fs::write(now, aimed).with_context(|| format!("write {}", now.display()))
}

fn aimed(policy: &str, pids: &BTreeSet<u32>) -> Option<String> {
    let is_targets = |line: &&str| line.starts_with("targets = ") && line.ends_with(']');
    let mut found = policy.lines().filter(is_targets);
    let (Some(old), None) = (found.next(), found.next()) else { return None };
    let pids: Vec<String> = pids.iter().map(|pid| format!("{{ pid = {pid} }}")).collect();
    Some(policy.replace(old, &format!("targets = [{}]", pids.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_say_why() {
        let said = "watching\n\nerror: no policy was written\n  why:   it costs 12 %\n";
        assert_eq!(last_words(said), "error: no policy was written; why:   it costs 12 %");
        assert_eq!(last_words("No winner.\n"), "No winner.");
        assert_eq!(last_words(" \n"), "");
    }

    #[test]
    fn a_policy_is_aimed_at_the_processes_of_now() {
        let policy = "# about\n[[context]]\nname = \"c\"\ntargets = [{ pid = 7 }, { name = \"x\" }]\n\
                      [[context.scheme]]\nage = \"2s..\"\n";
        let expected = "# about\n[[context]]\nname = \"c\"\ntargets = [{ pid = 8 }, { pid = 9 }]\n\
                        [[context.scheme]]\nage = \"2s..\"\n";
        let pids = [9, 8].into();
        assert_eq!(aimed(policy, &pids).unwrap(), expected);
        assert_eq!(aimed("[[context]]\n", &pids), None);
        assert_eq!(aimed(&format!("{policy}{policy}"), &pids), None);
    }
}
