//! The runner, over real processes and the set that needs no privileges.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use isotherm_act::apply::Settings;
use isotherm_agent::policy::{ContextPolicy, Policy, SchemePolicy, TargetSpec};
use isotherm_agent::run::{Ended, Event, Message, Options, Reason, Runner};
use isotherm_core::Scheme;
use isotherm_core::scheme::{Action, Pattern};
use isotherm_ops::support::SetName;

/// A process that sleeps, for as long as this lives.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("300").spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn scheme(name: &str) -> SchemePolicy {
    let settings = Settings { name: name.to_owned(), ..Settings::default() };
    let scheme = Scheme { pattern: Pattern::ALL, action: Action::Stat, ..Scheme::default() };
    SchemePolicy { scheme, settings }
}

fn context(name: &str, pid: u32, schemes: &[&str]) -> ContextPolicy {
    ContextPolicy {
        name: name.to_owned(),
        targets: vec![TargetSpec::Pid(pid)],
        ops: Some(SetName::Smaps),
        schemes: schemes.iter().map(|name| scheme(name)).collect(),
        ..ContextPolicy::default()
    }
}

fn policy(contexts: &[ContextPolicy]) -> Policy {
    Policy { contexts: contexts.to_vec(), ..Policy::default() }
}

/// Waits for something to be told; the limit only ends a test that hangs.
#[track_caller]
fn until<T>(runner: &mut Runner, mut wanted: impl FnMut(Message) -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < deadline, "waited in vain");
        if let Some(found) = runner.next(Duration::from_millis(100)).and_then(&mut wanted) {
            return found;
        }
    }
}

/// Passes of the first scheme of a context, once there were more than `more`.
#[track_caller]
fn windows(runner: &mut Runner, context: &str, more: u64) -> u64 {
    until(runner, |told| match told.event {
        Event::Summary(s) if told.context == context => {
            s.schemes.first().map(|s| s.account.windows).filter(|n| *n > more)
        }
        _ => None,
    })
}

fn ended(told: Message) -> Option<(String, Ended)> {
    if let Event::Ended(ended) = told.event { Some((told.context, ended)) } else { None }
}

#[test]
fn a_policy_starts_as_a_whole_or_not_at_all() {
    let sleeper = Sleeper::new();
    let pid = sleeper.0.id();
    let mut impossible = context("b", pid, &["s"]);
    impossible.attrs.min_nr_regions = 0;
    let gone = |name| context(name, 999_999_999, &["s"]);
    let refused = Runner::start(policy(&[gone("a"), gone("b")]), Options::default()).unwrap_err();
    assert!(refused.code == 5 && refused.text.contains("no process has this pid"), "{refused}");
    for (bad, code, said) in [
        (context("b", std::process::id(), &["s"]), 2, "cannot be a target"),
        (impossible, 3, "impossible attributes"),
    ] {
        let both = policy(&[context("a", pid, &["s"]), bad]);
        let refused = Runner::start(both, Options::default()).unwrap_err();
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.text.contains(said), "{refused}");
    }
}

