//! Splits huge pages: afterwards small pages map the same memory, with the same content.
//!
//! No advice asks for that. But the kernel splits a huge page when `MADV_COLD` is given to a part
//! of it, so the advice goes to the first of its 512 pages. Since Linux 6.12 pages that hold only
//! zeros become the zero page in a split, and their memory is free again: what a huge page had
//! brought in that nobody wrote. Before that, such memory stays until it is paged out.
//!
//! Invariants: no content changes and nothing goes to swap. What was small before only loses the
//! accessed bit of one page in 512. Absent: proof. The kernel refuses silently what is locked or
//! mapped by several processes, so callers look afterwards.

use isotherm_core::AddrRange;
use isotherm_core::addr::{PAGE_SIZE, round_up};

use crate::advise::HUGE;
use crate::{Advice, Outcome, Process};

impl Process {
    /// Splits the huge pages that lie in these ranges as a whole. `stop` is asked after every
    /// 512 of them. Bytes in the outcome are those of the pages that got the advice: 4 KiB for each
    /// huge page.
    pub fn split_huge(&self, ranges: &[AddrRange], stop: &mut dyn FnMut() -> bool) -> Outcome {
        let firsts: Vec<AddrRange> = firsts(ranges).collect();
        self.advise(Advice::Cold, &firsts, 512 * PAGE_SIZE, stop)
    }
}

/// The first page of each huge page that lies in one of the ranges as a whole.
fn firsts(ranges: &[AddrRange]) -> impl Iterator<Item = AddrRange> + '_ {
    ranges.iter().flat_map(|range| {
        let (mut at, end) = (round_up(range.start, HUGE), range.end);
        std::iter::from_fn(move || {
            let start = at;
            at = at.checked_add(HUGE).filter(|next| *next <= end)?;
            Some(AddrRange::new(start, start + PAGE_SIZE))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_huge_pages_are_split() {
        let mib = |a: u64, b: u64| AddrRange::new(a << 20, b << 20);
        let starts = |ranges: &[AddrRange]| -> Vec<u64> {
            firsts(ranges).map(|first| first.start >> 20).collect()
        };
        assert_eq!(starts(&[mib(1, 7), mib(8, 10), mib(11, 12)]), [2, 4, 8]);
        assert!(starts(&[mib(0, 1), mib(3, 3)]).is_empty());
        assert!(firsts(&[mib(0, 64)]).all(|first| first.len() == PAGE_SIZE));
    }
}
