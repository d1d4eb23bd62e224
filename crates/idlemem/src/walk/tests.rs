//! Judging, sampling and asking, over made-up frames.

use std::collections::BTreeSet;
use std::time::Duration;

use isotherm_core::ops::UpdateError;
use isotherm_core::{Operations, PageBits};
use isotherm_ops::pagewalk::PageWalk;
use isotherm_pages::frames::made_up::Table;
use isotherm_pages::frames::{Flags, FrameFile};

use super::Walk;
use super::memory::{Ask, BLOCK, Counts, FRAME, Leaf, Memory};
use super::past::{Past, Seen};
use super::units::is_drawn;
use super::visit::Visited;
use super::whose::Files;
use crate::kinds::{Bytes, Kind};
use crate::scanning::known::Ids;
use crate::scanning::piece::mixed;
use crate::scanning::scan::Options;

use Leaf::{Armed, Drawn, Left, Old, Stuck, Watched};

/// Blocks of made-up RAM.
const BLOCKS: u64 = 16;
const SEEDS: u64 = 300;

/// Ends a round, and says that all that is idle for the first time is anonymous and of cgroup 0.
fn judge(memory: &mut Memory) -> Counts {
    let mut counts = Counts::default();
    for first in memory.blocks() {
        let asked = match memory.judge(first, false, &mut counts) {
            Ask::Whole(first) => (first..first + BLOCK).collect(),
            Ask::Some(frames) => frames,
        };
        asked.into_iter().for_each(|frame| memory.set_owner(frame, Some((Kind::Anon, 0))));
    }
    counts
}

fn idle(memory: &mut Memory, weight: f64) -> u64 {
    let mut sums = [Bytes::default()];
    memory.blocks().into_iter().for_each(|first| memory.add_up(first, &mut sums, weight));
    sums[0].idle()
}

#[test]
fn a_page_is_as_old_as_its_last_touch_by_any_process() {
    // Leaves of one page in each of some rounds, and its age after each.
    for (name, rounds, ages) in [
        ("left alone", &[&[Armed][..], &[Old], &[Old], &[Old]][..], &[0, 1, 2, 3][..]),
        ("old when it was seen first", &[&[Old], &[Old], &[Old]], &[0, 1, 2]),
        ("touched", &[&[Armed], &[Old], &[Armed], &[Old]], &[0, 1, 0, 1]),
        ("unmapped, and another page there", &[&[Armed], &[Old], &[], &[Old]], &[0, 1, 0, 0]),
        (
            "two processes, one touches it",
            &[&[Armed, Armed], &[Old, Armed], &[Old, Old]],
            &[0, 0, 1],
        ),
        ("two processes, none touches it", &[&[Armed, Armed], &[Old, Old]], &[0, 1]),
        (
            "one of them could not be made old",
            &[&[Armed, Stuck], &[Old, Old], &[Old, Old]],
            &[0, 0, 1],
        ),
        ("not drawn, and made old by somebody", &[&[Left], &[Old], &[Old]], &[0, 0, 1]),
        ("drawn", &[&[Drawn], &[Old], &[Old]], &[0, 1, 2]),
        ("not drawn for one of two", &[&[Armed, Left], &[Old, Left], &[Old, Old]], &[0, 0, 0]),
        ("in two units, one of them drawn", &[&[Drawn, Old], &[Old, Old], &[Old, Old]], &[0, 0, 1]),
        ("watched by another", &[&[Armed], &[Watched], &[Old], &[Old]], &[0, 0, 0, 1]),
        ("one of two is watched", &[&[Armed, Armed], &[Old, Watched], &[Old, Old]], &[0, 0, 0]),
    ] {
        let mut memory = Memory::new(BLOCK);
        for (nr, (leaves, age)) in rounds.iter().zip(ages).enumerate() {
            leaves.iter().for_each(|leaf| memory.note(7, *leaf));
            judge(&mut memory);
            assert_eq!(memory.past(7).age(), *age, "{name}, round {nr}");
        }
    }
}

#[test]
fn ages_stop_and_begin_anew() {
    let mut past = Past::ARMED;
    for _ in 0..300 {
        past = past.then(Seen::Old);
    }
    assert_eq!((past.age(), past.anew().age()), (249, 0));
    assert_eq!(Past::LEFT.anew(), Past::LEFT);
    let drawn = Past::DRAWN.then(Seen::Old);
    assert!(drawn.is_first() && drawn.is_drawn() && !drawn.then(Seen::Old).is_drawn());
}