#[test]
fn a_commit_changes_all_or_nothing_and_keeps_what_was_counted() {
    let sleepers = [Sleeper::new(), Sleeper::new()];
    let [one, two] = sleepers.each_ref().map(|s| s.0.id());
    let first = policy(&[context("a", one, &["s"]), context("b", two, &["s"])]);
    let mut runner = Runner::start(first, Options::default()).unwrap();
    let before = windows(&mut runner, "a", 0);

    // The second context cannot be had, so the first does not change either.
    let mut other_ops = context("b", two, &["s"]);
    other_ops.ops = None;
    for bad in [other_ops, context("c", 999_999_999, &["s"])] {
        let refused = runner.commit(policy(&[context("a", one, &["t", "s"]), bad])).unwrap_err();
        assert!(refused.code == 2 || refused.code == 5, "{refused}");
    }
    let before = windows(&mut runner, "a", before);

    // A scheme in front of the old one; a context goes, another comes.
    let next = policy(&[context("a", one, &["t", "s"]), context("c", two, &["s"])]);
    runner.commit(next).unwrap();
    let (gone, end) = until(&mut runner, ended);
    assert_eq!((gone.as_str(), end.reason), ("b", Reason::Stopped));
    windows(&mut runner, "c", 0);
    let new = windows(&mut runner, "a", 0);

    runner.stop();
    let mut ends = [until(&mut runner, ended), until(&mut runner, ended)];
    assert!(runner.is_over());
    ends.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(ends[0].0, "a");
    let [t, s] = ends[0].1.accounts.as_slice() else { panic!("{ends:?}") };
    assert_eq!((t.name.as_str(), s.name.as_str()), ("t", "s"));
    assert!(t.windows >= new && s.windows > before, "{t:?} {s:?}");
    assert!(t.windows < s.windows, "the new one has the old one's counters: {t:?} {s:?}");
}

#[test]
fn the_first_summary_knows_all_targets() {
    let sleepers = [Sleeper::new(), Sleeper::new(), Sleeper::new()];
    let targets = sleepers.iter().map(|s| TargetSpec::Pid(s.0.id())).collect();
    let a = ContextPolicy { targets, ..context("a", sleepers[0].0.id(), &[]) };
    let mut runner = Runner::start(policy(&[a]), Options::default()).unwrap();
    let first = until(&mut runner, |told| match told.event {
        Event::Summary(summary) => Some(summary),
        _ => None,
    });
    assert_eq!((first.nr_targets, first.nr_denied), (3, 0));
    runner.stop();
}

#[test]
fn a_context_that_ends_within_a_second_has_told_one_summary() {
    let sleeper = Sleeper::new();
    let begun = Instant::now();
    let a = context("a", sleeper.0.id(), &["s"]);
    let mut runner = Runner::start(policy(&[a]), Options::default()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    runner.stop();
    let mut summaries = 0;
    until(&mut runner, |told| {
        summaries += usize::from(matches!(told.event, Event::Summary(_)));
        ended(told)
    });
    // Each full second has one more.
    assert!((1..=1 + begun.elapsed().as_secs()).contains(&(summaries as u64)), "{summaries}");
}

#[test]
fn a_run_tells_of_huge_pages_that_nobody_tries() {
    let sleeper = Sleeper::new();
    for (action, prove, is_told) in [
        (Action::Stat, false, false),
        (Action::Hugepage, false, true),
        (Action::Collapse, false, true),
        (Action::Collapse, true, false),
    ] {
        let mut context = context("a", sleeper.0.id(), &["s"]);
        // The decision of `hugepage` is the kernel's; pagewalk is what both need.
        context.ops = if action == Action::Stat { context.ops } else { Some(SetName::PageWalk) };
        let SchemePolicy { scheme, settings } = &mut context.schemes[0];
        (scheme.action, settings.prove, settings.inject) = (action, prove, true);
        let mut runner = match Runner::start(policy(&[context]), Options::default()) {
            Ok(runner) => runner,
            Err(refused) => {
                println!("skipped: {refused}");
                return;
            }
        };
        let why = until(&mut runner, |told| match told.event {
            Event::Ready(ready) => Some(ready.why),
            _ => None,
        });
        let is_there = why.iter().any(|line| line.contains("without a trial"));
        assert_eq!(is_there, is_told, "{action:?}, prove {prove}: {why:?}");
        runner.stop();
    }
}

/// One that only the context itself can refuse: the runner's own check does not see it.
#[test]
fn a_context_that_refuses_a_commit_keeps_the_others_from_it() {
    let sleepers = [Sleeper::new(), Sleeper::new()];
    let [one, two] = sleepers.each_ref().map(|s| s.0.id());
    let first = policy(&[context("a", one, &["s"]), context("b", two, &["s"])]);
    let mut runner = Runner::start(first.clone(), Options::default()).unwrap();
    windows(&mut runner, "b", 0);
    let mut impossible = context("b", two, &["s"]);
    impossible.attrs.min_nr_regions = 0;
    let bad = policy(&[context("a", one, &["t"]), impossible, context("c", one, &["s"])]);
    let refused = runner.commit(bad).unwrap_err();
    assert_eq!(refused.code, 3, "{refused}");
    assert!(refused.text.contains("context `b`: impossible attributes"), "{refused}");
    // Twice, since a summary can be from before.
    let before = windows(&mut runner, "a", 0);
    windows(&mut runner, "a", before);
    // Nothing of it is left behind: the same policy as at the start changes nothing either.
    runner.commit(first).unwrap();
    runner.stop();
    for _ in 0..2 {
        let (name, end) = until(&mut runner, |told| {
            assert_ne!(told.context, "c", "it was never to be seen: {told:?}");
            ended(told)
        });
        let names: Vec<_> = end.accounts.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["s"], "{name}");
    }
    assert!(runner.is_over());
}

