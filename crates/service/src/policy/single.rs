//! Contexts of a policy that are started, stopped and paused one by one, while the others go on.
//!
//! A context that is stopped is left out of the policy that the runner has, so a commit ends or
//! begins it. What is said of the whole policy is said of all contexts, and what was said of single
//! ones before is forgotten then.

use isotherm_agent::policy::Policy;
use isotherm_agent::run::Refused;
use isotherm_control::error::{Kind, Refusal};
use isotherm_control::types::State;
use tracing::info;

use super::keeper::Keeper;
use crate::state::Wanted;

impl Keeper {
    /// What a context is to do, as long as its policy runs.
    fn wanted_of(&self, context: &str) -> Wanted {
        self.of_contexts.get(context).copied().unwrap_or_default()
    }

    /// The policy without contexts that are stopped; all of it if all are.
    pub(super) fn chosen(&self, mut policy: Policy) -> Policy {
        let runs = |name: &str| self.wanted_of(name) != Wanted::Stopped;
        if policy.contexts.iter().any(|context| runs(&context.name)) {
            policy.contexts.retain(|context| runs(&context.name));
        }
        policy
    }

    /// Begins those of these contexts that do not run, and ends another. Contexts that have ended
    /// by themselves stay so.
    pub(super) fn commit_with(&mut self, more: &[&str], less: Option<&str>) -> Result<(), Refused> {
        let Some(runner) = &self.runner else { return Ok(()) };
        let mut policy = runner.policy();
        policy.contexts.retain(|context| Some(context.name.as_str()) != less);
        let runs = |name: &str| policy.contexts.iter().any(|context| context.name == name);
        let all = self.policy.contexts.iter();
        let new = all.filter(|c| more.contains(&c.name.as_str()) && !runs(&c.name));
        let new: Vec<_> = new.cloned().collect();
        policy.contexts.extend(new);
        let policy = self.limited(policy, &self.policy);
        self.runner.as_mut().map_or(Ok(()), |runner| runner.commit(policy))?;
        // A context that is new is asked for what it sees as well, next time.
        self.looking = None;
        Ok(())
    }

    /// Pauses the contexts that are to be paused. Those that are new would run otherwise.
    pub(super) fn pause_as_wanted(&self) {
        let Some(runner) = &self.runner else { return };
        if self.wanted == Wanted::Paused {
            runner.pause(true);
        }
        for (context, wanted) in &self.of_contexts {
            if *wanted == Wanted::Paused {
                runner.pause_one(context, true);
            }
        }
    }

    /// Lets one context run, pause or stop.
    pub(super) fn context_becomes(&mut self, context: &str, wanted: Wanted) -> Result<(), Refusal> {
        let verb = match wanted {
            Wanted::Running => "start",
            Wanted::Paused => "pause",
            Wanted::Stopped => "stop",
        };
        let refuse = |why: String, hint: String| {
            let what = format!("cannot {verb} context `{context}` of policy `{}`", self.name);
            Err(Refusal::new(Kind::WrongState, what, why, hint))
        };
        let names: Vec<&str> = self.policy.contexts.iter().map(|c| c.name.as_str()).collect();
        if self.runner.is_none() {
            let why = "its policy does not run".to_owned();
            return refuse(why, format!("`isotherm ctl start {}` first", self.name));
        }
        if !names.contains(&context) {
            let why = "the policy has no context of this name".to_owned();
            return refuse(why, format!("one of {}", names.join(", ")));
        }
        let before = self.wanted_of(context);
        if before == wanted && (wanted != Wanted::Running || self.wanted == Wanted::Running) {
            let why = match wanted {
                Wanted::Running => "it runs already",
                Wanted::Paused => "it is paused already",
                Wanted::Stopped => "it is stopped already",
            };
            return refuse(why.to_owned(), "`isotherm ctl list` shows all contexts".to_owned());
        }
        if self.wanted == Wanted::Paused && wanted != Wanted::Stopped {
            let why = "its whole policy is paused".to_owned();
            return refuse(why, format!("`isotherm ctl start {}` lets all go on", self.name));
        }
        let runs = |name: &&&str| **name != context && self.wanted_of(name) != Wanted::Stopped;
        if wanted == Wanted::Stopped && names.iter().filter(runs).count() == 0 {
            let why = "no other context of its policy runs".to_owned();
            return refuse(why, format!("`isotherm ctl stop {}` stops the policy", self.name));
        }
        let kept = self.of_contexts.clone();
        match wanted {
            Wanted::Running => drop(self.of_contexts.remove(context)),
            _ => drop(self.of_contexts.insert(context.to_owned(), wanted)),
        }
        let committed = match (before, wanted) {
            (_, Wanted::Stopped) => self.commit_with(&[], Some(context)),
            (Wanted::Stopped, _) => self.commit_with(&[context], None),
            _ => Ok(()),
        };
        if let Err(refused) = committed {
            self.of_contexts = kept;
            return Err(Refusal::of_policy(refused.code, &refused.text));
        }
        if let Some(runner) = &self.runner {
            runner.pause_one(context, wanted == Wanted::Paused);
        }
        self.show(if self.wanted == Wanted::Paused { State::Paused } else { State::Running }, None);
        info!(policy = self.name, context, "{verb}: done");
        Ok(())
    }
}
