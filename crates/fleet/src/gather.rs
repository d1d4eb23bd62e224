//! What contexts and the agent told since the last interval.
//!
//! Bounded: events and processes beyond a number are counted, not kept.

use std::collections::{BTreeMap, BTreeSet};

use crate::rows::{SnapshotRow, rows_of};
use isotherm_act::apply::ActEvent;
use isotherm_agent::groups::Group;
use isotherm_agent::run::{Event, Message, PagesLook, Reason, Seen};
use isotherm_core::Time;
use isotherm_core::scheme::Action;
use isotherm_host::proc::Proc;
use isotherm_ops::targets::cgroup::cgroup_to_show;

/// So many events of an interval are kept.
const MOST_EVENTS: usize = 4096;
/// So many regions of an interval are kept.
const MOST_REGIONS: usize = 1 << 18;
/// So many units of 2 MiB of an interval are kept: 128 GiB of memory.
pub(crate) const MOST_UNITS: usize = 1 << 16;
/// The cgroups of so many processes that were acted on are remembered.
const MOST_PIDS: usize = 4096;

/// What the agent says of a policy whenever that changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyState {
    /// The SHA-256 of its text, in hexadecimal digits.
    pub hash: Option<String>,
    /// Whether it runs, and its schemes act.
    pub is_acting: bool,
    /// Whether a kill switch keeps it from acting.
    pub is_killed: bool,
    /// Whether it acts here as one of a share of all hosts.
    pub is_canary: bool,
}

/// Something that the agent itself tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The policy that it is about; none: the whole agent.
    pub policy: Option<String>,
    /// What happened, in one word.
    pub kind: &'static str,
    /// Whether it is worth a warning.
    pub is_warning: bool,
    /// For people.
    pub text: String,
}

/// An event, before it is a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) at: Time,
    pub(crate) kind: String,
    pub(crate) is_warning: bool,
    pub(crate) cgroup: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) scheme: Option<String>,
    pub(crate) bytes: Option<u64>,
    pub(crate) text: Option<String>,
}

/// What a context has told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    pub(crate) policy: String,
    pub(crate) groups: Vec<Group>,
    pub(crate) spans_us: Vec<u64>,
    late: u64,
}

/// Takes in messages.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    proc: Proc,
    buf: Vec<u8>,
    /// By policy and context.
    contexts: BTreeMap<(String, String), Context>,
    policies: BTreeMap<String, PolicyState>,
    events: Vec<Noted>,
    lost: u64,
    cgroups: BTreeMap<u32, String>,
    paged_out: BTreeMap<String, u64>,
    /// Policies of which not every action of this interval is known.
    unsure: BTreeSet<String>,
    late: u64,
    /// By policy and context: the regions that were seen last.
    regions: BTreeMap<(String, String), Vec<SnapshotRow>>,
    /// By policy and context: what is known of pages.
    pages: BTreeMap<(String, String), PagesLook>,
    /// How many units were too many.
    units_left_out: usize,
}

/// What was gathered in an interval.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// By policy and context.
    pub(crate) contexts: BTreeMap<(String, String), Context>,
    pub(crate) policies: BTreeMap<String, PolicyState>,
    pub(crate) events: Vec<Noted>,
    /// Bytes paged out, by cgroup.
    pub(crate) paged_out: BTreeMap<String, u64>,
    pub(crate) unsure: BTreeSet<String>,
    /// Late windows since the agent's start.
    pub(crate) late: u64,
    pub(crate) regions: Vec<SnapshotRow>,
    /// By policy and context.
    pub(crate) pages: BTreeMap<(String, String), PagesLook>,
}

impl Gather {
    /// Takes in a message of a context of a policy.
    pub(crate) fn hear(&mut self, policy: &str, message: &Message) {
        let Message { context, at, event } = message;
        let key = (policy.to_owned(), context.clone());
        match event {
            Event::Summary(summary) => {
                let known = self.contexts.entry(key).or_default();
                policy.clone_into(&mut known.policy);
                known.groups.clone_from(&summary.groups);
                known.spans_us = summary.spans_us.to_vec();
                known.late = summary.effort.late.late;
            }
            Event::Act(ActEvent::Acted { pid, action: Action::Pageout, done, dry_run, .. }) => {
                if !dry_run && let Some(cgroup) = self.cgroup_of(*pid) {
                    let sum = self.paged_out.entry(cgroup).or_default();
                    *sum = sum.saturating_add(*done);
                } else if !dry_run {
                    self.unsure.insert(policy.to_owned());
                }
            }
            Event::Act(ActEvent::Acted { .. }) | Event::Committed => {}
            Event::Act(ActEvent::Lost { .. }) | Event::Lost { .. } => {
                self.unsure.insert(policy.to_owned());
            }
            Event::Added(_) => {}
            Event::Gone { pid, .. } => drop(self.cgroups.remove(pid)),
            event => {
                let noted = self.noted(policy, *at, event);
                self.keep(noted);
                if matches!(event, Event::Ended(_)) {
                    self.late += self.contexts.remove(&key).map_or(0, |context| context.late);
                }
            }
        }
    }

