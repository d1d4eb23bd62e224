//! Reverse map: which processes map a frame, and where.
//!
//! The kernel has a reverse map and does not show it. So this module reads the page tables of all
//! processes (`/proc/PID/pagemap`), and notes which of them have a wanted frame. `PAGEMAP_SCAN`
//! (Linux 6.7) says which parts of an address space have pages. Without it every entry of every
//! mapping is read, up to `MOST_ENTRIES` per mapping.
//!
//! Each frame number is first looked up in a bitmap, so an entry that is not wanted costs about a
//! nanosecond beside reading it. The map is not of one moment: a page can move while the rest is
//! read. A caller that acts on a page must look again.
//!
//! Kernel threads have no pages. Processes that may not be read are counted. For a frame that more
//! than [`MOST_PLACES`] processes map, the first places and the number are kept.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use isotherm_core::AddrRange;
use isotherm_core::addr::PAGE_SIZE;
use isotherm_host::proc::{Proc, is_gone, parse_maps};
use isotherm_sys::pagemap;

/// Places that are kept per frame.
pub const MOST_PLACES: usize = 16;
/// Limit for entries read of one mapping, where the kernel does not say which parts have pages: 16
/// GiB.
const MOST_ENTRIES: u64 = 4 << 20;
/// Entries per read.
const CALL_ENTRIES: u64 = 16 << 10;

const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// A place where a frame is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which of [`Found::processes`].
    pub process: u32,
    /// The page's address there.
    pub addr: u64,
}

/// A process that has some wanted frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its pid.
    pub pid: u32,
    /// Its command's name.
    pub name: String,
    /// When it started, in clock ticks after boot.
    pub start_ticks: u64,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The processes that have wanted frames.
    pub processes: Vec<Owner>,
    /// Where each wanted frame is mapped, in the order of the frames; at most [`MOST_PLACES`].
    pub places: Vec<Vec<Place>>,
    /// How often each frame is mapped, including the places that are not kept.
    pub mapped: Vec<u32>,
    /// Processes that could not be read. Processes that ended meanwhile are not counted.
    pub unread: u32,
    /// Entries that were not read because a mapping is too large for this kernel.
    pub skipped: u64,
}

/// Frames that are wanted: sorted, with a bitmap over all up to the last.
struct Wanted<'a> {
    frames: &'a [u64],
    bits: Vec<u64>,
}

impl<'a> Wanted<'a> {
    fn new(frames: &'a [u64]) -> Self {
        let words = frames.last().map_or(0, |last| last / 64 + 1);
        let mut bits = vec![0_u64; usize::try_from(words).unwrap_or(0)];
        for frame in frames {
            if let Some(word) = bits.get_mut(index(frame / 64)) {
                *word |= 1 << (frame % 64);
            }
        }
        Self { frames, bits }
    }

    fn place(&self, frame: u64) -> Option<usize> {
        let word = self.bits.get(index(frame / 64))?;
        if word >> (frame % 64) & 1 == 0 {
            return None;
        }
        self.frames.binary_search(&frame).ok()
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Finds who maps `frames`, which must be sorted.
///
/// # Errors
///
/// If `/proc` cannot be listed, or the kernel hides frame numbers from us (`CAP_SYS_ADMIN`).
pub fn find(proc: &Proc, frames: &[u64]) -> io::Result<Found> {
    let wanted = Wanted::new(frames);
    let mut found = Found {
        places: vec![Vec::new(); frames.len()],
        mapped: vec![0; frames.len()],
        ..Found::default()
    };
    let mut pids = Vec::new();
    proc.for_each_pid(|pid| pids.push(pid))?;
    pids.sort_unstable();
    let mut seen = false;
    let mut text = Vec::new();
    for pid in pids {
        let mut reader = Reader { proc, pid, wanted: &wanted, found: &mut found, at: None, seen };
        match reader.process(&mut text) {
            Ok(()) => {}
            Err(err) if is_gone(&err) => {}
            Err(_) => reader.found.unread += 1,
        }
        seen = reader.seen;
    }
    if !seen && !frames.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "/proc/PID/pagemap shows no frame numbers: CAP_SYS_ADMIN is missing",
        ));
    }
    Ok(found)
}

