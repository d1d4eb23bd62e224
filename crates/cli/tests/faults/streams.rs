//! Records in pipes, exports by the name of their file, and records of damo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program::{Said, command, isotherm, scratch, shell};

#[test]
fn a_record_goes_through_a_pipe() {
    let dir = scratch();
    // What the command prints is not in the record.
    let line = "$ISOTHERM record --ops smaps -q --duration 1500ms -o - -- \
                sh -c 'echo hello; exec sleep 100' > r.data";
    let said = shell(dir.path(), line);
    said.expect(143, &["hello"]);
    assert!(!dir.path().join("-").exists(), "no file has this name");
    isotherm(dir.path(), "report wss r.data").expect_whole();
    for kind in ["heatmap", "wss", "regions", "regions --json", "mappings", "ages"] {
        let said = shell(dir.path(), &format!("cat r.data | $ISOTHERM report {kind} -"));
        let file = isotherm(dir.path(), &format!("report {kind} r.data"));
        assert!(!file.expect(0, &[]).out.is_empty());
        assert_eq!(said.expect(0, &[]).out, file.out, "{kind}");
    }
    let said = shell(dir.path(), "cat r.data | $ISOTHERM export --format csv -");
    assert_eq!(said.expect(0, &[]).out, isotherm(dir.path(), "export --format csv r.data").out);
    shell(dir.path(), "echo nonsense | $ISOTHERM report wss -").expect(2, &["standard input"]);
    shell(dir.path(), ": | $ISOTHERM report wss -").expect(2, &["standard input", "no bytes"]);
}

#[test]
fn a_report_without_a_word_is_one_page() {
    let dir = scratch();
    isotherm(dir.path(), "sim stairs --scale 8s -q").expect(0, &[]);
    let whole = isotherm(dir.path(), "report").expect(0, &[]).out.clone();
    for part in ["record of ", "targets ", "working set ", "hottest ", "coldest ", "cost ", "more "]
    {
        assert!(whole.lines().any(|line| line.starts_with(part)), "no `{part}` in {whole}");
    }
    assert!(whole.contains("stairs") && !whole.contains("warning"), "{whole}");
    let cut = fs::read(dir.path().join("isotherm.data")).unwrap();
    fs::write(dir.path().join("cut"), &cut[..cut.len() * 3 / 4]).unwrap();
    let said = isotherm(dir.path(), "report cut");
    assert!(
        said.expect(0, &[]).out.contains("warning      the recorder was killed"),
        "{}",
        said.out
    );
    let said = isotherm(dir.path(), "report cut --json --time 1s..");
    let json: Value = serde_json::from_str(&said.expect(0, &[]).out).unwrap();
    assert!(json["working_set"]["mapped"].as_u64().unwrap() > 1 << 20, "{json}");
    isotherm(dir.path(), "report missing").expect(2, &["cannot open the record missing"]);
}

#[test]
fn an_export_has_the_format_of_its_name() {
    let dir = scratch();
    isotherm(dir.path(), "sim stairs --scale 4s -q -o r.data").expect(0, &[]);
    for (name, start) in [
        ("x.csv", "t_"),
        ("x.jsonl", "{"),
        ("x.parquet", "PAR1"),
        ("x", "PAR1"),
        ("x.arrow", "ARROW1"),
    ] {
        isotherm(dir.path(), &format!("export r.data -o {name}")).expect(0, &[]);
        let bytes = fs::read(dir.path().join(name)).unwrap();
        let head = String::from_utf8_lossy(&bytes[..40]).into_owned();
        assert!(head.starts_with(start) || (start == "t_" && head.contains(',')), "{name}: {head}");
    }
    isotherm(dir.path(), "export r.data -o x.txt").expect(2, &["`.txt`", "hint:", "--format"]);
    assert!(!dir.path().join("x.txt").exists());
}

/// damo 3.4.3 in a virtual environment of its own, or why there is none.
fn damo() -> Result<PathBuf, String> {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damo-3.4.3");
    let program = venv.join("bin/damo");
    if !program.exists() {
        let pip = venv.join("bin/pip").display().to_string();
        let venv = venv.display().to_string();
        let steps: [(&str, &[&str]); 2] = [
            ("python3", &["-m", "venv", &venv]),
            (&pip, &["install", "-q", "--disable-pip-version-check", "damo==3.4.3"]),
        ];
        for (name, args) in steps {
            let out =
                Command::new(name).args(args).output().map_err(|err| format!("{name}: {err}"))?;
            if !out.status.success() {
                return Err(format!("{name}: {}", String::from_utf8_lossy(&out.stderr).trim()));
            }
        }
    }
    // damo asks it what kind of file a record is.
    Command::new("file").arg("--version").output().map_err(|err| format!("file: {err}"))?;
    Ok(program)
}

/// Runs damo, which has to succeed.
#[track_caller]
fn said(damo: &Path, dir: &Path, args: &str) -> String {
    let args: Vec<&str> = args.split_whitespace().collect();
    let said = Said::of(command(damo, dir, &args).output().unwrap());
    said.expect(0, &[]).out.clone()
}

