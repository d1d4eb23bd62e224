//! The plan of a window: which pages to arm, within the budget of clears.
//!
//! The budget is a bucket: it fills by [`Attrs::clears_per_sec`] and holds one second's worth, so
//! that a change can be met at once after a quiet time. A page that turns out to be old or absent
//! when it is armed costs nothing.
//!
//! Pages are armed in this order:
//!
//! 1. touched pages of a region that changed;
//! 2. pages of regions of which nothing is known yet;
//! 3. new pages;
//! 4. touched pages, the longest unseen first, one per region;
//! 5. pages at the edges;
//! 6. pages drawn anew, so that no pattern can hide between those that are watched;
//! 7. further touched pages with only a run or two. Where touches are rare, one page per region
//!    would take long to tell the rate.

use alloc::vec::Vec;

use super::Watched;
use super::edges::place_edges;
use super::slices::cost;
use crate::addr::{AddrRange, PAGE_SIZE, round_down};
use crate::attrs::Attrs;
use crate::rng::Rng;
use crate::target::Target;
use crate::watches::slot::{Slot, State};
use crate::watches::watch::{MAX_EVEN, Watch};

/// Most pages to watch in all, beyond which regions get fewer each.
const MAX_WATCHED: usize = 4096;

/// Samples of a window at which pages are armed, unless there are many of them.
const FEW_MOMENTS: usize = 4;
/// Pages that one such sample takes at least, if there are more of them.
const PER_MOMENT: u16 = 8;
/// The most such samples.
const MOST_MOMENTS: usize = 32;

/// Samples after which a page that stayed old has told enough.
const SETTLED: u64 = 20;

/// What the budget holds at the start, in seconds' worth.
const START_SECONDS: f64 = 3.0;

/// Arming order; the lower first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Changed,
    Unknown,
    Fresh,
    Border,
    Touched,
    Edge,
    Redraw,
    HardlyKnown,
}

impl Urgency {
    /// The share of the bucket that has to stay for what is more urgent: a change that comes when
    /// the bucket is empty would be seen seconds late.
    const fn reserve(self) -> f64 {
        match self {
            Self::Unknown | Self::Changed => 0.0,
            Self::Fresh => 0.2,
            Self::Border => 0.3,
            Self::Touched => 0.4,
            Self::Edge => 0.5,
            Self::Redraw => 0.7,
            Self::HardlyKnown => 0.75,
        }
    }
}

/// One page that wants to be armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    urgency: Urgency,
    /// Within one urgency the smaller goes first: when the page was last seen, or a random number.
    order: u64,
    target: u32,
    region: u32,
    slot: u32,
    /// Replace the page by one drawn anew.
    redraw: bool,
}

/// The budget, and room for planning.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Clears left.
    tokens: f64,
    candidates: Vec<Candidate>,
    /// Target and region of those in which a page may be drawn anew; empty if the budget has none
    /// for it.
    settled: Vec<(u32, u32)>,
}

impl Plan {
    /// Starts with several buckets: at first everything is unknown, and every page is young.
    pub(crate) fn fill_budget(&mut self, attrs: &Attrs) {
        self.tokens = START_SECONDS * per_second(attrs);
    }

    /// A window has passed, which took so long. The budget is per second, and on a machine that is
    /// late a window takes longer than its attributes say.
    pub(crate) fn earn(&mut self, attrs: &Attrs, window_ns: u64) {
        let full = per_second(attrs).max(per_second(attrs) * seconds(attrs.aggr_us));
        if self.tokens < full {
            let earned = per_second(attrs) * seconds(window_ns / 1000);
            self.tokens = (self.tokens + earned).min(full);
        }
    }

    /// Clears were done.
    pub(crate) fn spend(&mut self, nr_clears: u64) {
        self.tokens -= f64::from(u32::try_from(nr_clears).unwrap_or(u32::MAX));
    }

    /// Whether there is budget for one more clear at once.
    pub(crate) fn may_arm_now(&self) -> bool {
        self.tokens >= 1.0
    }

    /// Plans the window that begins at sample `passed`. The number of watched pages and regions.
    pub(crate) fn make(
        &mut self,
        targets: &mut [Target],
        attrs: &Attrs,
        passed: u64,
        rng: &mut Rng,
    ) -> usize {
        let nr_pages = self.gather(targets, attrs, passed, rng);
        self.sort_candidates();
        let window = u64::from(attrs.max_nr_accesses());
        let bucket = per_second(attrs);
        let moments = Moments::draw(window, bucket * seconds(attrs.aggr_us), rng);
        let mut arming = Arming { targets, passed, window, moments, rng };
        let mut left = self.tokens;
        let mut pays = |urgency: Urgency| {
            let pays = left >= 1.0_f64.max(bucket * urgency.reserve());
            left -= if pays { 1.0 } else { 0.0 };
            pays
        };
        let later = self.candidates.partition_point(|c| c.urgency < Urgency::Redraw);
        let (sooner, later) = self.candidates.split_at(later);
        sooner.iter().take_while(|c| pays(c.urgency)).for_each(|c| arming.arm(c));
        while let Some(candidate) = arming.draw(&mut self.settled)
            && pays(candidate.urgency)
        {
            arming.arm(&candidate);
        }
        later.iter().take_while(|c| pays(c.urgency)).for_each(|c| arming.arm(c));
        nr_pages
    }

