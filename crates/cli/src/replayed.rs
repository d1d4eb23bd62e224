//! Schemes of a policy, as a replay takes them.

use isotherm::raw::act::apply::Evidence;
use isotherm::raw::agent::policy::SchemePolicy;
use isotherm::raw::host::glob::glob;
use isotherm::raw::report::replay::What;

/// A scheme as a replay takes it.
pub(crate) fn what(policy: &SchemePolicy) -> What {
    let SchemePolicy { scheme, settings } = policy;
    let patterns = settings.mappings.clone();
    What {
        name: settings.name.clone(),
        scheme: scheme.clone(),
        confirm_us: match settings.evidence {
            Evidence::Confirm(us) => Some(us),
            Evidence::Off => None,
        },
        refault_window_us: settings.refault_window_us,
        min_touched_bp: settings.min_touched_bp,
        matches_mapping: Box::new(move |nr, name| {
            let pattern = usize::try_from(nr).ok().and_then(|nr| patterns.get(nr));
            pattern.is_some_and(|pattern| glob(pattern.as_bytes(), name.as_bytes()))
        }),
    }
}
