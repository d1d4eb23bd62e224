//! The study that decides the default method. It compares the error with the clears per second, in
//! simulation.
//!
//! `cargo run --release -p isotherm-sim --example frontier -- [--json] [--verbose] [--seconds N]
//! [--seed N] [--workload NAME]... [--method resample|first_touch|census]... [--clears N]...
//! [--sample US]... [--budget BP]... [--clear-us US]`
//!
//! Every workload is run by `resample` with several sample intervals, by `first_touch` with several
//! budgets of clears and by `census` with several budgets of CPU time, and compared with the exact
//! truth. The last lines are means over the workloads. Operations take no time, unless `--clear-us`
//! says how long a clear takes. Only `census` paces itself by what they cost, so under it they cost
//! what was measured. `--verbose` prints the regions of the last window with their true rates, and
//! how the error is spread over them.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

mod score;
mod workloads;

use std::error::Error;

use isotherm_core::{Attrs, Method, Snapshot};
use isotherm_sim::config::Config;
use isotherm_sim::truth::Tile;
use isotherm_sim::world::{Costs, Options, Simulation};

use score::{Score, Scorer, overlaps};

/// What units cost under `census`: 1.5 µs to look at one, 30 µs to arm one (page by page 50 ns and
/// 15 µs; measured, see docs/journal/2026-11-22-census.md).
const CENSUS_COSTS: Costs = Costs { check_ns: 50, clear_ns: 15_000 };

#[derive(Debug, Default)]
struct Args {
    json: bool,
    verbose: bool,
    seconds: Option<u64>,
    seed: Option<u64>,
    workloads: Vec<String>,
    methods: Vec<String>,
    clears: Vec<u32>,
    samples: Vec<u64>,
    budgets: Vec<u32>,
    clear_us: u64,
}

fn args() -> Result<Args, Box<dyn Error>> {
    let mut args = Args::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word}: a value is missing"));
        match word.as_str() {
            "--json" => args.json = true,
            "--verbose" => args.verbose = true,
            "--seconds" => args.seconds = Some(value()?.parse()?),
            "--seed" => args.seed = Some(value()?.parse()?),
            "--workload" => args.workloads.push(value()?),
            "--method" => args.methods.push(value()?),
            "--clears" => args.clears.push(value()?.parse()?),
            "--sample" => args.samples.push(value()?.parse()?),
            "--budget" => args.budgets.push(value()?.parse()?),
            "--clear-us" => args.clear_us = value()?.parse()?,
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    Ok(args)
}

/// One column of the study: a name and its attributes.
fn methods(args: &Args) -> Vec<(String, Attrs)> {
    let wants = |name: &str| args.methods.is_empty() || args.methods.iter().any(|m| m == name);
    let or = |given: &[u64], usual: &[u64]| {
        if given.is_empty() { usual.to_vec() } else { given.to_vec() }
    };
    let mut all = Vec::new();
    if wants("resample") {
        for sample_us in or(&args.samples, &[5_000, 10_000, 20_000, 50_000]) {
            let attrs = Attrs { method: Method::Resample, sample_us, ..Attrs::default() };
            all.push((format!("resample/{}ms", sample_us / 1000), attrs));
        }
    }
    if wants("first_touch") {
        let given: Vec<u64> = args.clears.iter().map(|c| u64::from(*c)).collect();
        for clears in or(&given, &[50, 100, 200, 400, 800]) {
            let clears_per_sec = u32::try_from(clears).unwrap_or(u32::MAX);
            let attrs = Attrs { method: Method::FirstTouch, clears_per_sec, ..Attrs::default() };
            all.push((format!("first_touch/{clears}"), attrs));
        }
    }
    if wants("census") {
        let given: Vec<u64> = args.budgets.iter().map(|bp| u64::from(*bp)).collect();
        for bp in or(&given, &[50, 100, 200]) {
            let budget_bp = u32::try_from(bp).unwrap_or(u32::MAX);
            let attrs = Attrs { method: Method::Census, budget_bp, ..Attrs::default() };
            all.push((format!("census/{bp}bp"), attrs));
        }
    }
    all
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = args()?;
    if !args.json {
        println!(
            "{:<13}{:<17}{:>6}{:>8}{:>7}{:>7}{:>6}{:>7}{:>7}{:>6}{:>6}{:>5}{:>5}{:>7}{:>7}{:>6}{:>6}",
            "workload",
            "method",
            "clr/s",
            "chk/s",
            "err",
            "bias",
            "rel",
            "wss50",
            "wss75",
            "prec",
            "rec",
            "cov",
            "covB",
            "del50",
            "delmax",
            "regs",
            "cpu%"
        );
    }
    let workloads = workloads::workloads(&args.workloads)?;
    let methods = methods(&args);
    let mut by_method: Vec<Vec<Score>> = methods.iter().map(|_| Vec::new()).collect();
    for (name, config) in &workloads {
        for ((method, attrs), scores) in methods.iter().zip(&mut by_method) {
            let score = run(&args, name, method, config, *attrs)?;
            print(&args, name, method, &score)?;
            scores.push(score);
        }
    }
    for ((method, _), scores) in
        methods.iter().zip(&by_method).filter(|_| workloads.len() > 1 && !args.json)
    {
        print(&args, "mean", method, &mean(scores))?;
    }
    Ok(())
}

