//! The command line: `list`, `run`, `study`, `format`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::dir::ResultDir;
use crate::job::{self, Bench, Job, Spec};
use crate::requirement;
use crate::system::System;

/// Measures Isotherm on this machine, and keeps what it measured.
#[derive(Debug, Parser)]
#[command(name = "isotherm-eval", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Name the jobs.
    List,
    /// Run a job: measure, study, print.
    Run(RunArgs),
    /// Study the raw files of an old run again, and print.
    Study {
        /// A result directory.
        dir: PathBuf,
    },
    /// Print the result of an old run.
    Format {
        /// A result directory.
        dir: PathBuf,
    },
    /// Copy the pictures of an old run (`published`) to where documents show them.
    Gallery {
        /// A result directory.
        dir: PathBuf,
        /// Where to.
        #[arg(long, value_name = "DIR", default_value = "docs/gallery")]
        out: PathBuf,
    },
    /// What the job `stalls` measures.
    #[command(hide = true)]
    StallTarget,
    /// What the job `top` watches: a process of so many MiB, of which so many are touched.
    #[command(hide = true)]
    Holder {
        /// All of its memory.
        mib: usize,
        /// What is touched ten times a second.
        hot: usize,
    },
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Which job; `list` names them.
    job: String,
    /// Go on with this run that was interrupted: what it has is left out (`published`).
    ///
    /// It goes on as it began, with the same programs, lengths and binary.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["out", "quick", "isotherm", "only", "pairs", "seconds"]
    )]
    resume: Option<PathBuf>,
    /// Where results go: a new directory JOB-TIME is made below this one.
    #[arg(long, value_name = "DIR", default_value = "eval/results")]
    out: PathBuf,
    /// A smoke run of seconds: all of the job once, and it fails if any part of it does. Its
    /// numbers prove only that the job works.
    #[arg(long)]
    quick: bool,
    /// The isotherm binary to measure [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    isotherm: Option<PathBuf>,
    /// Measures only what is named, where a job measures several things (workloads, methods, sets,
    /// sizes). `scattered` names a group of workloads.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// How many runs of each kind (`accuracy`, `overhead`, `reclaim`, `thp`), or restarts
    /// (`agent`).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1000))]
    pairs: Option<u64>,
    /// How long a load phase takes (`reclaim`, `thp`), a workload (`accuracy`), or all of it
    /// (`soak`; 4 h).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
}

/// Runs the command line.
pub(crate) fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::List => {
            for job in job::all() {
                print(&format!("{:<12} {}\n", job.name(), job.about()))?;
            }
            Ok(())
        }
        Command::Run(args) => run_job(args),
        Command::Study { dir } => {
            let dir = ResultDir::open(&dir)?;
            study_and_format(job_of(&dir)?.as_ref(), &dir)
        }
        Command::Format { dir } => {
            let dir = ResultDir::open(&dir)?;
            format_result(job_of(&dir)?.as_ref(), &dir)
        }
        Command::Gallery { dir, out } => {
            let copied = ResultDir::open(&dir)?.copy_pictures(&out)?;
            print(&format!("{copied} pictures are in {}\n", out.display()))
        }
        Command::Holder { mib, hot } => crate::jobs::top::hold(mib, hot),
        Command::StallTarget => crate::jobs::stalls::target(),
    }
}

fn run_job(args: RunArgs) -> anyhow::Result<()> {
    isotherm_sys::signals::install().context("set up signal handlers")?;
    let job = job::by_name(&args.job)?;
    if let Some(dir) = &args.resume {
        let (dir, spec) = resumed(job.as_ref(), dir)?;
        return measure(job.as_ref(), &spec, &dir);
    }
    let isotherm = match args.isotherm {
        Some(path) => path,
        None => sibling("isotherm")?,
    };
    let isotherm = isotherm.canonicalize().with_context(|| {
        format!("no isotherm binary at {} (--isotherm PATH)", isotherm.display())
    })?;
    let spec = Spec {
        job: args.job,
        quick: args.quick,
        only: args.only,
        pairs: args.pairs.map(usize::try_from).transpose()?,
        seconds: args.seconds,
        isotherm,
    };
    let dir = ResultDir::create(&args.out, &spec)?;
    say(&format!("{}: results go to {}", spec.job, dir.path().display()));
    dir.write_json("system.json", &System::read(&spec.isotherm))?;
    let wanted = job.sysreqs(&spec);
    for r in wanted.iter().filter(|r| !r.satisfied) {
        say(&format!("{}: missed requirement: {r}", spec.job));
    }
    dir.write_json("requirements.json", &wanted)?;
    measure(job.as_ref(), &spec, &dir)
}

