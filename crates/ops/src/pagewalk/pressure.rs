//! What the kernel is reclaiming of a target's memory now.
//!
//! Reclaim decides by the accessed bits that the monitor clears. While it is at work, a monitor
//! that clears the bits of all memory every few seconds takes away what reclaim has to know, and
//! memory in use is paged out.
//!
//! A machine that reads files reclaims pages of files for hours, and looks at no anonymous page
//! meanwhile. Then only mapped files are to be spared.
//!
//! A little reclaim can be much: a cgroup at its limit that swaps in a hundred pages per second
//! looks at not many more. So where tasks wait for memory, or much comes back, a few pages that
//! reclaim has looked at are enough. Waiting and coming back alone are not: after a limit was
//! lifted memory comes back for long, and nobody takes it.
//!
//! Counters tell of reclaim only when they were read twice. When a target is new, all of its memory
//! is about to be made old. So where hardly any room is left, reclaim is taken to be at work until
//! the second reading. And where there is plenty of room again, it is over.
//!
//! What this program asks a cgroup to reclaim does not count. It asks for no more than it has seen
//! to be idle, and to make less memory old because of that would take away what it decides by.

use std::collections::BTreeMap;

use isotherm_core::{AddrRange, Reclaimed, TargetId, Time};
use isotherm_host::proc::{Mapping, Proc, parse_maps};
use isotherm_host::reclaim::{Counted, Kinds, Reclaim};
use isotherm_sys::clock::now;

/// Growth of the counters per second from one question to the next, from which on reclaim is at
/// work: 1 MiB looked at, in pages.
const AT_WORK: u64 = 256;
/// The same while reclaim strains those who use the memory.
const AT_WORK_STRAINED: u64 = 8;
/// Reclaim strains from so many bytes on that come back per second, or from so many µs per second
/// on in which a task waits for memory.
const STRAIN: (u64, u64) = (256 << 12, 10_000);
const SECOND_NS: u64 = 1_000_000_000;
/// From so many targets on their counters are not read while the whole machine reclaims nothing. To
/// read them takes four files of each, and of a few targets that is little.
const MANY: usize = 64;
/// With no more room than this, as a share of what may be used, a new target's memory is taken to
/// be reclaimed; and with more than that reclaim is over.
const ROOM: (f64, f64) = (1.0 / 16.0, 1.0 / 4.0);
/// For so long after reclaim was at work, in ns, it is asked whether there is room again.
const AFTER_NS: u64 = 10_000_000_000;
/// After this time without reclaim, in ns, it is told again when it begins.
const QUIET_NS: u64 = 60_000_000_000;
/// Least time between two readings of a target's mappings, in ns.
const MAPS_NS: u64 = 10_000_000_000;
/// The same, as a multiple of what a reading takes: 0.1 %.
const MAPS_REST: u64 = 1000;

/// What was counted last.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    reclaim: Option<Reclaim>,
    of: BTreeMap<TargetId, Last>,
    text: Vec<u8>,
    news: Vec<String>,
    /// When pages of files were reclaimed last.
    files_on: Option<Time>,
}

#[derive(Debug, Clone, Default)]
struct Last {
    /// When the counters were read, and what they said.
    counted: Option<(Time, Counted)>,
    /// When reclaim of all memory was at work last.
    on: Option<Time>,
    /// Whether it was taken to be at work, without having been seen.
    is_presumed: bool,
    /// Whether the counters were not read the last time.
    is_skipped: bool,
    /// Until when it is asked whether it is over.
    ask_until: Time,
    /// The target's mapped files, and when they are to be read again.
    files: Vec<AddrRange>,
    next_files: Time,
}

impl Last {
    /// Whether the whole machine, of which so many pages were looked at, has looked at so few since
    /// the last time that reclaim can be at work on nobody. Then the target's own counters need not
    /// be read, unless they are waited for.
    fn is_left_alone(&mut self, kinds: Option<Kinds>, at: Time) -> bool {
        let Some(((then, before), now)) = self.counted.as_mut().zip(kinds) else { return false };
        let Some(was) = before.kinds else { return false };
        let looked_at = now.anon.saturating_sub(was.anon) + now.files.saturating_sub(was.files);
        let elapsed_ns = at.since(*then).max(SECOND_NS);
        let is_quiet = looked_at < AT_WORK_STRAINED.saturating_mul(elapsed_ns / SECOND_NS);
        if !is_quiet || self.is_presumed || at < self.ask_until {
            return false;
        }
        (*then, before.kinds, self.is_skipped) = (at, Some(now), true);
        true
    }
}

