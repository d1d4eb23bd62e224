//! The report of `isotherm tier`, for people and as JSON. docs/TIER.md documents the keys.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use isotherm::raw::agent::run::{Heat, HeatTable, Summary};
use isotherm::raw::agent::tier::LinkStanding;
use isotherm::raw::core::units::bytes;
use serde::Serialize;

use super::percent;
use crate::act::stopped::Stopped;

/// A summary of the context, and the state of the hierarchy's links.
#[derive(Debug, Default)]
pub(super) struct TierSummary {
    pub(super) of: Summary,
    pub(super) links: Vec<LinkStanding>,
}

/// A report: the present state, or the state at the end.
#[derive(Debug, Serialize)]
pub(super) struct Account {
    pub(super) engine: &'static str,
    pub(super) elapsed_ns: u64,
    pub(super) own_cpu_ns: u64,
    pub(super) own_rss_bytes: u64,
    /// Only in the last report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stopped: Option<Stopped>,
    pub(super) dry_run: bool,
    pub(super) targets: usize,
    pub(super) regions: usize,
    pub(super) sample_us: u64,
    pub(super) aggr_us: u64,
    pub(super) links: Vec<LinkStanding>,
    pub(super) schemes: Vec<Scheme>,
    pub(super) heat: HeatTable,
    pub(super) blocked: Option<String>,
}

/// What a scheme did.
#[derive(Debug, Serialize)]
pub(super) struct Scheme {
    pub(super) name: String,
    pub(super) asked_bytes: u64,
    pub(super) done_bytes: u64,
    pub(super) refused_bytes: u64,
    pub(super) refused_errno: BTreeMap<i32, u64>,
    pub(super) ping_pong_bytes: u64,
    pub(super) touched_again_bytes: u64,
    pub(super) action_ns: u64,
}

impl Account {
    /// Makes a report from a summary. The caller fills in the other fields.
    pub(super) fn of(TierSummary { of, links }: &TierSummary) -> Self {
        let schemes = of.schemes.iter().map(|standing| {
            let a = &standing.account;
            // The kernel gives no proof of what it did, so its own counters are used.
            let is_proven = a.done_bytes > 0 || a.applied_bytes == 0;
            let done_bytes = if is_proven { a.done_bytes } else { a.applied_bytes };
            let asked_bytes = if is_proven { a.asked_bytes } else { a.passed_bytes };
            Scheme {
                name: a.name.clone(),
                asked_bytes,
                done_bytes,
                refused_bytes: a.refused_bytes,
                refused_errno: a.refused_errno.clone(),
                ping_pong_bytes: a.ping_pong_bytes,
                touched_again_bytes: a.refaulted_bytes,
                action_ns: a.action_ns,
            }
        });
        Self {
            engine: "",
            elapsed_ns: 0,
            own_cpu_ns: 0,
            own_rss_bytes: 0,
            stopped: None,
            dry_run: false,
            targets: of.nr_targets,
            regions: of.nr_regions,
            sample_us: of.sample_us,
            aggr_us: of.aggr_us,
            links: links.clone(),
            schemes: schemes.collect(),
            heat: of.heat.clone().unwrap_or_default(),
            blocked: of.blocked.clone(),
        }
    }

    /// The report for people: a table, the goals, and what was moved.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
        let (seconds, cpu) = (self.elapsed_ns as f64 / 1e9, self.own_cpu_ns as f64 / 1e9);
        let why = self.stopped.map_or("", Stopped::text);
        let sep = if why.is_empty() { "" } else { ": " };
        // Writing to a string cannot fail.
        writeln!(
            text,
            "after {seconds:.1} s{sep}{why}; {} target{}, {} regions, sample {} ms, window {} ms, own cpu {:.2} %",
            self.targets,
            if self.targets == 1 { "" } else { "s" },
            self.regions,
            self.sample_us / 1000,
            self.aggr_us / 1000,
            cpu * 100.0 / seconds.max(1e-9),
        )
        .ok();
        text += &table(&self.heat);
        for link in &self.links {
            text += &goals(link);
            if self.dry_run {
                text += &expected(link, &self.heat);
            }
        }
        for scheme in &self.schemes {
            text += &moved(scheme, self.dry_run);
        }
        if let Some(why) = &self.blocked {
            writeln!(text, "blocked: {why}").ok();
        }
        text
    }
}

