//! `isotherm tune`: finds numbers of a policy by trials on the program that runs.

mod args;
mod lab;
mod plan;
mod shown;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use isotherm::raw::agent::policy::{Policy, Range, print, usual_ranges};
use isotherm::raw::agent::tune::{Brake, Limits, Search, Space, Told, Why};
use isotherm::raw::core::scheme::{Action, Watermarks};
use isotherm::raw::host::proc::{Proc, meminfo_kib};
use isotherm::raw::sys::signals;

pub(crate) use args::Args;
use lab::{Done, Halt, Lab, settling, trial, watching};

use crate::exit::{self, usage};
use crate::files;

/// Below this share of free swap nothing worth tuning can be paged out.
const FULL: f64 = 0.01;

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut policy = super::run::load(&args.policy)?;
    args.targets(&mut policy)?;
    refuse_dry(&policy)?;
    let (ranges, usual) = args.ranges(&policy)?;
    let limits = args.limits(&policy);
    refuse_full_swap(&policy)?;
    let space = Space::new(ranges);
    signals::install()?;
    let source = args.source();
    let lab = Lab::start(&policy, source, args.phase, args.seed).map_err(exit::refused)?;
    let tuner = Tuner { args: &args, policy, space, limits };
    tuner.begin(usual);
    tuner.run(lab)
}

/// A policy that only counts saves nothing.
fn refuse_dry(policy: &Policy) -> anyhow::Result<()> {
    let dry = policy.contexts.iter().flat_map(|c| &c.schemes).find(|s| s.settings.dry_run);
    dry.map_or(Ok(()), |scheme| {
        Err(usage(format!(
            "scheme `{}` is a dry run\n  why:   it changes nothing, so there is nothing to tune\n  hint:  \
             leave out `dry_run`; `isotherm plan` predicts without acting",
            scheme.settings.name
        )))
    })
}

/// Without room in swap nothing can be paged out. That there is no swap at all is found by the
/// check of the policy.
fn refuse_full_swap(policy: &Policy) -> anyhow::Result<()> {
    let schemes = policy.contexts.iter().flat_map(|c| &c.schemes);
    if !schemes.clone().any(|s| s.scheme.action == Action::Pageout) {
        return Ok(());
    }
    let mut text = Vec::new();
    if Proc::default().read_system("meminfo", &mut text).is_err() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&text);
    let field = |name| meminfo_kib(&text, name);
    let (Some(total), Some(free)) = (field("SwapTotal:"), field("SwapFree:")) else {
        return Ok(());
    };
    #[expect(clippy::cast_precision_loss, reason = "KiB")]
    let is_full = total > 0 && (free as f64) < FULL * total as f64;
    if is_full {
        return Err(exit::with(
            exit::NOT_SUPPORTED,
            format!(
                "swap is full\n  tried: read /proc/meminfo: SwapFree {free} kB of {total} kB\n  why:   \
                 anonymous memory has nowhere to go, so nothing could be tuned\n  hint:  add swap \
                 (`swapon`; zram needs no disk)"
            ),
        ));
    }
    Ok(())
}

/// Tuning, apart from the program that is tried.
struct Tuner<'a> {
    args: &'a Args,
    policy: Policy,
    space: Space,
    limits: Limits,
}

