//! Faults between evidence and action, on real processes: the counters stay right, and nothing else
//! fails.

use std::sync::Arc;
use std::time::Duration;

use isotherm_act::apply::{Actor, Evidence, Given, Notes, Whose};
use isotherm_act::{Advice, Process};
use isotherm_core::AddrRange;
use isotherm_core::scheme::{Action, Brake, FilterKind};
use isotherm_host::zram::keep_off;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::direct::{BASE, Direct, ID, MIB, mib, others};
use crate::run::Run;
use crate::swap;

/// Confirm time, in ms.
const MS: u64 = 500;

/// A target with this many MiB of filled single pages, and an actor to page it out.
fn pageout(len: u64) -> Option<Direct> {
    let mut direct = Direct::start(Action::Pageout)?;
    direct.odd.tell("anon", mib(0, len), "");
    direct.odd.tell("nohuge", mib(0, len), "");
    direct.odd.tell("fill", mib(0, len), "");
    Some(direct)
}

#[test]
fn a_target_that_ended_after_the_evidence_is_let_go() {
    let Some(_swap) = swap(64) else { return };
    let Some(mut direct) = pageout(16) else { return };
    direct.arm(mib(0, 16), MS);
    direct.odd.kill();
    direct.pass(mib(0, 16));
    let account = direct.account();
    assert_eq!((account.asked_bytes, account.done_bytes), (0, 0), "{account:?}");
    assert_eq!(direct.told(""), 0, "the end of a target is no trouble: {:?}", direct.events);
}

/// What was paged out and is brought back is no younger than it was: nobody has used it.
#[test]
fn what_is_brought_back_stays_idle() {
    let Some(_swap) = swap(64) else { return };
    let Some(mut direct) = pageout(32) else { return };
    let (range, control) = (mib(0, 16), mib(16, 16));
    let process = Process::open(direct.odd.pid()).unwrap();
    process.advise(Advice::Pageout, &[range], MIB, &mut || false);
    let swapped = direct.odd.smaps(range, "Swap:");
    assert!(swapped >= range.len() - MIB, "{swapped} bytes are in swap");
    let restored = process.bring_back(&mut || false).unwrap();
    assert!(restored.done_bytes >= swapped && restored.failed_bytes == 0, "{restored:?}");
    let may = others(direct.odd.smaps(control, "Swap:"));
    let resident = direct.odd.smaps(range, "Rss:");
    assert!(resident >= range.len() - may, "{resident} bytes are resident, {may} may be missing");
    let young = direct.young(range);
    let of_control = direct.young(control);
    assert!(
        young <= MIB && of_control > range.len() / 2,
        "{young} and {of_control} bytes are young"
    );
    assert_eq!(direct.odd.wrong(range), 0);
}

#[test]
fn a_program_that_replaced_the_target_is_not_touched_on_its_evidence() {
    let Some(_swap) = swap(64) else { return };
    let Some(mut direct) = pageout(16) else { return };
    let range = mib(0, 16);
    direct.arm(range, MS);
    direct.odd.tell("exec", AddrRange::default(), "");
    for word in ["anon", "nohuge", "fill"] {
        direct.odd.tell(word, range, "");
    }
    direct.pass(range);
    let account = direct.account();
    assert_eq!(account.done_bytes, 0, "{account:?}");
    assert_eq!(direct.odd.smaps(range, "Swap:"), 0, "the new program lost memory");
    assert_eq!(direct.odd.smaps(range, "Rss:"), range.len());
    assert_eq!(direct.odd.wrong(range), 0);
}

#[test]
fn odd_parts_of_a_range_are_left_alone_and_the_rest_goes() {
    let Some(_swap) = swap(128) else { return };
    let Some(mut direct) = pageout(32) else { return };
    let (locked, hole) = (mib(4, 3), mib(12, 3));
    direct.odd.tell("lock", locked, "");
    direct.arm(mib(0, 32), MS);
    direct.odd.tell("unmap", hole, "");
    // A pass has so much time and no more, and what was looked at is not looked at again at once: a
    // slow machine needs several.
    let out = |direct: &Direct| direct.odd.smaps(mib(0, 32), "Swap:");
    let applied = direct.pass_until(mib(0, 32), |direct| out(direct) + MIB >= 26 * MIB);
    let swapped = out(&direct);
    let account = direct.account();
    eprintln!("{account:?}");
    assert_eq!(direct.odd.smaps(locked, "Swap:"), 0, "locked memory went");
    // A page may be busy.
    assert!(swapped + MIB >= 26 * MIB, "only {swapped} bytes are out");
    assert_eq!(account.done_bytes, swapped, "{account:?}");
    assert_eq!(applied, swapped);
    for part in [mib(0, 12), mib(15, 17)] {
        assert_eq!(direct.odd.wrong(part), 0, "{part:?}");
    }
    assert_eq!(direct.told(""), 0, "{:?}", direct.events);
}

