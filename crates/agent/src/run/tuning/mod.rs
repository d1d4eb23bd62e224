//! Tunes a policy while it runs: phases for [`Online`], on the contexts of a runner.
//!
//! ```text
//! Runner::next -> Tuner::turn -> commit of a point, then a phase -> Online -> Event::Tuned
//! ```
//!
//! The runner gives the tuner a turn whenever it is asked for a message, so there is no thread of
//! its own. A change of values is a commit as any other, so contexts go on with all that they know.
//!
//! Invariants. Only the values of the ranges change. While nothing is tried, the present values are
//! in force. Nothing is tried while the runner stops or is paused, while no target is there, while
//! watermarks or the guard keep the schemes from acting, or within the time between two steps. What
//! cannot be measured ends a try, never the run.
//!
//! Not here: what is tried, and what is kept.

mod phase;
mod state;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use isotherm_host::error::Class;
use isotherm_ops::support::SetName;

use super::message::{Event, Message, Summary, Tuned};
use super::runner::Refused;
use crate::gauge::Phase;
use crate::policy::{OnlineTuning, Policy, online_ranges};
use crate::tune::{Ask, Online, OnlineTold, Rules, Space};
use phase::{Running, Turn};
use state::Kept;

/// Puts a point in force, in the contexts that run.
pub(super) type Commit<'a> = &'a mut dyn FnMut(&Space, &[u64]) -> Result<(), Refused>;

/// A policy that is tuned while it runs.
#[derive(Debug)]
pub(super) struct Tuner {
    /// The policy as it was committed; its own values are not those in force.
    asked: Policy,
    settings: OnlineTuning,
    online: Online,
    /// The values that the policy has itself.
    began: Vec<u64>,
    begun: Instant,
    /// The contexts whose schemes do not act now, and all that are tuned.
    idle: BTreeSet<String>,
    contexts: BTreeSet<String>,
    in_force: Vec<u64>,
    phase: Option<Running>,
    /// The last phase with the present values.
    present: Option<Phase>,
    /// Nothing is tried before.
    retry_at: Option<Instant>,
    troubles: u32,
    news: Vec<Tuned>,
}

/// The values of a policy that is tuned, for its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// The policy with the present values.
    pub policy: Policy,
    /// The present values, as `cold.age=5s`, separated by blanks.
    pub now: String,
    /// Those that the policy has itself.
    pub began: String,
}

impl Tuner {
    /// The tuner that a policy asks for; none if it asks for none. It goes on with the values of
    /// another one that was about the same, or else with those that were kept.
    ///
    /// # Errors
    ///
    /// If a range cannot be tuned while the policy runs.
    pub(super) fn of(policy: &Policy, before: Option<&Self>) -> Result<Option<Self>, Refused> {
        let Some(settings) = policy.tuning.online.clone() else { return Ok(None) };
        let ranges = online_ranges(policy).map_err(|(_, unfit)| Refused {
            code: Class::Usage.exit_code(),
            text: format!("{}\n  why:   {}\n  hint:  {}", unfit.what, unfit.why, unfit.hint),
        })?;
        let is_tuned = |name: &String| ranges.iter().any(|range| range.scheme == *name);
        let contexts = policy.contexts.iter();
        let contexts = contexts
            .filter(|context| context.schemes.iter().any(|s| is_tuned(&s.settings.name)))
            .map(|context| context.name.clone())
            .collect();
        let rules = Rules {
            max_slowdown: policy.tuning.max_slowdown(),
            weight: policy.tuning.weight(),
            every: Duration::from_micros(settings.every_us),
            source: settings.source.clone(),
        };
        let space = Space::new(ranges);
        let began = space.of(policy);
        let mut news = Vec::new();
        let is_same = |other: &&Self| *other.online.space() == space && other.began == began;
        let mut kept = before.filter(is_same).map(Self::kept);
        if let Some(path) = settings.state.as_ref().filter(|_| kept.is_none()) {
            kept = state::read(path, &space, &began).unwrap_or_else(|why| {
                news.push(told::dropped(&why));
                None
            });
        }
        let Kept { point, slowed } = kept.unwrap_or(Kept { point: began.clone(), slowed: 0.0 });
        if point != began {
            news.push(told::resumed(&space, &point));
        }
        news.push(told::begun(&space, &point, &settings));
        Ok(Some(Self {
            asked: policy.clone(),
            online: Online::new(space, point.clone(), rules, slowed, Duration::ZERO),
            settings,
            began,
            begun: Instant::now(),
            idle: BTreeSet::new(),
            contexts,
            in_force: point,
            phase: None,
            present: None,
            retry_at: None,
            troubles: 0,
            news,
        }))
    }

