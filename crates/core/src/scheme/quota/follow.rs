//! Goals whose target follows the state of a node: the part of a target that is measured rather
//! than given by the user. Not in the kernel.
//!
//! A goal on a node's memory is given as a share of the node. Three things can make that share
//! impossible, or too little:
//!
//! * The kernel keeps the high watermark of the node free. Promotion cannot use it, and demotion
//!   must keep more than that free, or promotion never has room ([`Follow::watermark_bp`]).
//! * Pages that a CPU has just freed stay on its list for some seconds, and are not free yet
//!   ([`Follow::counts_coming`]).
//! * While another scheme's memory waits for room, the node is kept a little emptier than the goal
//!   says ([`Room`]), so that both schemes go on at the same pace.
//!
//! Everything is computed in bytes. Basis points are for what is shown: one of them is 100 MiB on a
//! node of 1 TiB.

use super::goal::Metric;

/// How full a node is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NodeLevel {
    /// Memory that is not in use.
    pub free: u64,
    /// All of the node's memory.
    pub total: u64,
    /// Memory that the kernel keeps free: the sum of the high watermarks of the node's zones.
    pub high: u64,
    /// Memory that CPUs will give back from their lists within some seconds. `free` does not
    /// include it.
    pub coming: u64,
}

/// What moves a goal's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Follow {
    /// The target keeps the node's high watermark free, and this many basis points of the node
    /// more. This is an upper bound for a goal on used memory and a lower bound for one on free
    /// memory. None: the watermark is ignored.
    pub watermark_bp: Option<u32>,
    /// Whether memory that CPUs will give back soon counts as free.
    pub counts_coming: bool,
    /// Keeps more room while another scheme waits for it.
    pub room: Option<Room>,
}

/// More room on a node while the memory of another scheme of the context waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Room {
    /// The scheme that waits, by its index in the context.
    pub scheme: usize,
    /// The target grows by the bytes that wait, but by no more than this many basis points of the
    /// node.
    pub most_bp: u32,
    /// If more than this waits, in basis points of the node, room is needed at once. Memory that
    /// CPUs give back later does not count as free then.
    pub urgent_bp: u32,
}

impl Follow {
    /// Whether there is anything to follow.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

/// The current value and the target of a goal on a node's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stand {
    /// The current value of what the goal measures.
    pub current: u64,
    /// The target now.
    pub target: u64,
    /// All of the node's memory.
    pub total: u64,
    /// Whether the watermark moved the target.
    pub by_watermark: bool,
}

impl Stand {
    /// Computes value and target of a goal on `metric`. `waiting` is the number of bytes that wait
    /// for room. None if the metric is not about a node's memory, or the node has no memory.
    #[must_use]
    pub fn of(
        metric: Metric,
        target_bp: u64,
        follow: Follow,
        level: NodeLevel,
        waiting: u64,
    ) -> Option<Self> {
        let total = level.total;
        if total == 0 {
            return None;
        }
        let kept = follow.watermark_bp.map(|more| level.high.saturating_add(bp(total, more)));
        let asked = part(total, target_bp);
        let (current, target, by_watermark) = match metric {
            Metric::NodeMemUsedBp(_) => {
                let most = total.saturating_sub(kept.unwrap_or(0));
                (total.saturating_sub(level.free), asked.min(most), most < asked)
            }
            Metric::NodeMemFreeBp(_) => {
                let (least, room) = (kept.unwrap_or(0), follow.room);
                let is_urgent = room.is_some_and(|room| waiting > bp(total, room.urgent_bp));
                let coming = if follow.counts_coming && !is_urgent { level.coming } else { 0 };
                let more = room.map_or(0, |room| waiting.min(bp(total, room.most_bp)));
                let target = asked.max(least).saturating_add(more).min(total);
                (level.free.saturating_add(coming).min(total), target, least > asked)
            }
            _ => return None,
        };
        Some(Self { current, target, total, by_watermark })
    }

    /// Bytes that are missing.
    #[must_use]
    pub const fn lack(&self) -> u64 {
        self.target.saturating_sub(self.current)
    }

    /// Converts bytes to basis points of the node, rounded to the nearest. A share that the user
    /// gave is shown as the same number.
    #[must_use]
    pub fn in_bp(&self, bytes: u64) -> u64 {
        let (bytes, total) = (u128::from(bytes), u128::from(self.total.max(1)));
        u64::try_from((bytes * 10_000 + total / 2) / total).unwrap_or(u64::MAX)
    }
}

/// The bytes of `bp` basis points of `total`.
fn bp(total: u64, bp: u32) -> u64 {
    part(total, u64::from(bp))
}

/// As [`bp`], for a number that a user gave and that may be larger.
fn part(total: u64, bp: u64) -> u64 {
    let part = u128::from(total) * u128::from(bp) / 10_000;
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const USED: Metric = Metric::NodeMemUsedBp(0);
    const FREE: Metric = Metric::NodeMemFreeBp(0);

    fn level(free: u64, high: u64, coming: u64) -> NodeLevel {
        let total = 10_000 * MIB;
        NodeLevel { free: free * MIB, total, high: high * MIB, coming: coming * MIB }
    }

    #[test]
    fn targets_follow_the_high_watermark() {
        // 0.3 % and 0.5 %, unless the watermark is higher than what promotion would leave.
        let follow = |more| Follow { watermark_bp: Some(more), ..Follow::default() };
        for (high, used, free, by) in [
            (0, 9970, 50, false),
            (20, 9970, 50, false),
            (30, 9970, 50, false),
            (40, 9960, 60, true),
            (700, 9300, 720, true),
        ] {
            let up = Stand::of(USED, 9970, follow(0), level(100, high, 0), 0).unwrap();
            let down = Stand::of(FREE, 50, follow(20), level(100, high, 0), 0).unwrap();
            assert_eq!((up.target / MIB, down.target / MIB), (used, free), "{high} MiB");
            assert_eq!((up.by_watermark, down.by_watermark), (by, by), "{high} MiB");
            assert_eq!(up.in_bp(up.target), used, "{high} MiB");
        }
        // A goal that does not follow stays where it is.
        let still = Stand::of(USED, 9970, Follow::default(), level(100, 700, 0), 0).unwrap();
        assert_eq!((still.target / MIB, still.by_watermark), (9970, false));
    }

    #[test]
    fn room_is_kept_for_what_waits_and_lists_count_when_that_is_little() {
        let room = Room { scheme: 0, most_bp: 25, urgent_bp: 100 };
        let follow = Follow { watermark_bp: Some(20), counts_coming: true, room: Some(room) };
        for (waiting, target, current) in
            [(0, 50, 45), (10, 60, 45), (25, 75, 45), (100, 75, 45), (101, 75, 40)]
        {
            let stand = Stand::of(FREE, 50, follow, level(40, 10, 5), waiting * MIB).unwrap();
            let found = (stand.target / MIB, stand.current / MIB);
            assert_eq!(found, (target, current), "{waiting} MiB wait");
            assert_eq!(stand.lack() / MIB, target - current, "{waiting} MiB wait");
        }
    }

    #[test]
    fn what_is_no_node_has_no_level() {
        assert_eq!(Stand::of(Metric::ActiveMemBp, 50, Follow::default(), level(1, 1, 1), 0), None);
        assert_eq!(Stand::of(FREE, 50, Follow::default(), NodeLevel::default(), 0), None);
    }
}
