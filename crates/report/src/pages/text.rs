//! The report on pages as text.

use std::fmt::{Result, Write};

use isotherm_core::units::{mib, span};

use super::Report;
use crate::mappings::kind_name;
use crate::page_maps::{KnownAge, PageSums, span_name};
use crate::shown::{float, written};

/// Largest number of lines of mappings. The JSON has all.
const MOST_LINES: usize = 40;

impl Report {
    /// The mappings as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        written(|out| self.mappings_text(out))
    }

    /// The units as text.
    #[must_use]
    pub fn units_text(&self) -> String {
        written(|out| self.units_table(out))
    }

    fn title_text(&self, out: &mut String) -> Result {
        let at = span(float(self.t_ns.saturating_sub(self.origin_ns)));
        write!(out, "pages of {} at {at}", self.title)
    }

    fn mappings_text(&self, out: &mut String) -> Result {
        self.title_text(out)?;
        writeln!(out, ": bytes that were touched within each span")?;
        write!(out, "{:>12} {:>12}", "mapped", "present")?;
        for us in self.spans_us {
            write!(out, " {:>12} ", span_name(us))?;
        }
        writeln!(out, " {:>12} {:>12} {:>17}  mapping", "unresolved", "not measured", "made old")?;
        let several = self.lines.iter().any(|l| l.pid != self.lines[0].pid);
        for l in self.lines.iter().take(MOST_LINES) {
            let whose =
                if several { format!(" of {} ({})", l.target, l.pid) } else { String::new() };
            sums_line(
                out,
                &l.sums,
                &age(l.age),
                &format!("{} {}{whose}", kind_name(l.kind), l.name),
            )?;
        }
        if self.lines.len() > MOST_LINES {
            let mut rest = PageSums::default();
            self.lines[MOST_LINES..].iter().for_each(|l| rest.plus(&l.sums));
            sums_line(out, &rest, "", &format!("{} more", self.lines.len() - MOST_LINES))?;
        }
        sums_line(out, &self.total, &age(self.age), "all")?;
        if self.age.is_some() {
            writeln!(
                out,
                "made old: how long ago, of half of the pages at most, and of the oldest; spans begin \
                 then"
            )?;
        }
        let partial = |l: &PageSums| (0..l.touched.len()).any(|nr| is_at_least(l, nr));
        if partial(&self.total) {
            writeln!(out, "+: at least; some of these pages were not measured for so long")?;
        }
        self.note(out)
    }

    fn units_table(&self, out: &mut String) -> Result {
        self.title_text(out)?;
        writeln!(out, ": pages of each 2 MiB that were touched within each span")?;
        write!(out, "{:>18} {:>8}", "start", "present")?;
        self.spans_us.iter().try_for_each(|us| write!(out, " {:>8}", span_name(*us)))?;
        writeln!(out, " {:>10} {:>20}  mapping", "unresolved", "idle")?;
        let several = self.units.iter().any(|l| l.pid != self.units[0].pid);
        for l in &self.units {
            write!(out, "{:>#18x} {:>8}", l.unit.start, l.unit.present.count())?;
            for plane in l.unit.touched {
                let nr = plane.map_or("-".into(), |plane| plane.count().to_string());
                write!(out, " {nr:>8}")?;
            }
            let whose =
                if several { format!(" of {} ({})", l.target, l.pid) } else { String::new() };
            let (unresolved, idle) = (l.unit.unresolved.count(), idle(&l.idle_ms));
            writeln!(out, " {unresolved:>10} {idle:>20}  {}{whose}", l.mapping)?;
        }
        if !self.units.is_empty() {
            writeln!(
                out,
                "idle: for how long the 64 KiB that were touched last, and those untouched for longest, \
                 are idle (JSON has all)"
            )?;
        }
        self.note(out)
    }

    fn note(&self, out: &mut String) -> Result {
        if self.damage.is_empty() { Ok(()) } else { writeln!(out, "note: {}", self.damage) }
    }
}

/// Whether the number of a span is only a lower bound.
const fn is_at_least(sums: &PageSums, span: usize) -> bool {
    sums.touched[span].measured > 0 && sums.is_partial(span)
}

/// The age of what is known: of half of the pages, and of the oldest.
fn age(age: Option<KnownAge>) -> String {
    let Some(KnownAge { median_ns, oldest_ns }) = age else { return "-".into() };
    let [median, oldest] = [median_ns, oldest_ns].map(|ns| span(float(ns)));
    format!("{median}, {oldest}")
}

/// The shortest and the longest time for which cells have been idle.
fn idle(cells_ms: &[Option<u64>]) -> String {
    let known = || cells_ms.iter().copied().flatten();
    let (Some(least), Some(most)) = (known().min(), known().max()) else { return "-".into() };
    let shown = |ms: u64| if ms == 0 { "0".into() } else { span(float(ms * 1_000_000)) };
    if least == most { shown(least) } else { format!("{} .. {}", shown(least), shown(most)) }
}

fn sums_line(out: &mut String, sums: &PageSums, age: &str, name: &str) -> Result {
    let of = |bytes: u64| mib(float(bytes));
    write!(out, "{:>12} {:>12}", of(sums.mapped), of(sums.present))?;
    for (nr, touched) in sums.touched.iter().enumerate() {
        let bytes = if touched.measured == 0 { "-".into() } else { of(touched.bytes) };
        write!(out, " {bytes:>12}{}", if is_at_least(sums, nr) { '+' } else { ' ' })?;
    }
    let (unresolved, not_measured) = (of(sums.unresolved), of(sums.not_measured));
    writeln!(out, " {unresolved:>12} {not_measured:>12} {age:>17}  {name}")
}
