//! Options for the monitoring attributes, which `record`, `wss`, `demo` and `sim` share.

use isotherm::raw::agent::policy::defaults::LEAST_SAMPLE_US;
use isotherm::raw::core::units::{
    UnitError, bounds, interval_us_with_unit, share_bp, show_interval,
};
use isotherm::raw::core::{Attrs, Method};

use crate::exit::usage;

/// The options for the attributes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Monitoring")]
pub(crate) struct AttrsArgs {
    /// How accesses are sampled.
    #[arg(long, value_enum, default_value_t = MethodArg::Auto, hide_short_help = true)]
    method: MethodArg,
    /// Sample interval, at least 100us (us, ms, s).
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5ms",
        value_parser = interval_us_with_unit,
        hide_short_help = true
    )]
    sample: u64,
    /// Aggregation interval. Each gives one snapshot.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "100ms",
        value_parser = interval_us_with_unit,
        hide_short_help = true
    )]
    aggr: u64,
    /// How often the mappings are read again.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = interval_us_with_unit,
        hide_short_help = true
    )]
    update: u64,
    /// Smallest and largest number of regions.
    #[arg(
        long,
        value_name = "MIN..MAX",
        default_value = "10..1000",
        value_parser = bounds,
        hide_short_help = true
    )]
    regions: (u64, u64),
    /// The share of one CPU that monitoring may use.
    ///
    /// For the method `census`: its own time, and half a microsecond of the target's for every page
    /// that it touches again.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "1%",
        value_parser = budget,
        hide_short_help = true
    )]
    budget: u32,
}

/// Sampling methods, as they are spelled on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MethodArg {
    /// `census` where the operations set is `pagewalk`; else `first-touch`, or what the set can
    /// do.
    Auto,
    /// Watch a few pages per region until they are touched. Cold memory costs nothing; hot memory
    /// is kept within 200 clears of accessed bits per second.
    #[value(alias = "first_touch")]
    FirstTouch,
    /// Look at every page, 2 MiB at a time, within `--budget`. Finds scattered memory. Needs the
    /// operations set `pagewalk` or `idle`.
    Census,
    /// DAMON's method: look at a new random page per region and sample.
    Resample,
}

/// A budget, in basis points of one CPU.
pub(crate) fn budget(text: &str) -> Result<u32, String> {
    match budget_of_several(text)? {
        10_001.. => Err("more than one CPU; the default is 1%".to_owned()),
        bp => Ok(bp),
    }
}

/// A budget that may be more than one CPU, in basis points of one.
pub(crate) fn budget_of_several(text: &str) -> Result<u32, String> {
    match share_bp(text) {
        Ok(0) => {
            Err("a budget of 0, with which nothing can be seen; the least is 0.01%".to_owned())
        }
        Ok(bp) => u32::try_from(bp).map_err(|e| e.to_string()),
        Err(UnitError::TooFine { .. }) => Err("a budget is a multiple of 0.01% of one CPU, and \
             0.01% is the least; the default is 1%"
            .to_owned()),
        Err(err) => Err(err.to_string()),
    }
}

impl AttrsArgs {
    /// Whether no method was asked for.
    pub(crate) fn is_auto(&self) -> bool {
        self.method == MethodArg::Auto
    }

    /// The attributes, checked. `auto` is the method of a command for which none was asked.
    pub(crate) fn attrs(&self, auto: Method) -> anyhow::Result<Attrs> {
        let method = match self.method {
            MethodArg::Auto => auto,
            MethodArg::FirstTouch => Method::FirstTouch,
            MethodArg::Census => Method::Census,
            MethodArg::Resample => Method::Resample,
        };
        let defaults = Attrs::default();
        let attrs = Attrs {
            sample_us: self.sample,
            aggr_us: self.aggr,
            update_us: self.update,
            min_nr_regions: self.regions.0,
            max_nr_regions: self.regions.1,
            budget_bp: self.budget,
            method,
            ..defaults
        };
        // Zero would make the loop spin. The kernel allows it; this tool does not.
        if attrs.sample_us < LEAST_SAMPLE_US {
            let sample = show_interval(attrs.sample_us);
            let why = "to wake up and look takes tens of microseconds";
            return Err(usage(format!(
                "impossible attributes\n  tried: --sample {sample}\n  why:   the sample interval is {sample}, and \
                 {why}\n  hint:  at least 100us; the default is 5ms"
            )));
        }
        attrs.validate().map_err(|e| {
            usage(format!(
                "impossible attributes\n  tried: --sample {}, --aggr {}, --regions {}..{}\n  \
                 why:   {e}\n  hint:  the defaults are --sample 5ms --aggr 100ms --regions 10..1000",
                show_interval(attrs.sample_us),
                show_interval(attrs.aggr_us),
                attrs.min_nr_regions,
                attrs.max_nr_regions
            ))
        })?;
        Ok(attrs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_too_fine_is_refused_with_the_least() {
        let least = "a budget is a multiple of 0.01% of one CPU, and 0.01% is the least; the default \
                     is 1%";
        for (text, want) in [
            ("0.01%", Ok(1)),
            ("100%", Ok(10_000)),
            ("0.0001%", Err(least)),
            ("1.005%", Err(least)),
            ("0", Err("a budget of 0, with which nothing can be seen; the least is 0.01%")),
            ("200%", Err("more than one CPU; the default is 1%")),
        ] {
            assert_eq!(budget(text), want.map_err(str::to_owned), "{text}");
        }
        assert_eq!(budget_of_several("200%"), Ok(20_000));
        assert_eq!(budget_of_several("0.001%"), Err(least.to_owned()));
    }
}
