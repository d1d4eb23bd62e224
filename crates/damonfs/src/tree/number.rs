//! The kernel's parsers of numbers and booleans (`lib/kstrtox.c`, Linux 7.2).
//!
//! A value may end with one newline. A NUL byte ends it, since the kernel reads a C string.

use rustix::io::Errno;

/// `kstrtoull()`: decimal, `0x` hexadecimal or leading-0 octal, with an optional `+`.
pub(super) fn unsigned(text: &[u8]) -> Result<u64, Errno> {
    digits(text.strip_prefix(b"+").unwrap_or(text))
}

/// `kstrtouint()`.
pub(super) fn unsigned_int(text: &[u8]) -> Result<u32, Errno> {
    u32::try_from(unsigned(text)?).map_err(|_err| Errno::RANGE)
}

/// `kstrtoint()`: as [`unsigned`], with an optional sign.
pub(super) fn int(text: &[u8]) -> Result<i32, Errno> {
    let value = match text.strip_prefix(b"-") {
        Some(rest) => -i128::from(digits(rest)?),
        None => i128::from(unsigned(text)?),
    };
    i32::try_from(value).map_err(|_err| Errno::RANGE)
}

/// `kstrtobool()`: looks at the first letter, and after an `o` at the second.
pub(crate) fn boolean(text: &[u8]) -> Result<bool, Errno> {
    match text.first().map(u8::to_ascii_lowercase) {
        Some(b'y' | b't' | b'e' | b'1') => Ok(true),
        Some(b'n' | b'f' | b'd' | b'0') => Ok(false),
        Some(b'o') => match text.get(1).map(u8::to_ascii_lowercase) {
            Some(b'n') => Ok(true),
            Some(b'f') => Ok(false),
            _ => Err(Errno::INVAL),
        },
        _ => Err(Errno::INVAL),
    }
}

/// `sysfs_streq()`: whether the text is this word, with or without one newline.
pub(super) fn is_word(text: &[u8], word: &str) -> bool {
    line(text) == word.as_bytes()
}

/// The text up to a NUL, without one newline at its end.
pub(super) fn line(text: &[u8]) -> &[u8] {
    let text = c_string(text);
    text.strip_suffix(b"\n").unwrap_or(text)
}

/// The text up to a NUL.
pub(super) fn c_string(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn digits(text: &[u8]) -> Result<u64, Errno> {
    let text = c_string(text);
    let is_hex =
        |text: &[u8]| matches!(text, [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit());
    let (radix, text) = match text {
        [_, _, rest @ ..] if is_hex(text) => (16, rest),
        [b'0', ..] => (8, text),
        _ => (10, text),
    };
    let value_of = |byte: u8| char::from(byte).to_digit(radix);
    let count = text.iter().take_while(|byte| value_of(**byte).is_some()).count();
    let (number, rest) = text.split_at(count);
    if number.is_empty() {
        return Err(Errno::INVAL);
    }
    // The kernel tells of an overflow before it looks at what follows.
    let value = number
        .iter()
        .filter_map(|byte| value_of(*byte))
        .try_fold(0_u64, |sum, digit| sum.checked_mul(radix.into())?.checked_add(digit.into()));
    let value = value.ok_or(Errno::RANGE)?;
    if matches!(rest, [] | [b'\n']) { Ok(value) } else { Err(Errno::INVAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_kernel_reads_them() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("42\n", Ok(42)),
            ("+42", Ok(42)),
            ("0x1F", Ok(31)),
            ("0X1f\n", Ok(31)),
            ("010", Ok(8)),
            ("42\0junk", Ok(42)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(Errno::RANGE)),
            ("99999999999999999999x", Err(Errno::RANGE)),
            ("", Err(Errno::INVAL)),
            ("\n", Err(Errno::INVAL)),
            ("0x", Err(Errno::INVAL)),
            ("08", Err(Errno::INVAL)),
            ("-1", Err(Errno::INVAL)),
            ("+-1", Err(Errno::INVAL)),
            (" 1", Err(Errno::INVAL)),
            ("1 ", Err(Errno::INVAL)),
            ("1\n\n", Err(Errno::INVAL)),
            ("1.5", Err(Errno::INVAL)),
        ] {
            assert_eq!(unsigned(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn signs_and_widths_are_those_of_the_type() {
        for (text, expected) in [
            ("-1", Ok(-1)),
            ("+7\n", Ok(7)),
            ("-0x10", Ok(-16)),
            ("-+1", Err(Errno::INVAL)),
            ("2147483647", Ok(i32::MAX)),
            ("-2147483648", Ok(i32::MIN)),
            ("2147483648", Err(Errno::RANGE)),
            ("-", Err(Errno::INVAL)),
        ] {
            assert_eq!(int(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(unsigned_int(b"4294967295"), Ok(u32::MAX));
        assert_eq!(unsigned_int(b"4294967296"), Err(Errno::RANGE));
    }

    #[test]
    fn booleans_go_by_their_first_letter() {
        for (text, expected) in [
            ("Y\n", Ok(true)),
            ("true", Ok(true)),
            ("enabled", Ok(true)),
            ("1000", Ok(true)),
            ("oN", Ok(true)),
            ("off", Ok(false)),
            ("no", Ok(false)),
            ("Disabled", Ok(false)),
            ("o", Err(Errno::INVAL)),
            ("2", Err(Errno::INVAL)),
            ("", Err(Errno::INVAL)),
        ] {
            assert_eq!(boolean(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_word_may_end_with_one_newline() {
        assert!(is_word(b"on\n", "on") && is_word(b"on", "on"));
        assert!(!is_word(b"on\n\n", "on") && !is_word(b"on ", "on") && !is_word(b"o", "on"));
    }
}
