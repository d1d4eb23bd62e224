//! Random writes to every file: nothing crashes, every refusal is one that the kernel has, and what
//! was taken can be read back and written again.

use isotherm_damonfs::MODULES;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use rustix::io::Errno;

use crate::fake::Tree;
use crate::layout::full;

/// Writes per file.
pub(crate) const CASES: u32 = 10_000;

/// Whether writing this file makes directories.
fn is_nr(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap();
    name.starts_with("nr_") && !path.contains("/stats/")
}

pub(crate) fn text() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![
        any::<u64>().prop_map(|n| n.to_string()),
        any::<i32>().prop_map(|n| n.to_string()),
        (0_u64..6).prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| format!("{n:#x}")),
        any::<u64>().prop_map(|n| format!("0{n:o}")),
        any::<u128>().prop_map(|n| n.to_string()),
    ];
    let word = prop::sample::select(vec![
        "vaddr",
        "fvaddr",
        "paddr",
        "stat",
        "pageout",
        "anon",
        "memcg",
        "young",
        "addr",
        "target",
        "user_input",
        "some_mem_psi_us",
        "temporal",
        "free_mem_rate",
        "Y",
        "N",
        "on",
        "off",
        "commit",
        "update_schemes_stats",
        "update_schemes_tried_regions",
        "/sys/fs/cgroup/a",
    ]);
    let plain = prop_oneof![
        4 => number.prop_map(String::into_bytes),
        3 => word.prop_map(|word| word.as_bytes().to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    let tail = prop::sample::select(vec!["", "\n", "\n\n", "\0x", " "]);
    (plain, tail).prop_map(|(mut text, tail)| {
        text.extend_from_slice(tail.as_bytes());
        text
    })
}

#[test]
fn random_writes_get_the_kernels_answers() {
    let tree = full();
    let allowed =
        [Errno::INVAL, Errno::RANGE, Errno::NOMEM, Errno::ACCESS, Errno::PERM, Errno::CANCELED];
    for path in tree.files("") {
        // Removing what is above a file is a test of its own (`fuzz_nr`).
        if path == "nr_kdamonds" || path == "0/contexts/nr_contexts" {
            continue;
        }
        let mut runner = TestRunner::new(Config {
            cases: CASES,
            failure_persistence: None,
            ..Config::default()
        });
        let done = runner.run(&text(), |text| {
            let tree = &tree;
            let Some(ino) = tree.world.at(&format!("admin/kdamonds/{path}")) else {
                // A `nr_` file above it was written; the files of the next round are there again.
                return Err(TestCaseError::fail("the file is gone"));
            };
            match tree.world.write(ino, &text) {
                Ok(len) => prop_assert_eq!(len, text.len()),
                Err(errno) if errno == Errno::BUSY => prop_assert!(path.ends_with("state")),
                Err(errno) => prop_assert!(allowed.contains(&errno), "{errno:?}"),
            }
            let shown = tree.world.read(ino);
            prop_assert!(shown.is_ok(), "{shown:?}");
            let is_command = path.ends_with("/state");
            let is_path = path.ends_with("path");
            let is_read_only = tree.world.kind(ino).unwrap().mode == 0o400;
            if !is_command && !is_path && !is_read_only && !is_nr(&path) {
                let shown = shown.unwrap();
                // A core filter that was not written to shows a word that it does not take.
                let word = String::from_utf8_lossy(&shown).into_owned();
                if !(path.contains("core_filters") && word == "anon\n") {
                    prop_assert!(tree.world.write(ino, &shown).is_ok(), "{word:?}");
                    prop_assert_eq!(tree.world.read(ino).unwrap(), shown);
                }
            }
            Ok(())
        });
        done.unwrap_or_else(|failed| panic!("{path}: {failed}"));
        if is_nr(&path) {
            // Bring back what random numbers have removed.
            tree.put(&path, "1");
            refill(&tree, &path);
        }
    }
}

#[test]
fn random_writes_to_modules_get_the_kernels_answers() {
    let tree = Tree::new();
    let world = &tree.world;
    let allowed = [Errno::INVAL, Errno::RANGE, Errno::ACCESS, Errno::BUSY];
    let mut files = Vec::new();
    for (dir, name, _) in world.entries(MODULES).unwrap() {
        if name.starts_with("damon_") {
            let parameters = world.lookup(dir, "parameters").unwrap();
            let inside = world.entries(parameters).unwrap().into_iter();
            files.extend(inside.filter(|(.., is_dir)| !is_dir).map(|(ino, name, _)| (ino, name)));
        }
    }
    assert!(files.len() > 60, "three modules have many parameters");
    let mut runner = TestRunner::deterministic();
    for (ino, name) in files {
        for _ in 0..CASES {
            let text = text().new_tree(&mut runner).unwrap().current();
            match world.write(ino, &text) {
                Ok(len) => assert_eq!(len, text.len(), "{name}"),
                Err(errno) => assert!(allowed.contains(&errno), "{name} <- {text:?}: {errno:?}"),
            }
            world.read(ino).unwrap_or_else(|errno| panic!("{name} <- {text:?}: {errno}"));
        }
    }
}

/// Two who write at the same time, commands and directories included: each gets an answer of the
/// kernel's, and nobody waits for the other for good.
#[test]
fn two_writers_disturb_nothing() {
    let tree = full();
    let paths = tree.files("");
    let allowed = [
        Errno::INVAL,
        Errno::RANGE,
        Errno::NOMEM,
        Errno::ACCESS,
        Errno::PERM,
        Errno::CANCELED,
        Errno::BUSY,
        Errno::NOENT,
        Errno::NODEV,
    ];
    std::thread::scope(|scope| {
        for begin in 0..2 {
            let (tree, paths) = (&tree, &paths);
            scope.spawn(move || {
                let mut runner = TestRunner::deterministic();
                for at in 0..CASES as usize {
                    let path = &paths[(begin + at * 7) % paths.len()];
                    // Large numbers of directories would only take long.
                    let text = match text().new_tree(&mut runner).unwrap().current() {
                        _ if is_nr(path) => (at % 4).to_string().into_bytes(),
                        text => text,
                    };
                    let ino = tree.world.at(&format!("admin/kdamonds/{path}"));
                    let done = ino.map(|ino| tree.world.write(ino, &text));
                    if let Some(Err(errno)) = done {
                        assert!(allowed.contains(&errno), "{path} <- {text:?}: {errno:?}");
                    }
                }
            });
        }
    });
    // No lock was left behind: files under it can be read and written.
    tree.world.stop_all();
    assert!(tree.read("nr_kdamonds").is_ok());
    tree.put("nr_kdamonds", "1");
    assert_eq!(tree.read("0/pid").as_deref(), Ok("-1\n"));
}

/// Makes the directories again that were below a `nr_` file.
fn refill(tree: &Tree, path: &str) {
    let fresh = full();
    let dir = path.rsplit_once('/').unwrap().0;
    let mut nested: Vec<String> = fresh.files(dir);
    nested.retain(|file| is_nr(file) && file != path);
    nested.sort_by_key(|file| file.matches('/').count());
    for file in nested {
        tree.put(&file, "1");
    }
}
