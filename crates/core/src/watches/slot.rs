//! One watched page: armed, looked at, touched; and what that says of its rate.
//!
//! The rate of a page is the chance `p` that one sample interval touches it. A run from arming to
//! the first touch is one event over the time that it took:
//!
//! ```text
//! p = (hits - 1) / (exposure - 1)    after a touch (1 if the only run took one interval)
//! p = hits / exposure                while armed
//!                                    (exposure: armed time in sample intervals; a touch that was
//!                                    found between two looks counts at the middle of them)
//! ```
//!
//! The first is the unbiased estimate of a geometric chance by inverse sampling (J. B. S. Haldane,
//! "On a Method of Estimating Frequencies", Biometrika 33, 1945): as looking stops at a touch, the
//! plain ratio is too large, by a factor of 3 at `p` = 0.05 and one run. Old runs fade by [`FADE`]
//! with each new one, not with time: a hot page is armed rarely, and between two runs nothing new
//! is known. Evidence that the page's past makes very unlikely does not wait to outweigh it: the
//! past is dropped, and [`Look`] says so.
//!
//! Example: a hot page, armed once per window, is found young after one interval each time: 1. A
//! cold one stays armed for ever at no cost: 0/20 after one window, 0/40 after two.

use crate::time::Time;

/// What is left of old runs after a new one: a memory of about five.
const FADE: f32 = 0.8;

/// Longest silence that counts, in sample intervals.
const LONGEST_RUN: f32 = 400.0;

/// A touch that had less than this chance makes the page's past void.
const UNLIKELY_TOUCH: f32 = 0.05;
/// A silence that had less than this chance does so, too. The chance is much smaller, because such
/// a silence makes all pages of the region doubtful that were not looked at since, and that costs
/// clears.
const UNLIKELY_SILENCE: f32 = 0.002;

/// Where a watched page is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// Drawn, never made old.
    #[default]
    Fresh,
    /// Old since it was armed, as far as known.
    Armed,
    /// Touched; young until it is armed again.
    Touched,
    /// It cannot be made old.
    Blind,
}

/// What a look changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// As expected.
    Steady,
    /// A page that used to be quiet was touched.
    WokeUp,
    /// A page that used to be touched is quiet.
    FellSilent,
}

/// "Never", for deadlines.
pub(crate) const NEVER: u64 = u64::MAX;

/// The chance of a touch per interval by some hits in some exposure, never 0 or 1.
fn chance(hits: f32, exposure: f32) -> f32 {
    ((hits + 0.2) / (exposure + 0.4)).clamp(0.0, 0.999)
}

/// One watched page.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Slot {
    /// An address in the page.
    pub(crate) addr: u64,
    /// When the state was last seen to be what it is.
    pub(crate) seen: Time,
    /// Sample (sis) at which it was armed.
    pub(crate) armed_at: u64,
    /// Sample at which to look next, beside the looks at each window's end.
    pub(crate) next_look: u64,
    /// Sample at which to arm it.
    pub(crate) arm_at: u64,
    /// Runs that ended in a touch, faded.
    hits: f32,
    /// Sample intervals of these runs, faded.
    exposure: f32,
    /// Sample intervals of the current run.
    run: f32,
    /// The only evidence is a touch at some time in a long wait: no longer cold, but hardly known
    /// how hot. The next run replaces it.
    provisional: bool,
    pub(crate) state: State,
    /// log2 of the size of the leaf that maps it.
    pub(crate) leaf_shift: u8,
    /// Placed near a region's edge, to find where the next region really starts. The page was not
    /// drawn evenly, so it is not part of the region's mean.
    pub(crate) edge: bool,
    /// An edge page that is waited for: where the border is, is hardly known.
    pub(crate) urgent: bool,
}

impl Slot {
    /// A page to watch.
    pub(crate) fn fresh(addr: u64, edge: bool) -> Self {
        Self { addr, edge, leaf_shift: 12, next_look: NEVER, arm_at: NEVER, ..Self::default() }
    }

    /// Whether there is any evidence about it.
    pub(crate) fn known(&self) -> bool {
        self.exposure + self.run > 0.0 && self.state != State::Blind
    }

    /// Its rate: chance of a touch per sample interval. 0 without evidence.
    pub(crate) fn rate(&self) -> f32 {
        let exposure = self.exposure + self.run;
        if exposure <= 0.0 {
            return 0.0;
        }
        if self.state != State::Touched || self.provisional {
            return (self.hits / exposure).clamp(0.0, 1.0);
        }
        if exposure - 1.0 < 0.05 {
            return 1.0;
        }
        ((self.hits - 1.0) / (exposure - 1.0)).clamp(0.0, 1.0)
    }

