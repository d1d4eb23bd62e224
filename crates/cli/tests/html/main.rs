//! `isotherm report html`: the file, and what it does in a browser.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "in a test")]

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../common/mod.rs"]
mod common;

mod browser;

use std::path::{Path, PathBuf};
use std::process::Output;

use browser::{Browser, Theme};
use isotherm::raw::core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time};
use isotherm::raw::record::{Header, Mapping, Note, Target, Writer};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn isotherm(dir: &Path, args: &[&str]) -> Output {
    common::isotherm().args(args).current_dir(dir).output().unwrap()
}

/// Runs it, and fails unless it succeeds.
fn page(dir: &Path, args: &[&str]) -> PathBuf {
    let output = isotherm(dir, &[&["report", "html", "-o", "page.html"], args].concat());
    assert!(output.status.success(), "{output:?}");
    dir.join("page.html")
}

/// A simulated record with page maps: 10 blocks of 10 MiB, one hot at a time.
fn stairs(dir: &Path) {
    let args = ["sim", "stairs", "--scale", "10s", "-q", "-o", "stairs.data"];
    assert!(isotherm(dir, &args).status.success());
}

const NAME: &str = "<script>document.title='taken'</script>";
const FILE: &str = "/tmp/</script><img src=x onerror=\"document.title='taken'\">&amp;";
const NOTE: &str = "<b onclick=x>a note</b> {{data}} {{script}}";

/// A record whose names are markup, with an event log of the same time.
fn hostile(dir: &Path) {
    let header = Header { host: "<i>host</i>".into(), started_unix_ns: 1, ..Header::default() };
    let mut w = Writer::new(Vec::new(), &header).unwrap();
    w.target(&Target { id: 0, pid: 7, name: NAME.into(), ..Target::default() }).unwrap();
    w.mappings(Time(0), TargetId(0), &[Mapping::new(1 << 30, 2 << 30, "r--p", FILE)]).unwrap();
    w.note(&Note { t_ns: 5, text: NOTE.into() }).unwrap();
    for n in 0..20 {
        let range = AddrRange::new(1 << 30, (1 << 30) + (8 << 20));
        let region = RegionInfo { range, nr_accesses: 10, resolved: true, ..RegionInfo::default() };
        let target = TargetInfo { id: TargetId(0), regions: vec![region], ..TargetInfo::default() };
        let snapshot = Snapshot {
            seq: n,
            start: Time(n * 100_000_000),
            end: Time((n + 1) * 100_000_000),
            aggr_us: 100_000,
            max_nr_accesses: 20,
            targets: vec![target],
            ..Snapshot::default()
        };
        w.push_snapshot(&snapshot).unwrap();
    }
    let (bytes, _) = w.finish(Time(2_000_000_000), "<u>enough</u>").unwrap();
    std::fs::write(dir.join("hostile.data"), bytes).unwrap();
    let event = serde_json::json!({ "t_ns": 500_000_000, "event": "acted", "context": NAME,
        "scheme": FILE, "action": NAME, "done_bytes": 8 << 20 });
    let trouble = serde_json::json!({ "t_ns": 900_000_000, "event": "trouble", "text": NOTE });
    std::fs::write(dir.join("events"), format!("{event}\n{trouble}\n")).unwrap();
}

#[test]
fn the_page_is_one_file_that_asks_for_nothing() {
    let dir = scratch();
    stairs(dir.path());
    let output = isotherm(dir.path(), &["report", "html", "stairs.data"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("wrote stairs.html"), "{output:?}");
    let page = std::fs::read_to_string(dir.path().join("stairs.html")).unwrap();
    assert!(page.contains("default-src 'none'"), "the browser is told to forbid everything else");
    assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("http:"));
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let spans = data["working_set"]["spans"].as_array().unwrap();
    assert!(spans.len() >= 3 && spans[0]["t"].as_array().unwrap().len() > 50);
    assert!(data["heatmap"]["panels"][0]["pages"]["frames"].as_array().unwrap().len() > 3);
    assert!(data["ages"]["classes"].is_array() && data["facts"].as_array().unwrap().len() > 8);
    let to_stdout = isotherm(dir.path(), &["report", "html", "-o", "-", "stairs.data"]);
    assert_eq!(String::from_utf8_lossy(&to_stdout.stdout), page);
}

#[test]
fn what_cannot_work_is_refused() {
    let dir = scratch();
    stairs(dir.path());
    std::fs::write(dir.path().join("none.log"), "hello\n").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["-o", "stairs.data", "stairs.data"], "would replace the record"),
        (&["-o", "no/x.html", "stairs.data"], "cannot write no/x.html"),
        (&["--events", "missing", "stairs.data"], "cannot open the event log missing"),
        (&["--events", "none.log", "stairs.data"], "holds no events"),
        (&["--time", "1h..2h", "stairs.data"], "nothing to report"),
    ];
    let before = std::fs::read(dir.path().join("stairs.data")).unwrap();
    for (args, part) in cases {
        let output = isotherm(dir.path(), &[&["report", "html"], *args].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(part), "{output:?}");
    }
    assert_eq!(std::fs::read(dir.path().join("stairs.data")).unwrap(), before);
}

