//! A connection to a server of values by key, over a Unix socket, pipelined, with two ways of
//! loading.
//!
//! *Closed*: a fixed number of requests is under way, which shows the throughput. *Open*: requests
//! have times of their own at a fixed rate, and a latency counts from that time, also if the client
//! could not send then because the server was late: a stall is charged to all whom it delays.
//!
//! Each reply to a `get` is checked: a value says which key it belongs to. A wrong one fails.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::value;

/// The shortest time between two sends of the open loop.
const TICK: Duration = Duration::from_micros(500);
/// Values that are stored with one send.
const BATCH: u32 = 256;

/// What a server speaks.
pub(crate) trait Protocol: Debug {
    /// Adds a request for the value of `key`.
    fn get(key: u32, request: &mut Vec<u8>);
    /// The first reply of `text`; `None` if it is not all there.
    fn reply(text: &[u8]) -> anyhow::Result<Option<Reply>>;
}

/// What a server speaks that is given its values.
pub(crate) trait Store: Protocol {
    /// Adds a request that stores a value.
    fn set(key: u32, value: &[u8], request: &mut Vec<u8>);
}

/// Where a reply lies.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The value.
    pub(crate) body: Range<usize>,
    /// Where the next reply begins.
    pub(crate) end: usize,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection<P> {
    stream: UnixStream,
    request: Vec<u8>,
    /// Keys of the values that were asked for and have not come.
    asked: Vec<u32>,
    buffer: Vec<u8>,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Connection<P> {
    pub(crate) fn open(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).context("set a timeout")?;
        Ok(Self {
            stream,
            request: Vec::new(),
            asked: Vec::new(),
            buffer: vec![0; 1 << 20],
            protocol: PhantomData,
        })
    }

    /// Stores the values of all keys below `n`.
    pub(crate) fn store(&mut self, n: u32) -> anyhow::Result<()>
    where
        P: Store,
    {
        let mut text = Vec::new();
        for begin in (0..n).step_by(BATCH as usize) {
            let keys = begin..n.min(begin + BATCH);
            let count = keys.len();
            for key in keys {
                text.clear();
                value::write(key, value::LEN, &mut text);
                P::set(key, &text, &mut self.request);
            }
            self.exchange(count, |_| ())?;
        }
        Ok(())
    }

    /// Adds a request to the next exchange.
    fn get(&mut self, key: u32) {
        P::get(key, &mut self.request);
        self.asked.push(key);
    }

    /// Sends what was added, and calls `seen` with the number of replies that are there, until all
    /// `n`.
    fn exchange(&mut self, n: usize, mut seen: impl FnMut(usize)) -> anyhow::Result<()> {
        self.stream.write_all(&self.request).context("send")?;
        self.request.clear();
        let (mut done, mut begin, mut end) = (0, 0, 0);
        while done < n {
            let before = done;
            while let Some(reply) = P::reply(&self.buffer[begin..end])? {
                if let Some(key) = self.asked.get(done) {
                    let body = reply.body.start + begin..reply.body.end + begin;
                    value::check(*key, &self.buffer[body])?;
                }
                begin += reply.end;
                done += 1;
            }
            if done > before {
                seen(done - before);
            }
            if done == n {
                break;
            }
            self.buffer.copy_within(begin..end, 0);
            (end, begin) = (end - begin, 0);
            let got = self.stream.read(&mut self.buffer[end..]).context("receive")?;
            anyhow::ensure!(got > 0, "the server closed the connection");
            end += got;
        }
        self.asked.clear();
        Ok(())
    }

    /// Asks for the next of `keys`, `depth` at a time, for `time`; how many.
    pub(crate) fn closed(
        &mut self,
        keys: &mut impl Iterator<Item = u32>,
        depth: usize,
        time: Duration,
    ) -> anyhow::Result<u64> {
        let begin = Instant::now();
        let mut done = 0;
        while begin.elapsed() < time {
            keys.by_ref().take(depth).for_each(|k| self.get(k));
            self.exchange(depth, |_| ())?;
            done += depth as u64;
        }
        Ok(done)
    }

    /// Asks for the next of `keys`, at `rate` per second for `time`; adds latencies in us.
    pub(crate) fn open_loop(
        &mut self,
        keys: &mut impl Iterator<Item = u32>,
        rate: f64,
        time: Duration,
        latencies: &mut Vec<f64>,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        let tick = TICK.max(Duration::from_secs_f64(1.0 / rate));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small whole number"
        )]
        let n = (rate * tick.as_secs_f64()).round() as usize;
        let mut nr = 0;
        while tick * nr < time {
            let due = begin + tick * nr;
            if let Some(rest) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(rest);
            }
            keys.by_ref().take(n).for_each(|k| self.get(k));
            self.exchange(n, |replies| {
                let us = due.elapsed().as_secs_f64() * 1e6;
                latencies.extend(std::iter::repeat_n(us, replies));
            })?;
            nr += 1;
        }
        Ok(())
    }
}

/// `k` and eight digits.
pub(crate) fn key_name(key: u32) -> [u8; 9] {
    let mut name = *b"k00000000";
    let mut rest = key;
    for d in name[1..].iter_mut().rev() {
        // A remainder of ten.
        *d += u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    name
}

/// The first line of `text`, and where the next one begins.
pub(crate) fn line(text: &[u8]) -> Option<(&str, usize)> {
    let end = text.iter().position(|b| *b == b'\n')?;
    let line = str::from_utf8(&text[..end]).unwrap_or("what is no text");
    Some((line.trim_end(), end + 1))
}

#[cfg(test)]
mod tests {
    use super::super::Resp;
    use super::*;
    use crate::programs::Place;

    #[test]
    fn keys_have_eight_digits() {
        for (key, name) in [(0, "k00000000"), (1_234_567, "k01234567"), (99_999_999, "k99999999")] {
            assert_eq!(str::from_utf8(&key_name(key)).unwrap(), name);
        }
    }

    /// A server that answers every request of 28 bytes with the value of key 5, until nobody asks
    /// or listens any more.
    fn always_five(socket: &Path) -> std::thread::JoinHandle<()> {
        let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 28];
            while stream.read_exact(&mut request).is_ok()
                && stream.write_all(b"$12\r\n{\"id\":5,\"n\":\r\n").is_ok()
            {}
        })
    }

    #[test]
    fn a_wrong_answer_fails() {
        let place = Place::create("connection-test").unwrap();
        let socket = place.file("s");
        let server = always_five(&socket);
        let mut connection = Connection::<Resp>::open(&socket).unwrap();
        let mut fives = std::iter::repeat(5);
        let time = Duration::from_millis(5);
        assert!(connection.closed(&mut fives, 4, time).unwrap() >= 4);
        let mut latencies = Vec::new();
        connection.open_loop(&mut fives, 4000.0, time, &mut latencies).unwrap();
        assert_eq!(latencies.len(), 20);
        let told = connection.closed(&mut [5, 5, 6, 5].into_iter(), 4, time).unwrap_err();
        assert!(told.to_string().contains("key 6"), "{told}");
        drop(connection);
        server.join().unwrap();
    }
}
