//! The watched pages of one region, and the region's estimate from them.
//!
//! The mean rate of a region is the mean over pages, each with its own rate: one rate for all would
//! be wrong for a mixed region (two pages always touched and two never are 0.5, not 4 touches in 44
//! intervals). Its uncertainty is that of a sample of pages: `n` pages that agree say little about
//! the rest if `n` is small. Pages watched earlier and replaced since stay as a memory of up to
//! [`MEMORY`] pages.

use super::slot::{Slot, State};
use crate::addr::AddrRange;
use crate::interval::wilson;
use crate::time::Time;

/// Most watched pages of a region.
pub(crate) const MAX_SLOTS: usize = 14;
/// Most pages drawn evenly; the others look after the edges.
pub(crate) const MAX_EVEN: usize = 12;
/// Most replaced pages that are remembered.
const MEMORY: f32 = 16.0;

/// What is known of a region.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Estimate {
    /// Mean chance of a touch per sample interval.
    pub(crate) rate: f32,
    /// 90 % interval of the mean.
    pub(crate) lo: f32,
    pub(crate) hi: f32,
    /// How far the rates of the watched pages are apart.
    pub(crate) contrast: f32,
    /// Whether anything is known.
    pub(crate) resolved: bool,
}

/// The watched pages of a region.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Watch {
    slots: [Slot; MAX_SLOTS],
    len: u8,
    /// Windows to wait before the region may be split again.
    pub(crate) cooldown: u8,
    /// When a page was last seen to have changed its ways; older evidence of others is stale.
    pub(crate) changed: Option<Time>,
    /// The ends of the pages nearest to the region's start and end that were found to be like the
    /// region.
    pub(crate) marks: [Option<u64>; 2],
    memory_mean: f32,
    memory_n: f32,
    pub(crate) estimate: Estimate,
}

