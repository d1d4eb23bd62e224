//! One row per unit of 2 MiB that changed, with the pages that were touched within spans of time.

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, SPANS, UnitInfo};

use super::super::batch::{Batch, IntoValues, Maybe, PAGE_BYTES, Texts, Values, column};
use super::Rows;
use super::who::{Known, Stamp, name_of};
use crate::event::Event;
use crate::pages::Pages;

/// The names of the columns of the spans.
const NR_NAMES: [&str; SPANS] = [
    "nr_touched_sample",
    "nr_touched_window",
    "nr_touched_1s",
    "nr_touched_10s",
    "nr_touched_1min",
];
const NAMES: [&str; SPANS] =
    ["touched_sample", "touched_window", "touched_1s", "touched_10s", "touched_1min"];

/// The columns.
#[derive(Debug)]
pub(super) struct PageMaps {
    known: Known,
    stamp: Stamp,
    start: Vec<u64>,
    mapping: Maybe<Texts>,
    since_ns: Vec<u64>,
    leaf_sz: Vec<u64>,
    nr_present: Vec<u32>,
    nr_unresolved: Vec<u32>,
    nr_touched: [Maybe<Vec<u32>>; SPANS],
    present: Vec<[u8; PAGE_BYTES]>,
    unresolved: Vec<[u8; PAGE_BYTES]>,
    touched: [Maybe<PageColumn>; SPANS],
    found: Maybe<PageColumn>,
    found_after_ns: Maybe<Vec<u64>>,
    young: Maybe<PageColumn>,
}

/// Bits of pages. Arrays of 64 bytes have no default, so this is a type of its own.
#[derive(Debug, Clone, Default)]
struct PageColumn(Vec<[u8; PAGE_BYTES]>);

impl IntoValues for PageColumn {
    fn take(&mut self) -> (Values, Option<Vec<bool>>) {
        self.0.take()
    }
}

impl PageMaps {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            stamp: Stamp::default(),
            start: Vec::new(),
            mapping: Maybe::default(),
            since_ns: Vec::new(),
            leaf_sz: Vec::new(),
            nr_present: Vec::new(),
            nr_unresolved: Vec::new(),
            nr_touched: Default::default(),
            present: Vec::new(),
            unresolved: Vec::new(),
            touched: Default::default(),
            found: Maybe::default(),
            found_after_ns: Maybe::default(),
            young: Maybe::default(),
        }
    }

    fn pages(&mut self, pages: &Pages) {
        for changed in &pages.units {
            let window = usize::try_from(changed.window).ok().and_then(|nr| pages.windows.get(nr));
            let t_ns = window.map_or(0, |w| w.end.as_ns());
            let who = self.known.of(changed.target.0);
            self.stamp.push(&self.known, t_ns, who);
            let start = changed.unit.start;
            let range = AddrRange::new(start, start.saturating_add(UNIT));
            let mapping = who.and_then(|who| who.mapping(range, &mut 0));
            self.mapping.push_text(mapping.map(name_of));
            self.unit(&changed.unit);
        }
    }

    fn unit(&mut self, unit: &UnitInfo) {
        let nr = |pages: PageBits| u32::try_from(pages.count()).unwrap_or(u32::MAX);
        self.start.push(unit.start);
        self.since_ns.push(unit.since.as_ns());
        self.leaf_sz.push(leaf_sz(unit.leaf_shift));
        self.nr_present.push(nr(unit.present));
        self.nr_unresolved.push(nr(unit.unresolved));
        self.present.push(bytes(unit.present));
        self.unresolved.push(bytes(unit.unresolved));
        for (span, plane) in unit.touched.into_iter().enumerate() {
            self.nr_touched[span].push(plane.map(nr));
            self.touched[span].push_pages(plane.map(bytes));
        }
        self.found.push_pages(unit.found.map(bytes));
        let is_known = unit.found.is_some() && unit.young.is_some();
        self.found_after_ns.push(is_known.then_some(unit.found_after.as_ns()));
        self.young.push_pages(unit.young.map(bytes));
    }
}

impl Maybe<PageColumn> {
    fn push_pages(&mut self, pages: Option<[u8; PAGE_BYTES]>) {
        self.push_with(pages.is_some(), |values| values.0.push(pages.unwrap_or([0; PAGE_BYTES])));
    }
}

/// The bytes of a column of pages. The first page has the lowest bit of the first byte.
fn bytes(pages: PageBits) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(pages.0) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Bytes of a leaf; 0 for a logarithm that cannot be one.
fn leaf_sz(shift: u8) -> u64 {
    1_u64.checked_shl(shift.into()).unwrap_or(0)
}

impl Rows for PageMaps {
    fn push(&mut self, event: &Event<'_>) {
        self.known.learn(event);
        if let Event::Pages(pages) = event {
            self.pages(pages);
        }
    }

    fn rows(&self) -> usize {
        self.stamp.rows()
    }

    fn take(&mut self) -> Batch {
        let mut columns = vec![
            column("start", &mut self.start),
            column("mapping", &mut self.mapping),
            column("since_ns", &mut self.since_ns),
            column("leaf_sz", &mut self.leaf_sz),
            column("nr_present", &mut self.nr_present),
            column("nr_unresolved", &mut self.nr_unresolved),
        ];
        let nr = NR_NAMES.into_iter().zip(&mut self.nr_touched);
        columns.extend(nr.map(|(name, values)| column(name, values)));
        columns.push(column("present", &mut self.present));
        columns.push(column("unresolved", &mut self.unresolved));
        let touched = NAMES.into_iter().zip(&mut self.touched);
        columns.extend(touched.map(|(name, values)| column(name, values)));
        columns.push(column("found", &mut self.found));
        columns.push(column("found_after_ns", &mut self.found_after_ns));
        columns.push(column("young", &mut self.young));
        self.stamp.batch(columns)
    }
}
