//! Marking and looking against the model of the kernel: folios of all sizes, frames of all kinds.
#![expect(clippy::cast_possible_truncation, reason = "frame numbers of small made-up machines")]

use PageState::{Absent, Cleared, Old, Unknown, Unresolved, Young};
use proptest::prelude::*;

use super::super::model::{FlagsOf, Frame, Model, folio, other};
use super::*;

/// Small pages, folios of 4, 16 and 512 frames, and what cannot be tracked.
fn machine() -> Vec<Frame> {
    let mut frames: Vec<Frame> = (0..64).flat_map(|_| folio(1)).collect();
    frames.extend(folio(4).into_iter().chain(folio(4)).chain(folio(8)).chain(folio(16)));
    // 96: slab, page table, hugetlb of two frames, free, no memory, nothing said, isolated.
    frames.extend([other(1 << 7), other(1 << 26)]);
    frames.push(other(Flags::HEAD.0 | Flags::HUGE.0));
    frames.push(other(Flags::TAIL.0 | Flags::HUGE.0));
    frames.extend([other(Flags::BUDDY.0), other(Flags::NOPAGE.0), other(0), other(Flags::MMAP.0)]);
    frames.extend((104..512).flat_map(|_| folio(1)));
    frames.extend(folio(512));
    // Memory ends inside a word.
    frames.extend((0..10).flat_map(|_| folio(1)));
    frames
}

fn folios<'a>(model: &'a Model, old_kernel: bool) -> Folios<&'a Model, FlagsOf<'a>> {
    let mut folios = Folios::new(Bitmap::new(model), FrameFile::new(FlagsOf { model, old_kernel }));
    // No draining here: it would be this machine's.
    folios.next_drain = Time(u64::MAX);
    folios
}

fn asks(frames: impl IntoIterator<Item = u64>) -> Vec<Ask> {
    (0..).zip(frames).map(|(nr, frame)| Ask::new(frame, nr)).collect()
}

/// The states in the order of the questions.
fn states(mut asks: Vec<Ask>) -> Vec<PageState> {
    asks.sort_by_key(|ask| ask.nr);
    asks.iter().map(|ask| ask.state).collect()
}

#[test]
fn each_kind_of_frame_is_answered_for_what_it_is() {
    for old_kernel in [false, true] {
        for (name, frame, marked, looked, touched) in [
            ("small", 5, Cleared, Old, Young),
            ("first of four", 64, Cleared, Old, Young),
            ("last of four", 67, Cleared, Old, Young),
            ("behind the first of the next four", 69, Cleared, Old, Young),
            ("of eight", 79, Cleared, Old, Young),
            ("of sixteen", 95, Cleared, Old, Young),
            ("slab", 96, Unresolved, Unresolved, Unresolved),
            ("page table", 97, Unresolved, Unresolved, Unresolved),
            ("hugetlb", 98, Unresolved, Unresolved, Unresolved),
            ("hugetlb, behind the first", 99, Unresolved, Unresolved, Unresolved),
            ("free", 100, Absent, Absent, Absent),
            ("no memory", 101, Absent, Absent, Absent),
            ("nothing said", 102, Unresolved, Unresolved, Unresolved),
            ("isolated", 103, Unresolved, Unresolved, Unresolved),
            ("2 MiB", 512, Cleared, Old, Young),
            ("2 MiB, the middle", 700, Cleared, Old, Young),
            ("2 MiB, the last", 1023, Cleared, Old, Young),
            // Marked, but no read delivers it.
            ("behind the last whole word", 1030, Cleared, Unresolved, Unresolved),
            ("behind the end of memory", 5000, Absent, Unresolved, Unresolved),
            ("far behind", 1 << 51, Absent, Unresolved, Unresolved),
        ] {
            let model = Model::new(machine());
            let mut folios = folios(&model, old_kernel);
            let mut ask = asks([frame]);
            folios.mark(&mut ask, Time(0)).unwrap();
            assert_eq!(ask[0].state, marked, "{name}: mark");
            let head = ask[0].head as usize;
            folios.look(&mut ask).unwrap();
            assert_eq!(ask[0].state, looked, "{name}: look");
            // With nothing known of it beforehand, too.
            let mut anew = asks([frame]);
            folios.look(&mut anew).unwrap();
            assert_eq!(anew[0].state, looked, "{name}: look anew");
            if let Some(frame) = model.frames.borrow_mut().get_mut(head) {
                frame.accessed = true;
            }
            folios.look(&mut ask).unwrap();
            assert_eq!(ask[0].state, touched, "{name}: touched");
            assert_eq!(
                folios.look(&mut ask).map(|()| ask[0].state).unwrap(),
                touched,
                "it stays so"
            );
        }
    }
}

