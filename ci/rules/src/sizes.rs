//! Sizes: of files, folders and crates, and of lines of comment.

use std::collections::BTreeMap;

use crate::limits::{Found, Measured};
use crate::tree::Tree;

/// The longest file, in lines.
const MAX_LINES: usize = 800;
/// The longest line of a comment, in columns. rustfmt sees to the lines of code.
const MAX_COLUMNS: usize = 100;

/// Files that are too long.
pub(crate) fn files(tree: &Tree) -> Vec<String> {
    let is_code = |name: &str| {
        name.ends_with(".rs")
            || name.ends_with(".sh")
            || ["ci/", "lab/"].iter().any(|folder| name.starts_with(folder))
    };
    let long = |(name, text): (&str, &str)| {
        let lines = text.lines().count();
        (lines > MAX_LINES).then(|| format!("{name} has {lines} lines, at most {MAX_LINES}"))
    };
    tree.texts().filter(|(name, _)| is_code(name)).filter_map(long).collect()
}

/// Source files directly in each folder.
pub(crate) fn folders(tree: &Tree) -> Found {
    let mut found = Found::new();
    for (name, _) in tree.sources() {
        let folder = name.rsplit_once('/').map_or(".", |(folder, _)| folder);
        found.entry(folder.to_owned()).or_default().number += 1;
    }
    found
}

/// Lines of comment that are too long, by crate.
pub(crate) fn comments(tree: &Tree) -> Found {
    let mut found = Found::new();
    for (name, source) in tree.sources() {
        let long = |line: &&str| line.chars().count() > MAX_COLUMNS;
        let measured = found.entry(room(name)).or_default();
        let number = source.comment_lines().filter(long).count();
        if number > 0 {
            name.clone_into(&mut measured.detail);
        }
        measured.number += number;
    }
    found
}

/// Each crate's share of the product's lines, in percent.
pub(crate) fn shares(tree: &Tree) -> Found {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for product in tree.product() {
        *lines.entry(product.krate).or_default() += product.source.nr_lines();
    }
    let all: usize = lines.values().sum();
    let share = |nr: usize| Measured {
        number: (nr * 100).div_ceil(all.max(1)),
        detail: format!("{nr} of {all}"),
    };
    lines.into_iter().map(|(krate, nr)| (krate.to_owned(), share(nr))).collect()
}

/// The crate that a file belongs to: `crates/core` or `eval`.
fn room(name: &str) -> String {
    let deep = if name.starts_with("crates/") || name.starts_with("ci/") { 2 } else { 1 };
    name.split('/').take(deep).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_up;

    #[test]
    fn every_size_is_measured() {
        let (long, wide) = ("x\n".repeat(801), format!("//{}\n", "x".repeat(99)));
        let wide_code = format!("let x = \"{}\";\n", "x".repeat(99));
        let tree = made_up(&[
            ("crates/a/src/lib.rs", &long),
            ("crates/a/src/m.rs", &wide),
            ("crates/b/src/lib.rs", &wide_code),
            ("crates/b/src/m.rs", &"//\n".repeat(198)),
            ("lab/run", &long),
            ("docs/x.md", &long),
        ]);
        let expected =
            ["crates/a/src/lib.rs", "lab/run"].map(|f| format!("{f} has 801 lines, at most 800"));
        assert_eq!(files(&tree), expected);
        let numbers =
            |found: Found| found.into_iter().map(|(p, m)| (p, m.number)).collect::<Vec<_>>();
        let is = |place: &str, number| (place.to_owned(), number);
        assert_eq!(numbers(folders(&tree)), [is("crates/a/src", 2), is("crates/b/src", 2)]);
        assert_eq!(numbers(comments(&tree)), [is("crates/a", 1), is("crates/b", 0)]);
        // 802 of 1001 lines are more than 80 %.
        assert_eq!(numbers(shares(&tree)), [is("a", 81), is("b", 20)]);
    }
}
