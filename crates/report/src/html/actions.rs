//! Actions and their refaults, from the event log of an acting command (`--events`).
//!
//! A record holds no actions: it says what memory did, and an event log what was done to memory.
//! Both have the same clock, so one page can show both. Actions become sums by scheme and slice of
//! time. Refaults come from the account of each second, which counts up.
//!
//! The log is foreign input: lines that are no events are counted and told, and numbers that make
//! no sense add nothing.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::{Deserialize, Serialize};

use super::series::{MOST_POINTS, seconds};
use crate::error::Error;
use crate::shown::float;

/// Slices of the time axis.
const SLICES: usize = MOST_POINTS / 4;
/// Most messages; later ones are counted.
const MOST_MESSAGES: usize = 200;
/// Longest message, in characters.
const LONGEST: usize = 300;

/// The actions as the page's script reads them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Actions {
    schemes: Vec<Scheme>,
    /// Seconds since the start, and what happened.
    messages: Vec<(f64, String)>,
    /// Messages that are left out.
    more: u64,
    /// Length of a slice, in seconds.
    slice: f64,
    /// `acted` events within the record's time.
    events: u64,
    /// Events outside of it.
    outside: u64,
    /// Lines that are no events.
    unread: u64,
}

#[derive(Debug, Default, Serialize)]
struct Scheme {
    name: String,
    action: String,
    dry_run: bool,
    /// Sums over the record's time, in bytes.
    done_bytes: u64,
    refaulted_bytes: u64,
    /// By slice of time, in KiB.
    done: Vec<u64>,
    refaulted: Vec<u64>,
    /// The account's last count.
    #[serde(skip)]
    last: u64,
}

/// A line of the log. Keys that a later version adds are ignored.
#[derive(Debug, Deserialize)]
struct Line {
    t_ns: u64,
    event: String,
    #[serde(default)]
    context: String,
    #[serde(default)]
    scheme: String,
    #[serde(default)]
    action: String,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    done_bytes: u64,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    schemes: Vec<Account>,
}

#[derive(Debug, Deserialize)]
struct Account {
    #[serde(default)]
    name: String,
    #[serde(default)]
    action: String,
    #[serde(default)]
    refaulted_bytes: u64,
}

/// Reads a log. `time`: the record's, in ns of its clock; `origin`: time 0 of the report.
///
/// # Errors
///
/// If it cannot be read, or holds no event at all.
pub(super) fn read(mut log: impl BufRead, time: (u64, u64), origin: u64) -> Result<Actions, Error> {
    let mut reading = Reading { time, origin, schemes: BTreeMap::new(), all: Actions::default() };
    let mut known = 0_u64;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = log.read_until(b'\n', &mut line);
        if read.map_err(isotherm_record::Error::io("read the event log"))? == 0 {
            break;
        }
        match serde_json::from_slice::<Line>(&line) {
            Ok(event) => {
                known += 1;
                reading.event(event);
            }
            // The last line of a run is its account.
            Err(_) if line.iter().all(u8::is_ascii_whitespace) => {}
            Err(_) => reading.all.unread += 1,
        }
    }
    if known == 0 {
        return Err(Error::Usage(
            "the event log holds no events\n  why:   no line of it is one\n  hint:  `isotherm run`, \
             `reclaim`, `thp` and `lru-sort` write one with --events FILE"
                .into(),
        ));
    }
    Ok(reading.finish())
}

impl Actions {
    /// What a reader should know of the log; none if all is well.
    pub(super) fn warning(&self) -> Option<String> {
        let lines = if self.unread == 1 { "line" } else { "lines" };
        let unread = format!("{} {lines} of the event log could not be read", self.unread);
        match (self.events + self.messages.len() as u64, self.unread) {
            (0, _) if self.outside > 0 => Some(
                "the event log has nothing from the time of this record: it may be of another run, \
                 or of another boot"
                    .into(),
            ),
            (_, 0) => None,
            _ => Some(unread),
        }
    }
}

struct Reading {
    time: (u64, u64),
    origin: u64,
    schemes: BTreeMap<(String, String), Scheme>,
    all: Actions,
}

impl Reading {
    fn event(&mut self, line: Line) {
        let inside = (self.time.0..=self.time.1).contains(&line.t_ns);
        if !inside {
            self.all.outside += 1;
        }
        let slice = self.slice(line.t_ns);
        match line.event.as_str() {
            "acted" if inside => {
                self.all.events += 1;
                let scheme = self.scheme(line.context, line.scheme);
                scheme.action = line.action;
                scheme.dry_run |= line.dry_run;
                add(scheme, slice, line.done_bytes, 0);
            }
            "summary" => {
                for account in line.schemes {
                    let scheme = self.scheme(line.context.clone(), account.name);
                    let new = account.refaulted_bytes.saturating_sub(scheme.last);
                    scheme.last = account.refaulted_bytes;
                    scheme.action = account.action;
                    add(scheme, slice, 0, if inside { new } else { 0 });
                }
            }
            "trouble" | "blocked" | "unblocked" | "undone" | "ended" | "commit_refused"
            | "committed" | "left_out"
                if inside =>
            {
                self.message(&line);
            }
            _ => {}
        }
    }

