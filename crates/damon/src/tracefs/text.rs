//! Lines of `trace` and `trace_pipe` that were captured before (`cat trace_pipe`, a bug report, our
//! committed traces).
//!
//! ```text
//! kdamond.0-198 [000] ..... 6.810079: damon_aggregated: target_id=0 nr_regions=11 4096-8192: 0 1
//! ```
//!
//! Live tracing does not use text: see [`super`] for why.

use isotherm_core::{AddrRange, Time};

use super::event::{AggregatedRegion, AppliedRegion, Event, EventKind, Record, SchemeStats};

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// An event of system `damon`.
    Event(Record),
    /// `CPU:N [LOST M EVENTS]`.
    Lost {
        /// The CPU.
        cpu: u32,
        /// How many events, if the line tells.
        events: Option<u64>,
    },
}

/// Reads one line. `None` for comments, other events, and what is not understood.
#[must_use]
pub fn parse_line(line: &str) -> Option<Line> {
    if let Some(rest) = line.trim_start().strip_prefix("CPU:") {
        let (cpu, rest) = rest.split_once(" [LOST ")?;
        let events = rest.split_once(" EVENTS]").and_then(|(n, _)| n.parse().ok());
        return Some(Line::Lost { cpu: cpu.trim().parse().ok()?, events });
    }
    // A thread's name may hold any bytes, so the event's name is searched from the back.
    let kind = EventKind::ALL.into_iter().find_map(|kind| {
        let (head, text) = line.rsplit_once(&format!(": {}: ", kind.name()))?;
        Some((head, kind, text))
    });
    let (head, kind, text) = kind?;
    let (head, stamp) = head.rsplit_once(' ')?;
    let (thread, rest) = head.rsplit_once('[')?;
    let cpu = rest.split_once(']')?.0.trim().parse().ok()?;
    // A thread group may stand between the thread and the CPU, in parentheses.
    let thread = thread.split_once(" (").map_or(thread, |(thread, _)| thread);
    let pid = thread.trim_end().rsplit_once('-')?.1.parse().ok()?;
    Some(Line::Event(Record {
        at: Time(ns(stamp)?),
        cpu,
        pid,
        event: event(kind, text.trim_end())?,
    }))
}

/// `6.810079` in ns.
fn ns(stamp: &str) -> Option<u64> {
    let (s, us) = stamp.split_once('.')?;
    let us: u64 = (us.len() == 6).then(|| us.parse().ok())??;
    s.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(us)?.checked_mul(1000)
}

fn event(kind: EventKind, text: &str) -> Option<Event> {
    let mut words = text.split(' ');
    Some(match kind {
        EventKind::Aggregated | EventKind::RegionAggregated => {
            let target = value(&mut words, "target_id")?;
            let mut region = region(&mut words, target)?;
            if kind == EventKind::RegionAggregated {
                let mut hits = [0; 4];
                let first = words.next()?.strip_prefix("probe_hits=")?;
                for (hit, word) in hits.iter_mut().zip(std::iter::once(first).chain(words)) {
                    *hit = u8::from_str_radix(word, 16).ok()?;
                }
                region.probe_hits = Some(hits);
            }
            Event::Aggregated(region)
        }
        EventKind::BeforeApply => {
            let context = value(&mut words, "ctx_idx")?;
            let scheme = value(&mut words, "scheme_idx")?;
            let target = value(&mut words, "target_idx")?;
            Event::BeforeApply(AppliedRegion {
                context,
                scheme,
                region: region(&mut words, target)?,
            })
        }
        EventKind::Esz => Event::Esz {
            context: value(&mut words, "ctx_idx")?,
            scheme: value(&mut words, "scheme_idx")?,
            esz: value(&mut words, "esz")?,
        },
        EventKind::Stats => Event::Stats(SchemeStats {
            context: value(&mut words, "ctx_idx")?,
            scheme: value(&mut words, "scheme_idx")?,
            nr_tried: value(&mut words, "nr_tried")?,
            sz_tried: value(&mut words, "sz_tried")?,
            nr_applied: value(&mut words, "nr_applied")?,
            sz_applied: value(&mut words, "sz_applied")?,
            sz_ops_filter_passed: value(&mut words, "sz_ops_filter_passed")?,
            qt_exceeds: value(&mut words, "qt_exceeds")?,
            nr_snapshots: value(&mut words, "nr_snapshots")?,
        }),
        EventKind::Tuned => Event::Tuned { sample_us: value(&mut words, "sample_us")? },
    })
}

/// The number of the next word, `key=N`.
fn value<'t, T: std::str::FromStr>(
    words: &mut impl Iterator<Item = &'t str>,
    key: &str,
) -> Option<T> {
    words.next()?.strip_prefix(key)?.strip_prefix('=')?.parse().ok()
}

/// `nr_regions=11 4194304-104890368: 0 1`.
fn region<'t>(words: &mut impl Iterator<Item = &'t str>, target: u64) -> Option<AggregatedRegion> {
    let nr_regions = value(words, "nr_regions")?;
    let (start, end) = words.next()?.strip_suffix(':')?.split_once('-')?;
    Some(AggregatedRegion {
        target,
        nr_regions,
        range: AddrRange::new(start.parse().ok()?, end.parse().ok()?),
        nr_accesses: words.next()?.parse().ok()?,
        age: words.next()?.parse().ok()?,
        probe_hits: None,
    })
}
