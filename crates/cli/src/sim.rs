//! `isotherm sim`: runs the same monitor over a simulated workload, hours in seconds.
//!
//! A simulation needs no privileges and no memory, because the workload's processes exist only as
//! probabilities that a page is touched (see [`isotherm::raw::sim::world`]). It writes the same
//! record and the same truth as a real run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::core::units::{bytes, counted, duration};
use isotherm::raw::core::{Attrs, Method, Time};
use isotherm::raw::record::{AttrsInfo, Exit, Header, Mapping, Target, Writer, Written};
use isotherm::raw::sim::config::Config;
use isotherm::raw::sim::world::{Faults, Options, Simulation};

use crate::exit::usage;
use crate::files::{cannot_create, not_created, not_kept};
use crate::options::attrs::AttrsArgs;
use crate::workload::{LayoutArgs, load, scale_factor};

/// Arguments of `isotherm sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A config file (format of masim), or the name of a shipped workload.
    config: String,
    #[command(flatten)]
    layout: LayoutArgs,
    /// The record to write.
    ///
    /// An existing record is kept as FILE.old.
    #[arg(short, long, value_name = "FILE", default_value = "isotherm.data")]
    output: PathBuf,
    /// Write what is accessed, where and when, to this file.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Scale all times by a factor (0.1), or to this long (10s).
    ///
    /// The latter is the time that all phases take together.
    #[arg(long, value_name = "FACTOR|TIME")]
    scale: Option<String>,
    /// Virtual time to run for; the phases repeat until then.
    ///
    /// By default all phases run once.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Seed for all random choices of the workload and the monitor.
    #[arg(long)]
    seed: Option<u64>,
    /// Inject a fault, as `late=CHANCE:TIME` or `fail=CHANCE`.
    ///
    /// `late=CHANCE:TIME` (a tick is late), `fail=CHANCE` (a look at a page fails),
    /// `blind=SHARE` (pages cannot be made old), `notnow=CHANCE` (reading the mappings fails),
    /// `vanish=PER_SECOND` (a process dies), `clear=PER_SECOND` (somebody else clears the accessed
    /// bit of a page), `slow=TIME` (to make 2 MiB old takes so long), `busy=TIME` (the monitor
    /// itself takes so much CPU time whenever it has slept). May be given more than once.
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<String>,
    /// Accesses per second of patterns without a rate, per thread.
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = Options::default().full_speed)]
    speed: f64,
    /// Print only warnings and errors.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    attrs: AttrsArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let attrs = args.attrs.attrs(Method::Census)?;
    let (name, mut config) = load(&args.config, &args.layout)?;
    if let Some(scale) = &args.scale {
        let factor = scale_factor(scale, config.total_ms())?;
        config.scale(factor);
    }
    if let Some(seed) = args.seed {
        config.settings.seed = seed;
    }
    let mut faults = Faults::default();
    for text in &args.faults {
        faults.add(text).map_err(|why| usage(format!("--fault {text}: {why}")))?;
    }
    if !(args.speed.is_finite() && args.speed >= 0.0) {
        return Err(usage(format!("--speed {}: expected a number from 0 on", args.speed)));
    }
    let options = Options {
        seed: config.settings.seed,
        duration_ms: args.duration.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        full_speed: args.speed,
        faults,
        ..Options::default()
    };
    if config.total_ms() == 0 {
        return Err(usage(format!("{}: all phases are 0 ms long", args.config)));
    }
    let started = Instant::now();
    let (simulation, written) = simulate(&name, &config, &options, attrs, &args.output)?;
    if let Some(path) = &args.truth {
        write_truth(&simulation, &name, path)?;
    }
    if !args.quiet {
        let (virtually, really) = (simulation.world().now().as_ns(), started.elapsed());
        writeln!(
            std::io::stderr(),
            "simulated {} s of {name} in {:.1} s (seed {}): {}, {}, {} in {}",
            virtually / 1_000_000_000,
            really.as_secs_f64(),
            options.seed,
            counted(written.snapshots, "snapshot"),
            counted(written.regions, "region"),
            bytes(written.bytes),
            args.output.display()
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a whole simulation and writes its record to `path`; an old record is kept.
pub(crate) fn simulate(
    name: &str,
    config: &Config,
    options: &Options,
    attrs: Attrs,
    path: &Path,
) -> anyhow::Result<(Simulation, Written)> {
    let mut simulation = Simulation::new(config, options, attrs)?;
    let created = Writer::create_beside(path, &header(&attrs)).map_err(not_created(path))?;
    let (writer, place) = created;
    place.keep().map_err(not_kept)?;
    let mut recorder = Recorder {
        writer,
        name,
        appeared: 0,
        exited: Vec::new(),
        maps_every_ns: attrs.update_us.saturating_mul(1000),
        maps_at: Time::default(),
    };
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        recorder.note_new(&simulation, snapshot.end)?;
        recorder.writer.push_snapshot(snapshot)?;
        recorder.note_gone(&simulation, snapshot.end)?;
        recorder.note_mappings(&simulation, snapshot.end)?;
    }
    let end = simulation.world().now();
    let (_, written) = recorder.writer.finish(end, "the simulation is over")?;
    Ok((simulation, written))
}

/// Writes the truth about a simulation to `path`.
pub(crate) fn write_truth(simulation: &Simulation, name: &str, path: &Path) -> anyhow::Result<()> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        simulation.world().write_truth(name, &mut out)?;
        out.flush()
    };
    write().map_err(|e| cannot_create(path, &e))
}

