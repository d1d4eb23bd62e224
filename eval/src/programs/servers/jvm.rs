//! A JVM with a heap of 1 GiB of live objects, of which a tenth is looked up and replaced.

use std::process::Command;

use crate::programs::clients::talk::{Talk, Worker};
use crate::programs::installed::not_installed;
use crate::programs::{Place, Program, Running, Size};

const SOURCE: &str = include_str!("Cache.java");
const ENTRIES: u64 = 900_000;

/// The program.
#[derive(Debug)]
pub(crate) struct Jvm;

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
        Ok(Box::new(Worker::new(Talk::start(command, place, "java", 120)?, true)))
    }
}
