//! What is fuzzed: every parser of bytes that are not ours, as plain functions.
//!
//! The bytes come from the kernel (BTF, trace pages, `/proc`), from users (policies, historic
//! schemes, workload configs), from clients (the control socket) or from files that others wrote
//! (records). A target panics if the
//! parser does, or if what was read breaks a promise of the parser.
//!
//! `tests/replay.rs` runs every target on its corpus and on mutations of it, with stable Rust and
//! in seconds. The binaries in `fuzz/` run the same functions under libFuzzer.

mod control;
mod kernel;
mod proc;
mod record;
mod texts;

/// A parser, and the name of its corpus.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The folder below `fuzz/corpus`.
    pub name: &'static str,
    /// Parses `data` and checks what came out.
    pub run: fn(data: &[u8]),
}

/// All targets.
pub const ALL: [Target; 13] = [
    Target { name: "btf", run: kernel::btf },
    Target { name: "trace_page", run: kernel::trace_page },
    Target { name: "trace_format", run: kernel::trace_format },
    Target { name: "trace_line", run: kernel::trace_line },
    Target { name: "maps", run: proc::maps },
    Target { name: "smaps", run: proc::smaps },
    Target { name: "stat", run: proc::stat },
    Target { name: "policy", run: texts::policy },
    Target { name: "damos", run: texts::damos },
    Target { name: "record", run: record::record },
    Target { name: "damo", run: record::damo },
    Target { name: "workload", run: texts::workload },
    Target { name: "control", run: control::control },
];

/// Runs the target called `name`.
///
/// # Panics
///
/// If there is no such target, and if the target finds something.
pub fn run(name: &str, data: &[u8]) {
    let target = ALL.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no target is called {name}")).run)(data);
}