/// The run to go on with. Results of two versions would be taken for those of one.
fn resumed(job: &dyn Job, path: &Path) -> anyhow::Result<(ResultDir, Spec)> {
    anyhow::ensure!(
        job.resumes(),
        "job `{}` cannot go on with an old run\n  hint:  leave out --resume; `published` can",
        job.name()
    );
    let dir = ResultDir::open(path)?;
    let spec: Spec = dir.read_json("spec.json")?;
    anyhow::ensure!(
        spec.job == job.name(),
        "{} is a run of job `{}`, not of `{}`",
        path.display(),
        spec.job,
        job.name()
    );
    let (then, now): (System, System) =
        (dir.read_json("system.json")?, System::read(&spec.isotherm));
    if (&then.commit, &then.isotherm) != (&now.commit, &now.isotherm) {
        say(&format!(
            "{}: it began with {} at {}, and goes on with {} at {}",
            spec.job, then.isotherm, then.commit, now.isotherm, now.commit
        ));
    }
    dir.write_json("system-resumed.json", &now)?;
    Ok((dir, spec))
}

fn measure(job: &dyn Job, spec: &Spec, dir: &ResultDir) -> anyhow::Result<()> {
    job.run(&Bench { spec, dir }).with_context(|| format!("run job {}", spec.job))?;
    dir.write_json("system-after.json", &System::read_load())?;
    study_and_format(job, dir)?;
    let failed = FAILED.load(Ordering::Relaxed);
    anyhow::ensure!(
        failed == 0 || !spec.quick,
        "job {} works only in part: {failed} of its parts failed; each was told above",
        spec.job
    );
    Ok(())
}

/// A length of a load phase.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (1.0..=200_000.0).contains(&s) => Ok(s),
        _ => Err("expected a number from 1 to 200000".into()),
    }
}

fn study_and_format(job: &dyn Job, dir: &ResultDir) -> anyhow::Result<()> {
    let result = job.study(dir).with_context(|| format!("study {}", dir.path().display()))?;
    dir.write_json("result.json", &result)?;
    format_result(job, dir)
}

fn format_result(job: &dyn Job, dir: &ResultDir) -> anyhow::Result<()> {
    let result = dir.read_json("result.json")?;
    let spec: Spec = dir.read_json("spec.json")?;
    let system: System = dir.read_json("system.json")?;
    let requirements: Vec<requirement::Requirement> = dir.read_json("requirements.json")?;
    let mut text =
        format!("# {}{}\n\n{system}\n", job.name(), if spec.quick { " (quick)" } else { "" });
    for missed in requirements.iter().filter(|r| !r.satisfied) {
        text.push_str(&format!("missed requirement: {missed}\n"));
    }
    text.push('\n');
    text.push_str(&job.format(&result)?);
    dir.write_text("report.txt", &text)?;
    print(&text)
}

fn job_of(dir: &ResultDir) -> anyhow::Result<Box<dyn Job>> {
    let spec: Spec = dir.read_json("spec.json")?;
    job::by_name(&spec.job)
}

/// A program beside this one.
fn sibling(name: &str) -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe().context("find out where this program is")?;
    Ok(exe.parent().unwrap_or(Path::new(".")).join(name))
}

/// Progress, for people.
/// How many parts of the job have failed.
static FAILED: AtomicUsize = AtomicUsize::new(0);

/// Says that a part of the job failed. The rest goes on, but a smoke run fails in the end.
pub(crate) fn failed(text: &str) {
    FAILED.fetch_add(1, Ordering::Relaxed);
    say(text);
}

pub(crate) fn say(text: &str) {
    // Nothing can be done if standard error is closed.
    writeln!(std::io::stderr(), "{text}").ok();
}

pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("write to standard output"),
    }
}
