//! Units over made-up files: a `pagemap`, a bitmap and flags that follow the kernel's rules where
//! it matters here.
#![expect(clippy::cast_possible_truncation, reason = "frame numbers of a small made-up machine")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use isotherm_core::unit::UNIT;
use isotherm_core::{Operations, PageBits, TargetId, UnitCheck};
use isotherm_pages::frames::{Flags, FrameFile, Which};
use isotherm_pages::idle::{Bitmap, Folios, Lock};

use super::super::armed::Armed;
use super::super::pagemaps::Pagemaps;
use super::super::records::Records;
use super::super::walker::Walker;
use super::super::{Counters, IdleOps};
use super::bits::numbers;

const ID: TargetId = TargetId(3);
/// Frames of the machine.
const FRAMES: u64 = 4096;

/// A machine, a process with two units from address 0, and the set that watches it.
struct World {
    set: IdleOps,
    pagemap: File,
    flags_file: File,
    bitmap: File,
    /// Flags of each frame but `IDLE`.
    flags: Vec<u64>,
    idle: Vec<u64>,
    _dir: tempfile::TempDir,
}

fn file(path: &Path) -> File {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true).open(path).unwrap()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let (pagemap, bitmap) = (dir.path().join("pagemap"), dir.path().join("bitmap"));
        let files = [file(&pagemap), file(&bitmap), file(&dir.path().join("proc/kpageflags"))];
        let [pagemap, bitmap, flags_file] = files;
        let mut maps = Pagemaps::new();
        maps.add_made_up(ID, pagemap.try_clone().unwrap());
        let frames = FrameFile::open(&dir.path().join("proc"), Which::Flags).unwrap();
        let set = IdleOps {
            walker: Walker::Pagemap(maps),
            folios: Folios::new(Bitmap::open(&dir.path().join("bitmap")).unwrap(), frames),
            memory: Vec::new(),
            records: Records::default(),
            armed: Armed::default(),
            scratch: super::Scratch::default(),
            asks: Vec::new(),
            again: Vec::new(),
            text: Vec::new(),
            counters: Counters::default(),
            _lock: Lock::take(&dir.path().join("lock")).unwrap(),
        };
        let flags = vec![Flags::LRU.0 | Flags::ANON.0 | Flags::MMAP.0; FRAMES as usize];
        let idle = vec![0; FRAMES as usize / 64];
        pagemap.set_len(1024 * 8).unwrap();
        Self { set, pagemap, flags_file, bitmap, flags, idle, _dir: dir }
    }

    fn is_idle(&self, frame: u64) -> bool {
        self.idle[frame as usize / 64] >> (frame % 64) & 1 == 1
    }

    /// Shows the machine in its files.
    fn show(&self) {
        let flags = (0..)
            .zip(&self.flags)
            .map(|(frame, flags)| flags | if self.is_idle(frame) { Flags::IDLE.0 } else { 0 });
        self.flags_file.write_all_at(&words(&flags.collect::<Vec<_>>()), 0).unwrap();
        self.bitmap.write_all_at(&words(&self.idle), 0).unwrap();
    }

    fn map(&self, page: u64, frame: Option<u64>) {
        let entry = frame.map_or(0, |frame| 1 << 63 | frame);
        self.pagemap.write_all_at(&words(&[entry]), page * 8).unwrap();
    }

    /// The folio that begins with this frame was touched.
    fn touch(&mut self, frame: u64) {
        self.idle[frame as usize / 64] &= !(1 << (frame % 64));
    }

    fn folio(&mut self, frames: std::ops::Range<u64>) {
        for frame in frames.clone() {
            let flag = if frame == frames.start { Flags::HEAD } else { Flags::TAIL };
            self.flags[frame as usize] |= flag.0;
        }
    }

    fn mark(&mut self, pages: PageBits) -> UnitCheck {
        self.show();
        let mut unit = [UnitCheck::new(ID, 0, pages)];
        self.set.prepare_units(&mut unit);
        // A bit of 0 that is written takes no mark away.
        let mut bytes = vec![0; self.idle.len() * 8];
        self.bitmap.read_exact_at(&mut bytes, 0).unwrap();
        for (idle, word) in self.idle.iter_mut().zip(bytes.as_chunks().0) {
            *idle |= u64::from_ne_bytes(*word);
        }
        unit[0]
    }

    fn look(&mut self) -> UnitCheck {
        self.show();
        let mut unit = [UnitCheck::new(ID, 0, PageBits::ALL)];
        self.set.check_units(&mut unit);
        unit[0]
    }

    /// Pages 0 to 511 in frames that are scattered all over.
    fn scattered() -> Self {
        let world = Self::new();
        (0..512).for_each(|page| world.map(page, Some(place(page))));
        world
    }
}

fn place(page: u64) -> u64 {
    page * 5 % 2048 + 1024
}

fn list(bits: PageBits) -> Vec<usize> {
    numbers(bits).collect()
}

