//! The filter: which times, addresses and targets of a record a report is about.

use isotherm_core::units;
use isotherm_core::{AddrRange, RegionInfo};
use isotherm_record::Target;

use crate::error::Error;

/// The part of a record to report on. The default is all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Windows that overlap `[from, to)`, in ns since the start of the first snapshot.
    pub time: Option<(u64, u64)>,
    /// Addresses. Regions are cut at the ends of the range.
    pub address: Option<AddrRange>,
    /// Targets by pid or name; empty for all.
    pub targets: Vec<String>,
}

impl Filter {
    /// Reads `A..B`. Each end is a time since the start (`5s`, `2m`, `250ms`), and may be left
    /// out.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] with the reason.
    pub fn parse_time(text: &str) -> Result<(u64, u64), Error> {
        let usage = |why: &str| {
            Error::Usage(format!(
                "time `{text}`: {why}\n  hint:  write FROM..TO since the start, for example 5s..1m"
            ))
        };
        let (from, to) = text.split_once("..").ok_or_else(|| usage("no `..`"))?;
        let side = |s: &str, missing: u64, which: &str| match s.trim() {
            "" => Ok(missing),
            s => units::span_ns(s).map_err(|why| usage(&format!("the {which} time: {why}"))),
        };
        let from = side(from, 0, "first")?;
        let to = side(to, u64::MAX, "second")?;
        if from >= to {
            return Err(usage("the end is not behind the start"));
        }
        Ok((from, to))
    }

    /// Reads `A-B`: hexadecimal addresses with `0x`, decimal ones, or with a unit (`4G`).
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] with the reason.
    pub fn parse_address(text: &str) -> Result<AddrRange, Error> {
        let usage = |why: &str| {
            Error::Usage(format!(
                "address range `{text}`: {why}\n  hint:  write FROM-TO, for example 0x7f0000000000-0x7f0040000000"
            ))
        };
        let (start, end) = text.split_once('-').ok_or_else(|| usage("no `-`"))?;
        let read = |s| units::address(s).map_err(|_why| usage("an address cannot be read"));
        let range = AddrRange::new(read(start)?, read(end)?);
        if range.is_empty() {
            return Err(usage("the end is not behind the start"));
        }
        Ok(range)
    }

    /// Whether a window passes the filter. Its begin and end are in ns since the start.
    #[must_use]
    pub fn has_window(&self, start: u64, end: u64) -> bool {
        self.time.is_none_or(|(from, to)| end > from && start < to)
    }

    /// Whether a target passes the filter.
    #[must_use]
    pub fn has_target(&self, target: &Target) -> bool {
        self.targets.is_empty()
            || self
                .targets
                .iter()
                .any(|want| *want == target.name || want.parse() == Ok(target.pid))
    }

    /// The regions that pass the filter, cut at the ends of the address range.
    pub fn regions<'a>(
        &'a self,
        regions: &'a [RegionInfo],
    ) -> impl Iterator<Item = RegionInfo> + 'a {
        self.regions_around(regions, 0)
    }

    /// The same with so many bytes on each side of the address range.
    pub(crate) fn regions_around<'a>(
        &'a self,
        regions: &'a [RegionInfo],
        bytes: u64,
    ) -> impl Iterator<Item = RegionInfo> + 'a {
        let keep = self.address.map_or(AddrRange::new(0, u64::MAX), |keep| {
            AddrRange::new(keep.start.saturating_sub(bytes), keep.end.saturating_add(bytes))
        });
        regions.iter().filter_map(move |r| {
            let start = r.range.start.max(keep.start);
            let end = r.range.end.min(keep.end);
            (start < end).then_some(RegionInfo { range: AddrRange::new(start, end), ..*r })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, want) in [
            ("5s..10s", Some((5_000_000_000, 10_000_000_000))),
            ("5..10", None),
            ("250ms..2m", Some((250_000_000, 120_000_000_000))),
            ("..3s", Some((0, 3_000_000_000))),
            ("3s..", Some((3_000_000_000, u64::MAX))),
            ("5", None),
            ("9s..3s", None),
            ("a..b", None),
        ] {
            assert_eq!(Filter::parse_time(text).ok(), want, "{text}");
        }
        let error = Filter::parse_time("9s..3s").unwrap_err().to_string();
        assert!(error.contains("the end is not behind the start") && error.contains("hint:"));
    }

    #[test]
    fn addresses() {
        for (text, want) in [
            ("0x1000-0x2000", Some(AddrRange::new(0x1000, 0x2000))),
            ("1G-2G", Some(AddrRange::new(1 << 30, 2 << 30))),
            ("0x2000-0x1000", None),
            ("zz-0x1000", None),
            ("0x1000", None),
        ] {
            assert_eq!(Filter::parse_address(text).ok(), want, "{text}");
        }
    }
}
