//! Moving pages to another node.

use isotherm_core::AddrRange;
use isotherm_core::addr::PAGE_SIZE;
use isotherm_host::nodes::Nodes;
use isotherm_host::proc::{Proc, parse_maps};

use crate::apply::target::{Chosen, Did, TargetState};
use crate::apply::{Actor, Job, until};
use crate::{MIGRATE_BATCH as BATCH, Migrated, WeightedNodes, interleave_index};

impl Actor {
    /// Moves the chosen pages to the scheme's node, or among its destinations by weight. Pages that
    /// are there already are neither asked for nor charged.
    pub(in crate::apply) fn migrate(
        &mut self,
        state: &TargetState,
        job: Job<'_>,
        chosen: &Chosen,
    ) -> Did {
        let scheme = job.request.scheme;
        let to: Vec<_> = if job.scheme.dests.is_empty() {
            job.scheme.target_nid.map(|nid| (nid, 1)).into_iter().collect()
        } else {
            job.scheme.dests.iter().map(|dest| (dest.nid, dest.weight)).collect()
        };
        let dests = WeightedNodes::new(&to);
        let mut stop = until(job);
        let mut did = Did::default();
        let nodes = match Nodes::read() {
            Ok(nodes) => nodes,
            Err(error) => {
                self.trouble(scheme, 0, &error.to_string());
                return did;
            }
        };
        let mut text = Vec::new();
        let single = to.len() < 2;
        // Only weights need to know a page's place in its mapping.
        if !single && Proc::default().read(state.process.pid(), "maps", &mut text).is_err() {
            return did;
        }
        let maps: Vec<_> = parse_maps(&text).collect();
        let mut node_of = |addr: u64| {
            if single {
                return to.first().map(|(nid, _)| *nid);
            }
            let at = maps.partition_point(|m| m.range.end <= addr);
            dests.node_of(interleave_index(maps.get(at)?, addr, 0))
        };
        for batch in batches(&chosen.ranges) {
            let first = batch.first().map_or(0, |range| range.start);
            if stop() {
                did.outcome.stopped = true;
                did.stopped_at = Some(first);
                break;
            }
            match state.process.migrate(&nodes, &batch, &mut node_of, false, &mut || false) {
                Ok(moved) => add(&mut did, moved),
                Err(error) => {
                    self.trouble(scheme, state.process.pid(), &error.to_string());
                    break;
                }
            }
            if did.outcome.is_cut_short() {
                did.stopped_at = Some(first);
                break;
            }
        }
        self.note_outcome(job, state, &did.outcome);
        did
    }
}

/// The ranges, cut and grouped so that a batch is one call. Memory with scattered pages in use
/// consists of many short ranges, and the cost of a call hardly depends on the number of its pages.
fn batches(ranges: &[AddrRange]) -> Vec<Vec<AddrRange>> {
    const MOST: u64 = BATCH as u64 * PAGE_SIZE;
    let (mut all, mut last, mut bytes) = (Vec::new(), Vec::new(), 0);
    for range in ranges {
        let mut rest = *range;
        while !rest.is_empty() {
            let part = AddrRange::new(rest.start, rest.end.min(rest.start + (MOST - bytes)));
            bytes += part.len();
            last.push(part);
            rest.start = part.end;
            if bytes >= MOST {
                all.push(std::mem::take(&mut last));
                bytes = 0;
            }
        }
    }
    if !last.is_empty() {
        all.push(last);
    }
    all
}

fn add(did: &mut Did, moved: Migrated) {
    let (sum, new) = (&mut did.outcome, moved.outcome);
    sum.asked_bytes += new.asked_bytes;
    sum.accepted_bytes += new.accepted_bytes;
    sum.refused_bytes += new.refused_bytes;
    sum.elapsed_ns += new.elapsed_ns;
    sum.cpu_ns += new.cpu_ns;
    sum.gone |= new.gone;
    sum.denied |= new.denied;
    sum.refused.extend(new.refused);
    did.no_room += moved.refused_pages.get(&libc::ENOMEM).map_or(0, |pages| pages * PAGE_SIZE);
    did.moved.extend(moved.moved);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ranges_share_a_call_and_long_ones_are_cut() {
        let pages = |from: u64, to: u64| AddrRange::new(from << 12, to << 12);
        let batch = BATCH as u64;
        let holes: Vec<_> = (0..100).map(|i| pages(i * 10, i * 10 + 9)).collect();
        for (name, ranges, sizes) in [
            ("none", vec![], vec![]),
            ("a hundred short ones", holes, vec![900]),
            ("just one batch", vec![pages(0, batch)], vec![batch]),
            ("cut within a range", vec![pages(0, 10), pages(20, 20 + batch)], vec![batch, 10]),
            ("many from one", vec![pages(5, 6 + 3 * batch)], vec![batch, batch, batch, 1]),
        ] {
            let all = batches(&ranges);
            let sum = |b: &Vec<AddrRange>| b.iter().map(|r| r.len() >> 12).sum::<u64>();
            assert_eq!(all.iter().map(sum).collect::<Vec<_>>(), sizes, "{name}");
            let mut flat: Vec<AddrRange> = all.into_iter().flatten().collect();
            flat.dedup_by(|next, last| {
                let joins = last.end == next.start;
                if joins {
                    last.end = next.end;
                }
                joins
            });
            assert_eq!(flat, ranges, "{name}: all of it, in order");
        }
    }
}
