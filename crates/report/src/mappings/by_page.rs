//! Hot and cold pages of mappings, where the record has page maps.
//!
//! A page is *hot* if it was touched within a window, and *cold* if it was not touched within the
//! longest span that was measured, at least a second. Other pages are neither. The numbers are
//! means over looks at the page maps, one per second of the record.

use std::collections::BTreeMap;

use isotherm_core::AddrRange;
use serde::Serialize;

use crate::filter::Filter;
use crate::numbers::to_u64;
use crate::page_maps::{Brief, PageMap};
use crate::shown::float;

/// Time between two looks, in ns.
const LOOK_NS: u64 = 1_000_000_000;

/// Mean bytes by what is known of pages.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PageHeat {
    /// Pages that were touched within a window.
    pub hot: f64,
    /// Pages that were not touched for the longest span that was measured.
    pub cold: f64,
    /// Pages that are there.
    pub present: f64,
}

impl PageHeat {
    pub(super) fn plus(&mut self, other: &Self) {
        self.hot += other.hot;
        self.cold += other.cold;
        self.present += other.present;
    }
}

/// Sums over the looks, by the index of the line.
#[derive(Debug, Default)]
pub(super) struct ByPage {
    lines: BTreeMap<usize, PageHeat>,
    /// When each target was looked at last, and how often.
    looks: BTreeMap<u32, (u64, u32)>,
}

impl ByPage {
    /// Looks at a target's page map if a second has passed since the last look. `ranges`: its
    /// mappings, each with its line.
    pub(super) fn look(
        &mut self,
        id: u32,
        now_ns: u64,
        map: &PageMap,
        ranges: &[(AddrRange, usize)],
        filter: &Filter,
    ) {
        let (last, nr) = self.looks.entry(id).or_insert((0, 0));
        if *nr > 0 && now_ns.saturating_sub(*last) < LOOK_NS {
            return;
        }
        (*last, *nr) = (now_ns, nr.saturating_add(1));
        let keep = filter.address.unwrap_or(AddrRange::new(0, u64::MAX));
        for (range, line) in ranges {
            let cut = AddrRange::new(range.start.max(keep.start), range.end.min(keep.end));
            let Brief { hot, cold, present } = Brief::of(map, cut);
            let [hot, cold, present] = [hot, cold, present].map(float);
            self.lines.entry(*line).or_default().plus(&PageHeat { hot, cold, present });
        }
    }

    /// The means of a line of this target.
    pub(super) fn mean(&self, id: u32, line: usize) -> Option<PageHeat> {
        let (_, nr) = self.looks.get(&id)?;
        let sum = self.lines.get(&line)?;
        let mean = |sum: f64| sum / f64::from(*nr);
        Some(PageHeat { hot: mean(sum.hot), cold: mean(sum.cold), present: mean(sum.present) })
    }
}

/// The means as JSON.
#[derive(Serialize)]
pub(super) struct JsonPages {
    hot: u64,
    cold: u64,
    present: u64,
}

impl JsonPages {
    pub(super) fn of(heat: &PageHeat) -> Self {
        let PageHeat { hot, cold, present } = *heat;
        Self { hot: to_u64(hot), cold: to_u64(cold), present: to_u64(present) }
    }
}
