//! Metrics of a run, as Prometheus sees them, and the policy that is shipped.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use crate::program::{ISOTHERM, Running, command, isotherm, scratch, wait_until};

/// Asks for a path; the status line and the body.
fn get(at: &str, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(at).ok()?;
    let accept = "application/openmetrics-text; version=1.0.0";
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.lines().next()?.to_owned(), body.to_owned()))
}

/// Runs a policy that only counts over a process, with metrics.
fn counting(dir: &Path, pid: u32, more: &str) -> Running {
    let policy = format!(
        "[[context]]\nname = \"c\"\ntargets = [\"pid:{pid}\"]\nops = \"smaps\"\n[[context.scheme]]\n\
         name = \"all\"\naction = \"stat\"\n"
    );
    fs::write(dir.join("p.toml"), policy).unwrap();
    let words = format!("run p.toml --duration 5m {more}");
    let mut run = command(ISOTHERM, dir, &words.split(' ').collect::<Vec<_>>());
    run.stderr(fs::File::create(dir.join("said")).unwrap());
    Running::start(run)
}

#[test]
fn a_run_serves_metrics_of_its_contexts_schemes_and_cgroups() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let run = counting(dir.path(), target.pid(), "--metrics 127.0.0.1:0 --metrics-textfile m.prom");
    let said = || fs::read_to_string(dir.path().join("said")).unwrap();
    wait_until("the address", || said().contains("metrics: http://"));
    let said = said();
    let at = said.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    assert_eq!(get(&at, "/healthz").unwrap().0, "HTTP/1.1 200 OK");
    wait_until("readiness", || get(&at, "/readyz").is_some_and(|(head, _)| head.contains("200")));
    let cgroup = format!("/proc/{}/cgroup", target.pid());
    let cgroup = fs::read_to_string(cgroup).unwrap();
    let is_here = |line: &str| {
        line.starts_with("isotherm_cgroup_processes{")
            && cgroup.lines().any(|c| {
                let path = c.splitn(3, ':').nth(2).unwrap();
                line.contains(&format!("cgroup=\"{path}\""))
            })
            && line.ends_with(" 1")
    };
    wait_until("the cgroup", || get(&at, "/metrics").unwrap().1.lines().any(is_here));
    let (_, text) = get(&at, "/metrics").unwrap();
    for part in [
        "isotherm_build_info{version=\"",
        "isotherm_backend_info{context=\"c\",backend=\"smaps\"} 1\n",
        "isotherm_targets{context=\"c\"} 1\n",
        "isotherm_scheme_tried_bytes_total{context=\"c\",scheme=\"all\",action=\"stat\"} ",
        "isotherm_errors_total{kind=\"action\"} 0\n",
        "# EOF\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains(&format!("\"{}\"", target.pid())), "a pid is no label: {text}");
    let file = dir.path().join("m.prom");
    wait_until("the textfile", || file.exists());
    assert!(fs::read_to_string(&file).unwrap().contains("# TYPE isotherm_build_info gauge"));
    run.signal("TERM");
    run.finish();
    assert!(get(&at, "/healthz").is_none(), "nobody listens any more");
}

#[test]
fn addresses_that_others_can_reach_and_other_files_are_refused() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    for (more, parts) in [
        ("--metrics 0.0.0.0:0", ["other machines could reach it", "--metrics-any-address"]),
        ("--metrics nonsense", ["neither IP:PORT nor", "127.0.0.1:9464"]),
        ("--metrics-textfile m.txt", ["m.txt", ".prom"]),
    ] {
        let run = counting(dir.path(), target.pid(), more);
        let done = run.finish();
        assert_eq!(done.code, Some(2), "{done:?}");
        let said = fs::read_to_string(dir.path().join("said")).unwrap();
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn the_policy_for_fleets_is_accepted() {
    if fs::read("/proc/pressure/memory").is_err() {
        eprintln!("skipped: this kernel tells no pressure, which the policy has as a goal");
        return;
    }
    let dir = scratch();
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies/proactive-reclaim.toml");
    fs::copy(file, dir.path().join("p.toml")).unwrap();
    let said = isotherm(dir.path(), "run --check p.toml");
    said.expect(0, &[]);
    assert!(said.out.contains("valid; contexts: 1, schemes: 2"), "{said:?}");
}

#[test]
fn nothing_is_taken_from_the_init_process() {
    if fs::read_link("/proc/1/ns/pid").is_ok_and(|ns| ns.as_os_str() != "pid:[4026531836]") {
        eprintln!("skipped: process 1 is not the machine's here");
        return;
    }
    let dir = scratch();
    let policy = "[[context]]\ntargets = [\"pid:1\"]\n[[context.scheme]]\naction = \"cold\"\n";
    fs::write(dir.path().join("p.toml"), policy).unwrap();
    let said = isotherm(dir.path(), "run p.toml --duration 1s");
    assert!(said.code != Some(0) && said.err.contains("init process"), "{said:?}");
}
