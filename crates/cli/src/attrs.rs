//! Monitoring attributes on the command line; `record`, `wss`, `demo` and `sim` share them.

use isotherm_core::units::{bounds, interval_us};
use isotherm_core::{Attrs, Method};

use crate::exit::usage;

/// The options.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AttrsArgs {
    /// How accesses are sampled.
    #[arg(long, value_enum, default_value_t = MethodArg::FirstTouch)]
    method: MethodArg,
    /// Sample interval (us, ms, s; without a unit µs).
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = interval_us)]
    sample: u64,
    /// Aggregation interval: one snapshot each.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = interval_us)]
    aggr: u64,
    /// How often the mappings are looked at.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval_us)]
    update: u64,
    /// Bounds of the number of regions.
    #[arg(long, value_name = "MIN..MAX", default_value = "10..1000", value_parser = bounds)]
    regions: (u64, u64),
    /// Most accessed bits to clear per second (`first-touch`).
    #[arg(long, value_name = "N", default_value_t = Attrs::default().clears_per_sec)]
    clears: u32,
}

/// Sampling methods as they are spelled here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MethodArg {
    /// A few watched pages per region: cold is free, hot is budgeted.
    #[value(alias = "first_touch")]
    FirstTouch,
    /// DAMON's: a new random page per region and sample.
    Resample,
}

impl AttrsArgs {
    /// The attributes, checked.
    pub(crate) fn attrs(&self) -> anyhow::Result<Attrs> {
        let attrs = Attrs {
            sample_us: self.sample,
            aggr_us: self.aggr,
            update_us: self.update,
            min_nr_regions: self.regions.0,
            max_nr_regions: self.regions.1,
            clears_per_sec: self.clears,
            method: match self.method {
                MethodArg::FirstTouch => Method::FirstTouch,
                MethodArg::Resample => Method::Resample,
            },
            ..Attrs::default()
        };
        // Zero would make the loop spin; the kernel allows it, a tool should not.
        if attrs.sample_us == 0 {
            return Err(usage(
                "impossible attributes\n  why:   the sample interval is 0\n  hint:  the default is 5ms",
            ));
        }
        attrs.validate().map_err(|e| {
            usage(format!(
                "impossible attributes\n  tried: --sample {} us, --aggr {} us, --regions {}..{}\n  \
                 why:   {e}\n  hint:  the defaults are --sample 5ms --aggr 100ms --regions 10..1000",
                attrs.sample_us, attrs.aggr_us, attrs.min_nr_regions, attrs.max_nr_regions
            ))
        })?;
        Ok(attrs)
    }
}