    /// What is kept over a restart.
    fn kept(&self) -> Kept {
        Kept { point: self.online.point().to_vec(), slowed: self.online.slowed() }
    }

    /// The policy with the values that are in force.
    pub(super) fn applied(&self, policy: &Policy) -> Policy {
        self.online.space().apply(policy, &self.in_force)
    }

    /// A policy that is in force, with its own values instead of the tuned ones.
    pub(super) fn unapplied(&self, mut policy: Policy) -> Policy {
        for context in &mut policy.contexts {
            let asked = self.asked.contexts.iter().find(|asked| asked.name == context.name);
            if let Some(asked) = asked {
                context.schemes.clone_from(&asked.schemes);
            }
        }
        policy.tuning = self.asked.tuning.clone();
        policy
    }

    /// Whether another policy is tuned in the same way, so that what was found holds for it.
    pub(super) fn suits(&self, policy: &Policy) -> bool {
        let is_same = |context: &crate::policy::ContextPolicy| {
            let mut asked = self.asked.contexts.iter();
            asked.any(|a| a.name == context.name && a.schemes == context.schemes)
        };
        policy.tuning == self.asked.tuning && policy.contexts.iter().all(is_same)
    }

    /// Goes on with a policy that [suits](Self::suits).
    pub(super) fn adopt(&mut self, policy: &Policy) {
        for context in &policy.contexts {
            let mut asked = self.asked.contexts.iter_mut();
            if let Some(asked) = asked.find(|asked| asked.name == context.name) {
                asked.clone_from(context);
            }
        }
    }

    /// Fails if the set of a context has the kernel apply its schemes.
    pub(super) fn refuse_set(&self, context: &str, ops: &str) -> Result<(), Refused> {
        let engine = self.asked.contexts.iter().find(|c| c.name == context).map(|c| c.engine);
        if !self.contexts.contains(context)
            || ops != SetName::Kdamond.name()
            || engine == Some(crate::policy::Engine::Isotherm)
        {
            return Ok(());
        }
        Err(Refused {
            code: Class::NotSupported.exit_code(),
            text: format!(
                "online tuning of context `{context}`\n  why:   the kernel's DAMON applies its \
                 schemes (operations set `{ops}`)\n  hint:  ops = \"pagewalk\" or engine = \
                 \"isotherm\" in the context, or no `online` in [tune]"
            ),
        })
    }

    /// The values, for people.
    pub(super) fn values(&self) -> Values {
        let space = self.online.space();
        Values {
            policy: space.apply(&self.asked, self.online.point()),
            now: space.show(self.online.point()),
            began: space.show(&self.began),
        }
    }

    /// What there is to tell, since this was asked last.
    pub(super) fn news(&mut self) -> Vec<(String, Tuned)> {
        let context = self.contexts.first().cloned().unwrap_or_default();
        std::mem::take(&mut self.news).into_iter().map(|news| (context.clone(), news)).collect()
    }

    /// Takes in what a context tells.
    pub(super) fn hear(&mut self, message: &Message) {
        let context = &message.context;
        if !self.contexts.contains(context) {
            return;
        }
        match &message.event {
            Event::Summary(summary) => {
                if self.acts(summary) {
                    self.idle.remove(context);
                } else {
                    self.idle.insert(context.clone());
                }
            }
            Event::Ended(_) => drop(self.idle.remove(context)),
            _ => {}
        }
    }

    /// Whether one of the tuned schemes of a context may act.
    fn acts(&self, summary: &Summary) -> bool {
        let ranges = self.online.space().ranges();
        let is_tuned = |name: &str| ranges.iter().any(|range| range.scheme == name);
        summary.blocked.is_none()
            && summary.schemes.iter().any(|s| s.active && is_tuned(&s.account.name))
    }

    /// Gives up what is tried, since something else has changed.
    pub(super) fn interrupt(&mut self) {
        self.phase = None;
        let now = self.begun.elapsed();
        self.online.interrupt(now);
    }

