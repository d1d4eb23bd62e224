//! What processes share, so that sums over any of them count it once.
//!
//! Which parts of their memory are the same is told by their mappings (`record::once`). A page that
//! several processes show is as hot as in the one in which it is hottest. Pages of their own that
//! are still the same after a fork are not known, and count in each of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use isotherm::raw::core::{PageBits, RegionInfo, Temperature, UnitInfo};
use isotherm::raw::record::once::{SharedUnit, Sharing, counted_again};
use isotherm::raw::report::page_maps::PageMap;
use isotherm::raw::report::wss::without;

use super::{COLUMNS, Row, Tiers};

/// What pages are counted for: the three working sets, what is hot, that and warm, that and cold,
/// and all.
const PLANES: usize = 7;

/// The processes that share memory, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Sharers {
    sharing: Arc<Sharing>,
    members: BTreeMap<u32, Arc<Member>>,
    aggr_us: u64,
    /// Whether the rows' sizes are those of their regions, as in a record.
    sizes_are_regions: bool,
    /// What was asked before, by the pids. The same sums are drawn again and again.
    known: Mutex<HashMap<Vec<u32>, Again>>,
}

/// What is known of a process's shared memory.
#[derive(Debug)]
pub(crate) enum Member {
    /// Its pages.
    Pages(Vec<SharedUnit<PLANES>>),
    /// The target's number, and its regions, if single pages are not known.
    Regions(u32, Vec<RegionInfo>),
}

impl Member {
    /// Of a target with this page map, or with these regions if it has none.
    pub(crate) fn of(
        sharing: &Sharing,
        id: u32,
        map: Option<&PageMap>,
        regions: &[RegionInfo],
    ) -> Self {
        match map {
            Some(map) => {
                let mut units = sharing.shared_units(id, &map.units, planes);
                units.shrink_to_fit();
                Self::Pages(units)
            }
            None => Self::Regions(id, regions.to_vec()),
        }
    }
}

/// What a sum counts more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Again {
    rss: u64,
    within: [u64; 3],
    tiers: Tiers,
}

impl Sharers {
    /// These processes, by their pids, in a window of so long.
    pub(crate) fn new(
        sharing: Arc<Sharing>,
        members: BTreeMap<u32, Arc<Member>>,
        aggr_us: u64,
        sizes_are_regions: bool,
    ) -> Self {
        Self { sharing, members, aggr_us, sizes_are_regions, known: Mutex::default() }
    }

    /// What a sum over these processes counts again.
    pub(crate) fn again(&self, pids: impl IntoIterator<Item = u32>) -> Again {
        let mut pids: Vec<u32> = pids.into_iter().collect();
        pids.retain(|pid| self.members.contains_key(pid));
        if pids.len() < 2 {
            return Again::default();
        }
        pids.sort_unstable();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(pids).or_insert_with_key(|pids| self.count(pids))
    }

    fn count(&self, pids: &[u32]) -> Again {
        let members = || pids.iter().filter_map(|pid| self.members.get(pid).map(Arc::as_ref));
        let units = members().filter_map(|member| match member {
            Member::Pages(units) => Some(units),
            Member::Regions(..) => None,
        });
        let [second, ten, minute, hot, warm, cold, all] = counted_again(units.flatten());
        // What is counted again of hot pages is counted again of hot and warm ones as well.
        let tiers = Tiers { hot, warm: warm - hot, cold: cold - warm, unresolved: all - cold };
        let mut again = Again { rss: all, within: [second, ten, minute], tiers };

        let regions = members().filter_map(|member| match member {
            Member::Regions(id, regions) => Some((*id, regions.clone())),
            Member::Pages(_) => None,
        });
        let regions: Vec<_> = regions.collect();
        let tiers_of = |regions: &[RegionInfo]| Tiers::of_regions(regions, self.aggr_us);
        let mut apart = Tiers::default();
        regions.iter().for_each(|(_, regions)| apart.add(tiers_of(regions)));
        let once = self.sharing.regions(regions.into_iter());
        let once: Vec<RegionInfo> = once.into_iter().map(|(_, region)| region).collect();
        apart.take_away(tiers_of(&once));
        again.tiers.add(apart);
        if self.sizes_are_regions {
            again.rss += apart.total();
        }
        again
    }
}

/// What the pages of a unit are counted for.
fn planes(unit: &UnitInfo) -> [PageBits; PLANES] {
    let Temperature { hot, ten, minute, cold, present } = Temperature::of(unit, PageBits::ALL);
    let known = present.minus(unit.unresolved);
    let within = |nr: usize| unit.touched[COLUMNS.start + nr].unwrap_or_default().and(known);
    let warm = hot.or(ten).or(minute);
    [within(0), within(1), within(2), hot, warm, warm.or(cold), present]
}

impl Again {
    /// Whether anything is counted again.
    pub(crate) fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Takes it off a sum.
    pub(crate) fn take_off(&self, sum: &mut Row) {
        sum.rss = sum.rss.map(|rss| rss.saturating_sub(self.rss));
        for (within, again) in sum.within.iter_mut().zip(self.within) {
            *within = within.map(|sum| without(sum, again));
        }
        sum.tiers.take_away(self.tiers);
    }
}

