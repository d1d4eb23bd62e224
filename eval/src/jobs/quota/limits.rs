//! Parts `size`, `time` and `regions`: limits that must not be exceeded.

use isotherm_sys::clock;

use super::case::{Case, Leg};
use super::gauge::gauge;
use super::plant::{self, Policy, Session};
use super::{SWAP_BYTES, part};
use crate::job::Bench;
use crate::measure;
use crate::processes::child::sleep_until;

/// Acts on regions by their numbers alone.
const PLAIN: &str = "frequency = \"0%\"\nage = \"200ms..\"\nevidence = \"off\"";
/// Only on what was idle when it was looked at.
const EVIDENCE: &str = "frequency = \"0%\"\nage = \"200ms..\"\nevidence = { confirm = \"500ms\" }";
/// Matches nothing.
const NEVER: &str = "frequency = \"0%\"\nage = \"9999s..\"\nevidence = \"off\"";

/// A quota, and what it is measured on.
#[derive(Debug)]
pub(super) struct Limit {
    part: &'static str,
    name: &'static str,
    /// Config of the target.
    target: String,
    scheme: &'static str,
    /// Interval of the quota. Windows are whole passes, so that they end up `aggr_ms` / 2 longer.
    interval_ms: u64,
    mib: u64,
    ms: u64,
    sample_ms: u64,
    aggr_ms: u64,
    regions: [u64; 2],
    seconds: u64,
    /// Legs without and with a match, one after the other.
    controls: bool,
}

impl Limit {
    const USUAL: Self = Self {
        part: "",
        name: "",
        target: String::new(),
        scheme: PLAIN,
        interval_ms: 975,
        mib: 0,
        ms: 0,
        sample_ms: 5,
        aggr_ms: 50,
        regions: [10, 1000],
        seconds: 0,
        controls: false,
    };

    /// All of them.
    pub(super) fn all(quick: bool) -> Vec<Self> {
        let seconds = if quick { 4 } else { 20 };
        let size = |name, scheme, mib, interval_ms: u64| Self {
            part: part::SIZE,
            name,
            target: plant::cold(64 + seconds * mib * 1000 / interval_ms),
            scheme,
            interval_ms,
            mib,
            seconds,
            ..Self::USUAL
        };
        let time = |name, scheme| Self {
            part: part::TIME,
            name,
            target: plant::cold(if quick { 512 } else { 2048 }),
            scheme,
            ms: 10,
            seconds,
            controls: true,
            ..Self::USUAL
        };
        let regions = Self {
            part: part::REGIONS,
            name: "10000 regions",
            target: plant::cold(1024),
            ms: 10,
            sample_ms: 20,
            aggr_ms: 200,
            interval_ms: 900,
            regions: [12_000, 24_000],
            seconds,
            controls: true,
            ..Self::USUAL
        };
        let mut all = vec![size("20M/s", PLAIN, 20, 975)];
        if !quick {
            all.push(size("20M/s evidence", EVIDENCE, 20, 975));
            all.push(size("100M/s", PLAIN, 100, 975));
            all.push(size("2M per 200ms", PLAIN, 2, 175));
        }
        all.push(time("10ms/s", PLAIN));
        if !quick {
            all.push(time("10ms/s evidence", EVIDENCE));
        }
        all.push(regions);
        all
    }

    pub(super) const fn part(&self) -> &'static str {
        self.part
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    fn quota(&self) -> String {
        let size = if self.mib > 0 { format!("size = \"{}M\", ", self.mib) } else { String::new() };
        let time = if self.ms > 0 { format!("time = \"{}ms\", ", self.ms) } else { String::new() };
        format!("{{ {size}{time}interval = \"{}ms\" }}", self.interval_ms)
    }

    /// Measures it.
    pub(super) fn run(&self, bench: &Bench<'_>, file: &str, case: &mut Case) -> anyhow::Result<()> {
        case.window_ns = self.interval_ms.next_multiple_of(self.aggr_ms) * 1_000_000;
        case.limit_bytes = self.mib << 20;
        case.limit_ns = self.ms * 1_000_000;
        let zram = measure::swap(SWAP_BYTES)?;
        let target = plant::target(bench, file, &self.target)?;
        // What drifts is the same for both.
        let legs: &[bool] = match (self.controls, bench.spec.quick) {
            (true, false) => &[true, false, false, true],
            (true, true) => &[true, false],
            (false, _) => &[false],
        };
        for (i, control) in legs.iter().enumerate() {
            let policy = Policy {
                pid: target.child.pid(),
                sample_ms: self.sample_ms,
                aggr_ms: self.aggr_ms,
                regions: self.regions,
                scheme: if *control { NEVER } else { self.scheme }.into(),
                quota: self.quota(),
            };
            let seconds = self.seconds / if self.controls { 2 } else { 1 } + 1;
            let leg = leg(bench, &format!("{file}-{i}"), &policy, seconds)?;
            case.legs.push(Leg { control: *control, ..leg });
        }
        drop(target);
        Ok(zram.tear_down()?)
    }
}

fn leg(bench: &Bench<'_>, file: &str, policy: &Policy, seconds: u64) -> anyhow::Result<Leg> {
    let mut session = Session::start(bench, file, policy)?;
    let gauge = gauge(policy.pid, session.pid())?;
    let end = clock::now().plus_us(seconds * 1_000_000);
    while clock::now() < end {
        session.still_runs()?;
        sleep_until(end.min(clock::now().plus_us(100_000)))?;
    }
    let samples = gauge.finish();
    let events = session.events();
    let account = session.finish()?;
    let (acted, regions) = (super::events::acted(&events), super::events::regions(&events));
    Ok(Leg { control: false, samples, acted, regions, account })
}
