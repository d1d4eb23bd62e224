//! K13 to K20, K23 and K25: the kernel's unit tests of its schemes (§8.1).

use isotherm_core::scheme::{
    Action, Age, Bounds, CgroupId, Destination, FailCharge, Filter, FilterKind, Filters, Frequency,
    Goal, Metric, Pattern, Quota, Scheme, Tuner, Verdict, WatermarkMetric, Watermarks, Weights,
};
use isotherm_core::{AddrRange, Attrs, Context, TargetId, Time, Wish};

use crate::schemes::acting::match_all;

/// The schemes of a context with `dst` after a commit of `src` while it runs.
fn committed(dst: &Scheme, src: &Scheme) -> Scheme {
    let mut ctx = Context::new(Attrs::reference(), 0).unwrap();
    ctx.add_target(TargetId(0));
    ctx.commit_schemes([dst.clone()]);
    assert_eq!(ctx.poll(Time(0)), Wish::Update);
    ctx.set_ranges(TargetId(0), &[AddrRange::new(0, 1 << 20)]).unwrap();
    let mut now = Time(0);
    while ctx.schedule().passed < 2 {
        if ctx.schedule().passed == 1 {
            ctx.commit_schemes([src.clone()]);
        }
        match ctx.poll(now) {
            Wish::Sleep(until) => now = until,
            Wish::Measure => ctx.measures_mut().iter_mut().for_each(|m| m.value = Some(1000)),
            _ => {}
        }
    }
    // The commit is taken in at the end of the turn.
    while !matches!(ctx.poll(now), Wish::Sleep(_)) {
        ctx.measures_mut().iter_mut().for_each(|m| m.value = Some(1000));
    }
    ctx.schemes()[0].scheme().clone()
}

#[test]
fn k13_new_filter() {
    let filter = Filter { kind: FilterKind::Anon, matching: true, allow: false };
    let mut filters = Filters::default();
    filters.push(filter);
    assert_eq!((filters.ops.as_slice(), filters.core.as_slice()), (&[filter][..], &[][..]));
    assert_eq!((filter.decide(true), filter.decide(false)), (Some(false), None));
}

#[test]
fn k14_goal_commit() {
    let psi = |target| Goal::new(Metric::SomeMemPsiUs, target);
    let mut dst = Goal { current: 123, last_total: Some(456), ..psi(1000) };
    let sources = [
        Goal { current: 12, ..Goal::new(Metric::UserInput, 789) },
        Goal::new(Metric::NodeMemFreeBp(9), 345),
        Goal::new(Metric::NodeMemUsedBp(6), 12),
        Goal::new(Metric::NodeMemcgUsedBp(6, CgroupId(7)), 456),
        Goal::new(Metric::NodeMemcgFreeBp(10, CgroupId(1)), 890),
        psi(234),
    ];
    let mut same = dst;
    same.commit(&Goal { current: 5, ..psi(234) }, true);
    assert_eq!((same.current, same.last_total), (123, Some(456)), "one PSI total for another");
    for src in sources {
        let current = dst.current;
        dst.commit(&src, true);
        assert_eq!((dst.metric, dst.target), (src.metric, src.target));
        let expected = if src.metric == Metric::UserInput { 12 } else { current };
        assert_eq!(dst.current, expected, "{:?}", src.metric);
    }
    assert_eq!(dst.last_total, None, "a node's number took its place");
}

#[test]
fn k15_goals_commit() {
    let goals = |targets: &[u64]| {
        let goal = |t: &u64| Goal::new(Metric::UserInput, *t);
        let quota = Quota { goals: targets.iter().map(goal).collect(), ..Quota::default() };
        Scheme { quota, ..match_all(Action::Pageout) }
    };
    let cases: [(&[u64], &[u64]); 3] = [(&[], &[123]), (&[234], &[345]), (&[456], &[])];
    for (dst, src) in cases {
        assert_eq!(committed(&goals(dst), &goals(src)), goals(src), "{dst:?} <- {src:?}");
    }
}

#[test]
fn k16_quota_commit() {
    let dst = Quota {
        reset_interval_ms: 1,
        ms: 2,
        sz: 3,
        tuner: Tuner::Consist,
        fail_charge: FailCharge { num: 2, denom: 3 },
        weights: Weights { sz: 4, nr_accesses: 5, age: 6 },
        ..Quota::default()
    };
    let src = Quota {
        reset_interval_ms: 7,
        ms: 8,
        sz: 9,
        tuner: Tuner::Temporal,
        fail_charge: FailCharge { num: 1, denom: 1024 },
        weights: Weights { sz: 10, nr_accesses: 11, age: 12 },
        ..Quota::default()
    };
    let with = |quota| Scheme { quota, ..match_all(Action::Pageout) };
    assert_eq!(committed(&with(dst), &with(src.clone())).quota, src);
}

#[test]
fn k17_dests_commit() {
    type Dests = &'static [(u32, u32)];
    let cases: [(Dests, Dests); 5] = [
        (&[(1, 2), (2, 3), (3, 4)], &[(4, 5), (5, 6), (6, 7)]),
        (&[(1, 2)], &[(4, 5), (5, 6), (6, 7)]),
        (&[], &[(4, 5), (5, 6), (6, 7)]),
        (&[(1, 2), (2, 3), (3, 4)], &[(4, 5), (5, 6)]),
        (&[(1, 2), (2, 3), (3, 4)], &[]),
    ];
    let with = |dests: Dests| Scheme {
        dests: dests.iter().map(|&(nid, weight)| Destination { nid, weight }).collect(),
        ..match_all(Action::MigrateHot)
    };
    for (dst, src) in cases {
        assert_eq!(committed(&with(dst), &with(src)), with(src), "{dst:?} <- {src:?}");
    }
}