/// The mean of each number over several runs. Runs without the number are left out.
fn mean(scores: &[Score]) -> Score {
    let of = |f: fn(&Score) -> f64| {
        let some = scores.iter().map(f).filter(|x| x.is_finite());
        let (n, sum) = some.fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + x));
        sum / n
    };
    Score {
        clears_per_s: of(|s| s.clears_per_s),
        checks_per_s: of(|s| s.checks_per_s),
        error: of(|s| s.error),
        bias: of(|s| s.bias),
        relative: of(|s| s.relative),
        wss_p50: of(|s| s.wss_p50),
        wss_p75: of(|s| s.wss_p75),
        precision: of(|s| s.precision),
        recall: of(|s| s.recall),
        coverage: of(|s| s.coverage),
        coverage_bytes: of(|s| s.coverage_bytes),
        delay_p50_ms: of(|s| s.delay_p50_ms),
        delay_max_ms: of(|s| s.delay_max_ms),
        regions: of(|s| s.regions),
        cpu: of(|s| s.cpu),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn run(
    args: &Args,
    name: &str,
    method: &str,
    config: &Config,
    attrs: Attrs,
) -> Result<Score, Box<dyn Error>> {
    let costs = match attrs.method {
        Method::Census => CENSUS_COSTS,
        _ => Costs { check_ns: 0, clear_ns: args.clear_us * 1000 },
    };
    let options = Options {
        seed: args.seed.unwrap_or(1),
        duration_ms: args.seconds.map(|s| s * 1000),
        costs,
        ..Options::default()
    };
    let mut simulation = Simulation::new(config, &options, attrs)?;
    let truth = simulation.world().read_truth(name)?;
    let process = truth.processes.get(&0).ok_or("no process")?;
    let mut scorer = Scorer::new(&truth, process);
    let mut last = None;
    while let Some(snapshot) = simulation.next_snapshot() {
        if scorer.add(snapshot) && args.verbose {
            last = Some(snapshot.clone());
        }
    }
    if let Some(snapshot) = last {
        println!(
            "{name} {method}: regions of the last steady window, counts of {}",
            snapshot.max_nr_accesses
        );
        show_regions(&snapshot, &scorer.tiles(&snapshot));
    }
    let counts = simulation.world().counts();
    let seconds = simulation.world().end().0 as f64 / 1e9;
    let cpu = match costs.check_ns {
        0 => f64::NAN,
        _ => counts.spent_ns as f64 / 1e7 / seconds,
    };
    Ok(Score { cpu, ..scorer.finish() })
}

/// One line per region: offset in MiB, size in KiB, true mean, least and largest true rate inside,
/// estimate, interval, age; `!` marks a truth outside of the interval.
fn show_regions(snapshot: &Snapshot, tiles: &[Tile]) {
    let max = f64::from(snapshot.max_nr_accesses);
    let Some(target) = snapshot.targets.first() else { return };
    let zero = tiles.first().map_or(0, |t| t.range.start);
    for region in &target.regions {
        let (mut bytes, mut sum, mut least, mut most) = (0.0, 0.0, f64::MAX, 0.0_f64);
        for (tile, len) in overlaps(region, tiles) {
            bytes += len;
            sum += tile.p * len;
            least = least.min(tile.p);
            most = most.max(tile.p);
        }
        let mean = if bytes > 0.0 { sum / bytes * max } else { -1.0 };
        let (lo, hi) = (f64::from(region.lo), f64::from(region.hi));
        let outside = if mean < lo - 1e-3 || mean > hi + 1e-3 { '!' } else { ' ' };
        println!(
            "  {:>10.3} {:>9} true {mean:>6.2} ({:>5.2}..{:>5.2}) est {:>3} [{lo:>5.2},{hi:>5.2}]{outside} age {}{}",
            mib(region.range.start.wrapping_sub(zero)),
            region.range.len() / 1024,
            least * max,
            most * max,
            region.nr_accesses,
            region.age,
            if region.resolved { "" } else { " unresolved" },
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

fn print(args: &Args, name: &str, method: &str, s: &Score) -> Result<(), Box<dyn Error>> {
    if args.json {
        let line = serde_json::json!({ "workload": name, "method": method, "score": s });
        println!("{}", serde_json::to_string(&line)?);
        return Ok(());
    }
    // (number, width, digits)
    let cells = [
        (s.clears_per_s, 6, 0),
        (s.checks_per_s, 8, 0),
        (s.error, 7, 3),
        (s.bias, 7, 3),
        (s.relative, 6, 2),
        (s.wss_p50, 7, 3),
        (s.wss_p75, 7, 3),
        (s.precision, 6, 3),
        (s.recall, 6, 3),
        (s.coverage, 5, 2),
        (s.coverage_bytes, 5, 2),
        (s.delay_p50_ms, 7, 0),
        (s.delay_max_ms, 7, 0),
        (s.regions, 6, 0),
        (s.cpu, 6, 2),
    ];
    let cell = |(x, width, digits): (f64, usize, usize)| match x.is_finite() {
        true => format!("{x:>width$.digits$}"),
        false => format!("{:>width$}", "-"),
    };
    println!("{name:<13}{method:<17}{}", cells.map(cell).concat());
    Ok(())
}
