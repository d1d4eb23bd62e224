//! Postgres with a database of about 700 MiB in its shared buffers, under pgbench with Zipf's law.
//!
//! Two things are cold. A pooled connection has once read the whole table and now idles: its page
//! tables hold the shared buffers, most of which nobody else has mapped. And an open cursor over a
//! big sorted result sits in its private memory. pgbench's connections touch the hot rows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_sys::clock;

use super::{Outcome, Place, Program, Running, Size, not_installed, output};
use crate::processes::child::{Child, sleep_until};
use crate::stats::percentile;

/// Rows per unit of pgbench's scale.
const SCALE: u64 = 40;
const USER: &str = "postgres";
/// The newest tenth of the rows.
const SCRIPT: &str = "\\set n random_zipfian(1, 10000 * :scale, 1.05)\n\
    SELECT abalance FROM pgbench_accounts WHERE aid = 90000 * :scale + :n;\n";

/// The program.
#[derive(Debug)]
pub(super) struct Postgres;

#[derive(Debug)]
struct Server {
    // The connection ends before the server.
    pool: Child,
    child: Child,
    dir: PathBuf,
    bench: PathBuf,
    runs: u32,
}

impl Program for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn about(&self) -> &'static str {
        "PostgreSQL, 700 MiB in shared buffers, pgbench select-only on a tenth by Zipf's law"
    }

    fn missing(&self) -> Option<String> {
        let Some(bin) = binaries() else {
            return Some("no initdb: apt-get install postgresql".into());
        };
        let all = ["initdb", "postgres", "psql", "pgbench"].map(|p| bin.join(p));
        let names: Vec<_> = all.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        not_installed(&names, "postgresql").or_else(|| not_installed(&["setpriv"], "util-linux"))
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let bin = binaries().context("no PostgreSQL")?;
        let script = place.write("zipf.sql", SCRIPT)?;
        let id = |option| output(Command::new("id").args([option, USER]))?.parse().context("an id");
        let (uid, gid) = (id("-u")?, id("-g")?);
        place.give_to(uid, gid)?;
        let data = place.file("data");
        let data = data.to_str().context("a path that is no text")?;
        let dir = place.path().to_str().context("a path that is no text")?;
        output(as_user(&bin.join("initdb")).args([
            "-D",
            data,
            "-A",
            "trust",
            "-N",
            "--no-locale",
        ]))?;
        let mut server = as_user(&bin.join("postgres"));
        server.args(["-D", data, "-k", dir]).stdin(Stdio::null()).stdout(Stdio::null());
        for setting in [
            "listen_addresses=",
            "shared_buffers=900MB",
            "huge_pages=off",
            "fsync=off",
            "autovacuum=off",
            "max_wal_size=4GB",
            "checkpoint_timeout=1h",
            "bgwriter_delay=10s",
        ] {
            server.args(["-c", setting]);
        }
        let mut child = Child::spawn(server, &place.file("postgres.log"))?;
        wait_for(&mut child, &bin, dir)?;
        let scale = size.scaled(SCALE).to_string();
        output(
            Command::new(bin.join("pgbench"))
                .args(["-h", dir, "-U", USER, "-i", "-q", "-s", &scale, "postgres"]),
        )?;
        let pool = pooled(place, &bin, dir)?;
        Ok(Box::new(Server { pool, child, dir: dir.into(), bench: script, runs: 0 }))
    }
}

/// Where Debian keeps the server's programs: the newest version.
fn binaries() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let bins = versions.filter_map(|v| Some(v.ok()?.path().join("bin")));
    bins.filter(|b| b.join("initdb").is_file()).max()
}

/// The server refuses to run as root.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--init-groups", "--"]).arg(program);
    command.current_dir("/");
    command
}