#[test]
fn memory_that_another_process_has_too_stays_and_is_not_counted() {
    let Some(_swap) = swap(128) else { return };
    let Some(mut direct) = pageout(16) else { return };
    direct.odd.tell("fork", AddrRange::default(), "");
    direct.arm(mib(0, 16), MS);
    direct.pass(mib(0, 16));
    assert_eq!(direct.account().asked_bytes, 0, "it could not be armed");
    direct.settings.evidence = Evidence::Off;
    // One pass asks for all of it, if its time suffices. Another one asks for what stayed again.
    direct.pass_until(mib(0, 16), |direct| direct.account().asked_bytes >= 16 * MIB);
    let (account, swapped) = (direct.account(), direct.odd.smaps(mib(0, 16), "Swap:"));
    eprintln!("{account:?}, {swapped} bytes in swap");
    assert!(account.asked_bytes >= 16 * MIB, "{account:?}");
    assert_eq!(account.done_bytes, swapped);
    assert_eq!(direct.odd.wrong(mib(0, 16)), 0);
}

#[test]
fn pages_of_a_shared_file_go_to_the_file() {
    let Some(_swap) = swap(64) else { return };
    let Some(mut direct) = Direct::start(Action::Pageout) else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(8 << 20).unwrap();
    let range = mib(0, 8);
    direct.odd.tell("shared", range, file.path().to_str().unwrap());
    direct.odd.tell("fill", range, "");
    file.as_file().sync_all().unwrap();
    direct.arm(range, MS);
    direct.pass(range);
    let (account, left) = (direct.account(), direct.odd.smaps(range, "Rss:"));
    eprintln!("{account:?}, {left} bytes left");
    // A few pages may have been taken by others: this machine's reclaim, or its DAMON.
    let gone = 8 * MIB - left;
    let by_others = gone.checked_sub(account.done_bytes);
    assert!(by_others.is_some_and(|bytes| bytes <= 64 << 10), "{gone} bytes are gone");
    assert_eq!(direct.odd.wrong(range), 0);
}

#[test]
fn shared_memory_stays_where_there_is_no_swap() {
    // The tests beside this one set up swap for themselves.
    let _no_zram = keep_off().unwrap();
    if std::fs::read_to_string("/proc/swaps").unwrap().lines().count() > 1 {
        eprintln!("skipped: this machine has swap");
        return;
    }
    let Some(mut direct) = Direct::start(Action::Pageout) else { return };
    let range = mib(0, 8);
    direct.odd.tell("shared", range, "");
    direct.odd.tell("fill", range, "");
    direct.filter(&[(FilterKind::Anon, true, false)]);
    direct.arm(range, MS);
    direct.pass(range);
    // The kernel would unmap it, and free nothing: that is not to be called done.
    let (account, left) = (direct.account(), direct.odd.smaps(range, "Rss:"));
    assert_eq!((account.done_bytes, left), (0, range.len()), "{account:?}");
    assert_eq!(direct.told("no swap for shared memory"), 1, "{:?}", direct.events);
}

