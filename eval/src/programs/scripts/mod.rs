//! Programs in Python: one table, and their sources beside it.
//!
//! All run in Debian's Python, of which modules are packages, and share how they are talked to
//! (`steps.py`).

use std::process::Command;

use super::clients::talk::{Talk, Worker};
use super::installed::{PYTHON, no_module};
use super::{Place, Program, Running, Size};

/// What all scripts import.
const STEPS: (&str, &str) = ("steps.py", include_str!("steps.py"));
const ARRAYS: (&str, &str) = ("arrays.py", include_str!("arrays.py"));
const NUMPY_MODULE: (&str, &str) = ("numpy", "python3-numpy");

/// One of the programs.
#[derive(Debug)]
pub(super) struct Script {
    name: &'static str,
    about: &'static str,
    /// Name and text of the file.
    source: (&'static str, &'static str),
    /// Modules, and the package of each.
    modules: &'static [(&'static str, &'static str)],
    /// The size that it is told.
    mib: u64,
    lasts: bool,
}

/// Arrays of 1 GiB of which most is used only at the start.
pub(super) const NUMPY: Script = Script {
    name: "numpy",
    about: "numpy in phases: 1 GiB of arrays of which 128 MiB are used after the start",
    source: ARRAYS,
    modules: &[NUMPY_MODULE],
    mib: 1024,
    lasts: false,
};

/// What huge pages are for.
pub(super) const GATHER: Script =
    Script { name: "gather", about: "numpy, random gather over 2 GiB", lasts: true, ..NUMPY };

/// What huge pages waste.
pub(super) const SPARSE: Script = Script {
    name: "sparse",
    about: "one page in 16 of 2 GiB touched, a sixteenth of them all the time",
    lasts: true,
    ..NUMPY
};

/// What huge pages do nothing for.
pub(super) const SWEEPER: Script = Script {
    name: "sweeper",
    about: "numpy, goes over 640 MiB in order with much work per page; three pages of five in use",
    lasts: true,
    ..NUMPY
};

/// A frame of which the newest part is asked for.
pub(super) const PANDAS: Script = Script {
    name: "pandas",
    about: "pandas: a table of 400 MiB, group-by and join over the last eighth again and again",
    source: ("frames.py", include_str!("frames.py")),
    modules: &[NUMPY_MODULE, ("pandas", "python3-pandas")],
    mib: 400,
    lasts: false,
};

/// A graph of which everything is used.
pub(super) const GRAPH: Script = Script {
    name: "graph",
    about: "igraph: PageRank once, then breadth-first searches over a graph of 8 million edges",
    source: ("graph.py", include_str!("graph.py")),
    modules: &[("igraph", "python3-igraph")],
    mib: 256,
    lasts: true,
};

/// A database inside of a program.
pub(super) const SQLITE: Script = Script {
    name: "sqlite",
    about: "SQLite, a table of 512 MiB in its cache, transactions over the newest tenth",
    source: ("rows.py", include_str!("rows.py")),
    modules: &[("sqlite3", "python3")],
    mib: 512,
    lasts: true,
};

impl Program for Script {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn missing(&self) -> Option<String> {
        no_module(self.modules)
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        place.write(STEPS.0, STEPS.1)?;
        let source = place.write(self.source.0, self.source.1)?;
        let mut command = Command::new(PYTHON);
        command.arg(source).args([self.name, &size.scaled(self.mib).to_string()]);
        // The system's setting decides on huge pages, not numpy; and one thread.
        command.env("NUMPY_MADVISE_HUGEPAGE", "0").env("OPENBLAS_NUM_THREADS", "1");
        let talk = Talk::start(command, place, self.name, 120)?;
        Ok(Box::new(Worker::new(talk, self.lasts)))
    }
}
