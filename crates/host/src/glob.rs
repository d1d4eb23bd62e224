//! Patterns as in a shell: `*` stands for any bytes, `?` for one byte. No brackets, no escapes.

/// Whether all of `text` matches `pattern`.
///
/// Goes back to the last `*` only: an earlier one matches nothing that the last could not.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut t, mut p) = (0, 0);
    // Where to go on after a mismatch: behind the last star, and one byte further in the text.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match (pattern.get(p), text.get(t)) {
            (Some(b'*'), _) => {
                star = Some((p + 1, t));
                p += 1;
            }
            (Some(b'?'), _) => (t, p) = (t + 1, p + 1),
            (Some(a), Some(b)) if a == b => (t, p) = (t + 1, p + 1),
            _ => {
                let Some((behind, at)) = star else { return false };
                star = Some((behind, at + 1));
                (t, p) = (at + 1, behind);
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|&b| b == b'*'))
}

/// Whether a path matches, or is below one that does.
#[must_use]
pub fn glob_or_below(pattern: &str, path: &str) -> bool {
    let below = format!("{}/*", pattern.trim_end_matches('/'));
    [pattern, &below].iter().any(|pattern| glob(pattern.as_bytes(), path.as_bytes()))
}

/// Whether a text is a pattern, and not only a name.
#[must_use]
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("[heap]", "[heap]", true),
            ("*libc*", "/usr/lib/libc.so.6", true),
            ("*libc", "/usr/lib/libc.so.6", false),
            ("/usr/*/libc.so.?", "/usr/lib/libc.so.6", true),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("*a*b", "xaxxbxb", true),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern:?} and {name:?}"
            );
        }
    }
}