/// Waits until no thread of this process has this name.
fn until_gone(thread: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_there = || {
        std::fs::read_dir("/proc/self/task").unwrap().flatten().any(|task| {
            let name = std::fs::read_to_string(task.path().join("comm"));
            name.is_ok_and(|name| name.trim_end() == thread)
        })
    };
    while is_there() {
        assert!(Instant::now() < deadline, "{thread} goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Its end was not read yet, so the runner still has it.
#[test]
fn a_commit_to_a_context_that_has_ended_is_not_lost() {
    let [one, two, three] = [Sleeper::new(), Sleeper::new(), Sleeper::new()];
    let pids = [&one, &two, &three].map(|s| s.0.id());
    let first = policy(&[context("a", pids[0], &["s"]), context("ends", pids[1], &["s"])]);
    let mut runner = Runner::start(first, Options::default()).unwrap();
    windows(&mut runner, "ends", 0);
    drop(two);
    until_gone("context ends");
    // Without a target it cannot begin anew.
    let next = policy(&[context("a", pids[0], &["t"]), context("ends", pids[1], &["s", "t"])]);
    let refused = runner.commit(next).unwrap_err();
    assert_eq!(refused.code, 5, "{refused}");
    // With one it does; the end of the one before is told as well.
    let next = policy(&[context("a", pids[0], &["t"]), context("ends", pids[2], &["u"])]);
    runner.commit(next).unwrap();
    let (gone, end) = until(&mut runner, ended);
    assert_eq!((gone.as_str(), end.reason), ("ends", Reason::TargetsGone));
    windows(&mut runner, "ends", 0);
    runner.stop();
    let mut ends = [until(&mut runner, ended), until(&mut runner, ended)];
    assert!(runner.is_over());
    ends.sort_by(|a, b| a.0.cmp(&b.0));
    let [(a, of_a), (b, of_b)] = &ends;
    assert_eq!((a.as_str(), b.as_str()), ("a", "ends"));
    let names = |end: &Ended| end.accounts.iter().map(|a| a.name.clone()).collect::<Vec<_>>();
    assert_eq!((names(of_a), names(of_b)), (vec!["s".into(), "t".into()], vec!["u".into()]));
}

#[test]
fn a_context_ends_with_its_last_target() {
    let sleeper = Sleeper::new();
    let only = policy(&[context("a", sleeper.0.id(), &["s"])]);
    let mut runner = Runner::start(only, Options::default()).unwrap();
    windows(&mut runner, "a", 0);
    drop(sleeper);
    let (_, end) = until(&mut runner, ended);
    assert_eq!(end.reason, Reason::TargetsGone);
    assert_eq!(end.accounts.len(), 1);
    assert!(runner.is_over());
}
