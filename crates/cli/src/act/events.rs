//! The event log: every event of a run as one JSON object per line. docs/EVENTS.md documents the
//! keys.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use isotherm::raw::agent::run::Message;
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
            let (name, rest) = told.event.json();
            self.write(told.at, Some(&told.context), name, rest);
        }
    }
}
