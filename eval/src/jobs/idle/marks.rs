//! What the bitmap of idle pages costs: reading it, and marking, for memory of one kind each.
//!
//! The job plants memory, marks and reads all frames of RAM a few times, and takes the median of
//! the CPU time. A plant without memory gives the cost of the rest of the machine. What is above
//! that, per planted page, is the kernel's walk of the page tables that map the page. In an
//! emulated machine these are times of the emulation. `kpageflags` and `kpagecgroup`, read there
//! and on a real machine, give the scale.

use std::path::Path;

use anyhow::Context;
use isotherm_host::proc::Proc;
use isotherm_host::ram::Ram;
use isotherm_pages::idle::{BITMAP, Bitmap, LOCK, Lock};
use isotherm_sys::clock::process_cpu_ns;
use serde::{Deserialize, Serialize};

use super::plant::{COSTS, Plant};
use crate::job::Bench;
use crate::stats::to_f64;
use crate::table::{Table, number};

/// Times that each is done.
const TIMES: usize = 5;

/// All of RAM, with some memory planted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Marks {
    plant: String,
    /// Pages that were planted; huge ones count once.
    pages: u64,
    frames: u64,
    /// Frames that are idle right after all were marked: first frames of users' folios.
    idle: u64,
    /// CPU time of marking all frames.
    mark_ns: u64,
    /// CPU time of reading all, right after that.
    read_ns: u64,
}

/// Measures each kind of memory; nothing on kernels without the bitmap.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Marks>> {
    if !Path::new(BITMAP).exists() {
        return Ok(Vec::new());
    }
    let mut marks = Vec::new();
    for case in COSTS {
        let _plant = Plant::start(bench, &case)?;
        marks.push(of_all(case.name, case.pages())?);
    }
    Ok(marks)
}

fn of_all(plant: &str, pages: u64) -> anyhow::Result<Marks> {
    let _lock = Lock::take(Path::new(LOCK))?;
    let mut bitmap = Bitmap::open(Path::new(BITMAP)).context("open the bitmap")?;
    let ram = Ram::read(&Proc::default()).context("where RAM is")?;
    let ranges: Vec<_> = ram.ranges.iter().map(|r| r.start / 4096..r.end / 4096).collect();
    let frames = ranges.iter().map(|r| r.end - r.start).sum();
    let (mut mark, mut read, mut idle) = (Vec::new(), Vec::new(), 0);
    for _ in 0..TIMES {
        let begin = process_cpu_ns();
        for range in &ranges {
            bitmap.mark_range(range.clone()).context("mark frames idle")?;
        }
        mark.push(process_cpu_ns() - begin);
        let begin = process_cpu_ns();
        idle = 0;
        for range in &ranges {
            bitmap
                .read_range(range.clone(), &mut |_, word| idle += u64::from(word.count_ones()))
                .context("read the bitmap")?;
        }
        read.push(process_cpu_ns() - begin);
    }
    let median = |mut times: Vec<u64>| {
        times.sort_unstable();
        times[TIMES / 2]
    };
    let (mark_ns, read_ns) = (median(mark), median(read));
    Ok(Marks { plant: plant.to_owned(), pages, frames, idle, mark_ns, read_ns })
}

/// A table; empty if nothing was measured.
pub(super) fn format(marks: &[Marks]) -> String {
    let Some(nothing) = marks.iter().find(|m| m.pages == 0) else { return String::new() };
    let mut table = Table::new([
        "bitmap, whole, with",
        "pages",
        "idle frames",
        "mark ms",
        "read ms",
        "mark ns/page",
        "read ns/page",
    ]);
    for marks in marks {
        // Of the plant without memory: by frame of RAM.
        let per = |ns: u64, without: u64| {
            let (ns, nr) = if marks.pages == 0 {
                (to_f64(ns), marks.frames)
            } else {
                (to_f64(ns) - to_f64(without), marks.pages)
            };
            number(Some(ns / to_f64(nr)), 1)
        };
        table.row([
            marks.plant.clone(),
            marks.pages.to_string(),
            marks.idle.to_string(),
            number(Some(to_f64(marks.mark_ns) / 1e6), 1),
            number(Some(to_f64(marks.read_ns) / 1e6), 1),
            per(marks.mark_ns, nothing.mark_ns),
            per(marks.read_ns, nothing.read_ns),
        ]);
    }
    format!(
        "{}\nOf nothing: per frame of RAM. Of the others: what is above nothing, per page planted.\n",
        table.text()
    )
}
