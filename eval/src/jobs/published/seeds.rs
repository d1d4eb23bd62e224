//! What DAMON's evaluations published: totals over PARSEC3 and SPLASH-2X (25 programs), against
//! `orig`, in percent.
//!
//! Sources:
//!
//! * RFC v6: "Implement Data Access Monitoring-based Memory Operation Schemes" (2020-04-07), Linux
//!   v5.6; `orig` has huge pages at `madvise`. It has no `prec`.
//! * v20: DAMON's evaluation page, on the v20 patches, Linux v5.8.
//! * KS 2021: the Kernel Summit 2021 talk on DAMON, v5.15-rc1. It tells of `rec`, `prec` and the
//!   schemes in its text only, so some cells are absent.

use super::configs::{ETHP, PRCL, PREC, REC, THP, TUNED};

/// One publication's totals of a metric.
#[derive(Debug, Clone, Copy)]
pub(super) struct Published {
    /// Name and year.
    pub(super) source: &'static str,
    /// Percent more than `orig`, by configuration.
    pub(super) more: &'static [(&'static str, f64)],
}

impl Published {
    /// Of a configuration.
    pub(super) fn of(&self, config: &str) -> Option<f64> {
        self.more.iter().find(|(name, _)| *name == config).map(|(_, percent)| *percent)
    }
}

const RFC_V6: &str = "published, RFC v6";
const V20: &str = "published, v20";
const KS_2021: &str = "published, KS 2021";

/// Runtime.
pub(super) const RUNTIME: [Published; 3] = [
    Published { source: RFC_V6, more: &[(REC, 0.45), (THP, -4.51), (ETHP, -2.34), (PRCL, 3.24)] },
    Published {
        source: V20,
        more: &[(REC, 2.87), (PREC, 1.55), (THP, -4.16), (ETHP, -2.61), (PRCL, 11.22)],
    },
    Published { source: KS_2021, more: &[(REC, 0.62), (PREC, 1.53), (PRCL, 8.26), (TUNED, 0.91)] },
];

/// System memory.
pub(super) const MEMUSED: [Published; 2] = [
    Published { source: RFC_V6, more: &[(REC, -0.08), (THP, 7.08), (ETHP, 2.25), (PRCL, -2.94)] },
    Published {
        source: V20,
        more: &[(REC, 0.25), (PREC, -1.45), (THP, 7.54), (ETHP, 1.44), (PRCL, -6.95)],
    },
];

/// Resident memory.
pub(super) const RSS: [Published; 3] = [
    Published { source: RFC_V6, more: &[(REC, -0.24), (THP, 9.96), (ETHP, 3.24), (PRCL, -12.80)] },
    Published {
        source: V20,
        more: &[(REC, 0.38), (PREC, -0.12), (THP, 12.48), (ETHP, 3.06), (PRCL, -38.41)],
    },
    Published { source: KS_2021, more: &[(PRCL, -38.46), (TUNED, -24.97)] },
];
