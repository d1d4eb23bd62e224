//! Idle ages by single pages, where a record has page maps.
//!
//! A page that was touched within the window is accessed now. One that was touched within a longer
//! span, and not within the span before, is touched again and again after about that time. So it
//! counts as idle for the middle of the two spans, by factors: within 10 s and not within 1 s is
//! 3.2 s. A page that no span shows has been idle since its unit was made old when it was last
//! found touched, or since it was mapped. Pages that nobody has looked at for a whole span yet are
//! unresolved.
//!
//! A page that several targets share is as idle as in the target that used it last.
//!
//! Invariants: what is touched after the longest span counts as touched when its unit is made old
//! again, if the record tells it (format version 2). Sums are made at most once per second.

use std::collections::BTreeMap;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, PageBits, SPANS, Snapshot, Time, UnitInfo};
use isotherm_record::once::{Sharing, counted_again};

use super::{CLASSES_MS, Histogram, class_of};
use crate::filter::Filter;
use crate::scan::Scan;
use crate::shown::float;

/// Time between two sums, in ns.
const LOOK_NS: u64 = 1_000_000_000;
/// Times since when pages of a unit are idle that are told apart.
const MOST_TIMES: usize = 6;
/// The classes, and what is unresolved.
const KINDS: usize = CLASSES_MS.len() + 1;

/// What is known of one unit.
#[derive(Debug, Clone)]
struct Unit {
    info: UnitInfo,
    /// Pages that were found touched since it was made old.
    used: PageBits,
    /// Since when other pages are idle, in ns, the oldest first. No page is in two of them.
    idle: Vec<(u64, PageBits)>,
}

impl Unit {
    fn new(info: UnitInfo) -> Self {
        let idle = vec![(info.since.0, info.present)];
        Self { info, used: found(&info), idle }
    }

    /// Takes in what a window that ended at `now` told.
    fn learn(&mut self, info: UnitInfo, now: Time) {
        let new = info.present.minus(self.info.present);
        if info.since == self.info.since {
            self.used = self.used.or(found(&info));
        } else {
            // What was found when it was made old was touched before.
            let woke = self.used.or(info.found.unwrap_or_default()).and(info.present);
            self.idle_since(woke, info.since.0);
            self.used = found(&UnitInfo { found: None, ..info });
        }
        self.idle_since(new, now.0);
        self.idle.iter_mut().for_each(|(_, pages)| *pages = pages.and(info.present));
        self.idle.retain(|(_, pages)| !pages.is_empty());
        if self.idle.len() > MOST_TIMES {
            let (_, oldest) = self.idle.remove(0);
            self.idle[0].1 = self.idle[0].1.or(oldest);
        }
        self.info = info;
    }

    fn idle_since(&mut self, pages: PageBits, since_ns: u64) {
        if !pages.is_empty() {
            self.idle.iter_mut().for_each(|(_, older)| *older = older.minus(pages));
            self.idle.push((since_ns, pages));
        }
    }

    /// Its pages by class, and those of which nothing is known.
    fn kinds(&self, spans_us: [u64; SPANS], now_ns: u64) -> [PageBits; KINDS] {
        let mut out = [PageBits::default(); KINDS];
        let mut take = |kind: usize, pages: PageBits| out[kind] = out[kind].or(pages);
        let UnitInfo { present, unresolved, touched, .. } = self.info;
        let unresolved = unresolved.and(present);
        take(KINDS - 1, unresolved);
        let mut left = present.minus(unresolved);
        let mut longest_ms = None;
        for (nr, plane) in touched.iter().enumerate() {
            let Some(plane) = plane else { continue };
            take(class_of_span(nr, spans_us), left.and(*plane));
            left = left.minus(*plane);
            longest_ms = Some(spans_us[nr] / 1000);
        }
        let Some(longest_ms) = longest_ms else {
            take(KINDS - 1, left);
            return out;
        };
        // Touched after the longest span.
        take(class_of(longest_ms), left.and(self.used));
        left = left.minus(self.used);
        for (since_ns, pages) in &self.idle {
            take(class_of(now_ns.saturating_sub(*since_ns) / 1_000_000), left.and(*pages));
        }
        out
    }
}

/// The pages that were found touched, by spans and otherwise.
fn found(info: &UnitInfo) -> PageBits {
    let planes = info.touched.into_iter().flatten();
    planes.fold(info.found.unwrap_or_default(), PageBits::or).and(info.present)
}

