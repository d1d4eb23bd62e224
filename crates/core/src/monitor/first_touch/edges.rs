//! Where two regions that differ really meet.
//!
//! A cut between two watched pages is off by up to half of their distance. So one page is watched
//! on either side of a border. After each look, the odds are computed that the page is of the one
//! region or of the other, from what was seen of it and the rates of the two regions. Once that is
//! decided, another page is drawn.
//!
//! A page of its own region is a mark. The true border lies between the marks of the two sides, and
//! half of the next pages are drawn there. A page of the other region moves the border behind it,
//! half way to the mark. The other half of the pages are drawn on a log scale, from a quarter of
//! the region down to its last page, because a border may have moved beyond the marks.
//!
//! Invariant: only borders between regions without a gap move, and neither region gets smaller than
//! the smallest size.

use super::Watched;
use super::plan::leaf;
use crate::addr::{AddrRange, PAGE_SIZE, round_down, round_up};
use crate::attrs::Attrs;
use crate::rng::Rng;
use crate::target::Target;
use crate::watches::slot::{Slot, State};

/// Log of the odds from which on a page is taken to be of the other region: 90 to 1.
const DECIDED: f32 = 4.5;
/// The same beyond the mark, where it would be a surprise: 400 to 1.
const DECIDED_BEYOND: f32 = 6.0;
/// Log of the odds down to which a page is taken to be of its own region. The odds are as strict,
/// because a wrong mark hides the border.
const ALIKE: f32 = -DECIDED;
/// A border is hardly known while its mark is farther away than this part of the region.
const FAR: u64 = 32;
/// In one of so many windows, such a border comes before pages that are only to be seen again. If
/// it always did, nothing would be left for these pages where everything is hot.
const TURN: u64 = 4;
/// Rates are held to lie between this and 1 minus this.
const LEAST_RATE: f32 = 0.005;

/// A side of a region, and the index of its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

impl Side {
    /// How far the outer end of a page is from this side of a region.
    const fn distance(self, region: AddrRange, page: AddrRange) -> u64 {
        match self {
            Self::Start => page.start.saturating_sub(region.start),
            Self::End => region.end.saturating_sub(page.end),
        }
    }

    /// The address so far inside.
    const fn inside(self, region: AddrRange, distance: u64) -> u64 {
        match self {
            Self::Start => region.start.saturating_add(distance),
            Self::End => region.end.saturating_sub(distance),
        }
    }

    /// The outer end of a page.
    const fn outer(self, page: AddrRange) -> u64 {
        match self {
            Self::Start => page.start,
            Self::End => page.end,
        }
    }
}

/// Places a page on either side of each border between two regions that differ.
pub(crate) fn place_edges(target: &mut Target, attrs: &Attrs, rng: &mut Rng) {
    for_borders(target, attrs, |left, right| {
        let (a, b) = (left.watch.estimate.rate, right.watch.estimate.rate);
        place_edge(left, Side::End, b, rng);
        place_edge(right, Side::Start, a, rng);
    });
}

/// Moves the borders that are known better now; leaves each region at least so many bytes.
pub(crate) fn move_borders(target: &mut Target, attrs: &Attrs, least: u64) {
    for_borders(target, attrs, |left, right| {
        let known = |r: &Watched<'_>| r.watch.estimate.resolved && r.watch.changed.is_none();
        if !known(left) || !known(right) {
            return;
        }
        let (a, b) = (left.watch.estimate.rate, right.watch.estimate.rate);
        if let Some((cut, page)) = judge(left, Side::End, b, attrs)
            && left.range().start + least <= cut
        {
            (left.region.range.end, right.region.range.start) = (cut, cut);
            left.watch.keep_inside(left.range());
            right.watch.marks[Side::Start as usize] = Some(page.start);
        } else if let Some((cut, page)) = judge(right, Side::Start, a, attrs)
            && cut + least <= right.range().end
        {
            (left.region.range.end, right.region.range.start) = (cut, cut);
            right.watch.keep_inside(right.range());
            left.watch.marks[Side::End as usize] = Some(page.end);
        }
    });
}

/// All borders of watched regions that differ by more than a merge would forgive.
fn for_borders(
    target: &mut Target,
    attrs: &Attrs,
    mut f: impl FnMut(&mut Watched<'_>, &mut Watched<'_>),
) {
    let threshold = attrs.max_nr_accesses() / 10;
    for i in 1..target.regions.len() {
        let (front, back) = target.regions.split_at_mut(i);
        let (left, right) = (&mut front[i - 1], &mut back[0]);
        let touch = left.range.end == right.range.start;
        if !touch || left.last_nr_accesses.abs_diff(right.last_nr_accesses) <= threshold {
            continue;
        }
        if let Some((a, b)) = target.watches.pair(left.watch, right.watch) {
            let mut left = Watched { region: left, watch: a };
            let mut right = Watched { region: right, watch: b };
            f(&mut left, &mut right);
            let (left, right) = (left.region.watch, right.region.watch);
            target.watches.note(left);
            target.watches.note(right);
        }
    }
}

