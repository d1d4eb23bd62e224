//! The set over a made-up kernel: no file of the real one is touched.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use isotherm_core::scheme::Action;
use isotherm_core::{
    AddrRange, Attrs, Method, Observation, Observed, Operations, Scheme, TargetId,
};
use isotherm_damon::model::Config;
use isotherm_damon::{DamonKind, Feature, Operations as AddressSpace, TunedIntervals};

use super::kernel::Walked;
use super::*;

/// What the made-up kernel was told, and how it answers.
#[derive(Debug, Default)]
struct State {
    config: Option<Config>,
    running: bool,
    starts: u32,
    refuse_commits: bool,
    /// Targets that end just before the kernel is told of them, which then takes none that has
    /// ended.
    ending: Vec<std::process::Child>,
    /// As before 6.19: the first target cannot go alone.
    keeps_the_first: bool,
    /// Windows since the start.
    windows: u64,
    /// Windows that pass between two walks.
    stride: u64,
}

impl State {
    fn end_one(&mut self, config: &Config) -> Result<(), DamonError> {
        let Some(mut child) = self.ending.pop() else { return Ok(()) };
        child.kill().unwrap();
        child.wait().unwrap();
        let pid = child.id();
        assert!(config.context.targets.iter().any(|t| t.pid.unsigned_abs() == pid), "{pid}");
        Err(Fake::died())
    }
}

#[derive(Debug)]
struct Fake(Arc<Mutex<State>>, Features);

impl Fake {
    fn make(stride: u64) -> (Box<dyn Kernel>, Arc<Mutex<State>>) {
        let state = Arc::new(Mutex::new(State { stride, ..State::default() }));
        let nowhere = Root::at("/nonexistent");
        (Box::new(Self(Arc::clone(&state), Features::detect(&nowhere))), state)
    }

    fn died() -> DamonError {
        isotherm_damon::Kdamond::new(&Root::at("/nonexistent"), 0).died("use")
    }
}

impl Kernel for Fake {
    fn start(&mut self, config: &Config) -> Result<u32, DamonError> {
        let mut state = self.0.lock().unwrap();
        state.end_one(config)?;
        state.config = Some(config.clone());
        state.running = true;
        state.starts += 1;
        state.windows = 0;
        Ok(100 + state.starts)
    }

    fn commit_goals(&mut self, config: &Config) -> Result<(), DamonError> {
        self.commit(config)
    }

    fn commit(&mut self, config: &Config) -> Result<(), DamonError> {
        let mut state = self.0.lock().unwrap();
        if state.refuse_commits {
            return Err(Self::died());
        }
        state.end_one(config)?;
        let first = |config: &Config| config.context.targets.first().map(|target| target.pid);
        if state.keeps_the_first && state.config.as_ref().is_some_and(|c| first(c) != first(config))
        {
            return Err(isotherm_damon::cannot(
                DamonKind::NotInTheKernel,
                "remove the first",
                "",
                "",
            ));
        }
        state.config = Some(config.clone());
        Ok(())
    }

    fn stop(&mut self) -> Result<(), DamonError> {
        self.0.lock().unwrap().running = false;
        Ok(())
    }

    fn is_running(&self) -> Result<bool, DamonError> {
        Ok(self.0.lock().unwrap().running)
    }

    /// One region per target: its number says which walk it was.
    fn walk(
        &mut self,
        first: usize,
        nr: usize,
        end: &mut dyn FnMut(),
    ) -> Result<Walked, DamonError> {
        std::thread::sleep(Duration::from_millis(2));
        let mut state = self.0.lock().unwrap();
        if !state.running {
            return Err(Self::died());
        }
        end();
        state.windows += state.stride;
        let config = state.config.as_ref().unwrap();
        assert_eq!(config.context.schemes.len(), first + nr);
        let region = |i: usize| Observed {
            range: AddrRange::new(0x10_0000 * (i as u64 + 1), 0x10_0000 * (i as u64 + 1) + 4096),
            nr_accesses: 7,
            age: 3,
            in_use: false,
        };
        let schemes = (0..nr).map(|i| vec![region(i)]).collect();
        Ok(Walked { schemes, sz_tried: state.windows * 4096 })
    }

    fn counted(&mut self, nr: usize) -> Result<Vec<Counted>, DamonError> {
        let windows = self.0.lock().unwrap().windows;
        let mut one = Counted::default();
        one.counters.sz_tried = windows;
        Ok(vec![one; nr])
    }

