//! Regions of several targets, with shared parts given to one of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use isotherm_core::{AddrRange, RegionInfo};

use super::Sharing;

/// A part of a region, by where it is in an object.
#[derive(Clone, Copy)]
struct Piece {
    object: u32,
    from: u64,
    to: u64,
    target: u32,
    region: RegionInfo,
}

impl Piece {
    /// The piece with the higher rank tells about the pages of both.
    fn rank(&self) -> (bool, u32, u32, Reverse<u32>) {
        let RegionInfo { resolved, nr_accesses, age, touched, .. } = self.region;
        let shares = touched.map(|touched| [touched.window, touched.second]);
        let touched = shares.into_iter().flatten().flatten().reduce(f32::max).unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let touched = (touched * 1e6) as u32;
        (resolved, nr_accesses, touched, Reverse(age))
    }

    /// The region between two places in the object.
    fn cut(&self, from: u64, to: u64) -> (u32, RegionInfo) {
        let start = self.region.range.start + (from - self.from);
        let range = AddrRange::new(start, start + (to - from));
        (self.target, RegionInfo { range, ..self.region })
    }
}

impl Sharing {
    /// The regions of all targets, each with the number of its target, by target and address. Parts
    /// that several targets show come once.
    #[must_use]
    pub fn regions<'a>(
        &self,
        targets: impl Iterator<Item = (u32, Vec<RegionInfo>)> + 'a,
    ) -> Vec<(u32, RegionInfo)> {
        let mut out = Vec::new();
        let mut pieces = Vec::new();
        for (id, regions) in targets {
            self.divide(id, &regions, &mut out, &mut pieces);
        }
        pieces.sort_by_key(|p| (p.object, p.from));
        pieces.chunk_by(|a, b| a.object == b.object).for_each(|chunk| sweep(chunk, &mut out));
        out.sort_by_key(|(id, r)| (*id, r.range.start));
        out
    }

    /// Divides the regions of a target into parts of objects and what is its own.
    fn divide(
        &self,
        target: u32,
        regions: &[RegionInfo],
        own: &mut Vec<(u32, RegionInfo)>,
        pieces: &mut Vec<Piece>,
    ) {
        let mut parts = self.parts(target);
        for r in regions {
            let skip = parts.iter().take_while(|p| p.range.end <= r.range.start).count();
            parts = &parts[skip..];
            let cut = |start, end| RegionInfo { range: AddrRange::new(start, end), ..*r };
            let mut at = r.range.start;
            for part in parts.iter().take_while(|p| p.range.start < r.range.end) {
                let (start, end) = (part.range.start.max(at), part.range.end.min(r.range.end));
                if at < start {
                    own.push((target, cut(at, start)));
                }
                let from = part.offset + (start - part.range.start);
                let (to, region) = (from + (end - start), cut(start, end));
                pieces.push(Piece { object: part.object, from, to, target, region });
                at = end;
            }
            if at < r.range.end {
                own.push((target, cut(at, r.range.end)));
            }
        }
    }
}

/// Gives each part of one object to the piece of the highest rank. The pieces are in the order of
/// their beginnings.
fn sweep(pieces: &[Piece], out: &mut Vec<(u32, RegionInfo)>) {
    let mut borders: Vec<u64> = pieces.iter().flat_map(|p| [p.from, p.to]).collect();
    borders.sort_unstable();
    borders.dedup();
    let mut open = BinaryHeap::new();
    let mut next = 0;
    // The piece that tells about the present stretch, and where that began.
    let mut current: Option<(usize, u64)> = None;
    let mut close = |current: Option<(usize, u64)>, at: u64| {
        out.extend(current.map(|(nr, from)| pieces[nr].cut(from, at)));
    };
    for &border in &borders {
        while pieces.get(next).is_some_and(|p| p.from <= border) {
            open.push((pieces[next].rank(), Reverse(next)));
            next += 1;
        }
        while open.peek().is_some_and(|(_, nr)| pieces[nr.0].to <= border) {
            open.pop();
        }
        let best = open.peek().map(|(_, nr)| nr.0);
        if best != current.map(|(nr, _)| nr) {
            close(current, border);
            current = best.map(|nr| (nr, border));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mapping, Object};

    const M: u64 = 1 << 20;

    fn region(start: u64, end: u64, nr_accesses: u32, resolved: bool) -> RegionInfo {
        let range = AddrRange::new(start * M, end * M);
        RegionInfo { range, nr_accesses, resolved, ..RegionInfo::default() }
    }

    fn map(start: u64, end: u64, perms: &str, inode: u64, offset: u64) -> Mapping {
        Mapping::new(start * M, end * M, perms, "/x").of_object(Object {
            device: 1,
            inode,
            offset: offset * M,
        })
    }

    /// 10 MiB of a file. The first target maps all of it, the second the last 6 MiB elsewhere.
    #[test]
    fn shared_parts_come_once_with_what_the_busiest_saw() {
        let mut sharing = Sharing::default();
        sharing.learn(0, 1, &[map(100, 110, "rw-s", 5, 0), map(110, 112, "rw-p", 5, 0)]);
        sharing.learn(1, 2, &[map(200, 206, "r--p", 5, 4)]);
        assert!(sharing.is_any([0, 1].into_iter()));
        assert!(!sharing.is_any([0].into_iter()));
        let first = vec![region(90, 106, 0, true), region(106, 112, 9, true)];
        let second = vec![region(200, 204, 3, true), region(204, 207, 0, false)];
        let once = sharing.regions([(0, first), (1, second)].into_iter());
        let got: Vec<_> = once
            .iter()
            .map(|(id, r)| (*id, r.range.start / M, r.range.end / M, r.nr_accesses))
            .collect();
        let want = [
            (0, 90, 100, 0),
            (0, 100, 104, 0),
            (0, 106, 110, 9),
            // Private memory that can be written is nobody else's.
            (0, 110, 112, 9),
            (1, 200, 202, 3),
            (1, 206, 207, 0),
        ];
        assert_eq!(got, want);
        let bytes: u64 = once.iter().map(|(_, r)| r.range.len()).sum();
        assert_eq!(bytes, (16 + 6 + 7 - 6) * M, "6 MiB are in both");
    }
}
