//! Calls a function again and again on a thread of its own, until the answers are collected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;

/// Asks until it is told to finish, or is dropped.
#[derive(Debug)]
pub(crate) struct Periodic<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<T>>>,
}

impl<T: Send + 'static> Periodic<T> {
    /// Calls `ask` now and every `period`; a call that answers `None` is left out.
    pub(crate) fn start(
        period: Duration,
        mut ask: impl FnMut() -> Option<T> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let body = move || {
            let mut answers = Vec::new();
            while !asked.load(Ordering::Relaxed) {
                answers.extend(ask());
                std::thread::park_timeout(period);
            }
            answers
        };
        let thread = std::thread::Builder::new().name("periodic".into()).spawn(body);
        Ok(Self { stop, thread: Some(thread.context("start a thread")?) })
    }

    /// Ends it.
    pub(crate) fn finish(mut self) -> Vec<T> {
        self.end()
    }
}

impl<T> Periodic<T> {
    fn end(&mut self) -> Vec<T> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Vec::new() };
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

impl<T> Drop for Periodic<T> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_until_it_is_told_to_finish() {
        let (tell, told) = std::sync::mpsc::channel();
        let mut n = 0;
        let periodic = Periodic::start(Duration::from_millis(1), move || {
            n += 1;
            let heard = tell.send(n);
            heard.ok().filter(|()| n % 2 == 0).map(|()| n)
        });
        let periodic = periodic.unwrap();
        assert_eq!(told.iter().take(4).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let answers = periodic.finish();
        // It ends, because the asker is gone.
        let asked = 4 + told.iter().count();
        assert!(answers.iter().all(|n| n % 2 == 0), "{answers:?}");
        assert_eq!(answers.len(), asked / 2);
    }
}
