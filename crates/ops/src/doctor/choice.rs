//! Choosing the best operations set that works.

use std::fmt;

use isotherm_host::error::{Class, SetError, SetKind};
use isotherm_host::proc::Proc;
use isotherm_host::{Machine, Roots};

use super::{SelfTest, SetReport, examine};
use crate::idle::IdleOps;
use crate::kdamond::{Kdamond, Prefer};
use crate::pagewalk::{PageWalk, SharedMarks};
use crate::set::OpsSet;
use crate::smaps::{Limits, SmapsOps};
use crate::support::{SetName, Support};

/// A set that works, open and tested.
#[derive(Debug)]
pub struct Choice {
    /// The set.
    pub name: SetName,
    /// The set, without targets.
    pub ops: OpsSet,
    /// How its test went.
    pub self_test: SelfTest,
    /// Better sets that were not taken, and why; best first. The user should be told of them.
    pub refused: Vec<Refusal>,
}

/// A set that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The set.
    pub name: SetName,
    /// Why it was not taken, for the user.
    pub why: String,
    /// What to do about it; may be empty.
    pub fix: String,
    /// Whether a privilege is missing.
    pub denied: bool,
}

impl From<SetReport> for Refusal {
    fn from(report: SetReport) -> Self {
        let (fix, denied) = match report.support {
            Support::No { fix, denied, .. } => (fix, denied),
            _ => (String::new(), false),
        };
        Self { name: report.name, why: report.reason, fix, denied }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not used: {}", self.name.name(), self.why)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        Ok(())
    }
}

/// No set works, or not the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSet {
    /// What was tried, best first.
    pub refused: Vec<Refusal>,
    /// The one that was asked for.
    pub wanted: Option<SetName>,
}

impl NoSet {
    /// The exit code that a program should end with: that of a missing privilege if one would help,
    /// else that of a machine that cannot do it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let denied = self.refused.iter().any(|r| r.denied);
        if denied { Class::Permission.exit_code() } else { Class::NotSupported.exit_code() }
    }
}

impl fmt::Display for NoSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wanted {
            Some(name) => writeln!(f, "operations set `{}` is not available", name.name())?,
            None => writeln!(f, "no operations set works on this machine")?,
        }
        for refusal in &self.refused {
            writeln!(f, "  tried: open and test operations set `{}`", refusal.name.name())?;
            writeln!(f, "  why:   {}", refusal.why)?;
            if !refusal.fix.is_empty() {
                writeln!(f, "  hint:  {}", refusal.fix)?;
            }
        }
        write!(f, "  hint:  `isotherm doctor` lists the sets that this machine supports")
    }
}

impl std::error::Error for NoSet {}

/// Opens and tests sets, best first, and returns the first that works. With `wanted`, tries only
/// that one.
///
/// # Errors
///
/// If no set works. A wanted set that does not work is an error too. Only the caller can decide to
/// take another one instead, by calling `choose(None)`.
pub fn choose(wanted: Option<SetName>) -> Result<Choice, NoSet> {
    choose_from(wanted, |_| true)
}

/// As [`choose`], among the sets that can watch physical memory.
///
/// # Errors
///
/// As for [`choose`]; a wanted set that sees only processes is refused.
pub fn choose_physical(wanted: Option<SetName>) -> Result<Choice, NoSet> {
    let name = match wanted {
        Some(name) if !name.sees_physical() => name,
        _ => return choose_from(wanted, SetName::sees_physical),
    };
    let refused = vec![Refusal {
        name,
        why: "it looks at the memory of processes, and cannot watch physical memory".to_owned(),
        fix: "use `idle` (CONFIG_IDLE_PAGE_TRACKING) or `kdamond` (CONFIG_DAMON_PADDR)".to_owned(),
        denied: false,
    }];
    Err(NoSet { refused, wanted })
}

fn choose_from(wanted: Option<SetName>, fits: impl Fn(SetName) -> bool) -> Result<Choice, NoSet> {
    let roots = Roots::default();
    let machine = Machine::read(&roots);
    let mut refused = Vec::new();
    let names = SetName::ALL.into_iter().filter(|name| match wanted {
        Some(wanted) => *name == wanted,
        None => name.is_automatic() && fits(*name),
    });
    for name in names {
        let (mut report, ops) = examine(name, &machine, &roots);
        match (ops, report.self_test.take()) {
            (Some(ops), Some(self_test)) if report.usable => {
                return Ok(Choice { name, ops, self_test, refused });
            }
            _ => refused.push(Refusal::from(report)),
        }
    }
    if wanted.is_none() && fits(SetName::Kdamond) {
        let support = crate::support::detect(SetName::Kdamond, &machine, &roots);
        if !matches!(support, Support::No { .. }) {
            refused.push(Refusal {
                name: SetName::Kdamond,
                why: "the kernel's DAMON is only started when it is asked for by name".to_owned(),
                fix: "`--ops kdamond` (policies: ops = \"kdamond\")".to_owned(),
                denied: false,
            });
        }
    }
    Err(NoSet { refused, wanted })
}

/// Opens a set, without targets.
pub(super) fn open(name: SetName) -> Result<OpsSet, Support> {
    match name {
        SetName::PageWalk => match PageWalk::new() {
            Ok(mut set) => {
                set.set_marker(Some(Box::new(SharedMarks::default())));
                Ok(OpsSet::PageWalk(Box::new(set)))
            }
            Err(err) => Err(answer_of(name, &err)),
        },
        SetName::Idle => match IdleOps::new() {
            Ok(set) => Ok(OpsSet::Idle(Box::new(set))),
            Err(err) => Err(answer_of(name, &err)),
        },
        SetName::Smaps => {
            Ok(OpsSet::Smaps(Box::new(SmapsOps::new(Proc::default(), Limits::default()))))
        }
        SetName::Kdamond => match Kdamond::open(Prefer::from_env()) {
            Ok(set) => Ok(OpsSet::Kdamond(Box::new(set))),
            Err(err) => Err(answer_of(name, &err)),
        },
        SetName::Written => Err(Support::no("not built yet in this version of isotherm", None, "")),
    }
}

/// What an error of the set says about its support.
pub(super) fn answer_of(name: SetName, err: &SetError) -> Support {
    let why = if err.why().is_empty() { "the kernel refused" } else { err.why() };
    let since = match name {
        SetName::PageWalk => Some("5.17"),
        SetName::Idle => Some("4.3"),
        _ => None,
    };
    Support::No {
        why: format!("{why} (cannot {})", err.attempt()),
        since: since.filter(|_| err.kind() == SetKind::NotSupported).map(str::to_owned),
        fix: err.hint().to_owned(),
        denied: err.is_denied(),
    }
}
