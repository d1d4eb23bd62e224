//! A kdamond from outside: its thread, and the calls to it.

use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use isotherm_damon::model::Config;
use rustix::io::Errno;

use super::kdamond::{Kdamond, Telling};
use super::watch::Watch;
use super::{Log, listed};
use crate::engine::{Results, Status, Worker};
use crate::trace::{Source, Trace};
use crate::tree::TriedRegion;

/// What a walk found, by scheme.
pub(super) type Walked = Result<Vec<Vec<TriedRegion>>, Errno>;

/// What is asked of a kdamond.
pub(super) enum Order {
    /// Do this at the point of the loop where calls are taken.
    Call(Box<dyn FnOnce(&mut Kdamond) + Send>),
    /// Report what each scheme is tried on during its next apply interval.
    Walk(Sender<Walked>),
    /// End.
    Stop,
}

/// A kdamond that runs, or has run.
pub(super) struct LiveWorker {
    /// The thread's pid; -1 if it has ended.
    pid: Arc<AtomicI32>,
    orders: Mutex<Sender<Order>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for LiveWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveWorker").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Says at the end of a thread, also of one that panics, that there is no such pid any more.
struct Ending(Arc<AtomicI32>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(-1, Ordering::SeqCst);
    }
}

impl LiveWorker {
    /// Starts a kdamond, and waits until it runs.
    pub(super) fn start(
        name: String,
        config: Config,
        watch: Watch,
        log: Log,
        trace: Arc<Trace>,
    ) -> Result<Self, Errno> {
        let pid = Arc::new(AtomicI32::new(-1));
        let (orders, received) = channel();
        let (ready, answer) = channel();
        let (comm, shown) = (name.clone(), name.clone());
        let ending = Ending(Arc::clone(&pid));
        let run = move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            let from = Source { comm, pid: own };
            match Kdamond::start(&config, watch, log, Telling { trace, from }) {
                Err(errno) => drop(ready.send(Err(errno))),
                Ok(mut kdamond) => {
                    let listed = listed::as_kdamond(&shown);
                    ending.0.store(own, Ordering::SeqCst);
                    ready.send(Ok(())).ok();
                    kdamond.run(&received);
                    drop(listed);
                }
            }
            drop(ending);
        };
        let thread = Builder::new().name(name).spawn(run).map_err(|_err| Errno::NOMEM)?;
        // If the thread panicked, there is no answer.
        answer.recv().unwrap_or(Err(Errno::NOMEM))?;
        Ok(Self { pid, orders: Mutex::new(orders), thread: Mutex::new(Some(thread)) })
    }

    fn order(&self, order: Order) -> Result<(), Errno> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.send(order).map_err(|_err| Errno::CANCELED)
    }

    /// Has `f` done by the kdamond, and waits for its result.
    fn call<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Kdamond) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let (sender, answer) = channel();
        self.order(Order::Call(Box::new(move |kdamond| drop(sender.send(f(kdamond))))))?;
        answer.recv().map_err(|_err| Errno::CANCELED)
    }
}

impl Worker for LiveWorker {
    fn pid(&self) -> Option<i32> {
        Some(self.pid.load(Ordering::SeqCst)).filter(|pid| *pid > 0)
    }

    fn stop(&self) {
        // A kdamond that has ended does not need the order.
        self.order(Order::Stop).ok();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic has ended it as well.
            thread.join().ok();
        }
    }

    fn commit(&self, config: &Config) -> Result<(), Errno> {
        let config = config.clone();
        self.call(move |kdamond| kdamond.commit(&config))?
    }

    fn commit_goals(&self, config: &Config) -> Result<(), Errno> {
        let config = config.clone();
        self.call(move |kdamond| kdamond.commit_goals(&config))
    }

    fn results(&self) -> Result<Results, Errno> {
        self.call(|kdamond| kdamond.results())
    }

    fn walk(&self) -> Walked {
        let (sender, answer) = channel();
        self.order(Order::Walk(sender))?;
        answer.recv().map_err(|_err| Errno::CANCELED)?
    }

    fn status(&self) -> Result<Status, Errno> {
        self.call(|kdamond| kdamond.status())
    }
}

impl Drop for LiveWorker {
    fn drop(&mut self) {
        self.stop();
    }
}
