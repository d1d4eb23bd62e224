//! A target with schemes at work on it.

use std::time::{Duration, Instant};

use isotherm_act::apply::{ActEvent, Settings, Undone};
use isotherm_agent::monitor::{Happened, Monitor};
use isotherm_core::scheme::Counters;
use isotherm_core::{Attrs, Scheme};

use crate::target::Target;

/// How long a test waits for what must come. A machine that is busy with other things needs many
/// times as long as a quiet one, so this limit only ends a test that would never pass.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A monitor with schemes over one target.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) target: Target,
    monitor: Monitor,
    events: Vec<ActEvent>,
}

impl Run {
    /// A target with so many MiB, all touched once; `pages` as the target's `map` takes it.
    pub(crate) fn start(mib: u64, pages: &str, schemes: Vec<(Scheme, Settings)>) -> Self {
        Self::start_with(mib, pages, schemes, Attrs::default())
    }

    /// The same by other attributes.
    pub(crate) fn start_with(
        mib: u64,
        pages: &str,
        schemes: Vec<(Scheme, Settings)>,
        attrs: Attrs,
    ) -> Self {
        let mut target = Target::spawn();
        target.say(&format!("map {} {pages}", mib << 20));
        let mut monitor = Monitor::of_pid(target.pid(), attrs).unwrap();
        monitor.commit_schemes(schemes);
        Self { target, monitor, events: Vec::new() }
    }

    /// Runs for so many seconds, in which the target touches `len` bytes from `from` on about 20
    /// times per second.
    pub(crate) fn touch_for(&mut self, seconds: f64, from: u64, len: u64) {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let mut next = Instant::now();
        while Instant::now() < end {
            if Instant::now() >= next {
                self.target.say(&format!("touch {from} {}", len / 4096));
                next += Duration::from_millis(50);
            }
            match self.monitor.next() {
                Happened::Stopped => panic!("the target has gone"),
                Happened::NotWatched(_, e) => panic!("{e}"),
                Happened::NotActedOn(_, e) => panic!("{e}"),
                Happened::Failed(e) => panic!("{e}"),
                _ => {}
            }
            self.events.extend(self.monitor.actor().take_events());
        }
    }

    /// Runs as [`touch_for`](Self::touch_for) until a condition holds. After [`LIMIT`] it returns
    /// in any case, and the checks of the test say what is missing.
    pub(crate) fn touch_until(
        &mut self,
        from: u64,
        len: u64,
        mut holds: impl FnMut(&mut Self) -> bool,
    ) {
        let begin = Instant::now();
        while !holds(self) && begin.elapsed() < LIMIT {
            self.touch_for(0.5, from, len);
        }
    }

    /// The target touches its first `len` bytes.
    pub(crate) fn touch_once(&mut self, len: u64) {
        self.target.say(&format!("touch 0 {}", len / 4096));
    }

    pub(crate) fn account(&mut self) -> (Counters, Counters) {
        let account = self.monitor.actor().accounts()[0].counters.clone();
        (account, self.monitor.context().schemes()[0].stats().clone())
    }

    /// Bytes of the target's memory that are in swap.
    pub(crate) fn swapped(&self) -> u64 {
        self.target.smaps("Swap:") << 10
    }

    /// Takes back all advice.
    pub(crate) fn undo(&mut self) -> Undone {
        self.monitor.actor().undo()
    }

    /// Bytes of the target's mappings that have this flag.
    pub(crate) fn advised(&self, flag: &str) -> u64 {
        let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", self.target.pid())).unwrap();
        let (mut size, mut sum) = (0, 0);
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("Size:") => size = words.next().unwrap().parse::<u64>().unwrap() << 10,
                Some("VmFlags:") if words.any(|word| word == flag) => sum += size,
                _ => {}
            }
        }
        sum
    }

    /// Whether a trouble with this text was told.
    pub(crate) fn told(&self, part: &str) -> bool {
        let is = |e: &ActEvent| matches!(e, ActEvent::Trouble { text, .. } if text.contains(part));
        self.events.iter().any(is)
    }
}
