//! The examples that need no privilege run and say what they should.

use std::path::PathBuf;
use std::process::Command;

/// Runs an example. `cargo test` builds them all beside the tests; `cargo test --tests` does not,
/// so one that is missing is built here.
fn example(name: &str) -> String {
    let test = std::env::current_exe().expect("this test");
    let target: PathBuf = test.ancestors().nth(2).expect("a target directory").into();
    let program = target.join("examples").join(name);
    if !program.exists() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--profile=test", "--package=isotherm", "--example", name]);
        assert!(cargo.status().expect("cargo").success(), "{name} cannot be built");
    }
    let output = Command::new(program).output().expect("it is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn record_reports_on_a_simulated_workload() {
    let said = example("record");
    assert!(said.contains("600 snapshots"), "{said}");
    assert!(said.contains("s9"), "the heatmap names mappings: {said}");
}

#[test]
fn own_set_finds_the_hundred_blocks() {
    let said = example("own_set");
    let last = said.lines().last().expect("windows");
    assert!(last.contains("KiB (") && last.ends_with("of 16.0 MiB in use"), "{said}");
}
