//! The records that the contexts of one policy write into the history.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isotherm_agent::run::Runner;

use crate::history::{History, NEW_AFTER, NEW_BYTES};

/// How often the size of a record is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How soon a record is begun anew after one could not be written.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The records of a policy.
#[derive(Debug)]
pub(super) struct Records {
    policy: String,
    history: Option<Arc<History>>,
    /// By context.
    open: BTreeMap<String, Open>,
    look_at: Instant,
}

#[derive(Debug)]
struct Open {
    path: Option<PathBuf>,
    /// When a new one is to be begun.
    until: Instant,
}

impl Records {
    pub(super) fn new(policy: &str, history: Option<Arc<History>>) -> Self {
        let look_at = Instant::now();
        Self { policy: policy.to_owned(), history, open: BTreeMap::new(), look_at }
    }

    /// A context has started, and is to be recorded.
    pub(super) fn wanted(&mut self, context: &str) {
        if self.history.is_some() {
            let now = Instant::now();
            self.open.insert(context.to_owned(), Open { path: None, until: now });
            self.look_at = now;
        }
    }

    /// A context has ended.
    pub(super) fn ended(&mut self, context: &str) {
        if let (Some(history), Some(Open { path: Some(path), .. })) =
            (&self.history, self.open.remove(context))
        {
            history.end(&path);
        }
    }

    /// A record could not be written, most likely because the disk is full.
    pub(super) fn failed(&mut self, context: &str, why: &str) {
        if let (Some(history), Some(open)) = (&self.history, self.open.get_mut(context)) {
            history.make_room(why);
            open.until = Instant::now() + AGAIN_AFTER;
            self.look_at = open.until;
        }
    }

    /// Begins new records where it is time for them.
    pub(super) fn turn(&mut self, runner: &Runner) {
        let now = Instant::now();
        let Some(history) = self.history.as_ref().filter(|_| now >= self.look_at) else { return };
        self.look_at = now + LOOK_EVERY;
        for (context, open) in &mut self.open {
            let size = open.path.as_ref().and_then(|path| path.metadata().ok());
            let is_large = size.is_some_and(|metadata| metadata.len() >= NEW_BYTES);
            if now < open.until && !is_large {
                continue;
            }
            match history.begin(&self.policy, context, open.path.as_deref()) {
                Ok(path) => {
                    runner.record(context, Some(path.clone()));
                    *open = Open { path: Some(path), until: now + NEW_AFTER };
                }
                Err(err) => {
                    let of = format!("{} / {context}", self.policy);
                    history.trouble(format!("a record of {of} cannot be begun: {err}"), now);
                    open.until = now + AGAIN_AFTER;
                }
            }
        }
    }
}
