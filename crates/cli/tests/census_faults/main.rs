//! The method `census` where targets, rights or others do not do as they should.
//!
//! Every test watches a real process, of which some memory is touched all the time. Whatever
//! happens, windows go on, the hot memory is found (again), and no page of it is ever said to have
//! been idle for a second.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a test that skips something says why")]

mod disturbed;
mod machine;
mod rights;
mod shapes;
mod stopped;
mod target;
mod two;
mod watch;

#[path = "../faults/program.rs"]
#[expect(dead_code, reason = "shared with the tests in faults")]
mod program;