/// The class of a page that a span shows, and no shorter one.
fn class_of_span(nr: usize, spans_us: [u64; SPANS]) -> usize {
    let window_us = spans_us[1];
    if nr <= 1 || spans_us[nr] <= window_us {
        return 0;
    }
    let shorter_us = spans_us[nr - 1].max(window_us);
    class_of(((shorter_us / 1000) * (spans_us[nr] / 1000)).isqrt())
}

/// What a record tells by pages.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) now: Histogram,
    pub(super) mean: Histogram,
    /// Bytes of all targets at the end, and the mean, with what they share counted in each.
    pub(super) apart_now: f64,
    pub(super) apart: f64,
    pub(super) is_shared: bool,
}

/// The targets whose single pages are known.
#[derive(Debug, Default)]
pub(super) struct ByPage {
    targets: BTreeMap<u32, BTreeMap<u64, Unit>>,
    /// Addresses that count, if not all.
    keep: Option<AddrRange>,
    spans_us: [u64; SPANS],
    now_ns: u64,
    looked_ns: Option<u64>,
    nr_looks: f64,
    sums: Told,
}

impl ByPage {
    /// Takes in what a snapshot's window told. Returns whether it is time for a sum.
    pub(super) fn learn(&mut self, scan: &Scan, s: &Snapshot, filter: &Filter) -> bool {
        self.keep = filter.address;
        self.targets.retain(|id, _| s.targets.iter().any(|t| t.id.0 == *id));
        for (_, t) in scan.wanted(s) {
            let Some(map) = scan.pages.get(t.id) else {
                self.targets.remove(&t.id.0);
                continue;
            };
            let Some(units) = self.targets.get_mut(&t.id.0) else {
                let units = map.units.iter().map(|(start, info)| (*start, Unit::new(*info)));
                self.targets.insert(t.id.0, units.collect());
                continue;
            };
            for (_, start) in scan.pages.changed().iter().filter(|(id, _)| *id == t.id) {
                let Some(info) = map.units.get(start).copied() else { continue };
                match units.get_mut(start) {
                    Some(unit) => unit.learn(info, s.end),
                    None => drop(units.insert(*start, Unit::new(info))),
                }
            }
        }
        (self.spans_us, self.now_ns) = (scan.pages.spans_us(), s.end.0);
        let is_due = self.looked_ns.is_none_or(|at| s.end.0.saturating_sub(at) >= LOOK_NS);
        // The first page maps of a record come up to a second late.
        is_due && self.targets.values().any(|units| !units.is_empty())
    }

    /// Adds how it is now to the means.
    pub(super) fn look(&mut self, sharing: &Sharing) {
        self.looked_ns = Some(self.now_ns);
        let (now, apart, is_shared) = self.sum(sharing);
        self.nr_looks += 1.0;
        self.sums.mean.plus(&now, 1.0);
        self.sums.apart += apart;
        self.sums.is_shared |= is_shared;
    }

    /// All pages now; all of them with those that are shared counted in each target; and whether
    /// any are.
    fn sum(&self, sharing: &Sharing) -> (Histogram, f64, bool) {
        let keep = self.keep.unwrap_or(AddrRange::new(0, u64::MAX));
        // Cumulative: a page that targets share is in the class of the one that used it last.
        let cumulative = |unit: &Unit| {
            let pages = PageBits::of(unit.info.start, keep);
            let mut kinds = unit.kinds(self.spans_us, self.now_ns);
            let mut sum = PageBits::default();
            kinds.iter_mut().for_each(|kind| {
                sum = sum.or(kind.and(pages));
                *kind = sum;
            });
            kinds
        };
        let (mut bytes, mut shared) = ([0_u64; KINDS], Vec::new());
        for (id, units) in &self.targets {
            for unit in units.values() {
                let kinds = cumulative(unit);
                bytes
                    .iter_mut()
                    .zip(kinds)
                    .for_each(|(sum, kind)| *sum += kind.count() * PAGE_SIZE);
            }
            if self.targets.len() > 1 {
                let infos = units.iter().filter(|(start, _)| sharing.takes_in(*id, **start));
                let infos = infos.map(|(start, unit)| (*start, unit.info)).collect();
                shared.extend(
                    sharing.shared_units(*id, &infos, |info| cumulative(&units[&info.start])),
                );
            }
        }
        let apart = float(bytes[KINDS - 1]);
        let again = counted_again(shared.iter());
        bytes.iter_mut().zip(again).for_each(|(bytes, again)| *bytes -= again);
        let mut out = Histogram::default();
        let mut before = 0;
        for (class, sum) in bytes.iter().enumerate() {
            // A union of sets that grow with the class grows as well.
            let here = float(sum.saturating_sub(before));
            before = *sum;
            match out.bytes.get_mut(class) {
                Some(bytes) => *bytes = here,
                None => out.unresolved = here,
            }
        }
        (out, apart, again[KINDS - 1] > 0)
    }

