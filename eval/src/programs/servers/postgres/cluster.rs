//! A database server in a private directory, on a Unix socket there, as the user `postgres`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_sys::clock;

use crate::processes::child::{Child, sleep_until};
use crate::programs::Place;
use crate::programs::installed::output;

pub(super) const USER: &str = "postgres";

const SETTINGS: [&str; 8] = [
    "listen_addresses=",
    "shared_buffers=900MB",
    "huge_pages=off",
    "fsync=off",
    "autovacuum=off",
    "max_wal_size=4GB",
    "checkpoint_timeout=1h",
    "bgwriter_delay=10s",
];

/// Makes it, starts it, and waits until it answers.
pub(super) fn start(place: &Place) -> anyhow::Result<Child> {
    let bin = binaries().context("no PostgreSQL")?;
    let id = |option| output(Command::new("id").args([option, USER]))?.parse().context("an id");
    let (uid, gid) = (id("-u")?, id("-g")?);
    place.give_to(uid, gid)?;
    let data = place.file("data");
    let mut init = as_user(&bin.join("initdb"));
    init.arg("-D").arg(&data).args(["-A", "trust", "-N", "--no-locale"]);
    output(&mut init)?;
    let mut server = as_user(&bin.join("postgres"));
    server.arg("-D").arg(&data).arg("-k").arg(place.path());
    for setting in SETTINGS {
        server.args(["-c", setting]);
    }
    server.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = Child::spawn(server, &place.file("postgres.log"))?;
    wait_for(&mut child, place.path())?;
    Ok(child)
}

/// Where Debian keeps the server's programs: the newest version.
pub(super) fn binaries() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let bins = versions.filter_map(|v| Some(v.ok()?.path().join("bin")));
    bins.filter(|b| b.join("initdb").is_file()).max()
}

/// One of its programs as a client of the server in `dir`.
pub(super) fn client(name: &str, dir: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(binaries().context("no PostgreSQL")?.join(name));
    command.arg("-h").arg(dir).args(["-U", USER]);
    Ok(command)
}

/// The server refuses to run as root.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--init-groups", "--"]).arg(program);
    command.current_dir("/");
    command
}

fn psql(dir: &Path) -> anyhow::Result<Command> {
    let mut command = client("psql", dir)?;
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "postgres"]);
    Ok(command)
}

fn wait_for(child: &mut Child, dir: &Path) -> anyhow::Result<()> {
    let deadline = clock::now().plus_us(20_000_000);
    loop {
        child.still_runs()?;
        match output(psql(dir)?.args(["-c", "SELECT 1"])) {
            Ok(_) => return Ok(()),
            Err(e) if clock::now() > deadline => return Err(e),
            Err(_) => sleep_until(clock::now().plus_us(50_000))?,
        }
    }
}

/// A connection that has read everything into the shared buffers, has done `more`, and idles.
pub(super) fn pooled(place: &Place, more: &[&str]) -> anyhow::Result<Child> {
    let answer = place.file("pool.out");
    let file = fs::File::create(&answer).context("create a file for answers")?;
    let mut command = psql(place.path())?;
    command.stdin(Stdio::piped()).stdout(file);
    let mut pool = Child::spawn(command, &place.file("pool.err"))?;
    let read = [
        "CREATE EXTENSION IF NOT EXISTS pg_prewarm;",
        "SELECT pg_prewarm('pgbench_accounts') + pg_prewarm('pgbench_accounts_pkey');",
    ];
    for line in read.iter().chain(more).chain(&["SELECT 'ready';"]) {
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
