//! How long functions are.

use crate::limits::Found;
use crate::source::{Source, closing, is_word, words};
use crate::tree::Tree;

/// The lines of code of every function of the product, as Clippy's `too_many_lines` counts them:
/// the body's, without blank lines and comments. Tests are tables at times, and not measured.
pub(crate) fn lengths(tree: &Tree) -> Found {
    let mut found = Found::new();
    let product = tree.product().map(|p| (p.name, p.source));
    let eval = tree.sources().filter(|(name, _)| {
        ["eval/src/", "ci/rules/src/", "fuzz/"].iter().any(|folder| name.starts_with(folder))
    });
    for (file, source) in product.chain(eval) {
        for (name, number) in of(source) {
            // Of two with one name in a file the longer one counts.
            let place = found.entry(format!("{file}::{name}")).or_default();
            place.number = place.number.max(number);
        }
    }
    found
}

fn of(source: &Source) -> Vec<(&str, usize)> {
    let code = source.product();
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let name = code[at + 2..].trim_start();
        let name = &name[..name.bytes().position(|b| !is_word(b)).unwrap_or(name.len())];
        // `fn(u32)` is a type, and a function without a body is a trait's.
        let Some(open) = body(code, at).filter(|_| !name.is_empty()) else { continue };
        let body = code.get(open + 1..closing(code, open)).unwrap_or_default();
        found.push((name, body.lines().filter(|line| !line.trim().is_empty()).count()));
    }
    found
}

/// Where the body of the function at `at` opens.
fn body(code: &str, at: usize) -> Option<usize> {
    // The length of an array in the signature has a semicolon: `[u8; 4]`.
    let mut depth = 0_i32;
    for (i, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(i),
            b';' if depth == 0 => return None,
            _ if depth < 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_counted() {
        let text = "trait T { fn a(&self) -> [u8; 4]; }\n\
            fn b(x: [u8; 4]) -> fn(u8) {\n\n    // why\n    let y = \"}\";\n    y(x);\n}\n\
            const fn c() {}\nfn d<'a>(\n  x: &'a str,\n) {\n  if x { '{' }\n  e\n}\n\
            #[cfg(test)]\nmod tests {\n fn f() {\n x\n }\n}\n";
        assert_eq!(of(&Source::new(text)), [("b", 2), ("c", 0), ("d", 2)]);
    }
}
