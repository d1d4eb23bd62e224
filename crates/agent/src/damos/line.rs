//! Reads one line of the two formats that were written by hand (RFC v6 and `damo schemes`).
//!
//! Numbers with units are read by the grammar of [`isotherm_core::units`]. The rest of the formats
//! is kept as it was, since such files still exist: `null`, `min` and `max` for an open end,
//! percent without a sign for frequencies, and µs without a unit for ages.

use std::ops::Range;

use isotherm_core::scheme::{
    Age, Bounds, Frequency, Pattern, Quota, WatermarkMetric, Watermarks, Weights,
};
use isotherm_core::units::{self, UnitError};
use isotherm_core::{Attrs, Scheme};

use super::raw;
use crate::policy::action::available;
use crate::text::TextError;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// RFC v6: `null`.
    Rfc,
    /// `damo schemes`: `min`, `max`.
    Damo,
}

/// A word at its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    at: usize,
}

impl Word<'_> {
    pub(super) fn span(&self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    pub(super) fn error(&self, what: impl Into<String>) -> TextError {
        TextError::new(self.span(), what)
    }

    fn dialect(&self) -> Option<Dialect> {
        match self.text {
            "null" => Some(Dialect::Rfc),
            "min" | "max" => Some(Dialect::Damo),
            _ => None,
        }
    }
}

/// A line with a scheme.
#[derive(Debug, Clone)]
pub(super) struct Line<'a> {
    words: Vec<Word<'a>>,
}

impl<'a> Line<'a> {
    /// The lines of a text that are not empty.
    pub(super) fn all(text: &'a str) -> impl Iterator<Item = Self> {
        let mut at = 0;
        text.split_inclusive('\n').filter_map(move |line| {
            let start = at;
            at += line.len();
            let line = line.split('#').next().unwrap_or(line);
            let offset = |word: &str| start + (word.as_ptr().addr() - line.as_ptr().addr());
            let words: Vec<_> =
                line.split_whitespace().map(|text| Word { text, at: offset(text) }).collect();
            if words.is_empty() { None } else { Some(Self { words }) }
        })
    }

    /// The scheme of this line.
    pub(super) fn scheme(&self, dialect: Dialect, attrs: &Attrs) -> Result<Scheme, Vec<TextError>> {
        if self.words.get(6).is_some_and(|word| word.text.bytes().all(|b| b.is_ascii_digit())) {
            return raw::scheme(&self.words);
        }
        let [sz_min, sz_max, freq_min, freq_max, age_min, age_max, action, more @ ..] =
            self.words.as_slice()
        else {
            return Err(vec![self.wrong_count()]);
        };
        let (time, rest) = match (dialect, more) {
            (_, []) => (None, more),
            (Dialect::Damo, [time, rest @ ..]) if rest.len() == 10 => (Some(time), rest),
            (Dialect::Damo, rest) if matches!(rest.len(), 2 | 5 | 10) => (None, rest),
            _ => return Err(vec![self.wrong_count()]),
        };
        let mut read = Reader { dialect, attrs, errors: Vec::new() };
        let sz = read.bounds([sz_min, sz_max], "size", u64::MAX, Reader::size);
        let nr = read.bounds([freq_min, freq_max], "frequency", u32::MAX.into(), Reader::samples);
        let age = read.bounds([age_min, age_max], "age", u32::MAX.into(), Reader::windows);
        let action = available(action.text, action.span(), false);
        let action = action.map_err(|error| read.errors.push(error));
        let mut quota = Quota::default();
        if let [size, interval, ..] = rest {
            quota.sz = read.of(size, Reader::size);
            quota.ms = time.map_or(0, |time| read.of(time, |r, w| Ok(r.us(w)? / 1000)));
            quota.reset_interval_ms = read.of(interval, Reader::window);
        }
        if let [_, _, sz, nr, age, ..] = rest {
            quota.weights = Weights {
                sz: read.of(sz, Reader::whole),
                nr_accesses: read.of(nr, Reader::whole),
                age: read.of(age, Reader::whole),
            };
        }
        let mut watermarks = Watermarks::default();
        if let [_, _, _, _, _, metric, interval, high, mid, low] = rest {
            watermarks = Watermarks {
                metric: read.of(metric, Reader::metric),
                interval_us: read.of(interval, Reader::us),
                high: read.of(high, Reader::whole),
                mid: read.of(mid, Reader::whole),
                low: read.of(low, Reader::whole),
            };
        }
        let Ok(action) = action else { return Err(read.errors) };
        if !read.errors.is_empty() {
            return Err(read.errors);
        }
        let to_u32 = |b: Bounds<u64>| {
            let cut = |x| u32::try_from(x).unwrap_or(u32::MAX);
            Bounds::new(cut(b.min), cut(b.max))
        };
        let nr_accesses = Frequency::Samples(to_u32(nr));
        let pattern = Pattern { sz, nr_accesses, age: Age::Windows(to_u32(age)) };
        Ok(Scheme { pattern, action, quota, watermarks, ..Scheme::default() })
    }