#[test]
fn what_is_not_known_is_counted_by_its_reason() {
    for (name, first, then, expected) in [
        ("all known", Armed, Armed, [0, 0, 0]),
        ("not drawn", Left, Left, [FRAME, 0, 0]),
        ("stuck", Stuck, Stuck, [0, FRAME, 0]),
        ("stuck then, and old now", Stuck, Old, [0, FRAME, 0]),
        ("touched, and stuck now", Armed, Stuck, [0, 0, 0]),
        ("watched now", Armed, Watched, [0, 0, FRAME]),
        ("was watched", Watched, Old, [0, 0, FRAME]),
    ] {
        let mut memory = Memory::new(BLOCK);
        memory.note(3, first);
        judge(&mut memory);
        memory.note(3, then);
        // A new page was touched for sure.
        memory.note(4, Left);
        let counts = judge(&mut memory);
        assert_eq!([counts.left, counts.stuck, counts.watched], expected, "{name}");
        assert_eq!(counts.mapped, 2 * FRAME, "{name}");
        let share = if expected[0] > 0 { 0.5 } else { 1.0 };
        assert!((counts.share() - share).abs() < 1e-9, "{name}: {}", counts.share());
    }
}

#[test]
fn huge_leaves_are_all_of_their_frames_and_frames_outside_are_none() {
    let mut memory = Memory::new(2 * BLOCK);
    memory.note_huge(BLOCK, Armed);
    memory.note_huge(2 * BLOCK, Armed);
    memory.note(u64::MAX >> 12, Armed);
    assert_eq!(memory.blocks(), [BLOCK]);
    judge(&mut memory);
    memory.note_huge(BLOCK, Old);
    let mut counts = Counts::default();
    assert_eq!(memory.judge(BLOCK, false, &mut counts), Ask::Whole(BLOCK));
    assert_eq!(counts.mapped, 2 << 20);
    assert!(!memory.is_shared(BLOCK));
    // Nothing is mapped there any more.
    judge(&mut memory);
    memory.drop_empty(BLOCK);
    assert!(memory.blocks().is_empty());
    assert_eq!(memory.past(BLOCK), Past::GONE);
}

#[test]
fn many_old_leaves_are_noted_as_each_of_them_would_be() {
    let mut present = PageBits::ALL.minus(PageBits::page(3));
    present.0[7] = 5;
    let frames: [u64; 512] = std::array::from_fn(|nr| (nr as u64 * 37) % (3 * BLOCK));
    let (mut one, mut other) = (Memory::new(2 * BLOCK), Memory::new(2 * BLOCK));
    for round in 0..3 {
        one.note_old(present, &frames);
        let nrs = (0..512).filter(|nr| present.0[nr / 64] >> (nr % 64) & 1 == 1);
        nrs.for_each(|nr| other.note(frames[nr], Old));
        // In a word of which all pages are there, one was touched.
        if round == 1 {
            one.note(37 * 70, Armed);
            other.note(37 * 70, Armed);
        }
        assert_eq!(judge(&mut one), judge(&mut other));
        let past = |memory: &Memory| (0..2 * BLOCK).map(|f| memory.past(f)).collect::<Vec<_>>();
        assert_eq!(past(&one), past(&other));
    }
    assert!(one.blocks().len() == 2 && one.past(37).age() == 2);
}

#[test]
fn pages_of_several_leaves_are_known_in_the_next_round() {
    let mut memory = Memory::new(BLOCK);
    for (leaves, shared) in [(1, false), (2, true), (1, true), (1, false)] {
        (0..leaves).for_each(|_| memory.note(5, Old));
        assert_eq!(memory.is_shared(5), shared);
        judge(&mut memory);
    }
}

const UNITS: u64 = 64;
/// Pages of each unit.
const PAGES: u64 = 32;