    /// Takes in what a context has seen.
    pub(crate) fn see(&mut self, policy: &str, seen: &Seen) {
        let rows = rows_of(seen, |pid| self.cgroup_of(pid));
        let others: usize = self.regions.values().map(Vec::len).sum();
        if others + rows.len() <= MOST_REGIONS {
            self.regions.insert((policy.to_owned(), seen.context.clone()), rows);
        } else {
            self.lost += 1;
        }
    }

    /// Takes in what a context knows of pages.
    pub(crate) fn see_pages(&mut self, policy: &str, mut look: PagesLook) {
        let key = (policy.to_owned(), look.context.clone());
        self.pages.remove(&key);
        let others: usize = self.pages.values().map(|look| look.pages.units.len()).sum();
        let mut left_out = look.pages.left_out;
        if others + look.pages.units.len() > MOST_UNITS {
            left_out += std::mem::take(&mut look.pages.units).len();
        }
        self.units_left_out = self.units_left_out.max(left_out);
        self.pages.insert(key, look);
    }

    /// Takes in what the agent tells.
    pub(crate) fn tell(&mut self, at: Time, told: Told) {
        let Told { policy, kind, is_warning, text } = told;
        let noted = Noted {
            at,
            kind: kind.to_owned(),
            is_warning,
            cgroup: None,
            policy,
            scheme: None,
            bytes: None,
            text: Some(text),
        };
        self.keep(noted);
    }

    /// Notes what a policy does now; none: it is gone.
    pub(crate) fn policy(&mut self, name: &str, state: Option<PolicyState>) {
        match state {
            Some(state) => drop(self.policies.insert(name.to_owned(), state)),
            None => drop(self.policies.remove(name)),
        }
    }

    fn keep(&mut self, noted: Noted) {
        if self.events.len() < MOST_EVENTS {
            self.events.push(noted);
        } else {
            self.lost += 1;
        }
    }

    fn noted(&mut self, policy: &str, at: Time, event: &Event) -> Noted {
        let (kind, _) = event.json();
        let mut noted = Noted {
            at,
            kind: kind.to_owned(),
            is_warning: false,
            cgroup: None,
            policy: Some(policy.to_owned()),
            scheme: None,
            bytes: None,
            text: None,
        };
        match event {
            Event::Ready(ready) => noted.text = Some(ready.ops.to_owned()),
            Event::LeftOut { pid, text } => {
                (noted.is_warning, noted.text) = (true, Some(text.clone()));
                noted.cgroup = self.cgroup_of(*pid);
            }
            Event::Act(ActEvent::Trouble { scheme, pid, text, .. }) => {
                (noted.is_warning, noted.text) = (true, Some(text.clone()));
                (noted.scheme, noted.cgroup) = (Some(scheme.clone()), self.cgroup_of(*pid));
            }
            Event::Act(ActEvent::Proved { scheme, pid, text, .. }) => {
                noted.text = Some(text.clone());
                (noted.scheme, noted.cgroup) = (Some(scheme.clone()), self.cgroup_of(*pid));
            }
            Event::Act(ActEvent::Blocked { text, .. }) | Event::Unrecorded { text } => {
                (noted.is_warning, noted.text) = (true, Some(text.clone()));
            }
            Event::Undone { restored_bytes, replaced_bytes, .. } => {
                noted.bytes = Some(restored_bytes.saturating_add(*replaced_bytes));
            }
            Event::Tuned(tuned) => noted.text = Some(tuned.text.clone()),
            Event::Ended(ended) => {
                if let Reason::Failed { text, .. } = &ended.reason {
                    (noted.is_warning, noted.text) = (true, Some(text.clone()));
                }
            }
            _ => {}
        }
        noted
    }

    /// The cgroup of a process; none if it is gone, or is none.
    fn cgroup_of(&mut self, pid: u32) -> Option<String> {
        if let Some(known) = self.cgroups.get(&pid) {
            return Some(known.clone());
        }
        self.proc.read(pid, "cgroup", &mut self.buf).ok()?;
        let cgroup = cgroup_to_show(&String::from_utf8_lossy(&self.buf)).to_owned();
        if self.cgroups.len() >= MOST_PIDS {
            self.cgroups.clear();
        }
        self.cgroups.insert(pid, cgroup.clone());
        Some(cgroup)
    }

