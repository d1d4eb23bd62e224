//! Proof after action: pages that were acted on are looked at again, and those touched within the
//! refault window count against the scheme.
//!
//! A dry run has to remember without limit which pages it pretended to take, or it would take the
//! same pages again and again. After the refault window these pages are looked at only to learn
//! which of them are in use again. So each sweep looks at a limited number of bytes, and a cursor
//! goes round all of them. A scheme that pretends to have taken 100 GiB knows within two minutes
//! which pages are back, at half a millisecond per second.

use std::collections::VecDeque;

use isotherm_core::{AddrRange, TargetId, Time};

use crate::apply::evidence::look::{Look, Seen};
use crate::apply::pages::{Bits, PageSet};

/// Actions that are no further apart than this, in ns, share one set of pages.
const TOGETHER_NS: u64 = 1_000_000_000;
/// Bytes per look.
const SPAN: u64 = 128 << 20;
/// How long after the refault window a page that came back still counts, in ns. Pages of a batch
/// are up to a second younger than the batch, and looks are a second apart, so a page that came
/// back just before the end of the window is seen only after it.
const LATE_NS: u64 = 2_000_000_000;
/// Bytes per sweep of what is only remembered for a dry run: reading page tables takes 0.3 to 0.7
/// ms per GiB.
const KEPT_PER_SWEEP: u64 = 1 << 30;

/// How a page shows that it came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::apply) enum Back {
    /// It is mapped again, after it had been taken away.
    Present,
    /// It is young. It was mapped all the time (cold, migration).
    Young,
    /// It is young. Nothing was really done to it (dry run).
    Pretended,
    /// As above, but it was young at the action already. Only the next party that makes it old can
    /// tell whether it was touched again.
    PretendedYoung,
}

impl Back {
    const fn is_pretended(self) -> bool {
        matches!(self, Self::Pretended | Self::PretendedYoung)
    }
}

/// What the proof has to know of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::apply) struct Terms {
    /// The refault window, in ns: a page that is touched within it counts.
    pub(in crate::apply) window_ns: u64,
    /// Whether it is a dry run, which has to remember without limit what it pretended to do.
    pub(in crate::apply) dry_run: bool,
}

/// Pages that were acted on at about the same time.
#[derive(Debug)]
struct Batch {
    scheme: usize,
    back: Back,
    at: Time,
    pages: PageSet,
}

/// Pages that a dry run pretended to take, longer ago than its refault window.
#[derive(Debug)]
struct Kept {
    scheme: usize,
    back: Back,
    pages: PageSet,
    /// Where the next sweep goes on.
    cursor: u64,
}

/// Pages of one target that were acted on and may still come back.
#[derive(Debug, Default)]
pub(in crate::apply) struct Proof {
    batches: VecDeque<Batch>,
    kept: Vec<Kept>,
}

impl Proof {
    /// Records that these pages of the granule at `start` were acted on at `now`.
    pub(in crate::apply) fn add(
        &mut self,
        scheme: usize,
        back: Back,
        start: u64,
        pages: Bits,
        now: Time,
    ) {
        if pages.is_empty() {
            return;
        }
        let fits =
            |b: &&mut Batch| b.scheme == scheme && b.back == back && now.since(b.at) < TOGETHER_NS;
        match self.batches.iter_mut().rev().find(fits) {
            Some(batch) => batch.pages.insert(start, pages),
            None => {
                let mut set = PageSet::default();
                set.insert(start, pages);
                self.batches.push_back(Batch { scheme, back, at: now, pages: set });
            }
        }
    }

