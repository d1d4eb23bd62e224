//! A small server for metrics: `GET /metrics`, `/healthz` and `/readyz`, on a loopback port or a
//! Unix socket.
//!
//! Everything is bounded, since the server lives in a process that has other things to do: the size
//! of a request, the time for a request and its answer, and the number of connections. One
//! connection is one request. What is served was put there by [`Server::publish`]; a scrape never
//! waits for the monitor, and the monitor never for a scrape.
//!
//! Absent on purpose: TLS, users, compression and keeping connections open. Who needs them puts a
//! proxy in front.

mod address;
mod error;
mod request;
mod stream;

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::reading::Reading;
use crate::text;

pub use address::Address;
pub use error::{ServeError, ServeKind};
use request::{Answer, Asked, Body};
use stream::{Listener, Stream};

/// Connections at a time. Further ones are told to come back later.
const MOST_CONNECTIONS: usize = 16;
/// How long a request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the server looks whether it is to stop.
const EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// What is served.
#[derive(Debug, Default)]
struct Served {
    reading: Mutex<Arc<Reading>>,
    is_ready: AtomicBool,
    /// What is lacking besides numbers, for people.
    lacking: Mutex<Option<String>>,
    is_over: AtomicBool,
    connections: AtomicUsize,
}

/// A server that runs. It ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    served: Arc<Served>,
    address: Address,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts serving an empty reading, and being not ready.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on.
    pub fn start(address: &Address) -> Result<Self, ServeError> {
        let (listener, address) = Listener::bind(address)?;
        let served = Arc::new(Served::default());
        let own = Arc::clone(&served);
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || accept(&listener, &own))
            .map_err(|err| error::no_thread(&address, err))?;
        Ok(Self { served, address, thread: Some(thread) })
    }

    /// Where it listens. A port that was given as 0 is the one that the kernel chose.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Serves this from now on. `is_ready`: whether the numbers mean something already.
    pub fn publish(&self, reading: Arc<Reading>, is_ready: bool) {
        *self.served.reading.lock().unwrap_or_else(PoisonError::into_inner) = reading;
        self.served.is_ready.store(is_ready, Ordering::Relaxed);
    }

    /// Says what is lacking from now on, for people; none: nothing is. While something is lacking,
    /// `/readyz` answers with 503 and this text, whatever is published.
    pub fn lacks(&self, what: Option<String>) {
        *self.served.lacking.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.served.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Accepts connections until the server is dropped.
fn accept(listener: &Listener, served: &Arc<Served>) {
    while !served.is_over.load(Ordering::Relaxed) {
        if !is_readable(listener.as_fd()) {
            continue;
        }
        // A connection that was given up meanwhile, or no descriptor left: the next may do.
        let Ok(stream) = listener.accept() else {
            std::thread::yield_now();
            continue;
        };
        let place = Place::take(served);
        if let Some(place) = place {
            let own = Arc::clone(served);
            let started =
                std::thread::Builder::new().name("metrics request".to_owned()).spawn(move || {
                    // A reader that goes away or is too slow gets nothing.
                    answer(stream, &own).ok();
                    drop(place);
                });
            drop(started);
        } else {
            refuse(stream).ok();
        }
    }
}

/// Whether there is a connection, after a moment at most.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&EVERY)), Ok(n) if n > 0)
}

/// One of the [`MOST_CONNECTIONS`] places.
struct Place(Arc<Served>);

impl Place {
    fn take(served: &Arc<Served>) -> Option<Self> {
        let more = |n: usize| (n < MOST_CONNECTIONS).then_some(n + 1);
        let taken = served.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Self(Arc::clone(served)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refuse(mut stream: Stream) -> io::Result<()> {
    stream.limit(Duration::from_millis(100));
    let answer = Answer::text(503, "too many connections\n");
    stream.write_all(answer.head(0).as_bytes())
}

fn answer(mut stream: Stream, served: &Served) -> io::Result<()> {
    stream.limit(PATIENCE);
    let asked = request::read(&mut stream)?;
    let (answer, with_body) = match &asked {
        Ok(asked) => (found(asked, served), !asked.is_head),
        Err(refused) => (refused.clone(), true),
    };
    let body = match &answer.body {
        Body::Text(text) => text.clone().into_owned(),
        Body::OpenMetrics => text::openmetrics(&served.now()),
        Body::Plain => text::plain(&served.now()),
    };
    stream.write_all(answer.head(body.len()).as_bytes())?;
    if with_body {
        stream.write_all(body.as_bytes())?;
    }
    stream.finish()
}

impl Served {
    fn now(&self) -> Arc<Reading> {
        Arc::clone(&self.reading.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn readiness(&self) -> Answer {
        let lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match lacking {
            Some(text) => Answer::text(503, text + "\n"),
            None if self.is_ready.load(Ordering::Relaxed) => Answer::text(200, "ready\n"),
            None => Answer::text(503, "no window is over yet\n"),
        }
    }
}

fn found(asked: &Asked, served: &Served) -> Answer {
    match asked.path.as_str() {
        "/metrics" if asked.wants_openmetrics => {
            Answer { status: 200, media: text::OPENMETRICS, body: Body::OpenMetrics }
        }
        "/metrics" => Answer { status: 200, media: text::PLAIN, body: Body::Plain },
        "/healthz" => Answer::text(200, "ok\n"),
        "/readyz" => served.readiness(),
        "/" => Answer::text(200, "isotherm: /metrics /healthz /readyz\n"),
        _ => Answer::text(404, "there is /metrics, /healthz and /readyz\n"),
    }
}
