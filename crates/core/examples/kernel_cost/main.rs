//! Compares what the core costs with what the reference's algorithm costs in the reference's data structures:
//! a linked list of regions of 64 bytes, in C (`reference.c` beside this file).
//!
//! `cargo run --release -p isotherm-core --example kernel_cost` compiles that file with `cc -O2`, runs both
//! in turns over the same worlds, and prints the medians of the paired ratios, ours to the reference's: of a
//! tick that does not end a window, and of one that does (merge, age, snapshot, reset, split). Below 1 the
//! core is cheaper. The number of regions is that of a snapshot, after merging. Our snapshot has an interval for every count; the reference's is a copy.
#![expect(clippy::print_stdout, reason = "a measurement for people to read")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use isotherm_core::{Attrs, Method};
use steady::Steady;

#[path = "../../tests/steady/mod.rs"]
mod steady;

/// The other side.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernel_cost/reference.c");
/// Ticks per window with the default attributes; `reference.c` has the same.
const WINDOW: usize = 20;
/// Windows per round; `reference.c` has the same.
const ROUND: usize = 25;
const PAIRS: usize = 24;

fn main() -> Result<(), Box<dyn Error>> {
    let program = std::env::temp_dir().join(format!("isotherm-reference-{}", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-std=c11", "-D_GNU_SOURCE", "-o"]).arg(&program).arg(SOURCE);
    let compiled = compiler.status()?.success();
    let measured = if compiled { measure(&program) } else { Err("cc failed".into()) };
    std::fs::remove_file(&program)?;
    measured
}

fn measure(program: &std::path::Path) -> Result<(), Box<dyn Error>> {
    println!(
        "            regions   tick: ns  reference  ratio   window's end: ns  reference  ratio"
    );
    for name in ["static", "churning"] {
        for nr_regions in [100, 1000, 10_000] {
            let mut reference = Reference::start(program, name, nr_regions)?;
            let mut ours = start(name, nr_regions);
            let mut ratios = Vec::new();
            // The first round of each warms up.
            for pair in 0..=PAIRS {
                let (theirs, own) = if pair % 2 == 0 {
                    let theirs = reference.round()?;
                    (theirs, round(&mut ours))
                } else {
                    let own = round(&mut ours);
                    (reference.round()?, own)
                };
                ratios.push((own, theirs));
            }
            reference.stop()?;
            print_row(name, ours.nr_regions(), &ratios[1..]);
        }
    }
    Ok(())
}

fn start(world: &str, nr_regions: u64) -> Steady {
    let attrs = Attrs {
        method: Method::Resample,
        max_nr_regions: nr_regions,
        update_us: 3_600_000_000,
        ..Attrs::default()
    };
    Steady::new(attrs, world == "static", Vec::new())
}

/// Median ns of the ticks of a round: those within a window, and those that end one.
type Cost = (f64, f64);

fn round(steady: &mut Steady) -> Cost {
    let ns: Vec<f64> = (0..ROUND * WINDOW)
        .map(|_| {
            let before = Instant::now();
            steady.tick();
            before.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    cost(&ns)
}

fn cost(ns: &[f64]) -> Cost {
    let ends = |i: usize| i % WINDOW == WINDOW - 1;
    let of = |end| ns.iter().enumerate().filter(move |(i, _)| ends(*i) == end).map(|(_, ns)| *ns);
    (median(of(false).collect()), median(of(true).collect()))
}

fn print_row(world: &str, nr_regions: usize, pairs: &[(Cost, Cost)]) {
    let of = |f: fn(&(Cost, Cost)) -> f64| median(pairs.iter().map(f).collect());
    println!(
        "{world:<10}  {nr_regions:>7}   {:>8.0}  {:>9.0}  {:>5.2}   {:>16.0}  {:>9.0}  {:>5.2}",
        of(|(own, _)| own.0),
        of(|(_, theirs)| theirs.0),
        of(|(own, theirs)| own.0 / theirs.0),
        of(|(own, _)| own.1),
        of(|(_, theirs)| theirs.1),
        of(|(own, theirs)| own.1 / theirs.1),
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The other side: runs a round whenever it is sent a line.
struct Reference {
    child: Child,
    rounds: ChildStdin,
    costs: BufReader<ChildStdout>,
}

impl Reference {
    fn start(program: &std::path::Path, world: &str, nr: u64) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(program);
        command.args([world, &nr.to_string(), &WINDOW.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let rounds = child.stdin.take().ok_or("no stdin")?;
        let costs = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        Ok(Self { child, rounds, costs })
    }

    fn round(&mut self) -> Result<Cost, Box<dyn Error>> {
        self.rounds.write_all(b"x")?;
        self.rounds.flush()?;
        let mut line = String::new();
        self.costs.read_line(&mut line)?;
        let ns: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        // The last number in the line keeps the compiler from leaving out what nobody reads.
        Ok(cost(ns.get(..ROUND * WINDOW).ok_or("a round is missing")?))
    }

    fn stop(mut self) -> Result<(), Box<dyn Error>> {
        drop(self.rounds);
        self.child.wait()?;
        Ok(())
    }
}