/// Reads one process.
struct Reader<'a> {
    proc: &'a Proc,
    pid: u32,
    wanted: &'a Wanted<'a>,
    found: &'a mut Found,
    /// Its place among the processes, once it is there.
    at: Option<u32>,
    /// Whether any frame number was seen. Without the right to see them they read 0.
    seen: bool,
}

impl Reader<'_> {
    fn process(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        self.proc.read(self.pid, "maps", text)?;
        if text.is_empty() {
            return Ok(()); // A thread of the kernel, or a zombie.
        }
        let pagemap = File::open(self.proc.path_of(self.pid, "pagemap"))?;
        let mut entries = Vec::new();
        let mut runs = [pagemap::Region::default(); 512];
        // The vsyscall page lies behind what `pagemap` covers.
        for mapping in parse_maps(text).filter(|m| m.range.end < 1 << 63) {
            let mut rest = mapping.range;
            while !rest.is_empty() {
                let Ok((nr, end)) = pagemap::scan(&pagemap, rest, &mut runs) else {
                    let most = rest.start.saturating_add(MOST_ENTRIES * PAGE_SIZE);
                    let part = AddrRange::new(rest.start, rest.end.min(most));
                    self.found.skipped += (rest.end - part.end) / PAGE_SIZE;
                    self.range(&pagemap, part, &mut entries)?;
                    break;
                };
                for run in runs[..nr].iter().filter(|r| r.categories & pagemap::PRESENT != 0) {
                    self.range(&pagemap, AddrRange::new(run.start, run.end), &mut entries)?;
                }
                // The walk ends behind the range, or where the buffer had no room for more runs.
                if end <= rest.start {
                    break;
                }
                rest.start = end;
            }
        }
        Ok(())
    }

    /// Notes the wanted ones of the pages of a range.
    fn range(&mut self, pagemap: &File, range: AddrRange, entries: &mut Vec<u8>) -> io::Result<()> {
        let mut first = range.start / PAGE_SIZE;
        let end = range.end / PAGE_SIZE;
        while first < end {
            let nr = (end - first).min(CALL_ENTRIES);
            entries.resize(index(nr * 8), 0);
            let got = pagemap.read_at(entries, first * 8)? / 8;
            if got == 0 {
                break;
            }
            for (page, entry) in (first..).zip(entries[..got * 8].as_chunks().0) {
                let entry = u64::from_ne_bytes(*entry);
                if entry & PRESENT != 0 && entry & FRAME != 0 {
                    self.seen = true;
                    if let Some(nr) = self.wanted.place(entry & FRAME) {
                        self.note(nr, page * PAGE_SIZE);
                    }
                }
            }
            first += got as u64;
        }
        Ok(())
    }

    /// Notes that this process has a wanted frame at an address.
    fn note(&mut self, nr: usize, addr: u64) {
        self.found.mapped[nr] += 1;
        if self.found.places[nr].len() >= MOST_PLACES {
            return;
        }
        let process = self.at.unwrap_or_else(|| self.introduce());
        self.at = Some(process);
        self.found.places[nr].push(Place { process, addr });
    }

    fn introduce(&mut self) -> u32 {
        let mut buf = Vec::new();
        let (name, start_ticks) = match self.proc.stat(self.pid, &mut buf) {
            Ok(stat) => (String::from_utf8_lossy(stat.comm).into_owned(), stat.starttime),
            Err(_) => (String::new(), 0), // It has just ended.
        };
        self.found.processes.push(Owner { pid: self.pid, name, start_ticks });
        u32::try_from(self.found.processes.len() - 1).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A made-up process with these pages, as (page, frame).
    fn put(root: &std::path::Path, pid: u32, name: &str, pages: &[(u64, u64)]) {
        let dir = root.join(pid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let stat = format!(
            "{pid} ({name}) S 1 1 1 0 -1 64 9 0 0 0 5 6 0 0 20 0 1 0 {} 8 9 10 1 1 1 0 0 0 0 0 0 0 0 0 17 0 0\n",
            pid * 100
        );
        std::fs::write(dir.join("stat"), stat).unwrap();
        let line = |(page, _): &(u64, u64)| {
            format!("{:x}-{:x} rw-p 0 00:00 0\n", page * PAGE_SIZE, (page + 1) * PAGE_SIZE)
        };
        std::fs::write(dir.join("maps"), pages.iter().map(line).collect::<String>()).unwrap();
        let pagemap = File::create(dir.join("pagemap")).unwrap();
        for (page, frame) in pages {
            pagemap.write_all_at(&(frame | PRESENT).to_ne_bytes(), page * 8).unwrap();
        }
        (&pagemap).flush().unwrap();
    }

    #[test]
    fn owners_of_made_up_processes() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), 10, "one", &[(16, 100), (17, 101), (900, 200)]);
        put(dir.path(), 20, "two", &[(33, 101), (34, 0), (35, 300)]);
        put(dir.path(), 30, "idle", &[]);
        std::fs::create_dir(dir.path().join("40")).unwrap(); // Has just ended.
        std::fs::create_dir(dir.path().join("50")).unwrap();
        std::fs::write(dir.path().join("50/maps"), "1000-2000 rw-p 0 00:00 0\n").unwrap();
        std::fs::create_dir(dir.path().join("50/pagemap")).unwrap(); // Cannot be read.
        let found = find(&Proc::new(dir.path()), &[100, 101, 150, 300, 400]).unwrap();
        let names: Vec<_> = found.processes.iter().map(|p| (p.pid, &*p.name)).collect();
        assert_eq!(names, [(10, "one"), (20, "two")]);
        assert_eq!(found.processes[1].start_ticks, 2000);
        let place = |process, page: u64| Place { process, addr: page * PAGE_SIZE };
        let expected = vec![
            vec![place(0, 16)],
            vec![place(0, 17), place(1, 33)],
            vec![],
            vec![place(1, 35)],
            vec![],
        ];
        assert_eq!(found.places, expected);
        assert_eq!(found.mapped, [1, 2, 0, 1, 0]);
        assert_eq!(found.unread, 1);
    }

    #[test]
    fn places_are_bounded_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let pages: Vec<_> = (1..=100).map(|page| (page, 7)).collect();
        put(dir.path(), 10, "many", &pages);
        let found = find(&Proc::new(dir.path()), &[7]).unwrap();
        assert_eq!((found.mapped[0], found.places[0].len()), (100, MOST_PLACES));
    }

    #[test]
    fn hidden_frame_numbers_are_told() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), 10, "one", &[(16, 0)]);
        let err = find(&Proc::new(dir.path()), &[100]).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn our_own_pages_are_found_at_their_frames() {
        let memory: Vec<u8> = (0..64 * 4096_u32).map(|i| (i % 251) as u8).collect();
        let (start, len) = (memory.as_ptr().addr() as u64, memory.len() as u64);
        let first = start.next_multiple_of(PAGE_SIZE);
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let mut pages = Vec::new();
        for addr in (first..start + len - PAGE_SIZE).step_by(4096) {
            let mut entry = [0; 8];
            pagemap.read_exact_at(&mut entry, addr / PAGE_SIZE * 8).unwrap();
            pages.push((u64::from_ne_bytes(entry) & FRAME, addr));
        }
        if pages.iter().all(|(frame, _)| *frame == 0) {
            eprintln!("skipped: no right to see frame numbers");
            return;
        }
        pages.sort_unstable();
        let frames: Vec<_> = pages.iter().map(|(frame, _)| *frame).collect();
        let found = find(&Proc::default(), &frames).unwrap();
        let me = found.processes.iter().position(|p| p.pid == std::process::id()).unwrap();
        let ours = pages.iter().zip(&found.places).filter(|((_, addr), places)| {
            places.iter().any(|p| index(u64::from(p.process)) == me && p.addr == *addr)
        });
        // A page may move (compaction) between the two looks.
        let ours = ours.count();
        assert!(ours * 10 >= pages.len() * 9, "{ours} of {}", pages.len());
    }
}
