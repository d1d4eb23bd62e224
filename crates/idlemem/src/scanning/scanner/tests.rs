//! The scanner over a made-up machine, compared with what is true there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use isotherm_pages::frames::{Flags, FrameFile};
use isotherm_pages::idle::Bitmap;
use proptest::prelude::*;

use super::*;
use crate::kinds::{CLASSES, Kind};
use crate::scanning::model::{Face, Folio, Machine};
use crate::scanning::piece::{REFRESH, mixed};

const FRAMES: usize = 40_000;

fn scanner(machine: &Rc<RefCell<Machine>>, budget_ns: f64) -> Scanner<Face, Face> {
    let face = |cgroup| Face { machine: Rc::clone(machine), cgroup };
    let kernel = Kernel {
        bitmap: Bitmap::new(face(false)),
        flags: FrameFile::new(face(false)),
        cgroups: Some(FrameFile::new(face(true))),
    };
    // A hole in the middle, in which nothing lies.
    Scanner::new(kernel, &[0..20_000, 20_100..FRAMES as u64], budget_ns, 1)
}

/// By inode: idle bytes by kind, and by class of age.
type Truth = BTreeMap<u64, ([u64; 4], [u64; CLASSES])>;

/// A folio's first frame, its age by truth.
type Ages = BTreeMap<usize, u32>;

fn truth(machine: &Machine, ages: &Ages) -> Truth {
    let mut truth = Truth::new();
    for (at, age) in ages.iter().filter(|(_, age)| **age > 0) {
        let Some(folio) = machine.frames[*at] else { continue };
        let kind = Kind::of(Flags(folio.flags));
        let sums = truth.entry(folio.ino).or_default();
        sums.0[kind.nr()] += 4096 << folio.order;
        if kind != Kind::Unevictable {
            for (class, sum) in sums.1.iter_mut().enumerate() {
                *sum += if *age >= 1 << class { 4096 << folio.order } else { 0 };
            }
        }
    }
    truth
}

fn found(found: &Found) -> Truth {
    let idle = |bytes: &Bytes| (Kind::ALL.map(|kind| bytes.of_kind(kind)), bytes.at_least());
    let some = found.sums.iter().map(|(ino, bytes)| (*ino, idle(bytes)));
    some.filter(|(_, idle)| idle.0.iter().sum::<u64>() > 0).collect()
}

const LRU: u64 = Flags::LRU.0;
const KINDS: [u64; 5] = [
    LRU | Flags::ANON.0 | Flags::MMAP.0,
    LRU | Flags::MMAP.0,
    LRU,
    LRU | Flags::MMAP.0 | Flags::UNEVICTABLE.0,
    // Kernel memory: no list, never idle.
    0,
];

/// Fills a machine with folios of all orders, kinds and cgroups.
fn filled(seed: u64, repeats: bool) -> Machine {
    let mut machine = Machine { frames: vec![None; FRAMES], repeats, ..Machine::default() };
    let mut at = 0;
    while at + 512 <= FRAMES {
        if (20_000..20_100).contains(&at) || at < 20_000 && at + 512 > 20_000 {
            at += 1;
            continue;
        }
        let dice = mixed(seed ^ at as u64);
        let order = [0, 0, 0, 2, 4, 9][usize::try_from(dice % 6).unwrap()];
        let order = if at == 0 { 0 } else { order.min(at.trailing_zeros()) };
        if dice >> 8 & 7 != 0 {
            machine.frames[at] = Some(Folio {
                order,
                flags: KINDS[usize::try_from(dice >> 16).unwrap() % KINDS.len()],
                ino: 100 + (dice >> 40) % 5,
                idle: false,
                accessed: true,
            });
        }
        at += 1 << order;
    }
    machine
}

/// One interval of life: `changes` of 64 folios are touched, freed, allocated or split.
fn live(machine: &mut Machine, ages: &mut Ages, seed: u64, changes: u64) {
    // Parts of a folio that is split now are not of the list: they have lived this interval in the
    // whole.
    let mut folios = Vec::new();
    machine.each(|at, folio| folios.push((at, *folio)));
    for (at, folio) in folios {
        let dice = mixed(seed ^ at as u64);
        let tracked = folio.flags & LRU != 0;
        let age = ages.entry(at).or_insert(0);
        *age += u32::from(tracked);
        if dice % 64 >= changes {
            continue;
        }
        match dice >> 8 & 7 {
            0 => {
                // Another takes its place.
                machine.frames[at] = Some(Folio {
                    ino: 100 + (dice >> 40) % 5,
                    flags: KINDS[usize::try_from(dice >> 16).unwrap() % KINDS.len()],
                    idle: false,
                    accessed: true,
                    ..folio
                });
                *age = 0;
            }
            1 => {
                machine.frames[at] = None;
                *age = 0;
            }
            2 if folio.order > 1 => {
                // Split in halves or in pages: the flag goes to all parts, one of them is touched
                // then.
                let order = if dice >> 50 & 1 == 1 { 0 } else { folio.order - 1 };
                let parts = 1_usize << (folio.order - order);
                let age = *age;
                for part in 0..parts {
                    let touched = part == parts / 2;
                    let accessed = folio.accessed || touched;
                    machine.frames[at + (part << order)] = Some(Folio { order, accessed, ..folio });
                    ages.insert(at + (part << order), if touched { 0 } else { age });
                }
            }
            _ => {
                machine.frames[at] = Some(Folio { accessed: true, ..folio });
                *age = 0;
            }
        }
    }
}

