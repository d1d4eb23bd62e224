//! The file that keeps tuned values over a restart.
//!
//! It is replaced as a whole, and holds the ranges and the policy's own values as well. Once its
//! user has changed one of them, the values are not used.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::tune::Space;

/// The version of the format.
const VERSION: u32 = 1;

/// What is kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    /// One value per range.
    pub(super) point: Vec<u64>,
    /// What the steps so far have cost, as a share.
    pub(super) slowed: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    version: u32,
    ranges: Vec<String>,
    /// The policy's own values.
    began: Vec<u64>,
    values: Vec<u64>,
    slowed: f64,
    /// For people.
    #[serde(default)]
    shown: String,
}

fn ranges(space: &Space) -> Vec<String> {
    space.ranges().iter().map(ToString::to_string).collect()
}

/// What the file keeps for these ranges and a policy with these values of its own; none if there is
/// no file yet.
///
/// # Errors
///
/// Why what it keeps is not used.
pub(super) fn read(path: &Path, space: &Space, began: &[u64]) -> Result<Option<Kept>, String> {
    let shown = path.display();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(format!("{shown} cannot be read: {err}")),
    };
    let document: Document =
        serde_json::from_str(&text).map_err(|err| format!("{shown} is damaged: {err}"))?;
    if document.version != VERSION {
        return Err(format!("{shown} has version {}, not {VERSION}", document.version));
    }
    if document.ranges != ranges(space) {
        let before = document.ranges.join(", ");
        return Err(format!("{shown} was written with other ranges ({before})"));
    }
    if document.began != began {
        let before = space.show(&document.began);
        return Err(format!("{shown} was written for a policy with other values ({before})"));
    }
    let Document { values, slowed, .. } = document;
    let is_within = space.ranges().iter().zip(&values).all(|(r, v)| (r.low..=r.high).contains(v));
    if values.len() != space.ranges().len() || !is_within || !slowed.is_finite() {
        return Err(format!("{shown} is damaged: values outside of their ranges"));
    }
    Ok(Some(Kept { point: values, slowed }))
}

/// Replaces the file.
///
/// # Errors
///
/// Why it could not be written. The former file is still there then.
pub(super) fn write(path: &Path, space: &Space, began: &[u64], kept: &Kept) -> Result<(), String> {
    let document = Document {
        version: VERSION,
        ranges: ranges(space),
        began: began.to_vec(),
        values: kept.point.clone(),
        slowed: kept.slowed,
        shown: space.show(&kept.point),
    };
    let beside = path.with_extension("new");
    let written = serde_json::to_string_pretty(&document).map_err(io::Error::from);
    let written = written.and_then(|text| {
        let mut file = fs::File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    written.map_err(|err| {
        format!(
            "the tuned values are not kept\n  tried: write {}: {err}\n  why:   a restart begins with \
             the policy's own values",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Range;

    fn space(range: &str) -> Space {
        Space::new(vec![Range::parse(range).unwrap()])
    }

    #[test]
    fn what_is_kept_is_there_again_and_nothing_else_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.json");
        let ages = space("cold.age=1s..60s");
        assert_eq!(read(&path, &ages, &[9]), Ok(None));
        let kept = Kept { point: vec![7_000_000], slowed: 0.004 };
        write(&path, &ages, &[9], &kept).unwrap();
        assert_eq!(read(&path, &ages, &[9]), Ok(Some(kept.clone())));
        assert!(fs::read_to_string(&path).unwrap().contains("cold.age=7s"));
        let other = read(&path, &space("cold.age=1s..30s"), &[9]).unwrap_err();
        assert!(other.contains("other ranges (cold.age=1s..60s)"), "{other}");
        let other = read(&path, &ages, &[2_000_000]).unwrap_err();
        assert!(other.contains("other values (cold.age=9us)"), "{other}");
        for (from, to) in [("7000000", "70000000"), ("\"version\": 1", "\"version\": 2"), ("{", "")]
        {
            write(&path, &ages, &[9], &kept).unwrap();
            let text = fs::read_to_string(&path).unwrap().replacen(from, to, 1);
            fs::write(&path, text).unwrap();
            let err = read(&path, &ages, &[9]).unwrap_err();
            assert!(err.contains("s.json"), "{err}");
        }
        // A directory is where the new file would be written.
        fs::create_dir(dir.path().join("s.new")).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        assert!(write(&path, &ages, &[9], &kept).unwrap_err().contains("tried: write"));
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
    }
}
