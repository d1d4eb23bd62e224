//! One engine at work on the workload, and what is seen of it from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_act::Process;
use isotherm_core::AddrRange;
use isotherm_host::Roots;
use isotherm_host::nodes::levels;
use isotherm_pages::places::Places;
use isotherm_sim::truth::Line;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::Bench;
use crate::processes::child::{Child, sleep_until};
use crate::processes::workload::Workload;
use crate::stats::to_f64;

/// Who moves the pages; `none`: nobody, for comparison.
pub(super) const ENGINES: [&str; 3] = ["isotherm", "kernel", "none"];
/// The workloads: hot memory in a few stretches, and in scattered pieces.
pub(in crate::jobs) const LAYOUTS: [&str; 2] = ["tier", "tier-scattered"];
/// The budget of monitoring: one that is a percent outside of emulated guests, where calls take 5
/// times as long.
const BUDGET: &str = "5%";
/// Between two looks at where pages are.
const LOOK_US: u64 = 2_000_000;
/// Pages looked at of every granule.
const PAGES: u64 = 64;
pub(super) const GRANULE: u64 = 2 << 20;
const MINUTE_NS: u64 = 60_000_000_000;
/// Phases of the workload.
const PHASES: u64 = 3;
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
/// What the kernel keeps free, in KiB: the least that leaves the goals (0.3 % and 0.5 % of 1.5 GiB)
/// to be reached. A machine with huge pages keeps 66 MiB free, whatever its size.
const KEEP_KIB: &str = "2048";

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Leg {
    pub(super) engine: String,
    /// The workload: one of [`LAYOUTS`].
    #[serde(default)]
    pub(super) layout: String,
    /// Each look.
    pub(super) looks: Vec<Look>,
    /// Each phase: when it began, and the accesses of each granule in it.
    pub(super) phases: Vec<Phase>,
    /// Of the pages looked at, how many were seen to change their node so many times within a
    /// minute at most, after the first minute of the leg.
    pub(super) moves: BTreeMap<u32, u64>,
    /// Whether a process drops all TLBs all the time (`lab/run --flush`), without which an emulated
    /// machine's accessed bits are stale.
    #[serde(default)]
    pub(super) flushed: bool,
    /// The tool's last account.
    pub(super) account: Value,
    pub(super) failed: Option<String>,
}

/// One look.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Look {
    pub(super) ns: u64,
    /// Per granule: the share of its pages on the fast node, in 1/64.
    pub(super) fast: Vec<u8>,
    /// Of the fast node, in basis points.
    pub(super) free_bp: u64,
}

/// One phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Phase {
    pub(super) begin_ns: u64,
    /// Accesses per granule.
    pub(super) accesses: Vec<f64>,
}

/// A setting of the kernel that is put back.
struct Setting(String);

impl Setting {
    fn set(value: &str) -> anyhow::Result<Self> {
        let old = fs::read_to_string(MIN_FREE)?;
        fs::write(MIN_FREE, value).with_context(|| format!("write {MIN_FREE}"))?;
        Ok(Self(old))
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // Nothing can be done about it here; it is a number of a test machine.
        fs::write(MIN_FREE, &self.0).ok();
    }
}

