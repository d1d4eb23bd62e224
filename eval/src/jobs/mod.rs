//! One file per job, and what several of them share.

pub(crate) mod accuracy;
pub(crate) mod example;
pub(crate) mod frontier;
pub(crate) mod idle;
pub(crate) mod overhead;
pub(crate) mod parity;
pub(crate) mod pressure;
pub(crate) mod quota;
pub(crate) mod reclaim;
pub(crate) mod record_size;
pub(crate) mod scale;
pub(crate) mod stalls;
pub(crate) mod thp;
pub(crate) mod tick;
pub(crate) mod tier;

/// Sampling methods as `isotherm record --method` spells them.
const METHODS: [&str; 3] = ["first-touch", "census", "resample"];
