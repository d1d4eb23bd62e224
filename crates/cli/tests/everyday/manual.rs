//! Manual pages, and the programs that read them.

use std::fs;

use crate::has;
use crate::program::{Said, command, isotherm, scratch, shell};

#[test]
fn there_is_a_page_for_every_command() {
    let dir = scratch();
    isotherm(dir.path(), "man -o some/where").expect(0, &[]);
    let pages = fs::read_dir(dir.path().join("some/where")).unwrap();
    let mut pages: Vec<_> = pages.map(|p| p.unwrap().path()).collect();
    pages.sort();
    let names = pages.iter().map(|p| p.file_name().unwrap().to_str().unwrap());
    let names: Vec<_> = names.collect();
    for name in ["isotherm.1", "isotherm-record.1", "isotherm-report-heatmap.1", "isotherm-man.1"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let help = isotherm(dir.path(), "--help").out;
    let commands = help.lines().skip_while(|l| *l != "Commands:").skip(1);
    let commands = commands.take_while(|l| !l.is_empty()).filter_map(|l| {
        let is_name = l.starts_with("  ") && !l.starts_with("   ");
        is_name.then(|| l.split_whitespace().next())?
    });
    for name in commands.filter(|name| *name != "help") {
        assert!(names.contains(&format!("isotherm-{name}.1").as_str()), "{name} in {names:?}");
    }
    for page in &pages {
        let page = page.to_str().unwrap();
        check("groff", dir.path(), &["-man", "-ww", "-z", "-Tutf8", page]);
        check("mandoc", dir.path(), &["-Tlint", "-Wwarning", page]);
    }
}

/// Fails if the program has anything to say, if it is installed.
fn check(program: &str, dir: &std::path::Path, args: &[&str]) {
    if has(program) {
        let said = Said::of(command(program, dir, args).output().unwrap());
        assert_eq!(
            (said.code, said.out.as_str(), said.err.as_str()),
            (Some(0), "", ""),
            "{args:?}"
        );
    }
}

#[test]
fn a_page_is_readable_and_complete() {
    let dir = scratch();
    let page = isotherm(dir.path(), "man report heatmap").expect(0, &[]).out.clone();
    for part in [".TH isotherm-report-heatmap 1 ", "\\-\\-svg", "FROM..TO"] {
        assert!(page.contains(part), "no {part} in {page}");
    }
    isotherm(dir.path(), "man recrod").expect(2, &["no command `recrod`", "record"]);
    if !has("man") {
        return;
    }
    let said = shell(dir.path(), "$ISOTHERM man top | MANWIDTH=80 man -l -");
    let text = said.expect(0, &[]).out.clone();
    // Examples keep their columns.
    assert!(text.contains("  isotherm top                          the whole machine"), "{text}");
    assert!(text.contains("EXAMPLES") && !text.contains("EXTRA"), "{text}");
}
