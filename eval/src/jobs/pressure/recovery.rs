//! How soon a monitor is right again after a limit was lifted.
//!
//! While the kernel reclaims, census makes little memory old, so what it tells is older than usual.
//! Second by second its record is held against the truth of the processes of which every page is
//! touched 10 times, and once a second: the working set of a window (of the first), and that of a
//! second (of both). Recall of pages is not judged: pages that are touched 10 times a second are at
//! the limit of one access per window, so which of them are hot is a matter of chance.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use isotherm_core::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::jobs::output;
use crate::processes::workload::start_of;
use crate::stats::{Middle, to_f64};

/// The largest error of a working set that counts as right.
const ERROR: f64 = 0.05;
/// Seconds in a row that have to be right.
const STEADY: usize = 3;
/// The spans of the working sets, in µs: a window, and a second.
const SPANS_US: [u64; 2] = [100_000, 1_000_000];

/// What a record told in one second after the limit was lifted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Second {
    /// The error of the working set of a window. `None`: nothing could be judged.
    window_error: Option<f64>,
    /// The error of that of a second, of both processes.
    second_error: [Option<f64>; 2],
}

/// When the runs of a mode were right again.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recovered {
    pub(super) limit: String,
    pub(super) mode: String,
    /// Seconds until then, of the runs that were.
    pub(super) seconds: Option<Middle>,
    /// Runs that were not, within the time.
    pub(super) not: usize,
}

impl Second {
    fn is_right(&self) -> bool {
        let errors = [self.window_error, self.second_error[0], self.second_error[1]];
        errors.iter().all(|error| error.is_some_and(|error| error <= ERROR))
    }
}

/// How many seconds it took; `None`: longer than was looked.
fn until_right(seconds: &[Second]) -> Option<usize> {
    seconds.windows(STEADY).position(|row| row.iter().all(Second::is_right))
}

impl Recovered {
    /// Of the runs of one mode.
    pub(super) fn of<'a>(
        limit: &str,
        mode: &str,
        runs: impl Iterator<Item = &'a [Second]>,
    ) -> Option<Self> {
        let all: Vec<_> = runs.filter(|seconds| !seconds.is_empty()).map(until_right).collect();
        let found: Vec<f64> = all.iter().flatten().map(|s| to_f64(*s as u64)).collect();
        (!all.is_empty()).then(|| Self {
            limit: limit.into(),
            mode: mode.into(),
            seconds: Middle::of(&found),
            not: all.len() - found.len(),
        })
    }
}

/// The seconds from `lifted` on, by the record and the truths of both processes.
pub(super) fn seconds(
    isotherm: &Path,
    record: &Path,
    truths: [&Path; 2],
    lifted: Time,
    nr: u64,
) -> anyhow::Result<Vec<Second>> {
    let score = |truth: &Path, second: u64| -> anyhow::Result<Value> {
        let ns = lifted.as_ns().saturating_sub(start_of(truth)?) + second * 1_000_000_000;
        let at = |ns: u64| format!("{}ms", ns / 1_000_000);
        let mut command = Command::new(isotherm);
        command.args(["score", "--json", "--all", "--from"]).arg(at(ns));
        command.arg("--to").arg(at(ns + 1_000_000_000)).arg(record).arg(truth);
        serde_json::from_str(&output(&mut command)?).context("understand `isotherm score --json`")
    };
    (0..nr)
        .map(|second| {
            let scores = [score(truths[0], second)?, score(truths[1], second)?];
            Ok(Second {
                window_error: error_of(&scores[0], SPANS_US[0]),
                second_error: scores.map(|score| error_of(&score, SPANS_US[1])),
            })
        })
        .collect()
}

/// The error of the working set within a span.
fn error_of(score: &Value, span_us: u64) -> Option<f64> {
    let spans = score["pages"]["spans"].as_array()?;
    let span = spans.iter().find(|span| span["span_us"].as_u64() == Some(span_us))?;
    span["error_p50"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_right_again_when_it_stays_so() {
        let right = Second { window_error: Some(0.05), second_error: [Some(0.01), Some(0.04)] };
        let less = Second { window_error: Some(0.06), ..right };
        let wrong = Second { second_error: [Some(0.01), Some(0.06)], ..right };
        let unknown = Second { second_error: [None, Some(0.0)], ..right };
        for (seconds, want) in [
            (vec![right; 3], Some(0)),
            (vec![less, right, right, wrong, right, right, right, less], Some(4)),
            (vec![unknown, right, right, unknown, right], None),
            (vec![], None),
        ] {
            assert_eq!(until_right(&seconds), want, "{seconds:?}");
        }
        let runs = [vec![right; 3], vec![less, right, right, right], vec![less; 9], vec![]];
        let of = Recovered::of("300", "census", runs.iter().map(Vec::as_slice)).unwrap();
        assert_eq!((of.seconds.unwrap().median, of.not), (0.5, 1));
        assert!(Recovered::of("300", "census", [].into_iter()).is_none());
    }

    #[test]
    fn the_error_is_that_of_a_second() {
        let score = serde_json::json!({ "pages": { "spans": [
            { "span_us": 100_000, "error_p50": 0.5 }, { "span_us": 1_000_000, "error_p50": 0.02 },
        ] } });
        assert_eq!(error_of(&score, SPANS_US[1]), Some(0.02));
        assert_eq!(error_of(&Value::Null, SPANS_US[1]), None);
    }
}