#[test]
fn huge_pages_go_whole_or_stay_huge() {
    let Some(_swap) = swap(64) else { return };
    let Some(mut direct) = Direct::start(Action::Pageout) else { return };
    let all = mib(0, 8);
    for word in ["anon", "huge", "fill"] {
        direct.odd.tell(word, all, "");
    }
    if direct.odd.smaps(all, "AnonHugePages:") != 8 * MIB {
        eprintln!("skipped: no huge pages to be had");
        return;
    }
    // Half a huge page at each end.
    let range = AddrRange::new(BASE + MIB, BASE + 7 * MIB);
    direct.arm(range, MS);
    direct.pass(range);
    let account = direct.account();
    let (huge, swapped) = (direct.odd.smaps(all, "AnonHugePages:"), direct.odd.smaps(all, "Swap:"));
    eprintln!("{account:?}: {huge} bytes huge, {swapped} in swap");
    assert_eq!(huge + swapped, 8 * MIB, "a huge page was split");
    assert!(huge >= 4 * MIB, "a huge page went of which only a half was asked for");
    assert_eq!(account.done_bytes, swapped);
    assert_eq!(direct.odd.wrong(all), 0);
}

/// This thread without some of its rights, until it is dropped.
struct Without(CapabilitySets);

impl Without {
    fn these(lost: CapabilitySet) -> Self {
        let had = capabilities(None).unwrap();
        let less = CapabilitySets { effective: had.effective.difference(lost), ..had };
        set_capabilities(None, less).unwrap();
        Self(had)
    }
}

impl Drop for Without {
    fn drop(&mut self) {
        set_capabilities(None, self.0).unwrap();
    }
}

#[test]
fn rights_lost_half_way_are_told_once_and_nothing_is_counted() {
    let Some(_swap) = swap(64) else { return };
    let Some(mut direct) = pageout(16) else { return };
    let range = mib(0, 16);
    direct.arm(range, MS);
    {
        let _less = Without::these(CapabilitySet::SYS_NICE | CapabilitySet::SYS_PTRACE);
        for _ in 0..3 {
            direct.pass(range);
        }
    }
    let account = direct.account();
    assert_eq!((account.asked_bytes, account.done_bytes), (0, 0), "{account:?}");
    assert_eq!(direct.told("the right to act on it was lost"), 1, "{:?}", direct.events);
    assert_eq!(direct.odd.smaps(range, "Swap:"), 0);
    // And once they are back it goes on.
    direct.pass_until(range, |direct| direct.account().done_bytes + MIB >= range.len());
    let (done, swapped) = (direct.account().done_bytes, direct.odd.smaps(range, "Swap:"));
    assert_eq!(done, swapped);
    // A page may be busy.
    assert!(done + MIB >= range.len(), "{:?}", direct.account());
    assert_eq!(direct.odd.wrong(range), 0);
}

#[test]
fn a_filter_that_cannot_be_answered_refuses_and_says_so_once() {
    let Some(mut direct) = Direct::start(Action::Stat) else { return };
    let range = mib(0, 8);
    direct.odd.tell("anon", range, "");
    // The size of a page that a huge leaf maps shows without its frame.
    direct.odd.tell("nohuge", range, "");
    direct.odd.tell("fill", range, "");
    // The kernel shows page frames to who opened the file with the right to see them.
    direct.actor.remove_target(ID);
    {
        let _less = Without::these(CapabilitySet::SYS_ADMIN);
        direct.actor.add_target(ID, direct.odd.pid()).unwrap();
    }
    for (kind, name) in [
        (FilterKind::Active, "`active`"),
        (FilterKind::HugepageSize(4096, 4096), "`hugepage_size`"),
    ] {
        for (matching, allow) in [(true, true), (true, false), (false, true), (false, false)] {
            direct.filter(&[(kind, matching, allow)]);
            assert_eq!(direct.pass(range).passed, 0, "{kind:?} {matching} {allow}");
        }
        assert_eq!(direct.told(name), 1, "{:?}", direct.events);
    }
    // What was decided before needs no answer.
    let anon = (FilterKind::Anon, true, true);
    direct.filter(&[anon, (FilterKind::Active, true, true)]);
    assert_eq!(direct.pass(range).passed, range.len());
}

