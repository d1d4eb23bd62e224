//! V-TUNE's trajectory, by a real context.

use isotherm_core::Attrs;
use isotherm_core::attrs::IntervalsGoal;

use crate::run::Run;

/// 5 ms / 100 ms, tuned every third window between 5 ms and 100 ms.
fn attrs(strict: bool) -> Attrs {
    let intervals_goal =
        IntervalsGoal { access_bp: 400, aggrs: 3, min_sample_us: 5000, max_sample_us: 100_000 };
    Attrs { strict, intervals_goal, ..Attrs::reference() }
}

/// Without accesses the intervals double until the bound, each time after three windows.
#[test]
fn v_tune_trajectory() {
    for strict in [true, false] {
        let mut run = Run::new(attrs(strict), &[(0, 1 << 20)], (0, 0));
        let mut seen = Vec::new();
        let mut last = 0;
        while run.ctx.schedule().passed < 400 {
            run.tick();
            let (attrs, schedule) = (run.ctx.attrs(), run.ctx.schedule());
            assert_eq!(attrs.aggr_us, 20 * attrs.sample_us);
            assert_eq!(schedule.next_tune, (schedule.passed / 60 + 1) * 60);
            if attrs.sample_us != last {
                last = attrs.sample_us;
                let sis = if seen.is_empty() { 0 } else { schedule.passed };
                seen.push((sis, last));
            }
        }
        let golden =
            [(0, 5000), (60, 10_000), (120, 20_000), (180, 40_000), (240, 80_000), (300, 100_000)];
        assert_eq!(seen, golden, "strict: {strict}");
        // A window is as long as the attributes say, also across a tuning.
        for snapshot in &run.snapshots {
            assert_eq!(snapshot.end - snapshot.start, snapshot.aggr_us * 1000);
        }
    }
}
