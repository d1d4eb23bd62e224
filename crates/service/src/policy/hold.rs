//! A policy that is held: it watches on, and changes nothing.
//!
//! When action has to end, the policy is stopped as `ctl stop` does it, so what it had done to
//! processes is undone, and started again with schemes that only count. When it may act again, that
//! is a commit, so what it has learned meanwhile stays. A policy that only counts anyway is not
//! touched.

use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use isotherm_agent::policy::{Policy, Tuning};
use isotherm_agent::run::{Message, Runner, check};
use isotherm_control::error::{Kind, Refusal};
use isotherm_control::types::{self, State};
use isotherm_core::scheme::Action;
use isotherm_fleet::{PolicyState, Told};
use tracing::{info, warn};

use super::keeper::{FleetLooking, Keeper};
use super::told;
use crate::hub;
use crate::rollout::{Held, HeldBy, Watch, is_in_share, no_pressure, sha256};

/// Time between two looks at pages for fleet data, as a multiple of what one costs: 1 % of a CPU.
const REST: u32 = 100;
/// But they are at least as often as that.
const MOST_REST: Duration = Duration::from_secs(3600);
/// Where the machine's own numbers are.
const PROC: &str = "/proc";

impl Keeper {
    /// Why the policy may not act now; none if it may.
    fn hold_now(&self) -> Option<Held> {
        if let Some(text) = self.with.switch.holds(&self.name) {
            return Some(Held { by: HeldBy::StopFile, text });
        }
        if let Some(text) = self.tripped.clone() {
            return Some(Held { by: HeldBy::Limit, text });
        }
        self.is_outside_share().then(|| Held {
            by: HeldBy::Share,
            text: "this host is not in its share of hosts".to_owned(),
        })
    }

    fn is_outside_share(&self) -> bool {
        let rollout = &self.policy.rollout;
        rollout.is_partial() && !is_in_share(&self.with.host, &self.name, rollout.share_bp)
    }

    /// Notes whether a policy that is about to be in force may act.
    pub(super) fn hold_for(&mut self, policy: &Policy) {
        self.policy.rollout = policy.rollout.clone();
        self.watch = Watch::new(policy.rollout.clone(), Path::new(PROC));
        if let Some(text) = no_pressure(&policy.rollout, Path::new(PROC)) {
            warn!(policy = self.name, "{text}");
        }
        let now = self.hold_now();
        self.note_hold(now);
    }

    /// Stops a policy that acts, if the one that is to follow it may not act here, so that what it
    /// did is undone.
    ///
    /// # Errors
    ///
    /// If the machine cannot do what the new one says. Nothing has changed then.
    pub(super) fn undo_if_held_by(&mut self, policy: &Policy) -> Result<(), Refusal> {
        let acts = self.runner.is_some() && self.held.is_none() && does_act(&self.policy);
        let before = std::mem::replace(&mut self.policy.rollout, policy.rollout.clone());
        let will_be_held = self.hold_now().is_some();
        self.policy.rollout = before;
        if !acts || !will_be_held {
            return Ok(());
        }
        if let Some(problem) = check(policy).into_iter().find(|problem| problem.fatal) {
            return Err(Refusal::of_policy(problem.code, &problem.text));
        }
        self.stop();
        Ok(())
    }

    /// The policy with schemes that only count, if it is held.
    pub(super) fn held_back(&self, mut policy: Policy) -> Policy {
        if self.held.is_some() {
            let schemes = policy.contexts.iter_mut().flat_map(|context| &mut context.schemes);
            schemes.for_each(|scheme| scheme.settings.dry_run = true);
            policy.tuning = Tuning::default();
        }
        policy
    }

    /// Ends or begins action where that has changed since the last turn.
    pub(super) fn heed(&mut self) {
        let now = self.hold_now();
        if now == self.held {
            return;
        }
        let (was_held, is_held) = (self.held.is_some(), now.is_some());
        self.note_hold(now);
        if was_held == is_held || self.runner.is_none() {
            return;
        }
        let acts = does_act(&self.policy);
        if is_held && acts {
            self.stop();
            drop(self.start());
        } else if acts {
            let policy = self.limited(self.chosen(self.policy.clone()), &self.policy);
            let done = self.runner.as_mut().map_or(Ok(()), |runner| runner.commit(policy));
            if let Err(refused) = done {
                self.stop();
                self.failed(format!("it may act again, and cannot: {refused}"));
            }
            self.pause_as_wanted();
            self.looking = None;
        }
        self.tell_fleet();
    }

