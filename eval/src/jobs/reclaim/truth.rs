//! Part `truth`: generated workloads, whose cold memory is known, and their pagemap.
//!
//! *Cold and gone*: memory that is not accessed for at least three times the age, and is in swap
//! when three times the age have passed since its last access (or since Isotherm began). *Wrong*:
//! paged out, and back within 10 s. In `stairs` some memory is idle for a while by the workload's
//! design, and no policy that goes by age can be right about it; so *unfounded* is told apart:
//! paged out although accessed within the age before.
//!
//! `orig` is the control. Where there is swap, the machine itself may page out idle memory, and
//! Isotherm does not save that.

use std::collections::BTreeMap;
use std::io::BufReader;

use anyhow::Context;
use isotherm_core::AddrRange;
use isotherm_sim::truth::Truth;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};

use super::SWAP_BYTES;
use super::configs::{self, EVIDENCE, NO_BRAKE, ORIG, PLAIN_EARLY};
use crate::cli::{failed, say};
use crate::dir::ResultDir;
use crate::job::Bench;
use crate::measure;
use crate::processes::child::sleep_until;
use crate::processes::tool::{Account, Tool};
use crate::processes::workload::Workload;
use crate::readings::pages::{Change, PERIOD_US, Watch};
use crate::readings::sampling::{Sample, sampler};
use crate::stats::to_f64;

/// The name of the part.
const PART: &str = "truth";
const PAGE: u64 = 4096;
const SOON_NS: u64 = 10_000_000_000;
const CASES: &str = "raw/truth-cases.json";
/// Workloads, and their further arguments.
const FULL: [(&str, &[&str]); 6] = [
    ("stairs", &[]),
    ("hot10", &["--duration", "25s"]),
    ("phase-change", &[]),
    ("scattered-2m", &["--duration", "40s"]),
    ("scattered-256k", &["--duration", "40s"]),
    ("scattered-4k", &["--duration", "40s"]),
];
/// Configurations, if none is named; a smoke run takes the first two.
const CONFIGS: [&str; 4] = [ORIG, EVIDENCE, NO_BRAKE, PLAIN_EARLY];
const QUICK: [(&str, &[&str]); 1] = [("stairs", &["--scale", "0.1"])];

/// One run; `raw/truth-cases.json` lists them.
#[derive(Debug, Serialize, Deserialize)]
struct Case {
    workload: String,
    config: String,
    age_ns: u64,
    /// When the tool was there, and when watching ended.
    begin_ns: u64,
    end_ns: u64,
    samples: Vec<Sample>,
    account: Option<Account>,
    /// Pages that went to swap on the whole machine.
    swapped: [u64; 2],
    changes: Vec<Change>,
    failed: Option<String>,
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Score {
    pub(super) workload: String,
    pub(super) config: String,
    /// Bytes that were cold so long that they should be gone, each time that they were.
    pub(super) cold_bytes: f64,
    /// Of these the share that was gone in time.
    pub(super) gone: Option<f64>,
    /// Bytes that were seen to go to swap.
    pub(super) out_bytes: f64,
    /// Of these the share that was back within 10 s.
    pub(super) wrong: Option<f64>,
    /// Of these the share that was accessed within the age before.
    pub(super) unfounded: Option<f64>,
    /// Resident bytes at first, at least, and at the end.
    pub(super) rss: [u64; 3],
    /// Bytes that went and came, by the machine's own counts: those that came back between two
    /// looks are only here.
    pub(super) machine_out: f64,
    pub(super) machine_in: f64,
    pub(super) failed: Option<String>,
}

/// The part, and its workloads.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    [PART].into_iter().chain(FULL.map(|(name, _)| name))
}