    /// Lists what all regions would like to have armed. The number of watched pages and regions.
    fn gather(
        &mut self,
        targets: &mut [Target],
        attrs: &Attrs,
        passed: u64,
        rng: &mut Rng,
    ) -> usize {
        let nr_regions: usize = targets.iter().map(|t| t.regions.len()).sum();
        let nr_even = (MAX_WATCHED / nr_regions.max(1)).clamp(2, MAX_EVEN);
        let redraws = self.tokens >= per_second(attrs) * Urgency::Redraw.reserve();
        let mut nr_pages = 0;
        self.candidates.clear();
        self.settled.clear();
        for (t, target) in (0_u32..).zip(targets.iter_mut()) {
            place_edges(target, attrs, rng);
            for (r, region) in (0_u32..).zip(target.regions.iter_mut()) {
                let wanted = nr_wanted(region.len(), nr_even);
                let brief = target.watches.brief(region.watch);
                if !brief.quiet || usize::from(brief.nr_even) != wanted {
                    let watch = target.watches.of(&mut region.watch);
                    draw_missing(&mut Watched { region, watch }, wanted, rng);
                    ask_blind_again(watch, passed);
                    self.add_candidates(watch, t, r, rng);
                    target.watches.note(region.watch);
                }
                let brief = target.watches.brief(region.watch);
                if redraws && !brief.changing {
                    self.settled.push((t, r));
                }
                nr_pages += cost(brief.nr_slots);
            }
        }
        nr_pages
    }

    /// Puts the candidates in order, as far as the budget can reach: each takes a token.
    fn sort_candidates(&mut self) {
        // A float is cut towards 0, and one below 0 to 0.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few thousand"
        )]
        let most = self.tokens as usize + 1;
        if most < self.candidates.len() {
            self.candidates.select_nth_unstable(most);
            self.candidates.truncate(most);
        }
        self.candidates.sort_unstable();
    }

    /// Adds what one region would like to have armed.
    fn add_candidates(&mut self, watch: &Watch, target: u32, region: u32, rng: &mut Rng) {
        let unknown = watch.slots().iter().filter(|s| s.known() && !s.edge).count() < 2;
        let mut add = |urgency, order, slot, redraw| {
            self.candidates.push(Candidate { urgency, order, target, region, slot, redraw });
        };
        let mut oldest: Option<(u64, u32)> = None;
        for (i, slot) in (0_u32..).zip(watch.slots()) {
            match slot.state {
                State::Armed | State::Blind => {}
                State::Fresh | State::Touched if slot.edge => {
                    let urgency = if slot.urgent { Urgency::Border } else { Urgency::Edge };
                    add(urgency, u64::from(rng.next_u32()), i, false);
                }
                State::Fresh => {
                    let urgency = if unknown { Urgency::Unknown } else { Urgency::Fresh };
                    add(urgency, u64::from(rng.next_u32()), i, false);
                }
                State::Touched if watch.stale(slot) => {
                    add(Urgency::Changed, slot.seen.as_ns(), i, false);
                }
                State::Touched => {
                    if slot.is_hardly_known() {
                        add(Urgency::HardlyKnown, slot.seen.as_ns(), i, false);
                    }
                    oldest = Some(oldest.unwrap_or((u64::MAX, i)).min((slot.seen.as_ns(), i)));
                }
            }
        }
        if let Some((seen, i)) = oldest {
            // Mostly the same page again, because it shows at once when a region stops being
            // touched. Now and then another one, because most pages are not watched.
            let redraw = watch.changed.is_none() && rng.range(0, 4) == 0;
            add(Urgency::Touched, seen, i, redraw);
        }
    }
}

/// Arms pages in the window that begins.
#[derive(Debug)]
struct Arming<'a> {
    targets: &'a mut [Target],
    passed: u64,
    window: u64,
    moments: Moments,
    rng: &'a mut Rng,
}