#[test]
fn k18_filter_commit() {
    let with = |kind, matching, allow| {
        let mut scheme = match_all(Action::Pageout);
        scheme.filters.push(Filter { kind, matching, allow });
        scheme
    };
    let dst = with(FilterKind::Active, false, false);
    let kinds = [
        FilterKind::Anon,
        FilterKind::Memcg(123),
        FilterKind::Young,
        FilterKind::HugepageSize(234, 345),
        FilterKind::Unmapped,
        FilterKind::Addr(AddrRange::new(456, 567)),
        FilterKind::Target(6),
    ];
    for kind in kinds {
        let src = with(kind, true, true);
        assert_eq!(committed(&dst, &src).filters, src.filters, "{kind:?}");
        // The layers' defaults follow.
        let core = matches!(kind, FilterKind::Addr(_) | FilterKind::Target(_));
        let filters = committed(&dst, &src).filters;
        assert_eq!((filters.core_default_reject(), filters.ops_default_reject()), (core, !core));
    }
}

/// K19's first scheme.
fn pageout() -> Scheme {
    Scheme {
        pattern: pattern(1, 6),
        action: Action::Pageout,
        apply_interval_us: 1_000_000,
        watermarks: Watermarks {
            metric: WatermarkMetric::FreeMemRate,
            interval_us: 900,
            high: 100,
            mid: 50,
            low: 10,
        },
        ..Scheme::default()
    }
}

/// Bounds of six numbers from `first` on.
fn pattern(first: u32, last: u32) -> Pattern {
    let wide = u64::from;
    Pattern {
        sz: Bounds::new(wide(first), wide(first + 1)),
        nr_accesses: Frequency::Samples(Bounds::new(first + 2, first + 3)),
        age: Age::Windows(Bounds::new(last - 1, last)),
    }
}

#[test]
fn k19_scheme_commit() {
    let src = Scheme {
        pattern: pattern(2, 7),
        apply_interval_us: 2_000_000,
        watermarks: Watermarks {
            metric: WatermarkMetric::FreeMemRate,
            interval_us: 800,
            high: 50,
            mid: 30,
            low: 2,
        },
        ..pageout()
    };
    // The commit comes during the wait, while the watermarks have stopped the first scheme.
    assert_eq!(taken_in(&pageout(), &src), src);
}

#[test]
fn k20_scheme_commit_migrate() {
    let src = Scheme { action: Action::MigrateHot, target_nid: Some(5), ..pageout() };
    assert_eq!(taken_in(&pageout(), &src), src);
}

/// As [`committed`], with watermarks that let the scheme work.
fn taken_in(dst: &Scheme, src: &Scheme) -> Scheme {
    let mut run = crate::schemes::acting::Acting::new(
        Attrs::reference(),
        &[&[(0, 1 << 20)]],
        vec![dst.clone()],
    );
    run.measure = crate::schemes::acting::free_rate(20);
    run.until_sis(2);
    run.ctx.commit_schemes([src.clone()]);
    run.until_sis(4);
    run.ctx.schemes()[0].scheme().clone()
}

#[test]
fn k23_addr_filter() {
    let mut filters = Filters::default();
    let range = AddrRange::new(2, 6);
    filters.push(Filter { kind: FilterKind::Addr(range), matching: true, allow: false });
    // A matching filter refuses memory here. The region is cut at the filter's end, and the left
    // part is asked about again.
    let cases = [
        ((3, 5), None, Verdict::Refused),
        ((1, 2), None, Verdict::Undecided),
        ((6, 8), None, Verdict::Undecided),
        ((1, 4), Some(2), Verdict::Undecided),
        ((2, 8), Some(6), Verdict::Refused),
    ];
    for ((start, end), cut, expected) in cases {
        let mut region = AddrRange::new(start, end);
        let mut seen = filters.core_verdict(0, region, 1);
        assert_eq!(seen, cut.map_or(expected, Verdict::CutAt), "of {region:?}");
        if let Verdict::CutAt(at) = seen {
            region.end = at;
            seen = filters.core_verdict(0, region, 1);
        }
        assert_eq!(seen, expected, "of {region:?}");
    }
}

#[test]
fn k25_filter_defaults() {
    let target = |allow| Filter { kind: FilterKind::Target(0), matching: true, allow };
    let anon = Filter { kind: FilterKind::Anon, matching: true, allow: true };
    let cases: [(&[Filter], (bool, bool)); 5] = [
        (&[], (false, false)),
        (&[target(true)], (true, false)),
        (&[target(false)], (false, false)),
        (&[target(false), anon], (false, true)),
        (&[target(true), anon], (false, true)),
    ];
    for (list, expected) in cases {
        let mut filters = Filters::default();
        list.iter().for_each(|f| filters.push(*f));
        let seen = (filters.core_default_reject(), filters.ops_default_reject());
        assert_eq!(seen, expected, "of {list:?}");
    }
}