/// Runs all cases, or those of the named workloads.
pub(super) fn run(bench: &Bench<'_>, quick: bool, age_ms: u64) -> anyhow::Result<()> {
    let mut cases = Vec::new();
    let age_ms = if quick { 300 } else { age_ms };
    let workloads: &[(&str, &[&str])] = if quick { &QUICK } else { &FULL };
    let usual = if quick { &CONFIGS[..2] } else { &CONFIGS[..] };
    let named = |name: &str| bench.spec.only.iter().any(|o| o == name);
    let limited = FULL.iter().any(|(name, _)| named(name));
    for (workload, args) in workloads.iter().filter(|(name, _)| !limited || named(name)) {
        let known = configs::headline(age_ms);
        let limited = known.iter().any(|c| named(&c.name));
        let wanted = |name: &str| if limited { named(name) } else { usual.contains(&name) };
        for config in known.iter().map(|c| c.name.as_str()).filter(|name| wanted(name)) {
            say(&format!("reclaim: truth: {workload} {config}"));
            let mut case = case(bench, workload, args, config, age_ms);
            if isotherm_sys::signals::stop_requested().is_some() {
                return case.map(drop);
            }
            if let Err(e) = &mut case {
                failed(&format!("reclaim: truth: {workload} {config}: failed: {e:#}"));
            }
            cases.push(case.unwrap_or_else(|e| Case {
                workload: (*workload).into(),
                config: config.into(),
                failed: Some(format!("{e:#}")),
                ..Case::empty()
            }));
            bench.dir.write_json(CASES, &cases)?;
        }
    }
    Ok(())
}

impl Case {
    const fn empty() -> Self {
        Self {
            workload: String::new(),
            config: String::new(),
            age_ns: 0,
            begin_ns: 0,
            end_ns: 0,
            samples: Vec::new(),
            account: None,
            swapped: [0; 2],
            changes: Vec::new(),
            failed: None,
        }
    }

    fn truth(&self) -> String {
        format!("{}-{}.truth", self.workload, self.config)
    }
}

fn case(
    bench: &Bench<'_>,
    workload: &str,
    args: &[&str],
    config: &str,
    age_ms: u64,
) -> anyhow::Result<Case> {
    let mut case = Case {
        workload: workload.into(),
        config: config.into(),
        age_ns: age_ms * 1_000_000,
        ..Case::empty()
    };
    let zram = measure::swap(SWAP_BYTES)?;
    let path = bench.dir.raw(&case.truth());
    let args: Vec<&str> = [workload].into_iter().chain(args.iter().copied()).collect();
    let mut running = Workload::start(&bench.spec.isotherm, &args, &path)?;
    let pid = running.child.pid();
    let ranges: Vec<AddrRange> = extents(&truth(&path)?).into_values().collect();
    let mut watch = Watch::open(pid, &ranges)?;
    let all = configs::headline(age_ms);
    let config = all.into_iter().find(|c| c.name == config).context("no such configuration")?;
    let log = bench.dir.raw(&format!("{workload}-{}", config.name));
    let start =
        |flags: &Vec<String>| Tool::start(&bench.spec.isotherm, "reclaim", [pid], flags, &log);
    let mut tool = config.flags.as_ref().map(start).transpose()?;
    let before = measure::swapped()?;
    case.begin_ns = clock::now().as_ns();
    let sampler = sampler(vec![pid], None)?;
    let mut next = clock::now();
    while running.child.runs() {
        tool.as_mut().map_or(Ok(()), Tool::check)?;
        if watch.look().is_err() {
            break;
        }
        case.end_ns = clock::now().as_ns();
        next = next.plus_us(PERIOD_US);
        sleep_until(next)?;
    }
    case.samples = sampler.finish();
    case.samples.retain(|s| s.rss > 0);
    let after = measure::swapped()?;
    case.swapped = [0, 1].map(|i| after[i].saturating_sub(before[i]));
    case.account = tool.map(Tool::finish).transpose()?.flatten();
    case.changes = watch.changes;
    drop(running);
    zram.tear_down()?;
    Ok(case)
}

fn truth(path: &std::path::Path) -> anyhow::Result<Truth> {
    let file = std::fs::File::open(path).with_context(|| format!("open {}", path.display()))?;
    Truth::read(BufReader::new(file)).with_context(|| format!("understand {}", path.display()))
}

/// Where the regions of the first process are at the end.
fn extents(truth: &Truth) -> BTreeMap<usize, AddrRange> {
    let maps = truth.processes.values().take(1).flat_map(|p| &p.maps);
    maps.map(|m| (m.region, m.extent.range)).filter(|(_, r)| !r.is_empty()).collect()
}

/// Scores all cases.
pub(super) fn study(dir: &ResultDir) -> anyhow::Result<Vec<Score>> {
    if !dir.path().join(CASES).exists() {
        return Ok(Vec::new());
    }
    let cases: Vec<Case> = dir.read_json(CASES)?;
    cases.iter().map(|case| score(case, dir)).collect()
}

