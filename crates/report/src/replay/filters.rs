//! Filters of pages, as far as a record can answer them: by what is mapped where.
//!
//! Memory is left alone if a record cannot tell whether a filter matches it, as everywhere else.

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::scheme::{FilterKind, Filters};
use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, MappingKind, PageBits};
use isotherm_record::Mapping;

use super::What;
use super::pages::Unit;

/// Whether a record can answer this filter.
pub(super) const fn is_known(kind: &FilterKind) -> bool {
    !matches!(kind, FilterKind::Active | FilterKind::Memcg(_) | FilterKind::Unmapped)
}

/// The pages of the unit at `start` that the filters let in.
pub(super) fn let_in(what: &What, mappings: &[Mapping], start: u64, unit: &Unit) -> PageBits {
    let filters = &what.scheme.filters;
    if filters.ops.is_empty() {
        return PageBits::ALL;
    }
    if !filters.ops.iter().all(|filter| is_known(&filter.kind)) {
        return PageBits::default();
    }
    let end = start.saturating_add(UNIT);
    let first = mappings.partition_point(|m| m.end <= start);
    let here = mappings[first..].iter().take_while(|m| m.start < end);
    here.fold(PageBits::default(), |all, mapping| {
        let pages = PageBits::of(start, AddrRange::new(mapping.start, mapping.end));
        let of = |is_young| {
            if decided(what, filters, mapping, unit, is_young) {
                pages
            } else {
                PageBits::default()
            }
        };
        let (young, old) = (of(true).and(unit.young()), of(false).minus(unit.young()));
        all.or(young).or(old)
    })
}

fn decided(what: &What, filters: &Filters, m: &Mapping, unit: &Unit, is_young: bool) -> bool {
    filters.ops_allow(|kind| match kind {
        FilterKind::Anon => is_anonymous(m.kind),
        FilterKind::File => matches!(m.kind, MappingKind::File | MappingKind::Library),
        FilterKind::Shared => m.perms.ends_with('s'),
        FilterKind::Mapping(nr) => (what.matches_mapping)(*nr, &m.name),
        FilterKind::HugepageSize(least, most) => {
            (*least..=*most).contains(if unit.is_huge() { &UNIT } else { &PAGE_SIZE })
        }
        FilterKind::Young => is_young,
        // The core has decided these; the others are not known.
        FilterKind::Addr(_) | FilterKind::Target(_) => false,
        FilterKind::Active | FilterKind::Memcg(_) | FilterKind::Unmapped => false,
    })
}

/// Memory that goes to swap.
pub(super) const fn is_anonymous(kind: MappingKind) -> bool {
    matches!(kind, MappingKind::Anonymous | MappingKind::Heap | MappingKind::Stack)
}
