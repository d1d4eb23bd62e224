//! Counters of what a scheme did (R§4.10), in one type for all who count.
//!
//! The core counts its decisions, the applier counts their results, and the kernel's DAMON has
//! counters of its own. Each field is filled by one of them, so adding the three up counts nothing
//! twice.

use alloc::collections::BTreeMap;

/// Counters of a scheme, over its whole life.
///
/// `nr_`, `sz_` and `qt_` fields are those of `struct damos_stat` (Linux 7.2). The others are not
/// in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Counters {
    /// Regions on which the action was tried.
    pub nr_tried: u64,
    /// Bytes of these regions.
    pub sz_tried: u64,
    /// Regions of which some part was acted on.
    pub nr_applied: u64,
    /// Bytes acted on.
    pub sz_applied: u64,
    /// Bytes that the ops filters let in.
    pub sz_ops_filter_passed: u64,
    /// Windows in which the quota was used up.
    pub qt_exceeds: u64,
    /// Passes over all regions. With `strict`, passes over the regions of one target.
    pub nr_snapshots: u64,
    /// How often a region matched and nothing was done yet, for lack of evidence.
    pub nr_deferred: u64,
    /// The most bytes charged in one quota window.
    pub max_window_sz: u64,
    /// The most time used in one quota window, in ns.
    pub max_window_ns: u64,
    /// Bytes that the kernel was asked to act on. In a dry run: bytes that it would have been asked
    /// for.
    pub asked_bytes: u64,
    /// Bytes for which a look afterwards showed that the kernel had acted. In a dry run: the same
    /// as `asked_bytes`.
    pub done_bytes: u64,
    /// Bytes of `done_bytes` that were not acted on, since it was a dry run.
    pub pretended_bytes: u64,
    /// Bytes of `done_bytes` that were touched again within the refault window.
    pub refaulted_bytes: u64,
    /// Bytes that the kernel refused, because they were locked, shared or not there.
    pub refused_bytes: u64,
    /// `refused_bytes` by the kernel's answer (errno). The sum can be less, because only some
    /// answers are kept per call.
    pub refused: BTreeMap<i32, u64>,
    /// Bytes that stayed untouched for the confirm time.
    pub confirmed_bytes: u64,
    /// Bytes that were made old and then touched before the confirm time was over.
    pub refuted_bytes: u64,
    /// Bytes that were confirmed idle and that the scheme's filters refused.
    pub filtered_bytes: u64,
    /// Bytes of physical memory that could not be reached through a process that maps them alone.
    pub unreached_bytes: u64,
    /// `unreached_bytes` by reason: `unmapped` (page cache that no process maps; its evidence is
    /// not gathered), `shared` (several do), `own` (Isotherm's), `gone` (moved or given back since
    /// it was looked at).
    pub unreached: BTreeMap<&'static str, u64>,
    /// Bytes that were moved back to the node they had left within the last minute. Only for
    /// schemes with a source node.
    pub ping_pong_bytes: u64,
    /// Bytes made old to gather evidence.
    pub armed_bytes: u64,
    /// Bytes that the monitor had made old, and that were taken over as evidence.
    pub adopted_bytes: u64,
    /// Bytes that were waited for, to see whether they stay untouched: those that were armed or
    /// taken over, and those that were old already. `confirmed_bytes` and `refuted_bytes` are a
    /// part of them.
    pub waited_bytes: u64,
    /// Huge pages only: bytes of the units of 2 MiB that were looked at, each counted once.
    pub looked_bytes: u64,
    /// Those of them of which enough pages were touched, at the best look.
    pub dense_bytes: u64,
    /// Those of them that one huge page mapped already.
    pub huge_bytes: u64,
    /// The largest share of a unit's pages that was seen touched, in basis points.
    pub most_touched_bp: u64,
    /// Time spent on acting and on gathering evidence, in ns.
    pub action_ns: u64,
    /// CPU time of `action_ns`, in ns, without that of the looks at pages.
    pub action_cpu_ns: u64,
}

impl Counters {
    /// Adds what was counted elsewhere or before. The larger one of the largest windows and shares
    /// stays.
    pub fn add(&mut self, more: &Self) {
        self.combine(more, u64::saturating_add);
        self.max_window_sz = self.max_window_sz.max(more.max_window_sz);
        self.max_window_ns = self.max_window_ns.max(more.max_window_ns);
        self.most_touched_bp = self.most_touched_bp.max(more.most_touched_bp);
    }

