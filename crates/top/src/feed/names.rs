//! The names of groups, as they are now, for views that are sent to another thread.

use std::sync::Arc;

use isotherm::raw::agent::groups::GroupNames;
use isotherm::raw::core::Time;

/// The names, and what was shared of them last.
#[derive(Debug, Default)]
pub(super) struct SharedNames {
    names: GroupNames,
    shared: Arc<GroupNames>,
}

impl SharedNames {
    /// The names as of now. They are copied only when they have been read again.
    pub(super) fn at(&mut self, now: Time) -> Arc<GroupNames> {
        if self.names.refresh(now) {
            self.shared = Arc::new(self.names.clone());
        }
        Arc::clone(&self.shared)
    }
}
