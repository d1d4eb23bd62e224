//! What the leaves of a round say about pages: which are idle, for how long, and how much memory
//! they stand for.
//!
//! A leaf is an entry of some process's page table, and a page is a frame. Several leaves may lead
//! to one page, which is idle only if none of them was accessed. This module does not ask the
//! kernel.

use super::super::kinds::{Bytes, Kind};
use crate::scanning::piece::mixed;

/// A leaf of the sample, as found in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf {
    /// Its first frame.
    pub(super) frame: u64,
    pub(super) shift: u8,
    pub(super) young: bool,
    /// It was young and could not be made old.
    pub(super) stuck: bool,
}

/// A frame that was old or made old at the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) frame: u64,
    pub(super) shift: u8,
    /// Whole intervals; 0 if it was touched in the last.
    pub(super) age: u8,
    /// Its kind and cgroup. `None` if not asked yet, or if the page does not count.
    pub(super) whose: Option<(Kind, u32)>,
}

/// Whether a leaf is in the sample. Huge ones always are. For the others the frame decides, so that
/// a page is in the sample of all processes that map it or of none.
pub(super) fn is_sampled(frame: u64, shift: u8, share: f64, seed: u64) -> bool {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^32")]
    let below = (share * 4_294_967_296.0) as u64;
    shift > 12 || mixed(frame ^ seed) >> 32 < below
}

/// How many bytes of memory each byte of a leaf stands for.
pub(super) fn weight(shift: u8, share: f64) -> f64 {
    if shift > 12 { 1.0 } else { 1.0 / share }
}

/// Makes pages of a round's leaves, which it sorts. `last` are the pages of the round before. A
/// page that was there, and has no young leaf, has become older. Any other page begins anew. A page
/// with a leaf that could not be made old is left out, because the time of its last touch is
/// unknown. Returns the bytes that such pages stand for.
pub(super) fn judge(leaves: &mut [Leaf], last: &[Page], share: f64) -> (Vec<Page>, f64) {
    leaves.sort_unstable();
    let mut pages = Vec::with_capacity(leaves.len());
    let mut last = last.iter().peekable();
    let mut unresolved = 0.0;
    for same in leaves.chunk_by(|a, b| a.frame == b.frame) {
        let Some(Leaf { frame, shift, .. }) = same.last().copied() else { continue };
        while last.peek().is_some_and(|page| page.frame < frame) {
            last.next();
        }
        #[expect(clippy::cast_precision_loss, reason = "a size of memory")]
        let bytes = (1_u64 << shift) as f64 * weight(shift, share);
        if same.iter().any(|leaf| leaf.stuck) {
            unresolved += bytes;
            continue;
        }
        let known = last.peek().filter(|page| page.frame == frame && page.shift == shift);
        let young = same.iter().any(|leaf| leaf.young);
        pages.push(match known {
            Some(page) if !young => Page { age: page.age.saturating_add(1), ..**page },
            _ => Page { frame, shift, age: 0, whose: None },
        });
    }
    (pages, unresolved)
}