    /// Goes on, as far as that needs no waiting. `targets` are processes and their contexts.
    pub(super) fn turn(&mut self, targets: &BTreeMap<u32, String>, commit: Commit<'_>) {
        let acts =
            |context: &String| self.contexts.contains(context) && !self.idle.contains(context);
        let mine = targets.iter().filter(|(_, context)| acts(context));
        let pids: BTreeSet<u32> = mine.map(|(pid, _)| *pid).collect();
        if pids.is_empty() {
            if self.phase.is_some() {
                self.interrupt();
            }
            self.present_values(commit);
            return;
        }
        let Some(mut phase) = self.phase.take() else { return self.begin(&pids, commit) };
        let brake = (phase.is_step).then_some(self.present.zip(Some(self.online.brake())));
        let told = match phase.turn(&pids, brake.flatten()) {
            Ok(Turn::Goes) => {
                self.phase = Some(phase);
                return;
            }
            Ok(Turn::Disturbed) => return self.interrupt(),
            Ok(Turn::Done(seen)) => OnlineTold::Seen(seen),
            Ok(Turn::Broken(seen)) => OnlineTold::Broken(seen),
            Err(refused) => return self.trouble("measure", &refused),
        };
        self.troubles = 0;
        if let OnlineTold::Seen(seen) = &told
            && !phase.is_step
        {
            self.present = Some(seen.phase);
        }
        self.tell(told);
        self.present_values_if_over(commit);
    }

    /// Begins the next phase, if it is time for one.
    fn begin(&mut self, pids: &BTreeSet<u32>, commit: Commit<'_>) {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.retry_at = None;
        let ask = self.online.ask(self.begun.elapsed());
        let point = match ask {
            Ask::Rest(_) => return self.present_values(commit),
            Ask::Look | Ask::Current => self.online.point().to_vec(),
            Ask::Step => self.online.step_point(),
        };
        let changes = point != self.in_force;
        let settles = if changes { self.settling(&point) } else { Duration::ZERO };
        let begun = Running::begin(pids, &self.settings, settles, ask == Ask::Step);
        let running = match begun {
            Ok(running) => running,
            Err(refused) => return self.trouble("measure", &refused),
        };
        if changes {
            match commit(self.online.space(), &point) {
                Ok(()) => self.in_force = point,
                Err(refused) if ask == Ask::Step => {
                    return self.tell(OnlineTold::Refused(refused.text));
                }
                Err(refused) => return self.trouble("put the present values in force", &refused),
            }
        }
        self.phase = Some(running);
    }

    /// For how long a change of values has to settle: both those before and after.
    fn settling(&self, point: &[u64]) -> Duration {
        let of = |point: &[u64]| phase::settling(&self.online.space().apply(&self.asked, point));
        of(point).max(of(&self.in_force))
    }

    /// Puts the present values in force if they are not.
    fn present_values(&mut self, commit: Commit<'_>) {
        if self.in_force == self.online.point()
            || self.retry_at.is_some_and(|at| Instant::now() < at)
        {
            return;
        }
        let point = self.online.point().to_vec();
        match commit(self.online.space(), &point) {
            Ok(()) => self.in_force = point,
            Err(refused) => self.trouble("put the present values in force", &refused),
        }
    }

    /// The same at once after the last phase of a try, so that what is far too slow ends.
    fn present_values_if_over(&mut self, commit: Commit<'_>) {
        if matches!(self.online.ask(self.begun.elapsed()), Ask::Rest(_)) {
            self.present_values(commit);
        }
    }

    fn tell(&mut self, told: OnlineTold) {
        let news = self.online.tell(self.begun.elapsed(), told);
        for news in news {
            let told = told::news(&self.online, &news);
            let is_kept = told.outcome == Some("kept");
            self.news.push(told);
            if is_kept && let Some(path) = &self.settings.state {
                let kept = self.kept();
                if let Err(why) = state::write(path, self.online.space(), &self.began, &kept) {
                    self.news.push(told::trouble(&why));
                }
            }
        }
    }

    /// Tells why something could not be done, and tries it again later. A trouble that stays is
    /// told ever more rarely.
    fn trouble(&mut self, what: &str, refused: &Refused) {
        self.interrupt();
        self.retry_at = Some(Instant::now() + Duration::from_micros(self.settings.every_us));
        self.troubles = self.troubles.saturating_add(1);
        if self.troubles.is_power_of_two() {
            self.news.push(told::trouble(&format!("cannot {what}: {}", refused.text)));
        }
    }
}
