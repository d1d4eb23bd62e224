//! A monitor that runs on a thread of its own, so that its windows stay on time whatever Python
//! does meanwhile.
//!
//! Snapshots wait in a queue. When nobody takes them, the oldest are dropped and counted. A
//! simulation waits instead.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use isotherm::doctor::{Method, Set};
use isotherm::monitor::{Builder, Stopper};
use isotherm::raw::core::Time;
use isotherm::raw::record::export::arrow::{Names, record_batch};
use isotherm::raw::record::export::{Rows, Table};
use isotherm::record::{Event, Recorder, Target, header};
use isotherm::sim::Workload;
use isotherm::{Error, snapshot};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::{exception, of_record};
use crate::snapshot::Snapshot;

/// At most so many snapshots wait.
const QUEUE: usize = 64;
/// How often a waiting thread asks whether Python wants to interrupt it.
const ASK: Duration = Duration::from_millis(50);

/// What both threads see.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Snapshot>,
    lost: u64,
    /// What the monitor says of itself once it is built.
    built: Option<Built>,
    /// It is to end.
    stopped: bool,
    /// It has ended.
    over: bool,
    /// Why, if it failed.
    failed: Option<Failure>,
}

#[derive(Debug, Clone)]
struct Built {
    stopper: Stopper,
    set: &'static str,
    notes: Vec<String>,
}

#[derive(Debug)]
enum Failure {
    Monitor(Error),
    Rows(isotherm::record::Error),
    Panic,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.lock());
        self.changed.notify_all();
    }

    /// Puts a snapshot into the queue. If that is full, the oldest is dropped; a simulation has
    /// time, and waits instead.
    fn hand_over(&self, snapshot: Snapshot, has_time: bool) {
        let mut state = self.lock();
        while has_time && state.waiting.len() >= QUEUE && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.waiting.len() >= QUEUE {
            state.waiting.pop_front();
            state.lost += 1;
        }
        state.waiting.push_back(snapshot);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until `f` returns something, and lets Python's signal handlers run meanwhile.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        f: impl Fn(&mut State) -> Option<T> + Sync,
    ) -> PyResult<T> {
        loop {
            let got = py.detach(|| {
                let mut state = self.lock();
                if let Some(got) = f(&mut state) {
                    return Some(got);
                }
                let waited = self.changed.wait_timeout(state, ASK);
                let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                f(&mut state)
            });
            if let Some(got) = got {
                return Ok(got);
            }
            py.check_signals()?;
        }
    }
}

/// Watches processes, physical memory or a simulation.
#[pyclass(frozen, module = "isotherm")]
#[derive(Debug)]
pub(crate) struct Monitor {
    shared: Arc<Shared>,
    built: Built,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[pymethods]
impl Monitor {
    #[new]
    #[pyo3(signature = (pid=None, *, command=None, name=None, cgroup=None, physical_memory=None,
        sim=None, duration=None, children=true, sample=None, aggregation=None, update=None,
        budget=None, ops=None, method=None, record=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        pid: Option<Bound<'_, PyAny>>,
        command: Option<Vec<String>>,
        name: Option<String>,
        cgroup: Option<String>,
        physical_memory: Option<String>,
        sim: Option<String>,
        duration: Option<f64>,
        children: bool,
        sample: Option<f64>,
        aggregation: Option<f64>,
        update: Option<f64>,
        budget: Option<f64>,
        ops: Option<&str>,
        method: Option<&str>,
        record: Option<PathBuf>,
    ) -> PyResult<Self> {
        if sim.is_none() && duration.is_some() {
            return Err(PyValueError::new_err("duration is of simulations only: see Monitor.stop"));
        }
        let plan = Plan {
            pids: pid.as_ref().map(pids).transpose()?.unwrap_or_default(),
            command: command.map(Command::new).transpose()?,
            name,
            cgroup,
            physical_memory,
            sim,
            duration: seconds(duration, "duration")?,
            children,
            sample: seconds(sample, "sample")?,
            aggregation: seconds(aggregation, "aggregation")?,
            update: seconds(update, "update")?,
            budget_bp: share(budget)?,
            set: ops.map(set).transpose()?,
            method: method.map(method_of).transpose()?,
            record,
        };
        Self::start(py, plan)
    }

