//! Takes numbers and words out of byte slices. All parsers share these functions.
//!
//! Every function returns `None` instead of panicking or wrapping. So no parser built from them
//! panics or wraps.

/// The number that `text` is, in decimal, without sign.
pub(crate) fn whole_dec(text: &[u8]) -> Option<u64> {
    whole(text, 10)
}

/// The number that `text` is, in hexadecimal without prefix.
pub(crate) fn whole_hex(text: &[u8]) -> Option<u64> {
    whole(text, 16)
}

fn whole(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut n: u64 = 0;
    for &b in text {
        let digit = char::from(b).to_digit(radix)?;
        n = n.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))?;
    }
    Some(n)
}

/// Takes the next word off `rest`: skips spaces and tabs, then up to the next one.
pub(crate) fn word<'t>(rest: &mut &'t [u8]) -> Option<&'t [u8]> {
    let start = rest.iter().position(|b| !is_blank(*b))?;
    let text = rest.get(start..)?;
    let len = text.iter().position(|b| is_blank(*b)).unwrap_or(text.len());
    let (word, behind) = text.split_at(len);
    *rest = behind;
    Some(word)
}

/// Takes the next line off `rest`, without its line end.
pub(crate) fn line<'t>(rest: &mut &'t [u8]) -> Option<&'t [u8]> {
    if rest.is_empty() {
        return None;
    }
    let len = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    let (line, behind) = rest.split_at(len);
    *rest = behind.get(1..).unwrap_or_default();
    Some(line)
}

fn is_blank(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// The bytes in front of and behind the first `at`.
pub(crate) fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let i = text.iter().position(|&b| b == at)?;
    Some((text.get(..i)?, text.get(i + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, dec, hex) in [
            ("0", Some(0), Some(0)),
            ("42", Some(42), Some(0x42)),
            ("ff", None, Some(255)),
            ("", None, None),
            ("-1", None, None),
            ("18446744073709551615", Some(u64::MAX), None),
            ("18446744073709551616", None, None),
            ("ffffffffffffffff", None, Some(u64::MAX)),
            ("10000000000000000", Some(10_000_000_000_000_000), None),
        ] {
            assert_eq!(whole_dec(text.as_bytes()), dec, "{text}");
            assert_eq!(whole_hex(text.as_bytes()), hex, "{text}");
        }
    }

    #[test]
    fn words_and_lines() {
        let mut rest: &[u8] = b"  a\tbc  \nsecond\n\nlast";
        let mut first = line(&mut rest).unwrap();
        assert_eq!(word(&mut first), Some(&b"a"[..]));
        assert_eq!(word(&mut first), Some(&b"bc"[..]));
        assert_eq!(word(&mut first), None);
        assert_eq!(line(&mut rest), Some(&b"second"[..]));
        assert_eq!(line(&mut rest), Some(&b""[..]));
        assert_eq!(line(&mut rest), Some(&b"last"[..]));
        assert_eq!(line(&mut rest), None);
    }
}
