//! Every target on its corpus, and on mutations of it.
//!
//! The seed is printed; `ISOTHERM_FUZZ_SEED=N` repeats a run, `ISOTHERM_FUZZ_CASES=N` makes more
//! or fewer mutations per target. An input that makes a target panic is kept, and its path told:
//! put it into the corpus with the fix.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use isotherm_core::Rng;
use isotherm_fuzz_targets::{ALL, Target};

/// Mutations of a target's corpus; all targets together take a few seconds.
const CASES: u64 = 3000;
/// Longer inputs only make a run slower.
const MAX_LEN: usize = 16 << 10;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect(variable))
}

fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target.name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn the_corpus_is_read() {
    for target in ALL {
        for (path, data) in corpus(&target) {
            println!("{}", path.display());
            (target.run)(&data);
        }
    }
}

#[test]
fn mutations_of_the_corpus_are_read() {
    let seed = number("ISOTHERM_FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let cases = number("ISOTHERM_FUZZ_CASES").unwrap_or(CASES);
    println!("ISOTHERM_FUZZ_SEED={seed}");
    for target in ALL {
        let mut random = Random(Rng::seeded(seed));
        let inputs: Vec<_> = corpus(&target).into_iter().map(|(_, data)| data).collect();
        for _ in 0..cases {
            let data = random.mutation(&inputs);
            if catch_unwind(|| (target.run)(&data)).is_err() {
                let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(target.name);
                std::fs::write(&path, &data).unwrap();
                panic!("{}: seed {seed}: the input is {}", target.name, path.display());
            }
        }
    }
}

struct Random(Rng);

impl Random {
    /// Below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.0.next_u32() as usize % end
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// One of `inputs` with one to eight changes.
    fn mutation(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut data = self.pick(inputs).clone();
        for _ in 0..=self.below(8) {
            self.change(&mut data, inputs);
        }
        data.truncate(MAX_LEN);
        data
    }

    fn change(&mut self, data: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        const NUMBERS: [&[u8]; 8] = [
            b"0",
            b"-1",
            b"18446744073709551615",
            b"ffffffffffffffff",
            b"9223372036854775808",
            b"4294967295",
            b"1e309",
            b"0.5",
        ];
        let at = self.below(data.len() + 1);
        let end = at + self.below((data.len() - at).min(64) + 1);
        match self.below(7) {
            0 => data.truncate(at),
            1 => drop(data.drain(at..end)),
            2 => data.insert(at, *self.pick(&[0, 1, 0x7f, 0x80, 0xff, b'\n', b' ', b'"'])),
            3 => {
                let changed = data.get_mut(at..end.min(at + 8)).unwrap_or_default();
                changed.iter_mut().for_each(|byte| *byte = self.0.next_u32().to_le_bytes()[0]);
            }
            4 => {
                let changed = data.get_mut(at..end.min(at + 8)).unwrap_or_default();
                changed.fill(*self.pick(&[0, 0xff]));
            }
            // A number in the place of a word's rest.
            5 => {
                let word = data[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
                data.splice(at..at + word, self.pick(&NUMBERS).iter().copied());
            }
            _ => {
                let other = self.pick(inputs);
                let from = self.below(other.len() + 1);
                let to = from + self.below((other.len() - from).min(256) + 1);
                data.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
}