    /// Shows and tells that the policy is held, or is not any more.
    fn note_hold(&mut self, held: Option<Held>) {
        if held == self.held {
            return;
        }
        let (kind, by, text) = match (&held, &self.held) {
            (Some(held), _) => ("held", held.by, format!("it only watches: {}", held.text)),
            (None, Some(before)) => ("released", before.by, "it may act again".to_owned()),
            (None, None) => return,
        };
        if held.is_some() {
            warn!(policy = self.name, "{text}");
        } else {
            info!(policy = self.name, "{text}");
        }
        self.shown().held = held.as_ref().map(|held| (held.by.name(), held.text.clone()));
        self.tell(kind, by, &text);
        if let Some(exporter) = &self.with.metrics {
            let mut exporter = exporter.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            exporter.hold(&self.name, held.as_ref().map(|held| held.by.name()));
        }
        self.held = held;
    }

    /// Tells followers and fleet data.
    fn tell(&self, kind: &'static str, by: HeldBy, text: &str) {
        let message = || told::of_policy(&self.name, kind, by.name(), text);
        self.with.hub.send(hub::Kind::Event, &self.name, "", message);
        if let Some(fleet) = &self.with.fleet {
            fleet.tell(Told {
                policy: Some(self.name.clone()),
                kind,
                is_warning: kind != "released",
                text: text.to_owned(),
            });
        }
    }

    /// Takes in a message, and stops all action if a limit was passed.
    pub(super) fn watch_limits(&mut self, message: &Message) {
        if self.held.is_some() || !does_act(&self.policy) {
            return;
        }
        let passed = self.watch.hear(&message.context, &message.event, Instant::now());
        let Some(why) = passed.filter(|_| self.tripped.is_none()) else { return };
        let text = format!("it was stopped by its limits: {why}");
        if let Err(err) = self.with.trips.keep(&self.name, &text) {
            warn!(policy = self.name, "a restart of the agent would let it act again: {err}");
        }
        self.tell("tripped", HeldBy::Limit, &text);
        // The next turn ends the action: this may be in the middle of a stop.
        self.tripped = Some(text);
    }

    /// Lets a policy act again that was stopped by its limits. Returns whether it was.
    pub(super) fn forgive(&mut self) -> Result<bool, Refusal> {
        if self.tripped.is_none() {
            return Ok(false);
        }
        self.with.trips.forget(&self.name).map_err(|err| {
            let what = format!("policy `{}` stays stopped by its limits", self.name);
            let hint = "remove its file in `stopped/` of the agent's state";
            Refusal::new(Kind::Failed, what, err.to_string(), hint)
        })?;
        self.tripped = None;
        // What was above the limits is forgotten, or it would stop again at once.
        self.watch = Watch::new(self.policy.rollout.clone(), Path::new(PROC));
        info!(policy = self.name, "its limits are watched anew");
        Ok(true)
    }

    /// Sends fleet data what the contexts see, as far as it is to have that, twice per interval. To
    /// look at pages costs a hundredth of a CPU at most, so with many pages it is seldomer.
    pub(super) fn feed_fleet(&mut self, now: Instant) {
        let Some(fleet) = &self.with.fleet else { return };
        let wants = fleet.wants();
        if let Some(looking) = &self.fleet_looking.snapshots {
            looking.try_iter().for_each(|seen| fleet.see(&self.name, &seen));
        }
        for look in self.fleet_looking.pages.iter().flat_map(Receiver::try_iter) {
            let rest = Duration::from_nanos(look.cost_ns).saturating_mul(REST);
            self.fleet_look_at = self.fleet_look_at.max(now + rest.min(MOST_REST));
            fleet.see_pages(&self.name, look);
        }
        if now >= self.fleet_look_at {
            let runner = self.runner.as_ref();
            self.fleet_looking = FleetLooking {
                snapshots: runner.filter(|_| wants.snapshots).map(Runner::look),
                pages: runner.zip(wants.pages).map(|(runner, pages)| runner.look_at_pages(pages)),
            };
            self.fleet_look_at = now + wants.every / 2;
        }
    }

    /// Tells fleet data what the policy does now.
    pub(super) fn tell_fleet(&self) {
        let Some(fleet) = &self.with.fleet else { return };
        let runs = self.shown().state == State::Running;
        let is_killed = self.held.as_ref().is_some_and(|held| held.by == HeldBy::StopFile);
        let is_partial = self.policy.rollout.is_partial();
        let acts = runs && self.held.is_none() && does_act(&self.policy);
        let state = PolicyState {
            hash: Some(sha256(&self.text)).filter(|_| !self.text.is_empty()),
            is_acting: acts && !self.with.options.dry_run,
            is_killed,
            is_canary: is_partial && !self.is_outside_share(),
        };
        fleet.policy(&self.name, Some(state));
    }
}

/// Whether a policy has schemes that change something.
fn does_act(policy: &Policy) -> bool {
    let mut schemes = policy.contexts.iter().flat_map(|context| &context.schemes);
    schemes.any(|s| s.scheme.action != Action::Stat && !s.settings.dry_run)
}

/// Why a policy is held, as the interface has it.
pub(super) fn shown(held: Option<&(&'static str, String)>) -> Option<types::Held> {
    held.map(|(by, why)| types::Held { by: (*by).to_owned(), why: why.clone() })
}
