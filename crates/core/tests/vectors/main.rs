//! The golden vectors of the reference (`DAMON-REFERENCE` §8) that concern monitoring, and what it
//! measured of the loop (§9.1, §2.9, §2.10). One test per vector, named after it.
//!
//! * [`k`]: K1 to K28, the kernel's own unit tests;
//! * [`s`]: S1 to S19, fitting regions to ranges, and the three regions;
//! * [`v`]: V-*, numbers from the real code; [`v_loop`]: those of them that need a whole context;
//! * [`commit`]: setup C, pause, and the scheduling defects with and without `strict`.
//!
//! L1 and L2 are in `traces.rs`. Of §8.4 V-SCORE, V-MIN, V-WMARK, V-ESZ, V-CHARGE, V-SKIP and V-APPLY
//! are absent, and of §8.5 setups Q and F: they are about schemes, which this crate does not have yet.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod commit;
mod k;
mod run;
mod s;
mod v;
mod v_loop;
