//! The files of the repository, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::source::Source;

/// The files that git knows or would take, by path. Rust files are taken apart once.
pub(crate) struct Tree {
    texts: BTreeMap<String, String>,
    sources: BTreeMap<String, Source>,
    /// Files of modules that are declared under `#[cfg(test)]`, in the folders of crates' `src`.
    tests: BTreeSet<String>,
}

impl Tree {
    /// Reads what is below `root`. Files that are not text are left out.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let out = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|e| format!("git ls-files: {e}"))?;
        if !out.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&out.stderr)));
        }
        let names = String::from_utf8_lossy(&out.stdout).into_owned();
        let texts = names.split('\0').filter(|name| !name.is_empty()).filter_map(|name| {
            // A file that was deleted and not yet committed is no file; a picture is no text.
            Some((name.to_owned(), std::fs::read_to_string(root.join(name)).ok()?))
        });
        Ok(Self::of(texts.collect()))
    }

    /// The tree of these files.
    pub(crate) fn of(texts: BTreeMap<String, String>) -> Self {
        let sources: BTreeMap<String, Source> = texts
            .iter()
            .filter(|(name, _)| name.ends_with(".rs"))
            .map(|(name, text)| (name.clone(), Source::new(text)))
            .collect();
        let mut tests = BTreeSet::new();
        for (name, source) in &sources {
            let folder = children(name);
            for module in source.test_modules() {
                let (file, inside) = (format!("{folder}{module}.rs"), format!("{folder}{module}/"));
                let belongs = |n: &&String| **n == file || n.starts_with(&inside);
                tests.extend(sources.keys().filter(belongs).cloned());
            }
        }
        Self { texts, sources, tests }
    }

    /// All files.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// The Rust files, tests included.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources.iter().map(|(name, source)| (name.as_str(), source))
    }

    /// The Rust files of the product: what is below `crates/*/src` and not only for tests.
    pub(crate) fn product(&self) -> impl Iterator<Item = Product<'_>> {
        self.sources().filter(|(name, _)| !self.tests.contains(*name)).filter_map(
            |(name, source)| {
                let (krate, file) = name.strip_prefix("crates/")?.split_once("/src/")?;
                (!krate.contains('/')).then_some(Product { krate, name, file, source })
            },
        )
    }

    /// The text of one file.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// The folders below `crates/` that have a manifest.
    pub(crate) fn crates(&self) -> BTreeSet<&str> {
        let manifests = self.texts.keys().filter_map(|name| {
            name.strip_prefix("crates/")?.strip_suffix("/Cargo.toml").filter(|c| !c.contains('/'))
        });
        manifests.collect()
    }
}

/// A Rust file of the product.
#[derive(Clone, Copy)]
pub(crate) struct Product<'t> {
    /// The folder below `crates/`.
    pub(crate) krate: &'t str,
    /// The whole path.
    pub(crate) name: &'t str,
    /// The path below `src/`.
    pub(crate) file: &'t str,
    pub(crate) source: &'t Source,
}

/// The folder of the modules that a file declares: `a/b.rs` has its own in `a/b/`.
fn children(name: &str) -> String {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    match file {
        "mod.rs" | "lib.rs" | "main.rs" => format!("{folder}/"),
        _ => format!("{folder}/{}/", file.trim_end_matches(".rs")),
    }
}

/// A tree of made-up files, for tests.
#[cfg(test)]
pub(crate) fn made_up(files: &[(&str, &str)]) -> Tree {
    Tree::of(files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_for_tests_are_no_product() {
        let tree = made_up(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod fake;\n"),
            ("crates/a/src/b.rs", "#[cfg(test)] mod tests;"),
            ("crates/a/src/b/tests.rs", ""),
            ("crates/a/src/fake.rs", ""),
            ("crates/a/tests/b.rs", ""),
        ]);
        let product: Vec<_> = tree.product().map(|p| p.file).collect();
        assert_eq!(product, ["b.rs", "lib.rs"]);
        assert_eq!(tree.sources().count(), 5);
        assert_eq!(tree.crates().into_iter().collect::<Vec<_>>(), ["a"]);
    }
}
