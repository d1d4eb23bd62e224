//! Measures what polling the tracker costs: `tracker_cost [NR_TARGETS]`, steady and while forking.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program")]

use std::ffi::OsString;

use isotherm_ops::targets::Tracker;
use isotherm_sys::clock::{now, process_cpu_ns, sleep_until};
use rustix::process::Signal;

fn main() {
    let nr = std::env::args().nth(1).unwrap_or_else(|| "100".to_owned());
    let still = format!("i=0; while [ $i -lt {nr} ]; do sleep 1000 & i=$((i+1)); done; wait");
    measure("steady", &still);
    let forks = format!("{still} & while :; do /bin/true; done");
    measure("forking", &forks);
}

fn measure(name: &str, script: &str) {
    let args = [OsString::from("-c"), OsString::from(script)];
    let mut tracker = Tracker::spawn("sh", &args, true).unwrap();
    tracker.start().unwrap();
    for _ in 0..15 {
        sleep_until(now().plus_us(100_000));
        tracker.poll(now());
    }
    let (cpu, polls) = (process_cpu_ns(), 50);
    for _ in 0..polls {
        sleep_until(now().plus_us(100_000));
        tracker.poll(now());
    }
    let us = (process_cpu_ns() - cpu) / polls / 1000;
    println!("{name}: {} targets, {us} us of CPU per poll", tracker.targets().count());
    for target in tracker.targets() {
        let pid = rustix::process::Pid::from_raw(i32::try_from(target.pid).unwrap()).unwrap();
        let _gone = rustix::process::kill_process(pid, Signal::KILL);
    }
    tracker.poll(now());
}