fn psql(bin: &Path, dir: &str) -> Command {
    let mut command = Command::new(bin.join("psql"));
    command.args(["-h", dir, "-U", USER, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
    command.arg("postgres");
    command
}

fn wait_for(child: &mut Child, bin: &Path, dir: &str) -> anyhow::Result<()> {
    let deadline = clock::now().plus_us(20_000_000);
    loop {
        child.still_runs()?;
        match output(psql(bin, dir).args(["-c", "SELECT 1"])) {
            Ok(_) => return Ok(()),
            Err(e) if clock::now() > deadline => return Err(e),
            Err(_) => sleep_until(clock::now().plus_us(50_000))?,
        }
    }
}

/// The pooled connection, when it has read everything and its cursor is open.
fn pooled(place: &Place, bin: &Path, dir: &str) -> anyhow::Result<Child> {
    let answer = place.file("pool.out");
    let file = fs::File::create(&answer).context("create a file for answers")?;
    let mut command = psql(bin, dir);
    command.stdin(Stdio::piped()).stdout(file);
    let mut pool = Child::spawn(command, &place.file("pool.err"))?;
    for line in [
        "CREATE EXTENSION IF NOT EXISTS pg_prewarm;",
        "SELECT pg_prewarm('pgbench_accounts') + pg_prewarm('pgbench_accounts_pkey');",
        "SET work_mem = '600MB'; SET jit = off; SET max_parallel_workers_per_gather = 0;",
        "BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT aid, bid, abalance FROM pgbench_accounts ORDER BY filler, aid DESC;",
        "FETCH 1 FROM c;",
        "SELECT 'ready';",
    ] {
        pool.tell(line)?;
    }
    let deadline = clock::now().plus_us(120_000_000);
    while !fs::read_to_string(&answer).is_ok_and(|t| t.contains("ready")) {
        pool.still_runs()?;
        anyhow::ensure!(clock::now() < deadline, "the pooled connection took too long");
        sleep_until(clock::now().plus_us(20_000))?;
    }
    Ok(pool)
}

impl Running for Server {
    fn roots(&self) -> Vec<u32> {
        vec![self.child.pid()]
    }

    fn lasts(&self) -> bool {
        true
    }

    fn load(&mut self, seconds: f64) -> anyhow::Result<Outcome> {
        self.child.still_runs()?;
        self.pool.still_runs()?;
        let bin = binaries().context("no PostgreSQL")?;
        self.runs += 1;
        let prefix = self.dir.join(format!("log{}", self.runs));
        let mut command = Command::new(bin.join("pgbench"));
        command.arg("-h").arg(&self.dir).args(["-U", USER, "-n", "-c", "2", "-j", "1", "-M"]);
        command.args(["prepared", "-l", "--log-prefix"]).arg(&prefix);
        command.args(["-T", &format!("{:.0}", seconds.max(1.0))]);
        command.arg("-f").arg(&self.bench).arg("postgres");
        let report = self.dir.join("bench.out");
        let file = fs::File::create(&report).context("create a file for the report")?;
        command.stdin(Stdio::null()).stdout(file);
        let mut bench = Child::spawn(command, &self.dir.join("bench.err"))?;
        bench.succeeds(clock::now().plus_us(120_000_000))?;
        let text = fs::read_to_string(&report).context("read what pgbench reported")?;
        let log = format!("{}.{}", prefix.display(), bench.pid());
        let latencies = latencies(&fs::read_to_string(&log).context("read pgbench's log")?);
        fs::remove_file(&log).ok();
        let per_second = tps(&text).with_context(|| format!("no tps in {text:?}"))?;
        Ok(Outcome {
            per_second,
            work: Some(per_second * seconds.max(1.0).round()),
            p50_us: percentile(&latencies, 0.5),
            p99_us: percentile(&latencies, 0.99),
        })
    }
}

/// From the report of pgbench.
fn tps(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|l| l.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// From the log of pgbench: client, transaction, latency in us, ...
fn latencies(text: &str) -> Vec<f64> {
    text.lines().filter_map(|l| l.split(' ').nth(2)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbench_is_understood() {
        let report = "number of clients: 2\nlatency average = 0.05 ms\n\
                      tps = 31415.926535 (without initial connection time)\n";
        assert_eq!(tps(report), Some(31_415.926_535));
        assert_eq!(tps("nothing"), None);
        let log = "0 1 85 0 1763697000 123456\n1 1 91 0 1763697000 123460\ntorn";
        assert_eq!(latencies(log), [85.0, 91.0]);
    }
}