/// What counters say, compared with what they said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtWork {
    Not,
    OnFiles,
    OnAll,
}

/// Whether counters that said `before` so long ago say that reclaim is at work, other than ours.
/// Whoever asks rarely sees more growth, and is not to spare a target for what it finds in a
/// second.
fn at_work(now: Counted, before: Counted, elapsed_ns: u64) -> AtWork {
    let looked_at = now.since(&before);
    let is_at_least = |grown: u64, per_second: u64| {
        let grown = u128::from(grown) * u128::from(SECOND_NS);
        grown >= u128::from(per_second) * u128::from(elapsed_ns.max(SECOND_NS))
    };
    let (refaulted, stalled_us) = now.strain.since(&before.strain);
    let strains = is_at_least(refaulted, STRAIN.0) || is_at_least(stalled_us, STRAIN.1);
    let is_much = |pages| is_at_least(pages, if strains { AT_WORK_STRAINED } else { AT_WORK });
    if is_much(looked_at.anon) {
        AtWork::OnAll
    } else if is_much(looked_at.files) {
        AtWork::OnFiles
    } else {
        AtWork::Not
    }
}

/// Whether reclaim of file pages may take pages of this mapping. Shared memory is a file by name
/// only: its pages go to swap.
fn is_of_file(mapping: &Mapping<'_>) -> bool {
    let shared_memory: [&[u8]; 4] = [b"/dev/shm/", b"/memfd:", b"/SYSV", b"/dev/zero"];
    mapping.inode != 0 && !shared_memory.iter().any(|name| mapping.name.starts_with(name))
}

/// The ranges of mapped files in the text of `/proc/PID/maps`; adjacent ones are one.
fn files_of(text: &[u8], files: &mut Vec<AddrRange>) {
    files.clear();
    for mapping in parse_maps(text).filter(is_of_file) {
        match files.last_mut() {
            Some(last) if last.end == mapping.range.start => last.end = mapping.range.end,
            _ => files.push(mapping.range),
        }
    }
}

impl Pressure {
    /// What was being reclaimed of this process's memory since this was asked last.
    pub(super) fn of(&mut self, target: TargetId, pid: u32, at: Time) -> Reclaimed<'_> {
        let has_many = self.of.len() >= MANY;
        let reclaim = self.reclaim.get_or_insert_with(Reclaim::of_machine);
        let last = self.of.entry(target).or_default();
        if has_many && last.is_left_alone(reclaim.kinds(at.as_ns()), at) {
            return Reclaimed::Nothing;
        }
        let counted = reclaim.counted(pid, at.as_ns());
        // What was counted before nobody asked is no measure for what has passed since.
        let is_anew = std::mem::take(&mut last.is_skipped);
        let before = last.counted.replace((at, counted));
        let before = before.map(|before| if is_anew { (at, counted) } else { before });
        let begins =
            |on: &mut Option<Time>| on.replace(at).is_none_or(|on| at.since(on) > QUIET_NS);
        let is_presumed = std::mem::take(&mut last.is_presumed);
        match before.map(|(then, before)| at_work(counted, before, at.since(then))) {
            None => {
                last.is_presumed = reclaim.room(pid).is_some_and(|room| room <= ROOM.0);
                if last.is_presumed { Reclaimed::All } else { Reclaimed::Nothing }
            }
            Some(AtWork::Not) if is_presumed => Reclaimed::Over,
            Some(AtWork::Not) if at < last.ask_until => {
                let is_over = reclaim.room(pid).is_some_and(|room| room > ROOM.1);
                if is_over { Reclaimed::Over } else { Reclaimed::Nothing }
            }
            Some(AtWork::Not) => Reclaimed::Nothing,
            Some(AtWork::OnAll) => {
                last.ask_until = at + AFTER_NS;
                if begins(&mut last.on) {
                    self.news.push(format!(
                        "the kernel is reclaiming memory of process {pid}: to leave it the \
                         accessed bits that it needs, little memory is made old meanwhile, so that \
                         what is reported is older than usual, and of memory that was not made \
                         old before it is estimated from a sample"
                    ));
                }
                Reclaimed::All
            }
            Some(AtWork::OnFiles) => {
                if at >= last.next_files {
                    let begin = now();
                    if Proc::default().read(pid, "maps", &mut self.text).is_ok() {
                        files_of(&self.text, &mut last.files);
                    }
                    let rest = now().since(begin).saturating_mul(MAPS_REST).max(MAPS_NS);
                    last.next_files = at + rest;
                }
                if begins(&mut self.files_on) {
                    self.news.push(
                        "the kernel is reclaiming pages of files: to leave it the accessed bits \
                         that it needs, little of the files that processes map is made old \
                         meanwhile, so that what is reported of them is older than usual"
                            .to_owned(),
                    );
                }
                Reclaimed::Part(&last.files)
            }
        }
    }

    /// What is to be told to people, once.
    pub(super) fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    pub(super) fn forget(&mut self, target: TargetId) {
        self.of.remove(&target);
    }
}