/// Takes in what the edge page of a side says. If it is of the other region: the border that
/// follows, and the page.
fn judge(
    region: &mut Watched<'_>,
    side: Side,
    other: f32,
    attrs: &Attrs,
) -> Option<(u64, AddrRange)> {
    let i = edge_page(region, side)?;
    let slot = region.watch.slots()[i];
    if !slot.known() || region.watch.stale(&slot) {
        return None;
    }
    let page = leaf(slot.addr, slot.leaf_shift);
    let at = side.distance(region.range(), page);
    let mark = mark(region, side, other, Some(i));
    let beyond = mark.is_some_and(|mark| mark <= at);
    let odds = odds(&slot, region.watch.estimate.rate, other);
    if odds < ALIKE && !beyond {
        region.watch.marks[side as usize] = Some(side.outer(page));
    }
    if odds < if beyond { DECIDED_BEYOND } else { DECIDED } {
        return None;
    }
    let inner = at + page.len();
    let further = match mark {
        // What the mark was made of is no longer true.
        Some(_) if beyond => {
            region.watch.marks[side as usize] = None;
            inner
        }
        Some(mark) => mark.saturating_sub(inner),
        None => inner,
    };
    let cut = side.inside(region.range(), inner + further / 2);
    let grain = attrs.min_region_sz.max(page.len());
    let cut = match side {
        Side::Start => round_up(cut, grain).max(page.end),
        Side::End => round_down(cut, grain).min(page.start),
    };
    (region.range().start < cut && cut < region.range().end).then_some((cut, page))
}

/// How far inside of a side the nearest page is that was found to be of its own region, but for
/// slot `except`.
fn mark(region: &Watched<'_>, side: Side, other: f32, except: Option<usize>) -> Option<u64> {
    let own = region.watch.estimate.rate;
    let alike = |s: &Slot| s.known() && !region.watch.stale(s) && odds(s, own, other) < ALIKE;
    let alike = |(i, s): &(usize, &Slot)| Some(*i) != except && alike(s);
    let alike = region.watch.slots().iter().enumerate().filter(alike);
    let watched = alike.map(|(_, s)| side.outer(leaf(s.addr, s.leaf_shift)));
    let ends = watched.chain(region.watch.marks[side as usize]);
    let distances = ends.map(|end| side.distance(region.range(), AddrRange::new(end, end)));
    distances.min().filter(|d| *d < region.len())
}

/// Log of the odds that a page has the rate `other` rather than the rate `own`.
fn odds(slot: &Slot, own: f32, other: f32) -> f32 {
    let held = |p: f32| p.clamp(LEAST_RATE, 1.0 - LEAST_RATE);
    let (own, other) = (held(own), held(other));
    let (hits, misses) = slot.hits_and_misses();
    hits * libm::logf(other / own) + misses * libm::logf((1.0 - other) / (1.0 - own))
}

/// The slot of the page that is watched for a side.
fn edge_page(region: &Watched<'_>, side: Side) -> Option<usize> {
    let middle = region.range().start + region.len() / 2;
    let here = |s: &Slot| s.edge && (s.addr < middle) == (side == Side::Start);
    region.watch.slots().iter().position(here)
}

