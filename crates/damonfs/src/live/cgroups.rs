//! Whether the cgroups that a configuration names are there.

use isotherm_damon::model::{Context, FilterKind};
use isotherm_host::metrics::MetricKind;
use isotherm_host::metrics::cgroup::Cgroups;
use isotherm_host::proc::Proc;
use rustix::io::Errno;

use super::Log;

/// Looks for every cgroup that schemes name.
///
/// # Errors
///
/// ENOMEM if one is not there: that is what the kernel says when it cannot make a scheme.
pub(super) fn check(context: &Context, log: &Log) -> Result<(), Errno> {
    let mut named = Vec::new();
    for scheme in &context.schemes {
        for filter in scheme.core_filters.iter().chain(&scheme.ops_filters).chain(&scheme.filters) {
            if let FilterKind::Memcg(path) = &filter.kind {
                named.push(path.as_str());
            }
        }
        named.extend(scheme.quota.goals.iter().filter_map(|goal| goal.metric.path()));
    }
    if named.is_empty() {
        return Ok(());
    }
    let mounted = Cgroups::mounted(&Proc::default());
    for path in named {
        if mounted.memory_id(path).is_err_and(|err| err.kind() == MetricKind::NoCgroup) {
            log(&format!("there is no cgroup {path}"));
            return Err(Errno::NOMEM);
        }
    }
    Ok(())
}
