//! The choice of the operations set: the one asked for, or the best that passes its self-test.

use isotherm::raw::core::Attrs;
use isotherm::raw::ops::set::OpsSet;
use isotherm::raw::ops::support::SetName;

use crate::exit;
use crate::options::targets::TargetArgs;

/// `--ops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OpsArg {
    /// The best set that works on this machine.
    Auto,
    /// Page tables, read by eBPF. It sees reads and writes of single pages.
    Pagewalk,
    /// The kernel's idle page tracking. It sees reads and writes of single pages by all processes
    /// that map a page.
    Idle,
    /// The kernel's own DAMON. It is never chosen by default.
    Kdamond,
    /// /proc/PID/smaps. It sees whole mappings only and is the last resort.
    Smaps,
}

/// The option, for every command that has it.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct OpsOption {
    /// Which operations set looks at the memory.
    #[arg(
        long,
        value_enum,
        default_value_t = OpsArg::Auto,
        help_heading = "Monitoring",
        hide_short_help = true
    )]
    pub(crate) ops: OpsArg,
}

impl OpsArg {
    /// The set that was asked for; `None` means the best.
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

/// Opens a set, and fits the attributes to what it can do. Also returns lines that say which set it
/// is and why, for the user and the record.
pub(crate) fn open_set(wanted: OpsArg, attrs: &mut Attrs) -> anyhow::Result<(OpsSet, Vec<String>)> {
    isotherm::raw::agent::run::open_set(wanted.wanted(), attrs)
        .map_err(|e| exit::with(e.exit_code(), e.to_string()))
}

/// Opens a set for these targets. `any_method`: no method was asked for, so the set's usual one is
/// taken.
pub(crate) fn open_set_for(
    targets: &TargetArgs,
    attrs: &mut Attrs,
    any_method: bool,
) -> anyhow::Result<(OpsSet, Vec<String>)> {
    let (set, mut why) = if targets.paddr().is_none() {
        open_set(targets.ops(), attrs)?
    } else {
        isotherm::raw::agent::run::open_physical_set(targets.ops().wanted(), attrs)
            .map_err(|e| exit::with(e.exit_code(), e.to_string()))?
    };
    let usual = set.usual_method(attrs.method);
    if any_method && usual != attrs.method {
        attrs.method = usual;
        let name = set.name();
        why.push(format!("`{name}` watches some pages; `--method census` looks at every page"));
    }
    Ok((set, why))
}
