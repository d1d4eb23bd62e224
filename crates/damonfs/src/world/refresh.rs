//! `refresh_ms`: shows statistics, quotas and intervals again and again, without a command.
//!
//! The kernel does so inside of the kdamond (`damon_sysfs_repeat_call_fn()`, 6.17), and leaves a
//! turn out while a command holds the lock. The file is looked at each time, so that a change of it
//! needs no commit.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::{State, World};
use crate::engine::Worker;
use crate::tree::{Ino, Value};

/// How often the file is looked at while it is 0.
const LOOK: Duration = Duration::from_millis(100);

/// Refreshes the files of a kdamond until it ends, on a thread of its own.
pub(super) fn follow(world: Weak<World>, kdamond: Ino, worker: Arc<dyn Worker>) {
    let run = move || {
        let mut last = Instant::now();
        while worker.pid().is_some() {
            let Some(period) = world.upgrade().map(|world| period(&world.state(), kdamond)) else {
                return;
            };
            let wait = period.map_or(LOOK, |period| period.saturating_sub(last.elapsed()));
            if !wait.is_zero() {
                std::thread::sleep(wait.min(LOOK));
                continue;
            }
            last = Instant::now();
            if let Some(world) = world.upgrade() {
                world.refresh(kdamond, &worker);
            }
        }
    };
    // Without a thread, the files are refreshed by commands only.
    std::thread::Builder::new().name("refresh".into()).spawn(run).ok();
}

/// The period that the file says; none for 0.
fn period(state: &State, kdamond: Ino) -> Option<Duration> {
    match state.tree.value_at(kdamond, "refresh_ms") {
        Some(Value::Uint(ms, _)) if *ms != 0 => Some(Duration::from_millis((*ms).into())),
        _ => None,
    }
}

impl World {
    fn refresh(&self, kdamond: Ino, worker: &Arc<dyn Worker>) {
        if self.state().locked {
            return;
        }
        if let Ok(results) = worker.results() {
            self.show_stats(kdamond, &results);
            self.show_effective_quotas(kdamond, &results);
            self.show_intervals(kdamond, &results);
        }
    }
}
