//! Properties that must hold in every run.
//!
//! * [`passes`]: splitting, merging and fitting keep order, bytes and bounds;
//! * [`context`]: a whole context under arbitrary facts, see [`world`]; [`ledger`] has what must
//!   hold of all that [`schemes`] ask for;
//! * [`acts`]: commits that change nothing, and turns that are fair.
//!
//! Every run draws the same cases, so a failure in CI can be repeated anywhere. Other cases, more
//! of them, or those of a failure that was printed: `PROPTEST_RNG_SEED=7 PROPTEST_CASES=5000 cargo
//! test -p isotherm-core --test props`. A case that failed is kept in `*.regressions` beside its
//! test, and tried first from then on: check that file in.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

use proptest::test_runner::{Config, FileFailurePersistence, RngSeed};

mod acts;
mod context;
mod ledger;
mod passes;
mod schemes;
mod world;

/// The configuration of all properties: a fixed seed, unless one is given; it is printed.
#[expect(clippy::print_stderr, reason = "the seed replays the run")]
fn config(cases: u32) -> Config {
    let mut config = Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        max_shrink_iters: 2000,
        ..Config::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(1);
    }
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    eprintln!("replay: PROPTEST_RNG_SEED={} PROPTEST_CASES={}", config.rng_seed, config.cases);
    config
}
