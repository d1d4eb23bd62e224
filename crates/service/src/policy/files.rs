//! The files of policies: every `*.toml` of a directory, and those that are given one by one. A
//! policy is called as its file is, without `.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::rollout::Trust;

/// The longest name of a policy, in bytes.
const MOST_NAME: usize = 64;

/// A file, and its text or why it cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PolicyFile {
    pub(crate) path: PathBuf,
    pub(crate) text: Result<String, String>,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// By the policy's name.
    pub(crate) files: BTreeMap<String, PolicyFile>,
    /// Files that are no policy because of their names, or the directory that cannot be read.
    pub(crate) problems: Vec<String>,
}

impl Found {
    /// Takes out the texts for which nobody vouches, and says so in their places.
    pub(crate) fn refuse_unvouched(&mut self, trust: &Trust) {
        for (name, file) in &mut self.files {
            if let Ok(text) = &file.text
                && let Err(why) = trust.check(name, text, Some(&file.path))
            {
                file.text = Err(why);
            }
        }
    }
}

/// Finds all files. One that cannot be read is no reason to leave out another.
pub(crate) fn find(dir: Option<&Path>, given: &[PathBuf]) -> Found {
    let mut found = Found::default();
    let mut paths = Vec::new();
    match dir.map(|dir| (dir, fs::read_dir(dir))) {
        Some((_, Ok(entries))) => {
            paths.extend(entries.flatten().map(|entry| entry.path()).filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                // Editors leave hidden files beside the one that is edited.
                name.ends_with(".toml") && !name.starts_with('.')
            }));
        }
        Some((dir, Err(err))) if err.kind() != std::io::ErrorKind::NotFound => {
            found.problems.push(format!("cannot read {}: {err}", dir.display()));
        }
        _ => {}
    }
    paths.sort();
    paths.extend(given.iter().cloned());
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Err(why) = check_name(&name) {
            found.problems.push(format!("{} is no policy: {why}", path.display()));
            continue;
        }
        let text = fs::read_to_string(&path);
        let text = text.map_err(|err| format!("cannot read {}: {err}", path.display()));
        if let Some(other) = found.files.get(&name) {
            let (path, other) = (path.display(), other.path.display());
            found.problems.push(format!("{path} is left out: {other} is called `{name}`, too"));
            continue;
        }
        found.files.insert(name, PolicyFile { path, text });
    }
    found
}

/// Refuses a name that would be no file name, or hard to read in a line of text.
///
/// # Errors
///
/// Why the name is refused.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty()
        || name.len() > MOST_NAME
        || name.starts_with('.')
        || !name.chars().all(known)
    {
        return Err(format!(
            "a policy's name has 1 to {MOST_NAME} letters, digits and `.`, `_`, `-`, and begins with \
             no dot"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_policy_and_a_bad_one_stops_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["b.toml", "a.toml", ".hidden.toml", "a.toml.bak", "sp ace.toml"] {
            fs::write(path(name), name).unwrap();
        }
        fs::create_dir(path("dir.toml")).unwrap();
        fs::write(path("bytes.toml"), [0xff, 0xfe]).unwrap();
        let more = tempfile::tempdir().unwrap();
        let given = [more.path().join("c.toml"), more.path().join("a.toml")];
        fs::write(&given[0], "c").unwrap();
        fs::write(&given[1], "another a").unwrap();
        let found = find(Some(dir.path()), &given);
        let names: Vec<_> = found.files.keys().collect();
        assert_eq!(names, ["a", "b", "bytes", "c", "dir"]);
        assert_eq!(found.files["a"].text.as_deref(), Ok("a.toml"));
        for bad in ["bytes", "dir"] {
            let why = found.files[bad].text.as_ref().unwrap_err();
            assert!(why.contains(&format!("{bad}.toml")), "{why}");
        }
        assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
        assert_eq!(find(Some(&path("missing")), &[]), Found::default());
        assert_eq!(find(Some(&path("a.toml")), &[]).problems.len(), 1);
    }

    #[test]
    fn names_are_file_names() {
        for good in ["a", "proactive-reclaim", "a.b_c-1", &"x".repeat(64)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", ".a", "a/b", "../a", "a b", "ä", "a\n", &"x".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