#[test]
fn what_was_idle_is_old_to_mark_unless_seen_accessed() {
    let model = Model::new(machine());
    let mut folios = folios(&model, false);
    let mut first = asks([1, 2, 600]);
    folios.mark(&mut first, Time(0)).unwrap();
    assert_eq!(states(first), [Cleared; 3]);
    let calls = folios.bitmap().calls();
    let mut again = asks([1, 2, 600]);
    [again[0].accessed, again[1].accessed, again[2].accessed] = [Some(false), None, Some(true)];
    folios.mark(&mut again, Time(0)).unwrap();
    assert_eq!(states(again), [Old, Old, Cleared]);
    // Nothing is written for a mark that stands; one that only the flags tell of is read.
    assert_eq!(folios.bitmap().calls(), calls + 2);
    let mut again = asks([1]);
    again[0].accessed = Some(false);
    folios.mark(&mut again, Time(0)).unwrap();
    assert_eq!((states(again), folios.bitmap().calls()), (vec![Old], calls + 2));
    // The flags say that it is idle until somebody reads the bitmap.
    for frame in [2, 600] {
        model.frames.borrow_mut()[if frame == 600 { 512 } else { frame }].accessed = true;
        let mut again = asks([frame as u64]);
        folios.mark(&mut again, Time(0)).unwrap();
        assert_eq!(states(again), [Cleared], "frame {frame}");
    }
}

#[test]
fn a_mark_that_nobody_can_read_is_no_answer_twice() {
    let model = Model::new(machine());
    let mut folios = folios(&model, false);
    let mut batch = asks([1, 1030]);
    folios.mark(&mut batch, Time(0)).unwrap();
    folios.look(&mut batch).unwrap();
    assert_eq!(states(batch), [Old, Unresolved]);
    let mut batch = asks([1, 1030, 1024]);
    folios.mark(&mut batch, Time(0)).unwrap();
    assert_eq!(states(batch), [Old, Unresolved, Unresolved]);
}

#[test]
fn contradictions_are_unknown() {
    let model = Model::new(machine());
    let mut folios = folios(&model, false);
    let mut batch = asks([1, 2, 3, 77]);
    folios.mark(&mut batch, Time(0)).unwrap();
    {
        let mut frames = model.frames.borrow_mut();
        // 1: accessed, but its lock is held, so the kernel cannot take that in.
        (frames[1].accessed, frames[1].locked) = (true, true);
        // 2: isolated. 3: freed, and another's page behind a first one now.
        frames[2].trackable = false;
        frames[3] = other(Flags::TAIL.0);
        // 72 to 79: the folio was split; its pieces keep the mark, and one was touched.
        for frame in &mut frames[72..80] {
            *frame = Frame { idle: true, ..folio(1)[0] };
        }
        frames[77].accessed = true;
    }
    for ask in &mut batch {
        ask.accessed = Some([1, 77].contains(&ask.frame));
    }
    folios.look(&mut batch).unwrap();
    assert_eq!(states(batch), [Unknown, Unresolved, Unknown, Young]);
    // Without a hint the old first frame's mark is all there is.
    let mut batch = asks([76]);
    batch[0].head = 72;
    folios.look(&mut batch).unwrap();
    assert_eq!(states(batch), [Old]);
}

