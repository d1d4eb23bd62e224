//! A server of values by key under load: the newest tenth of the keys is asked for, by Zipf's law.
//!
//! A load phase alternates each half second between an open loop of a fixed rate, about half of
//! what the server can do, which gives the latencies, and a closed loop, which gives the
//! throughput.

use std::path::Path;
use std::time::Duration;

use isotherm_sys::clock;

use super::connection::{Connection, Protocol, Store};
use super::zipf;
use crate::processes::child::{Child, sleep_until};
use crate::programs::{Outcome, Running};
use crate::stats::{percentile, to_f64};

/// The newest keys, 1 of so many.
const LIVE_PART: u32 = 10;
const TURN: Duration = Duration::from_millis(500);

/// How it is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Number of keys.
    pub(crate) keys: u32,
    /// Per second in the open loop.
    pub(crate) rate: f64,
    /// Requests under way in the closed loop.
    pub(crate) depth: usize,
}

/// The server, and the one connection to it.
#[derive(Debug)]
pub(crate) struct Keyed<P> {
    // The connection ends before the server.
    connection: Connection<P>,
    child: Child,
    load: Load,
    first: u32,
    keys: Vec<u32>,
    next: usize,
}

impl<P: Protocol> Keyed<P> {
    /// Connects as soon as `child` listens at `socket`, within `patience_s`.
    pub(crate) fn connect(
        mut child: Child,
        socket: &Path,
        load: Load,
        patience_s: u64,
    ) -> anyhow::Result<Self> {
        let deadline = clock::now().plus_us(patience_s * 1_000_000);
        let connection = loop {
            child.still_runs()?;
            match Connection::open(socket) {
                Ok(connection) => break connection,
                Err(e) if clock::now() > deadline => return Err(e),
                Err(_) => sleep_until(clock::now().plus_us(10_000))?,
            }
        };
        let live = load.keys / LIVE_PART;
        let keys = zipf::sequence(live, 0.99, 2_000_000, 42);
        Ok(Self { connection, child, load, first: load.keys - live, keys, next: 0 })
    }

    /// As [`Keyed::connect`], and stores the values of all keys.
    pub(crate) fn connect_and_store(child: Child, socket: &Path, load: Load) -> anyhow::Result<Self>
    where
        P: Store,
    {
        let mut server = Self::connect(child, socket, load, 10)?;
        server.connection.store(load.keys)?;
        Ok(server)
    }
}

impl<P: Protocol> Running for Keyed<P> {
    fn roots(&self) -> Vec<u32> {
        vec![self.child.pid()]
    }

    fn lasts(&self) -> bool {
        true
    }

    fn load(&mut self, seconds: f64) -> anyhow::Result<Outcome> {
        let end = clock::now() + Duration::from_secs_f64(seconds).as_nanos().try_into()?;
        let (mut done, mut latencies) = (0, Vec::new());
        let mut spent = 0.0;
        let mut used = 0;
        let rest = self.keys.iter().cycle().skip(self.next).map(|k| self.first + k);
        let mut keys = rest.inspect(|_| used += 1);
        while clock::now() < end {
            self.child.still_runs()?;
            sleep_until(clock::now())?;
            self.connection.open_loop(&mut keys, self.load.rate, TURN, &mut latencies)?;
            done += self.connection.closed(&mut keys, self.load.depth, TURN)?;
            spent += TURN.as_secs_f64();
        }
        drop(keys);
        self.next = (self.next + used) % self.keys.len();
        Ok(Outcome {
            per_second: to_f64(done) / spent,
            work: Some(to_f64(done + latencies.len() as u64)),
            p50_us: percentile(&latencies, 0.5),
            p99_us: percentile(&latencies, 0.99),
        })
    }
}