    /// What was told, if any target has page maps.
    pub(super) fn finish(self, sharing: &Sharing) -> Option<Told> {
        if self.nr_looks < 1.0 {
            return None;
        }
        let (now, apart_now, is_shared) = self.sum(sharing);
        let mut told = Told { now, apart_now, is_shared, ..Told::default() };
        told.mean.plus(&self.sums.mean, 1.0 / self.nr_looks);
        told.apart = self.sums.apart / self.nr_looks;
        told.is_shared |= self.sums.is_shared;
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const SPANS_US: [u64; SPANS] = [5_000, 100_000, 1_000_000, 10_000_000, 60_000_000];

    fn first(nr: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(0, nr * PAGE_SIZE))
    }

    fn info(since_s: u64, touched: [Option<PageBits>; SPANS]) -> UnitInfo {
        let present = first(100);
        UnitInfo { since: Time(since_s * S), present, touched, ..UnitInfo::default() }
    }

    /// Pages by the lower end of their class in ms; `None` stands for unresolved ones.
    fn ages(unit: &Unit, now_s: u64) -> Vec<(Option<u64>, u64)> {
        let kinds = unit.kinds(SPANS_US, now_s * S).map(PageBits::count);
        let named = kinds.iter().enumerate().map(|(nr, pages)| (CLASSES_MS.get(nr), pages));
        named.filter(|(_, nr)| **nr > 0).map(|(class, nr)| (class.copied(), *nr)).collect()
    }

    #[test]
    fn a_page_is_idle_for_as_long_as_the_spans_and_the_times_before_tell() {
        let mut unit = Unit::new(info(10, [None; SPANS]));
        assert_eq!(ages(&unit, 11), [(None, 100)], "nobody has looked");
        let spans = [Some(first(10)), Some(first(20)), Some(first(40)), None, None];
        unit.learn(info(10, spans), Time(12 * S));
        assert_eq!(ages(&unit, 12), [(Some(0), 20), (Some(1), 20), (Some(2000), 60)]);
        // Gone over once per second: in use, however long ago it was made old.
        assert_eq!(ages(&unit, 40)[..2], [(Some(0), 20), (Some(1), 20)]);
        // Made old again. Ten more pages were touched meanwhile, late; the others never.
        let found = UnitInfo { found: Some(first(50)), ..info(70, spans) };
        unit.learn(found, Time(71 * S));
        let later = [(Some(0), 20), (Some(1), 20), (Some(2000), 10), (Some(60_000), 50)];
        assert_eq!(ages(&unit, 73), later);
        // What was hot is not touched any more: it is idle since it was made old.
        let none = [Some(PageBits::default()); SPANS];
        unit.learn(info(200, none), Time(261 * S));
        assert_eq!(ages(&unit, 261), [(Some(60_000), 40), (Some(120_000), 60)]);
    }

    #[test]
    fn pages_that_are_mapped_later_are_young_and_the_oldest_times_become_one() {
        let none = [Some(PageBits::default()); SPANS];
        let mut unit = Unit::new(UnitInfo { present: first(1), ..info(0, none) });
        for nr in 1..20 {
            let more = UnitInfo { present: first(nr + 1), ..info(0, none) };
            unit.learn(more, Time(nr * 100 * S));
        }
        assert_eq!(unit.idle.len(), MOST_TIMES);
        assert_eq!(ages(&unit, 2000).iter().map(|(_, nr)| nr).sum::<u64>(), 20);
        assert_eq!(ages(&unit, 2000)[0], (Some(60_000), 1), "{:?}", ages(&unit, 2000));
        // Some are gone.
        unit.learn(UnitInfo { present: first(5), ..info(0, none) }, Time(3000 * S));
        assert_eq!(ages(&unit, 3000).iter().map(|(_, nr)| nr).sum::<u64>(), 5);
    }
}
