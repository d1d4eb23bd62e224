//! A replay as text.

use std::fmt::Write;

use isotherm_core::units::{counted, mib, percent, span};

use super::{Report, SchemeReport};
use crate::price::{interval, shares};
use crate::shown::{float, written};

impl Report {
    /// The report as lines.
    #[must_use]
    pub fn to_text(&self) -> String {
        written(|out| {
            writeln!(out, "{}: {} over {}", self.context, span(self.len_s * 1e9), self.title)?;
            writeln!(
                out,
                "  of {} that were resident {} are paged out on average ({}), in the second half {}",
                mib(self.recorded),
                mib(self.saved),
                percent(self.saved_share),
                percent(self.saved_share_late)
            )?;
            writeln!(
                out,
                "  in the second half {:.1} pages come back per second: {} slower, at {} µs a page ({})",
                self.pages_back_per_s,
                shares(self.slowdown),
                interval(self.price.us, &|us| format!("{us:.1}")),
                self.price.source
            )?;
            if self.bloat > 0.0 {
                writeln!(out, "  huge pages add {} that is not resident now", mib(self.bloat))?;
            }
            for scheme in &self.schemes {
                write!(out, "{}", scheme.text())?;
            }
            self.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
        })
    }
}

impl SchemeReport {
    fn text(&self) -> String {
        written(|out| {
            write!(out, "  {} ({}): ", self.name, self.action)?;
            if self.action == "stat" {
                return writeln!(out, "matched {}", mib(float(self.tried_bytes)));
            }
            let share = |bytes: f64| percent(bytes / self.done_bytes.max(1.0));
            writeln!(
                out,
                "acts on {}; touched again soon {} ({}), by the end {} ({})",
                mib(self.done_bytes),
                mib(self.refaulted_bytes),
                share(self.refaulted_bytes),
                mib(self.returned_bytes),
                share(self.returned_bytes)
            )?;
            writeln!(
                out,
                "    quota used up {}, at most {} in a window",
                counted(self.quota_exceeds, "time"),
                mib(float(self.max_window_bytes))
            )
        })
    }
}
