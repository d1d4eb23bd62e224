//! Informed splits: cut a region where its watched pages disagree.
//!
//! Inside: the pages are sorted by address; the best cut between two of them is the one with the
//! largest difference between the means of its sides, in standard errors. At an edge: a page near
//! a border that behaves unlike its own region shows that the border lies further inside. Cuts
//! fall between two leaves: inside of a huge page there is nothing to tell apart.

use super::edges::move_borders;
use super::plan::leaf;
use crate::addr::round_down;
use crate::attrs::Attrs;
use crate::region::Region;
use crate::target::{Target, split_off};
use crate::watches::Watches;
use crate::watches::watch::{MAX_SLOTS, Watch};

/// Least difference of two rates that is worth a cut: about one count in a window of 20 samples.
const LEAST_CONTRAST: f32 = 0.06;
/// ... and as a share of the larger of the two.
const LEAST_RELATIVE: f32 = 0.35;
/// Least difference in standard errors.
const LEAST_SIGNIFICANCE: f32 = 2.0;
/// A piece of less than this part of an average region at the largest number of regions is not
/// worth the clears that it takes to know it.
const LEAST_SHARE: u64 = 4;
/// So many more standard errors where pages are touched in every second interval or more. There a
/// run or two tell little of a page's rate, and a region that is cut by chance asks for clears at
/// its new border.
const HOT_SIGNIFICANCE: f32 = 1.0;
/// The same for pages that differ from both sides: of a dozen pages there are fifty such groups.
const ISLAND_SIGNIFICANCE: f32 = 3.0;
/// Windows in which a new region is not split again, unless it changes.
const COOLDOWN: u8 = 2;

/// Splits the regions whose pages disagree, at most to the largest wanted number of regions.
pub(crate) fn split_informed(targets: &mut [Target], attrs: &Attrs) {
    let mut nr_regions: u64 = targets.iter().map(|t| t.regions.len() as u64).sum();
    let total: u64 = targets.iter().map(Target::len).sum();
    let least = attrs.min_region_sz.max(total / LEAST_SHARE.saturating_mul(attrs.max_nr_regions));
    for target in targets {
        move_borders(target, attrs, least);
        let watches = &target.watches;
        let wants = |r: &Region| cut_in(r, watches, attrs, least).is_some();
        if nr_regions >= attrs.max_nr_regions || !target.regions.iter().any(wants) {
            continue;
        }
        target.rebuild(|region, out, watches| {
            let mut left = *region;
            let room = nr_regions < attrs.max_nr_regions;
            let cut = cut_in(region, watches, attrs, least).filter(|_| room);
            let Some(cut) = cut else {
                out.push(left);
                return;
            };
            nr_regions += 1;
            let right = split_off(&mut left, cut - region.range.start, watches);
            if let Some((a, b)) = watches.pair(left.watch, right.watch) {
                for half in [a, b] {
                    half.cooldown = COOLDOWN;
                    half.drop_memory();
                }
                watches.note(left.watch);
                watches.note(right.watch);
            }
            out.push(left);
            out.push(right);
        });
    }
}

/// Where to cut a region, if anywhere. Two means never differ by more than the pages do. So most
/// regions are decided here, without a look into their watches.
fn cut_in(region: &Region, watches: &Watches, attrs: &Attrs, least: u64) -> Option<u64> {
    let alike = watches.brief(region.watch).estimate.contrast < LEAST_CONTRAST;
    if alike { None } else { cut_of(region, watches.get(region.watch), attrs, least) }
}

/// Where to cut a region, if anywhere: not into a piece of less than `least` bytes, and not while
/// some of its pages are still believed to be what they were before a change.
fn cut_of(region: &Region, watch: Option<&Watch>, attrs: &Attrs, least: u64) -> Option<u64> {
    let watch = watch?;
    if region.len() < 2 * least || watch.changed.is_some() || watch.cooldown > 0 {
        return None;
    }
    let cut = inner_cut(watch, attrs)?;
    let fits = region.range.start + least <= cut && cut + least <= region.range.end;
    fits.then_some(cut)
}

/// The best cut between two evenly drawn pages; if no two sides differ, that in front of pages
/// which differ from both sides.
fn inner_cut(watch: &Watch, attrs: &Attrs) -> Option<u64> {
    let mut sorted = [Page::default(); MAX_SLOTS];
    let mut n = 0;
    for slot in watch.evidence() {
        let rate = slot.rate();
        sorted[n] = Page { addr: slot.addr, leaf_shift: slot.leaf_shift, rate, variance: 0.0 };
        n += 1;
    }
    let sorted = &mut sorted[..n];
    for (page, slot) in sorted.iter_mut().zip(watch.evidence()) {
        page.variance = slot.rate_variance();
    }
    sorted.sort_unstable_by_key(|page| page.addr);
    let cut = |i: usize| cut_between(&sorted[i - 1], &sorted[i], attrs);
    let mut best: Option<(f32, u64)> = None;
    for i in 1..n {
        let (left, right) = sorted.split_at(i);
        consider(&mut best, LEAST_SIGNIFICANCE, Sums::of(left), Sums::of(right), || cut(i));
    }
    if best.is_none() {
        for (i, j) in (1..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))) {
            let around = Sums::of(&sorted[..i]).and(Sums::of(&sorted[j..]));
            let island = Sums::of(&sorted[i..j]);
            consider(&mut best, ISLAND_SIGNIFICANCE, island, around, || cut(i));
        }
    }
    best.map(|(_, cut)| cut)
}

