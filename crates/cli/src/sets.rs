//! Which operations set to use: the one asked for, or the best that passes its self-test.

use isotherm_core::Attrs;
use isotherm_ops::set::OpsSet;
use isotherm_ops::support::SetName;

use crate::exit;
use crate::record::TargetArgs;

/// `--ops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OpsArg {
    /// The best set that works on this machine.
    Auto,
    /// Page tables, read by eBPF: every page, reads and writes.
    Pagewalk,
    /// The kernel's idle page tracking: every page, reads and writes, of all processes that map it.
    Idle,
    /// The kernel's own DAMON; only if asked for.
    Kdamond,
    /// Whole mappings only, by /proc/PID/smaps; the last resort.
    Smaps,
}

impl OpsArg {
    /// The set that is wanted; none: the best.
    pub(crate) const fn wanted(self) -> Option<SetName> {
        match self {
            Self::Auto => None,
            Self::Pagewalk => Some(SetName::PageWalk),
            Self::Idle => Some(SetName::Idle),
            Self::Kdamond => Some(SetName::Kdamond),
            Self::Smaps => Some(SetName::Smaps),
        }
    }
}

/// Opens a set, and fits the attributes to what it can do. Also says which it is and why, in lines
/// for the user and the record.
pub(crate) fn open_set(wanted: OpsArg, attrs: &mut Attrs) -> anyhow::Result<(OpsSet, Vec<String>)> {
    isotherm_agent::run::open_set(wanted.wanted(), attrs)
        .map_err(|e| exit::with(e.exit_code(), e.to_string()))
}

/// Opens a set for these targets.
pub(crate) fn open_set_for(
    targets: &TargetArgs,
    attrs: &mut Attrs,
) -> anyhow::Result<(OpsSet, Vec<String>)> {
    if targets.paddr().is_none() {
        return open_set(targets.ops(), attrs);
    }
    isotherm_agent::run::open_physical_set(targets.ops().wanted(), attrs)
        .map_err(|e| exit::with(e.exit_code(), e.to_string()))
}
