//! The event `damon_aggregated`, as `perf script` and `trace-cmd report` print it, or damo:
//!
//! ```text
//! kdamond.0 4452 [000] 877.315: damon:damon_aggregated: target_id=0 nr_regions=17 4096-8192: 0 3
//! ```
//!
//! The numbers behind the addresses are `nr_accesses` and, not in old kernels, `age`. Other lines
//! are left out. A line that is of this event but cannot be read is counted.

use std::io::BufRead;

use isotherm_core::AddrRange;

use super::series::{Accesses, Region, Series, Window};
use super::{EVENT, Found};
use crate::error::Error;

/// No line of such a text is longer.
const LONGEST: usize = 1 << 16;

/// One line.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line<'a> {
    end_ns: u64,
    target: &'a str,
    nr_regions: usize,
    range: AddrRange,
    /// Negative in the window that damo makes up.
    nr_accesses: i64,
    age: i64,
}

/// Reads such a text.
pub(super) fn read(name: &str, mut input: impl BufRead) -> Result<Found, Error> {
    let mut found = Reading::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let got = std::io::Read::take(&mut input, LONGEST as u64).read_until(b'\n', &mut line);
        if got.map_err(Error::io(format!("read {name}")))? == 0 {
            break;
        }
        if line.windows(EVENT.len()).any(|part| part == EVENT) {
            match std::str::from_utf8(&line).ok().and_then(parse) {
                Some(line) => found.take(&line),
                None => found.bad += 1,
            }
        }
    }
    found.finish();
    let mut notes = Vec::new();
    if found.bad > 0 {
        notes.push(format!("{} of its lines could not be read", found.bad));
    }
    if found.incomplete > 0 {
        notes.push(format!("{} of its windows lack regions: events were lost", found.incomplete));
    }
    Ok((found.series, notes))
}

fn parse(line: &str) -> Option<Line<'_>> {
    let (head, rest) = line.split_once("damon_aggregated:")?;
    let time = head.trim_end().trim_end_matches("damon:").trim_end().strip_suffix(':')?;
    let end_ns = seconds(time.split_whitespace().next_back()?)?;
    let mut words = rest.split_whitespace();
    let target = words.next()?.strip_prefix("target_id=")?;
    let nr_regions = words.next()?.strip_prefix("nr_regions=")?.parse().ok()?;
    let (start, end) = words.next()?.strip_suffix(':')?.split_once('-')?;
    let range = AddrRange::new(start.parse().ok()?, end.parse().ok()?);
    let nr_accesses = words.next()?.parse().ok()?;
    let age = words.next().map_or(Some(0), |age| age.parse().ok())?;
    Some(Line { end_ns, target, nr_regions, range, nr_accesses, age })
}

/// Seconds with up to nine digits behind the point, in ns. A float would round them.
fn seconds(text: &str) -> Option<u64> {
    let (s, ns) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if s.is_empty() || !is_digits(s) || !is_digits(ns) || ns.len() > 9 {
        return None;
    }
    let ns: u64 = format!("{ns:0<9}").parse().ok()?;
    s.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// What was read so far.
#[derive(Debug, Default)]
struct Reading {
    series: Vec<Series>,
    /// The window whose regions are coming: its series, and how many regions it should have.
    open: Option<(usize, usize)>,
    bad: u64,
    incomplete: u64,
}

impl Reading {
    fn take(&mut self, line: &Line<'_>) {
        if line.nr_accesses < 0 {
            return self.made_up(line);
        }
        let at = self.series_of(line.target);
        let last = self.series[at].windows.last().and_then(|w| w.regions.last());
        let goes_on = self.open == Some((at, line.nr_regions))
            && last.is_some_and(|last| last.range.end <= line.range.start);
        if !goes_on {
            self.finish();
            self.open = Some((at, line.nr_regions));
            let window = Window { end_ns: line.end_ns, ..Window::default() };
            self.series[at].windows.push(window);
        }
        let (Ok(nr), Ok(age)) = (u32::try_from(line.nr_accesses), u32::try_from(line.age)) else {
            self.bad += 1;
            return;
        };
        let Some(window) = self.series[at].windows.last_mut() else { return };
        if line.range.start < line.range.end {
            let accesses = Accesses::Samples(nr);
            window.regions.push(Region { range: line.range, accesses, age });
        }
        if window.regions.len() >= line.nr_regions {
            self.open = None;
        }
    }

    /// A window that was not completed before the next one began.
    fn finish(&mut self) {
        self.incomplete += u64::from(self.open.take().is_some());
    }

    /// damo ends a text of a single window with one that begins where that ended, and is as long.
    fn made_up(&mut self, line: &Line<'_>) {
        let at = self.series_of(line.target);
        if let [only] = &mut self.series[at].windows[..] {
            let length = line.end_ns.saturating_sub(only.end_ns);
            only.start_ns = Some(only.end_ns.saturating_sub(length));
        }
    }

    fn series_of(&mut self, target: &str) -> usize {
        self.series.iter().position(|s| s.target == target).unwrap_or_else(|| {
            self.series.push(Series { target: target.into(), ..Series::default() });
            self.series.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_tool() {
        let rest = "target_id=3 nr_regions=11 8360624128-8371830784: 7 974";
        for head in [
            "kdamond.0  129062 [004] 101005.778382: damon:damon_aggregated: ",
            "kdamond.0-129062 [005] ..... 101005.778382: damon_aggregated:     ",
            "<...>-129062 [000] 101005.778382: damon_aggregated: ",
            "kdamond.x xxxx xxxx 101005.778382: damon:damon_aggregated: ",
        ] {
            let line = format!("{head}{rest}");
            let want = Line {
                end_ns: 101_005_778_382_000,
                target: "3",
                nr_regions: 11,
                range: AddrRange::new(8_360_624_128, 8_371_830_784),
                nr_accesses: 7,
                age: 974,
            };
            assert_eq!(parse(&line), Some(want), "{line}");
        }
        let old = "k 1 [0] 1.5: damon:damon_aggregated: target_id=0 nr_regions=1 0-4096: 2";
        assert_eq!(parse(old).map(|line| (line.end_ns, line.age)), Some((1_500_000_000, 0)));
        for bad in ["", "k 1 [0] x: damon:damon_aggregated: target_id=0 nr_regions=1 0-4096: 2"] {
            assert_eq!(parse(bad), None);
        }
    }

    #[test]
    fn lost_events_are_told() {
        let line = |t, start: u64| {
            format!(
                "k 1 [0] {t}: damon:damon_aggregated: target_id=0 nr_regions=2 {start}-{}: 2 1\n",
                start + 4096
            )
        };
        let text =
            [line("1.0", 0), line("1.1", 0), line("1.1", 4096), "k damon_aggregated: ?\n".into()];
        let (series, notes) = read("r", text.concat().as_bytes()).unwrap();
        let lens: Vec<_> = series[0].windows.iter().map(|w| w.regions.len()).collect();
        assert_eq!(lens, [1, 2]);
        assert_eq!(notes.len(), 2, "{notes:?}");
    }
}