#[cfg(test)]
mod tests {
    use isotherm_host::metrics::Cgroups;
    use isotherm_host::reclaim::Strain;

    use super::*;

    const fn counted(all: u64, ours: u64) -> Counted {
        Counted { all, ours, kinds: None, strain: Strain { refaulted: None, stalled_us: None } }
    }

    fn is_at_work(now: Counted, before: Counted, elapsed_ns: u64) -> bool {
        at_work(now, before, elapsed_ns) == AtWork::OnAll
    }

    #[test]
    fn files_that_are_read_leave_anonymous_memory_alone() {
        let of = |anon: u64, files: u64| {
            let before = Counted { kinds: Some(Kinds { anon: 7, files: 70 }), ..counted(10, 0) };
            let kinds = Some(Kinds { anon: 7 + anon, files: 70 + files });
            at_work(Counted { kinds, ..counted(10 + anon + files, 0) }, before, SECOND_NS)
        };
        assert_eq!(of(255, 255), AtWork::Not);
        assert_eq!(of(255, 256), AtWork::OnFiles);
        assert_eq!(of(256, 9000), AtWork::OnAll);
        let mut files = Vec::new();
        files_of(
            b"1000-3000 r-xp 00000000 fe:00 77 /usr/bin/x\n\
              3000-4000 rw-p 00002000 fe:00 77 /usr/bin/x\n\
              4000-5000 rw-p 00000000 00:00 0 [heap]\n\
              5000-6000 rw-s 00000000 00:1a 9 /dev/shm/a file\n\
              6000-7000 rw-s 00000000 00:01 9 /memfd:jit (deleted)\n\
              7000-8000 rw-s 00000000 00:01 3 /SYSV00000000 (deleted)\n\
              8000-9000 rw-s 00000000 00:01 4 /dev/zero (deleted)\n\
              9000-a000 r--s 00000000 fe:00 8 /var/lib/data (deleted)\n",
            &mut files,
        );
        assert_eq!(files, [AddrRange::new(0x1000, 0x4000), AddrRange::new(0x9000, 0xa000)]);
    }

    #[test]
    fn what_grows_slowly_is_no_reclaim_at_work_however_rarely_it_is_asked() {
        let s = |s: u64| s * SECOND_NS;
        for (grown, elapsed, at_work) in [
            (255, s(1), false),
            (256, s(1), true),
            (256, s(1) / 2, true),
            (2559, s(10), false),
            (2560, s(10), true),
        ] {
            let is = is_at_work(counted(1000 + grown, 0), counted(1000, 0), elapsed);
            assert_eq!(is, at_work, "{grown} in {elapsed} ns");
        }
        let moved = is_at_work(counted(10, 0), counted(1000, 0), s(1));
        assert!(!moved, "it has moved to another cgroup");
    }

    #[test]
    fn where_the_machine_looks_at_hardly_a_page_counters_are_not_read() {
        let kinds = |anon: u64, files: u64| Some(Kinds { anon, files });
        let s = |s: u64| Time(s * SECOND_NS);
        let last = Last {
            counted: Some((s(10), Counted { kinds: kinds(100, 50), ..counted(7, 0) })),
            ..Last::default()
        };
        for (name, now, last, is_alone) in [
            ("nothing", kinds(100, 50), last.clone(), true),
            ("seven pages in a second", kinds(103, 54), last.clone(), true),
            ("eight", kinds(104, 54), last.clone(), false),
            ("the kernel tells no kinds", None, last.clone(), false),
            ("never read", kinds(100, 50), Last::default(), false),
            ("presumed", kinds(100, 50), Last { is_presumed: true, ..last.clone() }, false),
            ("waited for", kinds(100, 50), Last { ask_until: s(20), ..last.clone() }, false),
        ] {
            let mut last = last;
            assert_eq!(last.is_left_alone(now, s(11)), is_alone, "{name}");
            assert_eq!(last.is_skipped, is_alone, "{name}");
        }
        // What the machine looked at while nobody asked does not count later.
        let mut last = last;
        for second in 11..30 {
            assert!(last.is_left_alone(kinds(100 + 7 * (second - 10), 50), s(second)), "{second}");
        }
        assert!(last.is_left_alone(kinds(233 + 79, 50), s(39)), "eight per second, in ten");
    }

