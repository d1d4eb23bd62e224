//! Policies played back over records of simulated programs, of which it is known when each page
//! is touched.

#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use isotherm_core::scheme::{Action, Age, Bounds, Frequency, Pattern};
use isotherm_core::{Attrs, Method, Scheme};
use isotherm_record::{Header, Mapping, Record, Target, Writer};
use isotherm_report::Filter;
use isotherm_report::price::Price;
use isotherm_report::replay::{Replayed, Report, What};
use isotherm_sim::config::Config;
use isotherm_sim::world::{Options, Simulation};

/// The record of a program whose pointer goes over `mib` MiB in `period_s`, for a minute, beside
/// 32 MiB that are never touched.
fn swept(mib: u32, period_s: f64) -> Record {
    let hz = 1.0 / period_s;
    let text = format!("s, {mib}M\nc, 32M\n\nall\n60000\ns, 0, 4096, 1, rw, hz={hz}\n");
    let config = Config::parse(&text).unwrap();
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let options = Options { seed: 3, ..Options::default() };
    let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let mut is_first = true;
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        let world = simulation.world();
        for p in world.processes().filter(|_| std::mem::take(&mut is_first)) {
            let target =
                Target { id: p.id.0, pid: p.pid, name: "swept".into(), ..Target::default() };
            writer.target(&target).unwrap();
            let mappings = world.mappings(p.id);
            let mappings: Vec<Mapping> =
                mappings.map(|(m, name)| Mapping::new(m.start, m.end, "rw-p", name)).collect();
            writer.mappings(snapshot.end, p.id, &mappings).unwrap();
        }
        writer.push_snapshot(snapshot).unwrap();
    }
    let (bytes, _) = writer.finish(simulation.world().now(), "over").unwrap();
    Record::from_bytes(bytes).unwrap()
}

/// Pages out after so long, without any limit.
fn cold(age_s: u32) -> What {
    let pattern = Pattern {
        nr_accesses: Frequency::Bp(Bounds::new(0, 0)),
        age: Age::Windows(Bounds::new(age_s * 10, u32::MAX)),
        ..Pattern::ALL
    };
    What {
        name: "cold".into(),
        scheme: Scheme { pattern, action: Action::Pageout, ..Scheme::default() },
        confirm_us: Some(u64::from(age_s.min(5)) * 1_000_000),
        refault_window_us: 10_000_000,
        min_touched_bp: 5_000,
        matches_mapping: Box::new(|_, _| false),
    }
}

fn of_schemes(record: &Record, schemes: &[What]) -> Report {
    let context = Replayed { name: "c", schemes };
    Report::build(record, &Filter::default(), &context, &|_| true, Price::assumed()).unwrap()
}

fn played_back(record: &Record, age_s: u32) -> Report {
    of_schemes(record, &[cold(age_s)])
}

/// A page of what is gone over is idle for no longer than a round. If a record does not tell that
/// a unit was made old again, or what a look found after that, 4 % seems idle for twice as long
/// here. So nothing of it is there to be taken after more than a round; and what is taken earlier
/// comes back within the round.
#[test]
fn what_is_gone_over_is_idle_for_no_longer_than_a_round() {
    let cold = |mib: f64| 32.0 / (32.0 + mib);
    for (mib, period_s, age_s, least, most) in [
        (96, 5.0, 10, 0.0, 0.03),
        (96, 5.0, 6, 0.0, 0.03),
        (96, 5.0, 2, 0.05, 0.6),
        (64, 12.0, 20, 0.0, 0.03),
        (64, 12.0, 5, 0.2, 0.6),
    ] {
        let report = played_back(&swept(mib, period_s), age_s);
        let swept = (report.saved_share_late - cold(f64::from(mib))) / (1.0 - cold(f64::from(mib)));
        let pages_per_s = f64::from(mib) * 256.0 / period_s;
        let back = report.pages_back_per_s / pages_per_s;
        let name = format!("{mib} MiB in {period_s} s, after {age_s} s: {swept:.3} out, {back:.2}");
        assert!(swept >= least - 0.01 && swept <= most, "{name}");
        assert!(if most < 0.1 { back < 0.05 } else { back > 0.2 && back < 1.1 }, "{name}");
    }
}

/// Schemes see nothing of what others have taken, so each does in company what it does alone.
#[test]
fn schemes_that_are_played_back_together_do_not_disturb_each_other() {
    let record = swept(96, 5.0);
    let ages = [1, 2, 4, 8];
    let schemes: Vec<What> = ages.into_iter().map(cold).collect();
    let together = of_schemes(&record, &schemes);
    for (scheme, age_s) in together.schemes.iter().zip(ages) {
        let alone = played_back(&record, age_s);
        assert_eq!(scheme, &alone.schemes[0], "{age_s} s");
        assert!((scheme.saved_share_late - alone.saved_share_late).abs() < 1e-9, "{age_s} s");
        assert!((scheme.pages_back_per_s - alone.pages_back_per_s).abs() < 1e-9, "{age_s} s");
    }
    let shares = together.schemes.iter().map(|scheme| scheme.saved_share_late);
    assert!(shares.is_sorted_by(|a, b| a > b), "{:?}", together.schemes);
}
