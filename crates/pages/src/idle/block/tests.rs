//! Blocks against the model of the kernel, and against single frames.

use isotherm_core::PageState;
use proptest::prelude::*;

use super::super::bitmap::Bitmap;
use super::super::folios::Ask;
use super::super::model::{FlagsOf, Frame, Model, folio, other};
use super::*;
use crate::frames::FrameFile;

fn folios<'a>(model: &'a Model, old_kernel: bool) -> Folios<&'a Model, FlagsOf<'a>> {
    let mut folios = Folios::new(Bitmap::new(model), FrameFile::new(FlagsOf { model, old_kernel }));
    // No draining here: it would be this machine's.
    folios.next_drain = Time(u64::MAX);
    folios
}

fn touch(model: &Model, frame: usize) {
    model.frames.borrow_mut()[frame].accessed = true;
}

fn bits(of: impl IntoIterator<Item = u64>) -> PageBits {
    let mut bits = PageBits::default();
    of.into_iter().for_each(|nr| set(&mut bits, nr));
    bits
}

/// 512 small pages, then 2 MiB in one piece, then 512 frames of every kind.
fn machine() -> Vec<Frame> {
    let mut frames: Vec<Frame> = (0..512).flat_map(|_| folio(1)).collect();
    frames.extend(folio(512));
    frames.extend(folio(64).into_iter().chain(folio(16)).chain(folio(16)));
    // 1120: slab, free, no memory, isolated; then hugetlb of two frames.
    frames.extend([other(1 << 7), other(Flags::BUDDY.0), other(Flags::NOPAGE.0)]);
    frames.push(other(Flags::MMAP.0));
    frames.extend([other(Flags::HEAD.0 | Flags::HUGE.0), other(Flags::TAIL.0 | Flags::HUGE.0)]);
    frames.extend((1126..1536).flat_map(|_| folio(1)));
    frames
}

#[test]
fn touched_folios_are_young_and_what_cannot_be_tracked_is_stuck() {
    let kinds = bits([96, 99, 100, 101]);
    let all_but_free = PageBits::ALL.minus(bits([97, 98]));
    for (name, first, touched, young, stuck, present) in [
        ("small", 0, vec![3, 64, 511], bits([3, 64, 511]), bits([]), PageBits::ALL),
        ("nothing touched", 0, vec![], bits([]), bits([]), PageBits::ALL),
        ("huge", 512, vec![512], PageBits::ALL, bits([]), PageBits::ALL),
        ("huge, not touched", 512, vec![], bits([]), bits([]), PageBits::ALL),
        ("all kinds", 1024, vec![1024], bits(0..64).or(kinds), kinds, all_but_free),
        ("large folios", 1024, vec![1104], bits(80..96).or(kinds), kinds, all_but_free),
    ] {
        for old_kernel in [false, true] {
            let model = Model::new(machine());
            let mut folios = folios(&model, old_kernel);
            let is_huge = first == 512;
            let found = folios.mark_block(first, PageBits::ALL, Time(0)).unwrap();
            let expected = Block { present, young: present, stuck, is_huge };
            assert_eq!(found, expected, "{name}: mark");
            touched.iter().for_each(|frame| touch(&model, *frame));
            let found = folios.look_block(first).unwrap();
            assert_eq!(found, Block { young, ..expected }, "{name}: look");
            assert_eq!(folios.look_block(first).unwrap(), found, "{name}: it stays so");
            let found = folios.mark_block(first, PageBits::ALL, Time(0)).unwrap();
            assert_eq!(found, Block { young, ..expected }, "{name}: mark again");
        }
    }
}

#[test]
fn a_block_costs_a_call_per_file_and_step() {
    for (first, mark, look, again) in [(0, 2, 2, 2), (512, 2, 2, 2)] {
        let model = Model::new(machine());
        let mut folios = folios(&model, false);
        let mut calls = |what: &mut dyn FnMut(&mut Folios<&Model, FlagsOf<'_>>)| {
            let before = folios.calls();
            what(&mut folios);
            folios.calls() - before
        };
        let marked = calls(&mut |f| drop(f.mark_block(first, PageBits::ALL, Time(0))));
        let looked = calls(&mut |f| drop(f.look_block(first)));
        // Marks that stand are read, and nothing is written.
        let marked_again = calls(&mut |f| drop(f.mark_block(first, PageBits::ALL, Time(0))));
        assert_eq!((marked, looked, marked_again), (mark, look, again), "block {first}");
    }
}

