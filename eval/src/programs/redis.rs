//! Redis with 1 GiB of values of which the newest tenth is asked for, by Zipf's law.
//!
//! A load phase alternates each half second between an open loop of half of what the server can do,
//! which gives the latencies, and a closed loop, which gives the throughput.

use std::path::Path;
use std::time::Duration;

use isotherm_sys::clock;

use super::resp::Client;
use super::{Outcome, Place, Program, Running, Size, not_installed, zipf};
use crate::processes::child::{Child, sleep_until};
use crate::stats::{percentile, to_f64};

const KEYS: u32 = 900_000;
/// The newest keys, 1 of so many.
const LIVE_PART: u32 = 10;
const VALUE: usize = 1000;
/// Per second in the open loop.
const RATE: f64 = 40_000.0;
const DEPTH: usize = 32;
const TURN: Duration = Duration::from_millis(500);

/// The program.
#[derive(Debug)]
pub(super) struct Redis;

#[derive(Debug)]
struct Server {
    child: Child,
    client: Client,
    first: u32,
    keys: Vec<u32>,
    next: usize,
}

impl Program for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn about(&self) -> &'static str {
        "redis-server, 1 GiB of values, GETs of the newest tenth by Zipf's law"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["redis-server"], "redis-server")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let socket = place.file("redis.sock");
        let dir = place.path().to_string_lossy().into_owned();
        let options = [
            ("--port", "0"),
            ("--unixsocket", &*socket.to_string_lossy()),
            ("--dir", &*dir),
            ("--save", ""),
            ("--appendonly", "no"),
            ("--daemonize", "no"),
        ];
        let args = options.iter().flat_map(|(k, v)| [*k, *v]);
        let mut child = Child::start("redis-server", args, &place.file("redis.log"))?;
        let mut client = connect(&mut child, &socket)?;
        let n = u32::try_from(size.scaled(u64::from(KEYS)))?.next_multiple_of(256);
        client.set_all(0..n, value)?;
        let live = n / LIVE_PART;
        let keys = zipf::sequence(live, 0.99, 2_000_000, 42);
        Ok(Box::new(Server { child, client, first: n - live, keys, next: 0 }))
    }
}

fn connect(child: &mut Child, socket: &Path) -> anyhow::Result<Client> {
    let deadline = clock::now().plus_us(10_000_000);
    loop {
        child.still_runs()?;
        match Client::connect(socket) {
            Ok(client) => return Ok(client),
            Err(e) if clock::now() > deadline => return Err(e),
            Err(_) => sleep_until(clock::now().plus_us(10_000))?,
        }
    }
}

/// Text that compresses about threefold, as records in JSON do.
fn value(key: u32, text: &mut Vec<u8>) {
    let mut x = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while text.len() < VALUE {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let field = format!("{{\"id\":{key},\"name\":\"{x:016x}\",\"state\":\"active\",\"n\":0}},");
        text.extend_from_slice(field.as_bytes());
    }
    text.truncate(VALUE);
}

impl Running for Server {
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
            self.client.open(&mut keys, RATE, TURN, &mut latencies)?;
            done += self.client.closed(&mut keys, DEPTH, TURN)?;
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
