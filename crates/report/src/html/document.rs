//! The data of the page: one JSON object, which the page's script reads.

use isotherm_core::Cost;
use isotherm_core::units::{bytes, percent, show_interval, span};
use serde::Serialize;

use super::actions::Actions;
use super::grid::Grid;
use super::series::{WorkingSets, seconds};
use crate::mappings::{Heat, kind_name};
use crate::numbers::to_u64;
use crate::scan::Scan;
use crate::shown::float;
use crate::{ages, mappings, summary, wss};

/// Most lines of mappings; the rest is one line.
const MOST_LINES: usize = 600;
/// Most targets and notes.
const MOST_TARGETS: usize = 200;
const MOST_NOTES: usize = 200;

/// What the passes over the record have collected.
pub(super) struct Parts<'a> {
    pub(super) scan: &'a Scan,
    pub(super) wss: wss::Report,
    pub(super) ages: ages::Report,
    pub(super) mappings: mappings::Report,
    pub(super) gaps: Vec<(f64, f64)>,
    /// Of all windows.
    pub(super) cost: Cost,
    pub(super) grid: Grid,
    pub(super) actions: Option<Actions>,
}

/// The data.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    title: String,
    /// Seconds since the start.
    start: f64,
    end: f64,
    /// Time 0 as the wall clock had it, in ms since 1970; none if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    unix_ms: Option<u64>,
    warnings: Vec<String>,
    /// How it was measured: names and values.
    facts: Vec<(&'static str, String)>,
    notes: Vec<(f64, String)>,
    targets: Vec<Target>,
    more_targets: usize,
    gaps: Vec<(f64, f64)>,
    working_set: WorkingSets,
    heatmap: Grid,
    mappings: Vec<Line>,
    more_mappings: usize,
    ages: ages::Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    actions: Option<Actions>,
}

#[derive(Debug, Serialize)]
struct Target {
    name: String,
    pid: u32,
    /// When it ended, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    exited: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Line {
    target: String,
    pid: u32,
    kind: &'static str,
    name: String,
    /// Mean bytes: hot, warm, cold, unresolved.
    heat: [u64; 4],
    rate: f64,
    /// Mean bytes of pages: hot, cold, present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<[u64; 3]>,
}

impl Document {
    pub(super) fn new(parts: Parts<'_>) -> Self {
        let Parts { scan, wss, ages, mappings, gaps, cost, grid, actions } = parts;
        let (from, to) = scan.seen_ns.unwrap_or_default();
        let [start, end] = [from, to].map(|t| seconds(scan.since_start(t)));
        let wanted = || scan.targets.values().filter(|t| t.wanted);
        let targets = wanted().take(MOST_TARGETS).map(|t| Target {
            name: if t.target.memory.is_some() { t.title() } else { t.target.name.clone() },
            pid: t.target.pid,
            exited: t.exited_ns.map(|at| seconds(scan.since_start(at))),
        });
        let mut warnings = summary::warnings(scan, &wss.mean());
        warnings.extend((!wss.others.is_empty()).then(|| wss.others.clone()));
        warnings.extend(actions.iter().flat_map(Actions::warning));
        warnings.dedup();
        let notes = scan.notes.iter().take(MOST_NOTES);
        let notes = notes.map(|n| (seconds(scan.since_start(n.t_ns)), n.text.clone()));
        Self {
            title: scan.title(),
            start,
            end,
            unix_ms: unix_ms(scan),
            warnings,
            facts: facts(scan, cost),
            notes: notes.collect(),
            targets: targets.collect(),
            more_targets: wanted().count().saturating_sub(MOST_TARGETS),
            gaps,
            working_set: WorkingSets::of(&wss),
            heatmap: grid,
            more_mappings: with_memory(&mappings).count().saturating_sub(MOST_LINES),
            mappings: lines(&mappings),
            ages,
            actions,
        }
    }

    pub(super) fn title(&self) -> &str {
        &self.title
    }
}

/// The wall clock at time 0.
fn unix_ms(scan: &Scan) -> Option<u64> {
    let header = &scan.header;
    let since = scan.origin_ns.checked_sub(header.started_ns)?;
    let unix_ns = header.started_unix_ns.checked_add(since)?;
    (header.started_unix_ns > 0).then_some(unix_ns / 1_000_000)
}

/// The mappings that hold memory. Of the others all is absent.
fn with_memory(report: &mappings::Report) -> impl Iterator<Item = &mappings::Line> {
    report.lines.iter().filter(|line| line.heat.bytes() > 0.0)
}

fn lines(report: &mappings::Report) -> Vec<Line> {
    let of = |heat: &Heat| [heat.hot, heat.warm, heat.cold, heat.unresolved].map(to_u64);
    let shown = with_memory(report).take(MOST_LINES).map(|l| Line {
        target: l.target.clone(),
        pid: l.pid,
        kind: kind_name(l.kind),
        name: l.name.clone(),
        heat: of(&l.heat),
        rate: (l.heat.rate() * 1e4).round() / 1e4,
        pages: l.pages.map(|p| [p.hot, p.cold, p.present].map(to_u64)),
    });
    shown.collect()
}

/// How the record was made, and what that cost.
fn facts(scan: &Scan, cost: Cost) -> Vec<(&'static str, String)> {
    let (header, attrs) = (&scan.header, &scan.header.attrs);
    let Cost { checks, clears, cpu_ns, target_ns } = cost;
    let time = float(scan.seen_len().max(1));
    let of_one = |ns: u64| format!("{} of one CPU", percent(float(ns) / time));
    let per_second = |n: u64| format!("{:.0} per second", float(n) * 1e9 / time);
    let interval = |us: u64| if us == 0 { String::new() } else { show_interval(us) };
    let limits = (attrs.max_nr_regions > 0)
        .then(|| format!("{} to {}", attrs.min_nr_regions, attrs.max_nr_regions));
    let budget = (attrs.budget_bp > 0).then(|| percent(f64::from(attrs.budget_bp) / 1e4));
    let all = [
        ("Host", header.host.clone()),
        ("Kernel", [header.kernel.as_str(), &header.arch].join(" ").trim().to_owned()),
        ("Isotherm", header.isotherm.clone()),
        ("Command", header.command.join(" ")),
        ("Operations set", header.ops.clone()),
        ("What it can do", header.capabilities.join(", ")),
        ("Method", attrs.method.clone()),
        ("Sample interval", interval(attrs.sample_us)),
        ("Aggregation interval", interval(attrs.aggr_us)),
        ("Update interval", interval(attrs.update_us)),
        ("Regions", limits.unwrap_or_default()),
        (
            "Smallest region",
            if attrs.min_region_sz == 0 { String::new() } else { bytes(attrs.min_region_sz) },
        ),
        ("Budget", budget.map(|b| format!("{b} of one CPU")).unwrap_or_default()),
        ("Snapshots", format!("{} in {}", scan.taken, span(time))),
        ("CPU time used", of_one(cpu_ns)),
        ("CPU time that the targets paid", target_ns.map(of_one).unwrap_or_default()),
        ("Looks at pages", per_second(checks)),
        ("Accessed bits cleared", per_second(clears)),
        ("Late windows", format!("{} of {}", scan.late.late, scan.late.windows)),
        ("End", scan.end.as_ref().map(|end| end.reason.clone()).unwrap_or_default()),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}