#[test]
fn only_folios_asked_about_are_marked() {
    let model = Model::new(machine());
    let mut folios = folios(&model, false);
    folios.mark_block(1024, PageBits::page(70), Time(0)).unwrap();
    folios.mark_block(0, bits([5, 200]), Time(0)).unwrap();
    let marked = |frames: &[Frame]| {
        frames.iter().enumerate().filter(|(_, f)| f.idle).map(|(nr, _)| nr).collect::<Vec<_>>()
    };
    assert_eq!(marked(&model.frames.borrow()), [5, 200, 1024 + 64]);
}

#[test]
fn an_access_between_two_markings_is_told_once() {
    let model = Model::new(machine());
    let mut folios = folios(&model, false);
    folios.mark_block(0, PageBits::ALL, Time(0)).unwrap();
    touch(&model, 7);
    let found = folios.mark_block(0, PageBits::ALL, Time(0)).unwrap();
    assert_eq!(found.young, PageBits::page(7));
    assert!(folios.look_block(0).unwrap().young.is_empty());
}

#[test]
fn where_memory_ends_inside_a_word_nothing_is_known() {
    let mut frames = machine();
    frames.truncate(1024 + 200);
    let model = Model::new(frames);
    let mut folios = folios(&model, false);
    for _ in 0..2 {
        folios.mark_block(1024, PageBits::ALL, Time(0)).unwrap();
        let found = folios.look_block(1024).unwrap();
        let last = bits(192..200);
        assert_eq!(found.stuck.and(last), last);
        assert_eq!(found.present.minus(bits(0..200)), PageBits::default());
        assert!(found.young.and(bits(0..96)).is_empty());
    }
    let found = folios.mark_block(1024, PageBits::ALL, Time(0)).unwrap();
    assert_eq!(found.stuck.and(bits(192..200)), bits(192..200), "known to be so");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A block says of each frame what a question about that frame alone says.
    #[test]
    fn blocks_and_single_frames_agree(
        pieces in proptest::collection::vec((0_u32..=6, 0_u8..10), 1..60),
        touched in proptest::collection::vec(0_usize..512, 0..40),
        old_kernel in any::<bool>(),
    ) {
        let mut frames = vec![];
        for (order, kind) in pieces {
            let len = 1_usize << order;
            frames.resize_with(frames.len().next_multiple_of(len), || folio(1)[0]);
            match kind {
                0 => frames.push(other(1 << 7)),
                1 => frames.push(other(Flags::BUDDY.0)),
                _ => frames.extend(folio(len)),
            }
        }
        frames.resize(512, folio(1)[0]);
        let head = |at: usize| (0..=at).rev().find(|at| frames[*at].flags & Flags::TAIL.0 == 0);
        let model = Model::new(frames.clone());
        let mut folios = folios(&model, old_kernel);
        folios.mark_block(0, PageBits::ALL, Time(0)).unwrap();
        for at in touched {
            touch(&model, head(at).unwrap());
        }
        let block = folios.look_block(0).unwrap();
        let mut asks: Vec<_> = (0..512).map(|frame| Ask::new(frame, 0)).collect();
        folios.look(&mut asks).unwrap();
        for ask in asks {
            let page = PageBits::page(u16::try_from(ask.frame).unwrap());
            let is = |bits: PageBits| !bits.and(page).is_empty();
            let expected = match ask.state {
                PageState::Old => (true, false, false),
                PageState::Young => (true, true, false),
                PageState::Unresolved => (true, true, true),
                _ => (false, false, false),
            };
            let found = (is(block.present), is(block.young), is(block.stuck));
            prop_assert_eq!(found, expected, "frame {}", ask.frame);
        }
    }
}
