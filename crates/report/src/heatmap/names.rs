//! Which mapping each row of a panel belongs to.
//!
//! A target that keeps mapping and unmapping memory has other mappings in every update interval, so
//! nothing is kept per version of the mappings. A row has one name, and the number of its bytes
//! that the named mapping covered. A later mapping gives the row its name if it covers at least as
//! many bytes. So the name is that of the mapping that covered most of the row at any time, and of
//! the newest if several covered equally much.

use isotherm_core::AddrRange;
use isotherm_record::Mapping;

/// The names of rows that are in address order and do not overlap.
#[derive(Debug, Default)]
pub(super) struct Names {
    rows: Vec<Name>,
    version: u64,
}

#[derive(Debug)]
struct Name {
    range: AddrRange,
    bytes: u64,
    label: String,
}

impl Names {
    pub(super) fn new(rows: impl Iterator<Item = AddrRange>) -> Self {
        let rows = rows.map(|range| Name { range, bytes: 0, label: String::new() });
        Self { rows: rows.collect(), version: 0 }
    }

    /// Takes in mappings in address order, unless this version of them was taken in before.
    pub(super) fn learn(&mut self, version: u64, mappings: &[Mapping]) {
        if std::mem::replace(&mut self.version, version) == version {
            return;
        }
        let mut first = 0;
        for row in &mut self.rows {
            while mappings.get(first).is_some_and(|m| m.end <= row.range.start) {
                first += 1;
            }
            for m in mappings[first..].iter().take_while(|m| m.start < row.range.end) {
                let bytes = AddrRange::new(m.start, m.end).overlap(&row.range);
                if bytes > 0 && bytes >= row.bytes {
                    row.bytes = bytes;
                    m.label().clone_into(&mut row.label);
                }
            }
        }
    }

    /// Whether mappings were taken in.
    pub(super) const fn is_any(&self) -> bool {
        self.version != 0
    }

    /// One name per row; empty where no mapping is known.
    pub(super) fn labels(self) -> impl Iterator<Item = String> {
        self.rows.into_iter().map(|row| row.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_named_after_what_covered_most_of_it() {
        let versions: [&[(u64, u64, &str)]; 4] = [
            &[(0, 100, "a"), (100, 160, "b"), (160, 200, "c")],
            // These cover less of the first row, as much of the second, and nothing of the third.
            &[(20, 40, "d"), (140, 200, "e")],
            &[(0, 90, "f"), (310, 320, "g")],
            &[],
        ];
        let rows = [(0, 100), (100, 200), (300, 400), (400, 500)];
        let mut names = Names::new(rows.iter().map(|&(a, b)| AddrRange::new(a, b)));
        for (version, mappings) in (1..).zip(versions) {
            let mappings: Vec<_> =
                mappings.iter().map(|&(a, b, name)| Mapping::new(a, b, "", name)).collect();
            names.learn(version, &mappings);
        }
        assert_eq!(names.labels().collect::<Vec<_>>(), ["a", "e", "g", ""]);
    }

    #[test]
    fn a_version_is_taken_in_once() {
        let mut names = Names::new([AddrRange::new(0, 100)].into_iter());
        names.learn(1, &[Mapping::new(0, 100, "", "a")]);
        names.learn(1, &[Mapping::new(0, 100, "", "b")]);
        assert_eq!(names.labels().collect::<Vec<_>>(), ["a"]);
    }
}
