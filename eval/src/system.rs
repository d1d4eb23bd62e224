//! Facts about the machine and the programs, so that a result can be understood later.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `system.json`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct System {
    /// `uname -r`.
    pub(crate) kernel: String,
    /// Model name of the first CPU.
    pub(crate) cpu: String,
    /// Number of CPUs.
    pub(crate) cpus: usize,
    /// `/proc/loadavg`.
    pub(crate) load: String,
    /// `MemTotal` and `MemAvailable`, in bytes.
    pub(crate) memory: [u64; 2],
    /// Commit of the sources around the current directory; `-dirty` if they were changed.
    pub(crate) commit: String,
    /// What `isotherm --version` says.
    pub(crate) isotherm: String,
    /// What `isotherm doctor --json` says.
    pub(crate) doctor: Value,
}

impl System {
    /// Looks.
    pub(crate) fn read(isotherm: &Path) -> Self {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let doctor = output(Command::new(isotherm).args(["doctor", "--json"]));
        Self {
            kernel,
            cpu: cpu_model(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            commit: output(Command::new("git").args([
                "describe",
                "--always",
                "--dirty",
                "--abbrev=12",
            ])),
            isotherm: output(Command::new(isotherm).arg("-V")),
            doctor: serde_json::from_str(&doctor).unwrap_or(Value::Null),
            ..Self::read_load()
        }
    }

    /// Looks only at what changes.
    pub(crate) fn read_load() -> Self {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let size = |key: &str| {
            let line = meminfo.lines().find_map(|l| l.strip_prefix(key));
            let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
            kib.unwrap_or(0) << 10
        };
        Self {
            load: fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned(),
            memory: [size("MemTotal:"), size("MemAvailable:")],
            ..Self::default()
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, cpu, cpus, load, commit, isotherm, .. } = self;
        let gib = self.memory[0] >> 30;
        write!(f, "Linux {kernel}, {cpus} x {cpu}, {gib} GiB; load {load}; {isotherm} at {commit}")
    }
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("model name"));
    line.and_then(|l| l.split_once(": ")).map_or_else(String::new, |(_, name)| name.to_owned())
}

/// What a command prints; nothing if it fails.
fn output(command: &mut Command) -> String {
    match command.output() {
        Ok(o) if o.status.success() => String::from_utf8_lossy(&o.stdout).trim().to_owned(),
        _ => String::new(),
    }
}
