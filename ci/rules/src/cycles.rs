//! Cycles between the modules at the top of a crate: who reads one of them has to know all.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{Found, Measured};
use crate::source::{is_word, words};
use crate::tree::Tree;

/// By module, the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// For each crate, how many of its modules are part of a cycle.
pub(crate) fn modules(tree: &Tree) -> Found {
    let mut crates: BTreeMap<&str, Uses> = BTreeMap::new();
    let mut reexports: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for product in tree.product() {
        let uses = crates.entry(product.krate).or_default();
        match top(product.file) {
            Some(module) => drop(uses.entry(module.to_owned()).or_default()),
            None => reexports
                .entry(product.krate)
                .or_default()
                .extend(exported(product.source.product())),
        }
    }
    for product in tree.product() {
        let Some(module) = top(product.file) else { continue };
        let uses = crates.entry(product.krate).or_default();
        let known: BTreeSet<String> = uses.keys().cloned().collect();
        let exported = reexports.get(product.krate);
        let named = names(product.source.product(), depth(product.file));
        let used = named.iter().filter_map(|name| {
            known.get(name).or_else(|| known.get(exported?.get(name)?)).filter(|m| *m != module)
        });
        uses.entry(module.to_owned()).or_default().extend(used.cloned());
    }
    let measured = |uses: &Uses| {
        let cycles: Vec<BTreeSet<&str>> = cycles(uses);
        let text = |c: &BTreeSet<&str>| c.iter().copied().collect::<Vec<_>>().join(", ");
        Measured {
            number: cycles.iter().map(BTreeSet::len).sum(),
            detail: cycles.iter().map(text).collect::<Vec<_>>().join("; "),
        }
    };
    crates.iter().map(|(krate, uses)| ((*krate).to_owned(), measured(uses))).collect()
}

/// The module at the top that a file belongs to; none for the crate's own file.
fn top(file: &str) -> Option<&str> {
    let module = file.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "main", "bin"].contains(&module)).then_some(module)
}

/// How many `super::` lead from a file to the crate's own.
fn depth(file: &str) -> usize {
    file.split('/').count() - usize::from(file.ends_with("/mod.rs"))
}

/// The first names of paths that start at the crate: `crate::x::y`, `crate::{x, y::z}`, and the
/// same by `super::`.
fn names(code: &str, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let up = "super::".repeat(depth);
    let starts = words(code, "crate")
        .map(|at| at + "crate".len())
        .filter_map(|at| code[at..].starts_with("::").then_some(at + 2));
    let supers = words(code, "super")
        .filter(|at| code[*at..].starts_with(&up) && !code[..*at].ends_with("::"));
    for at in starts.chain(supers.map(|at| at + up.len())) {
        found.extend(first_names(&code[at..]).into_iter().map(ToOwned::to_owned));
    }
    found
}

/// The name that `path` begins with, or those of the group that it is.
fn first_names(path: &str) -> Vec<&str> {
    let name = |text: &'_ str| text.bytes().position(|b| !is_word(b)).unwrap_or(text.len());
    if !path.starts_with('{') {
        return vec![&path[..name(path)]];
    }
    let (mut depth, mut begin, mut found) = (0, 1, Vec::new());
    for (at, byte) in path.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if (byte == b',' && depth == 1) || depth == 0 {
            let item = path[begin..at].trim_start();
            found.push(&item[..name(item)]);
            begin = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// What a crate's own file gives on under another name: `pub use a::b::C` makes `C` mean `a`.
fn exported(code: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for at in words(code, "use") {
        let Some(end) = code[at..].find(';') else { continue };
        let path = code[at + 3..at + end].trim();
        let path = path.trim_start_matches("self::").trim_start_matches("crate::");
        let Some((module, rest)) = path.split_once("::") else { continue };
        let given = rest
            .split(['{', '}', ','])
            .filter_map(|item| item.rsplit([' ', ':']).next().filter(|name| !name.is_empty()));
        found.extend(given.map(|name| (name.to_owned(), module.to_owned())));
    }
    found
}

/// The sets of modules that reach each other.
fn cycles(uses: &Uses) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|module| (module.as_str(), reach(uses, module))).collect();
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (module, seen) in reached.iter().filter(|(module, seen)| seen.contains(*module)) {
        if !found.iter().any(|cycle| cycle.contains(module)) {
            found.push(seen.iter().copied().filter(|m| reached[m].contains(module)).collect());
        }
    }
    found
}

/// The modules that one uses, directly or not.
fn reach<'u>(uses: &'u Uses, from: &'u str) -> BTreeSet<&'u str> {
    let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
    while let Some(module) = todo.pop() {
        let next = uses.get(module).into_iter().flatten().map(String::as_str);
        todo.extend(next.filter(|m| seen.insert(*m)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_up;

    fn number(files: &[(&str, &str)]) -> usize {
        modules(&made_up(files))["a"].number
    }

    #[test]
    fn cycles_are_found_however_the_path_is_written() {
        let lib = ("crates/a/src/lib.rs", "mod b; mod c; mod d; pub use c::{X, y::Z as W};");
        let b = ("crates/a/src/b.rs", "use crate::c;");
        for (file, back) in [
            ("c.rs", "use crate::b::F;"),
            ("c/mod.rs", "fn f() { crate::b::f() }"),
            ("c.rs", "use crate::{d, b::{F, G}};"),
            ("c.rs", "use super::b;"),
            ("c/mod.rs", "use super::b;"),
            ("c/e.rs", "use super::super::b;"),
            ("c/e/mod.rs", "use super::super::{d, b};"),
        ] {
            let path = format!("crates/a/src/{file}");
            assert_eq!(number(&[lib, b, (&path, back)]), 2, "{file}: {back}");
        }
        for (file, no) in [
            ("c.rs", "// use crate::b;"),
            ("c.rs", "use crate::d;"),
            ("c/e.rs", "use super::b;"),
            ("c.rs", "#[cfg(test)] mod tests { use crate::b; }"),
            ("c.rs", "use crate::{d::{b}};"),
        ] {
            let path = format!("crates/a/src/{file}");
            let d = ("crates/a/src/d.rs", "");
            assert_eq!(number(&[lib, b, d, (&path, no)]), 0, "{file}: {no}");
        }
    }

    #[test]
    fn a_name_that_the_crate_gives_on_means_its_module() {
        let lib = ("crates/a/src/lib.rs", "mod b; mod c; pub use c::{X, y::Z as W};");
        let c = ("crates/a/src/c.rs", "use crate::b;");
        for name in ["X", "W"] {
            let text = format!("use crate::{name};");
            assert_eq!(number(&[lib, c, ("crates/a/src/b.rs", &text)]), 2, "{name}");
        }
    }

    #[test]
    fn long_ways_round_count_and_two_cycles_are_two() {
        let uses = |pairs: &[(&str, &str)]| -> Uses {
            let mut uses = Uses::new();
            for (from, to) in pairs {
                uses.entry((*to).into()).or_default();
                uses.entry((*from).into()).or_default().insert((*to).into());
            }
            uses
        };
        let pairs = uses(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "f"), ("f", "e")]);
        let expected = [BTreeSet::from(["a", "b", "c"]), BTreeSet::from(["e", "f"])];
        assert_eq!(cycles(&pairs), expected);
    }
}
