//! Decides at a folio's first frame, and applies that to its other frames.

use super::Flags;

/// What was decided for the folio of the last entries. It is kept between the pieces of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried<T> {
    /// The decision, and the frame behind the last that it holds for.
    last: Option<(u64, T)>,
}

impl<T> Default for Carried<T> {
    fn default() -> Self {
        Self { last: None }
    }
}

/// Calls `decide` for the first frame of each folio, and `each` for every frame with the decision
/// of its folio. The decision is `None` for frames whose first one was not seen, because a reading
/// began in the middle of a folio. `first` is the frame of the first of `flags`. Pass one `carried`
/// for all pieces, so that a folio may lie across two. A gap between pieces ends the folio.
pub fn fold<T: Copy>(
    carried: &mut Carried<T>,
    first: u64,
    flags: &[u64],
    mut decide: impl FnMut(u64, Flags) -> T,
    mut each: impl FnMut(u64, Option<T>),
) {
    for (frame, flags) in (first..).zip(flags.iter().map(|f| Flags(*f))) {
        let decision = if flags.is_first() {
            Some(decide(frame, flags))
        } else {
            carried.last.filter(|(behind, _)| *behind == frame).map(|(_, decision)| decision)
        };
        carried.last = decision.map(|decision| (frame + 1, decision));
        each(frame, decision);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LRU: u64 = Flags::LRU.0;
    const HEAD: u64 = Flags::HEAD.0;
    const TAIL: u64 = Flags::TAIL.0;
    const IDLE: u64 = Flags::IDLE.0;
    const THP: u64 = Flags::THP.0;
    const LOCKED_IN: u64 = Flags::UNEVICTABLE.0;

    /// Bytes of idle memory that can be reclaimed, as the script of 2015 wanted to count them.
    fn idle_bytes(pieces: &[(u64, Vec<u64>)]) -> u64 {
        let (mut carried, mut bytes) = (Carried::default(), 0);
        for (first, flags) in pieces {
            let idle = |_, flags: Flags| flags.has(Flags::IDLE) && !flags.has(Flags::UNEVICTABLE);
            fold(&mut carried, *first, flags, idle, |_, idle| {
                bytes += if idle == Some(true) { 4096 } else { 0 };
            });
        }
        bytes
    }

    #[test]
    fn a_folio_counts_once_per_frame_on_old_and_new_kernels() {
        let old = |len: usize, flags: u64| {
            let mut all = vec![TAIL; len];
            all[0] = flags | HEAD | THP;
            all
        };
        let new = |len: usize, flags: u64| {
            let mut all = vec![flags | TAIL | THP; len];
            all[0] = flags | HEAD | THP;
            all
        };
        // Before 6.10 the kernel said THP, but not IDLE, at tails too.
        let between = |len: usize, flags: u64| {
            let mut all = vec![TAIL | THP; len];
            all[0] = flags | HEAD | THP;
            all
        };
        for (name, flags, expected) in [
            ("single pages", vec![LRU | IDLE, LRU, LRU | IDLE, 0], 2),
            ("old, 2 MiB idle", old(512, LRU | IDLE), 512),
            ("between, 2 MiB idle", between(512, LRU | IDLE), 512),
            ("new, 2 MiB idle", new(512, LRU | IDLE), 512),
            ("old, 64 KiB idle", old(16, LRU | IDLE), 16),
            ("new, 64 KiB idle", new(16, LRU | IDLE), 16),
            ("old, not idle", old(512, LRU), 0),
            ("new, not idle", new(512, LRU), 0),
            ("new, locked in memory", new(512, LRU | IDLE | LOCKED_IN), 0),
            ("new, then a single page", [new(4, LRU), vec![LRU | IDLE]].concat(), 1),
            ("two folios", [new(4, LRU | IDLE), new(4, LRU), old(4, LRU | IDLE)].concat(), 8),
            ("begins in the middle", vec![TAIL | IDLE | THP; 3], 0),
        ] {
            assert_eq!(idle_bytes(&[(0, flags)]), expected * 4096, "{name}");
        }
        let whole = new(512, LRU | IDLE);
        let (left, right) = whole.split_at(100);
        let split = |gap: u64| vec![(512, left.to_vec()), (612 + gap, right.to_vec())];
        assert_eq!(idle_bytes(&split(0)), 512 * 4096, "across pieces");
        assert_eq!(idle_bytes(&split(1)), 100 * 4096, "a gap ends it");
    }

    proptest! {
        /// Any mix of folios, exported in any of the ways and cut anywhere, gives the sum over the
        /// folios.
        #[test]
        fn sums_are_those_of_the_folios(
            folios in prop::collection::vec((0_u32..10, 0_u64..4, any::<bool>()), 1..40),
            cut in 1_usize..300,
        ) {
            let (mut flags, mut expected) = (Vec::new(), 0);
            for (order, bits, repeated) in folios {
                let len = 1_usize << order;
                let own = LRU | if bits & 1 == 1 { IDLE } else { 0 } | if bits & 2 == 2 { LOCKED_IN } else { 0 };
                let marks = if len > 1 { HEAD | THP } else { 0 };
                flags.push(own | marks);
                flags.extend(std::iter::repeat_n(TAIL | if repeated { own | THP } else { 0 }, len - 1));
                expected += if bits == 1 { len as u64 * 4096 } else { 0 };
            }
            let starts = (0..).step_by(cut);
            let pieces: Vec<_> = starts.zip(flags.chunks(cut)).map(|(at, p)| (at, p.to_vec())).collect();
            prop_assert_eq!(idle_bytes(&pieces), expected);
        }
    }
}
