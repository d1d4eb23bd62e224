//! How much of each region a scheme can act on: the bytes on the node that the scheme takes from.
//!
//! A quota lets regions in by their score, from the best down, until their bytes fill it. For a
//! scheme that takes from one node, only the bytes on that node count. Otherwise hot memory that is
//! on the fast node already would fill the quota of promotion. Memory on the slow node that is a
//! little less hot would then never have its turn.
//!
//! Invariant: after the driver was asked, regions may be cut but not joined.

use alloc::vec::Vec;

use super::Schemes;
use crate::attrs::Attrs;
use crate::region::Region;
use crate::scheme::Eligible;
use crate::scheme::installed::Installed;
use crate::target::{Target, TargetId};

/// Bytes on the scheme's node, region by region, in the order of targets and addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EligibleBytes(Vec<(TargetId, u64, u64)>);

impl EligibleBytes {
    /// The sum.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, (.., bytes)| sum.saturating_add(*bytes))
    }

    /// Whether the region at `addr` has bytes on the node. The region may have been cut off another
    /// one since the driver was asked; then the answer for the whole region counts.
    fn has_some(&self, target: TargetId, addr: u64) -> bool {
        let behind = self.0.partition_point(|(id, start, _)| (*id, *start) <= (target, addr));
        let at = behind.checked_sub(1).and_then(|at| self.0.get(at));
        at.is_some_and(|(id, _, bytes)| *id == target && *bytes > 0)
    }
}

impl Installed {
    /// Bytes of a region that count when regions are let in for the quota.
    pub(crate) fn countable(&self, target: TargetId, region: &Region) -> u64 {
        if self.scheme.source_nid.is_none() {
            return region.len();
        }
        let at =
            self.eligible.0.binary_search_by_key(&(target, region.range.start), |e| (e.0, e.1));
        let entry = at.ok().and_then(|at| self.eligible.0.get(at));
        entry.map_or(0, |(.., bytes)| *bytes)
    }

    /// Whether no byte of the region at `addr` is on the node that the scheme takes from.
    pub(crate) fn is_elsewhere(&self, target: TargetId, addr: u64) -> bool {
        self.scheme.source_nid.is_some() && !self.eligible.has_some(target, addr)
    }
}

impl Schemes {
    /// Fills `out` with a question for each region that matches a due scheme with a source node.
    pub(crate) fn ask_eligible(&self, targets: &[Target], attrs: &Attrs, out: &mut Vec<Eligible>) {
        out.clear();
        for (nr, scheme) in self.installed.iter().enumerate() {
            let Some(nid) = scheme.scheme.source_nid else { continue };
            if !scheme.due || !scheme.active {
                continue;
            }
            for target in targets {
                let all = target.regions.iter().filter(|r| scheme.matches(r, attrs.strict));
                out.extend(all.map(|r| Eligible {
                    scheme: nr,
                    target: target.id,
                    range: r.range,
                    nid,
                    bytes: r.len(),
                }));
            }
        }
    }

    /// Bytes of another scheme that wait for the room that this goal keeps free
    /// ([`Room`](crate::scheme::Room)).
    pub(crate) fn waiting_for(&self, scheme: usize, goal: usize) -> u64 {
        let goal = self.installed.get(scheme).and_then(|s| s.scheme.quota.goals.get(goal));
        let waits = goal.and_then(|goal| goal.follow.room).map(|room| room.scheme);
        waits.and_then(|nr| self.installed.get(nr)).map_or(0, Installed::eligible_bytes)
    }

    /// Takes in the answers to [`Schemes::ask_eligible`].
    pub(crate) fn take_eligible(&mut self, answers: &[Eligible]) {
        for scheme in self.installed.iter_mut().filter(|s| s.due && s.active) {
            scheme.eligible.0.clear();
        }
        for answer in answers {
            if let Some(scheme) = self.installed.get_mut(answer.scheme) {
                let bytes = answer.bytes.min(answer.range.len());
                scheme.eligible.0.push((answer.target, answer.range.start, bytes));
            }
        }
        for scheme in &mut self.installed {
            // The answers come in the order in which targets were added, which may differ from that
            // of their ids.
            scheme.eligible.0.sort_unstable();
        }
    }
}
