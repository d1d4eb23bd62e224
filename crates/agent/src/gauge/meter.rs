//! What is measured in a phase: the targets' memory, and by how much they got on.
//!
//! A phase is compared with the untouched phases around it, so only ratios and differences matter,
//! and no unit of the counter has to be known.
//!
//! Slowdown without a counter is what CPU seconds show: system time that came on top, as a share
//! of all CPU time before. Faults and decompression are in it. Time in which a program waits for a
//! disk is not.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use isotherm_host::error::Class;
use isotherm_host::proc::Proc;

use super::counter::{Counter, Unread, printed};

/// A slowdown that is this large, or larger, is written as this.
const WORST: f64 = 100.0;
/// The file that tells for how long anybody waited for memory.
const PRESSURE: &str = "/proc/pressure/memory";

/// What tells how the program gets on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// Counted work.
    Work(Counter),
    /// A command prints a latency.
    Latency(String),
    /// The machine's stall on memory.
    Pressure,
    /// CPU seconds.
    #[default]
    Cpu,
}

impl Source {
    /// In words, with what it does not show.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::Work(counter) => counter.told(),
            Self::Latency(command) => format!("latency printed by `{command}`"),
            Self::Pressure => "stall on memory (PSI) of the whole machine".to_owned(),
            Self::Cpu => {
                "CPU seconds only: system time that comes on top. Waiting for a disk does \
                          not show; a counter of work does (progress)"
                    .to_owned()
            }
        }
    }

    /// The number that it shows now.
    fn read(&self) -> Result<f64, Unread> {
        match self {
            Self::Work(counter) => counter.read(),
            Self::Latency(command) => printed(command),
            Self::Pressure => stalled_us(Path::new(PRESSURE)),
            Self::Cpu => Ok(0.0),
        }
    }
}

/// For how long some task waited for memory since the start of the machine, in µs.
fn stalled_us(path: &Path) -> Result<f64, Unread> {
    let tried = |why: &str| {
        let text = format!(
            "cannot read the pressure on memory\n  tried: read {}: {why}\n  hint:  a kernel with PSI \
             (psi=1), or a counter of work (progress)",
            path.display()
        );
        Unread { code: Class::NotSupported.exit_code(), text }
    };
    let text = std::fs::read_to_string(path).map_err(|e| tried(&e.to_string()))?;
    let some = text.lines().find_map(|line| line.strip_prefix("some "));
    let total = some.and_then(|line| line.rsplit_once("total=")?.1.trim().parse().ok());
    total.ok_or_else(|| tried("no total"))
}

/// Memory and CPU time of all targets.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    resident: f64,
    swapped: f64,
    /// All CPU time and that in the kernel, in clock ticks.
    ticks: [f64; 2],
}

#[expect(clippy::cast_precision_loss, reason = "bytes and ticks of a process")]
const fn float(x: u64) -> f64 {
    x as f64
}

fn used(pids: &BTreeSet<u32>, text: &mut Vec<u8>) -> Use {
    let proc = Proc::default();
    let mut all = Use::default();
    for pid in pids {
        // A process that has just ended is told of by its context.
        let Ok(status) = proc.status(*pid, text) else { continue };
        all.resident += float(status.rss_bytes);
        all.swapped += float(status.swap_bytes);
        if let Ok(stat) = proc.stat(*pid, text) {
            all.ticks[0] += float(stat.utime + stat.stime);
            all.ticks[1] += float(stat.stime);
        }
    }
    all
}

/// How much memory of these processes is resident, and how much is in swap, in bytes.
#[must_use]
pub fn memory(pids: &BTreeSet<u32>) -> [f64; 2] {
    let Use { resident, swapped, .. } = used(pids, &mut Vec::new());
    [resident, swapped]
}

/// What one phase has shown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Phase {
    /// Mean resident memory, in bytes.
    pub resident: f64,
    /// Memory in swap at the end, in bytes.
    pub swapped: f64,
    /// CPU time per second, and that in the kernel, in clock ticks.
    pub cpu: [f64; 2],
    /// Counted work per second, mean latency, or share of time stalled.
    pub shown: f64,
}

impl Phase {
    /// The mean of two phases.
    #[must_use]
    pub fn mean(&self, other: &Self) -> Self {
        let of = f64::midpoint;
        Self {
            resident: of(self.resident, other.resident),
            swapped: of(self.swapped, other.swapped),
            cpu: [of(self.cpu[0], other.cpu[0]), of(self.cpu[1], other.cpu[1])],
            shown: of(self.shown, other.shown),
        }
    }

