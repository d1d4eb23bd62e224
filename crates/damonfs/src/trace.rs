//! Events of DAMON, as lines of `perf script`, for those who listen.
//!
//! The kernel's events cannot be imitated where they are, so the stand-in of `perf` (see `perf`)
//! takes them from here by a socket. A listener that does not read loses lines, and what runs never
//! waits for one.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use isotherm_core::scheme::{Counters, Installed, Tried};
use isotherm_core::{Snapshot, TargetId, Time};

const AGGREGATED: &str = "damon:damon_aggregated";
const TUNED: &str = "damon:damon_monitor_intervals_tune";
const BEFORE_APPLY: &str = "damon:damos_before_apply";
const QUOTA: &str = "damon:damos_esz";
const COUNTED: &str = "damon:damos_stat_after_apply_interval";

/// The events that can be listened to, as `available_events` of tracefs lists them.
pub const EVENTS: [&str; 5] = [AGGREGATED, TUNED, BEFORE_APPLY, QUOTA, COUNTED];

/// How many windows of a context may wait for a listener.
const WAITING: usize = 256;

/// Gives lines to listeners.
#[derive(Debug, Default)]
pub struct Trace {
    listeners: Mutex<Vec<SyncSender<Arc<str>>>>,
    nr: AtomicUsize,
}

/// Who an event is from: what the kernel prints in front of each.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The name of the thread.
    pub(crate) comm: String,
    /// Its pid.
    pub(crate) pid: i32,
}

impl Trace {
    /// Whether anybody listens. Lines need not be made otherwise.
    pub(crate) fn is_heard(&self) -> bool {
        self.nr.load(Ordering::Relaxed) > 0
    }

    fn listen(&self) -> Receiver<Arc<str>> {
        let (sender, receiver) = sync_channel(WAITING);
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push(sender);
        self.nr.store(listeners.len(), Ordering::Relaxed);
        receiver
    }

    fn tell(&self, lines: String) {
        let lines: Arc<str> = lines.into();
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| {
            use std::sync::mpsc::TrySendError;
            !matches!(listener.try_send(Arc::clone(&lines)), Err(TrySendError::Disconnected(_)))
        });
        self.nr.store(listeners.len(), Ordering::Relaxed);
    }

    /// Tells of a window that is over. `targets` are the context's, in their order.
    pub(crate) fn aggregated(
        &self,
        from: &Source,
        snapshot: &Snapshot,
        targets: &[Option<TargetId>],
    ) {
        let mut lines = String::new();
        for target in &snapshot.targets {
            let Some(index) = targets.iter().position(|id| *id == Some(target.id)) else {
                continue;
            };
            let nr_regions = target.regions.len();
            for region in &target.regions {
                head(&mut lines, from, snapshot.end, AGGREGATED);
                let (start, end) = (region.range.start, region.range.end);
                let (nr, age) = (region.nr_accesses, region.age);
                // Writing to a string cannot fail.
                writeln!(
                    lines,
                    "target_id={index} nr_regions={nr_regions} {start}-{end}: {nr} {age}"
                )
                .ok();
            }
        }
        self.tell(lines);
    }

    /// Tells of a sample interval that was tuned.
    pub(crate) fn tuned(&self, from: &Source, at: Time, sample_us: u64) {
        let mut line = String::new();
        head(&mut line, from, at, TUNED);
        // Writing to a string cannot fail.
        writeln!(line, "sample_us={sample_us}").ok();
        self.tell(line);
    }

    /// Tells of regions that schemes were applied to. `snapshot` is of the last window, and
    /// `targets` are the context's, in their order.
    pub(crate) fn before_apply(
        &self,
        from: &Source,
        at: Time,
        applied: &[Tried],
        snapshot: &Snapshot,
        targets: &[Option<TargetId>],
    ) {
        if applied.is_empty() {
            return;
        }
        let mut lines = String::new();
        for tried in applied {
            let index = targets.iter().position(|id| *id == Some(tried.target));
            let Some(index) = index else { continue };
            let target = snapshot.targets.iter().find(|target| target.id == tried.target);
            let nr_regions = target.map_or(0, |target| target.regions.len());
            let (start, end) = (tried.range.start, tried.range.end);
            let Tried { scheme, nr_accesses, age, .. } = tried;
            head(&mut lines, from, at, BEFORE_APPLY);
            // Writing to a string cannot fail.
            writeln!(
                lines,
                "ctx_idx=0 scheme_idx={scheme} target_idx={index} nr_regions={nr_regions} \
                 {start}-{end}: {nr_accesses} {age}"
            )
            .ok();
        }
        self.tell(lines);
    }

    /// Tells of what schemes have counted since `told`, and of quotas that are others than then.
    pub(crate) fn schemes(
        &self,
        from: &Source,
        at: Time,
        schemes: &[Installed],
        told: &mut Vec<(Counters, u64)>,
    ) {
        let mut lines = String::new();
        for (index, scheme) in schemes.iter().enumerate() {
            let (stats, esz) = (scheme.stats(), scheme.quota().esz);
            // Of what was before somebody listened, only the quota is news.
            let known = told.get(index);
            let is_set = scheme.scheme().quota.is_set();
            if is_set && known.is_none_or(|(_, told)| *told != esz) {
                head(&mut lines, from, at, QUOTA);
                // Writing to a string cannot fail.
                writeln!(lines, "ctx_idx=0 scheme_idx={index} esz={esz}").ok();
            }
            if known.is_some_and(|(told, _)| told != stats) {
                head(&mut lines, from, at, COUNTED);
                counted(&mut lines, index, stats);
            }
        }
        told.clear();
        told.extend(schemes.iter().map(|s| (s.stats().clone(), s.quota().esz)));
        if !lines.is_empty() {
            self.tell(lines);
        }
    }

    /// Serves a socket at this path, on threads of its own, for as long as the process lives.
    ///
    /// # Errors
    ///
    /// If the socket cannot be made.
    pub fn serve(self: &Arc<Self>, at: &Path) -> io::Result<()> {
        let listener = UnixListener::bind(at)?;
        let this = Arc::clone(self);
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let lines = this.listen();
                let thread = std::thread::Builder::new().name("trace".into());
                // If there can be no thread, the listener sees the end of its stream.
                thread.spawn(move || pass_on(&lines, stream)).ok();
            }
        };
        std::thread::Builder::new().name("trace".into()).spawn(accept).map(drop)
    }
}

