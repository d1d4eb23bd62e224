//! Puts the metrics of something that runs where they are read: on a server, and in a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use isotherm_agent::run::Message;
use isotherm_host::proc::own_cost;
use isotherm_sys::clock;

use crate::gather::Gather;
use crate::http::{Address, ServeError, Server};
use crate::reading::{Build, FleetReading};
use crate::textfile;

/// Readings are made at most this often.
const EVERY: Duration = Duration::from_millis(900);
/// So often at least if no context tells anything.
const WITHOUT_CONTEXTS: Duration = Duration::from_secs(3);
/// The file is written at most this often.
const WRITE_EVERY: Duration = Duration::from_secs(10);

/// Where metrics are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outlets {
    /// Serve them here.
    pub address: Option<Address>,
    /// Write them into this file, whose name ends in `.prom`.
    pub textfile: Option<PathBuf>,
}

impl Outlets {
    /// Whether metrics are wanted anywhere.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.address.is_some() || self.textfile.is_some()
    }
}

/// Makes readings of what runs, and puts them where they are read.
#[derive(Debug)]
pub struct Exporter {
    gather: Gather,
    server: Option<Server>,
    textfile: Option<PathBuf>,
    read_at: Option<Instant>,
    written_at: Option<Instant>,
    /// Whether it was told that the file cannot be written.
    told: bool,
    buf: Vec<u8>,
}

impl Exporter {
    /// Starts the server, if one is wanted.
    ///
    /// # Errors
    ///
    /// If it cannot be served at that address.
    pub fn start(outlets: Outlets, build: Build) -> Result<Self, ServeError> {
        let Outlets { address, textfile } = outlets;
        Ok(Self {
            gather: Gather::new(build, "/"),
            server: address.map(|at| Server::start(&at)).transpose()?,
            textfile,
            read_at: None,
            written_at: None,
            told: false,
            buf: Vec::new(),
        })
    }

    /// Where metrics are served, for people.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        self.server.as_ref().map(|server| match server.address() {
            Address::Tcp(at) => format!("http://{at}/metrics"),
            socket @ Address::Unix(_) => socket.to_string(),
        })
    }

    /// Says what is lacking for the server to be ready ([`Server::lacks`]).
    pub fn lacks(&self, what: Option<String>) {
        if let Some(server) = &self.server {
            server.lacks(what);
        }
    }

    /// Takes in a message of the context that is called `context` in metrics. Returns what is to be
    /// told to the user: once, if the file cannot be written.
    pub fn hear(&mut self, context: &str, told: &Message) -> Option<String> {
        let is_due = self.read_at.is_none_or(|at| at.elapsed() >= EVERY);
        if self.gather.hear(context, told, unix()) && is_due { self.publish() } else { None }
    }

    /// Notes what keeps a policy from acting; none: nothing does.
    pub fn hold(&mut self, policy: &str, by: Option<&'static str>) {
        self.gather.hold(policy, by);
    }

    /// Notes how the writing of fleet data goes. That is served also while no context tells
    /// anything. Returns what [`Exporter::hear`] does.
    pub fn fleet(&mut self, fleet: FleetReading) -> Option<String> {
        self.gather.fleet(fleet);
        let is_due = self.read_at.is_none_or(|at| at.elapsed() >= WITHOUT_CONTEXTS);
        if is_due { self.publish() } else { None }
    }

    /// Puts what is known now where it is read.
    fn publish(&mut self) -> Option<String> {
        self.read_at = Some(Instant::now());
        let own = own_cost(&mut self.buf);
        let cpu = Duration::from_nanos(own.cpu_ns);
        let reading = Arc::new(self.gather.reading(clock::now(), cpu, own.rss_bytes));
        let is_due = self.written_at.is_none_or(|at| at.elapsed() >= WRITE_EVERY);
        let is_ready = reading.is_ready();
        let mut trouble = None;
        if let Some(path) = self.textfile.as_ref().filter(|_| is_due && is_ready) {
            self.written_at = Some(Instant::now());
            match textfile::write(path, &reading) {
                Ok(()) => self.told = false,
                Err(err) if !std::mem::replace(&mut self.told, true) => {
                    let path = path.display();
                    trouble =
                        Some(format!("metrics cannot be written\n  tried: write {path}: {err}"));
                }
                Err(_) => {}
            }
        }
        if let Some(server) = &self.server {
            server.publish(reading, is_ready);
        }
        trouble
    }
}

/// The time since 1970 at which the monotonic clock was at zero. It is asked for anew each time,
/// since the clock of the day can be set.
fn unix() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(clock::now().as_ns()))
}
