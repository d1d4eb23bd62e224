//! What reading the kernel's files by frame costs on this machine: for all of its memory, once
//! each.

use std::path::Path;

use anyhow::Context;
use isotherm_host::proc::Proc;
use isotherm_host::ram::Ram;
use isotherm_pages::frames::{FrameFile, Which};
use isotherm_sys::clock::process_cpu_ns;
use serde::{Deserialize, Serialize};

use crate::stats::to_f64;
use crate::table::{Table, number};

/// One file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cost {
    file: String,
    frames: u64,
    cpu_ns: u64,
}

/// Reads each file from end to end.
pub(super) fn measure() -> anyhow::Result<Vec<Cost>> {
    let ram = Ram::read(&Proc::default()).context("where RAM is")?;
    let mut costs = Vec::new();
    for which in [Which::Flags, Which::Cgroup, Which::Count] {
        let mut file = FrameFile::open(Path::new("/proc"), which)?;
        let (begin, mut frames) = (process_cpu_ns(), 0);
        for range in &ram.ranges {
            file.stream(range.start / 4096..range.end / 4096, &mut |_, words| {
                frames += words.len() as u64;
            })
            .with_context(|| format!("read {}", which.name()))?;
        }
        costs.push(Cost {
            file: which.name().to_owned(),
            frames,
            cpu_ns: process_cpu_ns() - begin,
        });
    }
    Ok(costs)
}

/// A table.
pub(super) fn format(costs: &[Cost]) -> String {
    let mut table = Table::new(["file, read whole", "GiB of memory", "ns/frame", "CPU ms/GiB"]);
    for cost in costs {
        let frames = to_f64(cost.frames);
        let gib = frames * 4096.0 / f64::from(1 << 30);
        table.row([
            cost.file.clone(),
            number(Some(gib), 1),
            number(Some(to_f64(cost.cpu_ns) / frames), 1),
            number(Some(to_f64(cost.cpu_ns) / 1e6 / gib), 2),
        ]);
    }
    table.text()
}
