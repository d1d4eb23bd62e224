//! The event log: every event of a run as one JSON object per line. docs/EVENTS.md documents the
//! keys.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use isotherm::raw::act::apply::ActEvent;
use isotherm::raw::agent::run::{Ended, Event, Message, Reason, Summary};
use isotherm::raw::core::Time;
use serde_json::{Value, json};

use crate::files::cannot_create;
use crate::terminal::warn;

/// The event log's output; none if `--events` was not given.
pub(super) struct Log {
    out: Option<Box<dyn Write>>,
    /// Whether events were lost because the output failed.
    failed: bool,
}

impl Log {
    pub(super) fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| -> anyhow::Result<Box<dyn Write>> {
            if path.as_os_str() == "-" {
                return Ok(Box::new(std::io::stdout()));
            }
            Ok(Box::new(File::create(path).map_err(|e| cannot_create(path, &e))?))
        };
        Ok(Self { out: path.map(open).transpose()?, failed: false })
    }

    /// Writes an event. The first failure is reported and ends the log. The run goes on, since the
    /// log must not end actions, but its exit code tells.
    pub(super) fn write(&mut self, at: Time, context: Option<&str>, name: &str, rest: Value) {
        let Some(out) = &mut self.out else { return };
        let mut line = json!({ "t_ns": at.as_ns(), "event": name });
        if let (Some(line), Value::Object(rest)) = (line.as_object_mut(), rest) {
            line.extend(context.map(|c| ("context".to_owned(), json!(c))));
            line.extend(rest);
        }
        // One write per line, so that a program that follows the file never sees half a line.
        if let Err(err) = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()) {
            warn(&format!("the event log ends here: {err}"));
            self.out = None;
            self.failed = true;
        }
    }

    /// Whether events were lost because the output failed. A reader that went away (a closed pipe)
    /// counts as well: who wants the log has not got it.
    pub(super) const fn has_failed(&self) -> bool {
        self.failed
    }

    /// Writes an event of a context.
    pub(super) fn told(&mut self, told: &Message) {
        if self.out.is_some() {
            let (name, rest) = event(&told.event);
            self.write(told.at, Some(&told.context), name, rest);
        }
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
        Event::Committed => ("committed", json!({})),
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
        ActEvent::Lost { events, .. } => ("lost", json!({ "events": events })),
        ActEvent::Blocked { text, .. } => ("blocked", json!({ "text": text })),
    }
}

fn of_summary(s: &Summary) -> Value {
    json!({
        "targets": s.nr_targets, "regions": s.nr_regions, "working_set_bytes": s.working_set,
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