#[test]
fn touched_pages_are_young_wherever_they_lie() {
    let mut world = World::scattered();
    let unit = world.mark(PageBits::ALL);
    assert!(unit.answered && unit.present == PageBits::ALL && unit.young == PageBits::ALL);
    assert!(unit.stuck.is_empty() && world.look().young.is_empty());
    [3, 4, 400].into_iter().for_each(|page| world.touch(place(page)));
    assert_eq!(list(world.look().young), [3, 4, 400]);
    world.touch(place(5));
    assert_eq!(list(world.look().young), [3, 4, 5, 400]);
    // One page is made old, and the others stay as they are.
    let unit = world.mark(PageBits::page(4));
    assert_eq!(list(unit.young.and(unit.pages)), [4]);
    assert_eq!(list(world.look().young), [3, 5, 400]);
    let unit = world.mark(PageBits::ALL);
    assert_eq!(list(unit.young), [3, 5, 400]);
    assert!(world.look().young.is_empty());
}

#[test]
fn neighbours_share_calls_and_what_is_known_is_not_asked_again() {
    for (name, step, mark, look) in [("neighbours", 1, 2, 1), ("scattered", 64, 512, 512)] {
        let mut world = World::new();
        for page in 0..if step == 1 { 512 } else { 60 } {
            world.map(page, Some(page * step + 64));
        }
        let pages = world.look().present.count();
        let before = world.set.counters().calls;
        world.mark(PageBits::ALL);
        let marked = world.set.counters().calls - before;
        world.look();
        let looked = world.set.counters().calls - before - marked;
        assert!(
            marked <= mark.min(2 * pages) && looked <= look.min(pages),
            "{name}: {marked} {looked}"
        );
        (0..4096).for_each(|frame| world.touch(frame));
        assert_eq!(world.look().young.count(), pages);
        let before = world.set.counters().calls;
        assert_eq!(world.look().young.count(), pages);
        assert_eq!(world.set.counters().calls, before, "{name}: all were young already");
    }
}

#[test]
fn pages_with_other_frames_are_judged_by_their_own_marks() {
    let mut world = World::scattered();
    world.mark(PageBits::ALL);
    // 1: moved with its mark. 2: a copy. 3: gone. 4: joined to a large folio. 5: joined to equal
    // pages. 6: in the place of a page that is marked.
    world.idle[10] = 1 << 1;
    for (page, frame) in [(1, Some(641)), (2, Some(642)), (3, None), (4, Some(644)), (5, Some(646))]
    {
        world.map(page, frame);
    }
    world.folio(644..646);
    world.flags[646] |= Flags::KSM.0;
    world.map(6, Some(place(7)));
    for _ in 0..2 {
        let unit = world.look();
        assert_eq!(list(unit.young.minus(unit.stuck)), [2]);
        assert_eq!(list(unit.stuck), [4, 5]);
        assert_eq!(list(PageBits::ALL.minus(unit.present)), [3]);
    }
    // Made old again, they are known again. What came to an empty place was touched for that.
    world.mark(PageBits::ALL);
    world.map(3, Some(700));
    let unit = world.look();
    assert_eq!((list(unit.young), unit.stuck.count()), (vec![3], 0));
    assert!(world.set.counters().moved >= 5, "{:?}", world.set.counters());
}

#[test]
fn folios_have_one_mark_and_what_cannot_be_tracked_is_stuck() {
    let mut world = World::new();
    (0..512).for_each(|page| world.map(page, Some(512 + page)));
    world.folio(512..1024);
    let unit = world.mark(PageBits::ALL);
    assert_eq!((unit.leaf_shift, unit.stuck.count()), (21, 0));
    assert!(world.look().young.is_empty());
    world.touch(512);
    let unit = world.look();
    assert_eq!((unit.leaf_shift, unit.young), (21, PageBits::ALL));
    assert_eq!(world.set.large_pages(&unit), PageBits::ALL);
    // Mapped beside others: 64 KiB in one piece, hugetlb, slab, zeros.
    let mut world = World::scattered();
    (16..32).for_each(|page| world.map(page, Some(512 + page)));
    world.folio(528..544);
    for (page, flag) in
        [(40, Flags::HUGE.0 | Flags::MMAP.0), (41, 1 << 7), (42, Flags::ZERO_PAGE.0)]
    {
        world.flags[place(page) as usize] = flag;
    }
    let unit = world.mark(PageBits::ALL);
    assert_eq!(
        (list(unit.stuck), list(PageBits::ALL.minus(unit.present))),
        (vec![40, 41], vec![42])
    );
    world.touch(528);
    let unit = world.look();
    assert_eq!(list(unit.young.minus(unit.stuck)), (16..32).collect::<Vec<_>>());
    assert_eq!(list(world.set.large_pages(&unit)), (16..32).collect::<Vec<_>>());
}

#[test]
fn targets_that_nobody_knows_are_not_answered() {
    let mut world = World::scattered();
    world.show();
    let mut unit =
        [UnitCheck::new(TargetId(9), 0, PageBits::ALL), UnitCheck::new(ID, UNIT, PageBits::ALL)];
    world.set.prepare_units(&mut unit);
    assert_eq!(unit.map(|unit| unit.answered), [false, true]);
    assert!(unit[1].present.is_empty());
    world.set.remove_target(ID);
    world.set.check_units(&mut unit);
    assert_eq!(unit.map(|unit| unit.answered), [false, false]);
}