/// Writes lines to a listener until it goes away.
fn pass_on(lines: &Receiver<Arc<str>>, mut stream: UnixStream) {
    while let Ok(lines) = lines.recv() {
        if stream.write_all(lines.as_bytes()).is_err() {
            return;
        }
    }
}

/// What a scheme has counted, as its event says it.
fn counted(lines: &mut String, index: usize, stats: &Counters) {
    let Counters { nr_tried, sz_tried, nr_applied, sz_applied, .. } = stats;
    let Counters { sz_ops_filter_passed, qt_exceeds, nr_snapshots, .. } = stats;
    // Writing to a string cannot fail.
    writeln!(
        lines,
        "ctx_idx=0 scheme_idx={index} nr_tried={nr_tried} sz_tried={sz_tried} nr_applied={nr_applied} \
         sz_applied={sz_applied} sz_ops_filter_passed={sz_ops_filter_passed} qt_exceeds={qt_exceeds} \
         nr_snapshots={nr_snapshots}"
    )
    .ok();
}

/// What `perf script` prints in front of an event. A context's thread has no CPU of its own.
fn head(line: &mut String, from: &Source, at: Time, event: &str) {
    let us = at.as_ns() / 1000;
    let (s, us) = (us / 1_000_000, us % 1_000_000);
    let Source { comm, pid } = from;
    // Writing to a string cannot fail.
    write!(line, "{comm:>16} {pid:>6} [000] {s:>6}.{us:06}: {event}: ").ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::AddrRange;
    use isotherm_core::snapshot::{RegionInfo, TargetInfo};

    #[test]
    fn a_window_is_told_as_perf_script_prints_it() {
        let trace = Trace::default();
        assert!(!trace.is_heard());
        let lines = trace.listen();
        let region = RegionInfo {
            range: AddrRange::new(4096, 8192),
            nr_accesses: 3,
            age: 7,
            lo: 0.0,
            hi: 1.0,
            resolved: true,
            touched: None,
        };
        let target = TargetInfo { id: TargetId(9), regions: vec![region], ..Default::default() };
        let snapshot =
            Snapshot { end: Time(1_500_000_042_000), targets: vec![target], ..Default::default() };
        let from = Source { comm: "kdamond.0".into(), pid: 42 };
        trace.aggregated(&from, &snapshot, &[Some(TargetId(1)), Some(TargetId(9))]);
        assert_eq!(
            &*lines.recv().unwrap(),
            "       kdamond.0     42 [000]   1500.000042: damon:damon_aggregated: target_id=1 \
             nr_regions=1 4096-8192: 3 7\n"
        );
        drop(lines);
        trace.tuned(&from, Time::default(), 5000);
        assert!(!trace.is_heard(), "who went away is forgotten");
    }

    #[test]
    fn what_schemes_do_is_told_as_perf_script_prints_it() {
        let trace = Trace::default();
        let lines = trace.listen();
        let from = Source { comm: "kdamond.0".into(), pid: 42 };
        let tried = Tried {
            scheme: 1,
            target: TargetId(9),
            range: AddrRange::new(4096, 8192),
            nr_accesses: 3,
            age: 7,
            passed: 0,
        };
        let elsewhere = Tried { target: TargetId(8), ..tried };
        let target = TargetInfo {
            id: TargetId(9),
            regions: vec![RegionInfo::default(); 5],
            ..Default::default()
        };
        let snapshot = Snapshot { targets: vec![target], ..Default::default() };
        let ids = [None, Some(TargetId(9))];
        trace.before_apply(&from, Time::default(), &[elsewhere, tried], &snapshot, &ids);
        assert_eq!(
            &*lines.recv().unwrap(),
            "       kdamond.0     42 [000]      0.000000: damon:damos_before_apply: ctx_idx=0 \
             scheme_idx=1 target_idx=1 nr_regions=5 4096-8192: 3 7\n"
        );
        let mut counts = String::new();
        let stats = Counters { nr_tried: 1, sz_applied: 4, nr_snapshots: 7, ..Counters::default() };
        counted(&mut counts, 2, &stats);
        assert_eq!(
            counts,
            "ctx_idx=0 scheme_idx=2 nr_tried=1 sz_tried=0 nr_applied=0 sz_applied=4 \
             sz_ops_filter_passed=0 qt_exceeds=0 nr_snapshots=7\n"
        );
    }
}
