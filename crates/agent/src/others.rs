//! What others hide from a monitor by clearing accessed bits, as a sentence for people.

use std::fmt;

use isotherm_core::ClearRate;

/// The share of touched pages from which on it is worth telling: 1 %.
const WORTH: f64 = 0.01;
/// Pages of 4 KiB in a GiB.
const PAGES_PER_GIB: f64 = 262_144.0;

/// How often others clear accessed bits on a machine, and what that hides.
///
/// ```
/// use isotherm_agent::others::Others;
/// use isotherm_core::ClearRate;
///
/// let rate = ClearRate { mean: 0.001, lo: 0.0008, hi: 0.0012 };
/// let others = Others { rate, hidden: 0.023, who: vec!["kdamond.0 (the kernel's DAMON)".into()] };
/// assert_eq!(
///     others.to_string(),
///     "others clear accessed bits here: 262 per GiB and second (kdamond.0 (the kernel's DAMON)). \
///      That hides up to 2.3 % of the pages that are touched within a span; the upper ends of \
///      intervals allow for it"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Others {
    /// Clears per page and second.
    pub rate: ClearRate,
    /// The share of touched pages that is hidden at most, by the mean rate: from 0 to 1.
    pub hidden: f64,
    /// Who is known to clear; see [`Machine::clearers`](isotherm_host::Machine::clearers).
    pub who: Vec<String>,
}

impl Others {
    /// What every such sentence begins with. Readers of records find it by this.
    pub const BEGIN: &str = isotherm_record::Note::OTHERS_CLEAR;

    /// Whether so much may be hidden that people should know.
    #[must_use]
    pub fn is_worth_telling(hidden: f64) -> bool {
        hidden > WORTH
    }
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_gib = self.rate.mean * PAGES_PER_GIB;
        let who = if self.who.is_empty() { "reclaim?".to_owned() } else { self.who.join(", ") };
        let percent = self.hidden * 100.0;
        write!(
            f,
            "{}{per_gib:.0} per GiB and second ({who}). That hides up to {percent:.1} % of the \
             pages that are touched within a span; the upper ends of intervals allow for it",
            Self::BEGIN
        )
    }
}
