//! `cgroups`: a row per cgroup and interval.

use isotherm_agent::groups::Group;
use isotherm_core::TouchedBytes;

use crate::cells::{Null, UnixNs, rows};

rows! {
    /// A cgroup in an interval.
    CgroupRow {
        time: UnixNs,
        session: String,
        cgroup: String,
        class: Null<String>,
        service: Null<String>,
        namespace: Null<String>,
        pod: Null<String>,
        container: Null<String>,
        interval_ns: u64,
        age_ns: Null<u64>,
        coverage: Null<f32>,
        current: Null<u64>,
        anon: Null<u64>,
        file: Null<u64>,
        swap: Null<u64>,
        shared: Null<u64>,
        request: Null<u64>,
        limit: Null<u64>,
        low: Null<u64>,
        min: Null<u64>,
        watched: u64,
        ws_100ms: Null<u64>,
        ws_1s: Null<u64>,
        ws_10s: Null<u64>,
        ws_1m: Null<u64>,
        idle_1m: Null<u64>,
        idle_5m: Null<u64>,
        idle_30m: Null<u64>,
        idle_1m_lo: Null<u64>,
        idle_1m_hi: Null<u64>,
        idle_5m_lo: Null<u64>,
        idle_5m_hi: Null<u64>,
        idle_30m_lo: Null<u64>,
        idle_30m_hi: Null<u64>,
        returns_1m: Null<u64>,
        returns_5m: Null<u64>,
        returns_30m: Null<u64>,
        refaults: Null<u64>,
        pswpin: Null<u64>,
        pswpout: Null<u64>,
        psi_some_us: Null<u64>,
        psi_full_us: Null<u64>,
        oom: Null<u64>,
        paged_out: Null<u64>,
        policy: Null<String>,
        policy_hash: Null<String>,
    }
}

/// The idle times of the columns, in ns.
const IDLE_NS: [u64; 3] = [60_000_000_000, 300_000_000_000, 1_800_000_000_000];

impl CgroupRow {
    /// Takes in what a context sees of the cgroup. `spans_us`: its spans. `returned`: what came
    /// back within the interval of `interval_ns`, by idle time.
    pub(crate) fn see(
        &mut self,
        group: &Group,
        spans_us: &[u64],
        returned: [u64; 3],
        interval_ns: u64,
    ) {
        let tiers = group.tiers;
        self.watched = [tiers.hot, tiers.warm, tiers.cold, tiers.unresolved].iter().sum();
        let Some(touched) = group.touched else { return };
        self.age_ns = Some(group.look_age_ns).into();
        let span = |us: u64| -> Option<TouchedBytes> {
            let nr = spans_us.iter().position(|span| *span == us)?;
            touched.spans.get(nr).copied().flatten()
        };
        let bytes = |us: u64| span(us).map(|within| within.bytes).into();
        self.ws_100ms = bytes(100_000);
        self.ws_1s = bytes(1_000_000);
        self.ws_10s = bytes(10_000_000);
        self.ws_1m = bytes(60_000_000);
        let Some(ages) = group.ages else { return };
        let nr = usize::from(interval_ns > IDLE_NS[0]) + usize::from(interval_ns > IDLE_NS[1]);
        self.coverage = share(ages.looked[nr], ages.known).into();
        // Of a minute the spans tell, with what they do not know; of more time only looks do.
        let minute = span(60_000_000);
        let idle = minute.map(|within| {
            [within.hi, within.bytes, within.lo].map(|touched| self.watched.saturating_sub(touched))
        });
        if let Some([lo, bytes, hi]) = idle {
            (self.idle_1m_lo, self.idle_1m) = (Some(lo).into(), Some(bytes).into());
            self.idle_1m_hi = Some(hi).into();
        }
        let most = idle.map_or(self.watched, |[_, _, hi]| hi);
        let long = |nr: usize| (group.watched_ns >= IDLE_NS[nr]).then_some(nr);
        let likely = |nr| long(nr).map(|nr| ages.likely[nr].min(most)).into();
        let proven = |nr| long(nr).map(|nr| ages.proven[nr].min(most)).into();
        (self.idle_5m, self.idle_30m) = (likely(1), likely(2));
        (self.idle_5m_lo, self.idle_30m_lo) = (proven(1), proven(2));
        (self.idle_5m_hi, self.idle_30m_hi) =
            (long(1).map(|_| most).into(), long(2).map(|_| most).into());
        // Before that, nothing could have come back.
        let known = |nr: usize| {
            let before = group.watched_ns.saturating_sub(interval_ns);
            (before >= IDLE_NS[nr]).then_some(returned[nr]).into()
        };
        (self.returns_1m, self.returns_5m, self.returns_30m) = (known(0), known(1), known(2));
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "it is a ratio")]
fn share(part: u64, whole: u64) -> Option<f32> {
    (whole > 0).then(|| (part as f64 / whole as f64) as f32)
}