/// Looks at made-up memory in some rounds after the first, drawing a share of the units. Half of
/// the units are never touched. Of the pages of the others, each is touched in an interval with a
/// probability of its own. Returns the pages idle in the last round: by truth, as found, and the
/// deviation that would be reported.
fn made_up(share: f64, rounds: u64, seed: u64) -> [f64; 3] {
    let random = |x: u64| mixed(x ^ mixed(seed)) >> 32;
    let touched = |round: u64, unit: u64, page: u64| {
        let chance = random((1 << 40) | (page % 8)) / 2;
        let dice = random((round << 20) | (unit << 8) | page);
        round == 0 || unit % 2 == 1 && dice < chance
    };
    let mut memory = Memory::new(BLOCK * BLOCKS);
    // As in the page table.
    let mut young = BTreeSet::new();
    let (mut truth, mut found, mut places) = (0, 0, Bytes::default());
    for round in 0..=rounds {
        (truth, places) = (0, Bytes::default());
        for unit in 0..UNITS {
            let is_drawn = is_drawn(3, unit << 21, share, mixed(seed ^ (round << 32)));
            let mut of_unit = 0;
            for page in 0..PAGES {
                if touched(round, unit, page) {
                    young.insert((unit, page));
                } else {
                    truth += 1;
                }
                let leaf = match (young.contains(&(unit, page)), is_drawn) {
                    (false, _) => Old,
                    (true, false) => Left,
                    (true, true) if share < 1.0 => Drawn,
                    (true, true) => Armed,
                };
                // Frames are anywhere.
                let frame = (unit * PAGES + page) * 167 % (UNITS * PAGES);
                of_unit += u64::from(leaf == Old && memory.past(frame) == Past::DRAWN);
                memory.note(frame, leaf);
            }
            if is_drawn {
                young.retain(|(of, _)| *of != unit);
            }
            places.add_place(of_unit, 1.0 / share);
        }
        judge(&mut memory);
        found = idle(&mut memory, 1.0 / share) / FRAME;
    }
    [approx(truth), approx(found), approx(places.deviation())]
}

