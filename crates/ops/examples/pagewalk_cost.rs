//! Measures what the operations set `pagewalk` costs here: ns per look, per clear, ms per GiB.
//!
//! `cargo run --release -p isotherm-ops --example pagewalk_cost`
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement, not a product")]

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, Check, Operations, PageBits, PageState, TargetId, UnitCheck};
use isotherm_ops::pagewalk::PageWalk;
use isotherm_pages::tables::Dense;

const PAGE: usize = 4096;
const MIB: usize = 256;

/// The target: touches its memory when told to, or without end.
fn target(mode: &str) {
    let mut memory = vec![1_u8; MIB << 20];
    println!("{:x}", memory.as_ptr() as usize);
    std::io::stdout().flush().unwrap();
    let mut lines = std::io::stdin().lines();
    let touch =
        |memory: &mut Vec<u8>| memory.iter_mut().step_by(PAGE).for_each(|b| *b = b.wrapping_add(1));
    while mode == "idle" && lines.next().is_some_and(|line| line.is_ok()) {
        touch(&mut memory);
        println!("done");
        std::io::stdout().flush().unwrap();
    }
    if mode == "busy" {
        loop {
            touch(&mut memory);
            black_box(&memory);
        }
    }
}

struct Target {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    start: u64,
}

impl Target {
    fn spawn(mode: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let start = u64::from_str_radix(line.trim(), 16).unwrap();
        Self { child, out, start }
    }

    fn touch_all(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.out.read_line(&mut String::new()).unwrap();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What a look at a unit costs, of neighbours and of others.
fn looks_at_units(walk: &mut PageWalk, range: AddrRange) {
    let (start, all) = (range.start.next_multiple_of(UNIT), range.len() / UNIT - 1);
    for (name, step) in [("neighbours", 1), ("each seventh", 7)] {
        for nr in [1, 8, 64, all / 7] {
            let at = |i: u64| start + i * step * UNIT;
            let unit = |i| UnitCheck::new(TargetId(0), at(i), PageBits::ALL);
            let mut batch: Vec<_> = (0..nr).map(unit).collect();
            let times = (0..99).map(|_| {
                let begin = Instant::now();
                walk.check_units(&mut batch);
                begin.elapsed().as_nanos() as f64 / nr as f64
            });
            println!("{nr} units, {name}: {:.0} ns each", median(times.collect()));
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// `nr` pages spread over the target, in address order.
fn pages(target: &Target, nr: usize) -> Vec<Check> {
    let step = (MIB << 20) / nr / PAGE * PAGE;
    (0..nr).map(|i| Check::new(TargetId(0), target.start + (i * step) as u64, 0)).collect()
}

fn main() {
    if let Some(mode) = std::env::args().nth(1) {
        return target(&mode);
    }
    let mut walk = match PageWalk::new() {
        Ok(walk) => walk,
        Err(error) => return println!("{error}"),
    };
    println!("{:?}", walk.tables().setup());
    let mut idle = Target::spawn("idle");
    walk.add_target(TargetId(0), idle.child.id()).unwrap();
    for nr in [1, 100, 1000, 10_000] {
        let mut batch = pages(&idle, nr);
        let times = (0..200).map(|_| {
            let begin = Instant::now();
            walk.check(&mut batch);
            begin.elapsed().as_nanos() as f64 / nr as f64
        });
        let look = median(times.collect());
        let times = (0..9).map(|_| {
            idle.touch_all();
            let begin = Instant::now();
            walk.prepare(&mut batch);
            begin.elapsed().as_nanos() as f64 / nr as f64
        });
        let clear = median(times.collect());
        let cleared = batch.iter().filter(|c| c.state == PageState::Cleared).count();
        println!("n={nr}: look {look:.0} ns, clear {clear:.0} ns ({cleared} of {nr}, idle target)");
    }
    let range = AddrRange::new(idle.start, idle.start + ((MIB as u64) << 20));
    let mut young = 0_u64;
    let per_gib = |begin: Instant| begin.elapsed().as_secs_f64() * 1e3 * 1024.0 / MIB as f64;
    let times = (0..30).map(|_| {
        let begin = Instant::now();
        young = 0;
        walk.tables()
            .dense(TargetId(0), range, &mut |_, e| young += u64::from(e.is_young()))
            .unwrap();
        per_gib(begin)
    });
    println!("dense, page by page: {:.2} ms/GiB ({young} young)", median(times.collect()));
    let times = (0..30).map(|_| {
        let begin = Instant::now();
        young = 0;
        let mut each = |_, found: Dense<'_>| match found {
            Dense::Table(table) => {
                young += table.young().map(|w| u64::from(w.count_ones())).iter().sum::<u64>();
            }
            Dense::Huge(entry) => young += u64::from(entry.is_young()),
        };
        walk.tables().dense_tables(TargetId(0), range, &mut each).unwrap();
        per_gib(begin)
    });
    println!("dense, as bits: {:.2} ms/GiB ({young} young)", median(times.collect()));
    let times = (0..30).map(|_| {
        let begin = Instant::now();
        walk.tables().dense_tables(TargetId(0), range, &mut |_, _| ()).unwrap();
        per_gib(begin)
    });
    println!("dense, not looked at: {:.2} ms/GiB", median(times.collect()));
    looks_at_units(&mut walk, range);
    let busy = Target::spawn("busy");
    walk.add_target(TargetId(0), busy.child.id()).unwrap();
    for nr in [1, 10, 100] {
        let mut batch = pages(&busy, nr);
        let times = (0..50).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let begin = Instant::now();
            walk.prepare(&mut batch);
            begin.elapsed().as_nanos() as f64 / nr as f64
        });
        println!("n={nr}: clear {:.0} ns (busy target)", median(times.collect()));
    }
    println!("{:?}", walk.counters());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status
        .lines()
        .filter(|l| l.starts_with("VmHWM") || l.starts_with("VmRSS"))
        .for_each(|l| println!("{l}"));
}