#[cfg(test)]
mod tests {
    use isotherm::raw::core::unit::UNIT;
    use isotherm::raw::core::{AddrRange, SPANS};
    use isotherm::raw::record::{Mapping, Object};

    use super::*;

    const PAGE: u64 = 4096;

    fn pages(from: u64, to: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(from * PAGE, to * PAGE))
    }

    /// A target with a shared unit at 0 and a unit of its own behind that, in which pages `hot` are
    /// touched within a second and pages `warm` within ten.
    fn map(hot: PageBits, warm: PageBits) -> PageMap {
        let mut touched = [None; SPANS];
        (touched[2], touched[3]) = (Some(hot), Some(hot.or(warm)));
        let unit = |start| UnitInfo {
            start,
            present: pages(0, 100),
            touched,
            unresolved: pages(90, 100),
            ..UnitInfo::default()
        };
        PageMap { units: [(0, unit(0)), (UNIT, unit(UNIT))].into(), touched: None }
    }

    /// Three processes; the last one maps nothing of the file.
    fn sharing() -> Sharing {
        let of = |inode| {
            let object = Object { device: 1, inode, offset: 0 };
            let shared = Mapping::new(0, UNIT, "rw-s", "/x").of_object(object);
            [shared, Mapping::new(UNIT, 2 * UNIT, "rw-p", "")]
        };
        let mut sharing = Sharing::default();
        [(1, 5), (2, 5), (3, 6)]
            .into_iter()
            .for_each(|(id, inode)| sharing.learn(id, 1, &of(inode)));
        sharing
    }

    /// Processes with the numbers of their targets and ten more as pids.
    fn sharers(members: &[(u32, Option<PageMap>, Vec<RegionInfo>)], sizes: bool) -> Sharers {
        let sharing = Arc::new(sharing());
        let member = |(id, map, regions): &(u32, Option<PageMap>, Vec<RegionInfo>)| {
            (id + 10, Arc::new(Member::of(&sharing, *id, map.as_ref(), regions)))
        };
        let members = members.iter().map(member).collect();
        Sharers::new(Arc::clone(&sharing), members, 1_000_000, sizes)
    }

    #[test]
    fn a_shared_page_counts_once_and_is_as_hot_as_where_it_is_hottest() {
        let one = |id, hot, warm| (id, Some(map(hot, warm)), Vec::new());
        let members = [
            one(1, pages(0, 10), pages(10, 20)),
            one(2, pages(5, 30), pages(0, 0)),
            one(3, pages(0, 30), pages(0, 0)),
        ];
        let sharers = sharers(&members, false);
        let again = sharers.again([12, 11]);
        let tiers = |hot, warm, cold, unresolved| Tiers {
            hot: hot * PAGE,
            warm: warm * PAGE,
            cold: cold * PAGE,
            unresolved: unresolved * PAGE,
        };
        // Once: 30 pages hot, 60 cold, 10 unresolved. As a sum: 35 hot, 10 warm, 135 cold, 20.
        let want = Again {
            rss: 100 * PAGE,
            within: [5 * PAGE, (20 + 25 - 30) * PAGE, 0],
            tiers: tiers(5, 10, 75, 10),
        };
        assert_eq!(again, want);
        assert_eq!(sharers.again([11, 12]), want, "asked again, in another order");
        assert_eq!(sharers.again([11, 12, 13, 99]), want, "who shares nothing changes nothing");
        for alone in [vec![], vec![11], vec![11, 13], vec![11, 99]] {
            assert!(!sharers.again(alone.clone()).is_any(), "{alone:?}");
        }
    }

    #[test]
    fn without_pages_regions_count_once() {
        let region = |nr_accesses| RegionInfo {
            range: AddrRange::new(0, 2 * UNIT),
            nr_accesses,
            resolved: true,
            ..RegionInfo::default()
        };
        for sizes_are_regions in [false, true] {
            let members = [(1, None, vec![region(0)]), (2, None, vec![region(7)])];
            let again = sharers(&members, sizes_are_regions).again([11, 12]);
            // The page is hot in one of them, so it is not what the other says, warm.
            let tiers = Tiers { warm: UNIT, ..Tiers::default() };
            let rss = if sizes_are_regions { UNIT } else { 0 };
            assert_eq!(again, Again { rss, within: [0; 3], tiers });
        }
    }

    #[test]
    fn what_is_counted_again_comes_off_a_sum() {
        let tiers = Tiers { hot: 7, warm: 1, cold: 1, unresolved: 1 };
        let mut sum = Row { rss: Some(100), tiers, ..Row::default() };
        let tiers = Tiers { hot: 3, cold: 5, ..Tiers::default() };
        Again { rss: 30, within: [9; 3], tiers }.take_off(&mut sum);
        assert_eq!((sum.rss, sum.within), (Some(70), [None; 3]));
        assert_eq!(sum.tiers, Tiers { hot: 4, warm: 1, cold: 0, unresolved: 1 });
    }
}