fn run(seed: u64, repeats: bool, rounds: u64) -> u64 {
    let machine = Rc::new(RefCell::new(filled(seed, repeats)));
    let mut scanner = scanner(&machine, 1e18);
    let first = scanner.round(|_| true, || 0).unwrap().unwrap();
    assert!(found(&first).is_empty() && first.others == 0, "the first round only marks");
    let mut ages: Ages = BTreeMap::new();
    machine.borrow_mut().each(|at, _| {
        ages.insert(at, 0);
    });
    for round in 1..=rounds {
        live(&mut machine.borrow_mut(), &mut ages, seed.wrapping_add(round * 77), 8);
        let expected = truth(&machine.borrow(), &ages);
        let got = found(&scanner.round(|_| true, || 0).unwrap().unwrap());
        let inos: std::collections::BTreeSet<u64> =
            got.keys().chain(expected.keys()).copied().collect();
        let both = inos.iter().map(|ino| (ino, got.get(ino), expected.get(ino)));
        let wrong: Vec<_> = both.filter(|(_, got, expected)| got != expected).collect();
        assert!(wrong.is_empty(), "seed {seed}, round {round}: inode, found, true: {wrong:?}");
    }
    let reads = machine.borrow().read;
    // Nothing changes, so what stays idle is known, and few reads ask about it.
    let before = reads;
    for _ in 0..REFRESH {
        scanner.round(|_| true, || 0).unwrap();
    }
    machine.borrow().read - before
}

