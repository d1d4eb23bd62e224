//! `report`, `score`, `export`: damaged and foreign files, filters, and output for other tools.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{ISOTHERM, Said, command, isotherm, scratch, shell};

const KINDS: [&str; 5] = ["heatmap", "wss", "regions", "mappings", "ages"];

/// A simulated record with its truth: `r.data`, `r.truth`.
fn simulated(dir: &Path) {
    isotherm(dir, "sim stairs --scale 8s -q -o r.data --truth r.truth").expect(0, &[]);
}

#[test]
fn files_that_are_no_records() {
    let dir = scratch();
    simulated(dir.path());
    let whole = fs::read(dir.path().join("r.data")).unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    fs::write(dir.path().join("foreign"), "#!/bin/sh\necho hello\n".repeat(100)).unwrap();
    fs::write(dir.path().join("tiny"), &whole[..10]).unwrap();
    let cases: &[(&str, i32, &[&str])] = &[
        ("missing", 2, &["cannot open the record missing", "No such file", "isotherm record"]),
        ("empty", 2, &["empty: ", "no bytes", "hint:"]),
        ("foreign", 2, &["foreign: not a record", "why:", "hint:"]),
        ("tiny", 2, &["tiny: ", "cut off", "hint:"]),
        (".", 2, &["directory"]),
    ];
    for (file, code, parts) in cases {
        for kind in KINDS {
            for json in ["", "--json"] {
                let said = isotherm(dir.path(), &format!("report {kind} {json} {file}"));
                said.expect(*code, parts);
                assert_eq!(said.out, "", "{kind} {file}");
            }
        }
        for args in [format!("export {file}"), format!("score {file} r.truth")] {
            isotherm(dir.path(), &args).expect(*code, parts);
        }
    }
}

#[test]
fn a_truncated_record_is_read_as_far_as_it_goes() {
    let dir = scratch();
    simulated(dir.path());
    let whole = fs::read(dir.path().join("r.data")).unwrap();
    // A byte behind three quarters: exactly there a frame ends, after which nothing is torn.
    fs::write(dir.path().join("cut"), &whole[..=whole.len() * 3 / 4]).unwrap();
    let told = |said: &Said| {
        said.expect(0, &[]);
        assert!(!said.out.is_empty());
        let all = format!("{}{}", said.out, said.err);
        assert!(all.contains("torn tail"), "the damage is told: {all}");
    };
    for kind in KINDS {
        told(&isotherm(dir.path(), &format!("report {kind} cut")));
    }
    for args in ["report regions --json cut", "export --format csv cut", "score cut r.truth"] {
        told(&isotherm(dir.path(), args));
    }
}

#[test]
fn a_report_by_the_wrong_name_is_asked_about() {
    let dir = scratch();
    isotherm(dir.path(), "report mapping").expect(2, &["did you mean `isotherm report mappings`"]);
    let said = isotherm(dir.path(), "report my.data");
    said.expect(2, &["cannot open the record my.data"]);
    assert!(!said.err.contains("did you mean"), "{}", said.err);
}

#[test]
fn a_record_without_snapshots_is_nothing_to_report() {
    let dir = scratch();
    // An aggregation interval that never ends.
    isotherm(dir.path(), "record -o none --aggr 1h --duration 300ms -- sleep 100")
        .expect(143, &["no window was finished"]);
    for kind in KINDS {
        isotherm(dir.path(), &format!("report {kind} none"))
            .expect(2, &["nothing to report", "no snapshot", "hint:"]);
    }
}

#[test]
fn json_is_json_and_text_has_no_escape_codes() {
    let dir = scratch();
    simulated(dir.path());
    for kind in KINDS {
        let said = isotherm(dir.path(), &format!("report {kind} --json r.data"));
        assert!(said.expect(0, &[]).out.lines().count() > 0);
        for line in said.out.lines() {
            assert!(serde_json::from_str::<Value>(line).unwrap().is_object());
        }
        let said = isotherm(dir.path(), &format!("report {kind} r.data"));
        assert!(said.expect(0, &[]).out.contains("stairs") && !said.out.contains('\x1b'), "{kind}");
    }
}

