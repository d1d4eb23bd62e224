//! What a scheme did: asked, done, refaulted.

use std::fmt;
use std::time::Duration;

use isotherm_agent::policy::SchemePolicy;
use isotherm_core::scheme::{Action, Counters, Installed};

use crate::Bytes;

/// What a scheme did since it was added, and how it stands.
///
/// `asked`, `done` and `refaulted` are sizes of whole pages that can be held against
/// `/proc/vmstat`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// The scheme's name.
    pub name: String,
    /// Its action.
    pub action: Action,
    /// Whether it only decides and counts.
    pub dry_run: bool,
    /// Whether its watermarks let it work now.
    pub active: bool,
    /// Size of the regions that it was tried on, each time that it was.
    pub tried: Bytes,
    /// What the kernel was asked to act on; in a dry run: would have been.
    pub asked: Bytes,
    /// That of it for which a look afterwards showed that the kernel had; in a dry run: all of it.
    pub done: Bytes,
    /// That of it which was touched again within the refault window (10 s). Of an operations set of
    /// one's own it is not known, and 0.
    pub refaulted: Bytes,
    /// What the kernel refused: locked, shared, holes and so on.
    pub refused: Bytes,
    /// What stayed untouched for as long as the evidence asks for.
    pub confirmed: Bytes,
    /// What was touched before that time was over, and so was left alone.
    pub refuted: Bytes,
    /// Quota windows that were used up.
    pub quota_exceeded: u64,
    /// Time that acting and gathering evidence took.
    pub time: Duration,
}

impl Account {
    /// What was counted of a scheme; `installed` is none until it is in force.
    pub(crate) fn new(
        policy: &SchemePolicy,
        counters: &Counters,
        installed: Option<&Installed>,
    ) -> Self {
        Self {
            name: policy.settings.name.clone(),
            action: policy.scheme.action,
            dry_run: policy.settings.dry_run,
            active: installed.is_some_and(Installed::is_active),
            tried: Bytes(counters.sz_tried),
            asked: Bytes(counters.asked_bytes),
            done: Bytes(counters.done_bytes),
            refaulted: Bytes(counters.refaulted_bytes),
            refused: Bytes(counters.refused_bytes),
            confirmed: Bytes(counters.confirmed_bytes),
            refuted: Bytes(counters.refuted_bytes),
            quota_exceeded: counters.qt_exceeds,
            time: Duration::from_nanos(counters.action_ns),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, asked, done, refaulted, .. } = self;
        write!(f, "{name}: asked {asked}, done {done}, refaulted {refaulted}")?;
        if self.dry_run { f.write_str(" (dry run)") } else { Ok(()) }
    }
}
