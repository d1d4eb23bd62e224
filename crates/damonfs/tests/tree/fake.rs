//! An engine that runs nothing and remembers what it was told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use isotherm_core::scheme::Counters;
use isotherm_damon::model::{Config, Operations};
use isotherm_damonfs::{Asker, Engine, Results, SchemeResults, Status, TriedRegion, Worker, World};
use rustix::io::Errno;

/// The pid of every worker.
pub(crate) const PID: i32 = 4711;

#[derive(Debug, Default)]
pub(crate) struct FakeEngine {
    /// Every configuration that was started or committed, in order.
    pub(crate) told: Arc<Mutex<Vec<Config>>>,
    /// Who asked for each context.
    pub(crate) asked: Mutex<Vec<Asker>>,
    pub(crate) workers: Mutex<Vec<Arc<FakeWorker>>>,
}

#[derive(Debug)]
pub(crate) struct FakeWorker {
    told: Arc<Mutex<Vec<Config>>>,
    pub(crate) runs: AtomicBool,
    /// A walk waits for this, if it is there.
    gate: Mutex<Option<Receiver<()>>>,
}

impl FakeWorker {
    /// Makes the next walk wait until the returned end is used or dropped.
    pub(crate) fn hold_walk(&self) -> Sender<()> {
        let (sender, receiver) = channel();
        *self.gate.lock().unwrap() = Some(receiver);
        sender
    }

    fn nr_schemes(&self) -> usize {
        self.told.lock().unwrap().last().map_or(0, |config| config.context.schemes.len())
    }

    fn alive(&self) -> Result<(), Errno> {
        if self.runs.load(Ordering::SeqCst) { Ok(()) } else { Err(Errno::CANCELED) }
    }
}

impl Engine for FakeEngine {
    fn operations(&self) -> Vec<Operations> {
        Operations::ALL.to_vec()
    }

    fn start(&self, config: &Config, by: Asker, _: usize) -> Result<Arc<dyn Worker>, Errno> {
        self.asked.lock().unwrap().push(by);
        self.told.lock().unwrap().push(config.clone());
        let (told, gate) = (Arc::clone(&self.told), Mutex::default());
        let worker = Arc::new(FakeWorker { told, runs: true.into(), gate });
        self.workers.lock().unwrap().push(Arc::clone(&worker));
        Ok(worker)
    }
}

impl Worker for FakeWorker {
    fn pid(&self) -> Option<i32> {
        self.runs.load(Ordering::SeqCst).then_some(PID)
    }

    fn stop(&self) {
        self.runs.store(false, Ordering::SeqCst);
    }

    fn commit(&self, config: &Config) -> Result<(), Errno> {
        self.alive()?;
        self.told.lock().unwrap().push(config.clone());
        Ok(())
    }

    fn commit_goals(&self, config: &Config) -> Result<(), Errno> {
        self.commit(config)
    }

    fn results(&self) -> Result<Results, Errno> {
        self.alive()?;
        let one = |index: usize| {
            let n = u64::try_from(index).unwrap() * 10;
            SchemeResults {
                stats: Counters {
                    nr_tried: n + 1,
                    sz_tried: n + 2,
                    nr_applied: n + 3,
                    sz_applied: n + 4,
                    sz_ops_filter_passed: n + 5,
                    qt_exceeds: n + 6,
                    nr_snapshots: n + 7,
                    ..Counters::default()
                },
                effective_bytes: n + 8,
            }
        };
        let schemes = (0..self.nr_schemes()).map(one).collect();
        Ok(Results { schemes, sample_us: 777, aggr_us: 8888, ..Results::default() })
    }

    fn walk(&self) -> Result<Vec<Vec<TriedRegion>>, Errno> {
        self.alive()?;
        if let Some(gate) = self.gate.lock().unwrap().take() {
            // A dropped end opens the gate as well.
            gate.recv().ok();
        }
        let region = |start| TriedRegion {
            start,
            end: start + 4096,
            nr_accesses: 3,
            age: 7,
            sz_filter_passed: 5,
            probe_hits: vec![9],
        };
        Ok((0..self.nr_schemes()).map(|_| vec![region(4096), region(16384)]).collect())
    }

    fn status(&self) -> Result<Status, Errno> {
        let config = self.told.lock().unwrap().last().cloned().unwrap_or_default();
        Ok(Status { config, results: self.results()?, regions: Vec::new() })
    }
}

/// A tree over a fake engine.
pub(crate) struct Tree {
    pub(crate) world: Arc<World>,
    pub(crate) engine: Arc<FakeEngine>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let engine = Arc::new(FakeEngine::default());
        Self { world: World::new(Arc::clone(&engine) as Arc<dyn Engine>), engine }
    }

    /// A tree with one kdamond and one context.
    pub(crate) fn with_context() -> Self {
        let this = Self::new();
        this.put("nr_kdamonds", "1");
        this.put("0/contexts/nr_contexts", "1");
        this
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> Result<usize, Errno> {
        let ino = self.world.at(&format!("admin/kdamonds/{path}")).ok_or(Errno::NOENT)?;
        self.world.write(ino, text.as_bytes())
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        assert_eq!(self.write(path, text), Ok(text.len()), "{path} <- {text:?}");
    }

    pub(crate) fn read(&self, path: &str) -> Result<String, Errno> {
        let ino = self.world.at(&format!("admin/kdamonds/{path}")).ok_or(Errno::NOENT)?;
        Ok(String::from_utf8(self.world.read(ino)?).unwrap())
    }

    /// Every file below a directory, as paths from the kdamonds' directory.
    pub(crate) fn files(&self, below: &str) -> Vec<String> {
        let dir = self.world.at(&format!("admin/kdamonds/{below}")).unwrap();
        let mut found = Vec::new();
        for (_, name, is_dir) in self.world.entries(dir).unwrap() {
            if name == "." || name == ".." {
                continue;
            }
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            if is_dir { found.extend(self.files(&path)) } else { found.push(path) }
        }
        found
    }
}
