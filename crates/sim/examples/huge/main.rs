//! How soon `census` finds a hot gigabyte in a target of up to terabytes, in virtual time.
//!
//! `cargo run --release -p isotherm-sim --example huge -- [--gib N]... [--piece MIB]... [--clean]
//! [--virtual-seconds N] [--real-seconds N] [--seed N]`
//!
//! Every line of the output is the result of one run, in JSON. The product's own loop and method
//! run over a simulated process, with a budget of 1 % of a CPU. Arming and looking cost virtual
//! time, as measured on real memory ([`ARM_NS`], [`LOOK_NS`]). What the core itself computes costs
//! the CPU time that it takes here: a size at which the end of a window is long is charged for it,
//! and its next sample is late. So numbers vary a little from run to run.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

mod meter;
mod score;

use std::error::Error;
use std::time::Instant;

use isotherm_core::{Attrs, Clock as _, Context, Driver, Event, Method, Snapshot, TargetId, Time};
use isotherm_sim::config::Config;
use isotherm_sim::world::{Costs, Options, World};
use serde::Serialize;

use meter::{Meter, MeteredClock, MeteredWorld};
use score::{Moment, Score};

/// CPU time to arm a unit of 512 pages of 4 KiB with young ones among them, its four or five looks
/// not counted, in ns: 13 to 17 ms per GiB in ranges of 16 MiB, 22 ms where all pages are young and
/// active, and one look before (the study of census, "Cost, ms of CPU per GiB of 4 KiB pages";
/// journal of 2026-11-22).
const ARM_NS: u64 = 30_000;
/// CPU time of a dense look at a unit, in ns: 0.6 to 0.9 ms per GiB (the same tables).
const LOOK_NS: u64 = 1_500;
/// The hot memory, in MiB, and how often each of its pages is touched per second.
const HOT_MIB: u64 = 1024;
const HZ: u64 = 200;

#[derive(Debug)]
struct Args {
    gib: Vec<u64>,
    pieces_mib: Vec<u64>,
    clean: bool,
    virtual_s: u64,
    real_s: u64,
    seed: u64,
}

/// The result of a run. Times are virtual seconds unless they say otherwise.
#[derive(Debug, Serialize)]
struct Line {
    gib: u64,
    piece_mib: u64,
    /// Whether all memory was found old at the start, as if somebody had swept it before.
    clean: bool,
    arm_ns: u64,
    look_ns: u64,
    /// When shares of the hot bytes were known.
    moments: Vec<Moment>,
    /// Shares by pages at the end of the run; by regions, of those called hot.
    recall: f64,
    precision: f64,
    regions_recall: f64,
    regions_precision: f64,
    /// Own CPU time in percent of the virtual time; the part of it that the core computes.
    cpu_percent: f64,
    core_percent: f64,
    /// Units armed and looked at, per second.
    armed_per_s: f64,
    looked_per_s: f64,
    virtual_s: f64,
    real_s: f64,
    /// Windows that were told of, of those that fit into the time; the longest window, in ms.
    windows_kept: f64,
    longest_window_ms: f64,
    /// CPU time of the core for a window, in us: median, 99th percentile, most.
    window_us: [f64; 3],
    regions: usize,
    /// What the core has allocated at the end, and at most, per watched byte.
    state: f64,
    peak: f64,
}

