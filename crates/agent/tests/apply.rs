//! Schemes on real processes: which bytes are asked for, which are done, and which are left alone.
#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests; a skipped one says why, and targets talk through their output"
)]

#[path = "apply/direct.rs"]
mod direct;
#[path = "apply/faults.rs"]
mod faults;
#[path = "apply/filters.rs"]
mod filters;
#[path = "../../ops/tests/shared/odd.rs"]
mod odd;
#[path = "apply/prove.rs"]
mod prove;
#[path = "apply/run.rs"]
mod run;
#[path = "../../ops/tests/shared/target.rs"]
#[expect(dead_code, reason = "shared with the tests of `act`")]
mod target;
#[path = "../../act/tests/act/zram.rs"]
mod zram;

use isotherm_act::apply::{Evidence, Settings, Undone};
use isotherm_core::scheme::{Action, Age, Bounds, Frequency, Pattern};
use isotherm_core::{Attrs, Method, Scheme};
use isotherm_host::zram::keep_off;

use direct::others;
use run::Run;
use target::Target;
use zram::swap;

const MIB: u64 = 1 << 20;

fn idle_for(us: u64) -> Pattern {
    Pattern {
        sz: Bounds::new(4096, u64::MAX),
        nr_accesses: Frequency::Samples(Bounds::new(0, 0)),
        age: Age::Micros(Bounds::new(us, u64::MAX)),
    }
}

fn pageout(us: u64, evidence: Evidence) -> (Scheme, Settings) {
    let scheme = Scheme { pattern: idle_for(us), action: Action::Pageout, ..Scheme::default() };
    (scheme, Settings { evidence, refault_window_us: 3_000_000, ..Settings::default() })
}

#[test]
fn cold_memory_goes_and_hot_memory_stays() {
    let Some(_swap) = swap(256) else { return };
    for evidence in [Evidence::Confirm(1_000_000), Evidence::Off] {
        let mut run = Run::start(64, "small", vec![pageout(1_000_000, evidence)]);
        // 8 MiB are touched all the time, 56 MiB never again.
        run.touch_for(7.0, 0, 8 * MIB);
        run.touch_until(0, 8 * MIB, |run| run.swapped() >= 50 * MIB);
        let swapped = run.swapped();
        let (account, stats) = run.account();
        eprintln!("{evidence:?}: {account:?} {stats:?}");
        assert!(swapped >= 50 * MIB, "{swapped} bytes are out");
        assert!(swapped <= 57 * MIB, "{swapped} bytes are out: hot memory among them");
        assert!(account.done_bytes + others(0) >= swapped, "less was counted than is gone");
        assert!(account.done_bytes <= account.asked_bytes, "more was done than asked for");
        // Without evidence what was hot goes too before the monitor has seen it.
        let most = if evidence == Evidence::Off { 32 * MIB } else { MIB / 2 };
        assert!(account.refaulted_bytes <= most, "{} bytes came back", account.refaulted_bytes);
        assert_eq!(run.target.say("wrong"), "0", "pages with another content");
    }
}

#[test]
fn a_dry_run_changes_nothing_and_foresees_refaults() {
    let Some(_swap) = swap(64) else { return };
    let (scheme, settings) = pageout(1_000_000, Evidence::Confirm(1_000_000));
    // Longer than the test can take, so that what it pretends to take first counts to the end.
    let settings = Settings { dry_run: true, refault_window_us: 600_000_000, ..settings };
    // The machine itself may page out idle memory. A process that is no target shows how much.
    let mut control = Target::spawn();
    control.say(&format!("map {} small", 32 * MIB));
    let mut run = Run::start(32, "small", vec![(scheme, settings)]);
    run.touch_until(0, 4 * MIB, |run| run.account().0.done_bytes >= 20 * MIB);
    let (swapped, may) = (run.swapped(), others(control.smaps("Swap:") << 10));
    assert!(swapped <= may, "{swapped} bytes were paged out, {may} may be by others");
    let (before, _) = run.account();
    assert!(before.done_bytes >= 20 * MIB, "would have saved only {}", before.done_bytes);
    // Touching it all within the window is what a real run would have paid for.
    let refaulted = |run: &mut Run| run.account().0.refaulted_bytes;
    run.touch_until(0, 32 * MIB, |run| refaulted(run) > before.refaulted_bytes);
    let (after, _) = run.account();
    assert!(after.refaulted_bytes > before.refaulted_bytes, "no refaults foreseen: {after:?}");
}

#[test]
fn a_size_quota_and_a_time_quota_hold() {
    let Some(_swap) = swap(256) else { return };
    for (name, sz, ms, dry_run) in
        [("size", 4 * MIB, 0, false), ("time", 0, 5, false), ("time, dry", 0, 5, true)]
    {
        let (mut scheme, settings) = pageout(500_000, Evidence::Confirm(1_000_000));
        scheme.quota.sz = sz;
        scheme.quota.ms = ms;
        scheme.quota.reset_interval_ms = 1000;
        let settings = Settings { dry_run, ..settings };
        let mut run = Run::start(128, "small", vec![(scheme, settings)]);
        run.touch_for(7.0, 0, 4 * MIB);
        // Arming is paid from the time quota, too, and comes first: on an emulated machine it takes
        // many windows.
        run.touch_until(0, 4 * MIB, |run| {
            let (account, stats) = run.account();
            account.done_bytes > 0 && (sz == 0 || stats.qt_exceeds > 0)
        });
        let (account, stats) = run.account();
        eprintln!("{name}: {account:?} {stats:?}");
        assert!(account.done_bytes > 0, "{name}: nothing was done");
        if sz > 0 {
            assert!(stats.max_window_sz <= sz + MIB, "{name}: {} bytes", stats.max_window_sz);
            assert!(stats.qt_exceeds > 0, "{name}: the quota was never used up");
        }
        if ms > 0 {
            // One batch more at most; what a batch takes is the machine's affair, so bytes are
            // checked.
            assert!(account.done_bytes < 120 * MIB, "{name}: all of it went at once");
        }
    }
}