/// Places one page near a side, unless the one there is not decided yet.
fn place_edge(region: &mut Watched<'_>, side: Side, other: f32, rng: &mut Rng) {
    let nr_pages = region.len() / PAGE_SIZE;
    if nr_pages < 8 {
        return;
    }
    let mark = mark(region, side, other, None);
    let urgent = mark.is_none_or(|mark| mark > region.len() / FAR) && rng.range(0, TURN) == 0;
    if let Some(i) = edge_page(region, side) {
        let slot = region.watch.slots()[i];
        let odds = odds(&slot, region.watch.estimate.rate, other);
        let decided = slot.known() && !(ALIKE..=DECIDED).contains(&odds);
        if !decided && slot.state != State::Blind {
            region.watch.slots_mut()[i].urgent = urgent;
            return;
        }
        region.watch.forget(i);
    }
    let quarter = region.len() / 4;
    let distance = match mark.filter(|mark| *mark >= PAGE_SIZE && rng.range(0, 2) == 0) {
        Some(mark) => rng.range(0, mark.min(2 * quarter)),
        None => {
            let halvings = u32::try_from(rng.range(0, u64::from(nr_pages.ilog2()))).unwrap_or(0);
            let farthest = quarter >> halvings;
            rng.range(farthest / 2, farthest + 1).min(quarter)
        }
    };
    let addr = match side {
        Side::Start => region.range().start + distance,
        Side::End => region.range().end - 1 - distance,
    };
    let addr = round_down(addr, PAGE_SIZE).max(region.range().start);
    let mut slot = Slot::fresh(addr, true);
    slot.urgent = urgent;
    region.watch.push(slot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Region;
    use crate::target::TargetId;
    use crate::time::Time;
    use crate::watches::watch::{Estimate, Watch};

    const PAGES: u64 = 1024;
    const HOT: f32 = 0.9;

    /// `PAGES` hot pages in front of `PAGES` cold ones, as far as the regions know; the border is
    /// at page `PAGES`.
    fn target() -> Target {
        let mut target = Target::new(TargetId(0));
        for (first, rate, nr_accesses) in [(PAGES, HOT, 18), (2 * PAGES, 0.0, 0)] {
            let range = AddrRange::new(first * PAGE_SIZE, (first + PAGES) * PAGE_SIZE);
            let mut region = Region { last_nr_accesses: nr_accesses, ..Region::new(range) };
            let estimate =
                Estimate { rate, lo: rate, hi: rate, resolved: true, ..Estimate::default() };
            target.watches.of(&mut region.watch).estimate = estimate;
            target.regions.push(region);
        }
        target
    }

    fn watch(target: &mut Target, i: usize) -> &mut Watch {
        let id = target.regions[i].watch;
        target.watches.get_mut(id).expect("every region has one")
    }

    /// A page that was touched in the first interval, so many times, or never in twenty.
    fn watched(page: u64, touched: u32) -> Slot {
        let mut slot = Slot::fresh(page * PAGE_SIZE, true);
        slot.arm(Time(0), 0);
        for _ in 0..touched {
            slot.found_young(Time(1), 1.0);
            slot.arm(Time(1), 1);
        }
        if touched == 0 {
            slot.found_old(Time(1), 20, 20.0);
        }
        slot
    }

    fn border(target: &Target) -> u64 {
        assert_eq!(target.regions[0].range.end, target.regions[1].range.start);
        target.regions[0].range.end / PAGE_SIZE
    }

    #[test]
    fn a_page_of_the_other_region_moves_the_border_half_way_to_the_mark() {
        let attrs = Attrs::default();
        for (side, page, mark, expected) in [
            // A cold page 100 pages inside of the hot region, hot ones from 200 on: the border is
            // in between.
            (Side::End, 2 * PAGES - 101, 2 * PAGES - 200, 2 * PAGES - 150),
            (Side::Start, 2 * PAGES + 99, 2 * PAGES + 199, 2 * PAGES + 149),
        ] {
            let mut target = target();
            let asked = watch(&mut target, usize::from(side == Side::Start));
            asked.marks[side as usize] = Some(mark * PAGE_SIZE);
            asked.push(watched(page, u32::from(side == Side::Start) * 2));
            move_borders(&mut target, &attrs, PAGE_SIZE);
            assert!(border(&target).abs_diff(expected) <= 1, "{side:?} {}", border(&target));
            target.watches.verify(&target.regions);
            // The page is a mark of the region that has it now.
            let mark = mark_of(&mut target, side);
            assert!(mark.abs_diff(page) <= 1, "{mark} {page}");
        }
    }

    fn mark_of(target: &mut Target, moved: Side) -> u64 {
        let mark = match moved {
            Side::End => watch(target, 1).marks[Side::Start as usize],
            Side::Start => watch(target, 0).marks[Side::End as usize],
        };
        mark.map_or(0, |at| at / PAGE_SIZE)
    }

    #[test]
    fn a_page_of_its_own_region_is_a_mark_and_moves_nothing() {
        let mut target = target();
        watch(&mut target, 0).push(watched(2 * PAGES - 10, 2));
        watch(&mut target, 1).push(watched(2 * PAGES + 10, 0));
        move_borders(&mut target, &Attrs::default(), PAGE_SIZE);
        assert_eq!(border(&target), 2 * PAGES);
        assert_eq!(watch(&mut target, 0).marks[1], Some((2 * PAGES - 9) * PAGE_SIZE));
        assert_eq!(watch(&mut target, 1).marks[0], Some((2 * PAGES + 10) * PAGE_SIZE));
    }

    #[test]
    fn what_is_not_decided_waits() {
        let mut target = target();
        let mut slot = Slot::fresh((2 * PAGES - 10) * PAGE_SIZE, true);
        slot.arm(Time(0), 0);
        // Old after one interval: one to ten of a page that is touched in nine of ten.
        slot.found_old(Time(1), 1, 1.0);
        watch(&mut target, 0).push(slot);
        move_borders(&mut target, &Attrs::default(), PAGE_SIZE);
        assert_eq!(border(&target), 2 * PAGES);
        let mut rng = Rng::seeded(1);
        place_edges(&mut target, &Attrs::default(), &mut rng);
        let slots = watch(&mut target, 0).slots();
        assert!(slots.iter().any(|s| s.addr == slot.addr), "asked on");
    }

    #[test]
    fn no_region_gets_smaller_than_it_may() {
        let mut target = target();
        watch(&mut target, 0).push(watched(PAGES + PAGES / 2 + 1, 0));
        move_borders(&mut target, &Attrs::default(), PAGES * PAGE_SIZE / 2);
        assert_eq!(border(&target), 2 * PAGES);
    }
}