    /// Why this operations set was chosen and what it cannot do.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.built.notes.clone()
    }

    /// The name of the operations set.
    #[getter]
    const fn ops(&self) -> &'static str {
        self.built.set
    }

    /// Snapshots that were dropped because nobody took them.
    #[getter]
    fn lost(&self) -> u64 {
        self.shared.lock().lost
    }

    /// Ends the run. Targets are let go as they are.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// Waits for the next snapshot.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Snapshot>> {
        // A failure is told when the snapshots before it are taken.
        let next = self.shared.wait(py, |state| match state.waiting.pop_front() {
            Some(next) => Some(Ok(Some(next))),
            None if state.over => Some(state.failed.take().map_or(Ok(None), Err)),
            None => None,
        })?;
        self.shared.changed.notify_all();
        next.map_err(Failure::exception)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) {
        self.stop(py);
    }

    fn __repr__(&self) -> String {
        format!("<isotherm.Monitor by {}>", self.built.set)
    }
}

impl Monitor {
    fn start(py: Python<'_>, plan: Plan) -> PyResult<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let run = move || {
            let run = || watch(plan, &of_thread);
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
                .unwrap_or(Err(Failure::Panic));
            of_thread.change(|state| (state.over, state.failed) = (true, failed.err()));
        };
        let thread = std::thread::Builder::new().name("isotherm".into()).spawn(run)?;
        let built = shared.wait(py, |state| {
            let built = state.built.clone();
            (built.is_some() || state.over).then(|| built.ok_or_else(|| state.failed.take()))
        })?;
        let built = built.map_err(|failed| failed.unwrap_or(Failure::Panic).exception())?;
        Ok(Self { shared, built, thread: Mutex::new(Some(thread)) })
    }

    fn end(&self) {
        self.built.stopper.stop();
        self.shared.change(|state| state.stopped = true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Its panic has been caught, and is told to whoever waits for a snapshot.
            thread.join().ok();
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Not joined: the thread ends within a window, and Python need not wait for that.
        self.built.stopper.stop();
        self.shared.change(|state| state.stopped = true);
    }
}

impl Failure {
    fn exception(self) -> PyErr {
        match self {
            Self::Monitor(err) => exception(&err),
            Self::Rows(err) => of_record(err),
            Self::Panic => pyo3::exceptions::PyRuntimeError::new_err(
                "the monitor stopped because of a defect in isotherm; standard error says where",
            ),
        }
    }
}

/// A program and its arguments.
#[derive(Debug)]
struct Command(String, Vec<String>);

impl Command {
    fn new(words: Vec<String>) -> PyResult<Self> {
        let mut words = words.into_iter();
        let program = words.next();
        let program = program.ok_or_else(|| PyValueError::new_err("command: give a program"))?;
        Ok(Self(program, words.collect()))
    }
}

/// What to watch, and how. A builder cannot go to another thread, so it is made there of this.
#[derive(Debug)]
struct Plan {
    pids: Vec<u32>,
    command: Option<Command>,
    name: Option<String>,
    cgroup: Option<String>,
    physical_memory: Option<String>,
    sim: Option<String>,
    duration: Option<Duration>,
    children: bool,
    sample: Option<Duration>,
    aggregation: Option<Duration>,
    update: Option<Duration>,
    budget_bp: Option<u32>,
    set: Option<Set>,
    method: Option<Method>,
    record: Option<PathBuf>,
}

impl Plan {
    fn builder(&self) -> Result<Builder, Error> {
        let mut b = isotherm::Monitor::builder().children(self.children);
        b = b.pids(self.pids.iter().copied());
        if let Some(Command(program, args)) = &self.command {
            b = b.command(program, args);
        }
        b = self.name.iter().fold(b, |b, name| b.name(name));
        b = self.cgroup.iter().fold(b, |b, path| b.cgroup(path));
        b = self.physical_memory.iter().fold(b, |b, which| b.physical_memory(which));
        if let Some(name) = &self.sim {
            let workload = Workload::shipped(name)?;
            b = b.sim(self.duration.into_iter().fold(workload, Workload::lasting));
        }
        b = self.sample.into_iter().fold(b, Builder::sample);
        b = self.aggregation.into_iter().fold(b, Builder::aggregation);
        b = self.update.into_iter().fold(b, Builder::update);
        b = self.budget_bp.into_iter().fold(b, Builder::budget_bp);
        b = self.set.into_iter().fold(b, Builder::set);
        Ok(self.method.into_iter().fold(b, Builder::method))
    }
}

