//! Who may be acted on.

use isotherm_act::{ActKind, Process};

use crate::target::Target;

fn refusal(pid: u32) -> ActKind {
    Process::open(pid).unwrap_err().kind()
}

#[test]
fn refuses_itself_threads_and_the_kernels() {
    assert_eq!(refusal(std::process::id()), ActKind::Myself);
    let (tell, hear) = std::sync::mpsc::channel();
    let (hold, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(link.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()).unwrap();
        wait.recv().unwrap_err();
    });
    let tid = hear.recv().unwrap();
    assert_ne!(tid, std::process::id());
    assert_eq!(refusal(tid), ActKind::Myself, "a thread of ours");
    drop(hold);
    thread.join().unwrap();
    for pid in [0, u32::MAX, 1 << 30] {
        assert_eq!(refusal(pid), ActKind::Gone, "{pid}");
    }
    // kthreadd is there on every machine, though not in every container.
    let kthreadd = std::fs::read_to_string("/proc/2/comm").is_ok_and(|n| n.trim() == "kthreadd");
    if kthreadd {
        assert_eq!(refusal(2), ActKind::KernelThread);
    } else {
        eprintln!("skipped: no thread of the kernel to be seen here");
    }
}

#[test]
fn refuses_a_thread_of_another_process() {
    let target = Target::spawn();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap();
    let mut tids = tasks.map(|t| t.unwrap().file_name().to_str().unwrap().parse::<u32>().unwrap());
    let other = tids.find(|&tid| tid != target.pid()).unwrap();
    let error = Process::open(other).unwrap_err();
    assert_eq!(error.kind(), ActKind::IsThread);
    assert!(error.hint().contains(&target.pid().to_string()), "{error}");
}

#[test]
fn notices_exit_and_exec() {
    let mut target = Target::spawn();
    let process = Process::open(target.pid()).unwrap();
    assert!(!process.has_exited() && !process.is_gone());
    target.say("exec");
    assert!(!process.has_exited() && process.is_gone(), "another program runs now");
    let process = Process::open(target.pid()).unwrap();
    assert!(!process.is_gone());
    target.kill();
    assert!(process.has_exited() && process.is_gone());
    assert_eq!(refusal(target.pid()), ActKind::Gone);
}