impl Watch {
    /// The watched pages.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots[..usize::from(self.len)]
    }

    /// The watched pages.
    pub(crate) fn slots_mut(&mut self) -> &mut [Slot] {
        &mut self.slots[..usize::from(self.len)]
    }

    /// Number of watched pages that were drawn evenly.
    pub(crate) fn nr_even(&self) -> usize {
        self.slots().iter().filter(|s| !s.edge).count()
    }

    /// Adds a page; drops it if there is no room.
    pub(crate) fn push(&mut self, slot: Slot) {
        if usize::from(self.len) < MAX_SLOTS {
            self.slots[usize::from(self.len)] = slot;
            self.len += 1;
        }
    }

    /// Stops watching page `i`; the last page takes its place.
    pub(crate) fn forget(&mut self, i: usize) {
        self.remember(i);
        self.len -= 1;
        self.slots[i] = self.slots[usize::from(self.len)];
    }

    /// Watches another page in the place of page `i`.
    pub(crate) fn replace(&mut self, i: usize, slot: Slot) {
        self.remember(i);
        self.slots[i] = slot;
    }

    /// Puts page `i` into the memory, if it was drawn evenly and is up to date.
    fn remember(&mut self, i: usize) {
        let slot = self.slots[i];
        if slot.known() && !slot.edge && !self.stale(&slot) {
            self.memory_mean =
                (self.memory_mean * self.memory_n + slot.rate()) / (self.memory_n + 1.0);
            self.memory_n = (self.memory_n + 1.0).min(MEMORY);
        }
    }

    /// Whether the evidence of a page is older than the region's last change.
    pub(crate) fn stale(&self, slot: &Slot) -> bool {
        self.changed.is_some_and(|at| slot.seen < at)
    }

    /// The pages drawn evenly whose evidence counts now: known, and not stale unless all are.
    pub(crate) fn evidence(&self) -> impl Iterator<Item = &Slot> {
        let usable = |s: &&Slot| s.known() && !s.edge;
        // Nothing is stale before a change.
        let any_recent =
            self.changed.is_some() && self.slots().iter().any(|s| usable(&s) && !self.stale(s));
        self.slots().iter().filter(usable).filter(move |s| !any_recent || !self.stale(s))
    }

    /// Notes that the region changed: what was remembered of it is void.
    pub(crate) fn set_changed(&mut self, now: Time) {
        self.changed = Some(now);
        self.memory_n = 0.0;
        self.marks = [None; 2];
        self.cooldown = 0;
    }

    /// A child of an informed split has only its own pages to go by.
    pub(crate) const fn drop_memory(&mut self) {
        self.memory_n = 0.0;
    }

    /// Computes the estimate from the pages and the memory.
    pub(crate) fn evaluate(&mut self) {
        let mut rates = [0.0_f32; MAX_SLOTS];
        let (mut n, mut sum, mut nr) = (0.0_f32, 0.0_f32, 0);
        for slot in self.evidence() {
            let rate = slot.rate();
            rates[nr] = rate;
            n += 1.0;
            sum += rate;
            nr += 1;
        }
        if n + self.memory_n < 0.5 {
            self.estimate = Estimate { hi: 1.0, ..Estimate::default() };
            return;
        }
        if n >= 3.0 && self.memory_n >= 1.0 && (sum / n - self.memory_mean).abs() > 0.35 {
            self.memory_n = 0.0;
        }
        let pages = n + self.memory_n;
        let rate = (sum + self.memory_mean * self.memory_n) / pages;
        let spread: f32 = rates[..nr].iter().map(|r| (r - rate) * (r - rate)).sum();
        // Alike pages of a middling rate are more certain than the same share of hot and cold ones;
        // how alike they are is itself uncertain, so one page of the worst case is added.
        let worst = rate * (1.0 - rate);
        let variance = (spread + worst) / (n + 1.0);
        let n_eff = if variance > 0.0 { pages * (worst / variance).clamp(1.0, 4.0) } else { pages };
        let (lo, hi) = wilson(rate, n_eff);
        let (least, most) =
            rates[..nr].iter().fold((1.0_f32, 0.0_f32), |(a, b), r| (a.min(*r), b.max(*r)));
        self.estimate = Estimate { rate, lo, hi, contrast: most - least, resolved: true };
    }

    /// Another window has passed since pages were put into the memory.
    pub(crate) fn fade_memory(&mut self) {
        self.memory_n *= 0.95;
    }

    /// A window has passed since the region changed or was split.
    pub(crate) fn calm_down(&mut self) {
        self.cooldown = self.cooldown.saturating_sub(1);
        // Not edges: they wait for their turn, and are no evidence.
        let settled = |s: &Slot| s.edge || !s.known() || !self.stale(s);
        if self.changed.is_some() && self.slots().iter().all(settled) {
            self.changed = None;
        }
    }

    /// Stops watching all pages and forgets what was known.
    pub(crate) fn clear(&mut self) {
        // The slots behind `len` are never read: they may stay as they are.
        *self = Self { slots: self.slots, ..Self::default() };
    }

    /// Cuts at `cut`: keeps the pages in front of it, and puts the others into `right`, which is
    /// empty, with a copy of the memory.
    pub(crate) fn split_off(&mut self, cut: u64, right: &mut Self) {
        // Half of the memory belongs to either side, as far as is known.
        self.memory_n *= 0.5;
        right.cooldown = self.cooldown;
        right.changed = self.changed;
        right.memory_mean = self.memory_mean;
        right.memory_n = self.memory_n;
        right.estimate = self.estimate;
        right.marks = [None, self.marks[1].filter(|at| *at > cut)];
        self.marks = [self.marks[0].filter(|at| *at < cut), None];
        let mut kept = 0;
        for i in 0..usize::from(self.len) {
            let slot = self.slots[i];
            if slot.addr < cut {
                self.slots[kept] = slot;
                kept += 1;
            } else {
                right.push(slot);
            }
        }
        self.len -= right.len;
    }

    /// Takes in the pages of the region behind, in proportion to the sizes of both. `right` is of
    /// no use afterwards.
    pub(crate) fn merge(&mut self, sz: u64, right: &mut Self, sz_right: u64) {
        let share = ratio(sz, sz + sz_right);
        let (a, b) = (self.memory_n, right.memory_n);
        if a + b > 0.0 {
            let (wa, wb) = (share * a, (1.0 - share) * b);
            if wa + wb > 0.0 {
                self.memory_mean = (self.memory_mean * wa + right.memory_mean * wb) / (wa + wb);
            }
            self.memory_n = (a + b).min(MEMORY);
        }
        // Pages at the seam have nothing to look after any more.
        self.drop_edges();
        right.drop_edges();
        while self.nr_even() + right.nr_even() > MAX_EVEN {
            let total = self.nr_even() + right.nr_even();
            let wanted = share * f32::from(u8::try_from(total).unwrap_or(u8::MAX));
            let own = f32::from(u8::try_from(self.nr_even()).unwrap_or(u8::MAX));
            let from = if own > wanted && self.len > 0 || right.len == 0 {
                &mut *self
            } else {
                &mut *right
            };
            from.forget_least_known();
        }
        for slot in right.slots() {
            self.push(*slot);
        }
        self.marks[1] = right.marks[1];
        self.changed = self.changed.max(right.changed);
        self.cooldown = self.cooldown.max(right.cooldown).saturating_add(2).min(50);
        self.evaluate();
    }

    fn drop_edges(&mut self) {
        for i in (0..usize::from(self.len)).rev() {
            if self.slots[i].edge {
                self.forget(i);
            }
        }
    }

    fn forget_least_known(&mut self) {
        let order = |s: &Slot| match s.state {
            State::Fresh => 0_u8,
            State::Blind => 1,
            State::Touched | State::Armed => 2,
        };
        if let Some(i) = (0..usize::from(self.len)).min_by_key(|&i| order(&self.slots[i])) {
            self.forget(i);
        }
    }

    /// Drops pages that are outside of the region after its bounds were moved.
    pub(crate) fn keep_inside(&mut self, range: AddrRange) {
        for i in (0..usize::from(self.len)).rev() {
            if !range.contains(self.slots[i].addr) {
                self.len -= 1;
                self.slots[i] = self.slots[usize::from(self.len)];
            }
        }
        for mark in &mut self.marks {
            *mark = mark.filter(|at| range.start <= *at && *at <= range.end);
        }
    }

    /// Checks that every page lies in the region.
    pub(crate) fn verify(&self, range: AddrRange) {
        for slot in self.slots() {
            assert!(range.contains(slot.addr), "watched page {:#x} not in {range:?}", slot.addr);
        }
    }

    /// Whether every page is blind.
    pub(crate) fn all_blind(&self) -> bool {
        self.len > 0 && self.slots().iter().all(|s| s.state == State::Blind)
    }
}

/// `a / b` as a float.
#[expect(clippy::cast_precision_loss, reason = "a share of sizes")]
fn ratio(a: u64, b: u64) -> f32 {
    a as f32 / (b as f32).max(1.0)
}
