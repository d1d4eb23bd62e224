//! When the thread writes. A panic costs the round that it comes in, and not the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use isotherm_sys::clock;

use super::{Writer, locked};

impl Writer {
    /// Calls `interval` once per interval, and a last time when there is to be no more.
    pub(super) fn run(mut self, stopped: &Receiver<()>, mut interval: impl FnMut(&mut Self)) {
        self.round(Self::begin);
        let mut due = Instant::now() + self.settings.every;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            match stopped.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {
                    self.round(&mut interval);
                    // A machine that was suspended does not make up for what it has missed.
                    due = (due + self.settings.every).max(Instant::now());
                }
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.round(&mut interval);
    }

    /// Does a round, and tells how it went.
    ///
    /// What a panic leaves is fit for the next round: what the writer remembers of one round for
    /// the next is replaced as a whole, and a part that is not finished has a dot name.
    pub(super) fn round(&mut self, work: impl FnOnce(&mut Self)) {
        locked(&self.shown).begin(clock::now());
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        let mut round = std::mem::take(&mut self.present);
        if let Err(panic) = done {
            let said = panic.downcast_ref::<&str>().copied();
            let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            round.panicked(said.unwrap_or("no message"));
            locked(&self.gather).doubt();
        }
        locked(&self.shown).end(round, clock::now());
    }
}
