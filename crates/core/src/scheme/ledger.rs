//! The ledger: what every scheme did over all commits, by its name.
//!
//! When schemes are committed, the counters of each index go on, as in the kernel
//! (`damon_commit_schemes()`). People know schemes by their names. So when another scheme takes
//! over an index, the ledger closes the account of the scheme that was there. It remembers what the
//! index had counted until then:
//!
//! ```text
//! index 0:  a .. a | b .. b     a did what was counted up to the commit,
//! counted   0   40 | 40  55     b what was counted since: 15
//! ```
//!
//! Invariant: everything that is counted at an index belongs to exactly one scheme. So the sum over
//! all names is the sum of all that was ever counted.

use alloc::string::String;
use alloc::vec::Vec;

use super::counters::Counters;

/// A scheme's name, and counters.
pub type Entry = (String, Counters);

/// What schemes did at indexes that they have left, and what the indexes in use had counted before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// What schemes did at indexes that they have left.
    closed: Vec<Entry>,
    /// By index: what had been counted when the present scheme took the index over.
    base: Vec<Counters>,
}

impl Ledger {
    /// Notes that other schemes take over. `counted` has the schemes until now and the counters of
    /// their indexes. `names` has the schemes from now on. Indexes beyond either list begin at 0.
    pub fn commit(&mut self, counted: &[Entry], names: &[String]) {
        for (i, (name, counters)) in counted.iter().enumerate() {
            if names.get(i) == Some(name) {
                continue;
            }
            let did = self.own(i, counters);
            self.close(name, &did);
            if self.base.len() <= i {
                self.base.resize_with(i + 1, Counters::default);
            }
            self.base[i] = counters.clone();
        }
        self.base.truncate(names.len().min(counted.len()));
    }

    /// What each scheme did at all times. Schemes that are gone come first, then the present ones
    /// in the order of their indexes.
    #[must_use]
    pub fn all(&self, counted: &[Entry]) -> Vec<Entry> {
        let is_there = |name: &String| counted.iter().any(|(there, _)| there == name);
        let gone = self.closed.iter().filter(|(name, _)| !is_there(name)).cloned();
        let there = counted.iter().enumerate().map(|(i, (name, counters))| {
            let mut did = self.own(i, counters);
            for (_, before) in self.closed.iter().filter(|(closed, _)| closed == name) {
                did.add(before);
            }
            (name.clone(), did)
        });
        gone.chain(there).collect()
    }

    /// What the present scheme of an index did at that index.
    fn own(&self, index: usize, counted: &Counters) -> Counters {
        let mut own = counted.clone();
        if let Some(base) = self.base.get(index) {
            own.subtract(base);
        }
        own
    }

    fn close(&mut self, name: &str, did: &Counters) {
        match self.closed.iter_mut().find(|(closed, _)| closed == name) {
            Some((_, sum)) => sum.add(did),
            None => self.closed.push((name.into(), did.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn counted(entries: &[(&str, u64)]) -> Vec<Entry> {
        let counters = |sz_tried| Counters { sz_tried, ..Counters::default() };
        entries.iter().map(|(name, tried)| ((*name).into(), counters(*tried))).collect()
    }

    fn tried(entries: &[Entry]) -> Vec<(&str, u64)> {
        entries.iter().map(|(name, c)| (name.as_str(), c.sz_tried)).collect()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).into()).collect()
    }

    #[test]
    fn counters_stay_with_the_name() {
        let mut ledger = Ledger::default();
        ledger.commit(&counted(&[("a", 40)]), &names(&["b", "a"]));
        // Nothing was counted since: `b` has nothing of what `a` did at its index.
        assert_eq!(tried(&ledger.all(&counted(&[("b", 40), ("a", 0)]))), [("b", 0), ("a", 40)]);
        let now = counted(&[("b", 55), ("a", 7)]);
        assert_eq!(tried(&ledger.all(&now)), [("b", 15), ("a", 47)]);
        // `b` goes, and `a` moves to where it was.
        ledger.commit(&now, &names(&["a"]));
        assert_eq!(tried(&ledger.all(&counted(&[("a", 60)]))), [("b", 15), ("a", 52)]);
        // An index that comes anew begins at 0.
        ledger.commit(&counted(&[("a", 60)]), &names(&["a", "c"]));
        let now = counted(&[("a", 61), ("c", 3)]);
        assert_eq!(tried(&ledger.all(&now)), [("b", 15), ("a", 53), ("c", 3)]);
    }

    #[test]
    fn nothing_changes_while_the_names_stay() {
        let mut ledger = Ledger::default();
        for _ in 0..3 {
            ledger.commit(&counted(&[("a", 5), ("b", 6)]), &names(&["a", "b"]));
        }
        assert_eq!(ledger, Ledger::default());
    }

    #[test]
    fn all_schemes_go_and_come_back() {
        let mut ledger = Ledger::default();
        ledger.commit(&counted(&[("a", 5)]), &[]);
        assert_eq!(tried(&ledger.all(&[])), [("a", 5)]);
        ledger.commit(&[], &names(&["a"]));
        assert_eq!(tried(&ledger.all(&counted(&[("a", 2)]))), vec![("a", 7)]);
    }
}
