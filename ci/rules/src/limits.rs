//! Lists of what breaks a rule today, each with a number that may only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A number for each place that has one, and what to tell about it.
pub(crate) type Found = BTreeMap<String, Measured>;

/// What was measured at a place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Measured {
    pub(crate) number: usize,
    /// Where to look; may be empty.
    pub(crate) detail: String,
}

/// What the list says, by place.
pub(crate) type Listed = BTreeMap<String, usize>;

/// A rule with a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// The list's name.
    pub(crate) name: &'static str,
    /// What a number counts.
    pub(crate) unit: &'static str,
    /// The largest number that needs no entry.
    pub(crate) most: usize,
    /// Whether numbers may move from one place to another, as when a crate is split, as long as
    /// their sum does not grow.
    pub(crate) moves: bool,
}

/// Reads a list: a number and a place on each line, comments behind `#`.
///
/// # Errors
///
/// The line that is not understood.
pub(crate) fn parse(text: &str) -> Result<Listed, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (number, place) = line.trim().split_once(' ')?;
        Some((place.trim().to_owned(), number.parse().ok()?))
    };
    lines.map(|line| entry(line).ok_or_else(|| line.to_owned())).collect()
}

/// The last part of a place: it stays when a file is moved to another folder.
fn last(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}

impl Limit {
    /// What is too large, and which entries are larger than the truth (unless those were just put
    /// right, `shrunk`).
    pub(crate) fn check(&self, listed: &Listed, found: &Found, shrunk: bool) -> Vec<String> {
        let Self { name, unit, most, .. } = *self;
        let allowed = self.allowed(listed, found);
        let mut wrong = Vec::new();
        for (place, Measured { number, detail }) in found.iter().filter(|(_, m)| m.number > most) {
            let may = allowed.get(place).copied().unwrap_or(most);
            if *number > may {
                let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
                wrong.push(format!("{place}: {number} {unit}, at most {may}{detail}"));
            }
        }
        if !shrunk && (*listed != self.lowered(&allowed, found)) && wrong.is_empty() {
            wrong.push(format!(
                "ci/rules/limits/{name}.txt does not list what there is: run `ci/tidy --shrink`"
            ));
        }
        wrong
    }

    /// The list as it should be: no number raised, what is gone or fine now left out.
    pub(crate) fn shrunk(&self, listed: &Listed, found: &Found) -> String {
        let Self { unit, most, .. } = *self;
        let mut text = format!(
            "# What has more than {most} {unit} today. Numbers may only shrink: `ci/tidy --shrink`.\n"
        );
        for (place, number) in self.lowered(&self.allowed(listed, found), found) {
            writeln!(text, "{number} {place}").expect("a String takes all");
        }
        text
    }

    fn lowered(&self, allowed: &Listed, found: &Found) -> Listed {
        let number = |place: &str| found.get(place).map_or(0, |m| m.number);
        let lower = allowed.iter().map(|(place, may)| (place.clone(), (*may).min(number(place))));
        lower.filter(|(_, number)| *number > self.most).collect()
    }

    /// The entries; one whose place is gone counts for a new place with the same last part, so
    /// that a file can be moved without growing a list.
    fn allowed(&self, listed: &Listed, found: &Found) -> Listed {
        let over = || found.iter().filter(|(_, m)| m.number > self.most);
        if self.moves && over().map(|(_, m)| m.number).sum::<usize>() <= listed.values().sum() {
            return over().map(|(place, m)| (place.clone(), m.number)).collect();
        }
        let (mut allowed, mut gone) = (Listed::new(), Vec::new());
        for (place, may) in listed {
            if found.contains_key(place) {
                allowed.insert(place.clone(), *may);
            } else {
                gone.push((place, *may));
            }
        }
        for (place, measured) in over() {
            let fits =
                |(old, may): &(&String, usize)| last(old) == last(place) && *may >= measured.number;
            if !allowed.contains_key(place)
                && let Some(at) = gone.iter().position(fits)
            {
                allowed.insert(place.clone(), gone.swap_remove(at).1);
            }
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { name: "x", unit: "lines", most: 10, moves: false };

    fn found(places: &[(&str, usize)]) -> Found {
        let measured = |number| Measured { number, detail: String::new() };
        places.iter().map(|(place, number)| ((*place).into(), measured(*number))).collect()
    }

    #[test]
    fn what_grows_is_wrong_and_what_shrinks_is_told() {
        let listed = parse("# head\n20 a/f\n").unwrap();
        assert!(LIMIT.check(&listed, &found(&[("a/f", 20), ("b", 10)]), false).is_empty());
        let grown = LIMIT.check(&listed, &found(&[("a/f", 21)]), false);
        assert_eq!(grown, ["a/f: 21 lines, at most 20"]);
        let new = LIMIT.check(&listed, &found(&[("a/f", 20), ("b", 11)]), false);
        assert_eq!(new, ["b: 11 lines, at most 10"]);
        for less in [&[("a/f", 19)][..], &[("a/f", 3)], &[]] {
            let told = LIMIT.check(&listed, &found(less), false);
            assert!(told[0].contains("--shrink"), "{told:?}");
        }
    }

    #[test]
    fn shrinking_never_raises() {
        let listed = parse("20 a\n30 b\n15 c\n").unwrap();
        let text = LIMIT.shrunk(&listed, &found(&[("a", 25), ("b", 12), ("c", 9), ("d", 50)]));
        assert_eq!(parse(&text).unwrap(), parse("20 a\n12 b\n").unwrap());
    }

    #[test]
    fn an_entry_follows_a_file_that_was_moved() {
        let listed = parse("20 a/m.rs::f\n").unwrap();
        let moved = found(&[("b/m.rs::f", 20)]);
        assert_eq!(parse(&LIMIT.shrunk(&listed, &moved)).unwrap(), parse("20 b/m.rs::f").unwrap());
        assert!(LIMIT.check(&listed, &moved, true).is_empty());
        let larger = LIMIT.check(&listed, &found(&[("b/m.rs::f", 21)]), false);
        assert_eq!(larger, ["b/m.rs::f: 21 lines, at most 10"]);
        // The old place is still there: this is a second one.
        let both = LIMIT.check(&listed, &found(&[("a/m.rs::f", 20), ("b/m.rs::f", 20)]), false);
        assert_eq!(both, ["b/m.rs::f: 20 lines, at most 10"]);
    }

    #[test]
    fn where_numbers_may_move_their_sum_counts() {
        let limit = Limit { moves: true, ..LIMIT };
        let listed = parse("50 a\n20 b\n").unwrap();
        let split = found(&[("a", 11), ("new", 39), ("b", 20)]);
        assert!(limit.check(&listed, &split, false)[0].contains("--shrink"));
        let after = parse(&limit.shrunk(&listed, &split)).unwrap();
        assert_eq!(after, parse("11 a\n20 b\n39 new\n").unwrap());
        assert!(limit.check(&after, &split, false).is_empty());
        let grown = limit.check(&after, &found(&[("a", 11), ("new", 40), ("b", 20)]), false);
        assert_eq!(grown, ["new: 40 lines, at most 39"]);
    }

    #[test]
    fn a_line_that_is_no_entry_is_told() {
        assert_eq!(parse("x a\n"), Err("x a".into()));
    }
}
