//! Bytes as a short text in a page: compressed (zlib), then in base64. Browsers undo both.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The text for some bytes.
pub(super) fn packed(bytes: &[u8]) -> String {
    let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    out.write_all(bytes).unwrap_or_default();
    STANDARD.encode(out.finish().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_back() {
        use std::io::Read;
        let bytes: Vec<u8> = (0..20_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let text = packed(&bytes);
        assert!(text.len() < bytes.len() / 4, "{}", text.len());
        let mut back = Vec::new();
        let packed = STANDARD.decode(text).unwrap();
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut back).unwrap();
        assert_eq!(back, bytes);
    }
}
