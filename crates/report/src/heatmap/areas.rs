//! The areas of addresses that a heatmap shows: those with accesses. Cold gaps between them are
//! folded.
//!
//! A first pass over the record notes, in blocks, where regions with accesses begin and end,
//! weighted by rate and time. The result is the access weight of every stretch of the address
//! space. The heaviest stretches are picked until they hold nearly all weight. Stretches with a
//! small gap between them are joined to one area.

use isotherm_core::AddrRange;

/// How many places are kept before the blocks get coarser. This bounds the memory.
const MAX_PLACES: usize = 1 << 19;
/// Smallest share of the accesses that the picked areas hold.
const ENOUGH: f64 = 0.998;
/// A gap of up to this share of the accessed bytes is shown rather than folded.
const SMALL_GAP: f64 = 0.05;

/// Sum of access weights over the address space, as differences at block borders.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    /// Log2 of the block size.
    shift: u32,
    /// By block, each once.
    known: Vec<Change>,
    /// Where the last one was found there.
    at: usize,
    /// Changes of other blocks, in the order in which they came.
    changes: Vec<Change>,
    /// Changes since the blocks were compacted, those included that were left then.
    added: usize,
    compact_at: usize,
}

/// How the weight per byte changes where one range ends and another begins.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// Number of the block.
    block: u64,
    end: f64,
    begin: f64,
}

/// No change: what it is added to stays the same to the last bit.
const NONE: f64 = -0.0;

impl Change {
    /// The sum. Ends come first, as ranges come in address order.
    fn sum(&self) -> f64 {
        self.end + self.begin
    }

    /// Adds a later change of the same block.
    fn add(&mut self, new: Self) {
        (self.end, self.begin) = (self.sum() + new.end + new.begin, NONE);
    }
}

/// A stretch of addresses with the same access weight per byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stretch {
    pub(crate) range: AddrRange,
    /// Weight of all its bytes.
    pub(crate) weight: f64,
}

impl Weights {
    pub(crate) fn new() -> Self {
        let (known, changes) = (Vec::new(), Vec::new());
        Self { shift: 12, known, at: 0, changes, added: 0, compact_at: 1 << 16 }
    }

    /// Adds `per_byte` to every byte of `range`.
    pub(crate) fn add(&mut self, range: AddrRange, per_byte: f64) {
        let first = range.start >> self.shift;
        let behind = ((range.end - 1) >> self.shift) + 1;
        self.change(Change { block: first, end: NONE, begin: per_byte });
        self.change(Change { block: behind, end: -per_byte, begin: NONE });
        self.added += 2;
        if self.added >= self.compact_at {
            self.compact();
        }
    }

    /// Most blocks are known after the first windows.
    fn change(&mut self, new: Change) {
        self.seek(new.block);
        match self.known.get_mut(self.at).filter(|kept| kept.block == new.block) {
            Some(kept) => kept.add(new),
            None => self.changes.push(new),
        }
    }

    /// Goes to the last known block up to this one. Ranges come in address order, so that it is
    /// mostly near.
    fn seek(&mut self, block: u64) {
        let is_until = |nr: usize| self.known.get(nr).is_some_and(|change| change.block <= block);
        let (mut from, mut step) = if is_until(self.at) { (self.at, 1) } else { (0, self.at) };
        while is_until(from + step) && step > 0 {
            from += step;
            step *= 2;
        }
        let behind = (from + step).min(self.known.len());
        let near = &self.known[from..behind];
        self.at = from + near.partition_point(|change| change.block <= block).saturating_sub(1);
    }

    fn compact(&mut self) {
        self.known.append(&mut self.changes);
        self.at = 0;
        loop {
            // Of equal blocks the first stays first.
            self.known.sort_by_key(|change| change.block);
            self.known.dedup_by(|new, kept| {
                let same = new.block == kept.block;
                if same {
                    kept.add(*new);
                }
                same
            });
            if self.known.len() <= MAX_PLACES {
                break;
            }
            self.shift += 1;
            // An end is moved up to the end of its block, so that no accessed byte is left out.
            for change in &mut self.known {
                let is_end = change.sum() < 0.0;
                change.block = if is_end { change.block.div_ceil(2) } else { change.block / 2 };
            }
        }
        self.added = self.known.len();
        self.compact_at = (self.known.len() * 2).max(1 << 16);
    }

    /// The stretches with accesses, in address order.
    pub(crate) fn stretches(mut self) -> Vec<Stretch> {
        self.compact();
        let mut out = Vec::new();
        let mut level = 0.0;
        let mut heaviest = 0.0f64;
        for pair in self.known.windows(2) {
            level += pair[0].sum();
            heaviest = heaviest.max(level);
            // Rounding leaves a small rest where weights cancel out. It is no access.
            if level <= heaviest * 1e-9 {
                continue;
            }
            let range = AddrRange::new(pair[0].block << self.shift, pair[1].block << self.shift);
            #[expect(clippy::cast_precision_loss, reason = "sizes below 2^53 are exact")]
            let weight = level * range.len() as f64;
            out.push(Stretch { range, weight });
        }
        out
    }
}

