//! Values over time: quartiles and the greatest, each value weighted by how long it was so.

use serde::Serialize;

/// So many of the highest bits of a value are kept for quartiles: 0.1 %.
const BITS: u32 = 10;

/// A size over time, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Over {
    /// For a quarter of the time it was no more than this.
    pub p25: u64,
    /// For half of the time.
    pub median: u64,
    /// For three quarters of the time.
    pub p75: u64,
    /// It was never more.
    pub max: u64,
    /// For how long it was measured, in ns.
    pub measured_ns: u64,
}

/// Values with how long each was so.
///
/// Most are added and then forgotten among others, and a day of 500 cgroups has four million. So
/// they are only noted, and put in order when there are twice as many as the last time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Values {
    /// Values, rounded down, and their time; the first `ordered` are in order, each once.
    ns: Vec<(u64, u64)>,
    ordered: usize,
    max: u64,
}

/// So many values are noted at least before they are put in order.
const LEAST: usize = 32;

impl Values {
    /// Adds a value that was so for `ns` nanoseconds. What was so for no time does not count.
    pub(super) fn add(&mut self, value: u64, ns: u64) {
        if ns > 0 {
            self.ns.push((rounded(value), ns));
            self.max = self.max.max(value);
            if self.ns.len() >= LEAST.max(2 * self.ordered) {
                self.put_in_order();
            }
        }
    }

    fn put_in_order(&mut self) {
        self.ns.sort_unstable_by_key(|(value, _)| *value);
        self.ns.dedup_by(|again, first| {
            let same = again.0 == first.0;
            if same {
                first.1 = first.1.saturating_add(again.1);
            }
            same
        });
        self.ordered = self.ns.len();
    }

    /// The same, if it was measured.
    pub(super) fn add_if(&mut self, value: Option<u64>, ns: u64) {
        value.into_iter().for_each(|value| self.add(value, ns));
    }

    /// None if there is no value.
    pub(super) fn over(mut self) -> Option<Over> {
        self.put_in_order();
        let measured_ns = self.ns.iter().fold(0, |sum: u64, (_, ns)| sum.saturating_add(*ns));
        let quartile = |nr: u128| {
            let mut before = 0_u128;
            self.ns.iter().find_map(|(value, ns)| {
                before += u128::from(*ns);
                (before * 4 >= u128::from(measured_ns) * nr).then_some(*value)
            })
        };
        let [p25, median, p75] = [quartile(1)?, quartile(2)?, quartile(3)?];
        Some(Over { p25, median, p75, max: self.max, measured_ns })
    }
}

fn rounded(value: u64) -> u64 {
    let low = u64::BITS.saturating_sub(value.leading_zeros()).saturating_sub(BITS);
    value >> low << low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_weighted_by_time() {
        let mut values = Values::default();
        assert_eq!(values.clone().over(), None);
        values.add(500, 0);
        assert_eq!(values.clone().over(), None, "it was so for no time");
        for (value, ns) in [(8, 10), (1, 24), (2, 26), (4, 40)] {
            values.add(value, ns);
        }
        let over = Over { p25: 2, median: 2, p75: 4, max: 8, measured_ns: 100 };
        assert_eq!(values.over(), Some(over));
    }

    /// A month of rows needs no more room than the values that can be told apart.
    #[test]
    fn the_same_values_again_need_no_more_room() {
        let mut values = Values::default();
        for nr in 0..100_000_u64 {
            values.add((nr * 7919 % 100) << 20, 1);
        }
        assert!(values.ns.len() <= 200, "{}", values.ns.len());
        assert_eq!(values.over().unwrap().measured_ns, 100_000);
    }

    proptest::proptest! {
        #[test]
        fn quartiles_are_those_of_a_sorted_list_but_for_a_thousandth(
            all in proptest::collection::vec(0_u64..1 << 40, 1..200),
        ) {
            let mut values = Values::default();
            all.iter().for_each(|value| values.add(*value, 5));
            let mut sorted = all.clone();
            sorted.sort_unstable();
            let over = values.over().unwrap();
            for (nr, got) in [(1, over.p25), (2, over.median), (3, over.p75)] {
                let exact = sorted[(sorted.len() * nr).div_ceil(4) - 1];
                proptest::prop_assert!(got <= exact && exact - got <= exact / 512, "{got} {exact}");
            }
            proptest::prop_assert_eq!(over.max, *sorted.last().unwrap());
            proptest::prop_assert_eq!(over.measured_ns, 5 * all.len() as u64);
        }
    }
}
