//! The help: short by `-h`, in groups, with examples at the end.

use crate::program::{isotherm, scratch};

/// The commands that watch processes, and the groups of the options that a new user needs. How
/// long a short help is, is tested beside the module that makes it (`shell/help.rs`).
const WATCHING: [(&str, &[&str]); 9] = [
    ("record", &["Target:", "Limits:", "Output:"]),
    ("wss", &["Target:", "Limits:", "Output:"]),
    ("stat", &["Target:", "Monitoring:"]),
    ("top", &["Target:", "Limits:", "Output:"]),
    ("reclaim", &["Target:", "Action:", "Limits:"]),
    ("thp", &["Target:", "Action:", "Limits:"]),
    ("lru-sort", &["Target:", "Action:", "Limits:"]),
    ("tier", &["Target:", "Action:", "Limits:"]),
    ("run", &["Target:", "Action:"]),
];

#[test]
fn the_short_help_fits_and_the_long_one_has_everything() {
    let dir = scratch();
    for (what, groups) in WATCHING {
        let short = isotherm(dir.path(), &format!("{what} -h"));
        let long = isotherm(dir.path(), &format!("{what} --help"));
        let (short, long) = (&short.expect(0, &[]).out, &long.expect(0, &[]).out);
        let lines = short.lines().count();
        assert!(long.lines().count() > lines + 10, "{what}: {long}");
        for group in ["Target:", "Limits:", "Output:"] {
            assert!(long.lines().any(|line| line == group), "no {group} for {what}:\n{long}");
        }
        for group in groups {
            assert!(short.lines().any(|line| line == *group), "no {group} for {what}:\n{short}");
            assert!(long.lines().any(|line| line == *group), "no {group} for {what}:\n{long}");
        }
        for text in [short, long] {
            let at = text.find("\nExamples:\n").unwrap_or_else(|| panic!("{what}: {text}"));
            let examples = text[at..].lines().skip(2);
            assert!(examples.clone().count() > 1, "{what}: {text}");
            let is_example = |line: &str| line.starts_with("  isotherm ");
            assert!(
                examples.clone().all(is_example),
                "the examples end the help of {what}: {text}"
            );
        }
    }
}

#[test]
fn targets_are_named_by_the_same_options_everywhere() {
    let dir = scratch();
    for what in ["record", "wss", "stat", "top", "reclaim", "thp", "lru-sort", "tier", "schemes"] {
        let said = isotherm(dir.path(), &format!("{what} -h"));
        for option in ["[PID|CMD]...", "-p, --pid", "--name", "--cgroup", "--unit", "-a, --all"] {
            assert!(
                said.expect(0, &[]).out.contains(option),
                "no {option} for {what}: {}",
                said.out
            );
        }
    }
}

#[test]
fn options_are_shown_where_they_mean_something() {
    let dir = scratch();
    // Command, a part of its help, and whether it is there.
    for (what, part, is_there) in [
        ("reclaim -h", "--dry-run", true),
        ("stat -h", "--dry-run", false),
        ("stat --help", "--undo-on-exit", false),
        ("record --help", "--budget <SHARE>", true),
        ("record --help", "--clears", false),
        ("report --help", "[default: isotherm.data]", true),
        ("report heatmap -h", "[default: isotherm.data]", true),
    ] {
        let said = isotherm(dir.path(), what);
        assert_eq!(said.expect(0, &[]).out.contains(part), is_there, "{what}: {part}");
    }
}
