//! Which operations set a context uses, and what it makes of the attributes.

use isotherm_core::Attrs;
use isotherm_ops::doctor::{Choice, NoSet, choose, choose_physical};
use isotherm_ops::set::OpsSet;
use isotherm_ops::support::SetName;

/// Opens a set, or the best that passes its self-test, and fits the attributes to what it can do.
/// Also says which it is and why, in lines for people.
///
/// # Errors
///
/// If none works, or not the wanted one.
pub fn open_set(
    wanted: Option<SetName>,
    attrs: &mut Attrs,
) -> Result<(OpsSet, Vec<String>), NoSet> {
    take(choose(wanted)?, attrs)
}

/// As [`open_set`], of the sets that can watch physical memory.
///
/// # Errors
///
/// As for [`open_set`].
pub fn open_physical_set(
    wanted: Option<SetName>,
    attrs: &mut Attrs,
) -> Result<(OpsSet, Vec<String>), NoSet> {
    take(choose_physical(wanted)?, attrs)
}

fn take(choice: Choice, attrs: &mut Attrs) -> Result<(OpsSet, Vec<String>), NoSet> {
    let mut why: Vec<_> = choice.refused.iter().map(ToString::to_string).collect();
    why.push(format!("operations set `{}` passed its self-test", choice.name.name()));
    if choice.name == SetName::Smaps {
        why.push("`smaps` sees whole mappings only: a mapping is hot or cold as one".into());
    }
    why.extend(fit(&choice.ops, attrs));
    let mut ops = choice.ops;
    if let Some(kdamond) = ops.kdamond() {
        why.push(format!("the kernel's windows come by {}", kdamond.source()));
    }
    Ok((ops, why))
}

/// Fits attributes to a set; a line for people if that changed the intervals.
pub(super) fn fit(set: &OpsSet, attrs: &mut Attrs) -> Option<String> {
    attrs.method = set.method(attrs.method);
    let least = set.least_sample_us();
    if attrs.sample_us >= least {
        return None;
    }
    let windows = attrs.aggr_us / attrs.sample_us.max(1);
    attrs.sample_us = least;
    attrs.aggr_us = attrs.aggr_us.max(least * windows.min(10));
    let goal = &mut attrs.intervals_goal;
    if goal.aggrs != 0 {
        goal.min_sample_us = goal.min_sample_us.max(least);
        goal.max_sample_us = goal.max_sample_us.max(least);
    }
    Some(format!(
        "`{}` looks at most every {} ms, so the intervals are {} ms and {} ms",
        set.name(),
        least / 1000,
        attrs.sample_us / 1000,
        attrs.aggr_us / 1000
    ))
}
