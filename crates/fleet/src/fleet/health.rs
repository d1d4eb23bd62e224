//! How the writing goes: what was written, whether that works now, and since when.
//!
//! A *round* is what the thread does without a pause: the parts of one interval, and dropping old
//! ones. It has failed if anything of it was lost or could not be done. A thread that hangs in a
//! round cannot say so, so [`Shown::judged_at`] judges by how long the round has taken.

use std::path::PathBuf;

use isotherm_core::Time;

/// A round that takes longer than this hangs, in ns: a part is written in milliseconds.
const STUCK_NS: u64 = 60_000_000_000;

/// Whether fleet data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// The last round wrote all there was.
    #[default]
    Writing,
    /// The last round has failed. The next one tries again.
    Failing,
    /// The present round has not ended for a minute.
    Stuck,
}

/// What was written so far, and how it goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// The directory.
    pub dir: PathBuf,
    /// The name of this run in the column `session`.
    pub session: String,
    /// Bytes of all parts of this host that are kept.
    pub bytes: u64,
    /// How many parts that is.
    pub parts: u64,
    /// Rows that this run wrote.
    pub rows: u64,
    /// Rows that could not be written.
    pub lost_rows: u64,
    /// Parts that were dropped since they were too old or too much.
    pub dropped_parts: u64,
    /// What was wrong in the last round; none if nothing was.
    pub trouble: Option<String>,
    /// Whether it works now.
    pub state: State,
    /// Since when the state has been what it is.
    pub since: Time,
    /// When a round last ended that has not failed; none if there was none yet.
    pub written_at: Option<Time>,
    /// Rounds that have failed.
    pub failed_rounds: u64,
    /// How many of these ended by a panic.
    pub panics: u64,
    /// When the present round began; none between rounds.
    pub busy: Option<Time>,
}

impl Shown {
    /// The same as it is at `now`: with [`State::Stuck`] if the present round takes too long.
    pub(super) fn judged_at(mut self, now: Time) -> Self {
        if let Some(busy) = self.busy.filter(|busy| now.since(*busy) > STUCK_NS) {
            (self.state, self.since) = (State::Stuck, busy);
            let s = now.since(busy) / 1_000_000_000;
            self.trouble = Some(format!(
                "nothing was written for {s} s: the disk or the server behind {} does not answer",
                self.dir.display()
            ));
        }
        self
    }

    pub(super) const fn begin(&mut self, now: Time) {
        self.busy = Some(now);
    }

    pub(super) fn end(&mut self, round: Round, now: Time) {
        let Round { trouble, is_failed, is_panic } = round;
        let state = if is_failed { State::Failing } else { State::Writing };
        if self.state != state {
            (self.state, self.since) = (state, now);
        }
        if !is_failed {
            self.written_at = Some(now);
        }
        self.failed_rounds += u64::from(is_failed);
        self.panics += u64::from(is_panic);
        (self.busy, self.trouble) = (None, trouble);
    }
}

/// How a round went.
#[derive(Debug, Default)]
pub(super) struct Round {
    trouble: Option<String>,
    is_failed: bool,
    is_panic: bool,
}

impl Round {
    /// Something was lost or could not be done. Of several troubles the first one is told: the
    /// others mostly follow from it.
    pub(super) fn fail(&mut self, text: String) {
        if !std::mem::replace(&mut self.is_failed, true) {
            self.trouble = Some(text);
        }
    }

    /// All was done, but not as it should be.
    pub(super) fn note(&mut self, text: &str) {
        self.trouble.get_or_insert_with(|| text.to_owned());
    }

    pub(super) fn panicked(&mut self, said: &str) {
        self.is_panic = true;
        self.fail(format!(
            "internal error: {said}; what was seen in that interval is lost, and the next one is \
             written again"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_state_lasts_from_its_first_round() {
        let mut shown = Shown { since: Time(S), ..Shown::default() };
        let mut round = |from: u64, is_failed: bool| {
            shown.begin(Time(from * S));
            let mut round = Round::default();
            if is_failed {
                round.fail("no".to_owned());
                round.fail("it follows".to_owned());
            }
            shown.end(round, Time((from + 1) * S));
            let trouble = shown.trouble.clone();
            (shown.state, shown.since.0 / S, shown.written_at.map(|at| at.0 / S), trouble)
        };
        let no = Some("no".to_owned());
        assert_eq!(round(1, false), (State::Writing, 1, Some(2), None));
        assert_eq!(round(10, true), (State::Failing, 11, Some(2), no.clone()));
        assert_eq!(round(20, true), (State::Failing, 11, Some(2), no));
        assert_eq!(round(30, false), (State::Writing, 31, Some(31), None));
        assert_eq!((shown.failed_rounds, shown.panics), (2, 0));
    }

    #[test]
    fn a_round_that_does_not_end_is_told() {
        let mut shown = Shown { dir: "/srv/fleet".into(), ..Shown::default() };
        shown.begin(Time(5 * S));
        assert_eq!(shown.clone().judged_at(Time(60 * S)).state, State::Writing);
        let stuck = shown.clone().judged_at(Time(70 * S));
        assert_eq!((stuck.state, stuck.since), (State::Stuck, Time(5 * S)));
        let text = stuck.trouble.unwrap();
        assert!(text.contains("for 65 s") && text.contains("/srv/fleet"), "{text}");
        shown.end(Round::default(), Time(71 * S));
        let after = shown.judged_at(Time(500 * S));
        assert_eq!((after.state, after.trouble), (State::Writing, None));
    }
}
