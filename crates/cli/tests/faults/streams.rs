//! Records in pipes, and exports by the name of their file.

use std::fs;

use crate::program::{isotherm, scratch, shell};

#[test]
fn a_record_goes_through_a_pipe() {
    let dir = scratch();
    // What the command prints is not in the record.
    let line = "$ISOTHERM record --ops smaps -q --duration 1500ms -o - -- \
                sh -c 'echo hello; exec sleep 100' > r.data";
    let said = shell(dir.path(), line);
    said.expect(143, &["hello"]);
    assert!(!dir.path().join("-").exists(), "no file has this name");
    let file = isotherm(dir.path(), "report wss r.data");
    assert!(!file.expect(0, &[]).out.contains("note:"), "{}", file.out);
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
    let json: serde_json::Value = serde_json::from_str(&said.expect(0, &[]).out).unwrap();
    assert!(json["working_set"]["mapped"].as_u64().unwrap() > 1 << 20, "{json}");
    isotherm(dir.path(), "report missing").expect(2, &["cannot open the record missing"]);
}

#[test]
fn an_export_has_the_format_of_its_name() {
    let dir = scratch();
    isotherm(dir.path(), "sim stairs --scale 4s -q -o r.data").expect(0, &[]);
    for (name, start) in [("x.csv", "t_"), ("x.jsonl", "{"), ("x.parquet", "PAR1"), ("x", "PAR1")] {
        isotherm(dir.path(), &format!("export r.data -o {name}")).expect(0, &[]);
        let bytes = fs::read(dir.path().join(name)).unwrap();
        let head = String::from_utf8_lossy(&bytes[..40]).into_owned();
        assert!(head.starts_with(start) || (start == "t_" && head.contains(',')), "{name}: {head}");
    }
    isotherm(dir.path(), "export r.data -o x.txt").expect(2, &["`.txt`", "hint:", "--format"]);
    assert!(!dir.path().join("x.txt").exists());
}