    #[test]
    fn a_little_reclaim_is_at_work_while_it_strains() {
        let strained = |all: u64, pages: u64, us: u64| {
            let strain = Strain { refaulted: Some(pages << 12), stalled_us: Some(us) };
            Counted { strain, ..counted(all, 0) }
        };
        for (name, grown, pages, us, elapsed, at_work) in [
            ("nobody is strained", 255, 255, 9_999, SECOND_NS, false),
            ("much comes back", 8, 256, 0, SECOND_NS, true),
            ("tasks wait", 8, 0, 10_000, SECOND_NS, true),
            ("not so much in ten seconds", 80, 256, 10_000, 10 * SECOND_NS, false),
            ("hardly a page was looked at", 7, 9_000, 900_000, SECOND_NS, false),
            ("a limit was lifted", 0, 9_000, 900_000, SECOND_NS, false),
        ] {
            let (before, now) = (strained(50, 40, 30), strained(50 + grown, 40 + pages, 30 + us));
            assert_eq!(is_at_work(now, before, elapsed), at_work, "{name}");
        }
    }

    #[test]
    fn what_is_not_known_of_a_new_target_is_taken_from_the_room_that_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("7/cgroup", "0::/a\n");
        write("vmstat", "pgscan_kswapd 1\n");
        write("meminfo", "MemTotal:  8000 kB\nMemAvailable:  7000 kB\n");
        let now = |pgscan: u64, limit: u64, used: u64| {
            write("cg/a/memory.max", &format!("{limit}\n"));
            write("cg/a/memory.current", &format!("{used}\n"));
            write("cg/a/memory.stat", &format!("pgscan {pgscan}\nactive_file 100\n"));
        };
        let cgroups = Cgroups { v2: Some(dir.path().join("cg")), ..Cgroups::default() };
        let reclaim = Some(Reclaim::new(Proc::new(dir.path()), cgroups));
        let mut pressure = Pressure { reclaim, ..Pressure::default() };
        let mut of = |id: u32, s: u64| {
            let reclaimed = pressure.of(TargetId(id), 7, Time(s * SECOND_NS));
            let name = format!("{reclaimed:?}");
            (name, pressure.take_news().len())
        };
        let is = |name: &str, news: usize| (name.to_owned(), news);
        now(500, 1600, 1600);
        assert_eq!(of(1, 1), is("All", 0), "a sixteenth of it is left, so that it is taken to be");
        assert_eq!(of(1, 2), is("Over", 0), "and then it is known");
        assert_eq!(of(1, 3), is("Nothing", 0));
        now(9000, 1600, 1600);
        assert_eq!(of(1, 4), is("All", 1), "it is at work");
        assert_eq!(of(1, 5), is("Nothing", 0), "and may be again");
        now(9000, 16_000, 1600);
        assert_eq!(of(1, 6), is("Over", 0), "the limit was lifted");
        assert_eq!(of(1, 15), is("Nothing", 0), "long after");
        now(9000, 1600, 1599);
        assert_eq!(of(2, 16), is("Nothing", 0), "more than a sixteenth is left to another target");
    }

    #[test]
    fn what_we_asked_for_is_not_the_kernels_reclaim() {
        for (all, ours, at_work) in [
            (8192, 8192, false),
            (9000, 8192, false),
            (10_240 + 255, 8192, false),
            (10_240 + 256, 8192, true),
            (8192, 0, true),
            // The cgroup above was asked, and others below it have paid.
            (0, 8192, false),
        ] {
            let before = counted(5000, 300);
            let is = is_at_work(counted(5000 + all, 300 + ours), before, SECOND_NS);
            assert_eq!(is, at_work, "{all}, {ours} of them ours");
        }
    }
}