#[cfg(test)]
mod tests {
    use isotherm_agent::groups::{Ages, Tiers};
    use isotherm_core::{SPANS, Touched};

    use super::*;

    const SPANS_US: [u64; SPANS] = [5_000, 100_000, 1_000_000, 10_000_000, 60_000_000];
    const MIN: u64 = 60_000_000_000;

    fn group(watched_ns: u64) -> Group {
        let touched =
            |bytes| Some(TouchedBytes { bytes, lo: bytes - 1, hi: bytes + 2, measured: 90 });
        let spans = [touched(5), touched(10), touched(20), touched(30), touched(40)];
        let known = 100;
        let (proven, likely, looked) = ([50, 40, 30], [59, 55, 70], [20, 50, 100]);
        let returned = [0; 3];
        Group {
            tiers: Tiers { hot: 20, warm: 20, cold: 50, unresolved: 10 },
            touched: Some(Touched { spans, watched: 100 }),
            ages: Some(Ages { proven, likely, returned, looked, known }),
            watched_ns,
            ..Group::default()
        }
    }

    fn row(watched_ns: u64, interval_ns: u64) -> CgroupRow {
        let mut row = CgroupRow::default();
        row.see(&group(watched_ns), &SPANS_US, [3, 2, 1], interval_ns);
        row
    }

    #[test]
    fn idle_memory_has_bounds_in_order() {
        let row = row(40 * MIN, 5 * MIN);
        assert_eq!((row.watched, row.ws_100ms.0, row.ws_1m.0), (100, Some(10), Some(40)));
        let minute = [&row.idle_1m_lo, &row.idle_1m, &row.idle_1m_hi].map(|cell| cell.0);
        assert_eq!(minute, [Some(58), Some(60), Some(61)]);
        let five = [&row.idle_5m_lo, &row.idle_5m, &row.idle_5m_hi].map(|cell| cell.0);
        assert_eq!(five, [Some(40), Some(55), Some(61)]);
        let thirty = [&row.idle_30m_lo, &row.idle_30m, &row.idle_30m_hi].map(|cell| cell.0);
        assert_eq!(thirty, [Some(30), Some(61), Some(61)], "no more than idle for a minute");
        assert_eq!(row.coverage.0, Some(0.5));
        let returns = [&row.returns_1m, &row.returns_5m, &row.returns_30m].map(|cell| cell.0);
        assert_eq!(returns, [Some(3), Some(2), Some(1)]);
    }

    #[test]
    fn what_cannot_be_known_yet_is_null() {
        for (watched_min, interval_min, idle, returns) in [
            (0, 5, [false; 2], [false; 3]),
            (5, 5, [true, false], [false; 3]),
            (7, 5, [true, false], [true, false, false]),
            (11, 5, [true, false], [true, true, false]),
            (31, 1, [true, true], [true, true, true]),
        ] {
            let row = row(watched_min * MIN, interval_min * MIN);
            let there = [&row.idle_5m, &row.idle_30m].map(|cell| cell.0.is_some());
            assert_eq!(there, idle, "{watched_min}");
            let there =
                [&row.returns_1m, &row.returns_5m, &row.returns_30m].map(|cell| cell.0.is_some());
            assert_eq!(there, returns, "{watched_min}");
        }
        let mut by_regions = CgroupRow::default();
        let group = Group { touched: None, ages: None, ..group(MIN) };
        by_regions.see(&group, &SPANS_US, [0; 3], MIN);
        assert_eq!(by_regions, CgroupRow { watched: 100, ..CgroupRow::default() });
    }
}
