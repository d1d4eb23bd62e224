//! The vectors of the reference about schemes, and what only Isotherm's schemes do.
//!
//! * [`k`]: K13 to K20, K23 and K25, the kernel's own unit tests of schemes;
//! * [`v`]: V-*, numbers from the real code;
//! * [`c`]: setup C's schemes, walks, waiting for watermarks, and those of the kernel's selftests
//!   (§8.3) that can be run on a simulation;
//! * [`q`], [`f`]: setups Q (quotas) and F (filters), with every range that a scheme asks for;
//! * [`d`]: what the kernel does and `strict` reproduces, and what is done instead by default
//!   (§9.2);
//! * [`brake`]: the brake, which only Isotherm has.

pub(crate) mod acting;
mod brake;
mod c;
mod d;
mod f;
mod k;
mod q;
pub(crate) mod v;
