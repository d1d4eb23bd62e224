//! Times in which the machine was suspended.
//!
//! The monotonic clock stands still while a machine is suspended, so a window over a suspend has
//! its usual length by that clock. The clock since boot goes on. How far it is ahead grows by the
//! length of each suspend, and by nothing else.

use crate::time::Time;

/// A shorter growth is not told, in ns. No machine sleeps for a shorter time.
const LEAST_NS: u64 = 1_000_000;

/// Finds suspends by comparing two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Suspends {
    /// The most by which the clock since boot can be ahead, in ns; none: not compared yet.
    ahead_ns: Option<u64>,
}

impl Suspends {
    /// Compares the clocks. Returns for how long the machine was suspended since the last call, in
    /// ns; 0 at the first call.
    ///
    /// `boot` is the time since boot, read between two readings of the monotonic clock. What passes
    /// between the readings, because other programs ran, is never taken for a suspend.
    pub fn note(&mut self, before: Time, boot: Time, after: Time) -> u64 {
        let (least, most) = (boot.since(after), boot.since(before));
        let known = self.ahead_ns.unwrap_or(most);
        let grown = least.saturating_sub(known);
        if grown < LEAST_NS {
            self.ahead_ns = Some(known.min(most));
            return 0;
        }
        self.ahead_ns = Some(most);
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_a_suspend_makes_the_clock_since_boot_go_ahead() {
        let mut suspends = Suspends::default();
        let mut note = |before: u64, boot: u64, after: u64| {
            suspends.note(Time(before * MS), Time(boot * MS), Time(after * MS)) / MS
        };
        // The machine had slept for 500 ms before.
        assert_eq!(note(100, 600, 100), 0, "nothing is known of earlier times");
        assert_eq!(note(200, 700, 200), 0);
        // Other programs ran before or after the reading in the middle.
        assert_eq!(note(300, 870, 370), 0);
        assert_eq!(note(400, 900, 480), 0);
        assert_eq!(note(500, 61_000, 500), 60_000);
        assert_eq!(note(600, 61_100, 600), 0, "told once");
        // An hour, with a slow reading: at least what is certain.
        assert_eq!(note(700, 3_661_250, 750), 3_600_000);
        assert_eq!(note(800, 3_661_300, 800), 0);
    }
}
