//! Which operations sets work on this machine, shown by a test.
//!
//! [`run`] tests every set and gives a [`Report`]. [`choose`] gives the best set that works, open
//! and ready. A set works if [`crate::support`] says yes **and** it passes the self-test: a child
//! process touches some of its private pages, and the set has to say which. A set that fails is not
//! used, because a monitor that takes every page for idle is worse than none.
//!
//! This module prints nothing. [`Report`] has a text form (`Display`), a shorter one for a screen
//! ([`Report::brief`]) and a JSON form (serde).

mod brief;
mod choice;
mod region_test;
mod render;
mod self_test;

use serde::Serialize;

pub use choice::{Choice, NoSet, Refusal, choose, choose_physical};
pub use self_test::{Granularity, Rate, SelfTest, self_test};

use isotherm_host::{Machine, Roots, clearing};

use crate::set::OpsSet;
use crate::support::{SetName, Support};

/// What was found out about one operations set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetReport {
    /// The set.
    pub name: SetName,
    /// What it sees.
    pub sees: String,
    /// Whether this version of Isotherm has it.
    pub built: bool,
    /// Whether this machine supports it.
    pub support: Support,
    /// How the self-test went. `None` if there was none, because the set cannot be had.
    pub self_test: Option<SelfTest>,
    /// Whether `record` may use it.
    pub usable: bool,
    /// Why not; empty if it is usable.
    pub reason: String,
}

/// What was found out about the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Version of this form. It is raised when a field changes its meaning.
    pub schema: u32,
    /// The kernel and the machine that the report is about.
    pub machine: Machine,
    /// The sets, best first.
    pub sets: Vec<SetReport>,
    /// The set that would be taken.
    pub best: Option<SetName>,
    /// Whether calls that hold a lock of a target can be made at real-time priority. Without it a
    /// busy machine can make a target wait for tens of ms.
    pub raises_priority: bool,
    /// How long all of this took, in ms.
    pub elapsed_ms: u64,
}

/// What to examine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Also start a kdamond in the kernel for its self-test. This takes about three seconds, in
    /// which other programs cannot configure DAMON.
    pub kdamond: bool,
}

/// Looks at this machine and tests every set that it supports, except sets that are used only if
/// asked for by name. Takes well under two seconds.
#[must_use]
pub fn run() -> Report {
    run_to(Depth::default())
}

/// As [`run`], as deep as wanted.
#[must_use]
pub fn run_to(depth: Depth) -> Report {
    let begin = isotherm_sys::clock::now();
    let roots = Roots::default();
    let mut machine = Machine::read(&roots);
    machine.clearers.extend(clearing::open_elsewhere(&roots));
    let mut sets = Vec::new();
    for name in SetName::ALL {
        let (report, mut ops) = if name == SetName::Kdamond && !depth.kdamond {
            (untested(name, &machine, &roots), None)
        } else {
            examine(name, &machine, &roots)
        };
        if let Some(OpsSet::PageWalk(set)) = &mut ops {
            machine.paging_levels = Some(set.tables().setup().levels);
        }
        sets.push(report);
    }
    let best = sets.iter().find(|set| set.usable && set.name.is_automatic()).map(|set| set.name);
    let elapsed_ms = isotherm_sys::clock::now().since(begin) / 1_000_000;
    let raises_priority = isotherm_sys::priority::raise().is_ok();
    Report { schema: 1, machine, sets, best, raises_priority, elapsed_ms }
}

/// What lies open to see of a set.
fn untested(name: SetName, machine: &Machine, roots: &Roots) -> SetReport {
    let mut report = SetReport::new(name, machine, roots);
    match report.support.clone() {
        support @ Support::No { .. } => report.refuse(support),
        _ => {
            report.reason =
                "not tested: that would start a kdamond in the kernel (`isotherm doctor \
                             --kdamond` does)"
                    .to_owned();
        }
    }
    report
}

/// Looks at one set: opens it if possible, and tests it. Also returns the opened set.
fn examine(name: SetName, machine: &Machine, roots: &Roots) -> (SetReport, Option<OpsSet>) {
    let mut report = SetReport::new(name, machine, roots);
    if !report.built {
        report.reason = "not built yet in this version of isotherm".to_owned();
        return (report, None);
    }
    if let Support::No { .. } = &report.support {
        let support = report.support.clone();
        report.refuse(support);
        return (report, None);
    }
    let mut ops = match choice::open(name) {
        Ok(ops) => ops,
        Err(support) => {
            report.refuse(support);
            return (report, None);
        }
    };
    report.support = Support::Yes;
    match self_test(&mut ops) {
        Ok(test) => {
            report.usable = test.failure.is_none();
            if let Some(failure) = &test.failure {
                report.reason = format!("failed its self-test: {failure}");
            }
            report.self_test = Some(test);
        }
        // Some rights are checked only when there is a process to look at.
        Err(err) => report.refuse(choice::answer_of(name, &err)),
    }
    (report, Some(ops))
}

impl SetReport {
    fn new(name: SetName, machine: &Machine, roots: &Roots) -> Self {
        Self {
            name,
            sees: name.sees().to_owned(),
            built: name.is_built(),
            support: crate::support::detect(name, machine, roots),
            self_test: None,
            usable: false,
            reason: String::new(),
        }
    }

    fn refuse(&mut self, support: Support) {
        if let Support::No { why, .. } = &support {
            self.reason.clone_from(why);
        }
        self.support = support;
    }
}
