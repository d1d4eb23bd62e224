//! Random writes to every file of debugfs, while nothing runs and while all contexts do: each
//! refusal is one that the kernel has for this file, what was refused has changed nothing, and what
//! was taken can be read and written again.

use isotherm_damonfs::debugfs::ROOT;
use isotherm_damonfs::{Ino, Served};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rustix::io::Errno;

use crate::debugfs::Old;
use crate::fuzz::CASES;

/// The context that was made besides the first.
const MADE: &str = "made";

/// What the kernel can say to a write (`mm/damon/dbgfs.c`, Linux 6.1 to 6.12).
fn refusals(name: &str) -> &'static [Errno] {
    match name {
        "attrs" | "schemes" | "init_regions" => &[Errno::INVAL, Errno::BUSY],
        "target_ids" => &[Errno::NOMEM, Errno::INVAL, Errno::BUSY],
        // It has no way to be written.
        "kdamond_pid" => &[Errno::INVAL],
        "mk_contexts" => &[Errno::INVAL, Errno::BUSY, Errno::EXIST, Errno::NOMEM],
        "rm_contexts" => &[Errno::INVAL, Errno::BUSY, Errno::NOENT],
        "monitor_on" => &[Errno::INVAL, Errno::BUSY, Errno::PERM],
        _ => panic!("{name} is a file that this test does not know"),
    }
}

/// Lines of numbers, words, names and bytes. Many are nearly what one of the files takes.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let small = || (0_u64..30).prop_map(|n| n.to_string());
    let number = prop_oneof![
        6 => small(),
        2 => any::<u64>().prop_map(|n| n.to_string()),
        1 => any::<i64>().prop_map(|n| n.to_string()),
        1 => any::<u128>().prop_map(|n| n.to_string()),
        1 => small().prop_map(|n| format!("+{n}")),
        1 => small().prop_map(|n| format!("{n}x")),
    ];
    let space = prop::sample::select(vec![" ", "\n", "\t", "  "]);
    let line = (prop::collection::vec(number, 1..25), space)
        .prop_map(|(numbers, space)| numbers.join(space).into_bytes());
    let scheme = prop::collection::vec(small(), 18).prop_map(|n| n.join(" ").into_bytes());
    let ordered = prop::collection::vec(1_u64..1_000_000, 5).prop_map(|mut numbers| {
        numbers.sort_unstable();
        let [a, b, c, d, e] = *numbers else { unreachable!("there are five") };
        format!("{a} {b} {c} {d} {e}").into_bytes()
    });
    let own = Old::own();
    let words = vec!["paddr", "on", "off", "attrs", MADE, "other", ".", "..", "a/b", "é", &own];
    let words: Vec<Vec<u8>> = words.into_iter().map(|word| word.as_bytes().to_vec()).collect();
    let region = (0_u64..3, 0_u64..9, 0_u64..9).prop_map(|(at, a, b)| format!("{at} {a} {b}"));
    let regions = prop::collection::vec(region, 1..3).prop_map(|all| all.join("\n").into_bytes());
    let plain = prop_oneof![
        3 => line,
        2 => scheme,
        2 => ordered,
        2 => regions,
        4 => prop::sample::select(words),
        2 => prop::collection::vec(any::<u8>(), 0..300),
    ];
    let tail = prop::sample::select(vec!["", "\n", "\n\n", "\0x", " "]);
    (plain, tail).prop_map(|(mut text, tail)| {
        text.extend_from_slice(tail.as_bytes());
        text
    })
}

/// The files of a directory: path, name and number.
fn files(old: &Old, dir: Ino, below: &str) -> Vec<(String, String, Ino)> {
    let entries = old.files.entries(dir).unwrap().into_iter().filter(|(.., is_dir)| !is_dir);
    entries.map(|(ino, name, _)| (format!("{below}{name}"), name, ino)).collect()
}

/// Two contexts with a process each, which run if wanted, and all of their files.
fn contexts(run: bool) -> (Old, Vec<(String, String, Ino)>) {
    let old = Old::new();
    old.write("mk_contexts", MADE).unwrap();
    for dir in ["", "made/"] {
        old.write(&format!("{dir}target_ids"), &Old::own()).unwrap();
    }
    if run {
        old.write("monitor_on", "on").unwrap();
    }
    let mut all = files(&old, ROOT, "");
    all.extend(files(&old, old.at(MADE).unwrap(), "made/"));
    assert_eq!(all.len(), 13, "eight files, and five of the context that was made");
    (old, all)
}

/// The texts of all files whose text is settings.
fn settings(old: &Old, all: &[(String, String, Ino)]) -> Vec<Result<Vec<u8>, Errno>> {
    let is_setting = |name: &str| matches!(name, "attrs" | "target_ids" | "init_regions");
    let of = all.iter().filter(|(_, name, _)| is_setting(name));
    of.map(|(.., ino)| old.files.read(*ino)).collect()
}

/// What was taken can be written again, and says the same then.
fn takes_what_it_shows(old: &Old, path: &str, name: &str, ino: Ino) {
    let shown = old.files.read(ino).unwrap();
    if name == "target_ids" && shown == b"42\n" {
        // Physical memory shows a number that stands for it, in the kernel, too.
        return;
    }
    // Two targets with regions of each are shown by target, which is in order.
    let again = old.files.write(ino, 0, &shown);
    assert_eq!(again, Ok(shown.len()), "{path} <- {:?}", String::from_utf8_lossy(&shown));
    assert_eq!(old.files.read(ino).unwrap(), shown, "{path}");
}