    fn slice(&self, t_ns: u64) -> usize {
        let len = float(self.time.1.saturating_sub(self.time.0).max(1));
        let at = float(t_ns.saturating_sub(self.time.0)) / len * float(SLICES as u64);
        crate::numbers::to_usize(at.floor()).min(SLICES - 1)
    }

    fn scheme(&mut self, context: String, name: String) -> &mut Scheme {
        let shown = if context.is_empty() { name.clone() } else { format!("{context}: {name}") };
        self.schemes.entry((context, name)).or_insert_with(|| Scheme {
            name: shown,
            done: vec![0; SLICES],
            refaulted: vec![0; SLICES],
            ..Scheme::default()
        })
    }

    fn message(&mut self, line: &Line) {
        if self.all.messages.len() >= MOST_MESSAGES {
            self.all.more += 1;
            return;
        }
        let text = line.text.as_deref().unwrap_or(&line.reason);
        let sep = if text.is_empty() { "" } else { ": " };
        let text: String = format!("{}{sep}{text}", line.event).chars().take(LONGEST).collect();
        let t = seconds(line.t_ns.saturating_sub(self.origin));
        self.all.messages.push((t, text));
    }

    fn finish(self) -> Actions {
        let slice = seconds(self.time.1.saturating_sub(self.time.0)) / float(SLICES as u64);
        let mut schemes: Vec<Scheme> = self.schemes.into_values().collect();
        for scheme in &mut schemes {
            scheme.done.iter_mut().chain(&mut scheme.refaulted).for_each(|bytes| *bytes /= 1024);
        }
        Actions { schemes, slice, ..self.all }
    }
}

/// Adds to the sums of a scheme.
fn add(scheme: &mut Scheme, slice: usize, done: u64, refaulted: u64) {
    let plus = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
    plus(&mut scheme.done_bytes, done);
    plus(&mut scheme.refaulted_bytes, refaulted);
    plus(&mut scheme.done[slice], done);
    plus(&mut scheme.refaulted[slice], refaulted);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"t_ns":500,"event":"acted","context":"c","scheme":"s","action":"pageout","done_bytes":4096}
{"t_ns":1000,"event":"started","context":"c","ops":"pagewalk"}
{"t_ns":3000000000,"event":"acted","context":"c","scheme":"s","action":"pageout","done_bytes":8192}
{"t_ns":4000000000,"event":"summary","context":"c","schemes":[{"name":"s","action":"pageout","refaulted_bytes":4096}]}
{"t_ns":5000000000,"event":"summary","context":"c","schemes":[{"name":"s","action":"pageout","refaulted_bytes":6144}]}
{"t_ns":6000000000,"event":"trouble","context":"c","scheme":"s","pid":1,"text":"no <swap>"}
{"t_ns":7000000000,"event":"acted"
not json
"#;

    #[test]
    fn actions_and_refaults_by_slice_of_time() {
        let all = read(LOG.as_bytes(), (1000, 10_000_001_000), 1000).unwrap();
        assert_eq!((all.events, all.outside, all.unread), (1, 1, 2));
        let [scheme] = &all.schemes[..] else { panic!("{all:?}") };
        assert_eq!((scheme.name.as_str(), scheme.action.as_str()), ("c: s", "pageout"));
        assert_eq!((scheme.done_bytes, scheme.refaulted_bytes), (8192, 6144));
        let at = |all: &[u64]| -> Vec<_> {
            all.iter().enumerate().filter(|(_, x)| **x > 0).map(|(at, x)| (at, *x)).collect()
        };
        assert_eq!(at(&scheme.done), [(SLICES * 3 / 10 - 1, 8)]);
        assert_eq!(at(&scheme.refaulted), [(SLICES * 4 / 10 - 1, 4), (SLICES / 2 - 1, 2)]);
        assert_eq!(all.messages, [(6.0, "trouble: no <swap>".to_owned())]);
    }

    #[test]
    fn a_file_without_events_is_refused() {
        for log in ["", "hello\n", "{}\n"] {
            let error = read(log.as_bytes(), (0, 1), 0).unwrap_err().to_string();
            assert!(error.contains("holds no events") && error.contains("--events"), "{error}");
        }
    }
}