/// Runs one engine over one workload.
pub(super) fn run(
    bench: &Bench<'_>,
    layout: &str,
    engine: &str,
    nodes: [u32; 2],
) -> anyhow::Result<Leg> {
    let _keep = Setting::set(KEEP_KIB)?;
    let phase_s = bench.spec.seconds.unwrap_or(if bench.spec.quick { 30.0 } else { 60.0 });
    let whole = format!("{}ms", (phase_s * 1000.0).round() * 3.0);
    let truth = bench.dir.raw(&format!("truth-{layout}-{engine}"));
    let args = ["--scale", &whole, layout];
    let mut workload = Workload::start(&bench.spec.isotherm, &args, &truth)?;
    let pid = workload.child.pid();
    let out = bench.dir.raw(&format!("{layout}-{engine}.out"));
    let mut tool = start(bench, engine, nodes, pid, &out)?;
    let process = Process::open(pid)?;
    let (range, begin_ns) = memory(&truth)?;
    let places = Places::read(&Roots::default()).map_err(anyhow::Error::msg)?;
    let mut watch = Watch { fast: nodes[0], last: Vec::new(), flips: Vec::new() };
    let mut looks = Vec::new();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
    let end = begin_ns + (phase_s * 1e9) as u64 * PHASES - LOOK_US * 1000;
    let mut next = clock::now();
    while clock::now().as_ns() < end && workload.child.runs() {
        if let Some(tool) = &mut tool {
            tool.still_runs().context("the tool")?;
        }
        let Ok(fast) = watch.look(&process, &places, range) else { break };
        let level = levels(&Roots::default(), &nodes[..1]).map_err(anyhow::Error::msg)?;
        let free_bp = level.first().map_or(0, |l| l.free / 1024 * 10_000 / (l.total / 1024).max(1));
        looks.push(Look { ns: clock::now().as_ns(), fast, free_bp });
        next = next.plus_us(LOOK_US).max(clock::now());
        sleep_until(next)?;
    }
    let account = match tool {
        Some(tool) => {
            tool.stop()?;
            let text = fs::read_to_string(&out)?;
            let last = text.lines().last().context("no account")?;
            serde_json::from_str(last)?
        }
        None => Value::Null,
    };
    workload.child.stop()?;
    let phases = phases(&truth, range)?;
    let from = looks.first().map_or(0, |l| l.ns) + MINUTE_NS.min(end - begin_ns);
    Ok(Leg {
        engine: engine.into(),
        layout: layout.into(),
        looks,
        phases,
        moves: watch.moves(from.min(begin_ns + MINUTE_NS)),
        flushed: flushed(),
        account,
        failed: None,
    })
}

/// Whether the lab's `flush` is at work.
fn flushed() -> bool {
    let name = |dir: fs::DirEntry| fs::read_to_string(dir.path().join("comm")).ok();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(name).any(|comm| comm.trim() == "flush")
}

fn start(
    bench: &Bench<'_>,
    engine: &str,
    [fast, slow]: [u32; 2],
    pid: u32,
    out: &Path,
) -> anyhow::Result<Option<Child>> {
    if engine == "none" {
        return Ok(None);
    }
    let mut command = Command::new(&bench.spec.isotherm);
    command.args(["tier", "--json", "--every", "5s", "--engine", engine]);
    command.args(["--fast", &fast.to_string(), "--slow", &slow.to_string()]);
    if engine == "isotherm" {
        command.args(["-p", &pid.to_string(), "--budget", BUDGET]);
    }
    let file = fs::File::create(out).with_context(|| format!("create {}", out.display()))?;
    command.stdin(Stdio::null()).stdout(file);
    Ok(Some(Child::spawn(command, &out.with_extension("log"))?))
}

/// The workload's memory, and when its first phase began.
fn memory(truth: &Path) -> anyhow::Result<(AddrRange, u64)> {
    let (mut range, mut begin) = (None, None);
    for line in fs::read_to_string(truth)?.lines() {
        // The last line may be half there.
        match serde_json::from_str(line) {
            Ok(Line::Map { start, end, .. }) if end > start => {
                range = Some(AddrRange::new(start, end));
            }
            Ok(Line::Phase { ns, .. }) => begin = begin.or(Some(ns)),
            _ => {}
        }
    }
    Ok((range.context("no mapping in the truth")?, begin.context("no phase in the truth")?))
}

