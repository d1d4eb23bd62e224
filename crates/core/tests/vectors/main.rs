//! The golden vectors of the reference (`DAMON-REFERENCE` §8) that the core has to reproduce, and
//! what the reference measured of the loop (§9.1, §2.9, §2.10). One test per vector, named after
//! it.
//!
//! * [`k`]: K1 to K28, the kernel's own unit tests;
//! * [`s`]: S1 to S19, fitting regions to ranges, and the three regions;
//! * [`v`]: V-*, numbers from the real code; [`v_loop`]: those of them that need a whole context;
//! * [`commit`]: setup C, pause, and the scheduling defects with and without `strict`;
//! * [`observed`]: windows that somebody else observed, which only Isotherm has;
//! * [`rare`]: rare paths that were found by comparing with the kernel's code;
//! * [`sleeping`]: samples that `first_touch` sleeps through;
//! * [`schemes`]: all that is about schemes.
//!
//! L1 and L2 are in `traces.rs`.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod commit;
mod k;
mod observed;
mod rare;
mod run;
mod s;
mod schemes;
mod sleeping;
mod v;
mod v_loop;