    fn wrong_count(&self) -> TextError {
        let (first, last) = (self.words.first(), self.words.last());
        let span = first.map_or(0, |w| w.at)..last.map_or(0, |w| w.span().end);
        TextError::new(span, format!("a scheme of {} fields", self.words.len())).hint(
            "min_size max_size min_freq max_freq min_age max_age action; with `min` and `max`, then \
             [quota_time] quota_size reset_interval, w_size w_freq w_age, \
             wmark_metric interval high mid low",
        )
    }
}

impl Dialect {
    /// The format of these lines. The first word that only one format has decides.
    pub(super) fn of(lines: &[Line<'_>]) -> Result<Self, TextError> {
        let words = || lines.iter().flat_map(|line| &line.words);
        let Some(first) = words().find_map(Word::dialect) else { return Ok(Self::Damo) };
        match words().find(|word| word.dialect().is_some_and(|other| other != first)) {
            None => Ok(first),
            Some(other) => Err(other
                .error(format!("`{}` in a file of the other format", other.text))
                .why("`null` is of the first format (RFC v6), `min` and `max` of the later one (damo)")
                .hint("say all bounds in one of the two ways")),
        }
    }
}

/// Reads words, and collects the errors.
struct Reader<'a> {
    dialect: Dialect,
    attrs: &'a Attrs,
    errors: Vec<TextError>,
}

type Read<T> = Result<T, UnitError>;

impl Reader<'_> {
    fn of<T: Default>(&mut self, word: &Word<'_>, read: impl FnOnce(&Self, &str) -> Read<T>) -> T {
        read(self, word.text).unwrap_or_else(|e| {
            self.errors.push(word.error(e.to_string()));
            T::default()
        })
    }

    /// A range; `most` is the largest that there is.
    fn bounds(
        &mut self,
        words: [&Word<'_>; 2],
        what: &str,
        most: u64,
        read: impl Fn(&Self, &str) -> Read<u64>,
    ) -> Bounds<u64> {
        let before = self.errors.len();
        let [min, max] = words.map(|word| self.of(word, &read));
        let max = match self.dialect {
            // In this format 0 means no bound. A bound that was rounded down to 0 has to stay a
            // bound.
            Dialect::Rfc if max == 0 && (self.attrs.strict || is_zero(words[1].text)) => most,
            _ => max,
        };
        if max < min && self.errors.len() == before {
            let error = words[1].error(format!("{what}: the range is upside down"));
            let (min, max) = (words[0].text, words[1].text);
            self.errors
                .push(error.why(format!("`{min}` is more than `{max}`: no region could match")));
        }
        Bounds::new(min, max)
    }

    fn size(&self, text: &str) -> Read<u64> {
        match text {
            "null" | "min" => Ok(0),
            "max" => Ok(u64::MAX),
            text => units::size(text),
        }
    }

    /// A frequency in percent, as samples per window.
    fn samples(&self, text: &str) -> Read<u64> {
        let text = match text {
            "null" | "min" => "0",
            "max" => "100",
            text => text,
        };
        let (number, unit) = units::split(text)?;
        if !matches!(unit, "" | "%") {
            return Err(UnitError::Unknown { unit: unit.to_owned(), known: "%" });
        }
        // Millionths of a percent are finer than any number in such files.
        let millionths = number.times(1_000_000)?;
        if millionths > 100_000_000 {
            return Err(UnitError::TooLarge);
        }
        let (aggr, sample) = (self.attrs.aggr_us, self.attrs.sample_us.max(1));
        let samples = u128::from(millionths) * u128::from(aggr) / u128::from(sample) / 100_000_000;
        u64::try_from(samples).ok().ok_or(UnitError::TooLarge)
    }

    /// An age, as windows.
    fn windows(&self, text: &str) -> Read<u64> {
        let us = match text {
            "null" | "min" => 0,
            "max" if self.attrs.strict => u32::MAX.into(),
            "max" => return Ok(u32::MAX.into()),
            text => units::interval_us(text)?,
        };
        let windows = us / self.attrs.aggr_us.max(1);
        if windows > u32::MAX.into() { Err(UnitError::TooLarge) } else { Ok(windows) }
    }

    fn us(&self, text: &str) -> Read<u64> {
        match text {
            "min" => Ok(0),
            "max" => Ok(raw::LONGEST_MS * 1000),
            text => units::interval_us(text),
        }
    }

    /// The length of a quota window, in ms.
    fn window(&self, text: &str) -> Read<u64> {
        Ok((self.us(text)? / 1000).min(raw::LONGEST_MS))
    }

    fn whole<T: std::str::FromStr>(&self, text: &str) -> Read<T> {
        text.parse().ok().ok_or(UnitError::Form { expected: "a whole number" })
    }

    fn metric(&self, text: &str) -> Read<WatermarkMetric> {
        match text {
            "none" => Ok(WatermarkMetric::None),
            "free_mem_rate" => Ok(WatermarkMetric::FreeMemRate),
            _ => Err(UnitError::Form { expected: "`none` or `free_mem_rate`" }),
        }
    }
}

fn is_zero(text: &str) -> bool {
    text == "null" || units::split(text).is_ok_and(|(number, _)| number.is_zero())
}