/// How often each granule was accessed in each phase.
fn phases(truth: &Path, range: AddrRange) -> anyhow::Result<Vec<Phase>> {
    let granules = usize::try_from(range.len() / GRANULE)?;
    let mut patterns = BTreeMap::new();
    let mut counts: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    let mut out: Vec<Phase> = Vec::new();
    for line in fs::read_to_string(truth)?.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Header(header)) => {
                for (nr, phase) in header.phases.into_iter().enumerate() {
                    patterns.extend(phase.patterns.into_iter().map(|p| (p.id, (nr, p.cells))));
                }
            }
            Ok(Line::Phase { ns, .. }) => {
                out.push(Phase { begin_ns: ns, accesses: vec![0.0; granules] });
            }
            Ok(Line::Slot { c, .. }) => {
                for (id, cell, n) in c {
                    *counts.entry((id, cell.into())).or_default() += n;
                }
            }
            _ => {}
        }
    }
    for ((id, cell), count) in counts {
        let Some((phase, cells)) = patterns.get(&id) else { continue };
        let Some(phase) = out.get_mut(*phase) else { continue };
        let pieces: Vec<(u64, u64)> = cells.pieces_of(cell).collect();
        let bytes: u64 = pieces.iter().map(|(start, end)| end - start).sum();
        for (start, end) in pieces {
            spread(&mut phase.accesses, (start, end), to_f64(count) / to_f64(bytes.max(1)));
        }
    }
    Ok(out)
}

/// Counts accesses, so many per byte, of a piece of memory for its granules.
fn spread(granules: &mut [f64], (start, end): (u64, u64), per_byte: f64) {
    let mut at = start;
    while at < end {
        let next = ((at / GRANULE + 1) * GRANULE).min(end);
        let granule = usize::try_from(at / GRANULE).ok().and_then(|nr| granules.get_mut(nr));
        if let Some(sum) = granule {
            *sum += to_f64(next - at) * per_byte;
        }
        at = next;
    }
}

/// Where pages are, and how often they moved.
struct Watch {
    fast: u32,
    /// Of each page looked at: whether it is on the fast node.
    last: Vec<Option<bool>>,
    /// Each change: which page, when.
    flips: Vec<(usize, u64)>,
}

impl Watch {
    fn look(
        &mut self,
        process: &Process,
        places: &Places,
        range: AddrRange,
    ) -> std::io::Result<Vec<u8>> {
        let mut fast = Vec::new();
        let mut nr = 0;
        let ns = clock::now().as_ns();
        for start in (range.start..range.end).step_by(2 << 20) {
            let mut here = 0;
            process.page_entries(
                AddrRange::new(start, start + PAGES * 4096),
                &mut |_, entry| {
                    let is = entry.frame().map(|frame| places.node_of(frame) == Some(self.fast));
                    here += u8::from(is == Some(true));
                    if self.last.len() <= nr {
                        self.last.push(is);
                    } else if let Some(was) = self.last.get_mut(nr)
                        && is.is_some()
                    {
                        if was.is_some() && *was != is {
                            self.flips.push((nr, ns));
                        }
                        *was = is;
                    }
                    nr += 1;
                },
            )?;
            fast.push(here);
        }
        Ok(fast)
    }

    /// How many pages moved so many times within a minute at most, from `from` on.
    fn moves(&self, from: u64) -> BTreeMap<u32, u64> {
        let mut times: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (page, ns) in self.flips.iter().filter(|(_, ns)| *ns >= from) {
            times.entry(*page).or_default().push(*ns);
        }
        let mut out = BTreeMap::new();
        for times in times.values() {
            let within =
                |at: &u64| times.iter().filter(|ns| (*at..*at + MINUTE_NS).contains(ns)).count();
            let most = times.iter().map(within).max().unwrap_or(0);
            *out.entry(u32::try_from(most).unwrap_or(u32::MAX)).or_default() += 1;
        }
        out.insert(0, (self.last.len() - times.len()) as u64);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_within_a_minute_are_counted() {
        let s = 1_000_000_000;
        let flips =
            vec![(0, 5 * s), (1, 70 * s), (1, 100 * s), (1, 140 * s), (2, 70 * s), (2, 131 * s)];
        let watch = Watch { fast: 0, last: vec![None; 10], flips };
        let expected = BTreeMap::from([(0, 8), (1, 1), (2, 1)]);
        assert_eq!(watch.moves(60 * s), expected);
    }
}
