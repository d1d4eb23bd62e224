//! `isotherm tune` on real processes: a winner, everything put back, and what goes wrong.

use std::fs;
use std::path::Path;

use isotherm::raw::host::zram::{Zram, keep_off};
use serde_json::Value;

use crate::program::{ISOTHERM, Running, Said, command, isotherm, scratch, wait_until};

pub(crate) const M: u64 = 1 << 20;

/// 16 MiB are written all the time, 48 MiB were written once.
const WORKLOAD: &str = "@seed=1\nhot, 16M, none, populate=yes\ncold, 48M, none, populate=yes\n\n\
                        steady\n600000\nhot, 0, 4096, 1, rw, rate=2000\n";

/// A policy without targets that pages out next to nothing.
const POLICY: &str = r#"[[context]]
name = "c"
[[context.scheme]]
name = "cold"
action = "pageout"
age = "1s.."
quota = { size = "64K", interval = "1s" }
brake = "off"
"#;

/// Bytes that are resident and in swap.
pub(crate) fn memory(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |text| text.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
    };
    (field("VmRSS:"), field("VmSwap:"))
}

/// Starts a workload, and waits until so many bytes of it are resident.
pub(crate) fn started(dir: &Path, text: &str, bytes: u64) -> Running {
    fs::write(dir.join("w"), text).unwrap();
    let target = Running::start(command(ISOTHERM, dir, &["workload", "w", "-q"]));
    wait_until("the memory to be there", || memory(target.pid()).0 >= bytes);
    target
}

fn workload(dir: &Path) -> Running {
    started(dir, WORKLOAD, 64 * M)
}

/// Swap of 256 MiB; `None`, printed, where there is none to be had. It is taken down when dropped.
pub(crate) fn swap() -> Option<Zram> {
    match Zram::set_up(256 * M) {
        Ok(swap) => Some(swap),
        Err(err) if err.is_missing() => {
            eprintln!("skipped: {err}");
            None
        }
        Err(err) => panic!("{err}"),
    }
}

fn tune(dir: &Path, args: &str) -> Running {
    fs::write(dir.join("p.toml"), POLICY).unwrap();
    let args: Vec<&str> = ["tune", "p.toml"].into_iter().chain(args.split_whitespace()).collect();
    Running::start(command(ISOTHERM, dir, &args))
}

fn put_back(target: &Running) {
    let pid = target.pid();
    // What was paged out is resident again; the kernel may have taken some pages on its own.
    wait_until("the memory to be back", || memory(pid).1 < 2 * M && memory(pid).0 > 60 * M);
}

#[test]
fn a_bad_start_becomes_a_good_policy_and_everything_is_put_back() {
    let Some(_swap) = swap() else { return };
    let dir = scratch();
    let target = workload(dir.path());
    let args = format!(
        "-p {} --range cold.quota.size=64K..256M --phase 1s --watch 0s --trials 4 --candidates 3 \
         --max-slowdown 100% --weight 0 -o best.toml --json",
        target.pid()
    );
    let said = tune(dir.path(), &args).finish();
    said.expect(0, &["tuning cold.quota.size=64K..256M", "CPU seconds only", "putting everything"]);
    let told: Value = serde_json::from_str(&said.out).unwrap();
    let winner = usize::try_from(told["winner"].as_u64().unwrap()).unwrap();
    let of = |at: usize| told["candidates"][at]["saved"]["mid"].as_f64().unwrap();
    // Three quarters are cold; the start lets 64 KiB go per second.
    assert!(of(winner) > 0.5 && of(0) < 0.2, "{told:#}");
    assert!(told["beats_start"].as_f64().unwrap() > 0.8, "{told:#}");
    assert_eq!(told["candidates"][0]["from"], "start");
    assert!(told["trials"].as_u64().unwrap() <= 4, "{told:#}");
    put_back(&target);
    let best = fs::read_to_string(dir.path().join("best.toml")).unwrap();
    let size = told["candidates"][winner]["parameters"]["cold.quota.size"].as_str().unwrap();
    assert!(best.contains(&format!("size = \"{size}\"")), "{best}");
    // It is a policy that runs.
    assert!(best.contains(&format!("targets = [{{ pid = {} }}]", target.pid())), "{best}");
    isotherm(dir.path(), "run best.toml --check").expect(0, &[]);
}

