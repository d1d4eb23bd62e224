//! Commands with a fixed amount of work, that end with it.

mod compiler;
mod ffmpeg;
mod hpcc;
mod povray;
mod zstd;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_sys::clock;

pub(super) use compiler::Compiler;
pub(super) use ffmpeg::Ffmpeg;
pub(super) use hpcc::Hpcc;
pub(super) use povray::Povray;
pub(super) use zstd::Zstd;

use super::{Outcome, Place, Running};
use crate::processes::child::Child;

/// Far more than any of them takes.
const PATIENCE_US: u64 = 600_000_000;

/// A command in its directory, that begins with the load.
#[derive(Debug)]
struct Batch {
    child: Child,
    dir: PathBuf,
    check: Check,
}

/// Looks at what was made in this directory.
type Check = fn(&Path) -> anyhow::Result<()>;

impl Batch {
    /// A shell waits for the start, and becomes `args`: the pid stays.
    fn start(place: &Place, args: &[&str], check: Check) -> anyhow::Result<Box<dyn Running>> {
        let out = place.file("batch.out");
        let file = File::create(&out).with_context(|| format!("create {}", out.display()))?;
        let mut command = Command::new("sh");
        command.args(["-c", "read go; exec \"$@\" </dev/null", "sh"]).args(args);
        command.current_dir(place.path()).stdin(Stdio::piped()).stdout(file);
        let child = Child::spawn(command, &place.file("batch.err"))?;
        Ok(Box::new(Self { child, dir: place.path().to_owned(), check }))
    }
}

impl Running for Batch {
    fn roots(&self) -> Vec<u32> {
        vec![self.child.pid()]
    }

    fn lasts(&self) -> bool {
        false
    }

    fn load(&mut self, _: f64) -> anyhow::Result<Outcome> {
        let begin = clock::now();
        self.child.tell("go")?;
        self.child.succeeds(begin.plus_us(PATIENCE_US))?;
        let seconds = crate::stats::to_f64(clock::now().since(begin)) / 1e9;
        Ok(Outcome { per_second: 1.0 / seconds, work: Some(1.0), ..Outcome::default() })
    }

    fn check(&self) -> anyhow::Result<()> {
        (self.check)(&self.dir)
    }
}

/// So many units of work at `per_second`; at least one.
fn work(seconds: f64, per_second: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive number"
    )]
    let n = (seconds * per_second) as u64;
    n.max(1)
}

/// Fails if this file in `dir` is not there or is shorter than `least`.
fn check_len(dir: &Path, name: &str, least: u64) -> anyhow::Result<()> {
    let path = dir.join(name);
    let len = fs::metadata(&path).with_context(|| format!("look at {}", path.display()))?.len();
    anyhow::ensure!(len >= least, "{name} has {len} bytes, less than {least}: it is not complete");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_with_the_load_and_is_checked() {
        let place = Place::create("batch-test").unwrap();
        let args = ["sh", "-c", "echo 12345 > made"];
        let mut batch = Batch::start(&place, &args, |dir| check_len(dir, "made", 6)).unwrap();
        assert!(!place.file("made").exists());
        assert!(batch.check().is_err());
        let outcome = batch.load(1.0).unwrap();
        assert!(outcome.per_second > 0.0 && outcome.work == Some(1.0), "{outcome:?}");
        batch.check().unwrap();
        fs::write(place.file("made"), "123").unwrap();
        assert!(batch.check().unwrap_err().to_string().contains("not complete"));
    }

    #[test]
    fn a_failure_is_told() {
        let place = Place::create("batch-fails").unwrap();
        let args = ["sh", "-c", "echo no scene >&2; exit 1"];
        let told = Batch::start(&place, &args, |_| Ok(())).unwrap().load(1.0).unwrap_err();
        assert!(told.to_string().contains("no scene"), "{told}");
    }
}
