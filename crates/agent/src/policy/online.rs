//! Online tuning, as a policy asks for it: how often, by which measure, and which ranges it can
//! change while the policy runs.
//!
//! A step has to show in the share of memory that is out of RAM, within a phase, and it has to be
//! taken back within one. So these are no ranges for it: those of physical memory, of dry runs, of
//! what a kernel's own DAMON applies, and `min_touched`. Huge pages could be split again. But what
//! they cost is memory that nobody uses, which is in RAM with them and without them: a split frees
//! only pages that hold zeros, and only since Linux 6.12. And what they gain shows when a program
//! has run on them for a while, so phases of some seconds would measure how they are made and
//! split.
//!
//! Not here: the steps. They are those of [`crate::tune::Online`].

use std::path::PathBuf;

use isotherm_ops::support::SetName;

use super::{ContextPolicy, Engine, Key, Policy, Range, SchemePolicy, usual_ranges};
use crate::gauge::Source;

/// How a policy is tuned while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnlineTuning {
    /// The least time between two steps, in µs. Not 0.
    pub every_us: u64,
    /// For how long is measured each time, in µs. Not 0.
    pub phase_us: u64,
    /// What tells how the targets get on.
    pub source: Source,
    /// The file that keeps the values over a restart.
    pub state: Option<PathBuf>,
}

impl Default for OnlineTuning {
    /// A step every five minutes at most, by phases of 10 s and CPU seconds; nothing is kept.
    fn default() -> Self {
        let source = Source::default();
        Self { every_us: 300_000_000, phase_us: 10_000_000, source, state: None }
    }
}

/// Why a range cannot be tuned online.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// What is asked for.
    pub what: String,
    /// Why that cannot be.
    pub why: String,
    /// What to do.
    pub hint: &'static str,
}

/// The ranges that are tuned online: those of the policy, or the usual ones that can be.
///
/// # Errors
///
/// Why one that the policy names cannot be, with its place among them, or that there is none.
pub fn online_ranges(policy: &Policy) -> Result<Vec<Range>, (Option<usize>, Unfit)> {
    let named = &policy.tuning.ranges;
    if let Some((at, unfit)) =
        named.iter().enumerate().find_map(|(at, range)| Some((at, unfit(policy, range)?)))
    {
        return Err((Some(at), unfit));
    }
    if !named.is_empty() {
        return Ok(named.clone());
    }
    let (fit, others): (Vec<Range>, Vec<Range>) =
        usual_ranges(policy).into_iter().partition(|range| unfit(policy, range).is_none());
    if fit.is_empty() {
        return Err((
            None,
            match others.first().and_then(|range| unfit(policy, range)) {
                Some(unfit) => unfit,
                None => Unfit {
                    what: "online tuning of a policy that has nothing to tune".to_owned(),
                    why: "no scheme pages out, and no range was given".to_owned(),
                    hint: "range = [\"SCHEME.KEY=LOW..HIGH\"], as \"cold.age=1s..60s\"",
                },
            },
        ));
    }
    Ok(fit)
}

/// Why a range cannot be tuned online; none if it can.
fn unfit(policy: &Policy, range: &Range) -> Option<Unfit> {
    let is_mine = |s: &&SchemePolicy| s.settings.name == range.scheme;
    let mine = policy.contexts.iter().filter_map(|c| Some((c, c.schemes.iter().find(is_mine)?)));
    let found = mine.into_iter().find_map(|(context, scheme)| of_context(context, scheme, range));
    let (why, hint) = found.or_else(|| outside(policy, range))?;
    Some(Unfit { what: format!("online tuning of `{range}`"), why, hint })
}

fn of_context(
    context: &ContextPolicy,
    scheme: &SchemePolicy,
    range: &Range,
) -> Option<(String, &'static str)> {
    let (name, scheme_name) = (&context.name, &scheme.settings.name);
    if range.key == Key::MinTouched {
        let why =
            "what a huge page is worth does not show in the share of memory that is out of RAM";
        return Some((why.to_owned(), "`isotherm tune` tries it on a program of its own"));
    }
    if scheme.settings.dry_run {
        let why = format!("scheme `{scheme_name}` is a dry run, which changes nothing");
        return Some((why, "leave out `dry_run` (or --dry-run), or `online`"));
    }
    if context.ops == Some(SetName::Kdamond) && context.engine != Engine::Isotherm {
        let why = format!("the kernel's DAMON applies the schemes of context `{name}`");
        return Some((why, "engine = \"isotherm\", or leave out `online`"));
    }
    if context.memory().is_some() {
        let why = format!("context `{name}` watches physical memory, not processes");
        return Some((why, "leave out `online`, or name processes as targets"));
    }
    None
}

fn outside(policy: &Policy, range: &Range) -> Option<(String, &'static str)> {
    let now = range.get(policy).filter(|now| !(range.low..=range.high).contains(now))?;
    let why = format!("the policy begins with {}, which is outside", range.key.show(now));
    Some((why, "a range with the policy's own value in it"))
}
