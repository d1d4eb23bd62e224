//! What contexts tell: for the log, and as messages for followers.

use isotherm_act::apply::ActEvent;
use isotherm_agent::run::{Event, Reason, Seen};
use isotherm_control::message::Reply;
use isotherm_control::types::{self, Followed};
use isotherm_core::Time;
use tracing::{debug, info, warn};

use super::shown;

/// Writes an event into the log, if it is worth a line there.
pub(super) fn log(policy: &str, context: &str, event: &Event) {
    match event {
        Event::Ready(ready) => info!(policy, context, "uses operations set `{}`", ready.ops),
        Event::LeftOut { text, .. } => warn!(policy, context, "{text}"),
        Event::Act(ActEvent::Trouble { scheme, pid, text, .. }) => {
            warn!(policy, context, scheme, pid, "{text}");
        }
        Event::Act(ActEvent::Proved { scheme, pid, text, .. }) => {
            info!(policy, context, scheme, pid, "{text}");
        }
        Event::Act(ActEvent::Blocked { text, .. }) => {
            warn!(policy, context, "actions are blocked from now on: {text}");
        }
        Event::Act(ActEvent::Lost { events, .. }) | Event::Lost { events } => {
            debug!(policy, context, "{events} events were dropped because they came too fast");
        }
        Event::Unrecorded { text } => warn!(policy, context, "not recorded: {text}"),
        Event::Unblocked => info!(policy, context, "actions go on"),
        Event::Undone { restored_bytes, replaced_bytes, left_bytes, failures } => info!(
            policy,
            context, restored_bytes, replaced_bytes, left_bytes, failures, "advice was taken back"
        ),
        Event::Committed => debug!(policy, context, "the new policy is in force"),
        Event::Tuned(tuned) if matches!(tuned.what, "trouble" | "dropped") => {
            warn!(policy, context, "{}", tuned.text);
        }
        Event::Tuned(tuned) => info!(policy, context, "{}", tuned.text),
        Event::Ended(ended) => match &ended.reason {
            Reason::Stopped => debug!(policy, context, "ended"),
            Reason::TargetsGone => info!(policy, context, "ended: no target is left"),
            Reason::Failed { text, .. } => warn!(policy, context, "failed: {text}"),
        },
        Event::Added(target) => debug!(policy, context, "watches {} ({})", target.pid, target.name),
        Event::Gone { pid, name } => debug!(policy, context, "{pid} ({name}) is gone"),
        Event::Summary(_) | Event::Act(ActEvent::Acted { .. }) => {}
    }
}

/// The message of an event.
pub(super) fn event(policy: &str, context: &str, at: Time, event: &Event) -> String {
    let (name, data) = event.json();
    let event = types::Event {
        policy: policy.to_owned(),
        context: context.to_owned(),
        t_ns: at.as_ns(),
        event: name.to_owned(),
        data,
    };
    text(Followed { event: Some(event), ..Followed::default() })
}

/// The message of something that happened to a policy as a whole.
pub(super) fn of_policy(policy: &str, kind: &str, by: &str, why: &str) -> String {
    let event = types::Event {
        policy: policy.to_owned(),
        context: String::new(),
        t_ns: isotherm_sys::clock::now().as_ns(),
        event: kind.to_owned(),
        data: serde_json::json!({ "by": by, "text": why }),
    };
    text(Followed { event: Some(event), ..Followed::default() })
}

/// The message of a snapshot.
pub(super) fn snapshot(policy: &str, seen: &Seen) -> String {
    let snapshot = Some(shown::snapshot(policy, seen));
    text(Followed { snapshot, ..Followed::default() })
}

/// The message of accounts.
pub(super) fn accounts(accounts: Vec<types::Account>) -> String {
    text(Followed { accounts: Some(accounts), ..Followed::default() })
}

/// The message that says how many were lost.
pub(crate) fn lost(lost: u64) -> String {
    text(Followed { lost: Some(lost), ..Followed::default() })
}

fn text(followed: Followed) -> String {
    Reply { continues: true, ..Reply::with(&followed) }.text()
}
