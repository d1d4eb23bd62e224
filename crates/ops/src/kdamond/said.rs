//! What the kernel reports: windows come from the source into a queue, and become the core's
//! observations one by one.
//!
//! A kdamond that reports nothing for a while is checked, because it may have ended by itself.

use isotherm_core::ops::UpdateError;
use isotherm_core::{
    AddrRange, Check, Observation, Observed, Operations, PageState, TargetId, Time,
};
use isotherm_damon::{DamonError, DamonKind};
use isotherm_sys::clock::now;

use super::{Kdamond, Source};

/// Limit for windows that were read and not asked for.
const MAX_QUEUED: usize = 1024;
/// A kdamond is checked when no window came for this time, in µs, and for three windows.
const SILENT_US: u64 = 2_000_000;
/// A kdamond that ended by itself is started again at most so many times within [`RESTART_NS`].
const MAX_RESTARTS: usize = 3;
const RESTART_NS: u64 = 60_000_000_000;

impl Kdamond {
    /// Reads what the source has.
    pub(super) fn gather(&mut self) {
        match &mut self.source {
            Source::Trace(traced) => {
                if let Err(err) = traced.take(&mut self.queue) {
                    self.trouble(err.to_string());
                }
            }
            Source::Walk(_) => {
                self.shared.take(&mut self.errors);
                for walked in std::mem::take(&mut self.errors) {
                    match walked {
                        Ok(raw) => self.queue.push_back(raw),
                        Err(err) => self.walk_failed(&err),
                    }
                }
            }
        }
        while self.queue.len() > MAX_QUEUED {
            let gone = self.queue.pop_front().map_or(0, |raw| raw.lost + 1);
            if let Some(next) = self.queue.front_mut() {
                next.lost += gone;
            }
        }
        if let Some(last) = self.queue.back() {
            self.last_news = self.last_news.max(last.end);
        }
    }

    pub(super) fn walk_failed(&mut self, err: &DamonError) {
        match err.kind() {
            DamonKind::NotRunning => self.last_news = Time::default(),
            DamonKind::NotOurs => self.failure = Some(err.to_string()),
            _ => {
                self.trouble(err.to_string());
                self.shared.walk(Some(self.plan()));
            }
        }
    }

    /// Says something once.
    pub(super) fn trouble(&mut self, text: String) {
        if !self.troubles.contains(&text) {
            self.troubles.push(text);
        }
    }

    /// Checks a kdamond that reports nothing. If it ended by itself although a target lives, it is
    /// started again, or given up.
    pub(super) fn look_after(&mut self, now: Time) {
        let (_, aggr_us) = self.intervals();
        let patience = SILENT_US.max(aggr_us.saturating_mul(3));
        if self.pid.is_none() || now < self.last_news.plus_us(patience) {
            return;
        }
        self.last_news = now;
        let Some(kernel) = self.shared.kernel_now() else { return };
        let running = kernel.is_running();
        drop(kernel);
        match running {
            Ok(true) => return,
            Ok(false) => {}
            Err(err) => {
                self.failure = Some(err.to_string());
                return;
            }
        }
        self.pid = None;
        if !self.is_any_alive() {
            // It ended as it should: no target is left. The tracker reports that.
            return;
        }
        self.restarts.retain(|at| now.since(*at) < RESTART_NS);
        let text =
            "the kernel's kdamond ended by itself (somebody turned it off, or a commit broke it)";
        if self.restarts.len() >= MAX_RESTARTS {
            self.failure = Some(format!(
                "{text} {} times within a minute\n  hint:  see who else drives DAMON (isotherm doctor), or \
                 use another operations set",
                MAX_RESTARTS + 1
            ));
            return;
        }
        self.restarts.push_back(now);
        match self.start_with_the_living() {
            Ok(()) if self.pid.is_none() => {}
            Ok(()) => self.troubles.push(format!("{text}; it was started again")),
            Err(err) => self.failure = Some(format!("{text}, and cannot be started again: {err}")),
        }
    }

    /// Whether a target has not ended.
    pub(super) fn is_any_alive(&self) -> bool {
        self.slots.list.iter().any(|slot| self.is_alive(slot.pid))
    }

    pub(super) fn is_alive(&self, pid: i32) -> bool {
        pid == 0 || self.proc.path_of(pid.unsigned_abs(), "stat").exists()
    }
}

impl Operations for Kdamond {
    /// Nobody asks: the kernel draws the pages.
    fn prepare(&mut self, batch: &mut [Check]) {
        self.check(batch);
    }

    fn check(&mut self, batch: &mut [Check]) {
        batch.iter_mut().for_each(|check| check.state = PageState::Unknown);
    }

    /// Reads the mappings where the kernel does not follow them by itself. The core gets whole
    /// regions, so it needs no ranges.
    fn update(&mut self, target: TargetId, _: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        if !self.target_valid(target) {
            return Err(UpdateError::Gone);
        }
        self.follow(target);
        Err(UpdateError::NotNow)
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        let slot = self.slots.list.iter().find(|slot| slot.id == target);
        slot.is_some_and(|slot| self.is_alive(slot.pid))
    }

    fn next_window(&mut self) -> Option<Observation> {
        let now = now();
        self.gather();
        self.look_after(now);
        let raw = self.queue.pop_front()?;
        self.tell_moved();
        self.follow_tuning();
        self.share.seen += 1;
        self.share.lost += raw.lost;
        let (sample_us, aggr_us) = self.intervals();
        // What was lost took its time, too.
        let start = match raw.lost {
            0 => self.last_end,
            lost => {
                let each = raw.end.since(self.last_end) / (lost + 1);
                Time(raw.end.0.saturating_sub(each))
            }
        };
        self.last_end = raw.end;
        let more = !self.queue.is_empty();
        let observation =
            Observation { start, end: raw.end, lost: raw.lost, more, sample_us, aggr_us };
        self.current = Some(raw);
        Some(observation)
    }

    fn observe(&mut self, target: TargetId, regions: &mut Vec<Observed>) {
        let Some(raw) = &self.current else { return };
        if let Some((_, found)) = raw.targets.iter().find(|(id, _)| *id == target) {
            regions.extend_from_slice(found);
        }
    }
}