/// The columns that damo and we have of a region: end of the window, addresses, count and age.
fn regions(dir: &Path, record: &str) -> Vec<[u64; 5]> {
    let text = isotherm(dir, &format!("export --format jsonl {record}")).expect(0, &[]).out.clone();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows = rows.filter(|row| row["resolved"] == true);
    let names = ["t_ns", "start", "end", "nr_accesses", "age"];
    let rows: Vec<_> = rows.map(|row| names.map(|name| row[name].as_u64().unwrap())).collect();
    assert!(rows.len() > 20, "{}", rows.len());
    rows
}

/// Addresses, count and age of a line such as `000000400000-000000600000 (   2.000 MiB)  10  1`.
fn shown_region(line: &str) -> Option<[u64; 4]> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut last = line.split_whitespace().rev().map(|word| word.parse().ok());
    let (age, nr) = (last.next()??, last.next()??);
    Some([hex(start)?, hex(end)?, nr, age])
}

#[test]
fn damo_opens_our_exports_and_we_open_what_it_writes() {
    let damo = match damo() {
        Ok(damo) => damo,
        Err(why) => return eprintln!("skipped: damo cannot be had: {why}"),
    };
    let scratch = scratch();
    let dir = scratch.path();
    isotherm(dir, "sim stairs --scale 8s --method first-touch -q").expect(0, &[]);
    isotherm(dir, "export -o damon.data").expect(0, &[]);
    isotherm(dir, "export -o r.perf-script").expect(0, &[]);
    let ours = regions(dir, "isotherm.data");

    // Its reports open both, and show the regions that we have.
    for file in ["damon.data", "r.perf-script"] {
        let info = said(&damo, dir, &format!("report record_info -i {file}"));
        assert!(info.contains("target_id: 0") && info.contains("region"), "{info}");
        let heatmap = said(&damo, dir, &format!("report heatmap --input {file} --output raw"));
        assert!(heatmap.lines().count() > 100, "{heatmap}");
        let access = said(&damo, dir, &format!("report access -i {file} --raw_form"));
        let shown: Vec<_> = access.lines().filter_map(shown_region).collect();
        let want: Vec<_> = ours.iter().map(|[_, rest @ ..]| *rest).collect();
        assert_eq!(shown, want, "{file}");
    }
    said(&damo, dir, "report wss --input damon.data --exclude_samples 0");

    // It reads our numbers and writes them again, and we read the same.
    for (from, format, to) in [
        ("damon.data", "json_compressed", "back.damo"),
        ("damon.data", "json", "back.json"),
        ("damon.data", "perf_script", "back.txt"),
        ("r.perf-script", "json_compressed", "text.damo"),
    ] {
        let files = format!("--record_file {from} --output_file {to}");
        said(&damo, dir, &format!("convert_record_format {files} --format {format}"));
        let back = regions(dir, to);
        assert_eq!(back.len(), ours.len(), "{to}");
        for (back, ours) in back.iter().zip(&ours) {
            // A text has microseconds, and damo counts in floats.
            let late = back[0].abs_diff(ours[0]);
            assert!(late <= 1000 && back[1..] == ours[1..], "{to}: {back:?} {ours:?}");
        }
        for report in ["report", "report heatmap", "report wss", "report ages", "report regions"] {
            isotherm(dir, &format!("{report} {to}")).expect(0, &[]);
        }
    }
}

#[test]
fn a_record_of_damo_is_imported_and_read_as_it_is() {
    let scratch = scratch();
    let dir = scratch.path();
    isotherm(dir, "sim stairs --scale 4s --method first-touch -q -o r.data").expect(0, &[]);
    isotherm(dir, "export r.data -o damon.data").expect(0, &[]);
    isotherm(dir, "import damon.data").expect(0, &[]);
    let ours = regions(dir, "r.data");
    assert_eq!(regions(dir, "isotherm.data"), ours);
    assert_eq!(regions(dir, "damon.data"), ours);
    for report in ["report", "report wss", "report heatmap"] {
        let direct = isotherm(dir, &format!("{report} damon.data"));
        let imported = isotherm(dir, &format!("{report} isotherm.data"));
        let same = |text: &str| text.replace("damon.data", "isotherm.data");
        assert_eq!(same(&direct.expect(0, &[]).out), imported.expect(0, &[]).out, "{report}");
    }
    let piped = shell(dir, "cat damon.data | $ISOTHERM import - -o - | $ISOTHERM report wss -");
    assert_eq!(piped.expect(0, &[]).out, isotherm(dir, "report wss isotherm.data").out);
    isotherm(dir, "import r.data").expect(2, &["a record of isotherm already", "hint:"]);
    fs::write(dir.join("perf.data"), "PERFILE2 and more").unwrap();
    isotherm(dir, "import perf.data").expect(2, &["perf.data", "perf script -i"]);
    isotherm(dir, "import none").expect(2, &["cannot open the record none"]);
    isotherm(dir, "export r.data --table pages -o x.damo").expect(2, &["regions only"]);
    assert!(!dir.join("x.damo").exists());
}

#[test]
fn what_nobody_could_look_at_is_not_cold_for_damo() {
    let scratch = scratch();
    let dir = scratch.path();
    let blind = "sim stairs --scale 4s --method first-touch --fault blind=0.5 -q -o r.data";
    isotherm(dir, blind).expect(0, &[]);
    let said = isotherm(dir, "export r.data -o damon.data");
    said.expect(0, &["regions are left out", "as cold"]);
    assert_eq!(regions(dir, "damon.data"), regions(dir, "r.data"));
}
