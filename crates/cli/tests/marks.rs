//! Actions with evidence from idle page tracking, on a kernel that has it: on physical memory, and
//! on processes without reading page tables.
//!
//! The kernel tells the truth: `pagemap` of a workload that keeps a hot and a cold part in one
//! process, and says where they are. The tests run only if `ISOTHERM_LAB=1` says that the machine
//! is for tests, because marks, swap and huge page settings are those of the whole machine.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    reason = "numbers are shown, and one of the tests is a workload of its own"
)]

#[path = "marks/world.rs"]
mod world;

use serde_json::Value;
use world::{Group, MIB, Run, Workload, lab};

/// Runs a policy for a time, and returns the account of its scheme.
fn policy(target: &str, more: &str, seconds: u32) -> Run {
    policy_of("pageout", "ops = \"idle\"", target, more, seconds)
}

fn policy_of(action: &str, ops: &str, target: &str, more: &str, seconds: u32) -> Run {
    let text = format!(
        "[[context]]\nname = \"m\"\n{ops}\ntargets = [{target}]\n\
         intervals = {{ sample = \"100ms\", aggregation = \"1s\" }}\n\
         [[context.scheme]]\nname = \"cold\"\naction = \"{action}\"\nsize = \"4K..\"\nfrequency = \"0%\"\nage = \"2s..\"\n\
         evidence = {{ confirm = \"1s\" }}\n{more}\n"
    );
    Run::start(&text, seconds)
}

const NO_QUOTA: &str = "quota = \"none\"\nbrake = \"off\"";
const ALL: &str = "{ paddr = \"all\" }";

fn mib(account: &Value, key: &str) -> u64 {
    account[key].as_u64().unwrap_or(0) >> 20
}

/// Fails if the hot part was acted on, which must never happen.
fn hot_stayed(work: &Workload, account: &Value) {
    let hot = work.hot();
    eprintln!("hot: {hot:?}; cold: {:?}", work.cold());
    // On an overloaded machine, a page or two can wait long for their next touch.
    let went = hot.swapped > 64 || hot.present == 0;
    assert!(!went, "hot memory was paged out: {hot:?}\n{account:#}");
}

#[test]
fn workload() {
    world::be_workload();
}

#[test]
fn physical_cold_memory_goes_and_hot_memory_stays() {
    let Some(_lab) = lab() else { return };
    let work = Workload::start(64, 16, false);
    let run = policy(ALL, NO_QUOTA, 150);
    let gone = run.until(|| work.cold().swapped * 4096 >= 32 * MIB);
    let account = run.stop();
    assert!(gone, "too little was paged out: {:?}\n{account:#}", work.cold());
    hot_stayed(&work, &account);
    let sum = ["confirmed_bytes", "asked_bytes", "done_bytes"].map(|key| mib(&account, key));
    assert!(sum[0] >= sum[1] && sum[1] >= sum[2] && sum[2] >= 24, "{sum:?}\n{account:#}");
}

#[test]
fn physical_filters_keep_what_they_name() {
    let Some(_lab) = lab() else { return };
    // The cold part of the first is in huge pages, which the filter keeps.
    let huge = Workload::start(64, 4, true);
    if huge.cold().huge < 8 {
        eprintln!("skipped: there were no huge pages to be had: {:?}", huge.cold());
        return;
    }
    let small = Workload::start(48, 4, false);
    let more = format!("{NO_QUOTA}\nfilters = [\"reject hugepage_size 2M..\", \"reject file\"]");
    let run = policy(ALL, &more, 150);
    let gone = run.until(|| small.cold().swapped * 4096 >= 24 * MIB);
    let account = run.stop();
    assert!(gone, "{:?}\n{account:#}", small.cold());
    let kept = huge.cold();
    assert!(kept.swapped * 4096 < 4 * MIB, "huge pages went: {kept:?}\n{account:#}");
    for work in [&huge, &small] {
        hot_stayed(work, &account);
    }
}

