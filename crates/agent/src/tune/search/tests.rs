//! Searches over programs that are made up, with noise. Seeds are printed by what fails.

use proptest::prelude::*;

use super::*;
use crate::policy::Range;
use crate::tune::noise::Noise;

const LIMITS: Limits = Limits { max_slowdown: 0.02, weight: 2.0, trials: 12 };

fn space(ranges: &[&str]) -> Space {
    Space::new(ranges.iter().map(|text| Range::parse(text).unwrap()).collect())
}

/// A program of which less is cold the longer memory has to be idle, and that pays for what comes
/// back.
fn truth(age_s: f64) -> Trial {
    Trial { saved: 0.7 * (-age_s / 25.0).exp(), slowdown: 0.12 * (-age_s / 1.5).exp() }
}

/// Runs a search to its end, and returns it. The largest number of trials stands in `limits`.
fn searched(seed: u64, noise: f64, truth: impl Fn(&[u64]) -> Trial, ranges: &[&str]) -> Search {
    let (mut random, space) = (Noise(seed), space(ranges));
    let start: Vec<u64> = space.ranges().iter().map(|range| range.low).collect();
    let mut search = Search::new(space, start, None, 6, LIMITS);
    for _ in 0..3 {
        search.tell_null(Trial { saved: 0.0, slowdown: noise * random.normal() });
    }
    let mut asked = 0;
    while let Some(at) = search.ask() {
        let truth = truth(&search.candidates()[at].point);
        let slowdown = truth.slowdown + noise * random.normal();
        let trial = Trial { saved: truth.saved + 0.2 * noise * random.normal(), slowdown };
        let broken = slowdown > 4.0 * LIMITS.max_slowdown;
        search.tell(at, if broken { Told::Broken(trial) } else { Told::Measured(trial) });
        search.tell_null(Trial { saved: 0.0, slowdown: noise * random.normal() });
        asked += 1;
        assert!(asked <= LIMITS.trials, "seed {seed}: too many trials");
    }
    search
}

/// The best score of a grid of 100 ages, within the limit.
fn best_of_grid() -> f64 {
    let ages = (0..100).map(|k| 60_f64.powf(f64::from(k) / 99.0));
    let good = ages.map(truth).filter(|trial| trial.slowdown <= LIMITS.max_slowdown);
    good.map(|t| t.saved - LIMITS.weight * t.slowdown).fold(f64::MIN, f64::max)
}

#[test]
fn the_best_of_a_grid_is_found_within_a_tenth() {
    let age = ["cold.age=1s..60s"];
    let of = |point: &[u64]| truth(point[0] as f64 / 1e6);
    for (noise, least) in [(0.0, 100), (0.002, 95), (0.005, 85)] {
        let mut good = 0;
        for seed in 0..100 {
            let search = searched(seed, noise, of, &age);
            let Verdict { best: Some(best), why: Why::Named, .. } = search.verdict() else {
                continue;
            };
            let true_score = search.score(&of(&search.candidates()[best].point));
            good += usize::from(true_score >= 0.9 * best_of_grid());
        }
        assert!(good >= least, "noise {noise}: seeds 0..100, {good} good");
    }
}

#[test]
fn two_ranges_are_searched_as_well() {
    // The quota does what it says, up to 64 MiB: below, less is saved.
    let of = |point: &[u64]| {
        let t = truth(point[0] as f64 / 1e6);
        let share = (point[1] as f64 / f64::from(64 << 20)).min(1.0);
        Trial { saved: t.saved * share, slowdown: t.slowdown * share }
    };
    let search = searched(7, 0.001, of, &["cold.age=1s..60s", "cold.quota.size=1M..1G"]);
    let verdict = search.verdict();
    assert_eq!(verdict.why, Why::Named, "{search:#?}");
    let score = search.score(&of(&search.candidates()[verdict.best.unwrap()].point));
    assert!(score > 0.75 * best_of_grid(), "{score} {search:#?}");
}

