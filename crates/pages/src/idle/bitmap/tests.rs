//! The bitmap's reader and writer against the model of the kernel.
#![expect(clippy::cast_possible_truncation, reason = "frame numbers of small made-up machines")]

use proptest::prelude::*;

use super::super::model::{Frame, Model};
use super::*;

fn trackable() -> Frame {
    Frame { trackable: true, ..Frame::default() }
}

fn machine(max_pfn: usize) -> Bitmap<Model> {
    Bitmap::new(Model::new(vec![trackable(); max_pfn]))
}

fn idle_frames(bitmap: &Bitmap<Model>) -> Vec<u64> {
    let frames = bitmap.file().frames.borrow();
    (0..).zip(frames.iter()).filter(|(_, f)| f.idle).map(|(nr, _)| nr).collect()
}

#[test]
fn marks_exactly_the_range_wherever_it_begins_and_ends() {
    for max_pfn in [256, 200] {
        for start in 0..max_pfn + 70 {
            for end in start..max_pfn + 70 {
                let mut bitmap = machine(max_pfn as usize);
                let reached = bitmap.mark_range(start..end).unwrap();
                let expected: Vec<_> = (start..end.min(max_pfn)).collect();
                assert_eq!(idle_frames(&bitmap), expected, "{start}..{end} of {max_pfn}");
                // A last word that is not whole is marked, but nothing says so.
                let whole = max_pfn / 64 * 64;
                let told = if end <= whole { end } else { whole.max(start) };
                assert_eq!(reached, told, "{start}..{end} of {max_pfn}");
            }
        }
    }
}

#[test]
fn memory_ends_quietly() {
    for (max_pfn, whole) in
        [(64 * 3, 3), (64 * 3 + 1, 3), (63, 0), (64 * 512, 512), (64 * 1030 + 5, 1030)]
    {
        let mut bitmap = machine(max_pfn);
        assert_eq!(bitmap.write(0, &vec![u64::MAX; 2000]).unwrap(), whole, "{max_pfn}");
        assert_eq!(idle_frames(&bitmap).len(), max_pfn, "also those of the last word");
        let mut words = vec![7; 2000];
        assert_eq!(bitmap.read(0, &mut words).unwrap(), whole, "{max_pfn}");
        assert!(words[..whole].iter().all(|word| *word == u64::MAX));
        let mut seen = 0;
        let reached =
            bitmap.read_range(0..u64::MAX, &mut |_, word| seen += word.count_ones()).unwrap();
        assert_eq!((reached, seen as usize), (whole as u64 * 64, whole * 64));
        assert_eq!(bitmap.mark_range(0..u64::MAX).unwrap(), whole as u64 * 64);
        // Far behind the end, and where no file reaches.
        for first in [1 << 30, u64::MAX - 63] {
            assert_eq!(bitmap.read(first, &mut words).unwrap(), 0);
            assert_eq!(bitmap.write(first, &[1]).unwrap(), 0);
            assert_eq!(bitmap.mark_range(first..u64::MAX).unwrap(), first);
        }
    }
}

#[test]
fn other_errors_are_told() {
    #[derive(Debug)]
    struct Denied;
    impl Words for Denied {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        }
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        }
    }
    let mut bitmap = Bitmap::new(Denied);
    let denied = |e: Option<io::Error>| assert_eq!(e.unwrap().raw_os_error(), Some(libc::EPERM));
    denied(bitmap.read(0, &mut [0]).err());
    denied(bitmap.write(0, &[0]).err());
    denied(bitmap.mark_range(0..1).err());
    denied(bitmap.read_range(0..1, &mut |_, _| {}).err());
    denied(bitmap.mark(&[1_u64], |f| *f).err());
    denied(bitmap.look(&mut [1_u64], |f| *f, |_, _| {}).err());
    let err = Bitmap::open(Path::new("/nonexistent/bitmap")).unwrap_err();
    assert_eq!(err.kind(), io::ErrorKind::NotFound);
}

