//! `thp`: huge pages where memory is hot, and none where it is cold (`ethp` of the evaluations,
//! R§10).
//!
//! Hot regions are collapsed into huge pages, but only where enough pages were touched: otherwise
//! memory would grow without use, and only after a sample has shown that huge pages pay for the
//! target (`prove`). With `inject`, regions that are idle for long also get the advice
//! to use small pages only. That prevents new huge pages, and does not split existing ones.

use std::path::PathBuf;

use isotherm_act::apply::Settings;
use isotherm_core::Scheme;
use isotherm_core::scheme::{Action, Bounds, Frequency, Pattern, Watermarks, Weights};

use super::{Confirm, Limits, Whose, from_age};
use crate::policy::{Policy, SchemePolicy};

/// The knobs of `thp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thp {
    /// Whose memory.
    pub whose: Whose,
    /// From which frequency a region counts as hot, in basis points.
    pub hot_min_bp: u32,
    /// The least size of a region, in bytes.
    pub min_size: u64,
    /// The least share of a huge page's pages that must have been touched, in basis points.
    pub min_touched_bp: u32,
    /// For how long a region has to be idle to get small pages only, in µs. With `inject`.
    pub cold_min_age_us: u64,
    /// Whether targets may be stopped for a moment to let them call `madvise` themselves.
    pub inject: bool,
    /// What limits collapsing.
    pub limits: Limits,
    /// [`Confirm::Off`]: collapse without looking at the touched pages.
    pub confirm: Confirm,
    /// Collapse at large only what a sample has shown to pay.
    pub prove: bool,
    /// With `prove`: a file whose last number counts the work of the target.
    pub progress: Option<PathBuf>,
    /// Decide and count, but do nothing.
    pub dry_run: bool,
}

impl Default for Thp {
    /// Hot from 5 %, at least 2 MiB, half of the pages touched; proven; cold after 7 s; without
    /// limit, as `ethp`.
    fn default() -> Self {
        Self {
            whose: Whose::default(),
            hot_min_bp: 500,
            min_size: 2 << 20,
            min_touched_bp: 5_000,
            cold_min_age_us: 7_000_000,
            inject: false,
            limits: Limits {
                size: None,
                time: None,
                goals: Vec::new(),
                weights: Weights { sz: 0, nr_accesses: 1, age: 1 },
                watermarks: Watermarks::default(),
                brake: None,
            },
            confirm: Confirm::default(),
            prove: true,
            progress: None,
            dry_run: false,
        }
    }
}

impl Thp {
    /// The policy.
    #[must_use]
    pub fn policy(self) -> Policy {
        let settings = |name: &str| Settings {
            name: name.to_owned(),
            dry_run: self.dry_run,
            inject: self.inject,
            ..Settings::default()
        };
        let mut hot = SchemePolicy {
            settings: Settings {
                min_touched_bp: self.min_touched_bp,
                prove: self.prove,
                progress: self.progress.clone(),
                ..settings("hot")
            },
            ..SchemePolicy::default()
        };
        hot.scheme = Scheme {
            pattern: Pattern {
                sz: Bounds::new(self.min_size, u64::MAX),
                nr_accesses: Frequency::Bp(Bounds::new(self.hot_min_bp, u32::MAX)),
                age: Pattern::ALL.age,
            },
            action: Action::Collapse,
            quota: Limits { brake: None, ..self.limits.clone() }.quota(&mut hot.settings),
            watermarks: self.limits.watermarks,
            ..Scheme::default()
        };
        let mut schemes = vec![hot];
        if self.inject {
            let scheme = Scheme {
                pattern: Pattern {
                    sz: Bounds::new(self.min_size, u64::MAX),
                    nr_accesses: Frequency::Bp(Bounds::new(0, 0)),
                    age: from_age(self.cold_min_age_us),
                },
                action: Action::Nohugepage,
                ..Scheme::default()
            };
            schemes.push(SchemePolicy { scheme, settings: settings("cold") });
        }
        for SchemePolicy { scheme, settings } in &mut schemes {
            settings.evidence = self.confirm.evidence(scheme, &self.whose.attrs);
        }
        self.whose.policy("thp", schemes)
    }
}
