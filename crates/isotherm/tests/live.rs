//! The library over a real process, by the best operations set that there is.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use isotherm::doctor::Set;
use isotherm::{Bytes, Error, ErrorKind, Event, Monitor, Scheme};

/// A child that runs until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().expect("sleep"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().expect("our child");
    }
}

/// A monitor by the best set or by `smaps`, which needs no privilege over children of ours.
fn monitor(pid: u32) -> Monitor {
    let builder = || Monitor::builder().pid(pid);
    builder()
        .build()
        .or_else(|_| builder().set(Set::Smaps).build())
        .expect("smaps works everywhere")
}

#[test]
fn a_process_is_watched_until_it_ends() {
    let sleeper = Sleeper::start();
    let pid = sleeper.0.id();
    let mut monitor = monitor(pid);
    monitor.add_scheme(Scheme::stat()).expect("stat needs nothing");
    for _ in 0..5 {
        let snapshot = monitor.next_snapshot().unwrap().expect("it runs");
        let target = snapshot.targets().next().expect("it is a target");
        assert_eq!(target.identity().map(|t| (t.pid, t.name.as_str())), Some((pid, "sleep")));
        assert!(target.size() > Bytes::kib(64), "{}", target.size());
        assert!(snapshot.start() < snapshot.end());
    }
    assert!(monitor.schemes()[0].tried > Bytes(0));
    drop(sleeper);
    while monitor.next_snapshot().unwrap().is_some() {}
    let events = monitor.take_events();
    assert!(matches!(&events[0], Event::Added(target) if target.pid == pid), "{events:?}");
    assert!(events.iter().any(|e| matches!(e, Event::Gone(_))), "{events:?}");
}

#[test]
fn a_command_is_started_and_ended() {
    let mut monitor = Monitor::builder().command("sleep", ["60"]).set(Set::Smaps).build().unwrap();
    assert!(monitor.next_snapshot().unwrap().is_some());
    assert_eq!(monitor.set(), "smaps");
    assert!(monitor.attrs().sample_us > 5_000, "smaps cannot look that often");
    assert_eq!(monitor.command_exit(), None);
    let exit = monitor.end_command().expect("it ran");
    assert_eq!(exit.shell_code(), 128 + 15);
}

#[test]
fn a_scheme_that_the_set_cannot_carry_out_is_refused() {
    let sleeper = Sleeper::start();
    let builder = Monitor::builder().pid(sleeper.0.id()).set(Set::Smaps);
    let mut monitor = builder.build().unwrap();
    let scheme = Scheme::pageout().idle_for(Duration::from_secs(3)).dry_run();
    let error = monitor.add_scheme(scheme).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(error.why().contains("cannot look at single pages"), "{error}");
    assert_eq!(monitor.schemes(), []);
}

#[test]
fn who_is_not_there_cannot_be_watched() {
    let gone = Command::new("true").spawn().and_then(|mut c| c.wait().map(|_| c.id())).unwrap();
    let error = Monitor::builder().pid(gone).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
    assert_eq!(error.what(), format!("process {gone} cannot be a target"));
    assert!(!error.tried().is_empty() && !error.why().is_empty() && !error.hint().is_empty());
    let error = Monitor::builder().command("/no/such/program", ["x"]).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
    assert!(std::error::Error::source(&error).is_some(), "the kernel said so");
    let error = Monitor::builder().cgroup("/no/such/cgroup").build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
}

/// The first lines that most people write, word by word as the documentation has them. They need
/// `pagewalk` or `idle`; without either the error has to say so.
#[rustfmt::skip]
#[expect(clippy::print_stdout, reason = "the documentation prints")]
fn first_lines(pid: u32) -> Result<(), Error> {
    let mut monitor = Monitor::builder().pid(pid).children(true).sample(Duration::from_millis(5)).build()?;
    monitor.add_scheme(Scheme::pageout().idle_for(Duration::from_secs(3)).dry_run())?;
    while let Some(snapshot) = monitor.next_snapshot()? { println!("{}", snapshot.working_set()); }
    Ok(())
}

#[test]
fn the_first_lines_work_until_the_process_ends() {
    let child = Command::new("sleep").arg("1").spawn().expect("sleep");
    let mut child = Sleeper(child);
    match first_lines(child.0.id()) {
        Ok(()) => assert!(child.0.try_wait().unwrap().is_some(), "it ended before its target"),
        Err(error) => {
            let kinds = [ErrorKind::NotSupported, ErrorKind::Permission];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
    }
}