    /// Subtracts what was counted before. The largest windows and shares stay, because it is not
    /// known which scheme they belong to.
    pub fn subtract(&mut self, less: &Self) {
        self.combine(less, u64::saturating_sub);
        self.refused.retain(|_, bytes| *bytes > 0);
        self.unreached.retain(|_, bytes| *bytes > 0);
    }

    /// Combines all that adds up. The pattern is exhaustive, so that a new field cannot be
    /// forgotten.
    fn combine(&mut self, other: &Self, f: fn(u64, u64) -> u64) {
        let Self {
            nr_tried,
            sz_tried,
            nr_applied,
            sz_applied,
            sz_ops_filter_passed,
            qt_exceeds,
            nr_snapshots,
            nr_deferred,
            max_window_sz: _,
            max_window_ns: _,
            asked_bytes,
            done_bytes,
            pretended_bytes,
            refaulted_bytes,
            refused_bytes,
            refused,
            confirmed_bytes,
            refuted_bytes,
            filtered_bytes,
            unreached_bytes,
            unreached,
            ping_pong_bytes,
            armed_bytes,
            adopted_bytes,
            waited_bytes,
            looked_bytes,
            dense_bytes,
            huge_bytes,
            most_touched_bp: _,
            action_ns,
            action_cpu_ns,
        } = self;
        for (own, other) in [
            (nr_tried, other.nr_tried),
            (sz_tried, other.sz_tried),
            (nr_applied, other.nr_applied),
            (sz_applied, other.sz_applied),
            (sz_ops_filter_passed, other.sz_ops_filter_passed),
            (qt_exceeds, other.qt_exceeds),
            (nr_snapshots, other.nr_snapshots),
            (nr_deferred, other.nr_deferred),
            (asked_bytes, other.asked_bytes),
            (done_bytes, other.done_bytes),
            (pretended_bytes, other.pretended_bytes),
            (refaulted_bytes, other.refaulted_bytes),
            (refused_bytes, other.refused_bytes),
            (confirmed_bytes, other.confirmed_bytes),
            (refuted_bytes, other.refuted_bytes),
            (filtered_bytes, other.filtered_bytes),
            (unreached_bytes, other.unreached_bytes),
            (ping_pong_bytes, other.ping_pong_bytes),
            (armed_bytes, other.armed_bytes),
            (adopted_bytes, other.adopted_bytes),
            (waited_bytes, other.waited_bytes),
            (looked_bytes, other.looked_bytes),
            (dense_bytes, other.dense_bytes),
            (huge_bytes, other.huge_bytes),
            (action_ns, other.action_ns),
            (action_cpu_ns, other.action_cpu_ns),
        ] {
            *own = f(*own, other);
        }
        combine_each(refused, &other.refused, f);
        combine_each(unreached, &other.unreached, f);
    }
}

/// Combines the numbers of each key.
fn combine_each<K: Ord + Copy>(
    own: &mut BTreeMap<K, u64>,
    other: &BTreeMap<K, u64>,
    f: fn(u64, u64) -> u64,
) {
    for (key, bytes) in other {
        let own = own.entry(*key).or_default();
        *own = f(*own, *bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_can_be_taken_away() {
        let one = Counters {
            sz_tried: 5,
            done_bytes: 3,
            refused: BTreeMap::from([(12, 4)]),
            unreached: BTreeMap::from([("shared", 1)]),
            max_window_sz: 7,
            ..Counters::default()
        };
        let other = Counters {
            sz_tried: 2,
            refused: BTreeMap::from([(12, 1), (16, 9)]),
            max_window_sz: 6,
            ..Counters::default()
        };
        let mut sum = one.clone();
        sum.add(&other);
        assert_eq!((sum.sz_tried, sum.done_bytes, sum.max_window_sz), (7, 3, 7));
        assert_eq!(sum.refused, BTreeMap::from([(12, 5), (16, 9)]));
        sum.subtract(&other);
        assert_eq!(sum, one);
        sum.subtract(&Counters { sz_tried: 100, ..Counters::default() });
        assert_eq!(sum.sz_tried, 0, "it never wraps around");
    }
}
