//! What `isotherm score` says by page: of records with page maps, which only census makes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Score;
use crate::table::{Table, number};

/// The spans of the table, in us: the window by default, and two longer ones.
const SPANS: [(u64, &str); 3] = [(100_000, "0.1 s"), (1_000_000, "1 s"), (10_000_000, "10 s")];
/// Goals: least precision and recall, most error of a working set, least coverage of its bars.
const FOUND: f64 = 0.95;
const ERROR: f64 = 0.05;
const COVERAGE: f64 = 0.85;

/// The object `pages` of `isotherm score --json`. Its other keys are kept beside these.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ByPage {
    precision: Option<f64>,
    recall: Option<f64>,
    not_measured: Option<f64>,
    #[serde(default)]
    spans: Vec<Span>,
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

/// The working set within one span.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Span {
    span_us: u64,
    error_p50: Option<f64>,
    error_p75: Option<f64>,
    coverage: Option<f64>,
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

impl Score {
    /// What the page maps say, where the record has them, in place of what its regions say. The
    /// working set is that of a window. A record of regions calls every page what its region is,
    /// so both are shares of pages.
    pub(in crate::jobs) fn by_page(mut self) -> Self {
        let Some(pages) = &self.pages else { return self };
        (self.precision, self.recall) = (pages.precision, pages.recall);
        for key in ["precision_clear", "recall_clear"] {
            self.more.insert(key.into(), pages.more.get(key).cloned().unwrap_or_default());
        }
        if let Some(window) = pages.span(SPANS[0].0) {
            (self.wss_error_p50, self.wss_error_p75) = (window.error_p50, window.error_p75);
            self.coverage = window.coverage;
        }
        self
    }
}

impl ByPage {
    fn span(&self, us: u64) -> Option<&Span> {
        self.spans.iter().find(|s| s.span_us == us)
    }

    /// The goals that are not reached. What could not be judged is no miss.
    fn missed(&self) -> Vec<String> {
        let below = |v: Option<f64>, goal: f64| v.is_some_and(|v| v < goal);
        let mut missed = Vec::new();
        if below(self.precision, FOUND) {
            missed.push("precision".to_owned());
        }
        if below(self.recall, FOUND) {
            missed.push("recall".to_owned());
        }
        for (us, name) in SPANS {
            let Some(span) = self.span(us) else { continue };
            if span.error_p50.is_some_and(|e| e > ERROR) {
                missed.push(format!("wss {name}"));
            }
            if below(span.coverage, COVERAGE) {
                missed.push(format!("bars {name}"));
            }
        }
        missed
    }

    fn cells(&self, parts: &[Self]) -> impl Iterator<Item = String> {
        let found = [self.precision, self.recall, self.not_measured].map(|v| number(v, 3));
        let part = |nr: usize| {
            let both = parts.get(nr).map_or([None; 2], |part| [part.precision, part.recall]);
            both.map(|v| number(v, 3)).join(" ")
        };
        let found = found.into_iter().chain([part(0), part(1)]);
        let errors = SPANS.map(|(us, _)| {
            let span = self.span(us);
            let [p50, p75] = [span.and_then(|s| s.error_p50), span.and_then(|s| s.error_p75)];
            format!("{} {}", number(p50, 3), number(p75, 3))
        });
        let bars = SPANS.map(|(us, _)| number(self.span(us).and_then(|s| s.coverage), 2));
        let missed = match self.missed() {
            missed if missed.is_empty() => "pass".to_owned(),
            missed => format!("miss: {}", missed.join(", ")),
        };
        found.chain(errors).chain(bars).chain([missed])
    }
}

/// The table of all rows (workload, set, method) that have pages; empty if there is none.
pub(super) fn format<'a>(
    rows: impl Iterator<Item = ([&'a str; 3], &'a ByPage, &'a [ByPage])>,
) -> String {
    let mut table = Table::new([
        "workload",
        "set",
        "method",
        "precision",
        "recall",
        "not measured",
        "after 5 s",
        "from 15 s",
        "wss 0.1 s",
        "wss 1 s",
        "wss 10 s",
        "bars 0.1 s",
        "bars 1 s",
        "bars 10 s",
        "goals",
    ]);
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    for (case, pages, parts) in rows {
        table.row(case.map(str::to_owned).into_iter().chain(pages.cells(parts)));
    }
    format!(
        "\nBy page, precision and recall: of the whole run, in the second after 5 s, and from 15 s on; \
         and working sets by span (errors p50 and p75, share of bars that hold the truth):\n\n\
         {}\nGoals: precision and recall >= {FOUND}, wss error <= {ERROR}, bars >= {COVERAGE}.\n",
        table.text()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"precision":0.99,"recall":0.9,"not_measured":0.01,"new":1,"spans":[
        {"span_us":5000,"error_p50":0.5,"error_p75":0.6,"coverage":0.1,"cases":9},
        {"span_us":100000,"error_p50":0.04,"error_p75":0.6,"coverage":0.8,"cases":9},
        {"span_us":1000000,"error_p50":0.06,"error_p75":0.6,"coverage":0.9,"cases":9},
        {"span_us":10000000,"error_p50":null,"error_p75":null,"coverage":null,"cases":0}]}"#;

    #[test]
    fn goals_are_held_against_pages_and_spans() {
        let pages: ByPage = serde_json::from_str(TEXT).unwrap();
        assert_eq!(pages.missed(), ["recall", "bars 0.1 s", "wss 1 s"]);
        let again = serde_json::to_value(&pages).unwrap();
        assert_eq!(again, serde_json::from_str::<Value>(TEXT).unwrap(), "no key is lost");
        let later = ByPage { recall: Some(1.0), ..pages.clone() };
        let parts = [pages.clone(), later];
        let table = format(std::iter::once((["sweep", "pagewalk", "census"], &pages, &parts[..])));
        let row = table.lines().find(|l| l.contains("sweep")).unwrap();
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(
            cells[4..15],
            [
                "0.990",
                "0.900",
                "0.010",
                "0.990 0.900",
                "0.990 1.000",
                "0.040 0.600",
                "0.060 0.600",
                "- -",
                "0.80",
                "0.90",
                "-"
            ]
        );
        assert_eq!(format(std::iter::empty()), "");
    }

    #[test]
    fn pages_go_before_regions() {
        let regions = r#""precision":0.5,"recall":0.4,"precision_clear":0.3,"wss_error_p50":2.0"#;
        let score = |more: &str| -> Score {
            serde_json::from_str::<Score>(&format!("{{{regions}{more}}}")).unwrap().by_page()
        };
        let without = score("");
        assert_eq!((without.precision, without.wss_error_p50), (Some(0.5), Some(2.0)));
        assert_eq!(without.more("precision_clear"), Some(0.3));
        let with = score(&format!(r#","pages":{TEXT}"#));
        assert_eq!((with.precision, with.recall), (Some(0.99), Some(0.9)));
        assert_eq!((with.wss_error_p50, with.coverage), (Some(0.04), Some(0.8)));
        assert_eq!(with.more("precision_clear"), None, "of the regions, so it says nothing");
    }
}
