//! Measures what reading kernel DAMON's trace costs, raw pages against text:
//! `trace_cost [SECONDS]`, while some kdamond runs (`isotherm record --ops kdamond`). Both read the
//! same events, each from an instance of its own.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program")]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use isotherm_damon::tracefs::{Item, Line, Options, Trace, parse_line};
use isotherm_sys::clock::{now, process_cpu_ns, sleep_until};

/// As often as windows of the default length come.
const EVERY_US: u64 = 100_000;

fn main() {
    let seconds: u64 = std::env::args().nth(1).map_or(10, |s| s.parse().unwrap());
    let mut raw = Trace::open(&Options { optional: Vec::new(), ..Options::default() }).unwrap();
    let mut text = Text::open(raw.place().root());
    let (mut items, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
    let (mut raw_cost, mut text_cost) = (Cost::default(), Cost::default());
    let end = now().plus_us(seconds * 1_000_000);
    while now() < end {
        sleep_until(now().plus_us(EVERY_US));
        let begin = process_cpu_ns();
        raw.read(&mut items).unwrap();
        let is_event = |item: &&Item| matches!(item, Item::Event(_));
        raw_cost.add(begin, items.iter().filter(is_event).count());
        items.clear();
        let begin = process_cpu_ns();
        let events = text.read(&mut bytes);
        text_cost.add(begin, events);
    }
    raw_cost.print("raw pages");
    text_cost.print("text");
}

#[derive(Debug, Default)]
struct Cost {
    ns: u64,
    reads: u64,
    events: usize,
}

impl Cost {
    fn add(&mut self, begin: u64, events: usize) {
        self.ns += process_cpu_ns() - begin;
        self.reads += 1;
        self.events += events;
    }

    fn print(&self, name: &str) {
        let events = u64::try_from(self.events).unwrap();
        let (each, per_read) = (self.ns / events.max(1), self.ns / self.reads.max(1) / 1000);
        println!(
            "{name}: {events} events, {each} ns of CPU per event, {per_read} us per read of {} events",
            events / self.reads.max(1)
        );
    }
}

/// `trace_pipe` of an instance, removed when dropped.
#[derive(Debug)]
struct Text {
    pipe: Option<File>,
    path: PathBuf,
    /// The beginning of a line.
    rest: String,
}

impl Text {
    fn open(tracefs: &Path) -> Self {
        let path = tracefs.join(format!("instances/trace-cost-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let mut text = Self { pipe: None, path, rest: String::new() };
        text.write("trace_clock", "mono");
        text.write("buffer_size_kb", "512");
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let pipe = text.path.join("trace_pipe");
        text.pipe = Some(File::options().read(true).custom_flags(flags).open(pipe).unwrap());
        text.write("events/damon/damon_aggregated/enable", "1");
        text
    }

    fn write(&self, file: &str, what: &str) {
        fs::write(self.path.join(file), what).unwrap();
    }

    /// Number of events that were read and understood.
    fn read(&mut self, buf: &mut [u8]) -> usize {
        let mut events = 0;
        while let Some(n) = self.pipe.as_mut().and_then(|p| p.read(buf).ok()).filter(|n| *n > 0) {
            self.rest.push_str(&String::from_utf8_lossy(&buf[..n]));
            let whole = self.rest.rfind('\n').map_or(0, |at| at + 1);
            let lines = self.rest[..whole].lines();
            events += lines.filter(|l| matches!(parse_line(l), Some(Line::Event(_)))).count();
            self.rest.drain(..whole);
        }
        events
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.pipe = None;
        // If it stays, the name tells whose it was.
        if let Err(e) = fs::remove_dir(&self.path) {
            println!("{} is left: {e}", self.path.display());
        }
    }
}
