//! A JVM with a heap of 1 GiB of live objects, of which a tenth is looked up and replaced.

use std::process::Command;

use super::talk::{self, Talk};
use super::{Outcome, Place, Program, Running, Size, not_installed};

const SOURCE: &str = include_str!("Cache.java");
const ENTRIES: u64 = 900_000;

/// The program.
#[derive(Debug)]
pub(super) struct Jvm;

#[derive(Debug)]
struct Vm(Talk);

impl Program for Jvm {
    fn name(&self) -> &'static str {
        "jvm"
    }

    fn about(&self) -> &'static str {
        "a Java cache of 1 GiB of objects in the old generation, a tenth of it hot"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["java", "javac"], "default-jdk-headless")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let source = place.write("Cache.java", SOURCE)?;
        let mut command = Command::new("java");
        let heap = if size.quick { "-Xmx512m" } else { "-Xmx2g" };
        command.args(["-XX:+UseSerialGC", "-Xmn64m", "-Xshare:auto", heap]);
        command.arg(source).arg(size.scaled(ENTRIES).to_string());
        Ok(Box::new(Vm(Talk::start(command, place, "java", 120)?)))
    }
}

impl Running for Vm {
    fn roots(&self) -> Vec<u32> {
        vec![self.0.pid()]
    }

    fn lasts(&self) -> bool {
        true
    }

    fn load(&mut self, seconds: f64) -> anyhow::Result<Outcome> {
        talk::outcome(&self.0.ask(&format!("{seconds:.3}"), 1000)?, None, seconds)
    }
}
