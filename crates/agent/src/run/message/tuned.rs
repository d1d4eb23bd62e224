//! What online tuning tells.

use serde_json::{Value, json};

use crate::tune::Estimate;

/// What online tuning tells. It is about the policy as a whole; the message names the first of the
/// contexts that are tuned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tuned {
    /// What it is: `begun`, `resumed` (with values that were found before), `dropped` (such values
    /// are not used), `step`, `quiet` (no step makes a difference), `moved` (so the search begins
    /// again), `trouble`.
    pub what: &'static str,
    /// Which number a step changed, as `cold.age`.
    pub range: Option<String>,
    /// The value before a step, with its unit.
    pub from: Option<String>,
    /// The value that was tried.
    pub to: Option<String>,
    /// How many pairs of phases a step took.
    pub pairs: usize,
    /// By how much more of the targets' memory was out of RAM.
    pub saved: Option<Estimate>,
    /// By how much the targets were slower.
    pub slowdown: Option<Estimate>,
    /// What became of a step: `kept`, `worse`, `same`, `over_limit`, `broken`, `spent`, `refused`.
    pub outcome: Option<&'static str>,
    /// The present values, as `cold.age=5s`; empty if it does not tell.
    pub values: String,
    /// All of this in one line, for people.
    pub text: String,
}

impl Tuned {
    /// As in docs/EVENTS.md.
    pub(super) fn json(&self) -> Value {
        let estimate = |e: &Estimate| {
            let end = |x: f64| x.is_finite().then_some(x);
            json!({ "lo": end(e.low), "mid": e.mean, "hi": end(e.high) })
        };
        json!({
            "what": self.what, "range": self.range, "from": self.from, "to": self.to,
            "pairs": self.pairs, "saved": self.saved.as_ref().map(estimate),
            "slowdown": self.slowdown.as_ref().map(estimate), "outcome": self.outcome,
            "values": self.values, "text": self.text,
        })
    }
}
