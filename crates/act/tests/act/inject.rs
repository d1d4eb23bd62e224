//! Calls injected into processes that wait, work, are signalled, exit, or must not be touched.

use std::io::BufRead;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use isotherm_act::{
    ActError, ActKind, HugePageAdvice, InjectOptions, Injected, Injector, Process, Refused,
};
use isotherm_core::AddrRange;

use crate::waiter::{MEMORY, Waiter, command};

const MIB: u64 = 1 << 20;

fn at(from_mib: u64, to_mib: u64) -> AddrRange {
    AddrRange::new(MEMORY + from_mib * MIB, MEMORY + to_mib * MIB)
}

/// A waiter that calls can be injected into, or why not, printed.
fn waiter(mode: &str) -> Option<(Waiter, Process, Injector)> {
    waiter_with(mode, InjectOptions::default())
}

fn waiter_with(mode: &str, options: InjectOptions) -> Option<(Waiter, Process, Injector)> {
    let waiter = Waiter::start(mode)?;
    let process = Process::open(waiter.pid()).unwrap();
    let injector = Injector::new(&process, options).unwrap();
    Some((waiter, process, injector))
}

/// Injects a call. On a busy machine the target may not get a CPU in time to stop; then another try
/// is made, with a limit that only ends a test that would never pass.
fn madvise(
    process: &Process,
    injector: &Injector,
    advice: HugePageAdvice,
    ranges: &[AddrRange],
) -> Result<Injected, ActError> {
    let begin = Instant::now();
    loop {
        let done = injector.madvise(process, advice, ranges, &mut || false);
        let is_late = done.as_ref().is_err_and(|e| e.why().contains("did not stop"));
        if !is_late || begin.elapsed() > Duration::from_secs(60) {
            return done;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Injects one call, again and again if the target is busy.
fn once(process: &Process, injector: &Injector, advice: HugePageAdvice) -> Injected {
    let begin = Instant::now();
    loop {
        match injector.madvise(process, advice, &[at(0, 4)], &mut || false) {
            Ok(done) => return done,
            Err(e) => assert_eq!(e.kind(), ActKind::Busy, "{e}"),
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "always busy");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Injects calls of alternating advice for a while, so many times.
fn many(process: &Process, injector: &Injector, times: u32, pause: Duration) {
    for nr in 0..times {
        let advice = if nr % 2 == 0 { HugePageAdvice::Huge } else { HugePageAdvice::NoHuge };
        let done = once(process, injector, advice);
        assert_eq!(done.outcome.accepted_bytes, 4 * MIB, "{done:?}");
        std::thread::sleep(pause);
    }
}

#[test]
fn advice_is_seen_in_the_mapping() {
    let Some((mut waiter, process, injector)) = waiter("futex-forever") else { return };
    let ranges = [at(0, 2), at(4, 5), at(6, 10)];
    let done = madvise(&process, &injector, HugePageAdvice::Huge, &ranges).unwrap();
    assert!((1..=5).contains(&done.nr_stops), "{done:?}");
    assert!(done.longest_stop_ns > 0 && done.outcome.elapsed_ns >= done.longest_stop_ns);
    let hole = Refused { range: at(8, 10), errno: 12 };
    assert_eq!((done.outcome.accepted_bytes, &done.outcome.refused[..]), (5 * MIB, &[hole][..]));
    let flagged =
        |w: &Waiter, offset: u64, flag: &str| w.flags(offset * MIB).iter().any(|f| f == flag);
    let has = [0, 2, 4, 5, 6].map(|offset| flagged(&waiter, offset, "hg"));
    assert_eq!(has, [true, false, true, false, true]);
    let done = madvise(&process, &injector, HugePageAdvice::NoHuge, &[at(0, 8)]);
    assert_eq!(done.unwrap().outcome.accepted_bytes, 8 * MIB);
    assert!(flagged(&waiter, 0, "nh") && !flagged(&waiter, 0, "hg"));
    assert_eq!(waiter.errors(), (0, 0));
    waiter.until("it sleeps again", |w| w.status("State") == "S (sleeping)");
    assert_eq!(waiter.status("SigBlk"), "0000000000000000");
}

/// The mapping that the kernel calls the stack.
fn stack_of(pid: u32) -> AddrRange {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    AddrRange::new(hex(start), hex(end))
}

/// The stack pointer of the main thread, which sleeps in a system call.
fn stack_pointer(pid: u32) -> u64 {
    // NR ARGS... SP PC; of a thread that runs, one word.
    let syscall = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
    hex(syscall.split_whitespace().rev().nth(1).unwrap())
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

/// Advice about a part of the stack splits its mapping, and the kernel calls only the upper part a
/// stack then. The way back is below all parts.
#[test]
fn a_stack_that_advice_has_split_has_room_for_the_way_back() {
    let Some((mut waiter, process, injector)) = waiter("futex-forever") else { return };
    waiter.until("it sleeps", |w| w.status("State") == "S (sleeping)");
    let (stack, sp) = (stack_of(waiter.pid()), stack_pointer(waiter.pid()));
    let split = (sp - (8 << 10)) & !0xfff;
    let lower = AddrRange::new(stack.start, split);
    for advice in [HugePageAdvice::NoHuge, HugePageAdvice::Huge, HugePageAdvice::NoHuge] {
        let done = madvise(&process, &injector, advice, &[lower]).unwrap();
        assert_eq!(done.outcome.accepted_bytes, lower.len(), "{advice:?}: {done:?}");
        assert_eq!(stack_of(waiter.pid()), AddrRange::new(split, stack.end), "{advice:?}");
    }
    assert_eq!(waiter.errors(), (0, 0));
    waiter.until("it sleeps again", |w| w.status("State") == "S (sleeping)");
}

#[test]
fn waits_go_on_as_if_nothing_had_been() {
    // Each wait takes 200 ms and a call comes every 10 ms. If a call made the wait begin anew, the
    // wait would never end.
    for mode in ["nanosleep", "poll", "futex", "ppoll"] {
        let Some((mut waiter, process, injector)) = waiter(mode) else { return };
        // Three waits' time, or more where the target seldom gets a CPU.
        for _ in 0..20 {
            many(&process, &injector, 60, Duration::from_millis(10));
            if mode == "ppoll" || waiter.rounds() >= 2 {
                break;
            }
        }
        if mode != "ppoll" {
            assert!(waiter.rounds() >= 2, "{mode}: {waiter:?}");
        }
        let before = waiter.rounds();
        waiter.until("it has waited again", |w| w.rounds() > before + 1);
        assert_eq!(waiter.errors(), (0, 0), "{mode}");
        // While it waits, ppoll blocks what it was told to.
        let blocked = waiter.status("SigBlk") != "0000000000000000";
        assert_eq!(blocked, mode == "ppoll", "{mode}");
    }
}

#[test]
fn reads_are_restarted() {
    for mode in ["read", "epoll", "signals-epoll"] {
        let Some((mut waiter, process, injector)) = waiter(mode) else { return };
        many(&process, &injector, 20, Duration::from_millis(1));
        assert_eq!(waiter.rounds(), 0, "{mode}: {:?}", waiter.errors());
        for nr in 1..=20 {
            waiter.poke();
            once(&process, &injector, HugePageAdvice::Huge);
            waiter.until("it has read", |w| w.rounds() == nr);
        }
        assert_eq!(waiter.errors(), (0, 0), "{mode}");
    }
}

#[test]
fn one_that_does_not_stop_in_time_does_not_notice() {
    for mode in ["read", "epoll", "signals-epoll"] {
        let hasty = InjectOptions { stop_within_us: 0, ..InjectOptions::default() };
        let Some((waiter, process, injector)) = waiter_with(mode, hasty) else { return };
        let mut late = 0;
        for _ in 0..10_000 {
            match injector.madvise(&process, HugePageAdvice::Huge, &[at(0, 4)], &mut || false) {
                Ok(_) => {}
                Err(e) => {
                    assert_eq!(e.kind(), ActKind::Busy, "{e}");
                    late += u32::from(e.why().contains("did not stop"));
                }
            }
            if late == 20 {
                break;
            }
        }
        assert_eq!(late, 20, "{mode}");
        assert_eq!((waiter.rounds(), waiter.errors()), (0, (0, 0)), "{mode}");
    }
}

#[test]
fn waiting_for_a_signal_is_restarted() {
    let Some((waiter, process, injector)) = waiter("sigwait") else { return };
    many(&process, &injector, 20, Duration::from_millis(1));
    assert_eq!((waiter.rounds(), waiter.errors()), (0, (0, 0)));
}

#[test]
fn registers_are_kept_while_it_works() {
    for mode in ["spin", "threads-spin", "threads-read", "threads-futex"] {
        let Some((mut waiter, process, injector)) = waiter(mode) else { return };
        many(&process, &injector, 300, Duration::from_micros(100));
        let before = waiter.rounds();
        waiter.until("it works on", |w| w.rounds() > before + 10);
        assert_eq!(waiter.errors(), (0, 0), "{mode}");
    }
}

#[test]
fn signals_come_once_each_and_in_order() {
    const NR: u64 = 4000;
    for mode in ["signals-spin", "signals-futex", "signals-read"] {
        let Some((mut waiter, process, injector)) = waiter(mode) else { return };
        let (pid, nr) = (waiter.pid().to_string(), NR.to_string());
        let mut bomb = command(&["bomb", &pid, &nr]).unwrap().spawn().unwrap();
        let mut injected = 0;
        while bomb.try_wait().unwrap().is_none() || waiter.signals() < NR {
            if waiter.signals() >= NR {
                break;
            }
            once(&process, &injector, HugePageAdvice::Huge);
            injected += 1;
            assert!(injected < 100_000, "{} of {NR} signals", waiter.signals());
        }
        assert!(bomb.wait().unwrap().success());
        assert!(injected > 0, "{mode}: no call among the signals");
        waiter.until("all signals are handled", |w| w.signals() == NR);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(waiter.signals(), NR, "{mode}");
        // Interrupted by a handler, a futex wait ends with EINTR, as it should.
        if mode != "signals-futex" {
            assert_eq!(waiter.errors(), (0, 0), "{mode}");
        }
    }
}

#[test]
fn a_target_may_end_at_any_time() {
    for delay_us in [0, 20, 50, 100, 150, 200, 300, 500, 1000, 3000] {
        let Some((mut waiter, process, injector)) = waiter("threads-spin") else { return };
        let pid = waiter.pid();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(delay_us));
            waiter.child.kill().unwrap();
            waiter.child.wait().unwrap()
        });
        let error = loop {
            match injector.madvise(&process, HugePageAdvice::Huge, &[at(0, 4)], &mut || false) {
                Ok(_) => {}
                Err(e) if e.kind() == ActKind::Busy => {}
                Err(e) => break e,
            }
        };
        assert_eq!(error.kind(), ActKind::Gone, "{error}");
        let status = killer.join().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{pid}");
    }
}

#[test]
fn refuses_who_is_traced_or_stopped() {
    let Some((waiter, process, injector)) = waiter("futex-forever") else { return };
    let pid = waiter.pid().to_string();
    let mut tracer = command(&["trace", &pid]).unwrap().stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(tracer.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let error = madvise(&process, &injector, HugePageAdvice::Huge, &[at(0, 1)]);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ActKind::Busy);
    assert!(error.why().contains(&format!("process {} traces it", tracer.id())), "{error}");
    tracer.kill().unwrap();
    tracer.wait().unwrap();
    let kill = |signal: &str| {
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    kill("-STOP");
    while !waiter.status("State").starts_with('T') {
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = madvise(&process, &injector, HugePageAdvice::Huge, &[at(0, 1)]);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ActKind::Busy);
    assert!(error.why().contains("stopped"), "{error}");
    kill("-CONT");
    once(&process, &injector, HugePageAdvice::Huge);
    assert_eq!(waiter.errors(), (0, 0));
}

#[test]
fn a_parent_in_vfork_is_busy() {
    let Some((_waiter, process, injector)) = waiter("vfork") else { return };
    let error = injector.madvise(&process, HugePageAdvice::Huge, &[at(0, 1)], &mut || false);
    assert_eq!(error.unwrap_err().kind(), ActKind::Busy);
}

#[test]
fn seccomp_is_respected() {
    let despite = InjectOptions { despite_seccomp_filter: true, ..InjectOptions::default() };
    for mode in ["errno-spin", "trap-spin"] {
        let Some(waiter) = Waiter::start(mode) else { return };
        let process = Process::open(waiter.pid()).unwrap();
        let error = Injector::new(&process, InjectOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ActKind::Unsafe, "{error}");
        assert!(error.why().contains("seccomp"), "{error}");
    }
    let Some((mut waiter, process, injector)) = waiter_with("errno-spin", despite) else { return };
    let done = once(&process, &injector, HugePageAdvice::Huge);
    assert_eq!(done.outcome.refused, [Refused { range: at(0, 4), errno: 1 }]);
    let before = waiter.rounds();
    waiter.until("it works on", |w| w.rounds() > before);
    let Some((mut waiter, process, injector)) = waiter_with("trap-spin", despite) else { return };
    let error = madvise(&process, &injector, HugePageAdvice::Huge, &[at(0, 1)]);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ActKind::Unsafe, "{error}");
    let before = waiter.rounds();
    waiter.until("it works on", |w| w.rounds() > before);
    assert_eq!(waiter.errors(), (0, 0));
}

/// Set, to a pid, in a process that is to inject calls until it is killed.
const INJECT: &str = "ISOTHERM_TEST_INJECT";

/// Not a test of its own: the body of that process.
#[test]
fn inject_for_ever() {
    let Ok(pid) = std::env::var(INJECT) else { return };
    let process = Process::open(pid.parse().unwrap()).unwrap();
    let injector = Injector::new(&process, InjectOptions::default()).unwrap();
    println!("@begins");
    loop {
        injector.madvise(&process, HugePageAdvice::Huge, &[at(0, 4)], &mut || false).ok();
    }
}

#[test]
fn a_killed_injector_leaves_its_target_running_correctly() {
    for mode in ["spin", "read", "signals-futex-forever", "threads-epoll"] {
        let Some(mut waiter) = Waiter::start(mode) else { return };
        for nr in 0..60_u64 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "inject::inject_for_ever", "--nocapture"])
                .env(INJECT, waiter.pid().to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
            lines.find(|line| line.as_ref().unwrap().contains("@begins")).unwrap().unwrap();
            std::thread::sleep(Duration::from_micros(300 + nr * 17));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(waiter.child.try_wait().unwrap().is_none(), "{mode}: it has died");
        assert_eq!(waiter.errors(), (0, 0), "{mode}");
        assert_eq!(waiter.status("TracerPid"), "0");
        // It may still be in the call that it was left alone with.
        waiter.until("its signals are let in again", |w| w.status("SigBlk") == "0000000000000000");
        match mode {
            "spin" => {
                let before = waiter.rounds();
                waiter.until("it works on", |w| w.rounds() > before);
            }
            "read" => {
                waiter.poke();
                waiter.until("it reads on", |w| w.rounds() == 1);
            }
            _ => {}
        }
    }
}