#[test]
fn sums_equal_the_truth_and_what_is_known_is_not_asked_again() {
    for repeats in [false, true] {
        for seed in 0..3 {
            let reads = run(seed, repeats, 12);
            let naive = REFRESH * 2 * FRAMES as u64;
            assert!(
                reads < naive / 4,
                "seed {seed}: {reads} numbers read, {naive} by a naive scan"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn sums_equal_the_truth(seed in any::<u64>(), repeats in any::<bool>(), rounds in 1_u64..6) {
        run(seed, repeats, rounds);
    }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "few")]
fn a_small_budget_makes_a_sample_whose_error_is_told() {
    let machine = Rc::new(RefCell::new(filled(7, true)));
    let mut idle = 0;
    machine.borrow_mut().each(|_, folio| {
        folio.accessed = false;
        let counts = folio.flags & LRU != 0 && folio.flags & Flags::UNEVICTABLE.0 == 0;
        idle += if counts { 4096_u64 << folio.order } else { 0 };
    });
    // Each piece is said to take 1000 ns, of which the sample takes its share. The budget is a
    // fifth of that.
    let mut scanner = scanner(&machine, 400.0);
    let clock = Cell::new(0);
    let share = Cell::new(1.0_f64);
    let mut last = None;
    for _ in 0..40 {
        let cpu = || {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            clock.set(clock.get() + (1000.0 * share.get()) as u64);
            clock.get()
        };
        let result = scanner.round(|_| true, cpu).unwrap().unwrap();
        share.set(result.share);
        last = Some(result);
    }
    let last = last.unwrap();
    // Pages that were marked while the sample was larger are still idle, and must cost nothing.
    let (mut folios, before) = (0_u32, machine.borrow().walked);
    machine.borrow_mut().each(|_, folio| folios += u32::from(folio.idle));
    scanner.round(|_| true, || 0).unwrap();
    let walked = (machine.borrow().walked - before) as f64 / f64::from(folios);
    // First frames of 2 MiB, which are read anyway, are in one word of eight.
    assert!(walked < 1.5 * (last.share + 0.125), "{walked} of the idle folios, {}", last.share);
    assert!(last.share < 0.3 && last.share > 0.05, "share {}", last.share);
    let mut all = Bytes::default();
    last.sums.iter().for_each(|(_, bytes)| all.add_all(bytes));
    let off = all.idle().abs_diff(idle);
    assert!(
        all.deviation() > 0 && off < 4 * all.deviation(),
        "{} of {idle}, +- {}",
        all.idle(),
        all.deviation()
    );
}

#[test]
fn marks_of_others_are_noticed_and_do_not_count() {
    let machine = Rc::new(RefCell::new(filled(3, true)));
    let mut marked = 0;
    machine.borrow_mut().each(|_, folio| {
        if folio.flags & LRU != 0 {
            (folio.idle, folio.accessed) = (true, false);
            marked += 4096;
        }
    });
    let mut scanner = scanner(&machine, 1e18);
    let first = scanner.round(|_| true, || 0).unwrap().unwrap();
    assert_eq!(first.others, marked);
    assert!(found(&first).is_empty());
    let second = scanner.round(|_| true, || 0).unwrap().unwrap();
    assert_eq!(second.others, 0);
    assert!(second.sums.iter().all(|(_, bytes)| bytes.at_least()[1] == 0), "age 1 at most");
}

#[test]
fn a_round_ends_where_it_is_told_to() {
    let machine = Rc::new(RefCell::new(filled(3, true)));
    let mut scanner = scanner(&machine, 1e18);
    assert_eq!(scanner.round(|nr| nr < 1, || 0).unwrap(), None);
    assert!(scanner.round(|_| true, || 0).unwrap().is_some());
}

/// A machine that answers without any work: all frames are idle small pages of one cgroup, or all
/// are in use.
#[derive(Debug, Clone)]
struct Instant {
    idle: bool,
    word: u64,
}

impl FrameWords for Instant {
    fn read_at(&self, bytes: &mut [u8], _: u64) -> io::Result<usize> {
        bytes.as_chunks_mut().0.fill(self.word.to_ne_bytes());
        Ok(bytes.len())
    }
}

impl BitmapWords for Instant {
    fn read_at(&self, bytes: &mut [u8], _: u64) -> io::Result<usize> {
        bytes.fill(if self.idle { 0xff } else { 0 });
        Ok(bytes.len())
    }

    fn write_at(&self, bytes: &[u8], _: u64) -> io::Result<usize> {
        Ok(bytes.len())
    }
}

/// What a round costs without the kernel. The times are only printed, because they are no test. The
/// test checks that 24 GiB are counted.
#[test]
fn our_own_part_of_a_round_over_24_gib() {
    const PAGES: u64 = (24 << 30) / 4096;
    let cpu = || {
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        clock.tv_sec * 1_000_000_000 + clock.tv_nsec
    };
    for idle in [true, false] {
        let bitmap = Bitmap::new(Instant { idle, word: 0 });
        let flags = FrameFile::new(Instant { idle, word: KINDS[0] });
        let cgroups = Some(FrameFile::new(Instant { idle, word: 7 }));
        let kernel = Kernel { bitmap, flags, cgroups };
        let mut scanner = Scanner::new(kernel, std::slice::from_ref(&(0..PAGES)), f64::MAX, 1);
        for round in 0..4 {
            let begin = cpu();
            let found = scanner.round(|_| true, || 0).unwrap().unwrap();
            eprintln!("idle: {idle}, round {round}: {} ms", (cpu() - begin) / 1_000_000);
            let sum: u64 = found.sums.iter().map(|(_, bytes)| bytes.idle()).sum();
            assert_eq!(sum, if idle && round > 0 { 24 << 30 } else { 0 });
        }
    }
}

/// Over many seeds a sample says neither too much nor too little.
#[test]
#[expect(clippy::cast_precision_loss, reason = "a size of memory")]
fn a_sample_has_no_bias() {
    const PAGES: u64 = (4 << 30) / 4096;
    const SEEDS: u32 = 32;
    let (mut sum, mut variance) = (0.0, 0.0);
    for seed in 1..=SEEDS {
        let bitmap = Bitmap::new(Instant { idle: true, word: 0 });
        let flags = FrameFile::new(Instant { idle: true, word: KINDS[0] });
        let kernel = Kernel { bitmap, flags, cgroups: None };
        let ranges = std::slice::from_ref(&(0..PAGES));
        let mut scanner = Scanner::new(kernel, ranges, 0.0, mixed(u64::from(seed)));
        let clock = Cell::new(0);
        let cpu = || clock.replace(clock.get() + 1000);
        let mut last = None;
        for _ in 0..4 {
            last = scanner.round(|_| true, cpu).unwrap();
        }
        let last = last.unwrap();
        assert!(last.share < 0.02, "{}", last.share);
        let [(0, bytes)] = last.sums.as_slice() else { panic!("{:?}", last.sums) };
        sum += bytes.idle() as f64;
        variance += (bytes.deviation() as f64).powi(2);
    }
    let off = sum - f64::from(SEEDS) * 4_294_967_296.0;
    eprintln!("off by {:.3} of {:.3} deviations of a sum", off / variance.sqrt(), 4.0);
    assert!(off.abs() < 4.0 * variance.sqrt(), "{off} of {sum}, +- {}", variance.sqrt());
}