/// The table of bytes by heat and node.
fn table(heat: &HeatTable) -> String {
    if heat.nodes.is_empty() {
        return String::new();
    }
    let mut text = format!("{:<16}", "");
    for node in &heat.nodes {
        write!(text, "{:>14}", format!("node {node}")).ok();
    }
    text += "\n";
    for class in Heat::ALL {
        write!(text, "{:<16}", class.text()).ok();
        for amount in &heat.bytes[class as usize] {
            write!(text, "{:>14}", bytes(*amount)).ok();
        }
        text += "\n";
    }
    write!(text, "{:<16}", "of all accesses").ok();
    for share in &heat.accesses_bp {
        let share = share.map_or_else(|| "-".to_owned(), |bp| format!("{:.1} %", percent(bp)));
        write!(text, "{share:>14}").ok();
    }
    text + "\n"
}

fn goals(link: &LinkStanding) -> String {
    let by = if link.by_watermarks { " (by the node's watermarks)" } else { "" };
    let rests =
        if link.rests > 0 { format!("; had no room {} times", link.rests) } else { String::new() };
    format!(
        "node {}: used {:.2} % (goal {:.2} %), free {:.2} % (goal {:.2} %){by}; {} wait on node {}{rests}\n",
        link.upper,
        percent(link.used_bp),
        percent(link.used_goal_bp),
        percent(link.free_bp),
        percent(link.free_goal_bp),
        bytes(link.waiting),
        link.lower,
    )
}

/// What a dry run expects of the real run.
fn expected(link: &LinkStanding, heat: &HeatTable) -> String {
    let (there, all) = heat.accessed(&[link.upper]);
    if all == 0 {
        return "nothing was accessed\n".to_owned();
    }
    let share = |part: u64| percent(part.min(all) * 10_000 / all);
    format!(
        "node {}: {:.1} % of the accessed bytes are there now; {:.1} % would be\n",
        link.upper,
        share(there),
        share(there + link.promoted),
    )
}

fn moved(scheme: &Scheme, dry_run: bool) -> String {
    let mut text = format!("{}: ", scheme.name);
    if dry_run {
        return text + &format!("would have moved {}\n", bytes(scheme.done_bytes));
    }
    text += &format!(
        "asked for {}, moved {}, refused {}, ping-pong {}",
        bytes(scheme.asked_bytes),
        bytes(scheme.done_bytes),
        bytes(scheme.refused_bytes),
        bytes(scheme.ping_pong_bytes),
    );
    if scheme.touched_again_bytes > 0 {
        text += &format!(", touched within a second {}", bytes(scheme.touched_again_bytes));
    }
    text += "\n";
    for (errno, refused) in &scheme.refused_errno {
        let said = std::io::Error::from_raw_os_error(*errno);
        text += &format!("  refused: {} ({said})\n", bytes(*refused));
    }
    text
}

/// The status line on a terminal.
pub(super) fn status(elapsed_s: f64, TierSummary { of, links }: &TierSummary) -> String {
    let s = if of.nr_targets == 1 { "" } else { "s" };
    let mut text = format!("{elapsed_s:6.1} s  {} target{s}", of.nr_targets);
    for link in links {
        text += &format!(
            "  node {}: used {:.1} %, +{} -{}, waiting {}",
            link.upper,
            percent(link.used_bp),
            bytes(link.promoted),
            bytes(link.demoted),
            bytes(link.waiting)
        );
    }
    if let Some(heat) = &of.heat
        && let (Some(node), Some(Some(bp))) = (heat.nodes.first(), heat.accesses_bp.first())
    {
        text += &format!("  node {node}: {:.1} % of accesses", percent(*bp));
    }
    if of.blocked.is_some() {
        text += "  BLOCKED";
    }
    text
}