    fn intervals(&mut self) -> Result<TunedIntervals, DamonError> {
        Ok(TunedIntervals { sample_us: 10_000, aggr_us: 200_000 })
    }

    fn has(&self, _: Feature) -> bool {
        true
    }

    fn features(&self) -> &Features {
        &self.1
    }
}

fn set(stride: u64) -> (Kdamond, Arc<Mutex<State>>) {
    let (kernel, state) = Fake::make(stride);
    (Kdamond::over(kernel, Prefer::Walk).unwrap(), state)
}

/// The next window, whenever it comes.
fn window(set: &mut Kdamond) -> Observation {
    for _ in 0..10_000 {
        if let Some(window) = set.next_window() {
            return window;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no window came: {set:?}");
}

fn regions(set: &mut Kdamond, id: u32) -> Vec<Observed> {
    let mut regions = Vec::new();
    set.observe(TargetId(id), &mut regions);
    regions
}

#[test]
fn targets_come_and_go_and_windows_name_them() {
    let (mut set, state) = set(1);
    assert_eq!(state.lock().unwrap().starts, 0, "nothing runs without a target");
    let me = std::process::id();
    set.add_target(TargetId(5), me).unwrap();
    let first = window(&mut set);
    assert!(first.start <= first.end);
    assert_eq!(regions(&mut set, 5).len(), 1);
    assert_eq!(regions(&mut set, 6), []);
    set.add_target(TargetId(6), std::os::unix::process::parent_id()).unwrap();
    while regions(&mut set, 6).is_empty() {
        window(&mut set);
    }
    assert_eq!(regions(&mut set, 6)[0].range.start, 0x20_0000, "the second target's");
    // Ranges of their own, and a stat scheme each that is for one of them alone.
    let config = state.lock().unwrap().config.clone().unwrap();
    assert_eq!(config.context.operations, AddressSpace::Fvaddr);
    assert!(config.context.targets.iter().all(|t| !t.regions.is_empty()));
    assert_eq!(config.context.schemes[1].core_filters[0].kind, model::FilterKind::Target(1));
    set.remove_target(TargetId(5));
    while !regions(&mut set, 5).is_empty() {
        window(&mut set);
    }
    assert_eq!(regions(&mut set, 6)[0].range.start, 0x10_0000, "it has moved up");
    set.remove_target(TargetId(6));
    assert!(!state.lock().unwrap().running, "nobody is left");
    set.add_target(TargetId(7), me).unwrap();
    window(&mut set);
    assert_eq!(state.lock().unwrap().starts, 2);
    assert!(set.add_target(TargetId(8), 0x7fff_fff0).unwrap_err().is_gone());
}

#[test]
fn missed_windows_are_counted() {
    let (mut set, _) = set(3);
    set.add_target(TargetId(0), std::process::id()).unwrap();
    window(&mut set);
    for _ in 0..10 {
        assert_eq!(window(&mut set).lost, 2, "two of three pass unseen");
    }
    assert_eq!(set.share(), Share { seen: 11, lost: 20 });
}

#[test]
fn one_that_ends_by_itself_is_started_again_but_not_for_ever() {
    let (mut set, state) = set(1);
    set.add_target(TargetId(0), std::process::id()).unwrap();
    for starts in 2..=4 {
        window(&mut set);
        state.lock().unwrap().running = false;
        while state.lock().unwrap().starts < starts {
            assert_eq!(set.failure(), None);
            set.next_window();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(set.take_troubles().iter().any(|t| t.contains("started again")));
    }
    window(&mut set);
    state.lock().unwrap().running = false;
    while set.failure().is_none() {
        set.next_window();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(set.failure().unwrap().contains("within a minute"));
    assert_eq!(state.lock().unwrap().starts, 4);
}

#[test]
fn tuned_intervals_are_taken_over_and_refused_attributes_are_not() {
    let (mut set, state) = set(1);
    let goal = isotherm_core::attrs::IntervalsGoal {
        access_bp: 400,
        aggrs: 2,
        min_sample_us: 5_000,
        max_sample_us: 1_000_000,
    };
    let attrs = Attrs { intervals_goal: goal, method: Method::Observed, ..Attrs::default() };
    set.begin_with(&attrs);
    set.add_target(TargetId(0), std::process::id()).unwrap();
    while window(&mut set).sample_us != 10_000 {}
    state.lock().unwrap().refuse_commits = true;
    assert!(set.set_attrs(&Attrs { max_nr_regions: 50, ..attrs }).is_err());
    assert_eq!(set.attrs(), attrs);
    assert_eq!(window(&mut set).sample_us, 10_000);
}

#[test]
fn pushed_schemes_stand_first_and_a_refusal_changes_nothing() {
    let (mut set, state) = set(1);
    set.add_target(TargetId(0), std::process::id()).unwrap();
    let scheme = Scheme { action: Action::Cold, ..Scheme::default() };
    let pushed = Pushed::new(scheme, Vec::new());
    set.push(vec![pushed.clone()]).unwrap();
    let actions: Vec<_> = {
        let state = state.lock().unwrap();
        state.config.as_ref().unwrap().context.schemes.iter().map(|s| s.action).collect()
    };
    assert_eq!(actions, [Action::Cold, Action::Stat]);
    // The kdamond began anew for them, and windows that were read before that still come first.
    while set.counted()[0].counters.sz_tried == 0 {
        window(&mut set);
    }
    state.lock().unwrap().refuse_commits = true;
    let hot = Scheme { action: Action::Willneed, ..Scheme::default() };
    let other = Pushed::new(hot, Vec::new());
    assert!(set.push(vec![other]).is_err());
    assert_eq!(set.pushed, [pushed]);
    // What was counted stays when it stops.
    set.stop();
    assert!(!state.lock().unwrap().running);
    assert!(set.counted()[0].counters.sz_tried > 0);
}

#[test]
fn where_the_first_target_cannot_go_alone_all_begin_anew_and_nobody_need_know() {
    let (mut set, state) = set(1);
    state.lock().unwrap().keeps_the_first = true;
    let sleep = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let (mut first, mut second) = (sleep(), sleep());
    set.add_target(TargetId(0), first.id()).unwrap();
    set.add_target(TargetId(1), second.id()).unwrap();
    set.remove_target(TargetId(0));
    let seen = |state: &State| (state.starts, state.running);
    assert_eq!(seen(&state.lock().unwrap()), (2, true));
    // One that has ended, before anybody told so, does not keep a new one away.
    second.kill().unwrap();
    second.wait().unwrap();
    set.add_target(TargetId(2), first.id()).unwrap();
    let pids = state.lock().unwrap().config.clone().unwrap().context.targets;
    let pids: Vec<_> = pids.iter().map(|target| target.pid.unsigned_abs()).collect();
    assert_eq!(pids, [first.id()]);
    assert!(state.lock().unwrap().running);
    assert_eq!(set.take_troubles(), Vec::<String>::new());
    assert_eq!(set.failure(), None);
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn targets_that_end_while_the_kernel_is_told_of_them_are_no_failure() {
    let sleep = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
    for nr_ending in 1..=3 {
        let (mut set, state) = set(1);
        let children = [sleep(), sleep(), sleep()];
        set.add_target(TargetId(0), std::process::id()).unwrap();
        for (id, child) in (1..).zip(&children) {
            set.add_target(TargetId(id), child.id()).unwrap();
        }
        let [a, b, c] = children;
        let mut stay = vec![a, b, c];
        let ending = stay.split_off(3 - nr_ending);
        state.lock().unwrap().ending = ending;
        set.remove_target(TargetId(0));
        let running = state.lock().unwrap().running;
        assert_eq!((set.failure(), running), (None, !stay.is_empty()), "{nr_ending}");
        assert_eq!(set.take_troubles(), Vec::<String>::new(), "{nr_ending}");
        if running {
            window(&mut set);
        }
        for mut child in stay {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

#[test]
fn when_the_last_target_ends_while_schemes_are_pushed_that_is_no_failure() {
    let stat = Scheme { action: Action::Stat, ..Scheme::default() };
    let stat = || vec![Pushed::new(stat.clone(), Vec::new())];
    let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let (mut set, state) = set(1);
    set.add_target(TargetId(0), child.id()).unwrap();
    set.push(stat()).unwrap();
    state.lock().unwrap().ending = vec![child];
    let mut more = stat();
    more.extend(stat());
    let attrs = Attrs { sample_us: 10_000, ..set.attrs() };
    set.set_attrs(&attrs).unwrap();
    assert_eq!((set.pid(), set.failure()), (None, None));
    set.push(more).unwrap();
    assert_eq!(set.take_troubles(), Vec::<String>::new());
}
