//! What makes the program pleasant to live with: completions, manual pages, config files, the
//! pager, the doctor, the tutorial, the hand-over to Python.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "in a test")]

mod config;
mod doctor;
mod fleet;
mod manual;
mod pager;
mod plan;
#[path = "../faults/program.rs"]
#[expect(dead_code, reason = "shared with other tests, which use more of it")]
mod program;
mod shells;
mod tutorial;

/// Whether a program is installed; says so if it is not.
fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|dir| dir.join(program).is_file());
    if !found {
        eprintln!("not tested: {program} is not installed");
    }
    found
}