    /// Intervals with a touch and without, as far as remembered.
    pub(crate) fn hits_and_misses(&self) -> (f32, f32) {
        (self.hits, (self.exposure + self.run - self.hits).max(0.0))
    }

    /// Whether it was touched, and only once so far.
    pub(crate) fn is_new(&self) -> bool {
        self.state == State::Touched && self.hits < 1.5
    }

    /// Whether so few runs ended in a touch that its rate is little more than a guess. Only their
    /// number counts: to ask again depending on the answers would bias the estimate.
    pub(crate) fn is_hardly_known(&self) -> bool {
        self.state == State::Touched && self.hits < 2.5
    }

    /// Variance of the rate: of a share at one run, of a waiting time at many.
    pub(crate) fn rate_variance(&self) -> f32 {
        let p = chance(self.hits, self.exposure + self.run);
        if self.hits < 0.1 {
            return p * p;
        }
        let runs = self.hits.max(1.0);
        p * (1.0 - p) * (p + (1.0 - p) / runs) / runs
    }

    /// It was made old, or found old, at sample `passed`.
    pub(crate) fn arm(&mut self, now: Time, passed: u64) {
        self.state = State::Armed;
        self.seen = now;
        self.armed_at = passed;
        self.next_look = passed.wrapping_add(1);
        self.arm_at = NEVER;
        self.run = 0.0;
    }

    /// It cannot be made old: no evidence from here.
    pub(crate) const fn blind(&mut self) {
        self.state = State::Blind;
        self.next_look = NEVER;
        self.arm_at = NEVER;
    }

    /// Whether a look at sample `passed` is due, or so nearly that it is taken together with one at
    /// another page. A look is nearly free, and a wake-up for it is not.
    pub(crate) fn may_be_looked_at(&self, passed: u64) -> bool {
        let early = self.next_look.saturating_sub(self.armed_at) / 4;
        self.state == State::Armed
            && self.next_look != NEVER
            && self.next_look <= passed.saturating_add(early)
    }

    /// It was still old `intervals` after the last look.
    pub(crate) fn found_old(&mut self, now: Time, passed: u64, intervals: f32) -> Look {
        self.drop_provisional();
        self.run = (self.run + intervals).min(LONGEST_RUN);
        self.seen = now;
        // After about 1, 2, 4, 8, 16 samples, then at the windows' ends.
        let lag = passed.wrapping_sub(self.armed_at);
        self.next_look = if lag < 12 { self.armed_at.wrapping_add(2 * lag.max(1)) } else { NEVER };
        // A page that never was touched cannot fall silent, and most are such: no power for them.
        let silence = |slot: &Self| libm::powf(1.0 - chance(slot.hits, slot.exposure), slot.run);
        if self.hits > 0.0 && silence(self) < UNLIKELY_SILENCE {
            (self.hits, self.exposure) = (0.0, 0.0);
            return Look::FellSilent;
        }
        Look::Steady
    }

    /// It was touched at some time in the last `intervals`.
    pub(crate) fn found_young(&mut self, now: Time, intervals: f32) -> Look {
        let quiet = self.exposure + self.run;
        let before = chance(self.hits, quiet);
        let expected = 1.0 - libm::powf(1.0 - before, intervals);
        // Whole intervals, because a look is always a little late. After a longer wait the touch is
        // taken to be in the middle of it. A page that is touched often was touched soon after the
        // begin, however late the look.
        let middle = f32::midpoint(libm::roundf(intervals).max(1.0), 1.0);
        let typical = if self.hits >= 1.0 { 1.0 / before } else { f32::MAX };
        let waited = middle.min(typical).max(1.0);
        self.drop_provisional();
        self.state = State::Touched;
        self.seen = now;
        self.next_look = NEVER;
        if quiet >= 10.0 && expected < UNLIKELY_TOUCH {
            (self.hits, self.exposure, self.run) = (1.0, waited, 0.0);
            self.provisional = true;
            return Look::WokeUp;
        }
        self.hits = self.hits * FADE + 1.0;
        self.exposure = self.exposure * FADE + self.run + waited;
        self.run = 0.0;
        Look::Steady
    }

    /// The sample interval changed: what was one interval is `ratio` intervals now. A run takes at
    /// least one.
    pub(crate) fn rescale(&mut self, ratio: f32) {
        self.exposure = (self.exposure * ratio).max(self.hits);
        self.run *= ratio;
    }

    fn drop_provisional(&mut self) {
        if self.provisional {
            self.provisional = false;
            (self.hits, self.exposure, self.run) = (0.0, 0.0, 0.0);
        }
    }
}
