//! Policies that cannot be read, that the machine cannot apply, and that change while they run.

use std::fs;
use std::path::Path;

use isotherm::raw::agent::policy::{parse, print};
use serde_json::Value;

use crate::program::{ISOTHERM, Public, Running, command, isotherm, scratch, wait_until};

/// A policy for one target that needs no privileges and no swap.
pub(crate) fn counting(pid: u32, more: &str) -> String {
    format!(
        "[[context]]\nname = \"c\"\ntargets = [{{ pid = {pid} }}]\nops = \"smaps\"\n[[context.scheme]]\n\
         name = \"all\"\naction = \"stat\"\n{more}"
    )
}

fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").unwrap().lines().count() > 1
}

/// The lines of an event log so far.
pub(crate) fn events(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("events")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn wait_for(dir: &Path, event: &str) {
    wait_until(event, || events(dir).iter().any(|e| e["event"] == event));
}

/// The last line of standard output.
pub(crate) fn account(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn what_is_wrong_in_a_policy_is_shown_where_it_stands() {
    let dir = scratch();
    let scheme =
        "[[context]]\nname = \"c\"\ntargets = [{ pid = 1 }]\n[[context.scheme]]\nname = \"s\"\n";
    let cases: &[(&str, &[&str])] = &[
        ("action = \"pagout\"\n", &["p.toml:6:10", "unknown action `pagout`", "pageout"]),
        ("action = \"stat\"\nagee = \"3s\"\n", &["p.toml:7:1", "`agee`", "did you mean `age`?"]),
        ("action = \"stat\"\nage = \"3s..1s\"\n", &["p.toml:7:7", "3s..1s"]),
        ("action = \"stat\"\nage = \n", &["p.toml:7:"]),
        ("action = \"stat\"\nfilters = [\"reject anonn\"]\n", &["p.toml:7:", "anonn", "anon"]),
        ("action = \"pageout\"\nquota = { size = \"0\" }\n", &["p.toml:7:"]),
        (
            "action = \"pageout\"\nquota = { goals = [{ metric = \"psi\", target = \"1ms\" }] }\n",
            &["p.toml:7:", "`psi`"],
        ),
    ];
    for (rest, parts) in cases {
        fs::write(dir.path().join("p.toml"), format!("{scheme}{rest}")).unwrap();
        for what in ["run p.toml", "run --check p.toml"] {
            isotherm(dir.path(), what).expect(2, parts);
        }
    }
    // Both errors are reported, not only the first.
    fs::write(dir.path().join("p.toml"), format!("{scheme}action = \"x\"\nagee = 1\n")).unwrap();
    isotherm(dir.path(), "run p.toml").expect(2, &["p.toml:6:10", "p.toml:7:1"]);
    isotherm(dir.path(), "run nosuch.toml").expect(2, &["nosuch.toml", "tried:", "hint:"]);
    fs::write(dir.path().join("p.damos"), "4K max min min 3s max pagout\n").unwrap();
    isotherm(dir.path(), "schemes p.damos -p 1").expect(2, &["p.damos:1:", "pagout"]);
}

#[test]
fn what_the_machine_cannot_do_is_refused_before_anything_is_done() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let pid = target.pid();
    let check = |text: String, code: i32, parts: &[&str]| {
        fs::write(dir.path().join("p.toml"), text).unwrap();
        for what in ["run --check p.toml", "run p.toml"] {
            isotherm(dir.path(), what).expect(code, parts);
        }
    };
    let two = |action: &str| format!("[[context.scheme]]\nname = \"two\"\n{action}\n");
    let node = two("action = \"migrate_cold\"\ntarget_node = 999");
    check(counting(pid, &node).replace("smaps", "pagewalk"), 3, &["`two`", "999", "why:"]);
    let cold = two("action = \"cold\"\nage = \"3s..\"");
    check(counting(pid, &cold), 3, &["`two`", "`smaps`", "single pages", "hint:"]);
    check(counting(999_999_999, ""), 5, &["999999999", "no process has this pid"]);
    check(counting(2, ""), 2, &["thread of the kernel"]);
    let nowhere = counting(pid, "").replace("{ pid", "{ cgroup = \"/no/such\" }, { pid");
    check(nowhere, 3, &["/no/such", "why:"]);
    fs::write(dir.path().join("p.toml"), counting(pid, "")).unwrap();
    let said = isotherm(dir.path(), "run --check p.toml");
    assert!(said.expect(0, &[]).out.contains("valid"), "{said:#?}");
    let swap = has_swap();
    let args = format!("reclaim --watermarks none --duration 500ms -p {pid}");
    let said = isotherm(dir.path(), &args);
    // All tests share the machine's swap, and another test may have it on for a while.
    if swap || has_swap() {
        eprintln!("skipped in part: this machine has swap");
    } else {
        said.expect(3, &["no swap", "zram", "reject anon", "--dry-run"]);
    }
    target.assert_untouched();
    // A user who may not look at pages may not act on them.
    let public = Public::new();
    let said = public.isotherm("lru-sort --watermarks none -- sleep 100");
    said.expect(4, &["`pagewalk`", "CAP_BPF", "hint:"]);
}

#[test]
fn unknown_words_and_impossible_flags() {
    let dir = scratch();
    let cases: &[(&str, &[&str])] = &[
        ("reclaim", &["nothing to watch", "--name", "--cgroup"]),
        ("reclaim --age soon -p 1", &["--age", "soon"]),
        ("reclaim --quota 0/s -p 1", &["--quota", "4K"]),
        ("reclaim --quota 200M -p 1", &["200M/s"]),
        ("reclaim --goal hunger=1 -p 1", &["--goal", "psi=0.5ms/s"]),
        ("reclaim --watermarks 20%,40%,50% -p 1", &["HIGH"]),
        ("reclaim --evidence off --confirm 3s -p 1", &["nothing to confirm"]),
        ("reclaim --evidence perhaps -p 1", &["perhaps"]),
        ("thp --hot-min 200% -p 1", &["--hot-min"]),
        ("schemes nosuch.damos -p 1", &["nosuch.damos", "hint:"]),
        ("run", &["POLICY"]),
    ];
    for (args, parts) in cases {
        isotherm(dir.path(), args).expect(2, parts);
    }
}

#[test]
fn a_printed_policy_is_read_as_the_same() {
    let dir = scratch();
    let damos = "4K max min min 3s max pageout\nmin max 5% max min max stat\n";
    fs::write(dir.path().join("p.damos"), damos).unwrap();
    for args in [
        "reclaim",
        "reclaim --age 10s --quota 200M/s --goal psi=0.5ms/s --goal refaults=1% --skip-anon",
        "reclaim --evidence off --no-priority --no-brake --watermarks none --quota none",
        "thp",
        "thp --inject --min-touched 75%",
        "lru-sort --hot --active-mem 60%",
        "stat --name redis* --cgroup /a/b",
        "schemes p.damos -p 1 --no-children",
    ] {
        let said = isotherm(dir.path(), &format!("{args} --print-policy"));
        let text = &said.expect(0, &[]).out;
        let policy = parse(text, "printed").unwrap_or_else(|e| panic!("{args}: {e}\n{text}"));
        assert_eq!(&print(&policy), text, "{args}");
    }
}

#[test]
fn a_bad_policy_leaves_the_old_one_in_force_and_a_good_one_keeps_the_counters() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let write = |text: &str| fs::write(dir.path().join("p.toml"), text).unwrap();
    write(&counting(target.pid(), ""));
    let args = ["run", "p.toml", "--json", "--events", "events"];
    let run = Running::start(command(ISOTHERM, dir.path(), &args));
    let windows = |events: &[Value]| {
        let last = events.iter().rev().find(|e| e["event"] == "summary");
        last.and_then(|e| e["schemes"][0]["windows"].as_u64()).unwrap_or(0)
    };
    wait_until("a window", || windows(&events(dir.path())) > 0);
    write("[[context]]\nname = \"c\"\naction = 7\n");
    run.signal("HUP");
    wait_for(dir.path(), "commit_refused");
    // A policy that names something that is gone from the machine is refused as well.
    write(&counting(999_999_999, ""));
    run.signal("HUP");
    wait_until("two refusals", || {
        events(dir.path()).iter().filter(|e| e["event"] == "commit_refused").count() == 2
    });
    let before = windows(&events(dir.path()));
    assert!(events(dir.path()).iter().all(|e| e["event"] != "committed"));
    // The old scheme moves to the second place, and keeps what it counted.
    let new = "[[context.scheme]]\nname = \"new\"\naction = \"stat\"\nage = \"1s..\"\n";
    let old = counting(target.pid(), "");
    let at = old.find("[[context.scheme]]").unwrap();
    write(&format!("{}{new}{}", &old[..at], &old[at..]));
    run.signal("HUP");
    wait_for(dir.path(), "committed");
    wait_until("a window under the new policy", || {
        let events = events(dir.path());
        let last = events.iter().rev().find(|e| e["event"] == "summary");
        let schemes = last.and_then(|e| e["schemes"].as_array()).into_iter().flatten();
        let mut new = schemes.filter(|s| s["name"] == "new");
        new.any(|s| s["windows"].as_u64() > Some(0))
    });
    run.signal("TERM");
    let said = run.finish();
    said.expect(0, &["the old policy stays in force", "p.toml:3:1", "the new policy is in force"]);
    let account = account(&said.out);
    assert_eq!(account["stopped"], "signal");
    let of = |name: &str| {
        let schemes = account["schemes"].as_array().unwrap();
        let scheme = schemes.iter().find(|s| s["name"] == name).unwrap();
        scheme["windows"].as_u64().unwrap()
    };
    assert!(of("all") >= before, "{account}");
    assert!(of("new") < of("all"), "the new scheme has the old one's counters: {account}");
    target.assert_untouched();
}

