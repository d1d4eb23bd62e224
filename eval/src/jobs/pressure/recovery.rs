//! How soon a monitor is right again after a limit was lifted.
//!
//! While the kernel reclaims, census makes little memory old, so what it tells is older than usual.
//! Second by second its record is held against the truth of the processes of which every page is
//! touched 10 times, and once a second: the working set of a window (of the first), and that of a
//! second (of both).
//!
//! Recall is judged by the page map of the first process, within a second. Its pages are touched at
//! random, once per window on average. That is the usual limit of what counts as hot, and four of
//! ten pages are not touched in a given window. Within a second all of them are.

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
/// The least recall of pages that counts as right.
const RECALL: f64 = 0.95;
/// Seconds in a row that have to be right.
const STEADY: usize = 3;
/// The spans of the working sets, in µs: a window, and a second.
const SPANS_US: [u64; 2] = [100_000, 1_000_000];

/// The name of the error of a working set.
const ERROR_P50: &str = "error_p50";

/// What a record told in one second after the limit was lifted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Second {
    /// The error of the working set of a window. `None`: nothing could be judged.
    window_error: Option<f64>,
    /// The error of that of a second, of both processes.
    second_error: [Option<f64>; 2],
    /// The share of the pages touched 10 times a second that the page map has as touched within a
    /// second.
    #[serde(default)]
    recall: Option<f64>,
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
    /// Seconds until recall was enough, and runs in which it was not.
    #[serde(default)]
    pub(super) recall_seconds: Option<Middle>,
    #[serde(default)]
    pub(super) recall_not: usize,
}

impl Second {
    fn is_right(&self) -> bool {
        let errors = [self.window_error, self.second_error[0], self.second_error[1]];
        errors.iter().all(|error| error.is_some_and(|error| error <= ERROR))
    }

    fn has_recall(&self) -> bool {
        self.recall.is_some_and(|recall| recall >= RECALL)
    }
}

/// How many seconds it took until this held and went on to; `None`: longer than was looked.
fn until(holds: fn(&Second) -> bool, seconds: &[Second]) -> Option<usize> {
    seconds.windows(STEADY).position(|row| row.iter().all(holds))
}

/// The times of the runs in which it came to that, and in how many it did not.
fn times(holds: fn(&Second) -> bool, runs: &[&[Second]]) -> (Option<Middle>, usize) {
    let found = runs.iter().filter_map(|seconds| until(holds, seconds));
    let found: Vec<f64> = found.map(|seconds| to_f64(seconds as u64)).collect();
    (Middle::of(&found), runs.len() - found.len())
}

impl Recovered {
    /// Of the runs of one mode.
    pub(super) fn of<'a>(
        limit: &str,
        mode: &str,
        runs: impl Iterator<Item = &'a [Second]>,
    ) -> Option<Self> {
        let runs: Vec<_> = runs.filter(|seconds| !seconds.is_empty()).collect();
        let (seconds, not) = times(Second::is_right, &runs);
        let (recall_seconds, recall_not) = times(Second::has_recall, &runs);
        let (limit, mode) = (limit.into(), mode.into());
        (!runs.is_empty()).then_some(Self { limit, mode, seconds, not, recall_seconds, recall_not })
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
                window_error: of_span(&scores[0], SPANS_US[0], ERROR_P50),
                recall: of_span(&scores[0], SPANS_US[1], "recall"),
                second_error: scores.map(|score| of_span(&score, SPANS_US[1], ERROR_P50)),
            })
        })
        .collect()
}

/// A number about a span.
fn of_span(score: &Value, span_us: u64, name: &str) -> Option<f64> {
    let spans = score["pages"]["spans"].as_array()?;
    let span = spans.iter().find(|span| span["span_us"].as_u64() == Some(span_us))?;
    span[name].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_right_again_when_it_stays_so() {
        let second_error = [Some(0.01), Some(0.04)];
        let right = Second { window_error: Some(0.05), second_error, recall: Some(0.9) };
        let less = Second { window_error: Some(0.06), ..right };
        let wrong = Second { second_error: [Some(0.01), Some(0.06)], ..right };
        let unknown = Second { second_error: [None, Some(0.0)], ..right };
        for (seconds, want) in [
            (vec![right; 3], Some(0)),
            (vec![less, right, right, wrong, right, right, right, less], Some(4)),
            (vec![unknown, right, right, unknown, right], None),
            (vec![], None),
        ] {
            assert_eq!(until(Second::is_right, &seconds), want, "{seconds:?}");
        }
        let runs = [vec![right; 3], vec![less, right, right, right], vec![less; 9], vec![]];
        let of = Recovered::of("300", "census", runs.iter().map(Vec::as_slice)).unwrap();
        assert_eq!((of.seconds.unwrap().median, of.not), (0.5, 1));
        assert!(of.recall_seconds.is_none() && of.recall_not == 3, "too little of the pages");
        assert!(Recovered::of("300", "census", [].into_iter()).is_none());
    }

    #[test]
    fn recall_is_judged_by_itself() {
        let of = |recall: Option<f64>| Second {
            window_error: Some(0.5),
            second_error: [Some(0.5); 2],
            recall,
        };
        let (enough, less, unknown) = (of(Some(0.95)), of(Some(0.949)), of(None));
        let runs = [
            vec![less, enough, enough, unknown, enough, enough, enough],
            vec![less, less, enough, enough, enough, less],
            vec![enough, enough, less],
        ];
        let of = Recovered::of("400", "census", runs.iter().map(Vec::as_slice)).unwrap();
        assert_eq!((of.recall_seconds.unwrap().median, of.recall_not), (3.0, 1));
        assert!(of.seconds.is_none() && of.not == 3, "{of:?}");
    }

    #[test]
    fn the_numbers_are_those_of_a_second() {
        let score = serde_json::json!({ "pages": { "spans": [
            { "span_us": 100_000, "error_p50": 0.5 }, { "span_us": 1_000_000, "error_p50": 0.02, "recall": 0.9 },
        ] } });
        assert_eq!(of_span(&score, SPANS_US[1], ERROR_P50), Some(0.02));
        assert_eq!(of_span(&score, SPANS_US[1], "recall"), Some(0.9));
        assert_eq!(of_span(&score, SPANS_US[0], "recall"), None);
        assert_eq!(of_span(&Value::Null, SPANS_US[1], ERROR_P50), None);
    }
}