fn thp_is_always_on() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.unwrap().contains("[always]")
}

/// The scheme asks for more samples than there are, so no region matches.
#[test]
fn units_in_use_become_huge_though_their_region_is_touched_less_often() {
    if thp_is_always_on() {
        return eprintln!("skipped: THP is always on here, so all is huge from the start");
    }
    let pattern = Pattern { nr_accesses: Frequency::Samples(Bounds::new(21, 99)), ..Pattern::ALL };
    let scheme = Scheme { pattern, action: Action::Collapse, ..Scheme::default() };
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let mut run = Run::start_with(32, "as set", vec![(scheme, Settings::default())], attrs);
    let huge = |run: &Run| run.target.smaps("AnonHugePages:") << 10;
    run.touch_until(0, 16 * MIB, |run| huge(run) >= 12 * MIB);
    let (account, _) = run.account();
    eprintln!("{} bytes are huge: {account:?}", huge(&run));
    assert!((12 * MIB..=18 * MIB).contains(&huge(&run)), "{} bytes are huge", huge(&run));
    assert!(account.dense_bytes >= 12 * MIB && account.dense_bytes <= account.looked_bytes);
    assert!(account.most_touched_bp >= 5_000, "{account:?}");
}

#[test]
fn huge_pages_are_made_of_what_is_used() {
    if thp_is_always_on() {
        return eprintln!("skipped: THP is always on here, so all is huge from the start");
    }
    let pattern = Pattern { nr_accesses: Frequency::Samples(Bounds::new(1, 20)), ..idle_for(0) };
    let scheme = Scheme { pattern, action: Action::Collapse, ..Scheme::default() };
    let mut run = Run::start(32, "as set", vec![(scheme, Settings::default())]);
    let huge = |run: &Run| run.target.smaps("AnonHugePages:") << 10;
    run.touch_until(0, 16 * MIB, |run| huge(run) >= 12 * MIB);
    let huge = huge(&run);
    let (account, _) = run.account();
    eprintln!("{account:?}");
    assert!(huge >= 12 * MIB, "only {huge} bytes are huge");
    assert!(account.done_bytes >= huge.min(16 * MIB), "{account:?}");
    assert_eq!(run.target.say("wrong"), "0", "pages with another content");
}

/// What the target's memory is told before: to refuse huge pages (`small`), or nothing (`as set`).
#[test]
fn huge_page_advice_is_given_by_the_target_and_can_be_taken_back() {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap();
    for pages in ["small", "as set"] {
        if pages == "as set" && thp_is_always_on() {
            eprintln!("skipped: THP is always on here, so there is nothing to wish for");
            continue;
        }
        let pattern =
            Pattern { nr_accesses: Frequency::Samples(Bounds::new(1, 20)), ..idle_for(0) };
        let scheme = Scheme { pattern, action: Action::Hugepage, ..Scheme::default() };
        let settings = Settings { inject: true, ..Settings::default() };
        let mut run = Run::start(32, pages, vec![(scheme, settings)]);
        // Since Linux 6.7 the kernel itself sets this on stacks of threads (`MAP_STACK`). So some
        // memory has it "as set", and a stack in use is hot.
        let refused_before = run.advised("nh");
        run.touch_until(0, 16 * MIB, |run| run.account().0.done_bytes >= 12 * MIB);
        let (account, _) = run.account();
        eprintln!("{account:?}");
        let (advised, refused) = (run.advised("hg"), run.advised("nh"));
        assert!(advised >= 12 * MIB, "only {advised} bytes have the flag");
        let undone = run.undo();
        assert!(undone.errors.is_empty(), "{undone:?}");
        // The kernel cannot remove advice. So its opposite is set where it was before, or where
        // that matters, and only there.
        let Undone { restored_bytes, replaced_bytes, left_bytes, .. } = undone;
        let had_none = account.done_bytes - restored_bytes;
        let want = if setting.contains("[madvise]") { (had_none, 0) } else { (0, had_none) };
        assert_eq!((replaced_bytes, left_bytes), want, "{pages}");
        assert!(restored_bytes <= refused_before, "{pages}: {restored_bytes} {refused_before}");
        if pages == "small" {
            assert!(restored_bytes >= 12 * MIB, "{pages}: only {restored_bytes} restored");
        }
        assert_eq!(run.advised("hg"), left_bytes, "{pages}: some advice stayed");
        assert_eq!(run.advised("nh"), refused + advised - left_bytes, "{pages}");
        assert_eq!(run.target.say("wrong"), "0", "pages with another content");
    }
}

#[test]
fn without_swap_nothing_is_done_and_the_reason_is_told() {
    // The tests beside this one set up swap for themselves.
    let _no_zram = keep_off().unwrap();
    if std::fs::read_to_string("/proc/swaps").unwrap().lines().count() > 1 {
        eprintln!("skipped: this machine has swap");
        return;
    }
    let mut run = Run::start(16, "small", vec![pageout(300_000, Evidence::Off)]);
    run.touch_for(2.0, 0, MIB);
    run.touch_until(0, MIB, |run| run.told("no swap"));
    let (account, stats) = run.account();
    assert_eq!((account.asked_bytes, account.done_bytes, stats.nr_applied), (0, 0, 0));
    assert!(run.told("no swap"), "nobody was told");
}
