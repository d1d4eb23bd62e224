//! `isotherm run POLICY --over RECORD`: what a policy would have done to a recorded program.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use isotherm::raw::agent::policy::{ContextPolicy, Policy, TargetSpec};
use isotherm::raw::host::glob::glob;
use isotherm::raw::record::Target;
use isotherm::raw::report::Filter;
use isotherm::raw::report::replay::{Replayed, Report, What};

use crate::files;
use crate::reading::plan::price;
use crate::replayed::what;
use crate::terminal::warn;

/// Runs every context of the policy over the record.
pub(super) fn run(policy: &Policy, record: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let opened = files::open(record)?;
    let price = price(None, 1.0);
    let mut out = std::io::stdout().lock();
    for context in &policy.contexts {
        let begin = Instant::now();
        let schemes: Vec<What> = context.schemes.iter().map(what).collect();
        let replayed = Replayed { name: &context.name, schemes: &schemes };
        tell_of_rules(context);
        let family = RefCell::new(BTreeSet::new());
        let wants = |target: &Target| wants(context, target, &mut family.borrow_mut());
        let report = Report::build(&opened, &Filter::default(), &replayed, &wants, price.clone())?;
        if json {
            writeln!(out, "{}", report.to_json())?;
            continue;
        }
        let took_s = begin.elapsed().as_secs_f64();
        write!(out, "{}", report.to_text())?;
        writeln!(
            out,
            "  played back in {:.2} s, {:.0} times as fast as it was",
            took_s,
            report.len_s / took_s.max(1e-9)
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a target of the record is one of the context's, or a child of one. `family` keeps their
/// pids; parents come before their children. What a record cannot tell, as cgroups, lets all in.
fn wants(context: &ContextPolicy, target: &Target, family: &mut BTreeSet<u32>) -> bool {
    let is = |spec: &TargetSpec| match spec {
        TargetSpec::Pid(pid) => *pid == target.pid,
        TargetSpec::Name(pattern) => glob(pattern.as_bytes(), target.name.as_bytes()),
        TargetSpec::Memory(_) => target.memory.is_some(),
        _ => true,
    };
    let is_named = context.targets.is_empty() || context.targets.iter().any(is);
    let is_wanted = is_named || (context.children && family.contains(&target.ppid));
    if is_wanted {
        family.insert(target.pid);
    }
    is_wanted
}

fn tell_of_rules(context: &ContextPolicy) {
    let told = |spec: &TargetSpec| {
        matches!(spec, TargetSpec::Pid(_) | TargetSpec::Name(_) | TargetSpec::Memory(_))
    };
    if !context.targets.iter().all(told) {
        warn(&format!(
            "context `{}`: a record does not tell cgroups, units, pods, containers and users, so all \
             of its processes count as targets",
            context.name
        ));
    }
}