#[test]
fn a_command_stays_the_target_when_the_policy_is_read_again() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let of_command = counting(1, "").replace("targets = [{ pid = 1 }]\n", "");
    let write = |text: &str| fs::write(dir.path().join("p.toml"), text).unwrap();
    write(&of_command);
    isotherm(dir.path(), "run p.toml").expect(2, &["context `c` has no target", "-- CMD"]);
    let args = ["run", "p.toml", "--json", "--events", "events", "--", "sleep", "100"];
    let run = Running::start(command(ISOTHERM, dir.path(), &args));
    wait_for(dir.path(), "target_added");
    let more = format!("targets = [{{ pid = {} }}]\n[[context.scheme]]", target.pid());
    write(&of_command.replacen("[[context.scheme]]", &more, 1));
    run.signal("HUP");
    wait_for(dir.path(), "committed");
    let added = || events(dir.path()).iter().filter(|e| e["event"] == "target_added").count();
    wait_until("the second target", || added() == 2);
    // One context is added, and one is removed.
    write(&counting(target.pid(), "").replace("\"c\"", "\"d\""));
    run.signal("HUP");
    wait_until("the first context to end", || {
        events(dir.path()).iter().any(|e| e["event"] == "ended" && e["context"] == "c")
    });
    wait_until("the second one to begin", || {
        events(dir.path()).iter().any(|e| e["event"] == "summary" && e["context"] == "d")
    });
    // Its only target is killed, so the run ends by itself.
    drop(target);
    let said = run.finish();
    // The first context has ended its command.
    let account = account(&said.expect(143, &[]).out);
    assert_eq!(account["stopped"], "targets-gone", "{said:#?}");
    assert_eq!(account["schemes"].as_array().unwrap().len(), 2);
}