    /// Whether nothing is watched.
    pub(in crate::apply) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.kept.is_empty()
    }

    /// Pages of the granule at `start` that `scheme` need not act on, because it did so a short
    /// time ago; for a dry run, also those that it pretended to take. What a dry run pretended
    /// never prevents a real action.
    pub(in crate::apply) fn settled(&self, start: u64, scheme: usize, dry_run: bool) -> Bits {
        let counts = |b: &&Batch| {
            if b.back.is_pretended() {
                dry_run
            } else {
                b.back == Back::Young && b.scheme == scheme
            }
        };
        let settled = self.batches.iter().filter(counts).map(|batch| &batch.pages);
        let kept = self.kept.iter().filter(|_| dry_run).map(|kept| &kept.pages);
        settled.chain(kept).fold(Bits::default(), |bits, pages| bits.or(pages.get(start)))
    }

    /// Looks which pages came back, and calls `came_back` with the scheme and the bytes. Pages that
    /// were acted on longer ago than the scheme's refault window are looked at a last time.
    pub(in crate::apply) fn sweep(
        &mut self,
        look: &mut dyn Look,
        target: TargetId,
        now: Time,
        mut terms: impl FnMut(usize) -> Terms,
        mut came_back: impl FnMut(usize, u64),
    ) {
        self.sweep_kept(look, target, &mut terms);
        let kept = &mut self.kept;
        self.batches.retain_mut(|batch| {
            let terms = terms(batch.scheme);
            let keep = terms.dry_run && batch.back.is_pretended();
            let over = now.since(batch.at) > terms.window_ns;
            if !batch.counts(terms, now) {
                if keep {
                    keep_in_mind(kept, batch);
                }
                return false;
            }
            let mut back = Vec::new();
            for span in batch.pages.spans(SPAN) {
                let mut see = |start: u64, seen: Seen| {
                    let again = match batch.back {
                        Back::Present => seen.present,
                        Back::Young | Back::Pretended => seen.young,
                        Back::PretendedYoung => Bits::default(),
                    };
                    let pages = batch.pages.get(start).and(again);
                    if !pages.is_empty() {
                        back.push((start, pages));
                    }
                };
                // What cannot be looked at is gone with its process.
                look.look(target, span, &mut see).ok();
            }
            for (start, pages) in back {
                batch.pages.remove(start, pages);
                came_back(batch.scheme, pages.count() << 12);
            }
            !batch.pages.is_empty() && (keep || !over)
        });
    }

    /// Looks at the next part of the pages that a dry run only remembers, and forgets those in use
    /// again.
    fn sweep_kept(
        &mut self,
        look: &mut dyn Look,
        target: TargetId,
        terms: &mut impl FnMut(usize) -> Terms,
    ) {
        self.kept.retain(|kept| terms(kept.scheme).dry_run && !kept.pages.is_empty());
        let looked_at = |kept: &&mut Kept| kept.back == Back::Pretended;
        let nr = self.kept.iter_mut().filter(looked_at).count() as u64;
        for kept in self.kept.iter_mut().filter(looked_at) {
            let (spans, cursor) = kept.pages.spans_from(kept.cursor, SPAN, KEPT_PER_SWEEP / nr);
            kept.cursor = cursor;
            let mut back = Vec::new();
            for span in spans {
                // What cannot be looked at is gone with its process.
                look.look(target, span, &mut |start, seen| back.push((start, seen.young))).ok();
            }
            back.into_iter().for_each(|(start, young)| kept.pages.remove(start, young));
        }
    }

    /// Records that the monitor or another scheme made the leaf of `len` bytes at `addr` old after
    /// it was touched. Calls `came_back`.
    pub(in crate::apply) fn touched(
        &mut self,
        addr: u64,
        len: u64,
        now: Time,
        mut terms: impl FnMut(usize) -> Terms,
        mut came_back: impl FnMut(usize, u64),
    ) {
        let range = AddrRange::new(addr, addr + len);
        for batch in self.batches.iter_mut().filter(|b| b.back != Back::Present) {
            let counts =
                batch.back != Back::PretendedYoung && batch.counts(terms(batch.scheme), now);
            for (start, part) in crate::apply::pages::granules(range) {
                let pages = batch.pages.get(start).and(Bits::of(start, part));
                batch.pages.remove(start, pages);
                if counts && !pages.is_empty() {
                    came_back(batch.scheme, pages.count() << 12);
                }
            }
        }
        for (start, part) in crate::apply::pages::granules(range) {
            let pages = Bits::of(start, part);
            self.kept.iter_mut().for_each(|kept| kept.pages.remove(start, pages));
        }
    }
}

/// Takes over the pages that are left of a batch.
fn keep_in_mind(kept: &mut Vec<Kept>, batch: &mut Batch) {
    let pages = std::mem::take(&mut batch.pages);
    let (scheme, back) = (batch.scheme, batch.back);
    match kept.iter_mut().find(|kept| kept.scheme == scheme && kept.back == back) {
        Some(kept) => kept.pages.append(pages),
        None => kept.push(Kept { scheme, back, pages, cursor: 0 }),
    }
}