#[test]
fn full_swap_is_told_once_and_harms_nobody() {
    let Some(_swap) = swap(16) else { return };
    let Some(mut direct) = pageout(48) else { return };
    let range = mib(0, 48);
    direct.arm(range, MS);
    direct.pass_until(range, |direct| direct.told("swap is full") > 0);
    let (full, swapped) = (direct.account(), direct.odd.smaps(range, "Swap:"));
    eprintln!("{full:?}, {swapped} bytes in swap");
    assert!((8 * MIB..16 * MIB).contains(&swapped), "{swapped} bytes in 16 MiB of swap");
    assert_eq!(full.done_bytes, swapped);
    assert_eq!(direct.told("swap is full"), 1, "{:?}", direct.events);
    // Where there is room again it goes on.
    let gone: Vec<_> =
        (0..48).map(|nr| mib(nr, 1)).filter(|r| direct.odd.swapped_pages(*r) == 256).collect();
    assert!(!gone.is_empty(), "{swapped} bytes are out, but no MiB as a whole");
    for part in &gone {
        direct.odd.tell("unmap", *part, "");
    }
    direct.pass_until(range, |direct| direct.account().done_bytes > full.done_bytes);
    let more = direct.account();
    eprintln!("{} MiB unmapped: {more:?}", gone.len());
    assert!(more.done_bytes > full.done_bytes, "nothing more was done: {more:?}");
    assert_eq!(direct.told("swap is full"), 1, "{:?}", direct.events);
    for part in (0..48).map(|nr| mib(nr, 1)).filter(|r| !gone.contains(r)) {
        assert_eq!(direct.odd.wrong(part), 0, "{part:?}");
    }
}

/// On a slow machine, or with a small quota, the look at what is to be done takes all of the time.
#[test]
fn where_the_look_uses_up_the_time_one_batch_is_done_all_the_same() {
    let Some(mut direct) = Direct::start(Action::Collapse) else { return };
    (direct.settings.evidence, direct.most_ns) = (Evidence::Off, 1);
    let all = mib(0, 4);
    direct.odd.tell("anon", all, "");
    direct.odd.tell("nohuge", all, "");
    direct.odd.tell("fill", all, "");
    direct.odd.tell("huge", all, "");
    let one = direct.apply(all);
    if direct.account().refused.contains_key(&libc::ENOMEM) {
        eprintln!("skipped: no huge pages to be had");
        return;
    }
    // Unless khugepaged was faster, so that nothing was left to be done.
    assert!(one.asked == 2 * MIB || one.passed == 0, "{one:?}");
    direct.pass(all);
    assert_eq!(direct.odd.smaps(all, "AnonHugePages:"), all.len(), "{:?}", direct.account());
}

#[test]
fn memory_that_must_not_be_huge_is_refused_and_the_rest_collapses() {
    let Some(mut direct) = Direct::start(Action::Collapse) else { return };
    direct.settings.evidence = Evidence::Off;
    let (all, not) = (mib(0, 8), mib(2, 2));
    direct.odd.tell("anon", all, "");
    direct.odd.tell("nohuge", all, "");
    direct.odd.tell("fill", all, "");
    for part in [mib(0, 2), mib(4, 4)] {
        direct.odd.tell("huge", part, "");
    }
    // khugepaged may have been there first, or come in between.
    let by_khugepaged = || {
        let file = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed";
        std::fs::read_to_string(file).unwrap().trim().parse::<u64>().unwrap() * 2 * MIB
    };
    let others = by_khugepaged();
    let before = direct.odd.smaps(all, "AnonHugePages:");
    for pass in 1..=2 {
        direct.pass(all);
        let (account, huge) = (direct.account(), direct.odd.smaps(all, "AnonHugePages:"));
        eprintln!("pass {pass}: {account:?}, {before} bytes huge before, {huge} now");
        if account.refused.contains_key(&libc::ENOMEM) {
            eprintln!("skipped: no huge pages to be had");
            return;
        }
        assert_eq!(huge, 6 * MIB);
        let others = by_khugepaged() - others;
        let ours = (huge - before).saturating_sub(others)..=huge - before;
        assert!(ours.contains(&account.done_bytes), "{others} bytes by khugepaged: {account:?}");
        assert_eq!(account.refused_bytes, not.len(), "refused memory is not asked for each time");
    }
    assert_eq!(direct.odd.smaps(not, "AnonHugePages:"), 0);
    assert_eq!(direct.odd.wrong(all), 0);
}

