//! The options of `tier`, as numbers.

use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::{Attrs, Method};

use crate::ready::knobs::Rate;

/// The knobs of `tier`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knobs {
    /// How full promotion makes an upper node, in basis points.
    pub used_bp: u64,
    /// How much of an upper node demotion keeps free, in basis points.
    pub free_bp: u64,
    /// The most that each scheme may move.
    pub rate: Rate,
    /// How often the schemes of Isotherm's engine look for something to do, in µs.
    pub step_us: u64,
    /// How long a page that was moved is not moved again, in µs.
    pub hold_us: u64,
    /// How long memory has to stay untouched before it is demoted, in µs.
    pub confirm_us: u64,
    /// The monitoring attributes.
    pub attrs: Attrs,
    /// Decide and count, but move nothing.
    pub dry_run: bool,
}

impl Default for Knobs {
    /// 99.7 % used, 0.5 % free; 200 MiB per second, ten times per second; half a minute of rest for
    /// a page that was moved; a second of watching. A census with a budget of 2 %; intervals tuned
    /// for 4 % of positive samples, from 5 ms to 10 s.
    fn default() -> Self {
        let goal = IntervalsGoal {
            access_bp: 400,
            aggrs: 3,
            min_sample_us: 5_000,
            max_sample_us: 10_000_000,
        };
        Self {
            used_bp: 9_970,
            free_bp: 50,
            rate: Rate { amount: 200 << 20, per_ms: 1000 },
            step_us: 100_000,
            hold_us: 30_000_000,
            confirm_us: 1_000_000,
            // A hundred regions at least: the hot parts of a large mapping are rarely in ten
            // pieces. What is hot on a slow node is to be found within seconds, so the budget is
            // twice that of who only looks.
            attrs: Attrs {
                method: Method::Census,
                budget_bp: 200,
                intervals_goal: goal,
                min_nr_regions: 100,
                ..Attrs::default()
            },
            dry_run: false,
        }
    }
}

impl Knobs {
    /// The overlap of the two goals, in basis points: while hot memory waits, demotion makes this
    /// much more room than promotion may fill. It stays the same where watermarks move the goals.
    #[must_use]
    pub fn overlap_bp(&self) -> u32 {
        u32::try_from((self.used_bp + self.free_bp).saturating_sub(10_000)).unwrap_or(0)
    }
}
