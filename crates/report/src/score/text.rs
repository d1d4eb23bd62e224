//! The score as text.

use std::fmt::{Display, Formatter, Result};

use super::{PageScore, Score};
use crate::page_maps::span_name;

impl Display for Score {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.1} %", x * 100.0));
        let number = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.0}"));
        let mib = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.1} MiB", x / 1_048_576.0));
        #[expect(clippy::cast_precision_loss, reason = "a size shown with one decimal")]
        let rss = self.rss_bytes.map(|b| b as f64);
        let seen = self.changes - self.changes_missed;
        let delay = self.detection_delay_ms.map_or("-".into(), |ms| format!("{ms:.0} ms"));
        let cpu = self.cpu_percent.map_or("-".into(), |x| format!("{x:.2} % of one CPU"));
        let pair = |a, b| format!("{} / {}", percent(a), percent(b));
        let precision = pair(self.precision, self.recall);
        let clear = pair(self.precision_clear, self.recall_clear);
        let wss = format!("{} / {}", mib(self.wss_estimated_bytes), mib(self.wss_true_bytes));
        let changes = format!("{delay} ({seen} of {} changes seen)", self.changes);
        let ms = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.0} ms"));
        let ways = format!("{} / {}", ms(self.delay_to_hot_ms), ms(self.delay_to_cold_ms));
        let rows = [
            ("precision / recall of hot bytes", precision),
            ("  away from the limit", clear),
            ("working set, estimated / true", wss),
            ("working-set error, p50 / p75", pair(self.wss_error_p50, self.wss_error_p75)),
            ("mean error of the rate", percent(self.rate_error)),
            ("detection delay, median", changes),
            ("  what turned hot / cold", ways),
            ("coverage of the error bars", percent(self.coverage)),
            ("  mean width of these bars", percent(self.bars_width)),
            ("not resolved", percent(self.unresolved)),
            ("monitor's CPU", cpu),
            ("monitor's memory", mib(rss)),
            ("clears per second", number(self.clears_per_sec)),
            ("checks per second", number(self.checks_per_sec)),
            ("regions, mean", number(self.regions)),
            ("windows judged / left out", format!("{} / {}", self.windows, self.windows_left_out)),
        ];
        for (what, value) in rows {
            writeln!(f, "{what:<31} {value}")?;
        }
        self.pages.as_ref().map_or(Ok(()), |pages| by_page(f, pages))
    }
}

fn by_page(f: &mut Formatter<'_>, pages: &PageScore) -> Result {
    let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.1} %", x * 100.0));
    let mib = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.1} MiB", x / 1_048_576.0));
    let pair = |a, b| format!("{} / {}", percent(a), percent(b));
    for (what, value) in [
        ("precision / recall of hot pages", pair(pages.precision, pages.recall)),
        ("  away from the limit", pair(pages.precision_clear, pages.recall_clear)),
        ("  not measured", percent(pages.not_measured)),
    ] {
        writeln!(f, "{what:<31} {value}")?;
    }
    for span in pages.spans.iter().filter(|span| span.cases > 0) {
        let what = format!("within {}, estimated / true", span_name(span.span_us));
        writeln!(f, "{what:<31} {} / {}", mib(span.estimated_bytes), mib(span.true_bytes))?;
        let errors = pair(span.error_p50, span.error_p75);
        writeln!(f, "{:<31} {errors}", "  error, p50 / p75")?;
        let covered = format!("{} of {} cases", percent(span.coverage), span.cases);
        writeln!(f, "{:<31} {covered}", "  truth inside the interval")?;
    }
    Ok(())
}