impl Arming<'_> {
    /// Plans when a page is armed.
    fn arm(&mut self, candidate: &Candidate) {
        let target = &mut self.targets[candidate.target as usize];
        let region = &mut target.regions[candidate.region as usize];
        let watch = target.watches.of(&mut region.watch);
        let after = match candidate.urgency {
            Urgency::Unknown | Urgency::Changed => self.rng.range(0, self.window.min(2)),
            Urgency::Fresh => self.moments.of_first_half(self.rng),
            Urgency::Border
            | Urgency::Touched
            | Urgency::Edge
            | Urgency::Redraw
            | Urgency::HardlyKnown => self.moments.any(self.rng),
        };
        let i = candidate.slot as usize;
        if candidate.redraw {
            let addr = self.rng.range(region.range.start, region.range.end);
            watch.replace(i, Slot::fresh(addr, false));
        }
        watch.slots_mut()[i].arm_at = self.passed + after;
        target.watches.note(region.watch);
    }

    /// A page that has been armed for long, to be drawn anew, of any of these regions; takes it out
    /// of them.
    fn draw(&mut self, settled: &mut Vec<(u32, u32)>) -> Option<Candidate> {
        while !settled.is_empty() {
            let i = usize::try_from(self.rng.range(0, settled.len() as u64)).unwrap_or(0);
            let (target, region) = settled.swap_remove(i);
            let of = &self.targets[target as usize];
            let Some(watch) = of.watches.get(of.regions[region as usize].watch) else { continue };
            let long = |s: &Slot| self.passed.wrapping_sub(s.armed_at) >= SETTLED;
            let armed = |s: &Slot| s.state == State::Armed && !s.edge && long(s);
            if let Some(slot) = watch.slots().iter().rposition(armed) {
                let slot = u32::try_from(slot).unwrap_or(0);
                let urgency = Urgency::Redraw;
                return Some(Candidate { urgency, order: 0, target, region, slot, redraw: true });
            }
        }
        None
    }
}

/// The samples of a window at which pages are armed: one from each of a few equal parts of the
/// window, at random.
///
/// There are few, because each costs a wake-up and system calls, and so do the looks after it,
/// however many pages there are. They are drawn anew for each window, so that any sample is as
/// likely as any other. A target that works in step with the windows is then not missed.
#[derive(Debug, Clone, Copy)]
struct Moments {
    after: [u64; MOST_MOMENTS],
    len: usize,
}

impl Moments {
    /// For a window of so many samples in which about `clears` pages are armed.
    fn draw(window: u64, clears: f64, rng: &mut Rng) -> Self {
        let mut len = FEW_MOMENTS;
        while len < MOST_MOMENTS && count(len) * f64::from(PER_MOMENT) < clears {
            len += 1;
        }
        let len = len.min(usize::try_from(window).unwrap_or(len)).max(1);
        let mut after = [0; MOST_MOMENTS];
        for (i, sample) in (0_u64..).zip(&mut after[..len]) {
            let at = |i: u64| i * window / len as u64;
            *sample = rng.range(at(i), at(i + 1));
        }
        Self { after, len }
    }

    fn any(&self, rng: &mut Rng) -> u64 {
        self.one_of(self.len, rng)
    }

    fn of_first_half(&self, rng: &mut Rng) -> u64 {
        self.one_of(self.len.div_ceil(2), rng)
    }

    fn one_of(&self, len: usize, rng: &mut Rng) -> u64 {
        let i = usize::try_from(rng.range(0, len as u64)).unwrap_or(0);
        self.after[i]
    }
}

/// Asks in every window for the pages that could not be made old. It asks for all at once, because
/// what a set does as its last resort clears many pages and is done rarely. While these pages
/// cannot be made old, nothing is taken from the budget.
fn ask_blind_again(watch: &mut Watch, passed: u64) {
    for slot in watch.slots_mut().iter_mut().filter(|s| s.state == State::Blind) {
        slot.arm_at = passed;
    }
}

/// Number of pages that are drawn evenly in a region of so many bytes, where no region has more
/// than `nr_even`.
fn nr_wanted(len: u64, nr_even: usize) -> usize {
    let nr_pages = usize::try_from(len / PAGE_SIZE).unwrap_or(usize::MAX).max(1);
    // A small region weighs little, and is soon known: 3 pages for 8, 12 from 4096 on.
    let by_size = usize::try_from(nr_pages.ilog2()).unwrap_or(0).max(2);
    nr_even.min(by_size).min(nr_pages)
}

/// Tops up the evenly drawn pages of a region, or drops some if it has too many.
fn draw_missing(region: &mut Watched<'_>, wanted: usize, rng: &mut Rng) {
    while region.watch.nr_even() > wanted {
        let Some(i) = region.watch.slots().iter().rposition(|s| !s.edge) else { break };
        region.watch.forget(i);
    }
    // Not until there are enough: edges that ended up in one region may have taken the room.
    for _ in region.watch.nr_even()..wanted {
        let addr = rng.range(region.range().start, region.range().end);
        region.watch.push(Slot::fresh(addr, false));
    }
}

fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

fn per_second(attrs: &Attrs) -> f64 {
    f64::from(attrs.clears_per_sec)
}

#[expect(clippy::cast_precision_loss, reason = "an interval")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// The range of one leaf around an address.
pub(crate) const fn leaf(addr: u64, shift: u8) -> AddrRange {
    let size = 1_u64 << shift;
    let start = round_down(addr, size);
    AddrRange::new(start, start.saturating_add(size))
}
