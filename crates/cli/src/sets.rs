//! Which operations set to use: the one asked for, or the best that passes its self-test.

use isotherm_core::{Attrs, Method};
use isotherm_linux::OpsSet;
use isotherm_linux::doctor::choose;
use isotherm_linux::support::SetName;

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

/// Opens a set, and fits the attributes to what it can do. Also says which it is and why, in lines for
/// the user and the record.
pub(crate) fn open_set(wanted: OpsArg, attrs: &mut Attrs) -> anyhow::Result<(OpsSet, Vec<String>)> {
    let wanted = match wanted {
        OpsArg::Auto => None,
        OpsArg::Pagewalk => Some(SetName::PageWalk),
        OpsArg::Smaps => Some(SetName::Smaps),
    };
    let choice = choose(wanted).map_err(|e| exit::with(e.exit_code(), e.to_string()))?;
    let mut why: Vec<_> = choice.refused.iter().map(ToString::to_string).collect();
    why.push(format!("operations set `{}` passed its self-test", choice.name.name()));
    if choice.name == SetName::Smaps {
        // A clear hits the whole process, so a page cannot be kept armed while another is sampled.
        attrs.method = Method::Resample;
        why.push("`smaps` sees whole mappings only: a mapping is hot or cold as one".into());
    }
    let least = choice.ops.least_sample_us();
    if attrs.sample_us < least {
        let windows = attrs.aggr_us / attrs.sample_us.max(1);
        attrs.sample_us = least;
        attrs.aggr_us = attrs.aggr_us.max(least * windows.min(10));
        why.push(format!(
            "`{}` looks at most every {} ms, so the intervals are {} ms and {} ms",
            choice.name.name(),
            least / 1000,
            attrs.sample_us / 1000,
            attrs.aggr_us / 1000
        ));
    }
    Ok((choice.ops, why))
}
