//! Looks at how the writing of fleet data goes, and says so: in the log and as an event of the
//! fleet data when that changes, and in metrics all the time.
//!
//! The thread that writes cannot say that it hangs, so whoever runs the agent looks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use isotherm_core::Time;
use isotherm_fleet::{Fleet, Shown, State, Told};
use isotherm_metrics::FleetReading;
use isotherm_sys::clock;
use tracing::{info, warn};

/// What was said last.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    state: State,
    /// Since when it is not written; none if it is.
    since: Option<Time>,
    /// Rows that were lost before that.
    lost_rows: u64,
    /// Whether something was not as it should be, though all was written.
    is_troubled: bool,
}

/// Something to say.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Say {
    Warn(String),
    /// It is written again.
    Again(String),
}

impl Watch {
    /// Says what has changed.
    pub(crate) fn look(&mut self, fleet: &Fleet) -> FleetReading {
        let shown = fleet.shown();
        match self.changed(&shown) {
            Some(Say::Warn(text)) => warn!("fleet data: {text}"),
            Some(Say::Again(text)) => {
                info!("fleet data: {text}");
                // Whoever reads the data finds a gap, and this at its end.
                let (policy, kind, is_warning) = (None, "fleet_gap", true);
                fleet.tell(Told { policy, kind, is_warning, text });
            }
            None => {}
        }
        reading(&shown)
    }

    fn changed(&mut self, shown: &Shown) -> Option<Say> {
        let why = shown.trouble.as_deref().unwrap_or("not known why");
        let troubled = shown.trouble.is_some();
        let was_troubled = std::mem::replace(&mut self.is_troubled, troubled);
        if self.state == shown.state {
            if self.state == State::Writing {
                self.lost_rows = shown.lost_rows;
            }
            let is_new = troubled && !was_troubled && self.state == State::Writing;
            return is_new.then(|| Say::Warn(why.to_owned()));
        }
        self.state = shown.state;
        match shown.state {
            State::Writing => {
                let since = self.since.take().unwrap_or(shown.since);
                let time = Duration::from_nanos(shown.since.since(since)).as_secs();
                let lost =
                    shown.lost_rows - std::mem::replace(&mut self.lost_rows, shown.lost_rows);
                Some(Say::Again(format!("written again after {time} s; lost rows: {lost}")))
            }
            State::Failing | State::Stuck => {
                self.since.get_or_insert(shown.since);
                Some(Say::Warn(format!(
                    "not written: {why}; the agent tries again in each interval, and `isotherm ctl \
                     status` tells what is lost"
                )))
            }
        }
    }
}

/// For metrics.
fn reading(shown: &Shown) -> FleetReading {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago = |at| Duration::from_nanos(clock::now().since(at));
    let at = |at| since_1970.saturating_sub(ago(at)).as_secs_f64();
    FleetReading {
        is_up: shown.state == State::Writing,
        written_seconds: shown.written_at.map(at),
        kept_bytes: shown.bytes,
        rows: shown.rows,
        lost_rows: shown.lost_rows,
        failures: shown.failed_rounds,
        panics: shown.panics,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_said_once() {
        let mut watch = Watch::default();
        let mut say = |state, s: u64, trouble: Option<&str>, lost_rows| {
            let trouble = trouble.map(str::to_owned);
            let since = Time(s * 1_000_000_000);
            watch.changed(&Shown { state, since, trouble, lost_rows, ..Shown::default() })
        };
        assert_eq!(say(State::Writing, 1, None, 5), None);
        let said = say(State::Failing, 9, Some("no space"), 7);
        assert!(matches!(&said, Some(Say::Warn(t)) if t.contains("no space")), "{said:?}");
        assert_eq!(say(State::Failing, 9, Some("no space, again"), 8), None);
        let said = say(State::Stuck, 20, Some("does not answer"), 8);
        assert!(matches!(&said, Some(Say::Warn(t)) if t.contains("does not answer")), "{said:?}");
        let said = say(State::Writing, 69, None, 10);
        let text = "written again after 60 s; lost rows: 5".to_owned();
        assert_eq!(said, Some(Say::Again(text)));
        assert_eq!(say(State::Writing, 69, None, 10), None);
        // All is written, but at a price.
        let full = Some("oldest were dropped");
        assert!(matches!(say(State::Writing, 69, full, 10), Some(Say::Warn(_))));
        assert_eq!(say(State::Writing, 69, full, 10), None);
    }
}
