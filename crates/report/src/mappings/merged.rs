//! The hottest mappings of all targets together: one line per file, however many processes map it.
//!
//! Memory that targets share counts once, see [`once`](isotherm_record::once); a line also tells
//! the sum over its processes. Heap, stack and anonymous memory has nothing in common but the
//! program, so where
//! there are several processes, all of a program is one line per name. Numbers are means over the
//! whole time, also for targets that were not there all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use isotherm_core::units::percent;
use isotherm_record::MappingKind;
use serde::Serialize;

use super::sums::Sums;
use super::{ABSENT, Heat, JsonHeat, Report, kind_name};
use crate::numbers::to_u64;
use crate::scan::Scan;
use crate::shown::written;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// What it holds; `None` where no mapping is known.
    pub kind: Option<MappingKind>,
    /// Path, bracketed name, or `[anon]`; with an address if there is only one process.
    pub name: String,
    /// The program, if the name alone does not say whose memory it is.
    pub program: Option<String>,
    /// How many processes have it.
    pub processes: usize,
    /// Its bytes, with shared ones once.
    pub heat: Heat,
    /// The sum over the processes, in bytes.
    pub sum: f64,
}

/// Files are the same in every process; other memory belongs to a program.
type Key = (Option<MappingKind>, String, Option<String>);

/// The lines, hottest first. `once`: sums with shared memory counted once. `per_ns`: one by the
/// length of the whole time.
pub(super) fn lines(once: &Sums, sums: &Sums, scan: &Scan, per_ns: f64) -> Vec<Merged> {
    let several = sums.known.len() > 1;
    let key = |(id, kind, name): &super::sums::Key| -> Key {
        if !several || is_of_file(*kind, name) {
            return (*kind, name.clone(), None);
        }
        let name = name.split_once(" 0x").map_or(name.as_str(), |(name, _)| name);
        let program = scan.targets.get(id).map(|t| t.target.name.clone());
        (*kind, name.to_owned(), program)
    };
    let mut all: BTreeMap<Key, (Heat, f64, BTreeSet<u32>)> = BTreeMap::new();
    for (line, heat) in sums.lines.iter().filter(|(_, heat)| heat.bytes() > 0.0) {
        let (_, sum, ids) = all.entry(key(line)).or_default();
        *sum += heat.bytes() * per_ns;
        ids.insert(line.0);
    }
    for (line, heat) in once.lines.iter().filter(|(_, heat)| heat.bytes() > 0.0) {
        all.entry(key(line)).or_default().0.plus(&heat.scaled(per_ns));
    }
    let lines = all.into_iter().map(|((kind, name, program), (heat, sum, ids))| Merged {
        kind,
        name,
        program,
        processes: ids.len(),
        heat,
        sum,
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_by(|a, b| {
        let by = |l: &Merged| (l.heat.touched, l.heat.bytes());
        by(b).partial_cmp(&by(a)).unwrap_or(std::cmp::Ordering::Equal)
    });
    lines
}

/// Whether the name means the same in every process.
pub(crate) fn is_of_file(kind: Option<MappingKind>, name: &str) -> bool {
    let is_private = matches!(
        kind,
        None | Some(MappingKind::Heap | MappingKind::Stack | MappingKind::Anonymous)
    );
    !is_private && !name.starts_with("[anon]")
}

impl Report {
    /// The `most` hottest lines, merged across processes, as text.
    #[must_use]
    pub fn top_text(&self, most: usize) -> String {
        written(|out| self.top(out, most))
    }

    fn top(&self, out: &mut String, most: usize) -> std::fmt::Result {
        let shown = self.merged.len().min(most);
        writeln!(
            out,
            "hottest mappings of {}: {shown} of {}, means over the whole time",
            self.title,
            self.merged.len()
        )?;
        let with_absent = self.has_absent();
        let heads = ["hot", "warm", "cold", "unresolved", "sum", "absent"];
        let nr = if with_absent { heads.len() } else { heads.len() - 1 };
        heads[..nr].iter().try_for_each(|head| write!(out, "{head:>12} "))?;
        writeln!(out, "{:>8} {:>9}  mapping", "rate", "processes")?;
        for l in &self.merged[..shown] {
            let Heat { hot, warm, cold, unresolved, absent, .. } = l.heat;
            let bytes = [hot, warm, cold, unresolved, l.sum, absent];
            bytes[..nr]
                .iter()
                .try_for_each(|bytes| write!(out, "{:>12} ", isotherm_core::units::mib(*bytes)))?;
            let whose = l.program.iter().map(|p| format!(" of {p}")).collect::<String>();
            let rate = percent(l.heat.rate());
            writeln!(out, "{rate:>8} {:>9}  {} {}{whose}", l.processes, kind_name(l.kind), l.name)?;
        }
        if with_absent {
            writeln!(out, "{ABSENT}")?;
        }
        if self.apart.is_some() {
            writeln!(out, "sum: over the processes; all else counts what they share once")?;
        }
        if !self.damage.is_empty() {
            writeln!(out, "note: {}", self.damage)?;
        }
        Ok(())
    }

    /// The same as one JSON object; bytes as integers.
    #[must_use]
    pub fn top_json(&self, most: usize) -> String {
        let mappings = self.merged.iter().take(most).map(|l| JsonMerged {
            kind: kind_name(l.kind),
            name: &l.name,
            program: l.program.as_deref(),
            processes: l.processes,
            heat: JsonHeat::of(&l.heat),
            sum_over_processes: to_u64(l.sum),
        });
        let json = Json {
            schema_version: crate::SCHEMA_VERSION,
            target: &self.title,
            all: self.merged.len(),
            merged: mappings.collect(),
        };
        serde_json::to_string(&json).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Json<'a> {
    schema_version: u32,
    target: &'a str,
    /// How many lines there are without a limit.
    all: usize,
    merged: Vec<JsonMerged<'a>>,
}

#[derive(Serialize)]
struct JsonMerged<'a> {
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    processes: usize,
    #[serde(flatten)]
    heat: JsonHeat,
    sum_over_processes: u64,
}
