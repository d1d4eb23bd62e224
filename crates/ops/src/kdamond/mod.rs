//! The operations set `kdamond`: the kernel's own DAMON monitors, and reports window by window.
//!
//! One kdamond of ours with one context holds all targets. Commits add and remove targets while it
//! runs, in the order of `slots`. A context over this set has the method
//! [`Method::Observed`](isotherm_core::Method::Observed), which takes over the kernel's regions.
//! `told` holds what we tell the kernel, and `said` what the kernel reports. Windows come from one
//! of two sources:
//!
//! * `traced`: the tracepoint `damon_aggregated`, if there is a tracefs. It gives every window.
//! * `walks`: otherwise walks over `stat` schemes. It misses windows while reading one takes longer
//!   than a window.
//!
//! Schemes can be pushed down (`push`). The kernel then applies them, and this set reads its
//! counters.
//!
//! Invariants: the set writes only to the kdamond that it claimed (`damon`). Dropping the set stops
//! it and gives it back. A commit that the kernel refuses changes nothing. Absent: deciding about
//! regions.

mod error;
mod kernel;
mod members;
mod pushed;
mod said;
mod slots;
mod sysfs;
#[cfg(test)]
mod tests;
mod told;
mod traced;
mod walks;

use std::collections::VecDeque;
use std::sync::Arc;

use isotherm_core::{Attrs, Time};
use isotherm_damon::{DamonError, Features, Root, Settings, model};
use isotherm_host::error::SetError;
use isotherm_host::proc::Proc;
use isotherm_pages::tables::PageTables;
pub use kernel::Counted;
use kernel::Kernel;
pub use pushed::Pushed;
use slots::Slots;
use traced::Traced;
use walks::{Raw, Shared, Walker};

/// Where windows come from.
#[derive(Debug)]
enum Source {
    Trace(Box<Traced>),
    Walk(#[expect(dead_code, reason = "held to end the thread")] Walker),
}

/// Which source to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefer {
    /// The tracepoint where there is one.
    #[default]
    Best,
    /// Walks, whatever there is.
    Walk,
}

/// What was seen of the kernel's windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Windows that were given on.
    pub seen: u64,
    /// Windows that were not.
    pub lost: u64,
}

/// The operations set.
#[derive(Debug)]
pub struct Kdamond {
    // Dropped first: the thread ends before the kernel is let go.
    source: Source,
    shared: Arc<Shared>,
    slots: Slots,
    operations: model::Operations,
    attrs: Attrs,
    /// The intervals that the kernel tuned, in µs.
    tuned: Option<(u64, u64)>,
    pushed: Vec<Pushed>,
    /// What pushed schemes did before the kdamond was started anew.
    counted_before: Vec<Counted>,
    pid: Option<u32>,
    queue: VecDeque<Raw>,
    errors: VecDeque<Result<Raw, DamonError>>,
    current: Option<Raw>,
    share: Share,
    /// When the last window ended, or when the kdamond was started.
    last_end: Time,
    last_news: Time,
    restarts: VecDeque<Time>,
    windows_to_tune: u64,
    /// Whether targets map something else than the kernel was told.
    moved: bool,
    evidence: Option<Box<PageTables>>,
    /// For goals that follow a node's watermarks.
    marks: pushed::Marks,
    troubles: Vec<String>,
    failure: Option<String>,
    proc: Proc,
}

impl Prefer {
    /// `walk` in the environment variable `ISOTHERM_KDAMOND_WINDOWS` asks for walks.
    #[must_use]
    pub fn from_env() -> Self {
        match std::env::var_os("ISOTHERM_KDAMOND_WINDOWS") {
            Some(how) if how == "walk" => Self::Walk,
            _ => Self::Best,
        }
    }
}

impl Kdamond {
    /// The running kernel's. Nothing is claimed or started before the first target.
    ///
    /// # Errors
    ///
    /// If the kernel has no DAMON.
    pub fn open(prefer: Prefer) -> Result<Self, SetError> {
        let kernel =
            sysfs::Sysfs::of(Root::default(), Settings::default()).map_err(error::of_damon)?;
        Self::over(Box::new(kernel), prefer)
    }

    fn over(kernel: Box<dyn Kernel>, prefer: Prefer) -> Result<Self, SetError> {
        let shared = Arc::new(Shared::new(kernel));
        let mut troubles = Vec::new();
        let traced = match prefer {
            Prefer::Best => Traced::open()
                .map_err(|err| {
                    troubles.push(format!(
                        "windows are walked, not traced, and some may be missed: {err}"
                    ));
                })
                .ok(),
            Prefer::Walk => None,
        };
        let source = match traced {
            Some(traced) => Source::Trace(Box::new(traced)),
            None => Source::Walk(Walker::start(&shared).map_err(error::no_thread)?),
        };
        Ok(Self {
            source,
            shared,
            slots: Slots::default(),
            operations: model::Operations::Vaddr,
            attrs: Attrs::default(),
            tuned: None,
            pushed: Vec::new(),
            counted_before: Vec::new(),
            pid: None,
            queue: VecDeque::new(),
            errors: VecDeque::new(),
            current: None,
            share: Share::default(),
            last_end: Time::default(),
            last_news: Time::default(),
            restarts: VecDeque::new(),
            windows_to_tune: 0,
            moved: false,
            evidence: None,
            troubles,
            marks: pushed::Marks::default(),
            failure: None,
            proc: Proc::default(),
        })
    }

    /// Where windows come from, for people.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        match self.source {
            Source::Trace(_) => "the tracepoint damon_aggregated",
            Source::Walk(_) => "walks over a stat scheme",
        }
    }

    /// What was seen of the kernel's windows so far.
    #[must_use]
    pub const fn share(&self) -> Share {
        self.share
    }

    /// Counts the share anew.
    pub(crate) fn reset_share(&mut self) {
        self.share = Share::default();
    }

    /// What went wrong since this was asked last, and was dealt with.
    pub fn take_troubles(&mut self) -> Vec<String> {
        std::mem::take(&mut self.troubles)
    }

    /// Why no window will come any more, if so.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// What the kernel's DAMON knows.
    #[must_use]
    pub fn features(&self) -> Features {
        self.shared.kernel().features().clone()
    }

    /// What kind of address space the targets are.
    #[must_use]
    pub const fn operations(&self) -> model::Operations {
        self.operations
    }

    /// The thread of the kernel that does the work, while it runs.
    #[must_use]
    pub const fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// What reads single pages for evidence and proof, if [`Kdamond::look_at_pages`] succeeded.
    pub fn tables(&mut self) -> Option<&mut PageTables> {
        self.evidence.as_deref_mut()
    }

    /// Also opens the page tables: for schemes of ours that need evidence.
    pub fn look_at_pages(&mut self) {
        if self.evidence.is_some() || self.operations == model::Operations::Paddr {
            return;
        }
        match PageTables::new() {
            Ok(mut walk) => {
                for slot in &self.slots.list {
                    // One that has just ended needs no evidence.
                    walk.add_target(slot.id, slot.pid.unsigned_abs()).ok();
                }
                self.evidence = Some(Box::new(walk));
            }
            Err(err) => self.troubles.push(format!("no evidence about single pages: {err}")),
        }
    }

    fn is_traced(&self) -> bool {
        matches!(self.source, Source::Trace(_))
    }
}

impl Drop for Kdamond {
    fn drop(&mut self) {
        self.stop();
    }
}
