//! `Box<dyn Error>` where others see it: in signatures, type aliases and public fields. Who gets
//! one can only print it; a crate's own error type says what may go wrong.

use crate::limits::Found;
use crate::source::words;
use crate::tree::Tree;

/// How many signatures each crate has that name it. Crates that print make the texts that people
/// read, and may.
pub(crate) fn signatures(tree: &Tree) -> Found {
    let mut found = Found::new();
    for product in tree.product().filter(|p| p.krate != "cli") {
        let code = product.source.product();
        let mut seen: Vec<usize> = ["fn", "type", "pub"]
            .into_iter()
            .flat_map(|word| words(code, word))
            .flat_map(|at| boxed(code, at))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        let measured = found.entry(product.krate.to_owned()).or_default();
        measured.number += seen.len();
        if !seen.is_empty() {
            measured.detail = product.name.to_owned();
        }
    }
    found
}

/// Where the item that begins at `start` says `Box<dyn ...Error`.
fn boxed(code: &str, start: usize) -> Vec<usize> {
    let end = code[start..].find([';', '{']).map_or(code.len(), |len| start + len);
    let item = &code[start..end];
    let is_error = |at: &usize| {
        let inside = item[at + "Box<dyn".len()..].split(['>', '+', ',']).next();
        inside.is_some_and(|name| name.trim().ends_with("Error"))
    };
    let found = item.match_indices("Box<dyn").map(|(at, _)| at).filter(is_error);
    found.map(|at| start + at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_up;

    #[test]
    fn signatures_count_and_bodies_do_not() {
        let text = "pub type E = Box<dyn std::error::Error + Send>;\n\
            pub fn f() -> Result<(), Box<dyn Error>> { let x: Box<dyn Error> = y; }\n\
            trait T { fn g(&self) -> Box<dyn Error>; fn h(&self) -> Box<dyn Fn()>; }\n\
            struct S { source: Box<dyn Error> }\n// fn f() -> Box<dyn Error>;\n";
        let tree = made_up(&[("crates/a/src/lib.rs", text), ("crates/cli/src/main.rs", text)]);
        let found = signatures(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found["a"].number, 3);
    }
}