#[test]
fn physical_filters_let_in_what_the_kernel_counts() {
    let Some(_lab) = lab() else { return };
    // With the multi-generational LRU no page is on an active list.
    let _classic = world::ClassicLru::set();
    let group = Group::new("isotherm-filters");
    let work = Workload::start_in(&group.0, 64, 16, true);
    let _small = Workload::start(32, 4, false);
    // `stat` counts the memory that passes the filters. The test compares it with the kernel's own
    // counts.
    let cases = [
        ("anon", "\"allow anon\""),
        ("file", "\"allow file\""),
        ("unmapped", "\"reject anon\", \"allow unmapped\""),
        ("active", "\"allow active\""),
        ("huge", "\"reject file\", \"allow hugepage_size 2M..\""),
        ("group", "\"reject file\", \"allow memcg /isotherm-filters\""),
        ("young", "\"reject not memcg /isotherm-filters\", \"allow young\""),
    ];
    let scheme = |(name, filters): &(&str, &str)| {
        format!(
            "[[context.scheme]]\nname = \"{name}\"\naction = \"stat\"\nfilters = [{filters}]\nmax_snapshots = 1\n"
        )
    };
    let text = format!(
        "[[context]]\nname = \"m\"\nops = \"idle\"\ntargets = [{ALL}]\n\
         intervals = {{ sample = \"500ms\", aggregation = \"10s\" }}\n{}",
        cases.iter().map(scheme).collect::<String>()
    );
    let run = Run::start(&text, 150);
    let all = |schemes: &Value| (0..cases.len()).all(|nr| mib(&schemes[nr], "passed_bytes") > 0);
    let had_all = run.until_accounts(all);
    let kernel = world::kernel_counts(&group.0);
    let schemes = run.stop_all();
    assert!(had_all, "{schemes:#}");
    for (nr, (name, filters)) in cases.iter().enumerate() {
        let ours = mib(&schemes[nr], "passed_bytes");
        let (least, most) = match *name {
            // Pages that were not marked are young, so all of it may be; the hot part is in any
            // case.
            "young" => (14, kernel["group"] + 2),
            name => {
                let truth = kernel[name];
                (truth.saturating_sub(truth / 8 + 4), truth + truth / 8 + 4)
            }
        };
        eprintln!("{name}: {ours} MiB, kernel {:?}; {:?}", kernel.get(name), work.hot());
        assert!(
            (least..=most).contains(&ours),
            "{filters}: {ours} of {least}..{most} MiB\n{schemes:#}"
        );
    }
}

#[test]
fn physical_quota_and_dry_run_hold() {
    let Some(_lab) = lab() else { return };
    let work = Workload::start(64, 4, false);
    let run = policy(ALL, "dry_run = true\nquota = \"none\"\nbrake = \"off\"", 150);
    let would = run.until_account(|a| mib(a, "asked_bytes") >= 24);
    let account = run.stop();
    assert!(would, "{account:#}");
    assert_eq!(work.cold().swapped, 0, "a dry run did something");
    let run = policy(ALL, "quota = { size = \"4M\", interval = \"1s\" }\nbrake = \"off\"", 150);
    let some = run.until_account(|a| mib(a, "done_bytes") >= 8);
    let account = run.stop();
    assert!(some, "{account:#}");
    assert!(mib(&account, "max_window_bytes") <= 6, "{account:#}");
}

#[test]
fn what_comes_back_is_counted() {
    let Some(_lab) = lab() else { return };
    let mut work = Workload::start(64, 4, false);
    let more = format!("{NO_QUOTA}\nrefault_window = \"60s\"");
    let run = policy(ALL, &more, 200);
    let gone = run.until(|| work.cold().swapped * 4096 >= 24 * MIB);
    assert!(gone, "{:?}", work.cold());
    work.touch_cold();
    let seen = run.until_account(|a| mib(a, "refaulted_bytes") >= 8);
    let account = run.stop();
    assert!(seen, "{account:#}");
}

#[test]
fn process_cold_memory_goes_and_hot_memory_stays() {
    let Some(_lab) = lab() else { return };
    for huge in [false, true] {
        let work = Workload::start(64, 16, huge);
        let target = format!("{{ pid = {} }}", work.pid());
        let run = policy(&target, NO_QUOTA, 150);
        let gone = run.until(|| work.cold().swapped * 4096 >= 48 * MIB);
        let account = run.stop();
        assert!(gone, "huge pages: {huge}: {:?}\n{account:#}", work.cold());
        hot_stayed(&work, &account);
        assert!(mib(&account, "done_bytes") >= 40, "{account:#}");
    }
}

#[test]
fn a_process_that_ends_is_no_trouble() {
    let Some(_lab) = lab() else { return };
    let work = Workload::start(32, 4, false);
    let target = format!("{{ pid = {} }}", work.pid());
    let run = policy(&target, NO_QUOTA, 60);
    run.until_account(|a| mib(a, "armed_bytes") > 0);
    drop(work);
    let account = run.wait();
    assert_eq!(account["blocked"], Value::Null, "{account:#}");
}

#[test]
fn physical_cold_memory_moves_to_the_other_node() {
    let Some(_lab) = lab() else { return };
    if !std::path::Path::new("/sys/devices/system/node/node1").exists() {
        eprintln!("skipped: one memory node");
        return;
    }
    let work = Workload::start(48, 8, false);
    let more = format!("{NO_QUOTA}\ntarget_node = 1");
    let node = "{ paddr = \"node:0\" }";
    let run = policy_of("migrate_cold", "ops = \"idle\"", node, &more, 150);
    let moved = run.until_account(|a| mib(a, "done_bytes") >= 24);
    let account = run.stop();
    assert!(moved, "{account:#}");
    let [cold, hot] = [work.cold_on_node(1), work.hot_on_node(1)];
    eprintln!("on node 1: cold {cold} pages of {}, hot {hot}", 48 * 256);
    assert!(cold * 4096 >= 16 * MIB, "{cold} pages of the cold part moved\n{account:#}");
    assert!(hot <= 64, "{hot} hot pages were moved\n{account:#}");
}