fn args() -> Result<Args, Box<dyn Error>> {
    let (gib, pieces_mib) = (Vec::new(), Vec::new());
    let mut args = Args { gib, pieces_mib, clean: false, virtual_s: 14_400, real_s: 40, seed: 1 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word}: a value is missing"));
        match word.as_str() {
            "--gib" => args.gib.push(value()?.parse()?),
            "--piece" => args.pieces_mib.push(value()?.parse()?),
            "--clean" => args.clean = true,
            "--virtual-seconds" => args.virtual_s = value()?.parse()?,
            "--real-seconds" => args.real_s = value()?.parse()?,
            "--seed" => args.seed = value()?.parse()?,
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    if args.gib.is_empty() {
        args.gib = vec![4, 16];
    }
    if args.pieces_mib.is_empty() {
        args.pieces_mib = vec![2, 64];
    }
    Ok(args)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = args()?;
    for gib in &args.gib {
        for piece in &args.pieces_mib {
            println!("{}", serde_json::to_string(&measure(&args, *gib, *piece)?)?);
        }
    }
    Ok(())
}

/// One mapping, of which some pieces are touched all the time. If it is to be `clean`, a process
/// forked at the start is watched: a fork copies page tables with the accessed bits cleared.
fn config(gib: u64, piece_mib: u64, virtual_s: u64, clean: bool) -> String {
    let share = to_f64(HOT_MIB * 100) / to_f64(gib * 1024);
    let processes = if clean { "@ processes=2\n@ fork_ms=1\n" } else { "" };
    format!(
        "{processes}m, {gib}G\n\nsteady\n{}\n\
         m, 1, 64, 1, rw, pieces={piece_mib}M, share={share}, hz={HZ}\n",
        virtual_s * 1000
    )
}

fn measure(args: &Args, gib: u64, piece_mib: u64) -> Result<Line, Box<dyn Error>> {
    let config = Config::parse(&config(gib, piece_mib, args.virtual_s, args.clean))?;
    let costs = Costs { check_ns: LOOK_NS / 30, clear_ns: (ARM_NS - LOOK_NS) / 2 };
    let options = Options { seed: args.seed, costs, ..Options::default() };
    let world = World::new(&config, &options);
    let mut score = Score::new(&config, &world);
    let id = TargetId(u32::from(args.clean));
    let meter = Meter::default();
    let begun = Instant::now();
    let mut line = None;
    let allocated = allocation_counter::measure(|| {
        let attrs = Attrs { method: Method::Census, ..Attrs::default() };
        let Ok(mut context) = Context::new(attrs, args.seed) else { return };
        context.add_target(id);
        let mut clock = world.clock();
        // After the fork, if there is one.
        clock.sleep_until(Time(2_000_000));
        let clock = MeteredClock::new(clock, meter.clone());
        let mut driver = Driver::new(context, MeteredWorld::new(world, meter.clone()), clock);
        let mut windows = Windows::default();
        meter.start();
        while driver.run() == Event::Snapshot {
            meter.outside(|| {
                let snapshot = driver.context.snapshot();
                windows.add(snapshot, meter.core_ns());
                score.add(snapshot);
            });
            let spent = begun.elapsed().as_secs() >= args.real_s;
            if score.is_complete() || spent || driver.ops.world.now() >= driver.ops.world.end() {
                break;
            }
        }
        meter.outside(|| {
            line = Some(result(args, (gib, piece_mib), &driver, &score, &mut windows));
        });
        // What the driver holds is still held when the measurement ends.
        std::mem::forget(driver);
    });
    let mut line = line.ok_or("attributes that are not valid")?;
    let bytes = to_f64(gib << 30);
    line.state = allocated.bytes_current as f64 / bytes;
    line.peak = to_f64(allocated.bytes_max) / bytes;
    line.real_s = begun.elapsed().as_secs_f64();
    Ok(line)
}

/// What the windows of a run took.
#[derive(Debug, Default)]
struct Windows {
    core_ns: u64,
    took_us: Vec<f64>,
    longest_ns: u64,
}

impl Windows {
    fn add(&mut self, snapshot: &Snapshot, core_ns: u64) {
        self.took_us.push(to_f64(core_ns - self.core_ns) / 1e3);
        self.core_ns = core_ns;
        self.longest_ns = self.longest_ns.max(snapshot.end.since(snapshot.start));
    }

    fn percentile(&self, percent: usize) -> f64 {
        let last = self.took_us.len().saturating_sub(1);
        self.took_us.get(last * percent / 100).copied().unwrap_or(0.0)
    }
}

fn result(
    args: &Args,
    (gib, piece_mib): (u64, u64),
    driver: &Driver<MeteredWorld, MeteredClock>,
    score: &Score,
    windows: &mut Windows,
) -> Line {
    windows.took_us.sort_unstable_by(f64::total_cmp);
    let ns = to_f64(driver.ops.world.now().0);
    let snapshot = driver.context.snapshot();
    let (regions_precision, regions_recall) = score.of_regions(snapshot);
    let counts = driver.ops.world.counts();
    let window_ns = to_f64(snapshot.aggr_us * 1000);
    Line {
        gib,
        piece_mib,
        clean: args.clean,
        arm_ns: ARM_NS,
        look_ns: LOOK_NS,
        moments: score.moments().to_vec(),
        recall: score.recall(),
        precision: score.precision(),
        regions_recall,
        regions_precision,
        cpu_percent: (to_f64(counts.spent_ns) + to_f64(windows.core_ns)) / ns * 100.0,
        core_percent: to_f64(windows.core_ns) / ns * 100.0,
        armed_per_s: to_f64(driver.ops.armed) / ns * 1e9,
        looked_per_s: to_f64(driver.ops.looked) / ns * 1e9,
        virtual_s: ns / 1e9,
        real_s: 0.0,
        windows_kept: to_f64(windows.took_us.len() as u64) / (ns / window_ns).floor().max(1.0),
        longest_window_ms: to_f64(windows.longest_ns) / 1e6,
        window_us: [50, 99, 100].map(|percent| windows.percentile(percent)),
        regions: snapshot.nr_regions(),
        state: 0.0,
        peak: 0.0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "for ratios")]
fn to_f64(n: u64) -> f64 {
    n as f64
}