fn score(case: &Case, dir: &ResultDir) -> anyhow::Result<Score> {
    let mut score = Score {
        workload: case.workload.clone(),
        config: case.config.clone(),
        failed: case.failed.clone(),
        ..Score::default()
    };
    if case.failed.is_some() {
        return Ok(score);
    }
    let truth = truth(&dir.raw(&case.truth()))?;
    let pages = timelines(&case.changes);
    let (mut gone, mut wrong, mut unfounded) = (0, 0, 0);
    for stretch in stretches(&truth) {
        for (since, until) in idle(&stretch.active, case.begin_ns, case.end_ns) {
            // A look may come late by its period.
            let due = since + 3 * case.age_ns + PERIOD_US * 1000;
            if until < due {
                continue;
            }
            for page in stretch.pages() {
                score.cold_bytes += to_f64(PAGE);
                gone += u64::from(pages.get(&page).is_some_and(|t| is_out(t, due)));
            }
        }
        for page in stretch.pages() {
            for (i, &(ns, out)) in pages.get(&page).into_iter().flatten().enumerate() {
                if !out {
                    continue;
                }
                score.out_bytes += to_f64(PAGE);
                let back = pages[&page].get(i + 1);
                wrong += u64::from(back.is_some_and(|(at, _)| *at < ns + SOON_NS));
                unfounded +=
                    u64::from(stretch.accessed_between(ns.saturating_sub(case.age_ns), ns));
            }
        }
    }
    let share = |pages: u64, of: f64| (of > 0.0).then(|| to_f64(pages * PAGE) / of);
    score.gone = share(gone, score.cold_bytes);
    score.wrong = share(wrong, score.out_bytes);
    score.unfounded = share(unfounded, score.out_bytes);
    let rss = || case.samples.iter().map(|s| s.rss);
    score.rss = [rss().next(), rss().min(), rss().next_back()].map(Option::unwrap_or_default);
    [score.machine_in, score.machine_out] = case.swapped.map(|n| to_f64(n * PAGE));
    Ok(score)
}

/// Per page: when it went and came.
fn timelines(changes: &[Change]) -> BTreeMap<u64, Vec<(u64, bool)>> {
    let mut pages: BTreeMap<u64, Vec<(u64, bool)>> = BTreeMap::new();
    for c in changes {
        for i in 0..c.pages {
            pages.entry(c.start + i * PAGE).or_default().push((c.ns, c.out));
        }
    }
    pages
}

fn is_out(timeline: &[(u64, bool)], ns: u64) -> bool {
    timeline.iter().take_while(|(at, _)| *at <= ns).last().is_some_and(|(_, out)| *out)
}

/// Pages that are accessed in the same slots.
struct Stretch {
    range: AddrRange,
    /// Begin and end of the slots with accesses.
    active: Vec<(u64, u64)>,
}

impl Stretch {
    fn pages(&self) -> impl Iterator<Item = u64> {
        (self.range.start..self.range.end).step_by(4096)
    }

    fn accessed_between(&self, from: u64, until: u64) -> bool {
        // Slots that lie wholly in between: of others it is not known.
        self.active.iter().any(|(begin, end)| *begin >= from && *end <= until)
    }
}

