//! Random writes to the two files that remove what is above the others: `nr_kdamonds` and
//! `nr_contexts`. Every answer is the kernel's, and the directories are as many as the file says.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::io::Errno;

use crate::fake::Tree;
use crate::fuzz::{CASES, text};

/// The number that the kernel reads from a text with base 0. What is too large for 64 bits is told
/// before what is behind the digits, and what is too large for an `int` after that.
fn number_of(text: &[u8]) -> Result<i32, Errno> {
    let text = text.split(|byte| *byte == 0).next().unwrap();
    // A byte that is not ASCII is no digit either.
    let text: String = text.iter().map(|byte| char::from(*byte)).collect();
    let is_negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(&text);
    let is_hex = |rest: &str| rest.chars().next().is_some_and(|digit| digit.is_ascii_hexdigit());
    let hex = rest.strip_prefix("0x").or(rest.strip_prefix("0X")).filter(|rest| is_hex(rest));
    let (radix, rest) = match hex {
        Some(hex) => (16, hex),
        None if rest.starts_with('0') => (8, rest),
        None => (10, rest),
    };
    let len = rest.find(|digit: char| !digit.is_digit(radix)).unwrap_or(rest.len());
    let (digits, tail) = rest.split_at(len);
    if digits.is_empty() {
        return Err(Errno::INVAL);
    }
    let number = u64::from_str_radix(digits, radix).map_err(|_large| Errno::RANGE)?;
    if !matches!(tail, "" | "\n") {
        return Err(Errno::INVAL);
    }
    let number = i128::from(number) * if is_negative { -1 } else { 1 };
    i32::try_from(number).map_err(|_large| Errno::RANGE)
}

/// What the kernel says to a number: it reads all of it before it looks at what runs.
fn expected(text: &[u8], most: i32, is_busy: bool) -> Result<usize, Errno> {
    match number_of(text)? {
        nr if !(0..=most).contains(&nr) => Err(Errno::INVAL),
        _ if is_busy => Err(Errno::BUSY),
        // As in the kernel the limit is memory. We have a limit that is told the same way.
        nr if nr > 100_000 => Err(Errno::NOMEM),
        _ => Ok(text.len()),
    }
}

/// How many directories with numbers are beside a file.
fn nr_dirs(tree: &Tree, dir: &str) -> usize {
    let dir = tree.world.at(&format!("admin/kdamonds/{dir}")).unwrap();
    tree.world.entries(dir).unwrap().iter().filter(|(.., is_dir)| *is_dir).count() - 2
}

/// Writes random texts to a file, of which at most `most` directories are made.
fn fuzz(tree: &Tree, dir: &str, name: &str, most: i32, is_busy: bool) {
    let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let done = TestRunner::new(config).run(&text(), |text| {
        let ino = tree.world.at(&format!("admin/kdamonds/{path}")).unwrap();
        let before = tree.read(&path).unwrap();
        let wanted = if text.is_empty() { Ok(0) } else { expected(&text, most, is_busy) };
        let done = tree.world.write(ino, &text);
        prop_assert_eq!(done, wanted);
        let shown = tree.read(&path).unwrap();
        match done {
            Ok(1..) => prop_assert_eq!(shown.trim().parse().ok(), number_of(&text).ok()),
            _ => prop_assert_eq!(&shown, &before, "nothing has changed"),
        }
        prop_assert_eq!(nr_dirs(tree, dir).to_string(), shown.trim());
        Ok(())
    });
    done.unwrap_or_else(|failed| panic!("{path}: {failed}"));
}

#[test]
fn the_number_of_kdamonds_takes_what_the_kernel_takes() {
    let tree = Tree::new();
    fuzz(&tree, "", "nr_kdamonds", i32::MAX, false);
    // What is made at last is whole.
    tree.put("nr_kdamonds", "2");
    tree.put("1/contexts/nr_contexts", "1");
    assert_eq!(tree.read("1/state").as_deref(), Ok("off\n"));
}

#[test]
fn the_number_of_kdamonds_stays_while_one_runs() {
    let tree = Tree::with_context();
    tree.put("0/state", "on");
    fuzz(&tree, "", "nr_kdamonds", i32::MAX, true);
    assert_eq!(tree.read("0/state").as_deref(), Ok("on\n"));
    tree.put("0/state", "off");
    tree.put("nr_kdamonds", "0");
}

#[test]
fn the_number_of_contexts_takes_what_the_kernel_takes() {
    let tree = Tree::with_context();
    fuzz(&tree, "0/contexts", "nr_contexts", 1, false);
    tree.put("0/contexts/nr_contexts", "1");
    tree.put("0/state", "on");
    // Files do not change what runs, also if they are removed.
    fuzz(&tree, "0/contexts", "nr_contexts", 1, false);
    assert_eq!(tree.read("0/state").as_deref(), Ok("on\n"));
    tree.put("0/contexts/nr_contexts", "0");
    assert_eq!(tree.write("0/state", "commit"), Err(Errno::INVAL), "there is no context");
    tree.put("0/state", "off");
}
