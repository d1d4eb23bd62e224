//! Fleet data as an agent writes it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::history::Small;
use crate::world::{World, sleeper, watch};

/// The parts of a table, the oldest first, below the root of fleet data.
fn parts(root: &Path, table: &str) -> Vec<PathBuf> {
    let below = |dir: &Path| -> Vec<PathBuf> {
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let dates = below(&root.join("isotherm/v1").join(table));
    let hosts = dates.iter().flat_map(|date| below(date));
    // As every reader does: what has a dot name is not finished.
    let is_whole = |path: &PathBuf| !path.file_name().unwrap().to_string_lossy().starts_with('.');
    let mut files: Vec<PathBuf> = hosts.flat_map(|host| below(&host)).filter(is_whole).collect();
    files.sort();
    files
}

/// Runs a line of Python with the paths of parts; none if there is no DuckDB or `PyArrow` for that.
fn python(script: &str, parts: &[PathBuf]) -> Option<String> {
    let output = Command::new("python3").args(["-c", script]).args(parts).output().ok()?;
    if !output.status.success() {
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(err.contains("No module named"), "{err}");
        eprintln!("skipped in part: {err}");
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn an_agent_writes_parts_that_others_read_and_tells_how_many() {
    let target = sleeper();
    let world = World::new(&[("a", &watch(target.0.id()))]);
    let root = world.path("fleet");
    let key = world.path("key");
    fs::write(&key, "0123456789abcdef").unwrap();
    let mut world = world
        .arg("--fleet")
        .arg(root.to_str().unwrap())
        .arg("--fleet-every=1s")
        .arg("--fleet-tables=sessions,cgroups,events,snapshots")
        .arg("--fleet-service=batch")
        .arg("--fleet-hash-key")
        .arg(key.to_str().unwrap());
    world.start();
    world.until("two intervals with a cgroup", |_| parts(&root, "cgroups").len() >= 2);
    world.until("regions", |_| !parts(&root, "snapshots").is_empty());
    let status = world.json("status");
    assert!(status["fleet"]["rows"].as_u64() >= Some(2), "{status}");
    assert!(status["fleet"]["trouble"].is_null(), "{status}");
    assert!(world.ctl("status").out.contains("fleet data "), "{}", world.ctl("status").out);
    assert_eq!(world.stop(), Some(0));

    for table in ["sessions", "cgroups", "events", "snapshots"] {
        let parts = parts(&root, table);
        assert!(!parts.is_empty(), "{table}");
        for part in &parts {
            let bytes = fs::read(part).unwrap();
            assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{}", part.display());
            let name = part.file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with("part-"), "{name}");
        }
        let host = parts[0].parent().unwrap().file_name().unwrap().to_str().unwrap();
        assert_eq!(host.len(), "host=".len() + 16, "a hash: {host}");
    }
    let script = "import sys, pyarrow.parquet as p\n\
                  for f in sys.argv[1:]:\n    \
                      for r in p.read_table(f).to_pylist(): print(r['cgroup'], r['service'], r['policy'], r['watched'])";
    if let Some(out) = python(script, &parts(&root, "cgroups")) {
        let row = out.lines().last().unwrap_or_default();
        assert!(row.contains(" a ") && row.split(' ').next_back() != Some("0"), "{out}");
    }
}

/// Two processes map the same libraries. The agent tells which, by hashes unless paths are allowed.
#[test]
fn files_that_processes_map_are_told_and_their_paths_only_if_that_is_allowed() {
    for is_allowed in [false, true] {
        let (a, b) = (sleeper(), sleeper());
        let world = World::new(&[("a", &watch(a.0.id())), ("b", &watch(b.0.id()))]);
        let root = world.path("fleet");
        let mut world = world
            .arg("--fleet")
            .arg(root.to_str().unwrap())
            .arg("--fleet-every=1s")
            .arg("--fleet-tables=sessions,cgroups,events,snapshots,pages,files");
        if is_allowed {
            world = world.arg("--fleet-paths");
        }
        world.start();
        world.until("files", |_| parts(&root, "files").len() >= 2);
        assert_eq!(world.stop(), Some(0));
        let tables = ["sessions", "cgroups", "events", "snapshots", "pages", "files"];
        let with_path = tables.map(|table| {
            let parts = parts(&root, table).into_iter();
            let has = |part: &PathBuf| fs::read(part).unwrap().windows(4).any(|w| w == b"libc");
            parts.filter(has).count()
        });
        assert_eq!(with_path[..5], [0; 5], "no other table has paths");
        assert_eq!(with_path[5] > 0, is_allowed);
    }
}

#[test]
fn a_killed_agent_leaves_whole_parts_and_the_next_one_clears_the_rest() {
    let target = sleeper();
    let world = World::new(&[("a", &watch(target.0.id()))]);
    let root = world.path("fleet");
    let mut world = world.arg("--fleet").arg(root.to_str().unwrap()).arg("--fleet-every=1s");
    world.start();
    world.until("it writes", |_| parts(&root, "cgroups").len() >= 2);
    world.kill();
    let before = parts(&root, "cgroups");
    let half = before[0].with_file_name(".part-0000000000000000001-000001.parquet");
    fs::write(&half, "PAR1").unwrap();
    world.start();
    world.until("it writes again", |_| parts(&root, "cgroups").len() >= before.len() + 2);
    assert!(!half.exists());
    assert!(before.iter().all(|path| path.exists()));
}

#[test]
fn mistakes_in_options_are_told() {
    let world = World::new(&[]);
    let short = world.path("short");
    fs::write(&short, "abc").unwrap();
    let short = short.to_str().unwrap();
    let missing = world.path("missing");
    for (args, code, said) in [
        (
            vec!["--fleet-tables=sessions,rows"],
            2,
            "it is one of sessions, cgroups, events, snapshots, pages, files",
        ),
        (vec!["--fleet-every=100ms"], 2, "at least 1s"),
        (vec!["--fleet-hash-key", short], 2, "has 3 bytes"),
        (vec!["--fleet-hash-key", missing.to_str().unwrap()], 2, "tried: read"),
        (vec!["--fleet=/proc/none"], 1, "cannot write fleet data"),
    ] {
        let mut command = world.command();
        if !args[0].starts_with("--fleet=") {
            command.arg("--fleet").arg(world.path("fleet"));
        }
        let output = command.args(&args).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
        assert!(err.contains(said), "{args:?}: {err}");
    }
}

/// What the agent's metrics say of fleet data, without its prefix.
fn fleet_metric(socket: &Path, name: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let line = text.lines().find(|line| line.starts_with(&format!("isotherm_fleet_{name} ")))?;
    line.split(' ').nth(1).map(str::to_owned)
}

#[test]
fn a_directory_in_which_nothing_can_be_written_is_told_until_it_can_be() {
    let target = sleeper();
    let world = World::new(&[("a", &watch(target.0.id()))]);
    let (root, socket) = (world.path("fleet"), world.path("m.sock"));
    let mut world = world.arg("--fleet").arg(root.to_str().unwrap()).arg("--fleet-every=1s");
    world = world.arg("--metrics").arg(socket.to_str().unwrap());
    world.start();
    let fleet = |world: &World| world.json("status")["fleet"].clone();
    let is = |world: &World, state: &str| fleet(world)["state"] == state;
    world.until("it writes", |world| !parts(&root, "cgroups").is_empty() && is(world, "writing"));
    world.until("metrics", |_| fleet_metric(&socket, "up").as_deref() == Some("1"));
    // Root may write everywhere but below a file.
    fs::rename(&root, world.path("away")).unwrap();
    fs::write(&root, "in the way").unwrap();
    world.until("it fails", |world| is(world, "failing"));
    let failures = |world: &World| fleet(world)["failures"].as_u64().unwrap();
    world.until("several intervals", |world| failures(world) > 2);
    let told = fleet(&world);
    let why = told["trouble"].as_str().unwrap();
    assert!(why.contains("cannot write") && why.contains("Not a directory"), "{why}");
    assert!(told["state_ns"].as_u64() < told["written_ns"].as_u64(), "{told}");
    assert!(told["lost_rows"].as_u64() > Some(1) && told["panics"] == 0, "{told}");
    let text = world.ctl("status").out;
    assert!(text.contains("  failing for ") && text.contains(" lost\n"), "{text}");
    world.until("metrics", |_| fleet_metric(&socket, "up").as_deref() == Some("0"));
    assert_ne!(fleet_metric(&socket, "lost_rows_total").as_deref(), Some("0"));
    assert_eq!(world.state("a"), "running");

    fs::remove_file(&root).unwrap();
    world.until("it goes on", |world| is(world, "writing"));
    world.until("metrics", |_| fleet_metric(&socket, "up").as_deref() == Some("1"));
    world.until("the gap is in the data", |_| !parts(&root, "events").is_empty());
    assert!(fleet(&world)["trouble"].is_null() && !parts(&root, "cgroups").is_empty());
    let log = world.log();
    for said in ["fleet data: not written: cannot write", "fleet data: written again after"] {
        assert_eq!(log.matches(said).count(), 1, "{said}\n{log}");
    }
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_full_disk_drops_the_oldest_parts_and_the_agent_goes_on() {
    let target = sleeper();
    let world = World::new(&[("a", &watch(target.0.id()))]);
    let root = world.path("fleet");
    let mut world = world.arg("--fleet").arg(root.to_str().unwrap()).arg("--fleet-every=1s");
    let Some(_small) = Small::mount(root.clone()) else { return };
    world.start();
    let dropped = |world: &World| world.json("status")["fleet"]["dropped_parts"].as_u64();
    world.until("the disk is full", |world| dropped(world) > Some(3));
    let full = "the disk is full, so the oldest parts were dropped";
    world.until("that is told", |world| world.ctl("status").out.contains(full));
    let rows = |world: &World| world.json("status")["fleet"]["rows"].as_u64();
    let then = rows(&world);
    world.until("it goes on", |world| rows(world) > then);
    assert_eq!(world.state("a"), "running");
    assert_eq!(world.stop(), Some(0));
    assert!(parts(&root, "sessions").iter().all(|path| fs::read(path).unwrap().ends_with(b"PAR1")));
}

/// A disk that others have filled: no part of ours can be dropped for a new one.
#[test]
fn a_disk_that_others_have_filled_is_told_until_there_is_room() {
    let target = sleeper();
    let world = World::new(&[("a", &watch(target.0.id()))]);
    let root = world.path("fleet");
    let mut world = world.arg("--fleet").arg(root.to_str().unwrap()).arg("--fleet-every=1s");
    let Some(_small) = Small::mount(root.clone()) else { return };
    let other = root.join("others");
    fs::write(&other, vec![1; 48 << 10]).unwrap();
    world.start();
    let fleet = |world: &World| world.json("status")["fleet"].clone();
    world.until("it fails", |world| fleet(world)["failures"].as_u64() > Some(1));
    let told = fleet(&world);
    assert_eq!((&told["state"], &told["written_ns"]), (&"failing".into(), &Value::Null), "{told}");
    assert!(told["trouble"].as_str().unwrap().contains("No space left"), "{told}");
    assert!(world.ctl("status").out.contains("last written as a whole: never"));
    fs::remove_file(&other).unwrap();
    world.until("it goes on", |world| fleet(world)["state"] == "writing");
    assert!(fleet(&world)["rows"].as_u64() > Some(0));
    assert_eq!(world.stop(), Some(0));
}
