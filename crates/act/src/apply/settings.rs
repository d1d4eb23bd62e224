//! How a scheme's action is carried out: what the core does not need to know.

use std::path::PathBuf;

use isotherm_core::scheme::Action;

use crate::Toll;
use crate::apply::proof::taken::Terms;

/// What must be known about pages before they are acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// Nothing more than the region's numbers: DAMON's behaviour, for comparison.
    Off,
    /// For pageout, cold and migration of cold memory: every page of the region is armed, and those
    /// that stay untouched for this time, in µs, are acted on.
    Confirm(u64),
}

/// Which cgroup is asked to reclaim, and what that may cost it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reclaim {
    /// Which one.
    pub from: ReclaimFrom,
    /// What it may cost.
    pub toll: Toll,
}

/// Which cgroup is asked to reclaim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReclaimFrom {
    /// The one that the target is in.
    Own,
    /// The one at this path from the root of the hierarchy.
    Path(String),
}

/// How one scheme's action is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The scheme's name, for events and accounts.
    pub name: String,
    /// Evidence.
    pub evidence: Evidence,
    /// Collapse only: the least share of the 512 pages of a huge page that must have been touched,
    /// in basis points. Not looked at with [`Evidence::Off`].
    pub min_touched_bp: u32,
    /// Collapse only: whether a target's memory is collapsed at large only after a sample of it has
    /// shown that this pays ([`benefit`](crate::benefit)).
    pub prove: bool,
    /// With `prove`: a file whose last number counts the target's work.
    pub progress: Option<PathBuf>,
    /// Decide and count, but do nothing.
    pub dry_run: bool,
    /// Whether a target may be stopped for a moment to make it call `madvise` itself. The actions
    /// hugepage and nohugepage are possible in no other way.
    pub inject: bool,
    /// Pageout only: a cgroup (v2) is asked by `memory.reclaim` to reclaim as many bytes as were
    /// found idle. The kernel chooses the pages then, by its own lists, and also takes page cache
    /// that no process maps.
    pub memory_reclaim: Option<Reclaim>,
    /// The refault window, in µs: memory that is touched within it after an action counts as
    /// refaulted.
    pub refault_window_us: u64,
    /// CPU time that gathering evidence may take, in µs per second. Schemes of a context share it:
    /// the largest counts.
    pub evidence_us_per_s: u64,
    /// Act on pages on this node only. The monitor sets this from the scheme's `source_nid` and
    /// ignores any earlier value.
    pub only_on: Option<u32>,
    /// For a scheme that takes from one node: how long a page is left alone after it was moved, in
    /// µs.
    pub hold_us: u64,
    /// Paths of the cgroups that filters and goals name, by their number.
    pub cgroups: Vec<String>,
    /// Patterns that filters by mapping name, by their number: `*` and `?` as in a shell, against
    /// the path or name in the last column of `/proc/PID/maps`.
    pub mappings: Vec<String>,
}

impl Settings {
    /// Whether this action is taken only on pages that are proven idle, one by one. Then it need
    /// not matter which region a page is in.
    #[must_use]
    pub const fn proves_pages_idle(&self, action: Action) -> bool {
        matches!(self.evidence, Evidence::Confirm(_))
            && matches!(action, Action::Pageout | Action::Cold | Action::MigrateCold)
    }

    /// Whether this action decides by single pages, so that it need not matter which region they
    /// are in: pages that are proven idle, or units of 2 MiB that are made huge if enough of their
    /// pages are touched.
    #[must_use]
    pub const fn acts_by_page(&self, action: Action) -> bool {
        self.proves_pages_idle(action)
            || matches!(self.evidence, Evidence::Confirm(_)) && matches!(action, Action::Collapse)
    }

    /// What the proof has to know.
    pub(super) const fn terms(&self) -> Terms {
        let window_ns = self.refault_window_us.saturating_mul(1000);
        Terms { window_ns, dry_run: self.dry_run }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: String::new(),
            evidence: Evidence::Confirm(5_000_000),
            min_touched_bp: 5_000,
            prove: false,
            progress: None,
            dry_run: false,
            inject: false,
            memory_reclaim: None,
            refault_window_us: 10_000_000,
            evidence_us_per_s: 5_000,
            only_on: None,
            hold_us: 0,
            cgroups: Vec::new(),
            mappings: Vec::new(),
        }
    }
}
