//! Who vouches for a policy: its hash in a file of pins, or a signature.
//!
//! Pins are lines as `sha256sum *.toml` writes them: 64 hexadecimal digits, and the name of the
//! policy's file. A signature is what `minisign -S` writes, in a file beside the policy's with
//! `.minisig` behind its name. One of both is enough. Both files are read anew for every policy, so
//! that `systemctl reload` takes up what has changed.
//!
//! A file of pins or a key that cannot be read, or is damaged, vouches for nothing.

use std::fs;
use std::path::{Path, PathBuf};

use minisign_verify::{PublicKey, Signature};
use sha2::{Digest, Sha256};

use super::Rollout;

/// The SHA-256 of a text, as 64 hexadecimal digits.
#[must_use]
pub fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Who vouches for policies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trust {
    pins: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Trust {
    pub(crate) fn new(rollout: &Rollout) -> Self {
        Self { pins: rollout.pins.clone(), key: rollout.key.clone() }
    }

    /// Checks that somebody vouches for the text of a policy. `file`: its file, if it comes from
    /// one.
    ///
    /// # Errors
    ///
    /// Why nobody does, and what to do; for people.
    pub(crate) fn check(&self, name: &str, text: &str, file: Option<&Path>) -> Result<(), String> {
        let mut why = Vec::new();
        if let Some(path) = &self.pins {
            match pinned(path, name, text) {
                Ok(()) => return Ok(()),
                Err(not) => why.push(not),
            }
        }
        if let Some(path) = &self.key {
            match signed(path, text, file) {
                Ok(()) => return Ok(()),
                Err(not) => why.push(not),
            }
        }
        if why.is_empty() {
            return Ok(());
        }
        Err(format!(
            "policy `{name}` is refused: nobody vouches for it\n  tried: its SHA-256 is {}\n  why:   \
             {}\n  hint:  put its line into the file of pins (`sha256sum {name}.toml`), or sign it \
             (`minisign -S -m {name}.toml`), and reload the agent",
            sha256(text),
            why.join("; ")
        ))
    }
}

/// Whether the pins have this text under this name.
fn pinned(path: &Path, name: &str, text: &str) -> Result<(), String> {
    let shown = path.display();
    let pins = fs::read_to_string(path).map_err(|err| format!("cannot read {shown}: {err}"))?;
    let mut of_name = Vec::new();
    for (nr, line) in pins.lines().enumerate().map(|(nr, line)| (nr + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (hash, file) = line
            .split_once(char::is_whitespace)
            .filter(|(hash, _)| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
            .ok_or_else(|| format!("{shown}, line {nr} is no SHA-256 and name"))?;
        // `sha256sum` marks files that it has read as binary.
        let file = Path::new(file.trim_start().trim_start_matches('*'));
        let stem = file.file_name().and_then(|file| file.to_str());
        let stem = stem.map(|file| file.strip_suffix(".toml").unwrap_or(file));
        if stem == Some(name) {
            of_name.push(hash.to_ascii_lowercase());
        }
    }
    match of_name.as_slice() {
        [] => Err(format!("{shown} has no line for it")),
        hashes if hashes.contains(&sha256(text)) => Ok(()),
        _ => Err(format!("{shown} has another SHA-256 for it")),
    }
}

/// Whether the key has signed this text.
fn signed(key: &Path, text: &str, file: Option<&Path>) -> Result<(), String> {
    let Some(file) = file else {
        return Err("what comes by the socket has no signature".to_owned());
    };
    let shown = key.display();
    let public = fs::read_to_string(key).map_err(|err| format!("cannot read {shown}: {err}"))?;
    let public = PublicKey::decode(public.trim())
        .or_else(|_not_a_file| PublicKey::from_base64(public.trim()))
        .map_err(|err| format!("{shown} is no public key of minisign: {err}"))?;
    let path = PathBuf::from(format!("{}.minisig", file.display()));
    let shown = path.display();
    let signature =
        fs::read_to_string(&path).map_err(|err| format!("cannot read {shown}: {err}"))?;
    let signature =
        Signature::decode(&signature).map_err(|err| format!("{shown} is no signature: {err}"))?;
    public
        .verify(text.as_bytes(), &signature, false)
        .map_err(|err| format!("{shown} is not of this text and this key: {err}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[context]]\n";

    fn trust(pins: Option<&Path>, key: Option<&Path>) -> Trust {
        Trust { pins: pins.map(Path::to_owned), key: key.map(Path::to_owned) }
    }

    #[test]
    fn a_hash_is_what_sha256sum_says() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(""), empty);
    }

    #[test]
    fn pins_are_of_a_text_and_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let pins = dir.path().join("pins");
        let check = |name: &str, text: &str| trust(Some(&pins), None).check(name, text, None);
        assert!(check("a", TEXT).unwrap_err().contains("cannot read"));
        let good = sha256(TEXT);
        for (line, name, text, why) in [
            (format!("{good}  a.toml"), "a", TEXT, ""),
            (format!("{good} *policies.d/a.toml"), "a", TEXT, ""),
            (format!("# all\n\n{}  a", good.to_uppercase()), "a", TEXT, ""),
            (format!("{}  a.toml\n{good}  a.toml", sha256("old")), "a", TEXT, ""),
            (format!("{good}  a.toml"), "b", TEXT, "no line for it"),
            (format!("{good}  a.toml"), "a", "[[context]]\n\n", "another SHA-256"),
            (format!("{good}  a.toml.bak"), "a", TEXT, "no line for it"),
            ("what is this".to_owned(), "a", TEXT, "line 1 is no SHA-256"),
            (good[1..].to_owned() + "  a.toml", "a", TEXT, "line 1 is no SHA-256"),
            (String::new(), "a", TEXT, "no line for it"),
        ] {
            fs::write(&pins, &line).unwrap();
            match check(name, text) {
                Ok(()) => assert_eq!(why, "", "{line}"),
                Err(text) => {
                    assert!(!why.is_empty() && text.contains(why), "{line}: {text}");
                    assert!(text.contains(&format!("policy `{name}` is refused")), "{text}");
                    assert!(text.contains("hint:"), "{text}");
                }
            }
        }
        assert_eq!(Trust::default().check("a", TEXT, None), Ok(()), "nobody has to vouch");
    }

    // Made by minisign, with a key that was thrown away.
    const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\n\
        RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/\
        z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
        trusted comment: timestamp:1556193335\tfile:test\n\
        y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==";

    #[test]
    fn signatures_are_of_a_text_and_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let (key, file) = (dir.path().join("key.pub"), dir.path().join("a.toml"));
        let check = |text: &str| trust(None, Some(&key)).check("a", text, Some(&file));
        assert!(check("test").unwrap_err().contains("cannot read"));
        fs::write(&key, KEY).unwrap();
        assert!(check("test").unwrap_err().contains("a.toml.minisig"));
        fs::write(dir.path().join("a.toml.minisig"), SIGNATURE).unwrap();
        assert_eq!(check("test"), Ok(()));
        fs::write(&key, format!("untrusted comment: minisign public key\n{KEY}\n")).unwrap();
        assert_eq!(check("test"), Ok(()), "as minisign writes it");
        assert!(check("Test").unwrap_err().contains("not of this text"));
        let by_socket = trust(None, Some(&key)).check("a", "test", None);
        assert!(by_socket.unwrap_err().contains("by the socket"));
        fs::write(&key, KEY.replace("f6LR", "f6LS")).unwrap();
        assert!(check("test").is_err());
        fs::write(&key, "none").unwrap();
        assert!(check("test").unwrap_err().contains("no public key"));
        // One of both is enough.
        let pins = dir.path().join("pins");
        fs::write(&pins, format!("{}  a.toml\n", sha256("test"))).unwrap();
        assert_eq!(trust(Some(&pins), Some(&key)).check("a", "test", None), Ok(()));
    }
}
