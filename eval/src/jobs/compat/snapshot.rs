//! How long it takes to read a snapshot of a thousand regions by their files.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::{FILL, Row, TARGET_MIB};
use crate::cli::say;
use crate::job::Bench;
use crate::processes::child::Child;

/// The regions that are wanted.
const REGIONS: usize = 1000;
/// How long a snapshot of them may take.
const LIMIT_S: f64 = 1.0;
/// How often it is read. The median counts.
const TIMES: usize = 5;
/// How long it may take until the tree is there.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures it: the command that makes the directories, and a read of every file in them.
pub(super) fn row(bench: &Bench<'_>) -> anyhow::Result<Row> {
    say(&format!("compat: a snapshot of {REGIONS} regions"));
    let dir = std::env::temp_dir().join(format!("isotherm-compat-fs.{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let mountpoint = dir.display().to_string();
    let args = ["damonfs".to_owned(), mountpoint];
    let server = Child::start(&bench.spec.isotherm, args, &bench.dir.raw("snapshot.log"))?;
    let measured = measure(bench, &dir);
    // Ends the server; if it has ended already, there is nothing to unmount.
    Command::new("umount").arg("-l").arg(&dir).status().ok();
    server.stop()?;
    fs::remove_dir(&dir).ok();
    let (nr, mut seconds) = measured?;
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    bench.dir.write_json("raw/snapshot.json", &(nr, seconds))?;
    let passed = nr >= REGIONS && median <= LIMIT_S;
    Ok(Row {
        group: "snapshot".into(),
        name: format!("of {REGIONS} regions, all files read"),
        code: 0,
        seconds: median,
        passed,
        said: if passed { String::new() } else { format!("{nr} regions in {median:.2} s") },
    })
}

/// How many regions there were in the smallest snapshot, and how long each took, in s.
fn measure(bench: &Bench<'_>, dir: &Path) -> anyhow::Result<(usize, Vec<f64>)> {
    let kdamonds = dir.join("admin/kdamonds");
    let begin = Instant::now();
    while !kdamonds.join("nr_kdamonds").exists() {
        ensure!(begin.elapsed() < PATIENCE, "no tree at {}", dir.display());
        std::thread::sleep(Duration::from_millis(10));
    }
    let holder = std::env::current_exe().context("find this program")?;
    let args = ["holder", TARGET_MIB[0], TARGET_MIB[1]].map(str::to_owned);
    let target = Child::start(&holder, args, &bench.dir.raw("snapshot-target.log"))?;
    std::thread::sleep(FILL);
    let write = |file: &str, text: &str| {
        fs::write(kdamonds.join(file), text).with_context(|| format!("write {text} to {file}"))
    };
    let pattern = "0/contexts/0/schemes/0/access_pattern";
    for (file, text) in [
        ("nr_kdamonds", "1"),
        ("0/contexts/nr_contexts", "1"),
        // A few are merged from window to window.
        ("0/contexts/0/monitoring_attrs/nr_regions/max", "4000"),
        ("0/contexts/0/monitoring_attrs/nr_regions/min", "1200"),
        ("0/contexts/0/targets/nr_targets", "1"),
        ("0/contexts/0/targets/0/pid_target", &target.pid().to_string()),
        ("0/contexts/0/schemes/nr_schemes", "1"),
        (&format!("{pattern}/sz/max"), "18446744073709551615"),
        (&format!("{pattern}/nr_accesses/max"), "4294967295"),
        (&format!("{pattern}/age/max"), "4294967295"),
        ("0/state", "on"),
    ] {
        write(file, text)?;
    }
    let (mut least, mut seconds) = (usize::MAX, Vec::new());
    for _ in 0..TIMES {
        let begin = Instant::now();
        write("0/state", "update_schemes_tried_regions")?;
        let nr = read_all(&kdamonds.join("0/contexts/0/schemes/0/tried_regions"))?;
        seconds.push(begin.elapsed().as_secs_f64());
        least = least.min(nr);
    }
    write("0/state", "off")?;
    target.stop()?;
    Ok((least, seconds))
}

/// Reads every file below a directory. Returns how many directories are in it.
fn read_all(dir: &Path) -> anyhow::Result<usize> {
    let mut nr = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            nr += 1;
            read_all(&entry.path())?;
        } else {
            fs::read(entry.path())?;
        }
    }
    Ok(nr)
}
