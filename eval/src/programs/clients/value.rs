//! What servers keep: values that say which key they belong to.

/// Length of a value in a cache.
pub(crate) const LEN: usize = 1000;

/// Fills `text` up to `len` bytes with text that compresses about threefold, as records in JSON do.
pub(crate) fn write(key: u32, len: usize, text: &mut Vec<u8>) {
    let mut x = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while text.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let field = format!("{{\"id\":{key},\"name\":\"{x:016x}\",\"state\":\"active\",\"n\":0}},");
        text.extend_from_slice(field.as_bytes());
    }
    text.truncate(len);
}

/// Fails unless `text` begins as a value of `key` does. The rest is not looked at: it would cost
/// more than what is measured.
pub(crate) fn check(key: u32, text: &[u8]) -> anyhow::Result<()> {
    let id = text.strip_prefix(b"{\"id\":").unwrap_or_default();
    let digits = id.iter().take_while(|b| b.is_ascii_digit());
    let got = digits.fold(0, |n: u64, b| n.wrapping_mul(10).wrapping_add(u64::from(b - b'0')));
    let ok = id.first().is_some_and(u8::is_ascii_digit) && got == u64::from(key);
    anyhow::ensure!(
        ok,
        "a wrong answer for key {key}: `{}`",
        String::from_utf8_lossy(&text[..text.len().min(40)])
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_that_of_its_key() {
        let (mut one, mut again) = (Vec::new(), Vec::new());
        write(1234, LEN, &mut one);
        write(1234, LEN, &mut again);
        assert_eq!((one.len(), &one), (LEN, &again));
        check(1234, &one).unwrap();
        for key in [123, 12_345, 0] {
            assert!(check(key, &one).is_err(), "{key}");
        }
        assert!(check(0, b"{\"id\":").is_err());
        assert!(check(0, b"").is_err());
    }
}
