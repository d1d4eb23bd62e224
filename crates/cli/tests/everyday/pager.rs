//! Long text in a terminal goes through a pager. `script` makes the terminal.

use std::fs;
use std::path::Path;

use crate::has;
use crate::program::{ISOTHERM, Said, command, scratch};

/// Runs a line of shell in a terminal of 24 rows and 80 columns. Returns what the terminal shows.
fn in_terminal(dir: &Path, line: &str, environment: &[(&str, &str)]) -> Said {
    let line = format!("stty rows 24 cols 80; {line}");
    let mut command = command("script", dir, &["-qec", &line, "/dev/null"]);
    command.env("ISOTHERM", ISOTHERM).env("TERM", "xterm").env_remove("LESS");
    for name in ["PAGER", "ISOTHERM_PAGER"] {
        command.env_remove(name);
    }
    Said::of(command.envs(environment.iter().copied()).output().unwrap())
}

/// A record of which `report regions` takes many rows, and `report wss` a few.
fn record(dir: &Path) {
    let made = crate::program::isotherm(dir, "sim stairs --scale 8s -q -o r.data");
    made.expect(0, &[]);
}

/// A pager that leaves a mark.
const MARKS: &str = "cat > paged; echo shown by the pager";

#[test]
fn a_long_report_is_paged_and_a_short_one_is_not() {
    if !has("script") {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    record(dir);
    let environment = [("ISOTHERM_PAGER", MARKS), ("PAGER", "false")];
    let said = in_terminal(dir, "$ISOTHERM report regions r.data", &environment);
    assert!(said.expect(0, &[]).out.ends_with("shown by the pager\r\n"), "{said:?}");
    let paged = fs::read_to_string(dir.join("paged")).unwrap();
    let piped = crate::program::isotherm(dir, "report regions r.data");
    assert_eq!(paged, piped.expect(0, &[]).out, "all of it");
    for short in ["report wss r.data", "report regions r.data --no-pager"] {
        let said = in_terminal(dir, &format!("$ISOTHERM {short}"), &environment);
        let out = &said.expect(0, &[]).out;
        assert!(!out.contains("shown by the pager") && out.lines().count() > 5, "{short}: {out}");
    }
    let said = in_terminal(dir, "$ISOTHERM report regions r.data | cat", &environment);
    assert_eq!(said.expect(0, &[]).out.replace("\r\n", "\n"), paged, "not into a pipe");
    // The other ways to name one, and to want none.
    let other = [("PAGER", "cat > paged; echo the other pager")];
    let said = in_terminal(dir, "$ISOTHERM report regions r.data", &other);
    assert!(said.expect(0, &[]).out.ends_with("the other pager\r\n"), "{said:?}");
    for none in ["", "cat"] {
        let environment = [("ISOTHERM_PAGER", none), ("PAGER", MARKS)];
        let said = in_terminal(dir, "$ISOTHERM report regions r.data", &environment);
        assert_eq!(said.expect(0, &[]).out.replace("\r\n", "\n"), paged, "{none:?}");
    }
}

#[test]
fn a_pager_that_is_left_early_or_missing_is_no_error() {
    if !has("script") {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    record(dir);
    let early = [("ISOTHERM_PAGER", "head -n 1")];
    let said = in_terminal(dir, "$ISOTHERM report regions r.data; echo code $?", &early);
    let out = &said.expect(0, &[]).out;
    assert!(out.lines().count() == 2 && out.ends_with("code 0\r\n"), "{out}");
    let missing = [("ISOTHERM_PAGER", "no-such-pager -x")];
    let said = in_terminal(dir, "$ISOTHERM report regions r.data; echo code $?", &missing);
    let out = &said.expect(0, &[]).out;
    assert!(out.contains("cannot start the pager `no-such-pager -x`"), "{out}");
    assert!(out.lines().count() > 100 && out.ends_with("code 0\r\n"), "all of it is shown: {out}");
    let said = in_terminal(dir, "PATH=/ $ISOTHERM report regions r.data; echo code $?", &[]);
    let out = &said.expect(0, &[]).out;
    assert!(out.lines().count() > 100 && out.ends_with("code 0\r\n"), "without less: {out}");
}