impl Tuner<'_> {
    /// Says what is tuned, by what, and how long that may take.
    fn begin(&self, usual: bool) {
        let shown: Vec<String> = self.space.ranges().iter().map(Range::to_string).collect();
        let why = if usual { " (no range was given, so this is tuned)" } else { "" };
        self.say(&format!("tuning {}{why}", shown.join(", ")));
        let schemes = self.policy.contexts.iter().flat_map(|c| &c.schemes);
        if schemes.clone().any(|s| s.scheme.watermarks != Watermarks::default()) {
            self.say("watermarks do not count while tuning; the policy keeps them");
        }
        if schemes.clone().any(|s| s.settings.prove) {
            self.say("`prove` does not count while tuning, which measures the benefit itself; the policy keeps it");
        }
    }

    fn say(&self, text: &str) {
        if !self.args.quiet {
            writeln!(std::io::stderr(), "{text}").ok();
        }
    }

    /// Tunes to the end, puts everything back, and tells.
    fn run(&self, mut lab: Lab) -> anyhow::Result<ExitCode> {
        self.say(&format!("slowdown: {}", lab.source().told()));
        let mut search = None;
        let halt = self.trials(&mut lab, &mut search).err();
        self.say("putting everything back");
        let source = lab.source().told();
        lab.put_back();
        if let Some(Halt::Failed(err)) = halt {
            if let Some(search) = &search {
                self.tell(search, Some("a failure"), &source)?;
            }
            return Err(err);
        }
        let stopped = match halt {
            Some(Halt::Signal) => Some("a signal"),
            Some(Halt::TargetsGone) => Some("the end of the targets"),
            _ => None,
        };
        let gone = || {
            exit::with(
                exit::TARGET_GONE,
                "the targets ended during tuning\n  hint:  tune a program that runs for longer, or \
                 with a shorter --phase",
            )
        };
        let Some(search) = search else {
            return match halt {
                Some(Halt::Signal) => Ok(ExitCode::from(exit::PARTIAL)),
                _ => Err(gone()),
            };
        };
        let named = self.tell(&search, stopped, &source)?;
        match halt {
            Some(Halt::TargetsGone) => Err(gone()),
            None if named => Ok(ExitCode::SUCCESS),
            _ => Ok(ExitCode::from(exit::PARTIAL)),
        }
    }

    /// All phases. What was found so far stays in `found` if they end early.
    fn trials(&self, lab: &mut Lab, found: &mut Option<Search>) -> Result<(), Halt> {
        lab.wait_for_targets()?;
        let guess = plan::guess(self, lab)?;
        let start = self.space.of(&self.policy);
        let guess = guess.map(|age_us| {
            let values = self.space.ranges().iter().zip(&start);
            values.map(|(range, value)| plan::with_age(range, *value, age_us)).collect()
        });
        let nr = self.args.nr_candidates();
        let search = found.insert(Search::new(self.space.clone(), start, guess, nr, self.limits));
        self.say(&format!("this takes up to about {}", self.estimate(search)));
        let mut before = lab.untouched(self.args.phase)?;
        if let Some(why) = before.useless(lab.source()) {
            let hint = "give another measure of progress, or a longer --phase";
            return Err(
                usage(format!("nothing can be tuned\n  why:   {why}\n  hint:  {hint}")).into()
            );
        }
        let mut older = None;
        while let Some(at) = search.ask() {
            let policy = self.space.apply(&self.policy, &search.candidates()[at].point);
            let brake = Brake { max_slowdown: self.limits.max_slowdown, noise: search.noise() };
            let done = lab.candidate(&policy, &before, brake)?;
            let after = lab.untouched(self.args.phase)?;
            let told = match &done {
                Done::Measured(during) => {
                    Told::Measured(trial(&before, during, &after, lab.source()))
                }
                Done::Broken(during) => Told::Broken(trial(&before, during, &after, lab.source())),
                Done::Refused(refused) => Told::Refused(refused.text.clone()),
            };
            self.say(&shown::trial(search, at, &told));
            search.tell(at, told);
            // Three untouched phases in a row of them are a trial of nothing.
            if let Some(older) = older.replace(before) {
                search.tell_null(trial(&older, &before, &after, lab.source()));
            }
            before = after;
        }
        Ok(())
    }

    /// How long all trials may take, for people.
    fn estimate(&self, search: &Search) -> String {
        let points = search.candidates().iter().map(|candidate| &candidate.point);
        let policies: Vec<_> = points.map(|at| self.space.apply(&self.policy, at)).collect();
        let watching = policies.iter().map(watching).max().unwrap_or_default();
        let settling = policies.iter().map(settling).max().unwrap_or_default();
        let trials = u32::try_from(self.limits.trials).unwrap_or(u32::MAX);
        // One untouched phase, and two with the candidate in force.
        let each = settling.max(self.args.phase) + 3 * self.args.phase;
        let seconds = (watching + each * trials).as_secs();
        if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
    }

    /// Prints the curve and the verdict, and writes the policy. Returns whether there is a winner.
    fn tell(&self, search: &Search, stopped: Option<&str>, source: &str) -> anyhow::Result<bool> {
        let verdict = search.verdict();
        let winner = verdict.best.filter(|_| verdict.why == Why::Named && stopped.is_none());
        let mut out = std::io::stdout().lock();
        if self.args.json {
            writeln!(out, "{}", shown::json(search, &verdict, stopped, source))?;
        } else {
            write!(out, "{}", shown::text(search, &verdict, stopped))?;
        }
        let Some(winner) = winner else { return Ok(false) };
        let policy = self.space.apply(&self.policy, &search.candidates()[winner].point);
        let text = print(&policy);
        match &self.args.output {
            Some(path) => {
                write_file(path, &text)?;
                let path = path.display();
                self.say(&format!("the policy is in {path}; `isotherm run {path}` runs it"));
            }
            None if !self.args.json => {
                writeln!(
                    out,
                    "\nthe policy, which -o FILE writes to a file:\n\n{}",
                    text.trim_end()
                )?;
            }
            None => {}
        }
        Ok(true)
    }
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).map_err(|err| files::cannot_create(path, &err))
}

/// The ranges to tune: those of the command line, or of the policy, or the usual ones. The flag
/// says that it is the last.
fn ranges_of(policy: &Policy, given: &[Range]) -> anyhow::Result<(Vec<Range>, bool)> {
    for range in given {
        range.check(policy).map_err(|why| usage(format!("--range {why}")))?;
    }
    let mut ranges = given.to_vec();
    if ranges.is_empty() {
        ranges.clone_from(&policy.tuning.ranges);
    }
    let usual = ranges.is_empty();
    if usual {
        ranges = usual_ranges(policy);
    }
    if ranges.is_empty() {
        return Err(usage(
            "the policy has nothing to tune\n  why:   no scheme pages out or makes huge pages, and no \
             range was given\n  hint:  --range SCHEME.KEY=LOW..HIGH, as cold.age=1s..60s",
        ));
    }
    Ok((ranges, usual))
}
