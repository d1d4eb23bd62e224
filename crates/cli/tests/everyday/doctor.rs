//! `isotherm doctor` on one screen.

use crate::program::{Public, Said, isotherm, scratch};

/// At most what a terminal of 24 by 80 shows above the next prompt.
#[track_caller]
fn fits(said: &Said) {
    assert!(said.out.lines().count() <= 23, "{}", said.out);
    for line in said.out.lines() {
        assert!(line.chars().count() <= 80 || line.trim_start().starts_with('/'), "{line:?}");
    }
}

#[test]
fn the_answer_fits_on_a_screen_and_the_rest_is_there_when_asked_for() {
    let dir = scratch();
    let brief = isotherm(dir.path(), "doctor");
    fits(brief.expect(0, &[]));
    let long = isotherm(dir.path(), "doctor --long").expect(0, &[]).out.clone();
    for part in ["usable:", "paging", "lockdown", "best: "] {
        let is_there = long.contains(part) || part == "paging" && long.contains("levels");
        assert!(is_there, "no {part} in {long}");
        assert!(!brief.out.contains(part), "{part} in {}", brief.out);
    }
    let verbose = isotherm(dir.path(), "doctor -v");
    assert!(verbose.expect(0, &[]).out.contains("usable:"), "{}", verbose.out);
    let coloured = isotherm(dir.path(), "doctor --color always").expect(0, &[]).out.clone();
    assert!(coloured.contains("\x1b[32myes"), "{coloured}");
    assert!(!brief.out.contains('\x1b'), "{}", brief.out);
}

#[test]
fn without_privileges_the_fix_comes_first() {
    let said = Public::new().isotherm("doctor");
    fits(&said);
    let lines: Vec<&str> = said.expect(0, &[]).out.lines().collect();
    assert!(
        lines[1].starts_with("* CAP_") && said.out.contains("sudo setcap \\\n"),
        "{}",
        said.out
    );
    let at = |part: &str| lines.iter().position(|line| line.contains(part)).unwrap();
    assert!(at("fix:") < at("pagewalk    no"), "{}", said.out);
}
