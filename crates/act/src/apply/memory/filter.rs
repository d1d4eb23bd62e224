//! The ops filters on physical memory, folio by folio (R§4.9): what a frame's flags, mark and
//! charge say.

use std::collections::BTreeMap;

use isotherm_core::scheme::{FilterKind, Filters};
use isotherm_pages::frames::Flags;
use isotherm_pages::paddr::FrameKind;

use super::view::Seg;

/// Decides about folios for one request.
#[derive(Debug, Default)]
pub(super) struct FrameFilter {
    /// If there are none, all folios are let in.
    pub(super) filters: Option<Filters>,
    /// The inodes of the scheme's cgroups, by number; or why there is none.
    pub(super) memcgs: Vec<Result<u64, String>>,
    /// What each folio is charged to, by its first frame.
    pub(super) charged: BTreeMap<u64, u64>,
}

impl FrameFilter {
    /// Whether charges have to be known.
    pub(super) fn asks_charges(&self) -> bool {
        let asks = |f: &Filters| f.ops.iter().any(|f| matches!(f.kind, FilterKind::Memcg(_)));
        self.filters.as_ref().is_some_and(asks)
    }

    /// Whether a folio is let in.
    ///
    /// # Errors
    ///
    /// The reason why that cannot be known. The folio is not let in then.
    pub(super) fn lets_in(&self, folio: &Seg) -> Result<bool, String> {
        let Some(filters) = &self.filters else { return Ok(true) };
        for filter in &filters.ops {
            if let Some(allow) = filter.decide(self.is_of(filter.kind, folio)?) {
                return Ok(allow);
            }
        }
        Ok(!filters.ops_default_reject())
    }

    fn is_of(&self, kind: FilterKind, folio: &Seg) -> Result<bool, String> {
        let flags = folio.flags;
        Ok(match kind {
            FilterKind::Anon => FrameKind::of(flags) == FrameKind::Anon,
            FilterKind::File => FrameKind::of(flags) != FrameKind::Anon,
            FilterKind::Active => flags.has(Flags::ACTIVE),
            FilterKind::Young => !folio.idle,
            FilterKind::Unmapped => !flags.has(Flags::MMAP),
            FilterKind::HugepageSize(min, max) => (min..=max).contains(&(folio.len << 12)),
            FilterKind::Memcg(nr) => {
                let known = usize::try_from(nr).ok().and_then(|nr| self.memcgs.get(nr));
                match known {
                    Some(Ok(inode)) => self.charged.get(&folio.head) == Some(inode),
                    Some(Err(why)) => return Err(why.clone()),
                    None => {
                        return Err(format!(
                            "filter `memcg` names cgroup {nr}, which is not there"
                        ));
                    }
                }
            }
            FilterKind::Shared | FilterKind::Mapping(_) => {
                return Err("filters by mapping are for processes: physical memory has no mappings\n  hint:  \
                            filter by memcg, anon, unmapped, active, young or hugepage_size"
                    .to_owned());
            }
            // The core evaluates these filters.
            FilterKind::Addr(_) | FilterKind::Target(_) => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::scheme::Filter;

    use super::*;

    fn folio(flags: u64, len: u64, idle: bool) -> Seg {
        Seg { head: 512, len, flags: Flags(flags), idle }
    }

    #[test]
    fn each_filter_asks_the_frame() {
        let (lru, anon, mmap, active) =
            (Flags::LRU.0, Flags::ANON.0, Flags::MMAP.0, Flags::ACTIVE.0);
        let page = folio(lru | anon | mmap | active, 1, false);
        let huge = folio(lru | anon | mmap, 512, true);
        let cache = folio(lru, 16, true);
        for (kind, expected) in [
            (FilterKind::Anon, [true, true, false]),
            (FilterKind::File, [false, false, true]),
            (FilterKind::Active, [true, false, false]),
            (FilterKind::Young, [true, false, false]),
            (FilterKind::Unmapped, [false, false, true]),
            (FilterKind::HugepageSize(2 << 20, u64::MAX), [false, true, false]),
            (FilterKind::HugepageSize(0, 64 << 10), [true, false, true]),
            (FilterKind::Memcg(0), [true, true, true]),
            (FilterKind::Memcg(1), [false, false, false]),
        ] {
            for allow in [true, false] {
                let ops = vec![Filter { kind, matching: true, allow }];
                let filter = FrameFilter {
                    filters: Some(Filters { ops, ..Filters::default() }),
                    memcgs: vec![Ok(77), Ok(78)],
                    charged: BTreeMap::from([(512, 77)]),
                };
                let got = [page, huge, cache].map(|f| filter.lets_in(&f).unwrap());
                assert_eq!(got, expected.map(|is| is == allow), "{kind:?}, allow {allow}");
            }
        }
    }

    #[test]
    fn what_cannot_be_known_is_told() {
        for kind in [FilterKind::Mapping(0), FilterKind::Shared, FilterKind::Memcg(3)] {
            let ops = vec![Filter { kind, matching: true, allow: true }];
            let filters = Some(Filters { ops, ..Filters::default() });
            let filter = FrameFilter { filters, ..FrameFilter::default() };
            assert!(filter.lets_in(&folio(0, 1, false)).is_err(), "{kind:?}");
        }
        assert_eq!(FrameFilter::default().lets_in(&folio(0, 1, false)), Ok(true));
    }
}