#[test]
fn random_writes_get_the_kernels_answers() {
    let (old, all) = contexts(false);
    let mut runner = TestRunner::deterministic();
    for (path, name, ino) in &all {
        let mut nr_taken = 0;
        for _ in 0..CASES {
            if matches!(&**name, "mk_contexts" | "rm_contexts" | "monitor_on") {
                break;
            }
            let text = text().new_tree(&mut runner).unwrap().current();
            let before = settings(&old, &all);
            match old.files.write(*ino, 0, &text) {
                Ok(len) => {
                    assert_eq!(len, text.len());
                    nr_taken += 1;
                    takes_what_it_shows(&old, path, name, *ino);
                }
                Err(errno) => {
                    assert!(refusals(name).contains(&errno), "{path} <- {text:?}: {errno}");
                    // Regions that are refused take away those that were there, in the kernel, too.
                    let is_same = name == "init_regions" || settings(&old, &all) == before;
                    assert!(is_same, "{path} <- {text:?}: something has changed");
                }
            }
            assert_eq!(old.files.write(*ino, 1, &text), Err(Errno::INVAL), "not from its begin");
        }
        let takes = matches!(&**name, "attrs" | "schemes" | "target_ids" | "init_regions");
        assert!(
            !takes || nr_taken > CASES / 100,
            "{path} took {nr_taken}: too few to say anything"
        );
        old.write(&format!("{}target_ids", path.trim_end_matches(&**name)), &Old::own()).unwrap();
    }
}

#[test]
fn contexts_are_those_that_random_writes_made() {
    let (old, _) = contexts(false);
    let mut runner = TestRunner::deterministic();
    let mut names = std::collections::BTreeSet::from([MADE.to_owned()]);
    let nr_dirs = |old: &Old| old.files.kind(ROOT).unwrap().nr_dirs;
    for at in 0..2 * CASES {
        let file = if at % 2 == 0 { "mk_contexts" } else { "rm_contexts" };
        let text = text().new_tree(&mut runner).unwrap().current();
        let name = text.split(|byte| *byte == 0).next().unwrap();
        let name = name.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
        let name = name.and_then(|name| String::from_utf8(name.to_vec()).ok());
        match old.files.write(old.at(file).unwrap(), 0, &text) {
            Ok(_) if at % 2 == 0 => assert!(names.insert(name.unwrap()), "{text:?} was there"),
            Ok(_) => assert!(names.remove(&name.unwrap()), "{text:?} was not there"),
            Err(errno) => {
                assert!(refusals(file).contains(&errno), "{file} <- {text:?}: {errno}");
            }
        }
        assert_eq!(nr_dirs(&old) as usize, names.len(), "{file} <- {text:?}");
    }
    for name in &names {
        assert!(old.at(&format!("{name}/attrs")).is_ok(), "{name:?}");
    }
}

#[test]
fn random_writes_change_nothing_that_runs() {
    let (old, all) = contexts(true);
    let (idle, files_of_idle) = contexts(false);
    let mut runner = TestRunner::deterministic();
    let before = settings(&old, &all);
    for ((path, name, ino), (.., idle_ino)) in all.iter().zip(&files_of_idle) {
        for _ in 0..CASES {
            let text = text().new_tree(&mut runner).unwrap().current();
            if text.starts_with(b"off") {
                continue;
            }
            let done = old.files.write(*ino, 0, &text);
            let errno = done.expect_err("nothing is taken while contexts run");
            assert!(refusals(name).contains(&errno), "{path} <- {text:?}: {errno}");
            if !matches!(&**name, "attrs" | "schemes" | "target_ids" | "init_regions") {
                continue;
            }
            // What is wrong by itself is told first, and what is not waits for the end.
            match idle.files.write(*idle_ino, 0, &text) {
                Err(wrong) if matches!(&**name, "schemes" | "target_ids") => {
                    assert_eq!(errno, wrong, "{path} <- {text:?}");
                }
                Ok(_) => assert_eq!(errno, Errno::BUSY, "{path} <- {text:?}"),
                Err(_) => {}
            }
        }
        assert_eq!(settings(&old, &all), before, "{path}");
    }
    assert_eq!(old.read("monitor_on").unwrap(), "on\n");
    old.write("monitor_on", "off").unwrap();
}

#[test]
fn contexts_start_and_stop_between_random_writes() {
    let (old, all) = contexts(false);
    let mut runner = TestRunner::deterministic();
    let mut nr_started = 0;
    for at in 0..CASES as usize {
        let (path, name, ino) = &all[at % all.len()];
        let text = text().new_tree(&mut runner).unwrap().current();
        if let Err(errno) = old.files.write(*ino, 0, &text) {
            // A context that was removed takes its files with it.
            let known = refusals(name).contains(&errno) || errno == Errno::NODEV;
            assert!(known, "{path} <- {text:?}: {errno}");
        }
        if at % 50 == 0 {
            old.write("monitor_on", "off").ok();
            // One that was made by a random name has no target, and then nothing starts.
            for (_, name, is_dir) in old.files.entries(ROOT).unwrap() {
                let dir = if is_dir { format!("{name}/") } else { String::new() };
                if !matches!(&*name, "." | "..") {
                    old.write(&format!("{dir}target_ids"), &Old::own()).unwrap();
                }
            }
            nr_started += usize::from(old.write("monitor_on", "on").is_ok());
        }
    }
    assert!(nr_started > 100, "contexts ran {nr_started} times");
}