    /// The share of memory that is saved, compared with an untouched phase.
    #[must_use]
    pub fn saved(&self, off: &Self) -> f64 {
        if off.resident > 0.0 { 1.0 - self.resident / off.resident } else { 0.0 }
    }

    /// By which share the program is slower than in an untouched phase.
    #[must_use]
    pub fn slowdown(&self, off: &Self, source: &Source) -> f64 {
        let by = match source {
            Source::Work(_) => off.shown / self.shown - 1.0,
            Source::Latency(_) => self.shown / off.shown - 1.0,
            Source::Pressure => self.shown - off.shown,
            Source::Cpu => (self.cpu[1] - off.cpu[1]) / off.cpu[0],
        };
        // A program that does nothing in both phases is not slower.
        if by.is_nan() { 0.0 } else { by.clamp(-1.0, WORST) }
    }

    /// Why nothing can be told from this untouched phase, if so.
    #[must_use]
    pub fn useless(&self, source: &Source) -> Option<String> {
        let counts = matches!(source, Source::Work(_) | Source::Latency(_));
        if counts && self.shown <= 0.0 {
            return Some(format!("{}: it did not grow in a whole untouched phase", source.told()));
        }
        (self.resident <= 0.0).then(|| "the targets have no memory".to_owned())
    }
}

/// A phase under way.
#[derive(Debug)]
pub struct Gauge {
    source: Source,
    begun: Instant,
    first: Use,
    counted: f64,
    resident: Vec<f64>,
    latencies: Vec<f64>,
    text: Vec<u8>,
}

impl Gauge {
    /// Begins.
    ///
    /// # Errors
    ///
    /// If the source cannot be read.
    pub fn begin(source: &Source, pids: &BTreeSet<u32>) -> Result<Self, Unread> {
        let mut text = Vec::new();
        let counted = if matches!(source, Source::Latency(_)) { 0.0 } else { source.read()? };
        let first = used(pids, &mut text);
        Ok(Self {
            source: source.clone(),
            begun: Instant::now(),
            first,
            counted,
            resident: vec![first.resident],
            latencies: Vec::new(),
            text,
        })
    }

    /// Takes a sample.
    ///
    /// # Errors
    ///
    /// If the source cannot be read.
    pub fn sample(&mut self, pids: &BTreeSet<u32>) -> Result<(), Unread> {
        self.resident.push(used(pids, &mut self.text).resident);
        if matches!(self.source, Source::Latency(_)) {
            self.latencies.push(self.source.read()?);
        }
        Ok(())
    }

    /// What was shown so far.
    ///
    /// # Errors
    ///
    /// If the source cannot be read.
    pub fn read(&mut self, pids: &BTreeSet<u32>) -> Result<Phase, Unread> {
        if self.latencies.is_empty() {
            self.sample(pids)?;
        }
        let counted = if self.latencies.is_empty() { self.source.read()? } else { 0.0 };
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        let last = used(pids, &mut self.text);
        let shown = match self.source {
            Source::Latency(_) => mean(&self.latencies),
            Source::Pressure => (counted - self.counted) / 1e6 / seconds,
            _ => (counted - self.counted) / seconds,
        };
        let rate = |at: usize| (last.ticks[at] - self.first.ticks[at]).max(0.0) / seconds;
        Ok(Phase {
            resident: mean(&self.resident),
            swapped: last.swapped,
            cpu: [rate(0), rate(1)],
            shown,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of samples")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdown_is_of_what_the_user_names() {
        let phase = |cpu: [f64; 2], shown| Phase { resident: 50.0, swapped: 0.0, cpu, shown };
        let (off, on) = (phase([100.0, 10.0], 100.0), phase([100.0, 12.0], 80.0));
        let file = Source::Work(Counter::Command(String::new()));
        let of = |source: &Source| on.slowdown(&off, source);
        assert!((of(&file) - 0.25).abs() < 1e-12);
        assert!((of(&Source::Latency(String::new())) + 0.2).abs() < 1e-12);
        assert!((of(&Source::Cpu) - 0.02).abs() < 1e-12);
        let still = phase([0.0; 2], 0.0);
        assert_eq!(still.slowdown(&off, &file), WORST);
        assert_eq!(still.slowdown(&still, &Source::Cpu), 0.0);
        assert!(still.useless(&file).is_some() && still.useless(&Source::Cpu).is_none());
    }
}
