//! The library over real kernels' DAMON. Writes to it, so it runs in the lab's machines only
//! (`ISOTHERM_LAB=1`): never on a machine that somebody uses.
//!
//! A kernel has one DAMON, so there is no harness with threads here: one test after the other, all
//! names printed.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test without a harness says what it does"
)]

#[path = "damon/commits.rs"]
mod commits;
#[path = "damon/ownership.rs"]
mod ownership;
#[path = "damon/world.rs"]
mod world;
#[path = "damon/writing.rs"]
mod writing;

use world::World;

type Test = (&'static str, fn(&World));

const TESTS: &[Test] = &[
    ("every_file_reads_back", writing::every_file_reads_back),
    ("refusals_are_explained", writing::refusals_are_explained),
    ("vaddr_sees_what_is_hot", writing::vaddr_sees_what_is_hot),
    ("busy_is_waited_for", writing::busy_is_waited_for),
    ("commit_changes_what_runs", commits::commit_changes_what_runs),
    ("refused_commit_changes_nothing", commits::refused_commit_changes_nothing),
    ("target_in_the_middle_goes", commits::target_in_the_middle_goes),
    ("ended_target_in_the_middle_goes", commits::ended_target_in_the_middle_goes),
    ("ends_with_its_last_target", commits::ends_with_its_last_target),
    ("foreign_stays_untouched", ownership::foreign_stays_untouched),
    ("killed_is_cleaned_up", ownership::killed_is_cleaned_up),
    ("module_in_the_way", ownership::module_in_the_way),
];

fn main() {
    if let Ok(role) = std::env::var("DAMON_TEST_ROLE") {
        return world::play(&role);
    }
    if std::env::var("ISOTHERM_LAB").as_deref() != Ok("1") {
        println!(
            "skipped: writes to the kernel's DAMON, so it runs in the lab only (ISOTHERM_LAB=1)"
        );
        return;
    }
    let world = World::new();
    if let Err(err) = world.root.require() {
        println!("skipped: {err}");
        return;
    }
    let only = std::env::args().nth(1).filter(|arg| !arg.starts_with('-'));
    for (name, test) in TESTS {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        println!("damon: {name} ...");
        test(&world);
        assert_eq!(world.root.nr_kdamonds().unwrap(), 0, "{name} left something behind");
    }
    println!("damon: all passed on {}", world.root.release());
}
