//! Opens the operations set of a context, and fits the attributes to it.

use isotherm_core::{Attrs, Method};
use isotherm_ops::doctor::{Choice, NoSet, choose, choose_physical};
use isotherm_ops::set::OpsSet;
use isotherm_ops::support::SetName;

/// Opens the wanted set, or else the best one that passes its self-test, and fits the attributes to
/// what it can do. Also returns lines for people that say which set it is and why.
///
/// # Errors
///
/// If no set works, or the wanted one does not.
pub fn open_set(
    wanted: Option<SetName>,
    attrs: &mut Attrs,
) -> Result<(OpsSet, Vec<String>), NoSet> {
    take(choose(wanted)?, attrs)
}

/// As [`open_set`], but chooses among the sets that can watch physical memory.
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
        why.push("`smaps` sees only whole mappings, so a mapping is hot or cold as a whole".into());
    }
    let wanted = attrs.method;
    why.extend(fit(&choice.ops, attrs));
    if wanted == Method::Census && attrs.method != wanted {
        let name = choice.name.name();
        let needs = "method `census` needs `pagewalk` or `idle`";
        why.push(format!("{needs}, so `{name}` samples in its usual way"));
    }
    let mut ops = choice.ops;
    if let Some(kdamond) = ops.kdamond() {
        why.push(format!("the kernel's windows come by {}", kdamond.source()));
    }
    Ok((ops, why))
}

/// Fits attributes to a set. Returns a line for people if that changed the intervals.
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