/// Bytes that huge pages map.
fn huge(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    line.map_or(0, |kib| kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
}

/// A phase without schemes would otherwise have the huge pages of the trial before it.
#[test]
fn huge_pages_of_a_trial_are_small_again_afterwards() {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap();
    if setting.contains("[always]") {
        return eprintln!("skipped: THP is always on here, so all is huge from the start");
    }
    let dir = scratch();
    // Without advice to use small pages only, and touched often enough.
    let swift = WORKLOAD.replace("none, populate", "none, thp=default, populate");
    fs::write(dir.path().join("w"), swift.replace("rate=2000", "rate=200000")).unwrap();
    let target = Running::start(command(ISOTHERM, dir.path(), &["workload", "w", "-q"]));
    let pid = target.pid();
    wait_until("the memory to be there", || memory(pid).0 >= 64 * M);
    let before = huge(pid);
    let policy = POLICY.replace("\"cold\"", "\"hot\"").replace("pageout", "collapse");
    let of_pageout = ["age = ", "quota = ", "brake = "];
    let lines = policy.lines().filter(|line| !of_pageout.iter().any(|key| line.starts_with(key)));
    let policy: String = lines.flat_map(|line| [line, "\n"]).collect();
    fs::write(dir.path().join("huge.toml"), policy + "frequency = \"0%..\"\n").unwrap();
    let args = format!(
        "tune huge.toml -p {pid} --range hot.min_touched=5%..50% --phase 1s --watch 0s --trials 2 \
         --candidates 2 --max-slowdown 100%"
    );
    let args: Vec<&str> = args.split_whitespace().collect();
    let tuning = Running::start(command(ISOTHERM, dir.path(), &args));
    wait_until("huge pages to be made", || huge(pid) >= before + 8 * M);
    wait_until("them to be split", || huge(pid) <= before);
    let said = tuning.finish();
    assert!(said.err.contains("putting everything back"), "{said:#?}");
    assert!(!said.err.contains("stay"), "{said:#?}");
    wait_until("small pages at the end", || huge(pid) <= before);
}

#[test]
fn a_signal_or_the_end_of_the_target_ends_tuning() {
    let Some(_swap) = swap() else { return };
    let dir = scratch();
    let target = workload(dir.path());
    let args =
        format!("-p {} --phase 1s --watch 0s --range cold.quota.size=1M..256M", target.pid());
    let tuning = tune(dir.path(), &args);
    wait_until("memory to leave", || memory(target.pid()).1 > M);
    tuning.signal("TERM");
    let said = tuning.finish();
    said.expect(6, &["putting everything back"]);
    assert!(said.out.contains("No winner: tuning was ended by a signal"), "{said:#?}");
    put_back(&target);

    let tuning = tune(dir.path(), &args);
    wait_until("memory to leave", || memory(target.pid()).1 > M);
    drop(target);
    let said = tuning.finish();
    said.expect(5, &["the targets ended during tuning", "hint:"]);
    assert!(said.out.contains("ended by the end of the targets"), "{said:#?}");
}

/// The latency grows with what is in swap, so whoever takes much is far too slow at once.
#[test]
fn a_trial_that_breaks_the_limit_is_stopped_and_put_back() {
    let Some(_swap) = swap() else { return };
    let dir = scratch();
    let target = workload(dir.path());
    let latency =
        format!("awk '/VmSwap/ {{ print 1 + int($2 / 2048) }}' /proc/{}/status", target.pid());
    fs::write(dir.path().join("p.toml"), POLICY).unwrap();
    let pid = target.pid().to_string();
    let args = [
        "tune",
        "p.toml",
        "-p",
        &pid,
        "--phase",
        "5s",
        "--watch",
        "0s",
        "--trials",
        "2",
        "--candidates",
        "2",
        "--range",
        "cold.quota.size=16M..256M",
        "--json",
        "--latency-cmd",
        &latency,
    ];
    let said = Running::start(command(ISOTHERM, dir.path(), &args)).finish();
    let told: Value = serde_json::from_str(&said.out).unwrap();
    let candidate = &told["candidates"][1];
    assert_eq!(candidate["over_limit"], true, "{told:#}");
    // The start lets 64 KiB go per second, which the latency does not show. Where the kernel pages
    // out idle memory meanwhile, the start may even win.
    assert_ne!(told["winner"], 1, "{told:#}");
    let named = told["winner"] == 0;
    said.expect(if named { 0 } else { 6 }, &["stopped, far above the limit", "putting everything"]);
    assert!(candidate["slowdown"]["mid"].as_f64().unwrap() > 0.5, "{told:#}");
    put_back(&target);
}

/// A file counts the target's clock ticks. That shows whether it runs, as a counter of work does.
#[test]
fn work_counted_in_a_file_and_stall_on_memory_tell_of_the_slowdown() {
    let Some(_swap) = swap() else { return };
    let dir = scratch();
    let target = workload(dir.path());
    let pid = target.pid();
    let count = format!(
        "while sleep 0.05; do awk '{{ print $14 + $15 }}' /proc/{pid}/stat >new && mv new work; done"
    );
    let _counter = Running::start(command("sh", dir.path(), &["-c", &count]));
    wait_until("the counter", || dir.path().join("work").exists());
    for (by, told_by) in [("--progress work", "work counted in work"), ("--psi", "PSI")] {
        let args = format!(
            "-p {pid} --range cold.quota.size=64K..256M --phase 1s --watch 0s --trials 4 \
             --candidates 3 --max-slowdown 100% --weight 0 --json {by}"
        );
        if by == "--psi" && !Path::new("/proc/pressure/memory").exists() {
            eprintln!("skipped: no pressure is told here");
            continue;
        }
        let said = tune(dir.path(), &args).finish();
        said.expect(0, &[told_by]);
        let told: Value = serde_json::from_str(&said.out).unwrap();
        let winner = usize::try_from(told["winner"].as_u64().unwrap()).unwrap();
        let of = |key: &str| told["candidates"][winner][key]["mid"].as_f64().unwrap();
        assert!(of("saved") > 0.5 && of("slowdown").abs() < 1.0, "{by}: {told:#}");
        put_back(&target);
    }
}

#[test]
fn no_swap_is_said_before_anything_is_done() {
    let _off = match keep_off() {
        Ok(off) => off,
        Err(err) => return eprintln!("skipped: {err}"),
    };
    if !fs::read_to_string("/proc/meminfo").unwrap().contains("SwapTotal:             0 kB") {
        return eprintln!("skipped: this machine has swap of its own");
    }
    let dir = scratch();
    let target = workload(dir.path());
    let said = tune(dir.path(), &format!("-p {}", target.pid())).finish();
    said.expect(3, &["no swap", "hint:"]);
    assert!(said.out.is_empty(), "{said:#?}");
}

#[test]
fn bad_input_is_told_with_its_place() {
    let dir = scratch();
    fs::write(dir.path().join("p.toml"), POLICY).unwrap();
    let run = |args: &str| -> Said { isotherm(dir.path(), args) };
    run("tune p.toml --range cold.agee=1s..2s -p 1").expect(2, &["did you mean `age`?"]);
    run("tune p.toml --range cold.age=2s..2s -p 1").expect(2, &["is empty"]);
    run("tune p.toml --range warm.age=1s..2s -p 1").expect(2, &["no scheme `warm`"]);
    run("tune p.toml --range cold.min_touched=1%..2% -p 1").expect(2, &["does not use"]);
    run("tune p.toml --phase 0s -p 1").expect(2, &["--phase is 0"]);
    run("tune p.toml --psi --progress f -p 1").expect(2, &["cannot be used with"]);
    run("tune p.toml").expect(2, &["has no target"]);
    run("tune none.toml").expect(2, &["cannot read none.toml"]);
    let table = format!("{POLICY}[tune]\nrange = [\"cold.age=9s..1s\"]\nrate = 3\n");
    fs::write(dir.path().join("bad.toml"), table).unwrap();
    run("tune bad.toml -p 1").expect(2, &["bad.toml:10:10", "is empty", "bad.toml:11:1", "`rate`"]);
    fs::write(dir.path().join("dry.toml"), format!("{POLICY}dry_run = true\n")).unwrap();
    run("tune dry.toml -p 1").expect(2, &["is a dry run"]);
    fs::write(
        dir.path().join("stat.toml"),
        POLICY.replace("pageout", "stat").replace("brake", "#"),
    )
    .unwrap();
    run("tune stat.toml -p 1").expect(2, &["has nothing to tune"]);
}
