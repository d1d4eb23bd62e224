//! Huge pages that have to pay, on programs that run: for one they pay, for the other they do not.

use std::path::Path;
use std::time::{Duration, Instant};

use isotherm_act::apply::{ActEvent, Settings};
use isotherm_agent::monitor::{Happened, Monitor};
use isotherm_core::scheme::{Action, Age, Bounds, Frequency, Pattern};
use isotherm_core::{Attrs, Method, Scheme};

use crate::direct::{MIB, mib};
use crate::odd::Odd;
use crate::run::LIMIT;
use crate::thp_is_always_on;

/// A program at work on 96 MiB, and a monitor whose scheme collapses what is touched at all.
struct Proof {
    odd: Odd,
    monitor: Monitor,
    verdicts: Vec<(Option<bool>, String)>,
    most_huge: u64,
}

impl Proof {
    /// `work` as in `odd.c`; `progress` counts it.
    fn start(work: &str, progress: Option<&Path>) -> Option<Self> {
        if thp_is_always_on() {
            eprintln!("skipped: THP is always on here, so all is huge from the start");
            return None;
        }
        let mut odd = Odd::start()?;
        odd.tell("anon", mib(0, 96), "");
        odd.tell("fill", mib(0, 96), "");
        odd.tell(work, mib(0, 96), &progress.map(|p| p.display().to_string()).unwrap_or_default());
        let attrs = Attrs { method: Method::Census, ..Attrs::default() };
        let mut monitor = Monitor::of_pid(odd.pid(), attrs).unwrap();
        let pattern = Pattern {
            sz: Bounds::new(4096, u64::MAX),
            nr_accesses: Frequency::Samples(Bounds::new(0, 20)),
            age: Age::Micros(Bounds::new(0, u64::MAX)),
        };
        let scheme = Scheme { pattern, action: Action::Collapse, ..Scheme::default() };
        let settings = Settings {
            min_touched_bp: 100,
            prove: true,
            progress: progress.map(Path::to_owned),
            ..Settings::default()
        };
        monitor.commit_schemes(vec![(scheme, settings)]);
        Some(Self { odd, monitor, verdicts: Vec::new(), most_huge: 0 })
    }

    fn huge(&self) -> u64 {
        self.odd.smaps(mib(0, 96), "AnonHugePages:")
    }

    /// Runs until a condition holds, or for [`LIMIT`].
    fn until(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        let mut looked = begin;
        loop {
            match self.monitor.next() {
                Happened::Stopped => panic!("the target has gone"),
                Happened::NotWatched(_, e) => panic!("{e}"),
                Happened::NotActedOn(_, e) => panic!("{e}"),
                Happened::Failed(e) => panic!("{e}"),
                _ => {}
            }
            for event in self.monitor.actor().take_events() {
                match event {
                    ActEvent::Proved { pays, text, .. } => self.verdicts.push((pays, text)),
                    ActEvent::Trouble { text, .. } => eprintln!("{text}"),
                    _ => {}
                }
            }
            if looked.elapsed() >= Duration::from_millis(50) {
                looked = Instant::now();
                self.most_huge = self.most_huge.max(self.huge());
                if holds(self) || begin.elapsed() > LIMIT {
                    eprintln!("{:?}, {} MiB huge at most", self.verdicts, self.most_huge / MIB);
                    return;
                }
            }
        }
    }
}

#[test]
fn a_program_that_reads_at_random_gets_huge_pages_everywhere() {
    let Some(mut proof) = Proof::start("gather", None) else { return };
    proof.until(|proof| proof.huge() >= 80 * MIB);
    let sure = proof.verdicts.iter().find(|(pays, _)| *pays == Some(true));
    if sure.is_none() && std::env::var("ISOTHERM_LAB").is_ok_and(|lab| lab == "1") {
        eprintln!("skipped: an emulated program touches too few pages per second");
        return;
    }
    let (_, text) = sure.unwrap_or_else(|| panic!("{:?}", proof.verdicts));
    assert!(text.contains("by how it touches pages"), "{text}");
    assert!(proof.huge() >= 80 * MIB, "{} bytes are huge", proof.huge());
    assert_eq!(proof.odd.wrong(mib(0, 96)), 0, "pages with another content");
}

#[test]
fn a_program_that_works_long_on_each_page_gets_none() {
    let Some(mut proof) = Proof::start("trudge", None) else { return };
    proof.until(|proof| !proof.verdicts.is_empty());
    // Whatever the scheme matched afterwards was not collapsed either.
    let begin = Instant::now();
    proof.until(|_| begin.elapsed() > Duration::from_secs(2));
    assert_eq!(proof.verdicts[0].0, Some(false), "{:?}", proof.verdicts);
    assert_eq!(proof.huge(), 0);
    assert_eq!(proof.odd.wrong(mib(0, 96)), 0, "pages with another content");
}

#[test]
fn a_sample_that_brought_no_progress_is_undone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("work");
    let Some(mut proof) = Proof::start("trudge", Some(&path)) else { return };
    proof.until(|proof| !proof.verdicts.is_empty());
    assert!(proof.most_huge >= 8 * MIB, "only {} bytes were tried", proof.most_huge);
    assert_ne!(proof.verdicts[0].0, Some(true), "{:?}", proof.verdicts);
    assert_eq!(proof.huge(), 0, "huge pages stayed: {:?}", proof.verdicts);
    assert_eq!(proof.odd.wrong(mib(0, 96)), 0, "pages with another content");
}

#[test]
fn huge_pages_that_a_scheme_made_can_be_split_without_a_loss() {
    let Some(mut proof) = Proof::start("gather", None) else { return };
    proof.until(|proof| proof.huge() >= 80 * MIB);
    let (before, size) = (proof.huge(), proof.odd.smaps(mib(0, 96), "Rss:"));
    assert!(before >= 80 * MIB, "{before} bytes are huge");
    proof.monitor.actor().set_undo_huge(true);
    proof.monitor.commit_schemes(Vec::new());
    proof.until(|proof| proof.huge() == 0);
    assert_eq!(proof.huge(), 0, "of {before} bytes");
    assert!(proof.odd.smaps(mib(0, 96), "Rss:") <= size);
    assert_eq!(proof.odd.wrong(mib(0, 96)), 0, "pages with another content");
}