#[test]
fn noise_larger_than_the_effect_names_no_winner() {
    let nothing = |_: &[u64]| Trial::default();
    let named = |seed: u64| {
        searched(seed, 0.01, nothing, &["cold.age=1s..60s"]).verdict().why == Why::Named
    };
    let wrong = (0..200).filter(|seed| named(*seed)).count();
    assert!(wrong <= 20, "seeds 0..200: a winner in {wrong}");
}

#[test]
fn a_candidate_that_breaks_the_limit_is_not_tried_again() {
    let slow = |point: &[u64]| Trial {
        saved: 0.9,
        slowdown: if point[0] < 10_000_000 { 0.5 } else { 0.0 },
    };
    let search = searched(1, 0.001, slow, &["cold.age=1s..60s"]);
    for candidate in search.candidates() {
        let is_slow = candidate.point[0] < 10_000_000;
        assert_eq!(candidate.fate == Fate::OverLimit, is_slow, "{candidate:?}");
        assert!(!is_slow || candidate.trials.len() == 1, "{candidate:?}");
    }
    let all = searched(1, 0.001, |_| Trial { saved: 0.9, slowdown: 0.5 }, &["cold.age=1s..60s"]);
    assert_eq!(all.verdict().why, Why::NoneWithinLimit);
    assert_eq!(all.told(), 6);
}

#[test]
fn what_is_refused_is_left_out_and_a_good_start_stays() {
    let space = space(&["cold.age=1s..60s"]);
    let mut search = Search::new(space, vec![5_000_000], Some(vec![8_000_000]), 4, LIMITS);
    let origins: Vec<_> = search.candidates().iter().map(|c| c.origin).collect();
    assert_eq!(origins, [Origin::Start, Origin::Plan, Origin::Spread, Origin::Spread]);
    while let Some(at) = search.ask() {
        search.tell(
            at,
            match search.candidates()[at].origin {
                Origin::Start => Told::Measured(Trial { saved: 0.5, slowdown: 0.001 }),
                Origin::Plan => Told::Refused("no".to_owned()),
                _ => Told::Measured(Trial { saved: 0.1, slowdown: 0.0 }),
            },
        );
        search.tell_null(Trial::default());
    }
    let verdict = search.verdict();
    assert_eq!((verdict.best, verdict.why, verdict.beats_start), (Some(0), Why::Named, None));
    assert_eq!(search.candidates()[1].fate, Fate::Refused("no".to_owned()));
    assert!(search.candidates()[1].trials.is_empty());
}

proptest! {
    /// Whatever the answers, the search ends within its trials, and the verdict is one of those.
    #[test]
    fn a_search_ends(
        answers in prop::collection::vec((-1.0..1.0, -1.0..1.0, 0..10), 1..80),
        (trials, nr) in (1_usize..30, 1_usize..12),
    ) {
        let limits = Limits { trials, ..LIMITS };
        let space = space(&["cold.age=1s..60s", "cold.quota.size=1M..1G"]);
        let mut search = Search::new(space, vec![1_000_000, 1 << 30], None, nr, limits);
        let mut answers = answers.into_iter().cycle();
        while let Some(at) = search.ask() {
            prop_assert_eq!(&search.candidates()[at].fate, &Fate::In);
            let (saved, slowdown, kind) = answers.next().unwrap();
            let trial = Trial { saved, slowdown };
            search.tell(at, match kind {
                0 => Told::Refused(String::new()),
                1 => Told::Broken(trial),
                _ => Told::Measured(trial),
            });
        }
        prop_assert!(search.told() <= trials);
        let verdict = search.verdict();
        if let Some(best) = verdict.best {
            let candidate = &search.candidates()[best];
            prop_assert!(candidate.fate == Fate::In && !candidate.trials.is_empty());
            prop_assert!((0.0..=1.0).contains(&verdict.beats_nothing));
        }
        for range in 0..2 {
            let ends = &search.space().ranges()[range];
            prop_assert!(search.candidates().iter().all(|c| (ends.low..=ends.high).contains(&c.point[range])));
        }
    }
}
