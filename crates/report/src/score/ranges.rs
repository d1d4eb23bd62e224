//! Unions, differences and intersections of sorted lists of ranges that do not overlap.

use isotherm_core::AddrRange;

/// Appends `range`, joined with the last one if they touch.
pub(super) fn push(list: &mut Vec<AddrRange>, range: AddrRange) {
    match list.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ if range.is_empty() => {}
        _ => list.push(range),
    }
}

/// The bytes of `a` that are not in `b`.
pub(super) fn minus(a: &[AddrRange], b: &[AddrRange]) -> Vec<AddrRange> {
    let mut out = Vec::new();
    let mut first = 0;
    for range in a {
        while b.get(first).is_some_and(|r| r.end <= range.start) {
            first += 1;
        }
        let mut start = range.start;
        for cut in b[first..].iter().take_while(|r| r.start < range.end) {
            push(&mut out, AddrRange::new(start, cut.start.max(start)));
            start = cut.end.max(start);
        }
        push(&mut out, AddrRange::new(start.min(range.end), range.end));
    }
    out
}

/// The bytes that are in both.
pub(super) fn both(a: &[AddrRange], b: &[AddrRange]) -> Vec<AddrRange> {
    minus(a, &minus(a, b))
}

/// Number of bytes.
pub(super) fn sum(list: &[AddrRange]) -> u64 {
    list.iter().map(AddrRange::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pairs: &[(u64, u64)]) -> Vec<AddrRange> {
        pairs.iter().map(|&(a, b)| AddrRange::new(a, b)).collect()
    }

    #[test]
    fn difference_and_intersection() {
        type Pairs = &'static [(u64, u64)];
        let cases: [(Pairs, Pairs, Pairs, Pairs); 6] = [
            (&[(0, 10)], &[], &[(0, 10)], &[]),
            (&[(0, 10)], &[(0, 10)], &[], &[(0, 10)]),
            (&[(0, 10)], &[(2, 3), (5, 12)], &[(0, 2), (3, 5)], &[(2, 3), (5, 10)]),
            (&[(0, 4), (6, 9)], &[(3, 7)], &[(0, 3), (7, 9)], &[(3, 4), (6, 7)]),
            (&[(5, 6)], &[(0, 1), (9, 10)], &[(5, 6)], &[]),
            (&[], &[(0, 1)], &[], &[]),
        ];
        for (a, b, without, common) in cases {
            let (a, b) = (list(a), list(b));
            assert_eq!(minus(&a, &b), list(without), "{a:?} - {b:?}");
            assert_eq!(both(&a, &b), list(common), "{a:?} and {b:?}");
            assert_eq!(sum(&a), sum(&list(without)) + sum(&list(common)));
        }
    }
}