/// The kernel cannot remove advice, but advice that was there before can be set again.
#[test]
fn advice_that_the_program_had_given_comes_back() {
    let Some(mut direct) = Direct::start(Action::Hugepage) else { return };
    direct.settings.evidence = Evidence::Off;
    direct.settings.inject = true;
    let (all, refuses) = (mib(0, 8), mib(0, 4));
    direct.odd.tell("anon", all, "");
    direct.odd.tell("nohuge", refuses, "");
    direct.odd.tell("fill", all, "");
    // Where THP is always on, there is nothing to wish for in the rest.
    if direct.odd.smaps(mib(4, 4), "AnonHugePages:") > 0 {
        return eprintln!("skipped: huge pages come without advice here");
    }
    direct.pass_until(all, |direct| direct.account().done_bytes >= all.len());
    let undone = direct.actor.undo();
    assert!(undone.errors.is_empty(), "{undone:?}");
    assert_eq!(undone.restored_bytes, refuses.len(), "{undone:?}");
    assert_eq!(undone.replaced_bytes + undone.left_bytes, 4 * MIB, "{undone:?}");
}

/// Notes that are only kept in memory, as if they were on disk.
#[derive(Debug, Default)]
struct Kept(std::sync::Mutex<Vec<Given>>);

impl Kept {
    /// In all notes; those that are noted twice count twice.
    fn granules(&self) -> usize {
        self.0.lock().unwrap().iter().map(|given| given.granules.len()).sum()
    }
}

impl Notes for Kept {
    fn keep(&self, given: &Given) -> std::io::Result<()> {
        self.0.lock().unwrap().push(given.clone());
        Ok(())
    }

    fn forget(&self, whose: Whose) {
        self.0.lock().unwrap().retain(|given| given.whose != whose);
    }
}

/// A target, and an actor that gives it this advice and notes that.
fn noting(action: Action) -> Option<(Direct, Arc<Kept>)> {
    let mut direct = Direct::start(action)?;
    direct.settings.evidence = Evidence::Off;
    direct.settings.inject = true;
    let kept = Arc::new(Kept::default());
    direct.actor.set_notes(Some(kept.clone()));
    Some((direct, kept))
}

/// Whoever starts after a crash takes back exactly what the notes say, and nothing of a process or
/// program that is another one by now.
#[test]
fn advice_that_a_killed_run_left_is_taken_back() {
    let Some((mut direct, kept)) = noting(Action::Nohugepage) else { return };
    let all = mib(0, 8);
    direct.odd.tell("anon", all, "");
    direct.odd.tell("fill", all, "");
    direct.pass_until(all, |direct| direct.account().done_bytes >= all.len());
    let notes = kept.0.lock().unwrap().clone();
    assert_eq!(kept.granules(), 4, "{notes:?}");

    let of_another = |change: fn(&mut Whose)| {
        let mut notes = notes.clone();
        notes.iter_mut().for_each(|given| change(&mut given.whose));
        notes
    };
    for others in [
        of_another(|whose| whose.start_ticks += 1),
        of_another(|whose| whose.program += 1),
        of_another(|whose| whose.pid = 4_194_304),
    ] {
        let undone = Actor::take_back_left(&others);
        let bytes = undone.restored_bytes + undone.replaced_bytes + undone.left_bytes;
        assert_eq!((bytes, undone.errors.len()), (0, 0), "{undone:?}");
    }
    let undone = Actor::take_back_left(&notes);
    assert!(undone.errors.is_empty(), "{undone:?}");
    assert_eq!(undone.replaced_bytes + undone.left_bytes, all.len(), "{undone:?}");
    // Where the advice had an effect it is gone, so there is nothing left to take back.
    if undone.replaced_bytes > 0 {
        let again = Actor::take_back_left(&notes);
        assert_eq!(again.replaced_bytes + again.left_bytes, 0, "{again:?}");
    }
}

/// A target that is busy is tried again, maybe for hours, and notes lie on a disk.
#[test]
fn advice_is_noted_once_however_often_it_is_tried() {
    let Some((mut direct, kept)) = noting(Action::Nohugepage) else { return };
    let all = mib(0, 8);
    direct.odd.tell("anon", all, "");
    direct.odd.tell("fill", all, "");
    let target = Pid::from_raw(direct.odd.pid().cast_signed()).unwrap();
    kill_process(target, Signal::STOP).unwrap();
    for _ in 0..4 {
        direct.pass(all);
    }
    assert_eq!((direct.account().done_bytes, kept.granules()), (0, 4));
    kill_process(target, Signal::CONT).unwrap();
    direct.pass_until(all, |direct| direct.account().done_bytes >= all.len());
    assert_eq!((direct.account().done_bytes, kept.granules()), (all.len(), 4));
    // What was taken back is noted anew when it is given again. Advice without an effect stays.
    let undone = direct.actor.undo();
    assert_eq!((undone.errors.len(), kept.granules()), (0, 0), "{undone:?}");
    if undone.replaced_bytes > 0 {
        direct.pass_until(all, |direct| direct.account().done_bytes >= 2 * all.len());
        assert_eq!(kept.granules(), 4);
    }
}

