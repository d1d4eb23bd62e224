//! `isotherm fleet` finds Python, or says what is missing. A script plays Python here.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::program::{ISOTHERM, Said, command, scratch};

/// A Python that ends a probe (`-c`) with this code, and else says its words and ends with 7.
fn python(dir: &Path, probe: u8) -> PathBuf {
    let path = dir.join("python");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -c ] && {{ echo 'Error: it is broken' >&2; exit {probe}; }}\n\
         echo \"$ISOTHERM_FLEET_NAME: $*\"\nexit 7\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn fleet(dir: &Path, python: &Path, words: &[&str]) -> Said {
    let mut words = words.to_vec();
    words.insert(0, "fleet");
    let mut program = command(ISOTHERM, dir, &words);
    Said::of(program.env("ISOTHERM_PYTHON", python).output().unwrap())
}

#[test]
fn words_and_exit_code_pass_through() {
    let dir = scratch();
    let said = fleet(dir.path(), &python(dir.path(), 0), &["report", "x y", "--html", "-"]);
    let said = said.expect(7, &[]);
    assert_eq!(said.out, "isotherm fleet: -m isotherm.fleet report x y --html -\n");
}

#[test]
fn what_is_missing_is_said() {
    let dir = scratch();
    for (code, why) in
        [(3, "no package isotherm"), (4, "is older"), (1, "cannot be loaded: Error: it is broken")]
    {
        let said = fleet(dir.path(), &python(dir.path(), code), &["report", "x"]);
        said.expect(3, &["tried:", why, "hint:", "pip install 'isotherm[fleet]'"]);
    }
    let said = fleet(dir.path(), &dir.path().join("nowhere"), &["report", "x"]);
    said.expect(3, &["need Python", "No such file", "install python3"]);
}
