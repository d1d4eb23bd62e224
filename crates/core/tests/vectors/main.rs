//! The golden vectors of the reference (`DAMON-REFERENCE` §8) that concern monitoring, and what it
//! measured of the loop (§9.1, §2.9, §2.10). One test per vector, named after it.
//!
//! * [`k`]: K1 to K28, the kernel's own unit tests;
//! * [`s`]: S1 to S19, fitting regions to ranges, and the three regions;
//! * [`v`]: V-*, numbers from the real code; [`v_loop`]: those of them that need a whole context;
//! * [`commit`]: setup C, pause, and the scheduling defects with and without `strict`.
//!
//! * [`k_schemes`], [`v_schemes`], [`c_schemes`]: the same about schemes; the last also has walks,
//!   waiting for watermarks, and what of the kernel's selftests (§8.3) can be run on a simulation;
//! * [`q`], [`f`]: setups Q (quotas) and F (filters), every range that a scheme asks for.
//! * [`brake`], [`observed`]: what only Isotherm has;
//! * [`rare`]: rare paths that were found by comparing with the kernel's code;
//! * [`d`]: what the kernel does and `strict` reproduces, and what is done instead by default
//!   (§9.2).
//!
//! L1 and L2 are in `traces.rs`.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod acting;
mod brake;
mod c_schemes;
mod commit;
mod d;
mod f;
mod k;
mod k_schemes;
mod observed;
mod q;
mod rare;
mod run;
mod s;
mod sleeping;
mod v;
mod v_loop;
mod v_schemes;
