//! The command line: impossible arguments, configs that cannot be understood, the help, the demo.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

use crate::program::{ISOTHERM, Public, Said, command, isotherm, scratch};

#[test]
fn impossible_attributes() {
    let dir = scratch();
    let cases: &[(&str, &[&str])] = &[
        ("--regions 100..10", &["impossible attributes", "--regions 100..10", "larger than max"]),
        ("--regions 1..2", &["impossible attributes", "fewer than 3"]),
        ("--sample 200ms", &["impossible attributes", "longer than the aggregation", "hint:"]),
        ("--sample 0", &["impossible attributes", "is 0"]),
        ("--aggr 0", &["impossible attributes"]),
        ("--sample 5parsecs", &["parsecs", "us, ms, s, m, h or d"]),
        ("--aggr fast", &["fast", "--aggr"]),
        ("--regions 10", &["MIN..MAX"]),
        ("--regions a..b", &["--regions"]),
        ("--duration soon", &["soon", "--duration"]),
        ("--sample 1us", &["impossible attributes", "--sample 1us", "at least 100us"]),
    ];
    for (attrs, parts) in cases {
        for what in ["record", "wss"] {
            isotherm(dir.path(), &format!("{what} {attrs} -- sleep 100")).expect(2, parts);
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was begun");
}

#[test]
fn a_time_without_a_unit_is_refused_everywhere() {
    let dir = scratch();
    for args in [
        "record --duration 5 -- sleep 100",
        "record --sample 5 -- sleep 100",
        "record --aggr 5 -- sleep 100",
        "record --update 5 -- sleep 100",
        "wss -i 5 -- sleep 100",
        "wss --duration 5 -- sleep 100",
        "stat --age 5 -- sleep 100",
        "reclaim --confirm 5 -- sleep 100",
        "reclaim --duration 5 -- sleep 100",
        "thp --cold-age 5 -- sleep 100",
        "lru-sort --apply-interval 5 -- sleep 100",
        "run p.toml --duration 5",
        "tier --every 5",
        "tier --hold 5",
        "top --batch -d 5",
        "idle --interval 5",
        "sim hot10 --duration 5",
        "workload hot10 --duration 5",
        "score r.data t --from 5",
        "report heatmap --time 5..10s",
    ] {
        isotherm(dir.path(), args).expect(2, &["`5` has no unit; did you mean 5s or 5ms?"]);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was begun");
}

#[test]
fn physical_memory_that_cannot_be() {
    let dir = scratch();
    let cases: &[(&str, u8, &[&str])] = &[
        ("--paddr=6G-4G", 2, &["does not begin before it ends", "hint:"]),
        ("--paddr=0-100", 2, &["border of a page"]),
        ("--paddr=everything", 2, &["none of these", "node:1"]),
        ("--paddr=node:x", 2, &["not a node's number"]),
        ("--paddr -p 1", 2, &["cannot be used with"]),
        ("--paddr -- sleep 1", 2, &["cannot be used with"]),
        ("--paddr=node:999", 3, &["no node 999", "nodes with memory: 0"]),
        ("--paddr=4096T-4097T", 3, &["no part of this range", "RAM is at"]),
        ("--paddr --ops pagewalk", 3, &["`pagewalk` is not available", "physical memory", "idle"]),
        ("--paddr --ops smaps", 3, &["`smaps` is not available", "physical memory", "kdamond"]),
    ];
    for (memory, code, parts) in cases {
        // A user who may not see where RAM is gets that error first.
        let hidden = *code == 3 && !rustix::process::geteuid().is_root();
        for what in ["record", "wss"] {
            let (code, parts) = if hidden { (4, &["CAP_SYS_ADMIN"][..]) } else { (*code, *parts) };
            isotherm(dir.path(), &format!("{what} {memory}")).expect(code.into(), parts);
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was begun");
}

#[test]
fn unknown_words() {
    let dir = scratch();
    isotherm(dir.path(), "").expect(2, &["Usage"]);
    isotherm(dir.path(), "frobnicate").expect(2, &["frobnicate"]);
    let all = [
        "record",
        "report wss",
        "report pages",
        "wss",
        "doctor",
        "idle",
        "export",
        "sim",
        "workload",
        "demo",
    ];
    let acting = ["run", "reclaim", "thp", "lru-sort", "stat", "schemes"];
    for what in all.iter().chain(&acting) {
        isotherm(dir.path(), &format!("{what} --frobnicate")).expect(2, &["--frobnicate", "Usage"]);
    }
}

#[test]
fn the_help_tells_units_and_defaults() {
    let dir = scratch();
    let attrs: &[&str] = &[
        "us, ms, s",
        "[default: 5ms]",
        "[default: 100ms]",
        "[default: 10..1000]",
        "[default: 1s]",
    ];
    let cases: &[(&str, &[&str])] = &[
        ("record", attrs),
        ("record", &["FILE.old", "[default: isotherm.data]", "[default: auto]", "30s or 5m"]),
        ("wss", attrs),
        ("wss", &["30s or 5m", "1s, 10s and 1min"]),
        ("sim", attrs),
        ("report heatmap", &["5s..1m", "0x7f0000000000", "[default: isotherm.data]"]),
        ("report wss", &["[default: size]", "5s..1m", "--by"]),
        ("report pages", &["--units", "--json", "census"]),
        ("report regions", &["--json", "[default: isotherm.data]"]),
        ("report mappings", &["--json"]),
        ("report ages", &["--json"]),
        ("export", &[".parquet", "[default: -]", "[default: regions]"]),
        ("score", &["[default: 1]", "per window"]),
        ("workload", &["0.1", "10s"]),
        ("doctor", &["--json"]),
        ("demo", &["--simulate"]),
        ("run", &["SIGHUP", "--check", "--dry-run", "--events"]),
        ("reclaim", &["[default: 120s]", "200M/s", "psi=0.5ms/s", "--print-policy", "--cgroup"]),
        ("thp", &["[default: 5%]", "[default: 50%]", "--inject", "--undo-on-exit"]),
        ("lru-sort", &["[default: 120s]", "--hot"]),
        ("stat", &["[default: 120s]", "4 %"]),
        ("schemes", &["min_size max_size", "null"]),
    ];
    for (what, parts) in cases {
        let said = isotherm(dir.path(), &format!("{what} --help"));
        said.expect(0, &[]);
        for part in *parts {
            assert!(said.out.contains(part), "no `{part}` in the help of {what}:\n{}", said.out);
        }
    }
}

#[test]
fn the_doctor_answers() {
    let dir = scratch();
    let said = isotherm(dir.path(), "doctor --json");
    assert!(serde_json::from_str::<Value>(&said.expect(0, &[]).out).unwrap().is_object());
    let said = isotherm(dir.path(), "doctor");
    for part in ["kernel", "privileges", "pagewalk", "smaps"] {
        assert!(said.expect(0, &[]).out.contains(part), "{part}");
    }
}

#[test]
fn a_bad_config_is_told_with_its_line() {
    let dir = scratch();
    fs::write(dir.path().join("bad.cfg"), "#regions\na, 1000\n\n#phases\nx\n10, bogus, 3\n")
        .unwrap();
    for what in ["workload", "sim"] {
        isotherm(dir.path(), &format!("{what} bad.cfg"))
            .expect(2, &["bad.cfg: line 6:", "bogus", "expected"]);
        isotherm(dir.path(), &format!("{what} nosuch"))
            .expect(2, &["no workload `nosuch`", "hint:", "stairs"]);
        isotherm(dir.path(), &format!("{what} stairs --scale 0")).expect(2, &["--scale 0"]);
        isotherm(dir.path(), &format!("{what} stairs --scale 1s --truth nosuch/t -q"))
            .expect(2, &["cannot write nosuch/t", "make the directory"]);
    }
    isotherm(dir.path(), "sim stairs --fault bogus").expect(2, &["--fault bogus", "late="]);
    isotherm(dir.path(), "sim stairs -o nosuch/r").expect(2, &["cannot write nosuch/r"]);
}

#[test]
fn a_name_that_is_not_utf_8_is_a_name() {
    let dir = scratch();
    let name = OsStr::from_bytes(b"r\xff.data");
    let mut sim = command(ISOTHERM, dir.path(), &["sim", "stairs", "--duration", "2s", "-q", "-o"]);
    Said::of(sim.arg(name).output().unwrap()).expect(0, &[]);
    let mut report = command(ISOTHERM, dir.path(), &["report", "wss"]);
    let said = Said::of(report.arg(name).output().unwrap());
    assert!(said.expect(0, &[]).out.contains("MiB"), "{said:#?}");
}

#[test]
fn the_demo_simulates_for_anybody() {
    let dir = scratch();
    let check = |said: &Said| {
        said.expect(0, &[]);
        for part in [
            "workload `stairs`",
            "SIMULATION",
            "[anon:s9]",
            "working set of stairs",
            "score against what the workload really accessed",
            "precision / recall of hot bytes",
        ] {
            assert!(said.out.contains(part), "no `{part}` in {}", said.out);
        }
        assert!(!said.out.contains('\x1b'), "no escape codes into a pipe");
    };
    check(&isotherm(dir.path(), "demo --simulate"));
    check(&Public::new().isotherm("demo --simulate"));
    isotherm(dir.path(), "demo --simulate --keep kept").expect(0, &[]);
    for file in ["kept/demo.data", "kept/demo.truth"] {
        assert!(dir.path().join(file).is_file(), "{file}");
    }
}