/// The regions of the first process, cut where cells begin and end.
fn stretches(truth: &Truth) -> Vec<Stretch> {
    let Some(process) = truth.processes.values().next() else { return Vec::new() };
    let mut by_cell: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
    for (k, counts) in &process.slots {
        for (id, cell, n) in counts {
            if *n > 0 {
                by_cell.entry((*id, *cell)).or_default().push(*k);
            }
        }
    }
    let mut all = Vec::new();
    for (region, extent) in extents(truth) {
        let patterns = truth.header.phases.iter().flat_map(|p| &p.patterns);
        let mut cells = Vec::new();
        for pattern in patterns.filter(|p| p.region == region) {
            for ((_, i), slots) in by_cell.range((pattern.id, 0)..=(pattern.id, u32::MAX)) {
                for (start, end) in pattern.cells.pieces_of(u64::from(*i)) {
                    let start = extent.start + start / PAGE * PAGE;
                    let end = (extent.start + end.next_multiple_of(PAGE)).min(extent.end);
                    cells.push((AddrRange::new(start, end), slots));
                }
            }
        }
        let mut cuts = vec![extent.start, extent.end];
        cuts.extend(cells.iter().flat_map(|(r, _)| [r.start, r.end]));
        cuts.sort_unstable();
        cuts.dedup();
        for pair in cuts.windows(2) {
            let range = AddrRange::new(pair[0], pair[1]);
            let here = cells.iter().filter(|(r, _)| r.intersects(&range));
            let mut slots: Vec<u64> = here.flat_map(|(_, s)| s.iter().copied()).collect();
            slots.sort_unstable();
            slots.dedup();
            let (zero, len) = (truth.header.start_ns, truth.header.slot_ns);
            let active = slots.iter().map(|k| (zero + k * len, zero + (k + 1) * len)).collect();
            all.push(Stretch { range, active });
        }
    }
    all
}

/// The times without access within `begin` to `end`.
fn idle(active: &[(u64, u64)], begin: u64, end: u64) -> Vec<(u64, u64)> {
    let mut since = begin;
    let mut all = Vec::new();
    for &(from, until) in active {
        if from > since {
            all.push((since, from.min(end)));
        }
        since = since.max(until);
    }
    if end > since {
        all.push((since, end));
    }
    all.retain(|(a, b)| b > a);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const TEXT: &str = r#"{"t":"header","version":1,"config":"x","seed":1,"page_size":4096,"slot_ns":1000000000,"start_ns":0,"regions":[{"name":"a","size":16384}],"phases":[{"name":"p","patterns":[{"id":0,"region":0,"kind":"random","cells":{"offset":0,"pitch":4096,"len":4096,"end":4096}},{"id":1,"region":0,"kind":"random","cells":{"offset":4096,"pitch":8192,"len":8192,"end":12288}}]}]}
{"t":"process","p":0,"pid":7,"parent":null,"ns":0}
{"t":"map","p":0,"r":0,"ns":0,"start":65536,"end":81920,"leaf":4096}
{"t":"slot","p":0,"k":0,"c":[[0,0,5],[1,0,5]]}
{"t":"slot","p":0,"k":1,"c":[[0,0,5]]}
{"t":"slot","p":0,"k":12,"c":[[0,0,5]]}
{"t":"end","p":0,"ns":20000000000}
"#;

    /// Page 0 is accessed in seconds 0, 1 and 12; pages 1 and 2 in second 0; page 3 never.
    fn scored(changes: Vec<Change>) -> Score {
        let dir = tempfile::tempdir().unwrap();
        let spec = crate::job::Spec::of_test("reclaim");
        let dir = ResultDir::create(dir.path(), &spec).unwrap();
        let case = Case {
            workload: "x".into(),
            config: "evidence".into(),
            age_ns: S,
            end_ns: 20 * S,
            changes,
            ..Case::empty()
        };
        dir.write_text(&format!("raw/{}", case.truth()), TEXT).unwrap();
        score(&case, &dir).unwrap()
    }

    fn change(s: u64, page: u64, pages: u64, out: bool) -> Change {
        Change { ns: s * S, start: 65_536 + page * PAGE, pages, out }
    }

    #[test]
    fn nothing_gone() {
        let score = scored(Vec::new());
        // Page 0 twice, the others once.
        assert_eq!(score.cold_bytes, 5.0 * 4096.0);
        assert_eq!((score.gone, score.wrong), (Some(0.0), None));
    }

    #[test]
    fn gone_in_time_late_wrong_and_unfounded() {
        let score = scored(vec![
            change(3, 3, 1, true),
            // Too early, and back at second 12: wrong and unfounded.
            change(3, 0, 1, true),
            change(12, 0, 1, false),
            // Too late.
            change(9, 1, 2, true),
        ]);
        assert_eq!(score.gone, Some(2.0 / 5.0));
        assert_eq!(score.out_bytes, 4.0 * 4096.0);
        assert_eq!(score.wrong, Some(1.0 / 4.0));
        assert_eq!(score.unfounded, Some(0.0));
        let early = scored(vec![change(2, 0, 1, true)]);
        assert_eq!(early.unfounded, Some(1.0));
    }
}
