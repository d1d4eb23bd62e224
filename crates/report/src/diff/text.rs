//! The comparison as text.

use std::fmt::{Result, Write};

use isotherm_core::units::{mib, span};

use super::{Bytes, Report, Verdict};
use crate::ages::class_name;
use crate::mappings::kind_name;
use crate::shown::{float, written};

/// Most lines of mappings. The JSON has all.
const MOST_LINES: usize = 20;
/// Changes below this are not worth a line, in bytes.
const SMALL: f64 = 4096.0;

impl Report {
    /// The comparison as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        written(|out| self.text(out))
    }

    fn text(&self, out: &mut String) -> Result {
        for (name, side) in ["before", "after"].iter().zip(&self.sides) {
            let length = span(float(side.seen_ns));
            writeln!(out, "{name:<7} {}: {} snapshots in {length}", side.target, side.snapshots)?;
            if !side.caveats.is_empty() {
                writeln!(out, "        note: {}", side.caveats)?;
            }
        }
        for difference in &self.differences {
            writeln!(out, "warning: measured differently, so numbers may differ: {difference}")?;
        }
        self.working_sets(out)?;
        self.mappings(out)?;
        self.ages(out)
    }

    fn working_sets(&self, out: &mut String) -> Result {
        writeln!(
            out,
            "\n{:<22} {:>12} {:>12} {:>12}   {:<28} is",
            "working set, mean", "before", "after", "change", "90 % interval of the change"
        )?;
        for set in &self.working_sets {
            let [before, after] = [&set.before, &set.after].map(|b: &Bytes| mib(float(b.bytes)));
            let [change, lo, hi] = set.change.map(signed);
            let is = match set.verdict {
                Verdict::Larger => "larger",
                Verdict::Smaller => "smaller",
                Verdict::WithinError => "within the error",
            };
            let interval = format!("{lo} .. {hi}");
            writeln!(
                out,
                "{:<22} {before:>12} {after:>12} {change:>12}   {interval:<28} {is}",
                set.name
            )?;
        }
        writeln!(
            out,
            "the interval is that of measuring; how much runs of the workload differ is not in it"
        )
    }

    fn mappings(&self, out: &mut String) -> Result {
        let changed = self
            .mappings
            .iter()
            .filter(|m| m.change().abs() >= SMALL || (m.after.cold - m.before.cold).abs() >= SMALL);
        let changed: Vec<_> = changed.collect();
        writeln!(
            out,
            "\n{:>12} {:>12} {:>12} {:>12} {:>12}  mapping, by change",
            "accessed", "after", "change", "cold", "after"
        )?;
        for m in changed.iter().take(MOST_LINES) {
            let [before, after] = [m.before, m.after].map(|h| mib(h.hot + h.warm));
            let whose = m.program.iter().map(|p| format!(" of {p}")).collect::<String>();
            writeln!(
                out,
                "{before:>12} {after:>12} {:>12} {:>12} {:>12}  {} {}{whose}",
                signed(m.change()),
                mib(m.before.cold),
                mib(m.after.cold),
                kind_name(m.kind),
                m.name
            )?;
        }
        match changed.len() {
            0 => writeln!(out, "{:>12} no mapping changed by a page or more", ""),
            n if n > MOST_LINES => writeln!(out, "{:>12} {} more", "", n - MOST_LINES),
            _ => Ok(()),
        }
    }

    fn ages(&self, out: &mut String) -> Result {
        writeln!(
            out,
            "\n{:>20} {:>12} {:>12} {:>12}",
            "idle for, mean", "before", "after", "change"
        )?;
        let used = self.ages.iter().rposition(|a| a.mean_bytes != [0, 0]).map_or(0, |nr| nr + 1);
        for age in &self.ages[..used] {
            let [before, after] = age.mean_bytes.map(float);
            writeln!(
                out,
                "{:>20} {:>12} {:>12} {:>12}",
                class_name(age.idle_ms, age.below_ms),
                mib(before),
                mib(after),
                signed(after - before)
            )?;
        }
        Ok(())
    }
}

/// Bytes with their sign.
fn signed(bytes: f64) -> String {
    let sign = match bytes {
        b if b >= 0.5 => "+",
        b if b <= -0.5 => "-",
        _ => "",
    };
    format!("{sign}{}", mib(bytes.abs()))
}
