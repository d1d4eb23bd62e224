//! The first guess: what `isotherm plan` predicts from a record of an untouched phase.

use std::time::Duration;

use isotherm::raw::agent::policy::{Key, Range};
use isotherm::raw::report::filter::Filter;
use isotherm::raw::report::plan::{Limits, Report};

use super::Tuner;
use super::lab::{Halt, Lab};
use crate::files;
use crate::reading::plan::{after, price};

/// For how long to wait for a record to be whole.
const TRIES: u32 = 50;

/// The age that is predicted, in µs; none if no age is tuned, or nothing can be predicted.
pub(super) fn guess(tuner: &Tuner<'_>, lab: &mut Lab) -> Result<Option<u64>, Halt> {
    let watch = tuner.args.watch;
    let Some(range) = tuner.space.ranges().iter().find(|range| range.key == Key::Age) else {
        return Ok(None);
    };
    let has_it = |name: &str| name == range.scheme;
    let mut contexts = tuner.policy.contexts.iter();
    let context = contexts.find(|c| c.schemes.iter().any(|s| has_it(&s.settings.name)));
    let Some(context) = context.filter(|_| !watch.is_zero()) else { return Ok(None) };
    tuner.say(&format!("watching for {watch:?} first, for a prediction"));
    let scratch = files::scratch("tune")?;
    let path = scratch.path().join("untouched.data");
    lab.runner().record(&context.name, Some(path.clone()));
    lab.wait(watch)?;
    lab.runner().record(&context.name, None);
    let limits = Limits { max_slowdown: tuner.limits.max_slowdown, max_refaults: None, save: None };
    let mut why = String::new();
    for _ in 0..TRIES {
        // The context finishes the record at the end of its window.
        lab.wait(Duration::from_millis(100))?;
        let record = match files::open(&path) {
            Ok(record) => record,
            Err(err) => {
                why = err.to_string();
                continue;
            }
        };
        match Report::build(&record, &Filter::default(), price(None, 1.0), limits, &after) {
            Ok(report) => {
                tuner.say(&format!("plan: {}", report.verdict().replace('\n', " ")));
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "µs")]
                return Ok(report.chosen().map(|row| (row.age_s * 1e6) as u64));
            }
            Err(err) => why = err.to_string(),
        }
    }
    tuner.say(&format!("no prediction: {}", why.replace('\n', " ")));
    Ok(None)
}

/// The value of a range in the predicted point.
pub(super) fn with_age(range: &Range, start: u64, age_us: u64) -> u64 {
    if range.key == Key::Age { age_us.clamp(range.low, range.high) } else { start }
}