/// Adds up what is idle, by the number of its cgroup, of which there are `ids`.
pub(super) fn add_up(pages: &[Page], ids: usize, share: f64) -> Vec<Bytes> {
    let mut sums = vec![Bytes::default(); ids];
    for page in pages.iter().filter(|page| page.age > 0) {
        let Some((kind, id)) = page.whose else { continue };
        let (bytes, weight) = (1 << page.shift, weight(page.shift, share));
        let sum = &mut sums[id as usize];
        sum.add(kind, page.age, bytes, weight);
        if weight > 1.0 && kind != Kind::Unevictable {
            sum.add_place(bytes, weight);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: (bool, bool) = (false, false);
    const YOUNG: (bool, bool) = (true, false);
    const STUCK: (bool, bool) = (true, true);

    fn leaf(frame: u64, shift: u8, (young, stuck): (bool, bool)) -> Leaf {
        Leaf { frame, shift, young, stuck }
    }

    fn page(frame: u64, shift: u8, age: u8) -> Page {
        let whose = (age > 0).then_some((Kind::Anon, 0));
        Page { frame, shift, age, whose }
    }

    #[test]
    fn a_page_is_as_old_as_its_last_touch_by_any_process() {
        let last = [page(5, 12, 3), page(7, 12, 0), page(512, 21, 255)];
        for (name, leaves, expected, unresolved) in [
            ("nothing is mapped any more", vec![], vec![], 0.0),
            ("left alone", vec![leaf(5, 12, OLD)], vec![(5, 12, 4)], 0.0),
            ("touched", vec![leaf(5, 12, YOUNG)], vec![(5, 12, 0)], 0.0),
            ("touched before, left alone since", vec![leaf(7, 12, OLD)], vec![(7, 12, 1)], 0.0),
            ("seen for the first time", vec![leaf(6, 12, OLD)], vec![(6, 12, 0)], 0.0),
            ("the oldest stay so", vec![leaf(512, 21, OLD)], vec![(512, 21, 255)], 0.0),
            (
                "two processes, one touches it",
                vec![leaf(5, 12, YOUNG), leaf(5, 12, OLD)],
                vec![(5, 12, 0)],
                0.0,
            ),
            (
                "two processes, none touches it: one page",
                vec![leaf(5, 12, OLD), leaf(5, 12, OLD)],
                vec![(5, 12, 4)],
                0.0,
            ),
            (
                "one of them could not be made old",
                vec![leaf(5, 12, OLD), leaf(5, 12, STUCK)],
                vec![],
                8192.0,
            ),
            ("a huge one that could not", vec![leaf(512, 21, STUCK)], vec![], f64::from(2 << 20)),
            (
                "the frame is part of a huge page now, or no longer",
                vec![leaf(5, 21, OLD), leaf(512, 12, OLD)],
                vec![(5, 21, 0), (512, 12, 0)],
                0.0,
            ),
            (
                "in any order",
                vec![leaf(512, 21, OLD), leaf(7, 12, OLD), leaf(5, 12, OLD)],
                vec![(5, 12, 4), (7, 12, 1), (512, 21, 255)],
                0.0,
            ),
        ] {
            let mut leaves = leaves;
            // Half of the small pages are looked at: each stands for two.
            let (pages, bytes) = judge(&mut leaves, &last, 0.5);
            let found: Vec<_> = pages.iter().map(|p| (p.frame, p.shift, p.age)).collect();
            assert_eq!((found, bytes), (expected, unresolved), "{name}");
        }
    }

    #[test]
    fn a_page_keeps_whose_it_is_until_it_is_touched() {
        let last = [page(5, 12, 3)];
        let (pages, _) = judge(&mut [leaf(5, 12, OLD)], &last, 1.0);
        assert_eq!(pages[0].whose, Some((Kind::Anon, 0)));
        let (pages, _) = judge(&mut [leaf(5, 12, YOUNG)], &last, 1.0);
        assert_eq!(pages[0].whose, None, "its frame may have been given to another since");
    }

    #[test]
    fn what_is_idle_counts_for_its_cgroup_and_what_it_stands_for() {
        let of = |frame, shift, age, whose| Page { frame, shift, age, whose };
        let pages = [
            of(1, 12, 1, Some((Kind::Anon, 0))),
            of(2, 12, 2, Some((Kind::Mapped, 1))),
            of(3, 12, 1, Some((Kind::Unevictable, 1))),
            of(512, 21, 1, Some((Kind::Anon, 1))),
            // In use, and nobody's.
            of(4, 12, 0, Some((Kind::Anon, 0))),
            of(6, 12, 9, None),
        ];
        let sums = add_up(&pages, 3, 0.25);
        let mut expected = vec![Bytes::default(); 3];
        expected[0].add(Kind::Anon, 1, 4096, 4.0);
        expected[0].add_place(4096, 4.0);
        expected[1].add(Kind::Mapped, 2, 4096, 4.0);
        expected[1].add_place(4096, 4.0);
        expected[1].add(Kind::Unevictable, 1, 4096, 4.0);
        expected[1].add(Kind::Anon, 1, 2 << 20, 1.0);
        assert_eq!(sums, expected);
    }

    #[test]
    fn the_sample_is_of_frames_and_as_large_as_asked_for() {
        const FRAMES: u64 = 1 << 16;
        for share in [0.01, 0.25, 0.5, 1.0] {
            let taken = |seed| (0..FRAMES).filter(move |f| is_sampled(*f, 12, share, seed));
            #[expect(clippy::cast_precision_loss, reason = "few")]
            let got = taken(7).count() as f64 / FRAMES as f64;
            // Six standard deviations.
            let error = 6.0 * (share * (1.0 - share) / 65_536.0_f64).sqrt();
            assert!((got - share).abs() <= error, "{share}: {got}");
            assert!(taken(7).eq(taken(7)), "the same each time");
            assert!(share >= 1.0 || !taken(7).eq(taken(8)), "another with another seed");
            assert!((0..FRAMES).all(|frame| is_sampled(frame, 21, share, 7)), "huge: all");
        }
        // A smaller share's frames are in every larger one's.
        assert!((0..FRAMES).all(|f| !is_sampled(f, 12, 0.1, 3) || is_sampled(f, 12, 0.2, 3)));
        assert_eq!((0..FRAMES).filter(|f| is_sampled(*f, 12, 0.0, 3)).count(), 0);
    }
}
