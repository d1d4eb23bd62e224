//! One load phase: a program that is started for it, the machine set up for a configuration, and
//! Isotherm beside it.
//!
//! As in the published evaluations each phase is a new run, so that none inherits huge pages, swap
//! or a heap from the one before. A phase has a swap device of its own. Everything is put back in
//! the reverse order, also when the phase fails: the tool, the program, swap, the setting for huge
//! pages.

use std::path::Path;

use super::configs::{Beside, CENSUS, Config};
use super::suite::Plan;
use super::{gallery, policies};
use crate::job::Bench;
use crate::jobs::thp::setting::{self, Setting};
use crate::measure::{self, Run, Scheme};
use crate::programs::{Place, Program};
use crate::readings::sampling::tree;

/// Of the swap device, uncompressed; as in the published evaluations.
pub(super) const SWAP_BYTES: u64 = 4 << 30;

/// Runs it. `policy` is that of the program and configuration, if it has one.
pub(super) fn run(
    bench: &Bench<'_>,
    program: &dyn Program,
    plan: &Plan,
    config: Config,
    policy: Option<&Path>,
) -> anyhow::Result<Run> {
    let has_huge_pages = setting::found().is_some();
    let _setting = has_huge_pages.then(|| Setting::set(config.huge_pages)).transpose()?;
    let zram = measure::swap(SWAP_BYTES)?;
    let place = Place::create(program.name())?;
    let mut running = program.begin(&place, plan.size())?;
    let name = format!("{}-{}", program.name(), config.name);
    let log = bench.dir.raw(&name);
    let file = match (config.beside, policy) {
        (Beside::Policy, Some(policy)) => {
            let now = bench.dir.raw(&format!("{name}.now.toml"));
            policies::aim(policy, &tree(&running.roots()), &now)?;
            now
        }
        _ => bench.dir.raw(&format!("{name}.data")),
    };
    let command = config.command(plan.age_ms, &file);
    let scheme = command.as_ref().map(|(subcommand, args)| Scheme {
        isotherm: &bench.spec.isotherm,
        name: subcommand,
        watches: config.takes_pids(),
        args,
        log: &log,
    });
    let warm = if running.lasts() { plan.warm } else { 0.0 };
    let run = measure::run(running.as_mut(), scheme, Some(&zram), warm, plan.seconds);
    drop(running);
    drop(place);
    zram.tear_down()?;
    if matches!(config.beside, Beside::Record(_)) {
        if config.name == CENSUS {
            gallery::draw(bench, program.name(), &file);
        }
        // Records are large, so none stays. It may never have been written.
        std::fs::remove_file(&file).ok();
    }
    run
}
