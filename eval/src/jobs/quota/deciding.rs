//! Part `deciding`: what a pass of a scheme costs the core by itself, by region.
//!
//! The regions stay as they are, each tenth is hot. What is timed lies between a snapshot and the
//! next sample; without a scheme that is the end of the window, and the rest is the pass. What the
//! pass asks for is answered at once, so that no time of acting is in it.

use std::time::Instant;

use anyhow::Context as _;
use isotherm_core::scheme::{Action, Age, Bounds, Frequency, Pattern, Quota, Weights};
use isotherm_core::{
    AddrRange, Applied, Attrs, Context, Method, PageState, Scheme, TargetId, Time, Wish,
};
use serde::{Deserialize, Serialize};

use crate::stats::{percentile, to_f64};

/// Size of a region, in bytes.
const AREA: u64 = 1 << 20;
const WARM_UP: usize = 50;
/// Passes per repetition.
const PASSES: usize = 50;

/// One repetition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Cost {
    pub(super) regions: u64,
    pub(super) scheme: String,
    /// Median over its passes.
    pub(super) ns_per_region: f64,
}

/// Measures once for each number of regions and kind of scheme.
pub(super) fn measure() -> anyhow::Result<Vec<Cost>> {
    let mut costs = Vec::new();
    for regions in [1000, 10_000] {
        for (name, scheme) in [
            ("none", None),
            ("count", Some(scheme(Action::Stat, 0))),
            ("quota", Some(scheme(Action::Pageout, regions * AREA / 100))),
            ("no quota", Some(scheme(Action::Pageout, 0))),
        ] {
            let passes = passes(regions, scheme)?;
            let ns_per_region = percentile(&passes, 0.5).context("no pass")?;
            costs.push(Cost { regions, scheme: name.into(), ns_per_region });
        }
    }
    Ok(costs)
}

/// What is cold; with a limit, the coldest first.
fn scheme(action: Action, sz: u64) -> Scheme {
    let pattern = Pattern {
        nr_accesses: Frequency::Samples(Bounds::new(0, 2)),
        age: Age::Windows(Bounds::new(0, u32::MAX)),
        ..Pattern::ALL
    };
    let weights = Weights { sz: 1, nr_accesses: 3, age: 7 };
    Scheme {
        pattern,
        action,
        quota: Quota { sz, weights, ..Quota::default() },
        ..Scheme::default()
    }
}

/// ns per region of each pass.
fn passes(regions: u64, scheme: Option<Scheme>) -> anyhow::Result<Vec<f64>> {
    let attrs = Attrs {
        method: Method::Resample,
        aggr_us: 5_000,
        max_nr_regions: regions,
        ..Attrs::default()
    };
    let mut context = Context::new(attrs, 1).context("attributes")?;
    context.add_target(TargetId(0));
    context.commit_schemes(scheme.into_iter().collect::<Vec<_>>());
    let area = |i| AddrRange::new((1 << 40) + i * 2 * AREA, (1 << 40) + (i * 2 + 1) * AREA);
    let areas: Vec<_> = (0..regions).map(area).collect();
    let (mut now, mut costs, mut since) = (Time(0), Vec::new(), None::<Instant>);
    while costs.len() < WARM_UP + PASSES {
        let wish = context.poll(now);
        if wish == Wish::Apply {
            let request = context.request().0;
            let done = request.range.len().min(request.max_bytes);
            context.applied(Applied { covered: done, asked: done, ..Applied::default() });
            continue;
        }
        if let Some(since) = since.take() {
            let ns = since.elapsed().as_secs_f64() * 1e9;
            costs.push(ns / to_f64(u64::try_from(context.snapshot().nr_regions())?));
        }
        match wish {
            Wish::Prepare | Wish::Check => {
                for check in context.batch_mut() {
                    let hot = (check.addr / (2 * AREA)).is_multiple_of(10);
                    check.state = if hot { PageState::Young } else { PageState::Old };
                }
            }
            Wish::Update => context
                .set_ranges(TargetId(0), &areas)
                .map_err(|e| anyhow::anyhow!("areas: {e:?}"))?,
            Wish::Sleep(until) => now = until,
            Wish::Snapshot => since = Some(Instant::now()),
            other => anyhow::bail!("the core wishes for {other:?}"),
        }
    }
    Ok(costs.split_off(WARM_UP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_really_applied() {
        let mut costs = passes(50, Some(scheme(Action::Pageout, AREA))).unwrap();
        costs.retain(|c| *c > 0.0);
        assert_eq!(costs.len(), PASSES);
    }
}
