//! Measures what a poll of the roster costs on a made-up machine with many processes and cgroups,
//! and how many moves of a process out of a quiet cgroup, and back into another, the next poll
//! knows.
//!
//! `cargo run --release -p isotherm-ops --example roster -- 5000 2000`
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "an example that measures")]

use std::fs;
use std::path::Path;

use isotherm_core::Time;
use isotherm_host::proc::Proc;
use isotherm_ops::targets::roster::{Roster, Rule};
use isotherm_sys::clock::thread_cpu_ns;

const S: u64 = 1_000_000_000;

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().unwrap());
    let (processes, cgroups) = (args.next().unwrap_or(5000_u32), args.next().unwrap_or(2000_u32));
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", root.join("cg").display());
    put(root, "proc/self/mountinfo", &mounts);
    put(root, "cg/else/cgroup.procs", "");
    put(root, "proc/loadavg", "0.00 0.02 0.00 1/86 7\n");
    let mut members = vec![String::new(); cgroups as usize];
    for nr in 0..processes {
        let (pid, group) = (100 + nr, nr % cgroups);
        let stat = format!(
            "{pid} (x) S 1 1 1 0 -1 64 9 0 0 0 5 6 0 0 20 0 1 0 {pid} 8 9 10 1 1 1 0 0 0 0 0 0 0 0 0 \
             17 0 0\n"
        );
        put(root, &format!("proc/{pid}/stat"), &stat);
        put(root, &format!("proc/{pid}/cgroup"), &format!("0::/app.slice/g{group}\n"));
        members[group as usize] += &format!("{pid}\n");
    }
    for (group, members) in members.iter().enumerate() {
        put(root, &format!("cg/app.slice/g{group}/cgroup.procs"), members);
    }
    let rules = vec![Rule::Cgroup("/app.slice/*".to_owned())];
    let mut roster = Roster::new(Proc::new(root.join("proc")), root, rules);
    let (mut costs, mut moves, mut known) = (Vec::new(), 0, 0);
    for s in 101..=160_u32 {
        // In the second half: at an odd second out, at an even one back.
        let (pid, is_out) = (100 + (s / 2) * 61 % processes, s % 2 == 1);
        if s > 130 {
            let to =
                if is_out { "else".to_owned() } else { format!("app.slice/g{}", s * 7 % cgroups) };
            put(root, &format!("proc/{pid}/cgroup"), &format!("0::/{to}\n"));
            put(root, &format!("cg/{to}/cgroup.procs"), &format!("{pid}\n"));
        }
        let began = thread_cpu_ns();
        roster.poll(Time(u64::from(s) * S));
        costs.push(thread_cpu_ns() - began);
        if s > 130 {
            moves += 1;
            known += usize::from(roster.members().any(|member| member == pid) != is_out);
        }
    }
    let first = costs.remove(0);
    costs.sort_unstable();
    let oldest = roster.followed(Time(160 * S)).filter_map(|f| f.age_ns).max().unwrap_or(0);
    println!(
        "{processes} processes in {cgroups} cgroups: first poll {} ms, then median {} us, longest {} us; \
         oldest list of members {} s, oldest process {} s; {known} of {moves} moves known at once",
        first / 1_000_000,
        costs[costs.len() / 2] / 1000,
        costs[costs.len() - 1] / 1000,
        oldest / S,
        roster.oldest_ns(Time(160 * S)) / S
    );
}
