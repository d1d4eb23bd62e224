//! What the kernel is reclaiming of a target's memory now.
//!
//! Reclaim decides by the accessed bits that the monitor clears. While it is at work, a monitor
//! that clears the bits of all memory every few seconds takes away what reclaim has to know, and
//! memory in use is paged out.
//!
//! A machine that reads files reclaims pages of files for hours, and looks at no anonymous page
//! meanwhile. Then only mapped files are to be spared.
//!
//! What this program asks a cgroup to reclaim does not count. It asks for no more than it has seen
//! to be idle, and to make less memory old because of that would take away what it decides by.

use std::collections::BTreeMap;

use isotherm_core::{AddrRange, Reclaimed, TargetId, Time};
use isotherm_host::proc::{Mapping, Proc, parse_maps};
use isotherm_host::reclaim::{Counted, Reclaim};
use isotherm_sys::clock::now;

/// Growth of the counters per second from one question to the next, from which on reclaim is at
/// work: 1 MiB looked at, in pages.
const AT_WORK: u64 = 256;
const SECOND_NS: u64 = 1_000_000_000;
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
    /// The target's mapped files, and when they are to be read again.
    files: Vec<AddrRange>,
    next_files: Time,
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
    let is_much = |pages: u64| {
        let grown = u128::from(pages) * u128::from(SECOND_NS);
        grown >= u128::from(AT_WORK) * u128::from(elapsed_ns.max(SECOND_NS))
    };
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
        let reclaim = self.reclaim.get_or_insert_with(Reclaim::of_machine);
        let counted = reclaim.counted(pid, at.as_ns());
        let last = self.of.entry(target).or_default();
        let before = last.counted.replace((at, counted));
        let begins =
            |on: &mut Option<Time>| on.replace(at).is_none_or(|on| at.since(on) > QUIET_NS);
        match before.map(|(then, before)| at_work(counted, before, at.since(then))) {
            None | Some(AtWork::Not) => Reclaimed::Nothing,
            Some(AtWork::OnAll) => {
                if begins(&mut last.on) {
                    self.news.push(format!(
                        "the kernel is reclaiming memory of process {pid}: to leave it the \
                         accessed bits that it needs, little memory is made old meanwhile, so that \
                         what is reported is older than usual"
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
    use isotherm_host::reclaim::Kinds;

    use super::*;

    const fn counted(all: u64, ours: u64) -> Counted {
        Counted { all, ours, kinds: None }
    }

    fn is_at_work(now: Counted, before: Counted, elapsed_ns: u64) -> bool {
        at_work(now, before, elapsed_ns) == AtWork::OnAll
    }

    #[test]
    fn files_that_are_read_leave_anonymous_memory_alone() {
        let of = |anon: u64, files: u64| {
            let before = Counted { all: 10, ours: 0, kinds: Some(Kinds { anon: 7, files: 70 }) };
            let kinds = Some(Kinds { anon: 7 + anon, files: 70 + files });
            at_work(Counted { all: 10 + anon + files, ours: 0, kinds }, before, SECOND_NS)
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
