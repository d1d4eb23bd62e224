//! Why a command that acts on memory ended.

use serde::Serialize;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stopped {
    Duration,
    Signal,
    TargetsGone,
    Blocked,
    Failed,
}

impl Stopped {
    /// In words.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Duration => "the duration is over",
            Self::Signal => "interrupted",
            Self::TargetsGone => "every target has exited",
            Self::Blocked => "actions were blocked",
            Self::Failed => "failed",
        }
    }
}
