//! A counter of a program's work: the last number in a file, which the program or a loop beside it
//! keeps up to date. Its unit does not matter to those who only compare rates.

use std::fs;
use std::path::Path;

/// The number that the file shows now.
///
/// # Errors
///
/// What was tried and what the kernel said, for people; also for a file without a number, and for a
/// pipe or a device, which could let the reader wait for ever.
pub fn read(path: &Path) -> Result<f64, String> {
    let tried = |why: &str| format!("read {}: {why}", path.display());
    let file = fs::metadata(path).map_err(|e| tried(&e.to_string()))?;
    if !file.is_file() {
        return Err(tried("it is not a regular file"));
    }
    let text = fs::read_to_string(path).map_err(|e| tried(&e.to_string()))?;
    last_number(&text).ok_or_else(|| tried("there is no number in it"))
}

/// The last number of a text.
#[must_use]
pub fn last_number(text: &str) -> Option<f64> {
    let is_other = |c: char| !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    let words = text.split(is_other).rev();
    words.filter_map(|word| word.parse().ok()).find(|x: &f64| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_shows_its_last_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("work");
        for (text, number) in [
            ("12\n", Some(12.0)),
            ("a 1 b 2.5e1 done", Some(25.0)),
            ("done 5.\n", Some(5.0)),
            ("p99=0.25ms", Some(0.25)),
            ("nothing - here", None),
            ("", None),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(read(&path).ok(), number, "{text}");
        }
        assert!(read(dir.path()).unwrap_err().contains("not a regular file"));
        assert!(read(&dir.path().join("none")).unwrap_err().contains("No such file"));
    }
}
