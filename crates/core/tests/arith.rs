//! The arithmetic of quotas and goals, tried out over all of a small domain, and around all powers
//! of two.
//!
//! Debug builds panic on overflow, so a run without a panic shows that nothing overflows.
//! `scheme/proofs.rs` has the same as harnesses for a model checker.

use isotherm_core::math::{Divisor, feed};
use isotherm_core::scheme::{FailCharge, Goal, Metric, Quota, QuotaState, Tuner};

/// 10,000: one byte in the tuner's memory, and a score that is exactly met.
const ONE: u64 = 10_000;
const PAGE: u64 = 4096;

/// Around every power of two, and zero.
fn edges() -> Vec<u64> {
    let around = |k: u32| [(1_u64 << k) - 1, 1 << k, (1 << k) + 1];
    let mut edges: Vec<u64> = (0..64).flat_map(around).collect();
    edges.extend([u64::MAX - 1, u64::MAX]);
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Scores: all that make a difference, and far beyond.
fn scores() -> Vec<u64> {
    let mut scores: Vec<u64> = (0..=20_002).collect();
    scores.extend(edges().into_iter().filter(|s| *s > 20_002));
    scores
}

#[test]
fn feed_is_monotonic() {
    let mut lasts = edges();
    lasts.extend((1..100).flat_map(|i| [i * ONE - 1, i * ONE, i * ONE + 1]));
    lasts.sort_unstable();
    let scores = scores();
    let mut before: Option<Vec<u64>> = None;
    for last in lasts {
        let nexts: Vec<u64> = scores.iter().map(|score| feed(last, *score)).collect();
        for (score, next) in scores.iter().zip(&nexts) {
            // Up at most by two; down, never below a byte.
            assert!(*next <= last.saturating_mul(2).max(ONE), "feed({last}, {score}) = {next}");
            assert!(*next >= last.min(ONE), "feed({last}, {score}) = {next}");
            match score.cmp(&ONE) {
                std::cmp::Ordering::Less => assert!(*next >= last),
                std::cmp::Ordering::Equal => assert_eq!(*next, last),
                std::cmp::Ordering::Greater => assert!(*next <= last.max(ONE)),
            }
        }
        // A score closer to the goal gets no larger size. Below one byte there is no such order.
        if last >= ONE {
            assert!(nexts.is_sorted_by(|a, b| a >= b), "of {last}");
        }
        // A larger size stays larger, except for a byte where the product would overflow.
        if let Some(before) = before {
            for (a, b) in before.iter().zip(&nexts) {
                assert!(*a <= b.saturating_add(ONE), "{a} then {b} of {last}");
            }
        }
        before = Some(nexts);
    }
}

#[test]
fn charge_is_no_more_than_tried() {
    let check = |tried: u64, applied: u64, num: u32, denom: u32| {
        let charge = FailCharge { num, denom }.charge(tried, applied);
        if denom == 0 || applied > tried {
            assert_eq!(charge, tried);
        } else if num <= denom {
            assert!(charge <= tried, "{charge} for {applied} of {tried} at {num}/{denom}");
            assert!(charge >= applied);
            assert!(num < denom || charge == tried);
        } else {
            assert!(charge >= applied);
        }
    };
    for tried in 0..=40 {
        for applied in 0..=42 {
            for num in 0..=12 {
                (0..=12).for_each(|denom| check(tried, applied, num, denom));
            }
        }
    }
    let shares = [0, 1, 2, 3, 1023, 1024, u32::MAX - 1, u32::MAX];
    let edges = edges();
    for tried in &edges {
        for applied in &edges {
            for num in shares {
                shares.iter().filter(|d| num <= **d).for_each(|d| check(*tried, *applied, num, *d));
            }
        }
    }
}

/// A quota with a goal of `target`, if there is one.
fn quota(ms: u64, sz: u64, tuner: Tuner, target: u64) -> Quota {
    let goal = (target != 0).then(|| Goal::new(Metric::UserInput, target));
    Quota { ms, sz, tuner, goals: goal.into_iter().collect(), ..Quota::default() }
}

#[test]
fn esz_is_below_every_limit() {
    let limits = [0, 1, PAGE - 1, PAGE, 100_000, 1 << 32, (1 << 63) + 1, u64::MAX];
    let currents = [0, 1, 4999, 5000, 5001, 9999, u64::MAX / ONE, u64::MAX];
    for strict in [true, false] {
        for (ms, sz) in limits.iter().flat_map(|ms| limits.map(|sz| (*ms, sz))) {
            for (tuner, target) in
                [(Tuner::Consist, 0), (Tuner::Consist, 5000), (Tuner::Temporal, 5000)]
            {
                let mut quota = quota(ms, sz, tuner, target);
                for memory in [0, ONE, PAGE * ONE, u64::MAX] {
                    let mut state = QuotaState::default();
                    (state.total_charged_sz, state.total_charged_ns) = (1 << 20, 1_000_000_000);
                    state.esz_bp = memory;
                    // One window after the other, each with another score.
                    for current in currents {
                        quota.goals.iter_mut().for_each(|goal| goal.current = current);
                        state.set_effective(&quota, PAGE, strict);
                        let rate = if strict { 1048 } else { 4 << 20 };
                        let by_time = rate.max(PAGE / ms.max(1)).saturating_mul(ms).max(PAGE);
                        assert!(sz == 0 || state.esz <= sz, "{} of {quota:?}", state.esz);
                        assert!(ms == 0 || state.esz <= by_time, "{} of {quota:?}", state.esz);
                        let bounded = !strict && tuner == Tuner::Consist && target != 0;
                        assert!(!bounded || state.esz_bp / ONE <= state.esz, "it winds up");
                    }
                }
            }
        }
    }
}

/// A model whose metric grows with the bytes that the scheme does. It has the bytes per window at
/// which the goal is met.
#[derive(Clone, Copy)]
struct Plant {
    ideal: u64,
    target: u64,
}

impl Plant {
    /// Runs one window; returns the metric that comes of it.
    fn step(self, state: &mut QuotaState, quota: &mut Quota, strict: bool) -> u64 {
        let wide = u128::from(state.esz) * u128::from(self.target) / u128::from(self.ideal);
        let metric = u64::try_from(wide).unwrap_or(u64::MAX);
        quota.goals[0].current = metric;
        state.set_effective(quota, PAGE, strict);
        metric
    }

    fn is_met(self, metric: u64) -> bool {
        metric.abs_diff(self.target) <= self.target / 5
    }

    /// Windows until the goal is met for good: for a hundred windows at least.
    fn settle(self, state: &mut QuotaState, quota: &mut Quota, strict: bool) -> u32 {
        let met: Vec<bool> =
            (0..300).map(|_| self.is_met(self.step(state, quota, strict))).collect();
        let last_miss = met.iter().rposition(|met| !met).map_or(0, |at| at + 1);
        assert!(last_miss < 200, "it never settles at {} bytes", self.ideal);
        u32::try_from(last_miss).expect("a few")
    }
}

/// Windows that doubling takes from `least` bytes to `ideal`, and four in which the rest is done,
/// and one to see that a start was too high.
fn enough(ideal: u64, least: u64) -> u32 {
    (ideal / least).max(1).ilog2() + 6
}

/// Reached within twenty windows up to 32 MiB per window, and then held within 20 %; from any
/// start.
#[test]
fn tuner_settles() {
    let starts = [0, ONE, PAGE * ONE, ONE << 20, ONE << 33, u64::MAX / 2, u64::MAX];
    for decade in 0..7 {
        let ideal = 10 * PAGE * 10_u64.pow(decade);
        for target in [100, 1000, 10_000, 1_000_000_007] {
            for (esz_bp, strict) in starts.iter().flat_map(|s| [(*s, true), (*s, false)]) {
                let mut quota = quota(0, 0, Tuner::Consist, target);
                let mut state = QuotaState::default();
                (state.esz_bp, state.esz) = (esz_bp, esz_bp / ONE);
                let plant = Plant { ideal, target };
                let windows = plant.settle(&mut state, &mut quota, strict);
                let most = enough(ideal, if strict { 1 } else { PAGE / 2 });
                assert!(windows <= most, "{windows} to {ideal} from {esz_bp}, strict: {strict}");
                assert!(strict || ideal > 32 << 20 || most <= 20);
            }
        }
    }
}

/// A limit below what the goal wants: the limit is used in full, and is left at once when it is too
/// much.
#[test]
fn tuner_under_a_limit() {
    for (ms, sz) in [(0, 1 << 20), (1, 0), (1, 1 << 20), (10, 8 << 20)] {
        let mut quota = quota(ms, sz, Tuner::Consist, 1000);
        let mut state = QuotaState::default();
        let far = Plant { ideal: 1 << 40, target: 1000 };
        for _ in 0..100 {
            far.step(&mut state, &mut quota, false);
        }
        let limit = state.esz;
        assert!(limit == sz || limit == ms * (4 << 20), "{limit} of {quota:?}");
        // Now the goal wants a little less than the limit, or much less.
        for part in [2, 3, 10, 100] {
            let near = Plant { ideal: limit / part, target: 1000 };
            let windows = near.settle(&mut state, &mut quota, false);
            assert!(windows <= enough(near.ideal, PAGE / 2), "{windows} to a {part}th");
        }
    }
}

#[test]
fn a_divisor_divides_exactly() {
    // The quotients that are hardest to get right are those of multiples and their neighbours.
    let edges = || edges().into_iter().filter_map(|x| u32::try_from(x).ok());
    let divisors = edges().chain(1..2000).chain((1..60).map(|k| u32::MAX / k)).filter(|d| *d > 0);
    for d in divisors {
        let divisor = Divisor::new(d);
        let multiples = edges().filter_map(|k| k.checked_mul(d)).chain([u32::MAX / d * d]);
        let near = multiples.flat_map(|n| [n.saturating_sub(1), n, n.saturating_add(1)]);
        for n in near.chain(edges()).chain([u32::MAX]) {
            assert_eq!(divisor.divide(n), n / d, "{n} / {d}");
        }
    }
}
