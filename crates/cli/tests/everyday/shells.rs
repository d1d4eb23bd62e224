//! Completions in real shells, and the version.

use std::path::Path;

use crate::has;
use crate::program::{Said, command, isotherm, scratch, shell};

/// What bash offers for a line that ends at the cursor.
fn bash(dir: &Path, words: &[&str]) -> Vec<String> {
    let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let last = words.len() - 1;
    let script = format!(
        "source <(isotherm completions bash)\n\
         COMP_WORDS=({line}); COMP_CWORD={last}\n\
         COMP_LINE=\"${{COMP_WORDS[*]}}\"; COMP_POINT=${{#COMP_LINE}}\n\
         how=$(complete -p isotherm) || exit 9\n\
         set -- $how\n\
         while [ \"$1\" != -F ]; do shift; done\n\
         \"$2\" isotherm \"${{COMP_WORDS[$COMP_CWORD]}}\" \"${{COMP_WORDS[$COMP_CWORD - 1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let said = run(dir, "bash", &["--norc", "--noprofile", "-c", &script]);
    let offered = said.expect(0, &[]).out.lines().map(|line| line.trim().to_owned());
    let mut offered: Vec<_> = offered.collect();
    offered.sort();
    offered
}

/// Runs a shell in which `isotherm` is the program.
fn run(dir: &Path, shell: &str, args: &[&str]) -> Said {
    let program = Path::new(crate::program::ISOTHERM).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = command(shell, dir, args);
    command
        .env("PATH", path)
        .env("HOME", dir)
        .env("XDG_CONFIG_HOME", dir)
        .env("XDG_DATA_HOME", dir);
    Said::of(command.output().unwrap())
}

#[test]
fn bash_completes_commands_options_and_values() {
    if !has("bash") {
        return;
    }
    let dir = scratch();
    let offered = bash(dir.path(), &["isotherm", "rec"]);
    assert_eq!(offered, ["reclaim", "record"]);
    assert!(bash(dir.path(), &["isotherm", "report", ""]).contains(&"heatmap".to_owned()));
    assert_eq!(bash(dir.path(), &["isotherm", "report", "heatmap", "--sv"]), ["--svg"]);
    let methods = bash(dir.path(), &["isotherm", "record", "--method", ""]);
    assert_eq!(methods, ["auto", "census", "first-touch", "resample"]);
    assert_eq!(bash(dir.path(), &["isotherm", "completions", "z"]), ["zsh"]);
}

#[test]
fn fish_completes_commands_options_and_values() {
    if !has("fish") {
        return;
    }
    let dir = scratch();
    for (line, want) in [
        ("isotherm rec", "reclaim record"),
        ("isotherm report heatmap --sv", "--svg"),
        ("isotherm record --method c", "census"),
    ] {
        let script = format!("isotherm completions fish | source; complete -C '{line}'");
        let said = run(dir.path(), "fish", &["--no-config", "-c", &script]);
        let offered = said.expect(0, &[]).out.lines();
        let offered: Vec<_> = offered.filter_map(|l| l.split_whitespace().next()).collect();
        assert_eq!(offered.join(" "), want, "{line}");
    }
}

#[test]
fn zsh_takes_the_completions() {
    if !has("zsh") {
        return;
    }
    let dir = scratch();
    // The completion system of zsh needs a terminal to be used. Here it loads the function from
    // its path, as a user installs it, and knows which command it is for.
    let script = "isotherm completions zsh > _isotherm && fpath=($PWD $fpath) && \
                  autoload -Uz compinit && compinit -u -d ./dump && \
                  print ${_comps[isotherm]} && autoload +X _isotherm && \
                  functions _isotherm | grep -c heatmap";
    let said = run(dir.path(), "zsh", &["-f", "-c", script]);
    assert_eq!(said.expect(0, &[]).out.lines().next(), Some("_isotherm"));
    assert!(said.err.is_empty(), "{said:?}");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let dir = scratch();
    for what in ["completions bash", "man record", "--help", "config record"] {
        let line = format!("$ISOTHERM {what} | true; echo ${{PIPESTATUS[0]}}");
        let line = format!("bash -c '{line}'");
        let said = shell(dir.path(), &line);
        assert_eq!((said.out.as_str(), said.err.as_str()), ("0\n", ""), "{what}");
    }
}

#[test]
fn the_version_is_short_or_long() {
    let dir = scratch();
    let first = concat!("isotherm ", env!("CARGO_PKG_VERSION"));
    let short = isotherm(dir.path(), "-V");
    assert_eq!(short.expect(0, &[]).out.trim_end(), first);
    let long = isotherm(dir.path(), "--version").expect(0, &[]).out.clone();
    let value = |name: &str| {
        let line = long.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {long}")).trim().to_owned()
    };
    assert_eq!(long.lines().next(), Some(first));
    assert!(value("target").contains("linux"), "{long}");
    assert!(value("sets").contains("pagewalk"), "{long}");
    assert!(!value("features").is_empty(), "{long}");
    // The tests may be built from an archive of the sources, or before the first commit.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let git = command("git", &root, &["rev-parse", "--short=12", "HEAD"]).output();
    match git {
        Ok(git) if git.status.success() && root.join(".git").exists() => {
            assert_eq!(value("commit"), String::from_utf8(git.stdout).unwrap().trim());
        }
        _ => assert!(!value("commit").is_empty(), "{long}"),
    }
}