    /// What was taken the last time is lost, so sums over it are not known.
    pub(crate) fn doubt(&mut self) {
        self.unsure.insert(String::new());
    }

    /// What was gathered since the last time.
    pub(crate) fn take(&mut self, now: Time) -> Gathered {
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            let text = format!("{lost} events more than can be kept in an interval");
            let told = Told { policy: None, kind: "lost", is_warning: true, text };
            self.events.pop();
            self.tell(now, told);
        }
        let left_out = std::mem::take(&mut self.units_left_out);
        if left_out > 0 {
            let text = format!(
                "table pages: {left_out} units of 2 MiB are missing; at most {MOST_UNITS} are kept"
            );
            self.tell(now, Told { policy: None, kind: "lost", is_warning: true, text });
        }
        // Processes move between cgroups, so they are asked again.
        self.cgroups.clear();
        let late = self.contexts.values().map(|context| context.late).sum::<u64>();
        Gathered {
            contexts: self.contexts.clone(),
            policies: self.policies.clone(),
            events: std::mem::take(&mut self.events),
            paged_out: std::mem::take(&mut self.paged_out),
            unsure: std::mem::take(&mut self.unsure),
            late: self.late + late,
            regions: std::mem::take(&mut self.regions).into_values().flatten().collect(),
            pages: std::mem::take(&mut self.pages),
        }
    }
}

#[cfg(test)]
mod tests {
    use isotherm_agent::groups::{IDLE_MIN, PagesSeen, UnitSeen};
    use isotherm_agent::run::{Ended, Summary};
    use isotherm_core::{TargetId, UnitInfo};

    use super::*;

    fn message(event: Event) -> Message {
        Message { context: "c".to_owned(), at: Time(5), event }
    }

    #[test]
    fn events_are_bounded_and_what_was_lost_is_told() {
        let mut gather = Gather::default();
        for nr in 0..MOST_EVENTS + 10 {
            let text = format!("no. {nr}");
            gather.hear("p", &message(Event::LeftOut { pid: 0, text }));
        }
        let taken = gather.take(Time(9));
        assert_eq!(taken.events.len(), MOST_EVENTS);
        let [.., before, last] = &taken.events[..] else { panic!("there are many") };
        assert_eq!((before.kind.as_str(), before.is_warning), ("left_out", true));
        assert_eq!(last.kind, "lost");
        assert!(last.text.as_ref().is_some_and(|text| text.starts_with("10 events")), "{last:?}");
        gather.hear("p", &message(Event::Unblocked));
        let kinds: Vec<String> = gather.take(Time(9)).events.into_iter().map(|e| e.kind).collect();
        assert_eq!(kinds, ["unblocked"]);
    }

    #[test]
    fn units_are_bounded_and_what_was_left_out_is_told() {
        let look = |context: &str, nr: usize| {
            let unit = UnitSeen {
                id: TargetId(1),
                cgroup: None,
                unit: UnitInfo::default(),
                idle: [0; IDLE_MIN.len()],
            };
            let pages = PagesSeen { units: vec![unit; nr], ..PagesSeen::default() };
            PagesLook { context: context.to_owned(), pages, targets: Vec::new(), cost_ns: 0 }
        };
        let mut gather = Gather::default();
        for _ in 0..2 {
            gather.see_pages("p", look("a", MOST_UNITS));
        }
        assert!(gather.take(Time(9)).events.is_empty(), "the last look counts");
        gather.see_pages("p", look("a", MOST_UNITS));
        gather.see_pages("p", look("b", 5));
        let taken = gather.take(Time(9));
        let text = taken.events[0].text.as_deref().unwrap();
        assert!(text.contains("5 units of 2 MiB are missing"), "{text}");
        let units: Vec<_> = taken.pages.values().map(|look| look.pages.units.len()).collect();
        assert_eq!(units, [MOST_UNITS, 0]);
        assert!(gather.take(Time(9)).pages.is_empty());
    }

    #[test]
    fn late_windows_of_contexts_that_ended_still_count() {
        let mut gather = Gather::default();
        let mut summary = Summary::default();
        summary.effort.late.late = 3;
        gather.hear("p", &message(Event::Summary(Box::new(summary.clone()))));
        let ended = Ended {
            reason: Reason::Stopped,
            accounts: Vec::new(),
            child: None,
            late: None,
            missing: None,
        };
        gather.hear("p", &message(Event::Ended(ended)));
        summary.effort.late.late = 1;
        gather.hear("p", &message(Event::Summary(Box::new(summary))));
        let taken = gather.take(Time(9));
        assert_eq!((taken.late, taken.contexts.len()), (4, 1));
    }
}
