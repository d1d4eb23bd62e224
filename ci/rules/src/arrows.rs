//! Which crate may use which: a table (`crates.txt`), and the manifests that have to follow it.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Tree;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
}

#[derive(Debug, Default)]
struct Row {
    uses: BTreeSet<String>,
    unsafe_folder: Option<String>,
    prints: bool,
}

impl Table {
    /// Reads the table; its head says how it is written.
    ///
    /// # Errors
    ///
    /// What is wrong in it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let wrong = || format!("crates.txt: not understood: `{line}`");
            let (name, rest) = line.split_once(':').ok_or_else(wrong)?;
            let (uses, marks) = rest.split_once('|').unwrap_or((rest, ""));
            let uses = uses.split_whitespace().map(ToOwned::to_owned).collect();
            let mut row = Row { uses, ..Row::default() };
            for mark in marks.split_whitespace() {
                match mark.split_once('=') {
                    Some(("unsafe", folder)) => row.unsafe_folder = Some(folder.to_owned()),
                    None if mark == "prints" => row.prints = true,
                    _ => return Err(wrong()),
                }
            }
            if table.rows.insert(name.trim().to_owned(), row).is_some() {
                return Err(format!("crates.txt: {name} twice"));
            }
        }
        for (name, row) in &table.rows {
            if let Some(unknown) = row.uses.iter().find(|c| !table.rows.contains_key(*c)) {
                return Err(format!("crates.txt: {name} uses {unknown}, which has no line"));
            }
            if table.below(name).contains(name.as_str()) {
                return Err(format!("crates.txt: {name} may use itself in a circle"));
            }
        }
        Ok(table)
    }

    /// Every crate that `krate` may use, directly or not.
    fn below<'t>(&'t self, krate: &'t str) -> BTreeSet<&'t str> {
        let mut below = BTreeSet::new();
        let mut todo: Vec<&str> = vec![krate];
        while let Some(name) = todo.pop() {
            let uses = self.rows.get(name).into_iter().flat_map(|row| &row.uses);
            todo.extend(uses.map(String::as_str).filter(|c| below.insert(*c)));
        }
        below
    }

    /// Whether code of this crate may print.
    pub(crate) fn prints(&self, krate: &str) -> bool {
        self.rows.get(krate).is_some_and(|row| row.prints)
    }

    /// The folders that may hold unsafe code.
    pub(crate) fn unsafe_folders(&self) -> Vec<String> {
        let rows = self.rows.iter();
        let folder = |(name, row): (&String, &Row)| {
            row.unsafe_folder.as_ref().map(|folder| format!("crates/{name}/{folder}"))
        };
        rows.filter_map(folder).collect()
    }

    /// Where the manifests do not follow the table.
    pub(crate) fn check(&self, tree: &Tree) -> Vec<String> {
        let mut wrong = Vec::new();
        let crates = tree.crates();
        let manifest = |c: &str| tree.text(&format!("crates/{c}/Cargo.toml")).unwrap_or_default();
        let packages: BTreeMap<&str, &str> =
            crates.iter().filter_map(|c| Some((package(manifest(c))?, *c))).collect();
        for krate in &crates {
            let Some(row) = self.rows.get(*krate) else {
                wrong.push(format!("crates/{krate} has no line in ci/rules/crates.txt"));
                continue;
            };
            for dependency in dependencies(manifest(krate)) {
                if let Some(other) = packages.get(dependency)
                    && !row.uses.contains(*other)
                {
                    wrong.push(format!("crates/{krate} must not depend on {dependency}"));
                }
            }
        }
        let gone = self.rows.keys().filter(|name| !crates.contains(name.as_str()));
        wrong.extend(gone.map(|name| format!("crates.txt: there is no crates/{name}")));
        wrong
    }
}

/// The package's name.
fn package(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find(|line| line.starts_with("name"))?;
    line.split('"').nth(1)
}

/// What the manifest says that the crate is built with, tests apart.
fn dependencies(manifest: &str) -> Vec<&str> {
    let (mut inside, mut found) = (false, Vec::new());
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let built = |s: &str| s.ends_with("dependencies") && !s.ends_with("dev-dependencies");
            inside = built(section);
            // `[dependencies.name]` is one dependency.
            if let Some((above, name)) = section.rsplit_once('.')
                && built(above)
            {
                found.push(name);
            }
        } else if inside && !line.starts_with('#') {
            let end = line.find(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'));
            found.extend(line.get(..end.unwrap_or(line.len())).filter(|name| !name.is_empty()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_up;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}")
    }

    #[test]
    fn arrows_follow_the_table_and_nothing_else() {
        let table = Table::parse("# x\na:\nb: a\nc: a | prints\nd: a | unsafe=src/sys\n").unwrap();
        assert!(table.prints("c") && !table.prints("b"));
        assert_eq!(table.unsafe_folders(), ["crates/d/src/sys"]);
        let tree = |of_b: &str| {
            let files = [
                ("crates/a/Cargo.toml", manifest("i-a", "")),
                ("crates/b/Cargo.toml", manifest("i-b", of_b)),
                // Tests may use anything.
                ("crates/c/Cargo.toml", manifest("i-c", "[dependencies]\ni-a.workspace = true\n")),
                ("crates/d/Cargo.toml", manifest("i-d", "[dev-dependencies]\ni-c = \"1\"\n")),
            ];
            made_up(&files.each_ref().map(|(name, text)| (*name, text.as_str())))
        };
        assert!(table.check(&tree("[dependencies]\nserde = \"1\"\ni-a = \"1\"")).is_empty());
        for wrong in [
            "[dependencies]\ni-d.workspace = true\n",
            "[dependencies.i-d]\npath = \"../d\"\n",
            "[build-dependencies]\ni-d = \"1\"\n",
            "[target.'cfg(unix)'.dependencies]\ni-d = \"1\"\n",
        ] {
            assert_eq!(table.check(&tree(wrong)), ["crates/b must not depend on i-d"], "{wrong}");
        }
    }

    #[test]
    fn every_crate_has_a_line_and_every_line_a_crate() {
        let table = Table::parse("a:\nold: a\n").unwrap();
        let tree = made_up(&[("crates/a/Cargo.toml", ""), ("crates/new/Cargo.toml", "")]);
        let expected =
            ["crates/new has no line in ci/rules/crates.txt", "crates.txt: there is no crates/old"];
        assert_eq!(table.check(&tree), expected);
    }

    #[test]
    fn a_wrong_table_is_told() {
        for (text, what) in [
            ("a", "not understood"),
            ("a: | loud", "not understood"),
            ("a:\na:", "twice"),
            ("a: b", "has no line"),
            ("a: b\nb: a", "circle"),
        ] {
            let err = Table::parse(text).unwrap_err();
            assert!(err.contains(what), "{text}: {err}");
        }
    }
}
