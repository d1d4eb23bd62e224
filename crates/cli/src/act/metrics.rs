//! Metrics of a run: served on a port or a socket, and written as a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use isotherm::raw::agent::run::Message;
use isotherm::raw::host::proc::OwnCost;
use isotherm::raw::sys::clock;
use isotherm_metrics::http::{Address, Server};
use isotherm_metrics::{Build, Gather, textfile};

use crate::exit;
use crate::terminal::warn;

/// Options for metrics.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricsArgs {
    /// Serve metrics for Prometheus here, as 127.0.0.1:9464 or /run/isotherm/metrics.sock.
    ///
    /// GET /metrics answers in OpenMetrics or the older text format, whatever is asked for;
    /// /healthz and /readyz tell whether there are numbers. Other machines cannot reach it.
    #[arg(long = "metrics", value_name = "ADDRESS", hide_short_help = true)]
    address: Option<String>,
    /// With --metrics: allow an address that other machines can reach.
    #[arg(long = "metrics-any-address", requires = "address", hide_short_help = true)]
    any: bool,
    /// Write metrics to this file about every 10 s, for the textfile collector.
    ///
    /// That is a part of Prometheus' node exporter. The name has to end in .prom. The file is
    /// replaced as a whole.
    #[arg(long = "metrics-textfile", value_name = "FILE", hide_short_help = true)]
    textfile: Option<PathBuf>,
}

impl MetricsArgs {
    /// Whether any are wanted.
    pub(super) const fn is_any(&self) -> bool {
        self.address.is_some() || self.textfile.is_some()
    }
}

/// Readings are made at most this often.
const EVERY: Duration = Duration::from_millis(900);
/// The file is written at most this often.
const WRITE_EVERY: Duration = Duration::from_secs(10);

/// Makes readings of a run, and puts them where they are read.
#[derive(Debug)]
pub(super) struct Exporter {
    gather: Gather,
    server: Option<Server>,
    textfile: Option<PathBuf>,
    read_at: Option<Instant>,
    written_at: Option<Instant>,
    /// Whether the user was told that the file cannot be written.
    told: bool,
}

impl Exporter {
    /// Starts what the options ask for; `None` if they ask for nothing.
    pub(super) fn start(args: &MetricsArgs) -> anyhow::Result<Option<Self>> {
        if !args.is_any() {
            return Ok(None);
        }
        let address = args.address.as_ref().map(|text| Address::parse(text, args.any));
        let server = address.transpose().map_err(exit::of)?.map(|at| Server::start(&at));
        let server = server.transpose().map_err(exit::of)?;
        if let Some(path) = &args.textfile {
            textfile::check(path)
                .map_err(|err| exit::usage(format!("{}: {err}", path.display())))?;
        }
        let build = Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("ISOTHERM_BUILT_COMMIT").to_owned(),
        };
        Ok(Some(Self {
            gather: Gather::new(build, "/"),
            server,
            textfile: args.textfile.clone(),
            read_at: None,
            written_at: None,
            told: false,
        }))
    }

    /// Where metrics are served.
    pub(super) fn address(&self) -> Option<String> {
        self.server.as_ref().map(|server| match server.address() {
            Address::Tcp(at) => format!("http://{at}/metrics"),
            socket @ Address::Unix(_) => socket.to_string(),
        })
    }

    /// Takes in a message. `own`: what this process uses.
    pub(super) fn hear(&mut self, told: &Message, own: OwnCost) {
        let is_due = self.read_at.is_none_or(|at| at.elapsed() >= EVERY);
        if self.gather.hear(told, unix()) && is_due {
            self.publish(own);
        }
    }

    /// Puts what is known now where it is read.
    fn publish(&mut self, own: OwnCost) {
        self.read_at = Some(Instant::now());
        let cpu = Duration::from_nanos(own.cpu_ns);
        let reading = Arc::new(self.gather.reading(clock::now(), cpu, own.rss_bytes));
        let is_due = self.written_at.is_none_or(|at| at.elapsed() >= WRITE_EVERY);
        if let Some(path) = self.textfile.as_ref().filter(|_| is_due && reading.is_ready()) {
            self.written_at = Some(Instant::now());
            match textfile::write(path, &reading) {
                Ok(()) => self.told = false,
                Err(err) if !std::mem::replace(&mut self.told, true) => {
                    warn(&format!(
                        "metrics cannot be written\n  tried: write {}: {err}",
                        path.display()
                    ));
                }
                Err(_) => {}
            }
        }
        if let Some(server) = &self.server {
            let is_ready = reading.is_ready();
            server.publish(reading, is_ready);
        }
    }
}

/// The time since 1970 at which the monotonic clock was at zero. It is asked for anew each time,
/// since the clock of the day can be set.
fn unix() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(clock::now().as_ns()))
}
