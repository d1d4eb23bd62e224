//! The font of labels in PNG pictures: Noto Sans Mono as bitmaps with smooth edges.
//!
//! The crate `noto-sans-mono-bitmap` has one raster per character. This module only chooses the
//! size that fits the layout, knows its base line, and replaces characters without a raster.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

const SIZE: RasterHeight = RasterHeight::Size24;

/// From one character to the next, in pixels, in both weights.
pub(super) const ADVANCE: usize = get_raster_width(FontWeight::Regular, SIZE);
/// From the top of a raster to the base line, in pixels.
pub(super) const BASE: usize = 19;

/// Calls `set` with the position of every pixel of `text` that has ink, and with how much ink it
/// has (1 to 255). A character without a raster, as every one that is not ASCII, is drawn as `?`.
pub(super) fn draw(text: &str, bold: bool, mut set: impl FnMut(usize, usize, u8)) {
    let weight = if bold { FontWeight::Bold } else { FontWeight::Regular };
    for (nr, c) in text.chars().enumerate() {
        let raster = get_raster(c, weight, SIZE).or_else(|| get_raster('?', weight, SIZE));
        for (y, row) in raster.iter().flat_map(|raster| raster.rows().enumerate()) {
            for (x, ink) in row.iter().enumerate().filter(|(_, ink)| **ink > 0) {
                set(nr * ADVANCE + x, y, *ink);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a text: `#` for more than half of the ink, `+` for less.
    fn picture(text: &str, bold: bool) -> Vec<String> {
        let mut rows = vec![vec![b'.'; text.chars().count() * ADVANCE]; SIZE.val()];
        draw(text, bold, |x, y, ink| rows[y][x] = if ink > 127 { b'#' } else { b'+' });
        rows.iter().map(|row| String::from_utf8_lossy(row).into_owned()).collect()
    }

    #[test]
    fn capitals_stand_on_the_base_line_in_both_weights() {
        for bold in [false, true] {
            let rows = picture("HEL1", bold);
            let ink: Vec<usize> = (0..rows.len()).filter(|y| rows[*y].contains('#')).collect();
            assert_eq!(ink.last(), Some(&(BASE - 1)), "bold {bold}: {rows:#?}");
        }
        let count = |bold| picture("stairs", bold).concat().matches('#').count();
        assert!(count(true) > count(false), "bold has more ink");
        assert_eq!(get_raster_width(FontWeight::Bold, SIZE), ADVANCE);
    }

    #[test]
    fn all_of_ascii_has_a_raster_and_the_rest_a_question_mark() {
        let question = picture("?", false);
        for c in '!'..='~' {
            assert_eq!(picture(&c.to_string(), false) == question, c == '?', "{c}");
        }
        assert_eq!(picture("\u{e9}", false), question);
    }
}
