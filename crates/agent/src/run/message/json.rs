//! Events as JSON: the keys that docs/EVENTS.md documents.

use isotherm_act::apply::ActEvent;
use serde_json::{Value, json};

use super::{Ended, Event, Reason, Summary};

impl Event {
    /// The event's name, and what it says.
    #[must_use]
    pub fn json(&self) -> (&'static str, Value) {
        event(self)
    }
}

fn event(event: &Event) -> (&'static str, Value) {
    match event {
        Event::Ready(ready) => ("started", json!({ "ops": ready.ops, "why": ready.why })),
        Event::Added(t) => (
            "target_added",
            json!({ "pid": t.pid, "ppid": t.ppid, "name": t.name, "exec": t.generation }),
        ),
        Event::Gone { pid, name } => ("target_gone", json!({ "pid": pid, "name": name })),
        Event::LeftOut { pid, text } => ("left_out", json!({ "pid": pid, "text": text })),
        Event::Act(act) => acted(act),
        Event::Lost { events } => ("lost", json!({ "events": events })),
        Event::Unblocked => ("unblocked", json!({})),
        Event::Summary(summary) => ("summary", of_summary(summary)),
        Event::Undone { restored_bytes, replaced_bytes, left_bytes, failures } => (
            "undone",
            json!({
                "bytes": restored_bytes + replaced_bytes, "restored_bytes": restored_bytes,
                "replaced_bytes": replaced_bytes, "left_bytes": left_bytes,
                "failures": failures,
            }),
        ),
        Event::Unrecorded { text } => ("unrecorded", json!({ "text": text })),
        Event::Committed => ("committed", json!({})),
        Event::Tuned(tuned) => ("tuned", tuned.json()),
        Event::Ended(ended) => ("ended", of_end(ended)),
    }
}

fn acted(event: &ActEvent) -> (&'static str, Value) {
    match event {
        ActEvent::Acted { scheme, pid, action, range, asked, done, dry_run, ns, .. } => (
            "acted",
            json!({
                "scheme": scheme, "pid": pid, "action": action.name(),
                "start": range.start, "end": range.end,
                "asked_bytes": asked, "done_bytes": done, "dry_run": dry_run,
                "ns": ns,
            }),
        ),
        ActEvent::Trouble { scheme, pid, text, .. } => {
            ("trouble", json!({ "scheme": scheme, "pid": pid, "text": text }))
        }
        ActEvent::Proved { scheme, pid, pays, text, .. } => {
            ("proved", json!({ "scheme": scheme, "pid": pid, "pays": pays, "text": text }))
        }
        ActEvent::Lost { events, .. } => ("lost", json!({ "events": events })),
        ActEvent::Blocked { text, .. } => ("blocked", json!({ "text": text })),
    }
}

fn of_summary(s: &Summary) -> Value {
    json!({
        "targets": s.nr_targets, "waiting": s.nr_waiting,
        "longest_wait_ms": s.longest_wait_ns / 1_000_000,
        "regions": s.nr_regions, "working_set_bytes": s.working_set,
        "sample_us": s.sample_us, "aggr_us": s.aggr_us, "bandwidth_bytes_per_s": s.bandwidth,
        "blocked": s.blocked, "schemes": s.schemes,
    })
}

fn of_end(ended: &Ended) -> Value {
    let (reason, text) = match &ended.reason {
        Reason::Stopped => ("stopped", None),
        Reason::TargetsGone => ("targets-gone", None),
        Reason::Failed { text, .. } => ("failed", Some(text)),
    };
    let late = ended.late.unwrap_or_default();
    json!({
        "reason": reason, "text": text, "late_windows": late.late, "missing_ns": late.missing_ns,
        "suspended_ns": late.suspended_ns,
        "schemes": ended.accounts,
    })
}