/// Nobody comes back for advice, so a target that is busy just then is tried again. If that does
/// not help, the notes stay.
#[test]
fn advice_is_taken_back_from_one_that_is_busy() {
    for stays_busy in [true, false] {
        let Some((mut direct, kept)) = noting(Action::Hugepage) else { return };
        let all = mib(0, 8);
        for word in ["anon", "nohuge", "fill"] {
            direct.odd.tell(word, all, "");
        }
        direct.pass_until(all, |direct| direct.account().done_bytes >= all.len());
        let pid = direct.odd.pid();
        let target = Pid::from_raw(pid.cast_signed()).unwrap();
        kill_process(target, Signal::STOP).unwrap();
        let undone = std::thread::scope(|scope| {
            if !stays_busy {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(200));
                    kill_process(target, Signal::CONT).unwrap();
                });
            }
            direct.actor.undo()
        });
        kill_process(target, Signal::CONT).unwrap();
        let notes = kept.0.lock().unwrap().clone();
        if stays_busy {
            assert_eq!((undone.restored_bytes, undone.errors.len()), (0, 1), "{undone:?}");
            assert_eq!(undone.unfinished, [Whose::of(pid).unwrap()]);
            // The next run takes it back.
            let undone = Actor::take_back_left(&notes);
            assert_eq!(undone.restored_bytes, all.len(), "{undone:?}");
        } else {
            assert_eq!(undone.restored_bytes, all.len(), "{undone:?}");
            assert!(undone.errors.is_empty() && undone.unfinished.is_empty(), "{undone:?}");
            assert!(notes.is_empty(), "{notes:?}");
        }
    }
}

/// What cannot be noted is not done.
#[test]
fn no_advice_is_given_that_cannot_be_noted() {
    #[derive(Debug)]
    struct Full;
    impl Notes for Full {
        fn keep(&self, _: &Given) -> std::io::Result<()> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn forget(&self, _: Whose) {}
    }
    let Some(mut direct) = Direct::start(Action::Nohugepage) else { return };
    direct.settings.evidence = Evidence::Off;
    direct.settings.inject = true;
    direct.actor.set_notes(Some(Arc::new(Full)));
    let all = mib(0, 8);
    direct.odd.tell("anon", all, "");
    direct.odd.tell("fill", all, "");
    direct.pass(all);
    assert_eq!(direct.account().done_bytes, 0);
    let undone = direct.actor.undo();
    assert_eq!(undone.replaced_bytes + undone.left_bytes + undone.restored_bytes, 0);
}

