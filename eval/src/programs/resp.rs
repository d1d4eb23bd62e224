//! A client of Redis: SET and GET over a Unix socket, pipelined, in two ways of loading.
//!
//! *Closed*: a fixed number of requests is under way, which shows the throughput. *Open*: requests
//! have times of their own at a fixed rate, and a latency counts from that time, also if the client
//! could not send then because the server was late: a stall is charged to all whom it delays.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

const TICK: Duration = Duration::from_micros(500);

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: UnixStream,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

impl Client {
    pub(super) fn connect(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).context("set a timeout")?;
        Ok(Self { stream, request: Vec::new(), buffer: vec![0; 1 << 20] })
    }

    /// Stores `value(key)` at each of `keys`.
    pub(super) fn set_all(
        &mut self,
        keys: std::ops::Range<u32>,
        mut value: impl FnMut(u32, &mut Vec<u8>),
    ) -> anyhow::Result<()> {
        let mut text = Vec::new();
        for key in keys {
            text.clear();
            value(key, &mut text);
            let head = format!("*3\r\n$3\r\nSET\r\n$9\r\nk{key:08}\r\n${}\r\n", text.len());
            self.request.extend_from_slice(head.as_bytes());
            self.request.extend_from_slice(&text);
            self.request.extend_from_slice(b"\r\n");
            if key % 256 == 255 {
                self.exchange(256, |_| ())?;
            }
        }
        Ok(())
    }

    /// Adds a GET to the next exchange.
    fn get(&mut self, key: u32) {
        self.request.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$9\r\nk");
        let mut digits = [b'0'; 8];
        let mut rest = key;
        for d in digits.iter_mut().rev() {
            // A remainder of ten.
            *d += u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        self.request.extend_from_slice(&digits);
        self.request.extend_from_slice(b"\r\n");
    }

    /// Sends what was added, and calls `seen` with the number of replies that are there, until all
    /// `n`.
    fn exchange(&mut self, n: usize, mut seen: impl FnMut(usize)) -> anyhow::Result<()> {
        self.stream.write_all(&self.request).context("send")?;
        self.request.clear();
        let (mut done, mut begin, mut end) = (0, 0, 0);
        while done < n {
            let before = done;
            while let Some(used) = reply(&self.buffer[begin..end])? {
                begin += used;
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
        Ok(())
    }

    /// GETs of the next of `keys`, `depth` at a time, for `time`; how many.
    pub(super) fn closed(
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

    /// GETs of the next of `keys`, at `rate` per second for `time`; adds latencies in us.
    pub(super) fn open(
        &mut self,
        keys: &mut impl Iterator<Item = u32>,
        rate: f64,
        time: Duration,
        latencies: &mut Vec<f64>,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        let per_tick = (rate * TICK.as_secs_f64()).max(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small whole number"
        )]
        let n = per_tick as usize;
        let mut tick = 0;
        while TICK * tick < time {
            let due = begin + TICK * tick;
            if let Some(rest) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(rest);
            }
            keys.by_ref().take(n).for_each(|k| self.get(k));
            self.exchange(n, |replies| {
                let us = due.elapsed().as_secs_f64() * 1e6;
                latencies.extend(std::iter::repeat_n(us, replies));
            })?;
            tick += 1;
        }
        Ok(())
    }
}

/// The length of the first reply of `text`; `None` if it is not all there.
fn reply(text: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(end) = text.iter().position(|b| *b == b'\n') else { return Ok(None) };
    let line = String::from_utf8_lossy(&text[..end]);
    let line = line.trim_end();
    let body = match line.split_at_checked(1) {
        Some(("+" | ":", _)) => 0,
        Some(("$", "-1")) => bail!("a key is lost"),
        Some(("$", len)) => len.parse::<usize>().context("a length")? + 2,
        _ => bail!("the server says `{line}`"),
    };
    let all = end + 1 + body;
    Ok((text.len() >= all).then_some(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_cut_out() {
        for (text, expected) in [
            ("+OK\r\n+OK\r\n", Some(5)),
            ("$3\r\nabc\r\n", Some(9)),
            ("$3\r\nabc\r", None),
            ("$3\r\nabc\r\n+", Some(9)),
            ("$3", None),
            ("", None),
            (":7\r\n", Some(4)),
        ] {
            assert_eq!(reply(text.as_bytes()).unwrap(), expected, "{text:?}");
        }
        for text in ["-ERR no\r\n", "$-1\r\n", "$x\r\n", "\n"] {
            assert!(reply(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