/// Whatever the share, the sum is right on average, and its deviation as large as is said.
#[test]
fn a_sample_of_units_tells_the_truth_on_average() {
    for (share, rounds) in [(0.1, 4), (0.3, 3), (0.3, 12), (0.7, 2), (1.0, 2)] {
        let runs: Vec<_> = (0..SEEDS).map(|seed| made_up(share, rounds, seed)).collect();
        let mean = |of: &dyn Fn(&[f64; 3]) -> f64| runs.iter().map(of).sum::<f64>() / approx(SEEDS);
        let truth = mean(&|run| run[0]);
        let error = mean(&|run| run[1] - run[0]);
        let spread = mean(&|run| (run[1] - run[0]).powi(2)).sqrt();
        let said = mean(&|run| run[2] * run[2]).sqrt();
        let case = format!("share {share}, {rounds} rounds, seeds 0..{SEEDS}");
        println!("{case}: {truth:.0} pages, error {error:.1}, spread {spread:.1}, said {said:.1}");
        // Four standard deviations of the mean.
        assert!(error.abs() <= 4.0 * spread / approx(SEEDS).sqrt() + 1e-9, "{case}: {error}");
        assert!((spread - said).abs() <= 0.2 * spread + 0.5, "{case}: {spread}, said {said}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
const fn approx(nr: u64) -> f64 {
    nr as f64
}

#[test]
fn a_draw_takes_its_share_of_the_units_and_another_one_each_time() {
    const UNITS: u64 = 1 << 16;
    let nr_of = |units: &mut dyn Iterator<Item = u64>| approx(units.count() as u64);
    for share in [0.01, 0.25, 0.5, 1.0] {
        let taken = |seed| (0..UNITS).filter(move |nr| is_drawn(1, nr << 21, share, seed));
        let got = nr_of(&mut taken(7)) / approx(UNITS);
        // Six standard deviations.
        let error = 6.0 * (share * (1.0 - share) / 65_536.0_f64).sqrt();
        assert!((got - share).abs() <= error, "{share}: {got}");
        let both = nr_of(&mut taken(7).filter(|nr| is_drawn(1, nr << 21, share, 8)));
        let expected = share * share * approx(UNITS);
        assert!((both - expected).abs() <= 6.0 * expected.sqrt(), "{share}: {both}");
        let other = nr_of(&mut taken(7).filter(|nr| is_drawn(2, nr << 21, share, 7)));
        assert!((other - expected).abs() <= 6.0 * expected.sqrt(), "another process: {other}");
    }
    assert_eq!((0..UNITS).filter(|nr| is_drawn(1, nr << 21, 0.0, 3)).count(), 0);
}

#[test]
fn owners_come_from_the_first_frame_of_a_folio() {
    let (anon, file) = (Flags::LRU.0 | Flags::ANON.0, Flags::LRU.0 | Flags::MMAP.0);
    let (head, tail) = (Flags::HEAD.0, Flags::TAIL.0);
    let mut flags = vec![0; 4 * 512];
    let mut inos = vec![0; 4 * 512];
    // A folio of four pages, of which an older kernel says nothing at the tails.
    (flags[8], flags[9], flags[10], flags[11]) = (file | head, tail, tail, tail);
    (flags[20], flags[21], inos[8], inos[20]) = (anon, 0, 70, 71);
    // A huge page, and a block of small ones.
    flags[512..1024].fill(tail);
    flags[1024..1536].fill(anon);
    (flags[512], inos[512], inos[1024]) = (anon | head, 72, 70);
    let mut files =
        Files { flags: FrameFile::new(Table(flags)), cgroups: Some(FrameFile::new(Table(inos))) };
    let mut memory = Memory::new(4 * 512);
    let mut ids = Ids::with_most(100);
    let asks = [Ask::Some(vec![8, 10, 20, 21]), Ask::Whole(512), Ask::Whole(1024)];
    files.answer(&asks, &mut memory, &mut ids).unwrap();
    assert_eq!(ids.inos(), [72, 70, 71, 0]);
    for (frame, expected) in [
        (8, Some((Kind::Mapped, 1))),
        (10, Some((Kind::Mapped, 1))),
        (9, None),
        (20, Some((Kind::Anon, 2))),
        (21, None),
        (512, Some((Kind::Anon, 0))),
        (1023, Some((Kind::Anon, 0))),
        (1024, Some((Kind::Anon, 1))),
        (1025, Some((Kind::Anon, 3))),
    ] {
        assert_eq!(memory.owner(frame), expected, "frame {frame}");
    }
}

#[test]
fn what_is_idle_counts_for_its_cgroup_and_what_it_stands_for() {
    let mut memory = Memory::new(2 * BLOCK);
    let pages = [
        (1, Armed, Some((Kind::Anon, 0))),
        (2, Drawn, Some((Kind::Mapped, 1))),
        (3, Armed, Some((Kind::Unevictable, 1))),
        (4, Armed, None),
    ];
    pages.iter().for_each(|(frame, leaf, _)| memory.note(*frame, *leaf));
    memory.note_huge(BLOCK, Armed);
    judge(&mut memory);
    pages.iter().for_each(|(frame, ..)| memory.note(*frame, Old));
    memory.note(5, Armed);
    memory.note_huge(BLOCK, Old);
    judge(&mut memory);
    pages.iter().for_each(|(frame, _, owner)| memory.set_owner(*frame, *owner));
    (BLOCK..2 * BLOCK).for_each(|frame| memory.set_owner(frame, Some((Kind::Anon, 1))));
    let mut sums = [Bytes::default(); 3];
    [0, BLOCK].into_iter().for_each(|first| memory.add_up(first, &mut sums, 4.0));
    let mut expected = [Bytes::default(); 3];
    expected[0].add(Kind::Anon, 1, 4096, 1.0);
    expected[1].add(Kind::Mapped, 1, 4096, 4.0);
    expected[1].add(Kind::Unevictable, 1, 4096, 1.0);
    expected[1].add(Kind::Anon, 1, 2 << 20, 1.0);
    assert_eq!(sums, expected);
}

/// Reading mappings has to be paid for before they are read again, and for a process of many
/// mappings that takes longer than a round.
#[test]
fn a_process_whose_mappings_may_not_be_read_yet_is_visited_with_those_of_the_last_visit() {
    if let Err(e) = PageWalk::new() {
        return eprintln!("skipped: {e}");
    }
    let options = Options { interval: Duration::from_secs(1), spread: 1.0, cpu: 1.0 };
    let mut walk = Walk::open(options).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id();
    let may_not_be_read = |walk: &mut Walk| {
        let id = walk.targets[&pid].id;
        matches!(walk.walk.update(id, &mut Vec::new()), Err(UpdateError::NotNow))
    };
    let (mut visited, mut nr_without) = (Vec::new(), 0);
    // This test may have to wait for a CPU so long that they may be read again.
    for _ in 0..200 {
        visited.push(walk.visit(pid, &mut || false));
        let before = may_not_be_read(&mut walk);
        visited.push(walk.visit(pid, &mut || false));
        nr_without += u32::from(before && may_not_be_read(&mut walk));
        if nr_without > 0 {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(nr_without > 0, "they could always be read");
    assert!(visited.iter().all(|v| matches!(v, Ok(Visited::Looked))), "{visited:?}");
}
