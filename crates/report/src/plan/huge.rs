//! Where huge pages pay, and what they cost in memory.
//!
//! A huge page helps as often as its 512 small pages are used, since it saves their walks of the
//! page tables; and it makes resident whatever of it was not. So units of 2 MiB are ordered by the
//! share of their pages that were touched within a second. This is the state at the end of the
//! record. Absent: what a walk costs; that depends on the processor and the program.

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{PageBits, UnitInfo};

/// The shares at which the table is cut, and how many of 512 pages they are.
const SHARES: [(f64, u64); 6] =
    [(1.0, 512), (0.9, 461), (0.75, 384), (0.5, 256), (0.25, 128), (0.1, 52)];
/// The span of a second, among those of a unit.
const SECOND: usize = 2;

/// One line: units of which at least such a share is used.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct HugeRow {
    /// The least share of a unit's pages that was touched within a second.
    pub min_touched: f64,
    /// Bytes in units that would become huge pages.
    pub bytes: u64,
    /// Bytes of them that are not resident now: what memory it costs.
    pub bloat: u64,
    /// Of all small pages that were touched within a second, the share in these units.
    pub hot_share: f64,
}

/// All of it.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct Huge {
    /// Bytes that huge pages map already.
    pub already: u64,
    /// Bytes of small pages that were touched within a second.
    pub hot: u64,
    /// Units, pages of them that are not resident, and hot pages, by share.
    #[serde(skip)]
    sums: [(u64, u64, u64); SHARES.len()],
}

impl Huge {
    /// Takes in a unit. `anonymous`: its pages that belong to anonymous memory.
    pub(super) fn add(&mut self, unit: &UnitInfo, anonymous: PageBits) {
        if unit.leaf_shift > 12 {
            self.already += unit.present.count() * PAGE_SIZE;
            return;
        }
        let known = unit.present.minus(unit.unresolved);
        let hot = unit.touched[SECOND].unwrap_or_default().and(known).count();
        self.hot += hot * PAGE_SIZE;
        // The kernel makes a huge page only of a whole unit of one anonymous mapping.
        if anonymous != PageBits::ALL {
            return;
        }
        let absent = 512 - unit.present.count();
        for (sum, (_, least)) in self.sums.iter_mut().zip(SHARES) {
            if hot >= least {
                *sum = (sum.0 + 1, sum.1 + absent, sum.2 + hot);
            }
        }
    }

    /// The lines, from the largest share to the smallest.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "numbers of pages, for people")]
    pub fn rows(&self) -> [HugeRow; SHARES.len()] {
        std::array::from_fn(|nr| {
            let (units, absent, hot) = self.sums[nr];
            HugeRow {
                min_touched: SHARES[nr].0,
                bytes: units << 21,
                bloat: absent * PAGE_SIZE,
                hot_share: (hot * PAGE_SIZE) as f64 / self.hot.max(1) as f64,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::AddrRange;

    use super::*;

    fn pages(nr: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(0, nr * PAGE_SIZE))
    }

    fn unit(present: u64, hot: u64) -> UnitInfo {
        let touched = [None, None, Some(pages(hot)), None, None];
        UnitInfo { present: pages(present), touched, leaf_shift: 12, ..UnitInfo::default() }
    }

    #[test]
    fn units_count_where_enough_of_them_is_used_and_bloat_is_what_is_absent() {
        let mut huge = Huge::default();
        huge.add(&unit(512, 512), PageBits::ALL);
        huge.add(&unit(300, 260), PageBits::ALL);
        huge.add(&unit(512, 60), PageBits::ALL);
        huge.add(&unit(512, 512), pages(511));
        huge.add(&UnitInfo { leaf_shift: 21, ..unit(512, 512) }, PageBits::ALL);
        let rows = huge.rows();
        let of = |nr: usize| (rows[nr].bytes >> 21, rows[nr].bloat / PAGE_SIZE);
        assert_eq!(
            [of(0), of(1), of(3), of(4), of(5)],
            [(1, 0), (1, 0), (2, 212), (2, 212), (3, 212)]
        );
        assert_eq!((huge.already, huge.hot / PAGE_SIZE), (2 << 20, 512 + 260 + 60 + 512));
        let share = 772.0 / 1344.0;
        assert!((rows[3].hot_share - share).abs() < 1e-9, "{}", rows[3].hot_share);
    }
}