/// Builds the monitor and runs it until it ends.
fn watch(plan: Plan, shared: &Shared) -> Result<(), Failure> {
    let built = plan.builder().and_then(Builder::build);
    let mut monitor = built.map_err(Failure::Monitor)?;
    let recorder = plan.record.as_ref().map(|path| Recorder::create(path, &monitor));
    let mut recorder = recorder.transpose().map_err(Failure::Monitor)?;
    let update = Duration::from_micros(monitor.attrs().update_us);
    let mut regions = Regions::new(Table::Regions.rows(&header(&monitor)), update);
    let built =
        Built { stopper: monitor.stopper(), set: monitor.set(), notes: monitor.notes().to_vec() };
    shared.change(|state| state.built = Some(built));
    while let Some(snapshot) = monitor.next_snapshot().map_err(Failure::Monitor)? {
        if let Some(recorder) = &mut recorder {
            recorder.push(&snapshot).map_err(Failure::Monitor)?;
        }
        let rows = regions.rows(&snapshot).map_err(Failure::Rows)?;
        shared.hand_over(Snapshot::new(&snapshot, rows), plan.sim.is_some());
    }
    if let Some(recorder) = recorder {
        recorder.finish("the monitor has ended").map_err(Failure::Monitor)?;
    }
    Ok(())
}

/// Makes the rows of regions, which need to know who the targets are and what is mapped in them.
struct Regions {
    rows: Box<dyn Rows>,
    update: Duration,
    /// When the mappings of a target were last looked at.
    known: BTreeMap<u32, Duration>,
}

impl Regions {
    fn new(rows: Box<dyn Rows>, update: Duration) -> Self {
        Self { rows, update, known: BTreeMap::new() }
    }

    fn rows(
        &mut self,
        s: &snapshot::Snapshot<'_>,
    ) -> Result<arrow_array::RecordBatch, isotherm::record::Error> {
        for who in s.targets().filter_map(|target| target.identity()) {
            let id = who.id.0;
            let seen = self.known.get(&id).copied();
            if seen.is_none() {
                self.rows.push(&Event::Target(&Target {
                    id,
                    pid: who.pid,
                    ppid: who.parent,
                    name: who.name.clone(),
                    memory: who.memory.clone(),
                    ..Target::default()
                }));
            }
            if seen.is_none_or(|seen| s.end() >= seen + self.update) {
                self.known.insert(id, s.end());
                let mappings = s.mappings(who);
                let t_ns = Time(s.raw().end.as_ns()).as_ns();
                self.rows.push(&Event::Mappings { t_ns, target: id, mappings: &mappings });
            }
        }
        self.rows.push(&Event::Snapshot(s.raw()));
        record_batch(self.rows.take(), Names::Dictionary)
    }
}

/// One pid or several.
fn pids(given: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let one = given.extract::<u32>().map(|pid| vec![pid]);
    one.or_else(|_| given.extract::<Vec<u32>>())
        .map_err(|_| PyTypeError::new_err("pid: a process id, or a list of them"))
}

fn seconds(given: Option<f64>, name: &str) -> PyResult<Option<Duration>> {
    given
        .map(Duration::try_from_secs_f64)
        .transpose()
        .map_err(|err| PyValueError::new_err(format!("{name}: seconds: {err}")))
}

/// A share of a CPU in basis points.
fn share(given: Option<f64>) -> PyResult<Option<u32>> {
    let Some(share) = given else { return Ok(None) };
    if !(0.0..=1.0).contains(&share) || share == 0.0 {
        return Err(PyValueError::new_err("budget: a share of one CPU, above 0 and up to 1"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was checked")]
    let basis_points = (share * 10_000.0).round() as u32;
    Ok(Some(basis_points.max(1)))
}

fn set(name: &str) -> PyResult<Set> {
    let all = [Set::PageWalk, Set::Idle, Set::Kdamond, Set::Smaps];
    let names = all.map(Set::name).join(", ");
    let found = all.into_iter().find(|set| set.name() == name);
    found.ok_or_else(|| {
        PyValueError::new_err(format!("ops: no set is called {name}; one of {names}"))
    })
}

fn method_of(name: &str) -> PyResult<Method> {
    Ok(match name {
        "census" => Method::Census,
        "first-touch" => Method::FirstTouch,
        "resample" => Method::Resample,
        _ => {
            return Err(PyValueError::new_err(format!(
                "method: none is called {name}; one of census, first-touch, resample"
            )));
        }
    })
}