/// A record that is being written.
struct Recorder<'a> {
    writer: Writer<File>,
    name: &'a str,
    /// Processes whose start was recorded, in the order of their start.
    appeared: usize,
    /// Processes whose end was recorded.
    exited: Vec<u32>,
    maps_every_ns: u64,
    maps_at: Time,
}

impl Recorder<'_> {
    /// Records the processes that have started by `now`.
    fn note_new(
        &mut self,
        simulation: &Simulation,
        now: Time,
    ) -> Result<(), isotherm::raw::record::Error> {
        for p in simulation.world().processes().skip(self.appeared).take_while(|p| p.start <= now) {
            self.appeared += 1;
            self.writer.target(&Target {
                id: p.id.0,
                pid: p.pid,
                ppid: p.parent_pid.unwrap_or(0),
                name: self.name.to_owned(),
                t_ns: p.start.as_ns(),
                memory: None,
            })?;
            self.maps_at = Time::default();
        }
        Ok(())
    }

    /// Records the processes that have ended by `now`.
    fn note_gone(
        &mut self,
        simulation: &Simulation,
        now: Time,
    ) -> Result<(), isotherm::raw::record::Error> {
        for p in simulation.world().processes().filter(|p| p.end <= now) {
            if !self.exited.contains(&p.id.0) {
                self.exited.push(p.id.0);
                self.writer.exit(&Exit { id: p.id.0, status: None, t_ns: p.end.as_ns() })?;
            }
        }
        Ok(())
    }

    /// Records the mappings of all processes if an update is due. The writer leaves out what did
    /// not change.
    fn note_mappings(
        &mut self,
        simulation: &Simulation,
        now: Time,
    ) -> Result<(), isotherm::raw::record::Error> {
        if now < self.maps_at {
            return Ok(());
        }
        self.maps_at = now + self.maps_every_ns;
        let world = simulation.world();
        for p in world.processes().filter(|p| p.start <= now && now < p.end) {
            let mappings: Vec<Mapping> = world
                .mappings(p.id)
                .map(|(m, name)| Mapping::new(m.start, m.end, "rw-p", &format!("[anon:{name}]")))
                .collect();
            self.writer.mappings(now, p.id, &mappings)?;
        }
        Ok(())
    }
}

fn header(attrs: &Attrs) -> Header {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Header {
        isotherm: env!("CARGO_PKG_VERSION").into(),
        host: "simulated".into(),
        kernel: "none".into(),
        arch: std::env::consts::ARCH.into(),
        page_size: 4096,
        started_unix_ns: now.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(0)),
        attrs: AttrsInfo::from(attrs),
        ops: "sim".into(),
        // Names of files need not be UTF-8.
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        ..Header::default()
    }
}