#[test]
fn names_from_the_record_are_never_markup() {
    let dir = scratch();
    hostile(dir.path());
    let page = page(dir.path(), &["--events", "events", "hostile.data"]);
    let text = std::fs::read_to_string(&page).unwrap();
    for part in ["<script>document", "<img", "<b onclick", "<i>host", "<u>enough"] {
        assert!(!text.contains(part), "{part}");
    }
    let Some(browser) = Browser::find() else { return };
    let body = "return { title: document.title, shown: document.body.innerText,
        made: document.querySelectorAll('img, b, i, u').length,
        scripts: document.querySelectorAll('script').length };";
    let seen = browser.act(dir.path(), Theme::Light, &page, body);
    assert_eq!(seen.console, [""; 0], "{seen:#?}");
    let result = &seen.result;
    assert_eq!(result["title"], format!("Isotherm: {NAME} (pid 7)"), "{seen:#?}");
    // The data, the page's script, and the test's.
    assert_eq!((&result["made"], &result["scripts"]), (&0.into(), &3.into()), "{seen:#?}");
    let shown = result["shown"].as_str().unwrap();
    for part in [NAME, FILE, NOTE] {
        assert!(shown.contains(part), "{part} is shown as it is: {shown}");
    }
}

/// What is done in the page; each value is read after the step before it.
const STEPS: &str = r##"
    const canvas = document.querySelector("#heatmaps canvas");
    const below = document.querySelector("#wss canvas");
    const map = document.querySelectorAll("#heatmaps canvas")[1];
    const span = (c) => Number(c.dataset.to) - Number(c.dataset.from);
    const look = () => ({ span: span(canvas), below: span(below), from: Number(canvas.dataset.from),
      rows: Number(canvas.dataset.high) - Number(canvas.dataset.low), units: Number(map.dataset.units),
      told: canvas.nextElementSibling.textContent });
    const press = async (...keys) => {
      for (const key of keys) {
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        await pause();
      }
      return look();
    };
    const out = { at_first: look() };
    canvas.focus();
    out.focused = document.activeElement === canvas;
    out.moved = await press("ArrowRight", "ArrowUp");
    out.zoomed = await press("+", "+", "+");
    out.panned = await press(...Array(30).fill("ArrowRight"));
    out.wider = await press("-");
    out.all = await press("0");
    const box = canvas.getBoundingClientRect();
    const place = { clientX: box.left + box.width / 2, clientY: box.top + 100, bubbles: true };
    canvas.dispatchEvent(new WheelEvent("wheel", { ...place, deltaY: -100 }));
    await pause();
    out.wheel = look();
    canvas.dispatchEvent(new MouseEvent("dblclick", place));
    await pause();
    out.reset = look();
    below.focus();
    out.below = await press("+");
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const colors = new Set();
    for (let i = 0; i < pixels.length; i += 4) colors.add(pixels.slice(i, i + 3).join());
    out.colors = ["252,244,150", "22,11,57"].map((c) => colors.has(c));
    out.stops = [...document.querySelectorAll("[tabindex], input, summary")].length;
    out.back = getComputedStyle(document.body).backgroundColor;
    out.wide = document.documentElement.scrollWidth <= innerWidth;
    return out;
"##;

#[test]
fn zoom_keyboard_and_themes_in_a_browser() {
    let Some(browser) = Browser::find() else { return };
    let dir = scratch();
    stairs(dir.path());
    let page = page(dir.path(), &["stairs.data"]);
    let mut backs = Vec::new();
    for theme in [Theme::Light, Theme::Dark] {
        let seen = browser.act(dir.path(), theme, &page, STEPS);
        assert_eq!(seen.console, [""; 0], "{seen:#?}");
        let at = |step: &str, key: &str| seen.result[step][key].as_f64().unwrap();
        let whole = at("at_first", "span");
        assert!(whole > 9.0 && (at("at_first", "below") - whole).abs() < 1e-9, "{seen:#?}");
        assert_eq!(seen.result["focused"], true);
        let told = seen.result["moved"]["told"].as_str().unwrap();
        assert!(told.contains("0x") && told.contains("of samples"), "{told}");
        // Three times half of it, in both directions; the other charts follow in time.
        for (step, part) in [("zoomed", 8.0), ("wider", 4.0), ("all", 1.0)] {
            assert!((at(step, "span") * part - whole).abs() < 0.1, "{step}: {seen:#?}");
            assert!((at(step, "below") - at(step, "span")).abs() < 1e-9, "{step}: {seen:#?}");
        }
        assert!(at("zoomed", "rows") * 8.0 < at("all", "rows") * 1.01, "{seen:#?}");
        assert!(at("zoomed", "units") < at("all", "units") / 2.0, "page maps follow: {seen:#?}");
        assert!(at("panned", "from") > at("zoomed", "from") + 1.0, "{seen:#?}");
        assert!(at("wheel", "span") < whole * 0.85 && at("wheel", "rows") < at("all", "rows"));
        assert!((at("reset", "span") - whole).abs() < 1e-9);
        assert!((at("below", "span") * 2.0 - whole).abs() < 0.1, "the chart below has keys, too");
        assert_eq!(
            seen.result["colors"],
            serde_json::json!([true, true]),
            "hot and cold are drawn"
        );
        assert!(seen.result["stops"].as_u64().unwrap() >= 6 && seen.result["wide"] == true);
        backs.push(seen.result["back"].to_string());
        let png = browser.picture(dir.path(), theme, &page);
        assert!(png.starts_with(b"\x89PNG") && png.len() > 30_000, "{}", png.len());
    }
    assert_eq!(backs, ["\"rgb(255, 255, 255)\"", "\"rgb(20, 23, 28)\""]);
    // That errors would be seen.
    let seen = browser.act(dir.path(), Theme::Light, &page, "console.error('an error'); return 1;");
    assert!(seen.console.iter().any(|line| line.contains("an error")), "{seen:#?}");
}