/// A dry run changes nothing but accessed bits, and those only where it gathers evidence.
///
/// The machine clears accessed bits, too (its own DAMON, reclaim), and may swap. How much shows in
/// a control range of the same target, which no scheme is asked about.
#[test]
fn a_dry_run_does_nothing_but_arm() {
    let Some(_swap) = swap(64) else { return };
    let (range, control) = (mib(0, 16), mib(32, 16));
    for (action, evidence) in [
        (Action::Pageout, Evidence::Confirm(MS * 1000)),
        (Action::Pageout, Evidence::Off),
        (Action::Cold, Evidence::Off),
        (Action::Collapse, Evidence::Off),
        (Action::Hugepage, Evidence::Off),
    ] {
        let case = format!("{action:?} {evidence:?}");
        let Some(mut direct) = Direct::start(action) else { return };
        direct.settings.evidence = evidence;
        direct.settings.dry_run = true;
        direct.settings.inject = true;
        for part in [range, control] {
            direct.odd.tell("anon", part, "");
            direct.odd.tell("fill", part, "");
        }
        // Where THP is always on, it is huge from the start, and there is nothing to wish for.
        let huge = direct.odd.smaps(range, "AnonHugePages:");
        if huge > 0 && matches!(action, Action::Collapse | Action::Hugepage) {
            continue;
        }
        // A page may be busy as it is armed.
        let least = if evidence == Evidence::Off { range.len() } else { range.len() - MIB };
        direct.pass_for(range, 3 * MS);
        direct.pass_until(range, |direct| direct.account().done_bytes >= least);
        let account = direct.account();
        let would = least..=range.len();
        assert!(would.contains(&account.done_bytes), "{case}: {account:?}");
        assert_eq!(account.done_bytes, account.asked_bytes, "{case}");
        let may = others(direct.odd.smaps(control, "Swap:"));
        let swapped = direct.odd.smaps(range, "Swap:");
        assert!(swapped <= may, "{case}: {swapped} bytes in swap, {may} may be by others");
        assert!(direct.odd.smaps(range, "Rss:") >= range.len() - may, "{case}");
        assert_eq!(direct.odd.smaps(range, "AnonHugePages:"), huge, "{case}");
        let armed = evidence != Evidence::Off;
        assert_eq!(account.armed_bytes > 0, armed, "{case}: {account:?}");
        let undone = direct.actor.undo();
        let bytes = undone.restored_bytes + undone.replaced_bytes + undone.left_bytes;
        assert_eq!(bytes, 0, "{case}: advice that was never given was taken back");
        assert!(undone.errors.is_empty(), "{undone:?}");
        let may = others(control.len() - direct.young(control));
        let old = range.len() - direct.young(range);
        eprintln!("{case}: {old} bytes are old, {may} may be by others");
        assert_eq!(old > may, armed, "{case}: {old} bytes are old, {may} may be by others");
    }
}

#[test]
fn the_brake_slows_down_what_comes_back() {
    let Some(_swap) = swap(128) else { return };
    let (mut done, mut rounds) = (Vec::new(), 0);
    let quick = Brake { settle_ms: 1000, floor: 0, ..Brake::default() };
    for brake in [None, Some(quick)] {
        let (mut scheme, settings) = crate::pageout(300_000, Evidence::Off);
        scheme.quota.brake = brake;
        scheme.quota.reset_interval_ms = 500;
        let mut run = Run::start(32, "small", vec![(scheme, settings)]);
        // All of it is needed again every 1.5 seconds. Both runs have the same number of rounds,
        // seven on a machine that does nothing else.
        let (least, enough) = (rounds.max(7), brake.is_some());
        rounds = 0;
        while rounds < least || !enough && rounds < 40 && run.account().0.done_bytes <= 64 * MIB {
            run.touch_once(32 * MIB);
            run.touch_for(1.5, 0, MIB);
            rounds += 1;
        }
        let (account, stats) = run.account();
        eprintln!("{brake:?}: {account:?} {stats:?}");
        assert_eq!(run.target.say("wrong"), "0");
        done.push(account.done_bytes);
    }
    assert!(done[0] > 64 * MIB, "only {} bytes without a brake", done[0]);
    assert!(done[1] * 3 < done[0] * 2, "{} bytes with a brake, {} without", done[1], done[0]);
}

#[test]
fn a_program_that_replaced_the_target_is_acted_on_by_its_own_evidence() {
    let Some(_swap) = swap(64) else { return };
    let mut run =
        Run::start(16, "small", vec![crate::pageout(300_000, Evidence::Confirm(MS * 1000))]);
    run.touch_until(0, MIB, |run| run.account().0.done_bytes > 8 * MIB);
    let before = run.account().0.done_bytes;
    assert!(before > 8 * MIB, "only {before} bytes went before the exec");
    run.target.say("exec");
    assert_eq!(run.target.smaps("Rss:"), 0, "the new program has no arena yet");
    run.target.say(&format!("map {} small", 16 * MIB));
    run.touch_until(0, MIB, |run| run.swapped() > 8 * MIB);
    let (account, swapped) = (run.account().0, run.swapped());
    eprintln!("{account:?}, {swapped} bytes in swap");
    assert!(swapped > 8 * MIB, "only {swapped} bytes of the new program went");
    assert!(account.done_bytes + others(0) >= before + swapped, "{account:?}");
    assert_eq!(run.target.say("wrong"), "0");
}