#[test]
fn neighbours_share_calls() {
    for (name, frames, mark, look) in [
        ("none", vec![], 0, 0),
        ("one", vec![5], 2, 1),
        ("neighbours", (0..64).collect::<Vec<u64>>(), 2, 1),
        ("one folio", (512..1024).collect(), 2 + 9, 1),
        ("far apart", vec![0, 300], 4, 2),
    ] {
        let model = Model::new(machine());
        let mut folios = folios(&model, false);
        let mut batch = asks(frames);
        folios.mark(&mut batch, Time(0)).unwrap();
        let marked = folios.calls();
        folios.look(&mut batch).unwrap();
        assert!(batch.iter().all(|ask| ask.state == Old), "{name}");
        let looked = folios.calls() - marked;
        assert!(marked <= mark && looked <= look, "{name}: {marked} {looked}");
    }
}

#[test]
fn errors_leave_no_answers() {
    struct Denied;
    impl Words for Denied {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
    let model = Model::new(machine());
    let file = FrameFile::new(FlagsOf { model: &model, old_kernel: false });
    let mut folios = Folios::new(Bitmap::new(Denied), file);
    assert!(folios.mark(&mut asks([1]), Time(0)).is_err());
    assert!(folios.look(&mut asks([1])).is_err());
}

/// Folios of random sizes next to each other, some of them not trackable.
fn any_machine() -> impl Strategy<Value = Vec<Frame>> {
    let piece = (0_u32..=6, 0_u8..10);
    proptest::collection::vec(piece, 1..60).prop_map(|pieces| {
        let mut frames = vec![];
        for (order, kind) in pieces {
            let len = 1_usize << order;
            while frames.len() % len != 0 {
                frames.extend(folio(1));
            }
            match kind {
                0 => frames.push(other(1 << 7)),
                1 => frames.push(other(Flags::BUDDY.0)),
                2 => {
                    let huge = |f: Frame| other(f.flags | Flags::HUGE.0);
                    frames.extend(folio(len).into_iter().map(huge));
                }
                _ => frames.extend(folio(len)),
            }
        }
        frames.resize(frames.len().next_multiple_of(64), folio(1)[0]);
        frames
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Marked frames are old until their folio is touched, whatever lies around them, and nobody
    /// else's mark changes.
    #[test]
    fn a_folio_is_young_exactly_if_it_was_touched(
        frames in any_machine(),
        picked in proptest::collection::vec(any::<prop::sample::Index>(), 1..80),
        touched in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
        old_kernel in any::<bool>(),
        known in any::<bool>(),
    ) {
        let model = Model::new(frames.clone());
        let mut folios = folios(&model, old_kernel);
        let mut batch = asks(picked.iter().map(|at| at.index(frames.len()) as u64));
        folios.mark(&mut batch, Time(0)).unwrap();
        let head_of = |at: usize| {
            (0..=at).rev().find(|at| frames[*at].flags & Flags::TAIL.0 == 0).unwrap_or(at)
        };
        let mut expected = vec![false; frames.len()];
        for ask in &batch {
            let head = head_of(ask.frame as usize);
            let standing = match frames[head] {
                f if f.trackable => Cleared,
                f if f.flags & Flags::BUDDY.0 != 0 => Absent,
                _ => Unresolved,
            };
            prop_assert_eq!(ask.state, standing, "frame {}", ask.frame);
            expected[head] = frames[head].trackable;
        }
        let marked: Vec<_> = model.frames.borrow().iter().map(|f| f.idle).collect();
        prop_assert_eq!(&marked, &expected);
        for at in &touched {
            model.frames.borrow_mut()[head_of(at.index(frames.len()))].accessed = true;
        }
        if !known {
            batch.iter_mut().for_each(|ask| ask.head = NOT_KNOWN);
        }
        folios.look(&mut batch).unwrap();
        for ask in &batch {
            let head = head_of(ask.frame as usize);
            let was_touched = touched.iter().any(|at| head_of(at.index(frames.len())) == head);
            let expected = match frames[head] {
                f if f.trackable && was_touched => Young,
                f if f.trackable => Old,
                f if f.flags & Flags::BUDDY.0 != 0 => Absent,
                _ => Unresolved,
            };
            prop_assert_eq!(ask.state, expected, "frame {}", ask.frame);
        }
    }
}