#[test]
fn regions_json_has_the_documented_keys() {
    let dir = scratch();
    simulated(dir.path());
    let said = isotherm(dir.path(), "report regions --json r.data");
    let keys = |v: &Value| -> Vec<String> { v.as_object().unwrap().keys().cloned().collect() };
    for line in said.expect(0, &[]).out.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(keys(&line), ["pid", "regions", "t_ns", "target"]);
        assert!(line["t_ns"].is_u64() && line["pid"].is_u64() && line["target"].is_string());
        for region in line["regions"].as_array().unwrap() {
            let wanted =
                ["age", "end", "hi", "lo", "max_nr_accesses", "nr_accesses", "resolved", "start"];
            assert_eq!(keys(region), wanted);
            for key in ["start", "end", "nr_accesses", "max_nr_accesses", "age"] {
                assert!(region[key].is_u64(), "{key} of {region}");
            }
            let [lo, hi, max] =
                ["lo", "hi", "max_nr_accesses"].map(|key| region[key].as_f64().unwrap());
            assert!(0.0 <= lo && lo <= hi && hi <= max, "{region}");
            assert!(region["resolved"].is_boolean());
        }
    }
}

#[test]
fn filters() {
    let dir = scratch();
    simulated(dir.path());
    let all = isotherm(dir.path(), "report regions --json r.data").out;
    let first: Value = serde_json::from_str(all.lines().next().unwrap()).unwrap();
    let start = first["regions"][0]["start"].as_u64().unwrap();
    let lines = |filter: &str| -> Vec<Value> {
        let said = isotherm(dir.path(), &format!("report regions --json r.data {filter}"));
        said.expect(0, &[]).out.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    let some = lines("--time 1s..2s");
    assert!(!some.is_empty() && some.len() < all.lines().count());
    for line in &some {
        assert!((900_000_000..=2_100_000_000).contains(&line["t_ns"].as_u64().unwrap()));
    }
    let end = start + 4096;
    for line in lines(&format!("--address {start:#x}-{end:#x}")) {
        for region in line["regions"].as_array().unwrap() {
            assert!(region["start"].as_u64().unwrap() < end);
            assert!(region["end"].as_u64().unwrap() > start);
        }
    }
    assert_eq!(lines("--target stairs").len(), all.lines().count());
    let wrong: &[(&str, &[&str])] = &[
        ("--target nosuch", &["no target is called nosuch", "stairs"]),
        ("--time 1h..2h", &["nothing to report", "hint:", "--time"]),
        ("--time 5s..1s", &["5s..1s", "FROM..TO"]),
        ("--time soon", &["soon", "FROM..TO"]),
        ("--address 5-1", &["5-1", "FROM-TO"]),
    ];
    for (filter, parts) in wrong {
        isotherm(dir.path(), &format!("report wss r.data {filter}")).expect(2, parts);
    }
}

#[test]
fn only_the_method_census_has_page_maps() {
    let dir = scratch();
    for (method, found) in [("resample", false), ("census", true)] {
        let sim = format!("sim stairs --scale 2s --method {method} -q -o {method}");
        isotherm(dir.path(), &sim).expect(0, &[]);
        let (code, none): (i32, &[&str]) = if found { (0, &[]) } else { (2, &["census"]) };
        for what in ["pages", "pages --units", "pages --json", "wss --by pages"] {
            isotherm(dir.path(), &format!("report {what} {method}")).expect(code, none);
        }
        let said = isotherm(dir.path(), &format!("report wss {method}"));
        assert_eq!(said.expect(0, &[]).out.contains("touched within"), found, "{}", said.out);
        let table = format!("export --table pages --format csv {method}");
        let said = isotherm(dir.path(), &table);
        assert_eq!(said.expect(0, &[]).out.lines().count() > 1, found, "{}", said.out);
        assert_eq!(said.err.contains("no page maps"), !found, "{}", said.err);
    }
    let part = "report wss --by pages --address 0x1000-0x2000 census";
    isotherm(dir.path(), part).expect(2, &["--address", "--by regions"]);
}

#[test]
fn colours_only_where_they_are_wanted() {
    type Environment = &'static [(&'static str, &'static str)];
    let dir = scratch();
    simulated(dir.path());
    let cases: &[(&str, Environment, bool)] = &[
        ("auto", &[], false),
        ("always", &[], true),
        ("always", &[("NO_COLOR", "1")], true),
        ("never", &[("CLICOLOR_FORCE", "1")], false),
        ("auto", &[("CLICOLOR_FORCE", "1")], true),
        ("auto", &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
    ];
    for (color, env, wanted) in cases {
        let args = ["report", "heatmap", "--color", color, "r.data"];
        let mut command = command(ISOTHERM, dir.path(), &args);
        command.envs(env.iter().copied());
        let said = Said::of(command.output().unwrap());
        assert_eq!(said.expect(0, &[]).out.contains("\x1b["), *wanted, "{color} {env:?}");
    }
}

#[test]
fn pictures() {
    let dir = scratch();
    simulated(dir.path());
    isotherm(dir.path(), "report heatmap r.data --svg h.svg --png h.png").expect(0, &[]);
    let svg = fs::read_to_string(dir.path().join("h.svg")).unwrap();
    let svg = roxmltree::Document::parse(&svg).unwrap();
    assert_eq!(svg.root_element().tag_name().name(), "svg");
    let png = fs::read(dir.path().join("h.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xae\x42\x60\x82"));
    isotherm(dir.path(), "report heatmap r.data -o o.png --output o.svg").expect(2, &["--output"]);
    for (name, other) in [("o.png", "h.png"), ("o.svg", "h.svg")] {
        isotherm(dir.path(), &format!("report heatmap r.data -o {name}")).expect(0, &[]);
        let [one, two] = [name, other].map(|name| fs::read(dir.path().join(name)).unwrap());
        assert_eq!(one, two, "the same picture");
    }
    isotherm(dir.path(), "report heatmap r.data -o h.jpg").expect(2, &["ends in .svg or .png"]);
    for what in ["--svg", "--png"] {
        isotherm(dir.path(), &format!("report heatmap r.data {what} nosuch/h"))
            .expect(2, &["cannot write nosuch/h", "make the directory"]);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = scratch();
    // More than a pipe holds.
    isotherm(dir.path(), "sim zipf --duration 20s -q -o r.data").expect(0, &[]);
    for args in
        ["report regions r.data", "report regions --json r.data", "export --format csv r.data"]
    {
        let line = format!("{{ $ISOTHERM {args}; echo status $? >&2; }} | head -n 1");
        let said = shell(dir.path(), &line);
        said.expect(0, &["status 0"]);
        assert_eq!(said.out.lines().count(), 1);
        assert_eq!(said.err, "status 0\n", "{args}");
    }
}

#[test]
fn exports() {
    let dir = scratch();
    simulated(dir.path());
    isotherm(dir.path(), "export r.data -o r.parquet").expect(0, &[]);
    let parquet = fs::read(dir.path().join("r.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let csv = isotherm(dir.path(), "export r.data --format csv");
    let jsonl = isotherm(dir.path(), "export r.data --format jsonl");
    let names: Vec<&str> = csv.out.lines().next().unwrap().split(',').collect();
    for name in ["time", "start", "end", "nr_accesses", "mapping", "kind"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(csv.out.lines().count(), jsonl.out.lines().count() + 1);
    for line in jsonl.out.lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["start"].is_u64());
    }
    isotherm(dir.path(), "export r.data -o nosuch/r").expect(2, &["cannot write nosuch/r"]);
    isotherm(dir.path(), "export r.data --format xls").expect(2, &["xls", "parquet"]);
}

#[test]
fn scores() {
    let dir = scratch();
    simulated(dir.path());
    let said = isotherm(dir.path(), "score --json r.data r.truth");
    let score: Value = serde_json::from_str(&said.expect(0, &[]).out).unwrap();
    for key in [
        "precision",
        "recall",
        "wss_error_p50",
        "wss_error_p75",
        "rate_error",
        "detection_delay_ms",
        "coverage",
        "cpu_percent",
        "rss_bytes",
    ] {
        assert!(score.as_object().unwrap().contains_key(key), "{key} in {score}");
    }
    for key in ["precision", "recall", "coverage"] {
        assert!((0.0..=1.0).contains(&score[key].as_f64().unwrap()), "{score}");
    }
    fs::write(dir.path().join("notes"), "hello\n").unwrap();
    isotherm(dir.path(), "record -o other -q --duration 300ms -- sleep 100").expect(143, &[]);
    let wrong: &[(&str, &[&str])] = &[
        ("other r.truth", &["other and r.truth are not about the same run", "why:"]),
        ("r.data notes", &["notes: no truth file"]),
        ("r.data nofile", &["cannot open the truth nofile", "hint:  `isotherm workload --truth"]),
        ("r.data missing", &["missing", "No such file"]),
        ("r.truth r.data", &["r.data", "truth"]),
    ];
    for (files, parts) in wrong {
        isotherm(dir.path(), &format!("score {files}")).expect(2, parts);
    }
    // With eleven phases of a third of a second, no window is a second after a change.
    isotherm(dir.path(), "sim stairs --scale 3s -q -o short --truth short.truth").expect(0, &[]);
    isotherm(dir.path(), "score short short.truth").expect(0, &["no window could be judged"]);
}
