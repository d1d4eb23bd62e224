//! Python programs with numpy arrays: phases, a random gather, and a sparse toucher.

use std::process::Command;

use super::talk::{self, Talk};
use super::{Outcome, Place, Program, Running, Size};

const SOURCE: &str = include_str!("arrays.py");
/// Debian's: its numpy is a package.
const PYTHON: &str = "/usr/bin/python3";

/// One of the programs.
#[derive(Debug)]
pub(super) struct Numpy {
    name: &'static str,
    about: &'static str,
    lasts: bool,
}

impl Numpy {
    /// Arrays of 1 GiB of which most is used only at the start.
    pub(super) const PHASES: Self = Self {
        name: "numpy",
        about: "numpy in phases: 1 GiB of arrays of which 128 MiB are used after the start",
        lasts: false,
    };
    /// What huge pages are for.
    pub(super) const GATHER: Self =
        Self { name: "gather", about: "numpy, random gather over 2 GiB", lasts: true };
    /// What huge pages waste.
    pub(super) const SPARSE: Self = Self {
        name: "sparse",
        about: "one page in 16 of 2 GiB touched, a sixteenth of them all the time",
        lasts: true,
    };
}

#[derive(Debug)]
struct Script {
    talk: Talk,
    lasts: bool,
}

impl Program for Numpy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn missing(&self) -> Option<String> {
        let done = Command::new(PYTHON).args(["-c", "import numpy"]).output();
        let there = done.is_ok_and(|o| o.status.success());
        (!there).then(|| format!("no numpy of {PYTHON}: apt-get install python3-numpy"))
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let source = place.write("arrays.py", SOURCE)?;
        let mut command = Command::new(PYTHON);
        command.arg(source).args([self.name, &size.scaled(1024).to_string()]);
        // The system's setting decides on huge pages, not numpy; and one thread.
        command.env("NUMPY_MADVISE_HUGEPAGE", "0").env("OPENBLAS_NUM_THREADS", "1");
        let talk = Talk::start(command, place, self.name, 60)?;
        Ok(Box::new(Script { talk, lasts: self.lasts }))
    }
}

impl Running for Script {
    fn roots(&self) -> Vec<u32> {
        vec![self.talk.pid()]
    }

    fn lasts(&self) -> bool {
        self.lasts
    }

    fn load(&mut self, seconds: f64) -> anyhow::Result<Outcome> {
        let answer = self.talk.ask(&format!("{seconds:.3}"), 1000)?;
        // A program that does not last does its work once.
        talk::outcome(&answer, (!self.lasts).then_some(1.0), seconds)
    }
}