impl Batch {
    /// Whether a page that is found to be back now came back within the refault window, as far as
    /// can be told.
    fn counts(&self, terms: Terms, now: Time) -> bool {
        now.since(self.at) <= terms.window_ns.saturating_add(LATE_NS)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::apply::pages::GRANULE;

    const ID: TargetId = TargetId(1);
    const S: u64 = 1_000_000_000;
    const PAGE: u64 = 4096;

    /// What is seen of the granules, or an error for a target that has gone.
    struct Fake(Option<Vec<(u64, Seen)>>);

    impl Look for Fake {
        fn look(
            &mut self,
            target: TargetId,
            range: AddrRange,
            f: &mut dyn FnMut(u64, Seen),
        ) -> io::Result<()> {
            assert_eq!(target, ID);
            let seen = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let inside = seen.iter().filter(|(start, _)| range.contains(*start));
            inside.for_each(|&(start, seen)| f(start, seen));
            Ok(())
        }
    }

    fn pages(from: u64, to: u64) -> Bits {
        Bits::of(0, AddrRange::new(from * PAGE, to * PAGE))
    }

    fn terms(dry_run: bool) -> Terms {
        Terms { window_ns: 10 * S, dry_run }
    }

    /// Sweeps, and returns the pages that came back.
    fn sweep(proof: &mut Proof, fake: &mut Fake, at_s: u64, dry_run: bool) -> u64 {
        let mut sum = 0;
        let mut came_back = |scheme, bytes: u64| {
            assert_eq!(scheme, 2);
            sum += bytes / PAGE;
        };
        proof.sweep(fake, ID, Time(at_s * S), |_| terms(dry_run), &mut came_back);
        sum
    }

    #[test]
    fn each_page_that_comes_back_is_counted_once() {
        // 100 pages are gone; 30 are mapped again, 10 of them young.
        let seen =
            Seen { present: pages(0, 30).or(pages(200, 300)), young: pages(0, 10), huge: false };
        for (back, first) in [
            (Back::Present, 30),
            (Back::Young, 10),
            (Back::Pretended, 10),
            (Back::PretendedYoung, 0),
        ] {
            let mut proof = Proof::default();
            proof.add(2, back, GRANULE, pages(0, 100), Time(100 * S));
            let mut fake = Fake(Some(vec![(0, seen), (GRANULE, seen)]));
            assert_eq!(sweep(&mut proof, &mut fake, 101, false), first, "{back:?}");
            assert_eq!(sweep(&mut proof, &mut fake, 102, false), 0, "{back:?}: again");
        }
    }

    #[test]
    fn what_comes_back_after_the_window_is_not_counted() {
        let seen = Seen { present: Bits::ALL, young: Bits::ALL, huge: false };
        for (at_s, expected) in [(9, 100), (10, 100), (12, 100), (13, 0), (100, 0)] {
            for (back, dry_run) in
                [(Back::Present, false), (Back::Young, false), (Back::Pretended, true)]
            {
                let mut proof = Proof::default();
                proof.add(2, back, 0, pages(0, 100), Time(0));
                let came = sweep(&mut proof, &mut Fake(Some(vec![(0, seen)])), at_s, dry_run);
                assert_eq!(came, expected, "{back:?} after {at_s} s");
            }
        }
    }

    #[test]
    fn only_a_dry_run_remembers_beyond_the_window() {
        for (back, dry_run, settled) in [
            (Back::Present, false, 0),
            (Back::Young, false, 0),
            (Back::Pretended, true, 100),
            (Back::PretendedYoung, true, 100),
            // It was one when it did this, and is real now.
            (Back::Pretended, false, 0),
        ] {
            let mut proof = Proof::default();
            proof.add(2, back, 0, pages(0, 100), Time(0));
            for at_s in [5, 11, 50] {
                assert_eq!(sweep(&mut proof, &mut Fake(Some(Vec::new())), at_s, dry_run), 0);
            }
            assert_eq!(proof.settled(0, 2, dry_run).count(), settled, "{back:?}");
            assert_eq!(proof.is_empty(), settled == 0, "{back:?}");
        }
    }

    /// Counts the bytes looked at; one page of each granule is young.
    struct Counting(u64);

    impl Look for Counting {
        fn look(
            &mut self,
            _: TargetId,
            range: AddrRange,
            f: &mut dyn FnMut(u64, Seen),
        ) -> io::Result<()> {
            self.0 += range.len();
            for (start, _) in crate::apply::pages::granules(range) {
                f(start, Seen { present: Bits::ALL, young: pages(0, 1), huge: false });
            }
            Ok(())
        }
    }

    #[test]
    fn what_a_dry_run_remembers_is_looked_at_within_a_budget() {
        const GRANULES: u64 = 20_000;
        let mut proof = Proof::default();
        for nr in 0..GRANULES {
            let back = if nr % 2 == 0 { Back::Pretended } else { Back::PretendedYoung };
            proof.add(2, back, nr * GRANULE, Bits::ALL, Time(nr * S / GRANULES));
        }
        let sweep = |proof: &mut Proof, at_s: u64| {
            let mut look = Counting(0);
            proof.sweep(&mut look, ID, Time(at_s * S), |_| terms(true), |_, _| ());
            look.0
        };
        sweep(&mut proof, 20);
        let mut sum = 0;
        for at_s in 21..45 {
            let looked = sweep(&mut proof, at_s);
            assert!(looked <= KEPT_PER_SWEEP + SPAN, "{looked} bytes in one sweep");
            sum += looked;
        }
        assert!(sum >= GRANULES / 2 * GRANULE, "only {sum} bytes in a round");
        let settled = |nr: u64| proof.settled(nr * GRANULE, 2, true).count();
        assert!((0..GRANULES).all(|nr| settled(nr) == if nr % 2 == 0 { 511 } else { 512 }));
    }

    #[test]
    fn what_is_settled_for_one_scheme_is_not_for_another() {
        for (back, scheme, dry_run, settled) in [
            (Back::Young, 2, false, 100),
            (Back::Young, 3, false, 0),
            (Back::Present, 2, false, 0),
            (Back::Pretended, 2, true, 100),
            (Back::Pretended, 3, true, 100),
            (Back::Pretended, 3, false, 0),
        ] {
            let mut proof = Proof::default();
            proof.add(2, back, 0, pages(0, 100), Time(0));
            let pages = proof.settled(0, scheme, dry_run).count();
            assert_eq!(pages, settled, "{back:?}, asked by {scheme}, dry {dry_run}");
        }
    }

    #[test]
    fn pages_that_somebody_else_made_old_again_came_back() {
        for (back, at_s, expected, left) in [
            (Back::Young, 5, 1, 99),
            (Back::Pretended, 5, 1, 99),
            (Back::Pretended, 60, 0, 99),
            (Back::PretendedYoung, 5, 0, 99),
            // A page that is gone is not touched without being present again, which a look will
            // show.
            (Back::Present, 5, 0, 100),
        ] {
            let mut proof = Proof::default();
            proof.add(2, back, 0, pages(0, 100), Time(0));
            let mut came = 0;
            for addr in [7 * PAGE, 7 * PAGE, 300 * PAGE] {
                let at = Time(at_s * S);
                proof.touched(addr, PAGE, at, |_| terms(true), |_, bytes| came += bytes / PAGE);
            }
            assert_eq!(came, expected, "{back:?} after {at_s} s");
            let in_batches: u64 = proof.batches.iter().map(|b| b.pages.get(0).count()).sum();
            assert_eq!(in_batches, left, "{back:?}");
        }
    }

    #[test]
    fn a_target_that_has_gone_brings_nothing_back() {
        let mut proof = Proof::default();
        proof.add(2, Back::Present, 0, pages(0, 100), Time(0));
        assert_eq!(sweep(&mut proof, &mut Fake(None), 1, false), 0);
        assert_eq!(proof.batches.len(), 1);
        assert_eq!(sweep(&mut proof, &mut Fake(None), 11, false), 0);
        assert!(proof.batches.is_empty(), "kept after the window");
    }

    #[test]
    fn actions_in_one_second_share_a_batch() {
        let mut proof = Proof::default();
        for ms in [0, 400, 900, 1_100, 1_900, 2_500] {
            let page = ms / 100;
            proof.add(2, Back::Present, 0, pages(page, page + 1), Time(ms * 1_000_000));
        }
        proof.add(2, Back::Young, 0, pages(0, 1), Time(2_500_000_000));
        proof.add(1, Back::Present, 0, pages(0, 1), Time(2_500_000_000));
        assert_eq!(proof.batches.len(), 5);
    }
}
