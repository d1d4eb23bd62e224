//! Idle ages by single pages, where a record has page maps.
//!
//! For how long a page has been idle is told by [`IdleUnit`].
//!
//! A page that several targets share is as idle as in the target that used it last.
//!
//! Invariant: sums are made at most once per second.

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, PageBits, SPANS, Snapshot};
use isotherm_record::once::{Sharing, counted_again};

use super::{CLASSES_MS, Histogram, class_of};
use crate::filter::Filter;
use crate::page_maps::{Idle, IdleUnit, learn};
use crate::scan::Scan;
use crate::shown::float;

/// Time between two sums, in ns.
const LOOK_NS: u64 = 1_000_000_000;
/// The classes, and what is unresolved.
const KINDS: usize = CLASSES_MS.len() + 1;

/// The pages of a unit by class, and those of which nothing is known.
fn kinds_of(unit: &IdleUnit, spans_us: [u64; SPANS], now_ns: u64) -> [PageBits; KINDS] {
    let mut out = [PageBits::default(); KINDS];
    let (ages, unresolved) = unit.ages(spans_us, now_ns);
    out[KINDS - 1] = unresolved;
    for (ms, pages) in ages {
        let class = if ms == 0 { 0 } else { class_of(ms) };
        out[class] = out[class].or(pages);
    }
    out
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
    targets: Idle,
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
        self.targets.retain(|id, _| s.targets.iter().any(|t| t.id == *id));
        for (_, t) in scan.wanted(s) {
            learn(&mut self.targets, &scan.pages, t.id, s.end);
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
        let cumulative = |unit: &IdleUnit| {
            let pages = PageBits::of(unit.info.start, keep);
            let mut kinds = kinds_of(unit, self.spans_us, self.now_ns);
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
                let infos = units.iter().filter(|(start, _)| sharing.takes_in(id.0, **start));
                let infos = infos.map(|(start, unit)| (*start, unit.info)).collect();
                shared.extend(
                    sharing.shared_units(id.0, &infos, |info| cumulative(&units[&info.start])),
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