#[test]
fn neighbours_share_words_and_calls() {
    for (name, frames, writes, reads) in [
        ("none", vec![], 0, 0),
        ("one word", (0..64).collect::<Vec<u64>>(), 1, 1),
        ("one call", (0..64 * 512).collect(), 1, 1),
        ("one more", (0..64 * 512 + 1).collect(), 2, 2),
        ("words side by side", vec![1, 65, 129], 1, 1),
        ("a word between", vec![1, 129], 1, 2),
        ("as much as a write bridges", vec![1, 64 * (WRITE_BRIDGE + 1)], 1, 2),
        ("more", vec![1, 64 * (WRITE_BRIDGE + 2)], 2, 2),
        ("unsorted is right all the same", vec![129, 1, 65], 2, 2),
    ] {
        let mut bitmap = machine(64 * 600);
        bitmap.mark(&frames, |f| *f).unwrap();
        assert_eq!(bitmap.calls(), writes, "writes, {name}");
        let mut sorted = frames.clone();
        sorted.sort_unstable();
        assert_eq!(idle_frames(&bitmap), sorted, "{name}");
        let mut told: Vec<(u64, Option<bool>)> = frames.iter().map(|f| (*f, None)).collect();
        bitmap.look(&mut told, |t| t.0, |t, idle| t.1 = idle).unwrap();
        assert_eq!(bitmap.calls() - writes, reads, "reads, {name}");
        assert!(told.iter().all(|t| t.1 == Some(true)), "{name}");
    }
}

/// Frames of all kinds, most of them trackable.
fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let frame = (0_u8..=255).prop_map(|bits| Frame {
        trackable: bits & 7 != 0,
        idle: bits & 8 != 0,
        accessed: bits & 16 != 0,
        locked: bits & 0xe0 == 0,
        flags: 0,
    });
    proptest::collection::vec(frame, 0..700)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the calls move at once, and however the questions lie, the answers are the model's.
    #[test]
    fn agrees_with_one_frame_at_a_time(
        frames in frames(),
        mut asked in proptest::collection::vec(0_u64..800, 0..200),
        sorted in any::<bool>(),
        most in 1_usize..=3,
        interrupt_every in prop::sample::select(vec![0_u64, 2, 3]),
    ) {
        let model = || Model {
            most: if most == 3 { 4096 } else { most * 8 },
            interrupt_every,
            ..Model::new(frames.clone())
        };
        if sorted {
            asked.sort_unstable();
        }
        let max_pfn = frames.len() as u64;
        // Marking: what each frame becomes by itself.
        let mut bitmap = Bitmap::new(model());
        bitmap.mark(&asked, |f| *f).unwrap();
        for (nr, before) in (0..).zip(&frames) {
            let after = bitmap.file().frames.borrow()[nr as usize];
            let mut expected = *before;
            if asked.contains(&nr) && before.trackable {
                expected.idle = true;
                expected.accessed &= before.locked;
            }
            prop_assert_eq!(after, expected, "frame {}", nr);
        }
        // Looking.
        let mut bitmap = Bitmap::new(model());
        let mut told: Vec<_> = asked.iter().map(|f| (*f, Some(true))).collect();
        bitmap.look(&mut told, |t| t.0, |t, idle| t.1 = idle).unwrap();
        for (nr, idle) in &told {
            let expected = (*nr < max_pfn / 64 * 64).then(|| {
                let f = frames[*nr as usize];
                f.trackable && f.idle && (f.locked || !f.accessed)
            });
            prop_assert_eq!(*idle, expected, "frame {}", nr);
        }
        for (before, after) in frames.iter().zip(bitmap.file().frames.borrow().iter()) {
            // A read takes bits only from frames that were idle.
            prop_assert!(before.idle || before == after);
        }
        // All at once says the same.
        let mut all = vec![0; 20];
        let mut bitmap = Bitmap::new(model());
        let got = bitmap.read(0, &mut all).unwrap();
        prop_assert_eq!(got as u64, max_pfn / 64);
        for (nr, idle) in told {
            let bit = all[(nr / 64) as usize] >> (nr % 64) & 1 == 1;
            prop_assert_eq!(idle.unwrap_or(false), bit && (nr / 64) < got as u64);
        }
    }

    #[test]
    fn a_range_is_read_bit_by_bit(frames in frames(), start in 0_u64..800, len in 0_u64..800, most in 1_usize..=2) {
        let range = start..start + len;
        let mut bitmap = Bitmap::new(Model { most: most * 8, ..Model::new(frames.clone()) });
        let mut seen = vec![];
        let reached = bitmap
            .read_range(range.clone(), &mut |first, word| {
                seen.extend((0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| first + bit));
            })
            .unwrap();
        let whole = frames.len() as u64 / 64 * 64;
        prop_assert_eq!(reached, if range.end <= whole { range.end } else { whole.max(start) });
        let expected: Vec<_> = range
            .filter(|nr| *nr < whole)
            .filter(|nr| {
                let f = frames[*nr as usize];
                f.trackable && f.idle && (f.locked || !f.accessed)
            })
            .collect();
        prop_assert_eq!(seen, expected);
    }
}