/// Takes a cut if it is better than the best, and what lies on its sides differs by so many
/// standard errors, and up to [`HOT_SIGNIFICANCE`] more where it is hot.
fn consider(
    best: &mut Option<(f32, u64)>,
    least: f32,
    a: Sums,
    b: Sums,
    cut: impl FnOnce() -> Option<u64>,
) {
    let ((mean_a, error_a), (mean_b, error_b)) = (a.mean_and_error(), b.mean_and_error());
    let contrast = (mean_a - mean_b).abs();
    let significance = contrast / libm::sqrtf(error_a + error_b).max(1e-3);
    let least_contrast = LEAST_CONTRAST.max(LEAST_RELATIVE * mean_a.max(mean_b));
    // Of equal cuts the first one.
    let better = best.is_none_or(|(before, _)| significance > before);
    if contrast >= least_contrast
        && significance >= least + HOT_SIGNIFICANCE * (2.0 * mean_a.max(mean_b)).min(1.0)
        && better
        && let Some(cut) = cut()
    {
        *best = Some((significance, cut));
    }
}

/// Where to cut between two pages: half way, between leaves.
fn cut_between(a: &Page, b: &Page, attrs: &Attrs) -> Option<u64> {
    let (a, b) = (leaf(a.addr, a.leaf_shift), leaf(b.addr, b.leaf_shift));
    if a.end > b.start {
        return None;
    }
    let grain = attrs.min_region_sz.max(a.len().min(b.len()));
    Some(round_down(u64::midpoint(a.end, b.start), grain).max(a.end))
}

/// What a watched page says.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    addr: u64,
    leaf_shift: u8,
    rate: f32,
    /// Variance of the rate.
    variance: f32,
}

/// Sums over some pages.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: f32,
    rates: f32,
    squares: f32,
    variances: f32,
}

impl Sums {
    fn of(pages: &[Page]) -> Self {
        pages.iter().fold(Self::default(), |sums, page| {
            sums.and(Self {
                n: 1.0,
                rates: page.rate,
                squares: page.rate * page.rate,
                variances: page.variance,
            })
        })
    }

    fn and(self, other: Self) -> Self {
        Self {
            n: self.n + other.n,
            rates: self.rates + other.rates,
            squares: self.squares + other.squares,
            variances: self.variances + other.variances,
        }
    }

    /// Mean rate and its squared standard error, by the pages' own uncertainty and by how they
    /// differ.
    fn mean_and_error(self) -> (f32, f32) {
        let mean = self.rates / self.n;
        let spread = (self.squares / self.n - mean * mean).max(0.0);
        (mean, (spread + self.variances / self.n) / self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{AddrRange, PAGE_SIZE};
    use crate::time::Time;
    use crate::watches::slot::Slot;

    /// A region of a page per character: `h` was touched in three intervals of three, `w` in two of
    /// four, `.` in none of twenty.
    fn region(pages: &str) -> (Region, Watch) {
        let end = (1 + pages.len() as u64) * PAGE_SIZE;
        let region = Region::new(AddrRange::new(PAGE_SIZE, end));
        let mut watch = Watch::default();
        for (page, kind) in (1..).zip(pages.chars()) {
            let mut slot = Slot::fresh(page * PAGE_SIZE, false);
            let waits: &[f32] = match kind {
                'h' => &[1.0, 1.0, 1.0],
                'w' => &[1.0, 3.0],
                _ => &[],
            };
            slot.arm(Time(0), 0);
            if waits.is_empty() {
                slot.found_old(Time(1), 20, 20.0);
            }
            for wait in waits {
                slot.arm(Time(0), 0);
                if *wait > 1.0 {
                    slot.found_old(Time(1), 1, *wait - 1.0);
                }
                slot.found_young(Time(1), 1.0);
            }
            watch.push(slot);
        }
        watch.evaluate();
        (region, watch)
    }

    #[test]
    fn regions_are_cut_where_their_pages_disagree() {
        for (pages, expected) in [
            ("............", None),
            ("hhhhhhhhhhhh", None),
            ("hhhh........", Some(4)),
            (".......hhhhh", Some(7)),
            // No two sides differ, but a few pages differ from both.
            (".....h......", Some(5)),
            ("....hh......", Some(4)),
            ("hhhhh.hhhhhh", Some(5)),
            // By a run or two of each page nobody can tell.
            ("whwhhwhwhhww", None),
        ] {
            let (region, watch) = region(pages);
            let cut = cut_of(&region, Some(&watch), &Attrs::default(), PAGE_SIZE);
            assert_eq!(cut.map(|at| at / PAGE_SIZE - 1), expected, "{pages}");
        }
    }
}
