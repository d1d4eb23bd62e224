//! What may not stand in a file: unsafe code outside of its folder, printing outside of the crate
//! that prints, unfinished marks, paths of one machine; and names that say nothing.

use crate::arrows::Table;
use crate::source::words;
use crate::tree::Tree;

/// Names of modules that would take anything.
const NAMES: [&str; 7] = ["utils", "util", "common", "helper", "helpers", "manager", "misc"];

/// Everything of this kind that is wrong.
pub(crate) fn check(tree: &Tree, table: &Table) -> Vec<String> {
    let mut wrong = unsafe_code(tree, table);
    wrong.extend(printing(tree, table));
    wrong.extend(names(tree));
    wrong.extend(unfinished(tree));
    wrong.extend(machine_paths(tree));
    wrong
}

fn unsafe_code(tree: &Tree, table: &Table) -> Vec<String> {
    let folders = table.unsafe_folders();
    let mut wrong = Vec::new();
    for (name, source) in tree.sources() {
        let code = source.code();
        let is_code = |at: usize| {
            let next = code[at + "unsafe".len()..].trim_start();
            ["{", "fn", "impl", "trait", "extern"].iter().any(|word| next.starts_with(word))
        };
        if words(code, "unsafe").any(is_code) && !folders.iter().any(|f| name.starts_with(f)) {
            wrong.push(format!("{name}: unsafe code outside of {}", folders.join(", ")));
        }
    }
    wrong
}

fn printing(tree: &Tree, table: &Table) -> Vec<String> {
    let macros = ["print!", "println!", "eprint!", "eprintln!", "dbg!"];
    let mut wrong = Vec::new();
    for product in tree.product().filter(|p| !table.prints(p.krate)) {
        let code = product.source.product();
        let called = |name: &&&str| {
            let name = name.trim_end_matches('!');
            words(code, name).any(|at| code[at + name.len()..].starts_with('!'))
        };
        if let Some(name) = macros.iter().find(called) {
            wrong.push(format!("{}: {name} in a crate that does not print", product.name));
        }
    }
    wrong
}

fn names(tree: &Tree) -> Vec<String> {
    let is_bad = |name: &str| {
        let mut parts = name.rsplit('/');
        let file = parts.next().unwrap_or_default().trim_end_matches(".rs");
        let module = if file == "mod" { parts.next().unwrap_or_default() } else { file };
        NAMES.contains(&module)
    };
    let product = tree.product().map(|p| p.name);
    product.filter(|name| is_bad(name)).map(|name| format!("a module called {name}")).collect()
}

fn unfinished(tree: &Tree) -> Vec<String> {
    // Written in two parts, so that this file does not have them.
    let marks = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
    let calls = [concat!("to", "do!("), concat!("unimple", "mented!(")];
    let has = |line: &str| {
        calls.iter().any(|call| line.contains(call))
            || marks.iter().any(|mark| words(line, mark).next().is_some())
    };
    lines(tree, |name| name.ends_with(".rs"), has, "unfinished")
}

fn machine_paths(tree: &Tree) -> Vec<String> {
    let roots = [concat!("/wo", "rk/"), concat!("/fa", "rm/")];
    let scratch = [concat!("/tmp/", "t-"), concat!("/tmp/", "wt-"), concat!("/tmp/", "wt/")];
    let has = |line: &str| {
        // Behind a letter or a dot it is the end of a longer, relative path.
        let begins = |at: usize| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_ascii_alphabetic() || c == '.')
        };
        roots.iter().any(|root| line.match_indices(root).any(|(at, _)| begins(at)))
            || scratch.iter().any(|path| line.contains(path))
    };
    lines(tree, |name| !name.ends_with(".lock"), has, "machine path")
}

/// The lines of the files that `is` picks for which `has` holds.
fn lines(
    tree: &Tree,
    is: impl Fn(&str) -> bool,
    has: impl Fn(&str) -> bool,
    what: &str,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, text) in tree.texts().filter(|(name, _)| is(name)) {
        let found = text.lines().enumerate().filter(|(_, line)| has(line));
        wrong.extend(found.map(|(nr, line)| format!("{what}: {name}:{}: {}", nr + 1, line.trim())));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_up;

    fn told(name: &str, text: &str) -> Vec<String> {
        let table = Table::parse("a: | unsafe=src/sys\ncli: a | prints").unwrap();
        check(&made_up(&[(name, text)]), &table)
    }

    #[test]
    fn each_kind_is_found_and_only_that() {
        let root = concat!("/wo", "rk/");
        for (name, text, wrong) in [
            ("crates/a/src/b.rs", "unsafe { x }".to_owned(), true),
            ("crates/a/tests/b.rs", "unsafe { x }".to_owned(), true),
            ("eval/src/b.rs", "unsafe impl X for Y {}".to_owned(), true),
            ("crates/a/src/sys/b.rs", "unsafe { x }".to_owned(), false),
            ("crates/a/src/b.rs", "#![deny(unsafe_code)] // unsafe { x }".to_owned(), false),
            ("crates/a/src/b.rs", "println!()".to_owned(), true),
            ("crates/a/src/b.rs", "#[cfg(test)] mod tests { println!() }".to_owned(), false),
            ("crates/a/src/b.rs", "let print = \"println!\";".to_owned(), false),
            ("crates/cli/src/b.rs", "println!()".to_owned(), false),
            ("crates/a/src/utils.rs", String::new(), true),
            ("crates/a/src/helpers/mod.rs", String::new(), true),
            ("crates/a/tests/common/mod.rs", String::new(), false),
            ("crates/a/src/b.rs", concat!("// FIX", "ME: x").to_owned(), true),
            ("crates/a/src/b.rs", concat!("to", "do!()").to_owned(), true),
            ("docs/x.md", format!("see {root}x"), true),
            ("docs/x.md", concat!("in /tmp/", "wt/x").to_owned(), true),
            ("docs/x.md", format!("see frame{root}x and ..{root}"), false),
        ] {
            assert_eq!(told(name, &text).len(), usize::from(wrong), "{name}: {text}");
        }
    }
}
