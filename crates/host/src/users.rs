//! Users by name, from `/etc/passwd`.
//!
//! Absent on purpose: NSS, so directories of users over the network. Who has users there gives
//! their number.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::glob::glob;

/// The names of all users by their numbers; of names with the same number the first. `root` is `/`
/// on a machine.
#[must_use]
pub fn names(root: &Path) -> BTreeMap<u32, String> {
    let text = fs::read(root.join("etc/passwd")).unwrap_or_default();
    let mut names = BTreeMap::new();
    for (name, uid) in users(&text) {
        names.entry(uid).or_insert_with(|| String::from_utf8_lossy(name).into_owned());
    }
    names
}

/// The names and numbers in the text of `/etc/passwd`.
fn users(text: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let (name, uid) = (fields.next()?, fields.nth(1)?);
        let uid = std::str::from_utf8(uid).ok()?.parse().ok()?;
        (!name.is_empty()).then_some((name, uid))
    })
}

/// The numbers of the users whose name matches (`*` and `?` as in a shell), or whose number is
/// this, sorted. `root` is `/` on a machine.
#[must_use]
pub fn uids_of(root: &Path, pattern: &str) -> Vec<u32> {
    if let Ok(uid) = pattern.parse() {
        return vec![uid];
    }
    let text = fs::read(root.join("etc/passwd")).unwrap_or_default();
    let matching = users(&text).filter(|(name, _)| glob(pattern.as_bytes(), name));
    let mut uids: Vec<u32> = matching.map(|(_, uid)| uid).collect();
    uids.sort_unstable();
    uids.dedup();
    uids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_by_name_pattern_and_number() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(uids_of(root.path(), "root"), [] as [u32; 0]);
        fs::create_dir(root.path().join("etc")).unwrap();
        let text = "root:x:0:0:root:/root:/bin/sh\npostgres:x:114:120::/:/bin/sh\n\
                    pg-2:x:115:120::/:\npg:x:115:1::/:\nbroken\n:x:9:9::/:\nbad:x:no:1::/:\n";
        fs::write(root.path().join("etc/passwd"), text).unwrap();
        for (pattern, uids) in [
            ("root", vec![0]),
            ("p*", vec![114, 115]),
            ("4711", vec![4711]),
            ("nobody", vec![]),
            ("bad", vec![]),
            ("*", vec![0, 114, 115]),
        ] {
            assert_eq!(uids_of(root.path(), pattern), uids, "{pattern}");
        }
        let named: Vec<_> = names(root.path()).into_iter().collect();
        let want = [(0, "root"), (114, "postgres"), (115, "pg-2")];
        assert_eq!(named, want.map(|(uid, name)| (uid, name.to_owned())));
    }
}
