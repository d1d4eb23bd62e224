//! Job `compat`: programs for the kernel's DAMON, unmodified, over `isotherm damonfs`.
//!
//! They are damo, as the package index of Python has it, and the kernel's own selftests, as the
//! distribution's `linux-source` has them. Both are fetched for the run and removed after it. All
//! commands of damo run one after the other in one namespace, since some need what others have
//! started; each selftest runs in one of its own.

mod cases;
mod fetch;
mod snapshot;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::cases::{Case, DAMO, QUICK, SELFTESTS};
use self::fetch::Programs;
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::child::Child;
use crate::requirement::{self, Requirement};
use crate::table::{Table, number};

/// The target of damo's commands: all of its memory and the hot part of it, in MiB.
const TARGET_MIB: [&str; 2] = ["64", "32"];
/// How long one command may take, in s.
const PATIENCE_S: u64 = 120;
/// Time in which the target fills its memory.
const FILL: Duration = Duration::from_secs(2);

/// The job.
#[derive(Debug)]
pub(crate) struct Compat;

/// What came of a command.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    group: String,
    name: String,
    /// What it ended with.
    code: i32,
    seconds: f64,
    /// Whether it did what is expected of it.
    passed: bool,
    /// The end of what it said, if it did not.
    said: String,
}

impl Job for Compat {
    fn name(&self) -> &'static str {
        "compat"
    }

    fn about(&self) -> &'static str {
        "damo and the kernel's DAMON selftests, unmodified, over `damonfs`"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        let exists = |what: &str, path: &str| Requirement {
            what: what.to_owned(),
            satisfied: Path::new(path).exists(),
            found: path.to_owned(),
        };
        vec![
            requirement::cpus(2),
            exists("FUSE", "/dev/fuse"),
            exists("a C compiler", "/usr/bin/cc"),
        ]
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let programs = Programs::fetch(bench.dir, !bench.spec.quick)?;
        let mut rows = damo(bench, &programs)?;
        bench.dir.write_json("raw/rows.json", &rows)?;
        rows.push(snapshot::row(bench)?);
        for case in SELFTESTS {
            if let Some(dir) = programs.selftest(case.words) {
                say(&format!("compat: {}", case.words));
                rows.push(selftest(bench, &programs, dir, case)?);
                bench.dir.write_json("raw/rows.json", &rows)?;
            }
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let rows: Vec<Row> = dir.read_json("raw/rows.json")?;
        Ok(serde_json::to_value(rows)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result.clone())?;
        let mut table = Table::new(["command", "passed", "exit", "s"]);
        let mut said = String::new();
        for row in &rows {
            let name = format!("{} {}", row.group, row.name);
            let passed = if row.passed { "yes" } else { "no" };
            if !row.passed {
                said.push_str(&format!("\n{name}: {}\n", row.said));
            }
            let cells = [passed.to_owned(), row.code.to_string(), number(Some(row.seconds), 1)];
            table.row([name].into_iter().chain(cells));
        }
        let passed = rows.iter().filter(|row| row.passed).count();
        Ok(format!("{}\n{passed} of {} passed\n{said}", table.text(), rows.len()))
    }
}

/// Runs damo's commands in one namespace.
fn damo(bench: &Bench<'_>, programs: &Programs) -> anyhow::Result<Vec<Row>> {
    let holder = std::env::current_exe().context("find this program")?;
    let args = ["holder", TARGET_MIB[0], TARGET_MIB[1]].map(str::to_owned);
    let target = Child::start(&holder, args, &bench.dir.raw("target.log"))?;
    std::thread::sleep(FILL);
    let mut script = String::from("cd \"$WORK\"\n");
    let cases: Vec<&Case> =
        DAMO.iter().filter(|case| !bench.spec.quick || QUICK.contains(&case.words)).collect();
    for (nr, case) in cases.iter().enumerate() {
        let words = case.words.replace("PID", &target.pid().to_string());
        script.push_str(&format!(
            "b=$(date +%s%N); timeout {PATIENCE_S} damo {words} > {nr}.out 2>&1 < /dev/null; c=$?\n\
             echo \"$c $(($(date +%s%N)-b))\" > {nr}.end\n"
        ));
    }
    say(&format!("compat: {} commands of damo", cases.len()));
    let mut command = in_namespace(bench, programs, "damo", &[], &[]);
    command.args(["sh", "-c", &script]);
    let ended = command.status().with_context(|| format!("start {command:?}"))?;
    target.stop()?;
    anyhow::ensure!(ended.success(), "{command:?}: {ended}");
    let read =
        |nr: usize, what: &str| fs::read_to_string(programs.work().join(format!("{nr}.{what}")));
    let mut rows = Vec::new();
    for (nr, case) in cases.into_iter().enumerate() {
        let (end, out) = (read(nr, "end")?, read(nr, "out")?);
        let (code, ns) = end.trim().split_once(' ').context("how a command ended")?;
        rows.push(row("damo", case, code.parse()?, ns.parse::<f64>()? / 1e9, &out));
    }
    Ok(rows)
}

/// Whether this machine's kernel runs a kdamond.
fn kernel_has_kdamond() -> bool {
    let comm = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("comm")).ok();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(comm).any(|name| name.starts_with("kdamond"))
}

/// Runs one of the kernel's selftests.
fn selftest(
    bench: &Bench<'_>,
    programs: &Programs,
    dir: &Path,
    case: &Case,
) -> anyhow::Result<Row> {
    let shell = if case.words.ends_with(".py") { "python3" } else { "bash" };
    let begin = std::time::Instant::now();
    let patience = PATIENCE_S.to_string();
    // Two tests count all kdamonds that they see, and do nothing if the kernel has one of its own.
    // So that one is hidden from them.
    let counts = matches!(case.words, "reclaim.sh" | "lru_sort.sh");
    let hides: &[&str] = match counts && kernel_has_kdamond() {
        true => &["unshare", "--pid", "--fork", "--mount-proc"],
        false => &[],
    };
    let options: &[&str] = if case.words.starts_with("debugfs") { &["--debugfs"] } else { &[] };
    let mut command = in_namespace(bench, programs, case.words, hides, options);
    command.args(["timeout", &patience, shell, case.words]).current_dir(dir);
    let done = command.output().with_context(|| format!("start {command:?}"))?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    let code = done.status.code().unwrap_or(-1);
    Ok(row("selftest", case, code, begin.elapsed().as_secs_f64(), &said))
}

/// `isotherm damonfs -- `, started by `with`, with the programs in the search path.
fn in_namespace(
    bench: &Bench<'_>,
    programs: &Programs,
    log: &str,
    with: &[&str],
    options: &[&str],
) -> Command {
    let isotherm = bench.spec.isotherm.as_os_str();
    let words = with.iter().map(OsStr::new).chain([isotherm]);
    let mut words = words.map(OsStr::to_owned);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).arg("damonfs").args(options).arg("--").stdin(Stdio::null());
    command.env("PATH", programs.search_path()).env("HOME", programs.work());
    command.env("WORK", programs.work());
    if let Ok(file) = fs::File::create(bench.dir.raw(&format!("{log}.log"))) {
        command.stderr(file);
    }
    command
}

fn row(group: &str, case: &Case, code: i32, seconds: f64, said: &str) -> Row {
    let passed = code == 0 && said.contains(case.says);
    let end: Vec<&str> = said.lines().rev().take(5).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    Row {
        group: group.to_owned(),
        name: case.words.to_owned(),
        code,
        seconds,
        passed,
        said: if passed { String::new() } else { end.join("\n") },
    }
}
