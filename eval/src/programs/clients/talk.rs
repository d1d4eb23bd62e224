//! A program that takes commands line by line on its standard input, and answers in lines.
//!
//! Its standard output is a file that is looked at every few milliseconds, so that a wait for an
//! answer ends when the job is asked to stop. Times are taken by the program, not by who waits.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_sys::clock;

use crate::processes::child::{Child, sleep_until};
use crate::programs::{Outcome, Place, Running};

const POLL_US: u64 = 5_000;

/// The program.
#[derive(Debug)]
pub(crate) struct Talk {
    child: Child,
    answers: PathBuf,
    seen: usize,
}

impl Talk {
    /// Starts it, and waits until it says `ready`.
    pub(crate) fn start(
        mut command: Command,
        place: &Place,
        name: &str,
        patience_s: u64,
    ) -> anyhow::Result<Self> {
        let answers = place.file(&format!("{name}.out"));
        let out =
            File::create(&answers).with_context(|| format!("create {}", answers.display()))?;
        command.stdin(Stdio::piped()).stdout(out);
        let child = Child::spawn(command, &place.file(&format!("{name}.err")))?;
        let mut talk = Self { child, answers, seen: 0 };
        let line = talk.answer(patience_s)?;
        anyhow::ensure!(line == "ready", "{name} said `{line}` instead of `ready`");
        Ok(talk)
    }

    /// Writes a command, and waits for the answer.
    fn ask(&mut self, line: &str, patience_s: u64) -> anyhow::Result<String> {
        self.child.tell(line)?;
        self.answer(patience_s)
    }

    fn answer(&mut self, patience_s: u64) -> anyhow::Result<String> {
        let deadline = clock::now().plus_us(patience_s * 1_000_000);
        loop {
            let running = self.child.still_runs();
            let text = fs::read_to_string(&self.answers)
                .with_context(|| format!("read {}", self.answers.display()))?;
            if let Some((line, _)) = text.get(self.seen..).and_then(|t| t.split_once('\n')) {
                self.seen += line.len() + 1;
                return Ok(line.trim().to_owned());
            }
            running?;
            anyhow::ensure!(clock::now() < deadline, "no answer after {patience_s} s");
            sleep_until(clock::now().plus_us(POLL_US))?;
        }
    }
}

/// Such a program under load: it takes a number of seconds, works, and answers as [`outcome`] says.
#[derive(Debug)]
pub(crate) struct Worker {
    talk: Talk,
    lasts: bool,
}

impl Worker {
    /// `lasts` as in [`Running::lasts`].
    pub(crate) fn new(talk: Talk, lasts: bool) -> Self {
        Self { talk, lasts }
    }
}

impl Running for Worker {
    fn roots(&self) -> Vec<u32> {
        vec![self.talk.child.pid()]
    }

    fn lasts(&self) -> bool {
        self.lasts
    }

    fn load(&mut self, seconds: f64) -> anyhow::Result<Outcome> {
        let answer = self.talk.ask(&format!("{seconds:.3}"), 1000)?;
        // A program that does not last does its work once.
        outcome(&answer, (!self.lasts).then_some(1.0), seconds)
    }
}

/// `PER_SECOND [P50_US P99_US]`, as the programs answer after a load phase; `work` units of work
/// were done if it is known, else what so many seconds make.
fn outcome(line: &str, work: Option<f64>, seconds: f64) -> anyhow::Result<Outcome> {
    let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    let numbers = numbers.with_context(|| format!("understand the answer `{line}`"))?;
    let per_second = *numbers.first().context("an empty answer")?;
    let work = work.or(Some(per_second * seconds));
    Ok(Outcome {
        per_second,
        work,
        p50_us: numbers.get(1).copied(),
        p99_us: numbers.get(2).copied(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers_line_by_line() {
        let place = Place::create("talk-test").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; while read x; do echo \"$x 2 3\"; done"]);
        let mut talk = Talk::start(command, &place, "echo", 10).unwrap();
        let answer = talk.ask("1.5", 10).unwrap();
        let expected =
            Outcome { per_second: 1.5, work: Some(6.0), p50_us: Some(2.0), p99_us: Some(3.0) };
        assert_eq!(outcome(&answer, None, 4.0).unwrap(), expected);
        assert_eq!(talk.ask("7", 10).unwrap(), "7 2 3");
    }

    #[test]
    fn what_it_complained_of_is_told() {
        let place = Place::create("talk-fails").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no heap >&2; exit 1"]);
        let told = Talk::start(command, &place, "sh", 10).unwrap_err().to_string();
        assert!(told.contains("no heap"), "{told}");
        assert!(outcome("fast", None, 1.0).is_err());
        assert_eq!(outcome("0.25", Some(1.0), 4.0).unwrap().p99_us, None);
    }
}
