//! Moving pages to another node.

use isotherm_core::AddrRange;

use super::held::{Chosen, Did, Held};
use super::pages::GRANULE;
use super::{Actor, Job, until};
use crate::act::{Migrated, Nodes, WeightedNodes, interleave_index};
use crate::proc::{Proc, parse_maps};

impl Actor {
    /// Moves the chosen pages to the scheme's node, or among its destinations by weight. Pages that are there
    /// already are neither asked for nor charged.
    pub(super) fn migrate(&mut self, held: &Held, job: Job<'_>, chosen: &Chosen) -> Did {
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
        if !single && Proc::default().read(held.process.pid(), "maps", &mut text).is_err() {
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
        for piece in pieces(&chosen.ranges) {
            if stop() {
                did.outcome.stopped = true;
                did.stopped_at = Some(piece.start);
                break;
            }
            match held.process.migrate(&nodes, &[piece], &mut node_of, false, &mut || false) {
                Ok(moved) => add(&mut did, moved),
                Err(error) => {
                    self.trouble(scheme, held.process.pid(), &error.to_string());
                    break;
                }
            }
            if did.outcome.is_cut_short() {
                did.stopped_at = Some(piece.start);
                break;
            }
        }
        self.note_outcome(job, held, &did.outcome);
        did
    }
}

/// The ranges, cut so that each piece is moved in a few milliseconds.
fn pieces(ranges: &[AddrRange]) -> impl Iterator<Item = AddrRange> {
    ranges.iter().flat_map(|range| {
        super::pages::granules(*range).map(|(_, piece)| {
            debug_assert!(piece.len() <= GRANULE, "{piece:?}");
            piece
        })
    })
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
    did.moved.extend(moved.moved);
}