/// Picks at most `max_areas` areas out of `stretches`, in address order.
///
/// If there are more, the nearest neighbours are joined, as long as the gap between them is smaller
/// than all accessed bytes together. After that the lightest areas are left out.
pub(crate) fn pick(stretches: &[Stretch], max_areas: usize) -> Vec<Stretch> {
    let hot = drop_the_faint(stretches);
    let total: u64 = hot.iter().map(|s| s.range.len()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a share of it is taken")]
    let small = crate::numbers::to_u64(total as f64 * SMALL_GAP);
    let mut areas = glue(&hot, small);
    while areas.len() > max_areas.max(1) {
        let gap = |i: &usize| areas[*i + 1].range.start - areas[*i].range.end;
        let weight = |i: &usize| areas[*i].weight;
        let nearest = (0..areas.len() - 1).min_by_key(gap).unwrap_or(0);
        if gap(&nearest) < total {
            let behind = areas.remove(nearest + 1);
            areas[nearest].range.end = behind.range.end;
            areas[nearest].weight += behind.weight;
        } else {
            let lightest = (0..areas.len()).min_by(|a, b| weight(a).total_cmp(&weight(b)));
            areas.remove(lightest.unwrap_or(0));
        }
    }
    areas
}

/// Leaves out the stretches of the least weight per byte that together hold a negligible weight.
fn drop_the_faint(stretches: &[Stretch]) -> Vec<Stretch> {
    let total: f64 = stretches.iter().map(|s| s.weight).sum();
    let mut order: Vec<&Stretch> = stretches.iter().collect();
    #[expect(clippy::cast_precision_loss, reason = "for comparing")]
    let density = |s: &Stretch| s.weight / s.range.len() as f64;
    order.sort_by(|a, b| density(b).total_cmp(&density(a)));
    let mut sum = 0.0;
    let mut kept: Vec<Stretch> = order
        .into_iter()
        .take_while(|s| {
            let enough = sum >= total * ENOUGH;
            sum += s.weight;
            !enough
        })
        .copied()
        .collect();
    kept.sort_by_key(|s| s.range.start);
    kept
}

fn glue(stretches: &[Stretch], gap: u64) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::new();
    for s in stretches {
        match out.last_mut() {
            Some(last) if s.range.start - last.range.end <= gap => {
                last.range.end = s.range.end;
                last.weight += s.weight;
            }
            _ => out.push(*s),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn picked(parts: &[(u64, u64, f64)], max: usize) -> Vec<(u64, u64)> {
        let mut w = Weights::new();
        for &(start, end, weight) in parts {
            w.add(AddrRange::new(start * M, end * M), weight);
        }
        pick(&w.stretches(), max).iter().map(|s| (s.range.start / M, s.range.end / M)).collect()
    }

    #[test]
    fn shows_what_is_accessed() {
        for (name, parts, max, want) in [
            ("one", &[(100, 200, 1.0)][..], 8, &[(100, 200)][..]),
            ("small gap shown", &[(0, 100, 1.0), (105, 200, 1.0)], 8, &[(0, 200)]),
            ("large gap folded", &[(0, 100, 1.0), (9000, 9100, 1.0)], 8, &[(0, 100), (9000, 9100)]),
            ("faint noise left out", &[(0, 100, 1.0), (5000, 5010, 0.001)], 8, &[(0, 100)]),
            (
                "too many glued",
                &[(0, 9, 1.0), (20, 29, 1.0), (900, 909, 1.0)],
                2,
                &[(0, 29), (900, 909)],
            ),
            (
                "too far apart to glue",
                &[(0, 9, 1.0), (500, 505, 1.0), (900, 909, 1.0)],
                2,
                &[(0, 9), (900, 909)],
            ),
            ("overlapping", &[(0, 10, 1.0), (5, 20, 1.0)], 8, &[(0, 20)]),
        ] {
            assert_eq!(picked(parts, max), want, "{name}");
        }
        assert!(pick(&[], 4).is_empty());
    }

    #[test]
    fn coarsens_and_loses_nothing() {
        let mut w = Weights::new();
        for i in 0..600_000u64 {
            w.add(AddrRange::new(i << 13, (i << 13) + 4096), 1.0);
        }
        let s = w.stretches();
        assert!(s.len() <= MAX_PLACES);
        assert_eq!(s[0].range.start, 0);
        assert!(s[s.len() - 1].range.end >= (599_999 << 13) + 4096);
    }
}
