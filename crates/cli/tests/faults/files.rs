//! Workload configs that cannot be understood, and the demo.

use std::fs;

use crate::program::{Public, Said, isotherm, scratch};

#[test]
fn a_bad_config_is_told_with_its_line() {
    let dir = scratch();
    fs::write(dir.path().join("bad.cfg"), "#regions\na, 1000\n\n#phases\nx\n10, bogus, 3\n")
        .unwrap();
    for what in ["workload", "sim"] {
        isotherm(dir.path(), &format!("{what} bad.cfg"))
            .expect(2, &["bad.cfg: line 6:", "bogus", "expected"]);
        isotherm(dir.path(), &format!("{what} nosuch"))
            .expect(2, &["no workload `nosuch`", "hint:", "stairs"]);
        isotherm(dir.path(), &format!("{what} stairs --scale 0")).expect(2, &["--scale 0"]);
        isotherm(dir.path(), &format!("{what} stairs --scale 1s --truth nosuch/t -q"))
            .expect(2, &["cannot write nosuch/t", "make the directory"]);
    }
    isotherm(dir.path(), "sim stairs --fault bogus").expect(2, &["--fault bogus", "late="]);
    isotherm(dir.path(), "sim stairs -o nosuch/r").expect(2, &["cannot write nosuch/r"]);
}

#[test]
fn the_demo_simulates_for_anybody() {
    let dir = scratch();
    let check = |said: &Said| {
        said.expect(0, &[]);
        for part in [
            "workload `stairs`",
            "SIMULATION",
            "[anon:s9]",
            "working set of stairs",
            "score against what the workload really accessed",
            "precision / recall of hot bytes",
        ] {
            assert!(said.out.contains(part), "no `{part}` in {}", said.out);
        }
        assert!(!said.out.contains('\x1b'), "no escape codes into a pipe");
    };
    check(&isotherm(dir.path(), "demo --simulate"));
    check(&Public::new().isotherm("demo --simulate"));
    isotherm(dir.path(), "demo --simulate --keep kept").expect(0, &[]);
    for file in ["kept/demo.data", "kept/demo.truth"] {
        assert!(dir.path().join(file).is_file(), "{file}");
    }
}
