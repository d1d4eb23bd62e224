//! Windows by walking: `update_schemes_tried_regions` over one `stat` scheme per target.
//!
//! The command waits for the next time that the schemes are applied, which is the end of a window.
//! Meanwhile it holds DAMON's one lock. So a thread of its own walks, one window after the other. A
//! caller that needs the kernel says so ([`Shared::kernel`]), and gets its turn between two walks.
//!
//! Reading the regions back takes four files per region. If that takes longer than a window, the
//! next window is missed. The `stat` scheme's own count of bytes tells how many were missed,
//! because the scheme tries all of its target once per window.
//!
//! Absent: deciding what follows from errors. They are queued like windows.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use isotherm_core::{Observed, TargetId, Time};
use isotherm_damon::{DamonError, DamonKind};
use isotherm_sys::clock::now;

use super::kernel::Kernel;

/// Limit for windows that nobody asked for. Beyond it the oldest are dropped.
const MAX_QUEUED: usize = 64;
/// How long the thread waits when it has nothing to do, or when a walk failed.
const PAUSE: Duration = Duration::from_millis(20);

/// A window as it came from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Raw {
    /// When it ended.
    pub(super) end: Time,
    /// Windows lost in front of it.
    pub(super) lost: u64,
    /// Regions by target.
    pub(super) targets: Vec<(TargetId, Vec<Observed>)>,
}

/// Which schemes to walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The first of them.
    pub(super) first: usize,
    /// Whose it and the ones behind it are.
    pub(super) targets: Vec<TargetId>,
}

/// What the thread shares with the set.
#[derive(Debug)]
pub(super) struct Shared {
    kernel: Mutex<Box<dyn Kernel>>,
    waiting: AtomicUsize,
    /// What to walk, while there is something.
    plan: Mutex<Option<Plan>>,
    queue: Mutex<VecDeque<Result<Raw, DamonError>>>,
    quit: AtomicBool,
}

/// Takes a lock even if its holder panicked: the guarded value is valid at all times.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(kernel: Box<dyn Kernel>) -> Self {
        Self {
            kernel: Mutex::new(kernel),
            waiting: AtomicUsize::new(0),
            plan: Mutex::default(),
            queue: Mutex::default(),
            quit: AtomicBool::new(false),
        }
    }

    /// The kernel, after the walk under way.
    pub(super) fn kernel(&self) -> MutexGuard<'_, Box<dyn Kernel>> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = lock(&self.kernel);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        guard
    }

    /// The kernel, unless a walk is under way.
    pub(super) fn kernel_now(&self) -> Option<MutexGuard<'_, Box<dyn Kernel>>> {
        self.kernel.try_lock().ok()
    }

    /// Sets what to walk from the next walk on. Call it while the kernel is held, so that no walk
    /// takes one target for another.
    pub(super) fn walk(&self, plan: Option<Plan>) {
        *lock(&self.plan) = plan;
    }

    /// What was walked since this was asked last.
    pub(super) fn take(&self, into: &mut VecDeque<Result<Raw, DamonError>>) {
        into.append(&mut lock(&self.queue));
    }

    fn push(&self, walked: Result<Raw, DamonError>) {
        let mut queue = lock(&self.queue);
        if queue.len() >= MAX_QUEUED
            && let Some(Ok(gone)) = queue.pop_front()
            && let Some(Ok(next)) = queue.front_mut()
        {
            next.lost += gone.lost + 1;
        }
        queue.push_back(walked);
    }
}

/// The thread. Dropping it ends it, after the walk under way.
#[derive(Debug)]
pub(super) struct Walker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Walker {
    pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let own = Arc::clone(shared);
        let thread =
            std::thread::Builder::new().name("kdamond-walk".into()).spawn(move || walk_on(&own))?;
        Ok(Self { shared: Arc::clone(shared), thread: Some(thread) })
    }
}

impl Drop for Walker {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // It panicked if this fails, and was told then.
            thread.join().ok();
        }
    }
}

fn walk_on(shared: &Shared) {
    let mut count = Count::default();
    while !shared.quit.load(Ordering::SeqCst) {
        if shared.waiting.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        let mut kernel = lock(&shared.kernel);
        let Some(plan) = lock(&shared.plan).clone() else {
            drop(kernel);
            std::thread::sleep(PAUSE);
            continue;
        };
        let mut end = Time::default();
        let walked = kernel.walk(plan.first, plan.targets.len(), &mut || end = now());
        drop(kernel);
        match walked {
            Ok(walked) => {
                let lost = count.lost(&plan, walked.sz_tried, &walked.schemes);
                let targets = plan.targets.into_iter().zip(walked.schemes).collect();
                shared.push(Ok(Raw { end, lost, targets }));
            }
            // Until a target has regions there is nothing to walk.
            Err(err) if matches!(err.kind(), DamonKind::NothingToWalk | DamonKind::Busy) => {
                std::thread::sleep(PAUSE);
            }
            Err(err) => {
                *lock(&shared.plan) = None;
                shared.push(Err(err));
            }
        }
    }
}

/// Counts missed windows, by the bytes that the first scheme has tried so far.
#[derive(Debug, Default)]
struct Count {
    last: Option<(Plan, u64)>,
}

impl Count {
    fn lost(&mut self, plan: &Plan, sz_tried: u64, schemes: &[Vec<Observed>]) -> u64 {
        let bytes: u64 = schemes.first().into_iter().flatten().map(|o| o.range.len()).sum();
        let before = self.last.replace((plan.clone(), sz_tried));
        // Another scheme or another target's scheme stands there now, so the numbers cannot be
        // compared.
        let before = before.filter(|(before, _)| {
            (before.first, before.targets.first()) == (plan.first, plan.targets.first())
        });
        let Some(tried) = before.and_then(|(_, before)| sz_tried.checked_sub(before)) else {
            return 0;
        };
        let windows = (tried + bytes / 2).checked_div(bytes).unwrap_or(1);
        windows.saturating_sub(1)
    }
}
