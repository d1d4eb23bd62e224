//! The report as text for people.

use std::fmt;

use isotherm_host::Machine;

use super::{Granularity, Rate, Report, SelfTest, SetReport};
use crate::support::Support;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        machine(f, &self.machine)?;
        if !self.raises_priority {
            let what = "calls that hold a target's lock have ordinary priority";
            writeln!(f, "priority    {what} (needs CAP_SYS_NICE): it can wait longer")?;
        }
        if cannot_clear_others(&self.machine) {
            let what = "memory that processes of other users share is not seen";
            writeln!(f, "shared      {what} (needs CAP_DAC_OVERRIDE)")?;
        }
        writeln!(f)?;
        for set in &self.sets {
            set_lines(f, set)?;
        }
        match self.best {
            Some(best) => write!(f, "best: {}", best.name()),
            None => write!(f, "best: none works on this machine"),
        }
    }
}

fn machine(f: &mut fmt::Formatter<'_>, m: &Machine) -> fmt::Result {
    let or = |value: &Option<String>, none: &str| value.clone().unwrap_or_else(|| none.to_owned());
    writeln!(f, "kernel      {} {} on {}", m.kernel, m.arch, or(&m.host, "a host without name"))?;
    writeln!(f, "machine     {} cpus, {} MiB memory, {}", m.cpus, m.memory_bytes >> 20, swap(m))?;
    let levels = m.paging_levels.map_or_else(|| "?".to_owned(), |n| n.to_string());
    writeln!(f, "pages       {} bytes, {levels} levels", m.page_bytes)?;
    writeln!(f, "huge pages  {}", or(&m.thp, "not in this kernel"))?;
    writeln!(f, "BTF         {}", if m.btf { "yes" } else { "no" })?;
    writeln!(f, "lockdown    {}", or(&m.lockdown, "not to be seen (is securityfs mounted?)"))?;
    if !m.clearers.is_empty() {
        let who = m.clearers.join(", ");
        writeln!(f, "others      clear accessed bits, too: {who}")?;
        writeln!(
            f,
            "            (`isotherm wss` and `record` measure how many, and tell if it matters)"
        )?;
    }
    writeln!(f, "privileges  uid {}, {}", m.uid, capabilities(m))
}

pub(super) fn swap(m: &Machine) -> String {
    if m.swap_bytes == 0 {
        "no swap".to_owned()
    } else {
        format!("{} MiB swap", m.swap_bytes >> 20)
    }
}

/// The capabilities that matter here, by name; how many there are besides.
pub(super) fn capabilities(m: &Machine) -> String {
    const WANTED: [&str; 6] = [
        "CAP_BPF",
        "CAP_PERFMON",
        "CAP_SYS_PTRACE",
        "CAP_SYS_NICE",
        "CAP_DAC_READ_SEARCH",
        "CAP_DAC_OVERRIDE",
    ];
    let (have, lack): (Vec<_>, Vec<_>) = WANTED.iter().partition(|c| m.has_capability(c));
    let list = |names: Vec<&&str>| names.into_iter().copied().collect::<Vec<_>>().join(" ");
    match (have.is_empty(), lack.is_empty()) {
        (true, _) => "none of the capabilities that help".to_owned(),
        (_, true) => format!("has {}", list(have)),
        _ => format!("has {}; lacks {}", list(have), list(lack)),
    }
}

/// Whether the program can watch processes of other users, but cannot write their `clear_refs`:
/// what several processes map is not made old then.
pub(super) fn cannot_clear_others(m: &Machine) -> bool {
    m.has_capability("CAP_DAC_READ_SEARCH") && !m.has_capability("CAP_DAC_OVERRIDE")
}

fn set_lines(f: &mut fmt::Formatter<'_>, set: &SetReport) -> fmt::Result {
    let answer = match &set.support {
        Support::Yes => "yes",
        Support::No { .. } => "no",
        Support::Unknown { .. } => "cannot tell",
    };
    writeln!(f, "{:<11} {answer}; sees {}", set.name.name(), set.sees)?;
    match &set.support {
        Support::Yes => {}
        Support::No { why, since, fix, .. } => {
            writeln!(f, "  why:      {why}")?;
            if let Some(since) = since {
                writeln!(f, "  since:    Linux {since}")?;
            }
            if !fix.is_empty() {
                writeln!(f, "  fix:      {fix}")?;
            }
        }
        Support::Unknown { why } => writeln!(f, "  why:      {why}")?,
    }
    if let Some(test) = &set.self_test {
        self_test(f, test)?;
    }
    match &set.support {
        _ if set.usable => writeln!(f, "  usable:   yes")?,
        // Said two lines above.
        Support::No { why, .. } if *why == set.reason => writeln!(f, "  usable:   no")?,
        _ => writeln!(f, "  usable:   no: {}", set.reason)?,
    }
    writeln!(f)
}

fn self_test(f: &mut fmt::Formatter<'_>, t: &SelfTest) -> fmt::Result {
    let wrong = |rate: Rate| format!("{}/{}", rate.wrong, rate.of);
    let seen = |rate: Rate| format!("{}/{}", rate.of - rate.wrong, rate.of);
    writeln!(f, "  seen:     reads {}, writes {}", seen(t.missed_reads), seen(t.missed_writes))?;
    let leaf = format!("per page; largest page-table leaf {} KiB", t.largest_leaf_bytes >> 10);
    let per = match t.granularity {
        Granularity::Page => leaf.as_str(),
        Granularity::Region => "per region: neighbours that look alike share one number",
        Granularity::Mapping => "PER MAPPING ONLY: one touched page makes its whole mapping hot",
        Granularity::None => "does not tell touched from untouched",
    };
    writeln!(f, "  grain:    {per}")?;
    writeln!(
        f,
        "  wrong:    false idle {}, false hot {} beside touched pages, {} elsewhere; unanswered {}",
        wrong(Rate {
            wrong: t.missed_reads.wrong + t.missed_writes.wrong,
            of: t.missed_reads.of + t.missed_writes.of,
        }),
        wrong(t.false_hot),
        wrong(t.false_hot_elsewhere),
        wrong(t.unanswered),
    )?;
    if let Some(hidden) = t.hidden_by_tlb {
        writeln!(
            f,
            "  TLB:      not flushed: of {} pages touched at once again {} looked idle; a page in constant use shows when \
             the processor drops its translation",
            hidden.of, hidden.wrong
        )?;
    }
    if t.granularity == Granularity::Region {
        return writeln!(f, "  cost:     the kernel's own thread; not measured here");
    }
    let clear = t.ns_per_clear.map_or_else(|| "-".to_owned(), |ns| format!("{ns} ns"));
    writeln!(f, "  cost:     {} ns per check, {clear} per clear (idle process)", t.ns_per_check)
}
