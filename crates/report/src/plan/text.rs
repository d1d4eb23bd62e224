//! The plan as text.

use std::fmt::Write;

use isotherm_core::units::{mib, percent, span, three_digits};

use super::{Choice, Report, Row};
use crate::numbers::to_usize;
use crate::price::{Estimate, interval, shares};
use crate::shown::written;

const BAR: f64 = 20.0;

impl Report {
    /// The plan as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        written(|out| self.text(out))
    }

    fn text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "plan for {}: recorded for {}, {} resident on average, {} of it anonymous",
            self.title,
            span(self.len_s * 1e9),
            mib(self.resident),
            percent(self.anonymous / self.resident.max(1.0)),
        )?;
        writeln!(out, "\npaging out what was idle for so long, with 90 % intervals")?;
        writeln!(
            out,
            "{:>9}  {:<22} {:<BAR$} {:>11}  {:<24} slowdown",
            "idle for",
            "saves",
            "",
            "leaves",
            "pages back per s",
            BAR = to_usize(BAR) + 2,
        )?;
        let chosen = self.chosen().map(|row| row.age_s.to_bits());
        for row in &self.rows {
            let mark = if chosen == Some(row.age_s.to_bits()) { '>' } else { ' ' };
            line(out, row, mark)?;
        }
        let cpus = if self.price.cpus > 1.0 {
            format!(", while it keeps {} CPUs busy", three_digits(self.price.cpus))
        } else {
            String::new()
        };
        let us = interval(self.price.us, &|us| format!("{} us", three_digits(us)));
        writeln!(out, "a page that comes back costs {us}{cpus} ({})", self.price.source)?;
        if let Some(work) = self.price.work_per_s {
            writeln!(out, "the program does {} units of work per second", three_digits(work))?;
        }
        writeln!(out, "\n{}", self.verdict())?;
        self.huge_text(out)?;
        self.tier_text(out)?;
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    /// The recommendation, in a sentence.
    #[must_use]
    pub fn verdict(&self) -> String {
        let mut limits = format!("at most {} slower", percent(self.limits.max_slowdown));
        if let Some(most) = self.limits.max_refaults {
            limits += &format!(", at most {} of memory back per minute", percent(most));
        }
        if let Some(least) = self.limits.save {
            limits += &format!(", at least {} saved", percent(least));
        }
        match (&self.choice, self.chosen()) {
            (Choice::Nothing { why }, _) => {
                format!("limit: {limits}. No idle time is recommended: {why}.")
            }
            (_, None) => String::new(),
            (_, Some(row)) => {
                let price = self.price.work_per_s.map_or(String::new(), |work| {
                    let lost = interval(row.slowdown.times(work), &three_digits);
                    format!(", and costs {lost} units of work per second")
                });
                format!(
                    "limit: {limits}. Recommended: page out what is idle for {}; that saves {}, \
                     {}{price}.",
                    span(row.age_s * 1e9),
                    percent(row.saved_share.mid),
                    mib(row.saved.mid)
                )
            }
        }
    }

    fn huge_text(&self, out: &mut String) -> std::fmt::Result {
        if self.huge.hot == 0 {
            return Ok(());
        }
        writeln!(out, "\nhuge pages where at least so many of 512 pages are used within a second")?;
        writeln!(out, "{:>9} {:>13} {:>13} {:>18}", "used", "huge", "bloat", "of used pages")?;
        let mut last = 0;
        for row in &self.huge_pages {
            // A line that adds nothing to the one above is left out.
            if row.bytes == std::mem::replace(&mut last, row.bytes) {
                continue;
            }
            writeln!(
                out,
                "{:>9} {:>13} {:>13} {:>18}",
                percent(row.min_touched),
                bytes(row.bytes),
                bytes(row.bloat),
                percent(row.hot_share)
            )?;
        }
        writeln!(out, "{} is in huge pages already", bytes(self.huge.already))
    }

    fn tier_text(&self, out: &mut String) -> std::fmt::Result {
        if self.fast_node.is_empty() {
            return Ok(());
        }
        writeln!(out, "\naccesses that stay fast if only so much memory is, and the rest slow")?;
        for row in &self.fast_node {
            let accesses = shares(row.accesses);
            let (fast, size) = (percent(row.fast), mib(row.bytes));
            writeln!(out, "{fast:>9} {size:>13}   {accesses}")?;
        }
        Ok(())
    }
}

fn line(out: &mut String, row: &Row, mark: char) -> std::fmt::Result {
    let age = span(row.age_s * 1e9);
    let saves = shares(row.saved_share);
    let bar = bar(row.saved_share);
    let (left, refaults) = (mib(row.left.mid), interval(row.refaults_per_s, &three_digits));
    let slowdown = shares(row.slowdown);
    writeln!(out, "{mark}{age:>8}  {saves:<22} |{bar}| {left:>11}  {refaults:<24} {slowdown}")
}

/// A bar as `####++--`, as of working sets.
fn bar(share: Estimate) -> String {
    let at = |x: f64| to_usize(x.clamp(0.0, 1.0) * BAR);
    let (lo, mid, hi) = (at(share.lo), at(share.mid), at(share.hi));
    let used = "#".repeat(lo) + &"+".repeat(mid - lo) + &"-".repeat(hi - mid);
    format!("{used:<width$}", width = to_usize(BAR))
}

fn bytes(n: u64) -> String {
    isotherm_core::units::bytes(n)
}
