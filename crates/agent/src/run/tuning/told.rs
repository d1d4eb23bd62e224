//! What online tuning tells, as lines for people and as numbers.

use isotherm_core::units::show_interval;

use crate::policy::OnlineTuning;
use crate::run::message::Tuned;
use crate::tune::{Estimate, News, Online, Outcome, Space, Step};

/// What is tuned from now on.
pub(super) fn begun(space: &Space, point: &[u64], settings: &OnlineTuning) -> Tuned {
    let ranges: Vec<String> = space.ranges().iter().map(ToString::to_string).collect();
    let every = show_interval(settings.every_us);
    let text = format!(
        "tune: {} from {}, a step every {every} at most; slowdown by {}",
        ranges.join(", "),
        space.show(point),
        settings.source.told()
    );
    Tuned { what: "begun", values: space.show(point), text, ..Tuned::default() }
}

/// Values that were found before are used.
pub(super) fn resumed(space: &Space, point: &[u64]) -> Tuned {
    let values = space.show(point);
    let text = format!("tune: goes on with values that were found before: {values}");
    Tuned { what: "resumed", values, text, ..Tuned::default() }
}

/// Values of an earlier run are not used.
pub(super) fn dropped(why: &str) -> Tuned {
    let text = format!("tune: begins with the policy's own values: {why}");
    Tuned { what: "dropped", text, ..Tuned::default() }
}

/// Something could not be done.
pub(super) fn trouble(why: &str) -> Tuned {
    Tuned { what: "trouble", text: format!("tune: {why}"), ..Tuned::default() }
}

/// What came of the phases.
pub(super) fn news(online: &Online, news: &News) -> Tuned {
    let values = online.space().show(online.point());
    match news {
        News::Step(step) => Tuned { values, ..tried(online.space(), step) },
        News::Quiet { noise, rest } => {
            let rest = show_interval(
                u64::try_from(rest.as_millis()).unwrap_or(u64::MAX).saturating_mul(1000),
            );
            let noise = noise.map_or(String::new(), |noise| {
                format!(" above the noise ({} % in a pair of phases)", percent(noise))
            });
            let text = format!(
                "tune: {values}: no step makes a difference that shows{noise}; the next one in {rest}"
            );
            Tuned { what: "quiet", values, text, ..Tuned::default() }
        }
        News::Moved(by) => {
            let text = format!(
                "tune: {values}: the score has moved by {} % by itself, so the search begins again",
                percent(*by)
            );
            Tuned { what: "moved", values, text, ..Tuned::default() }
        }
    }
}

/// Percent with one digit; no minus before a zero.
fn percent(share: f64) -> String {
    let text = format!("{:.1}", 100.0 * share);
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

fn tried(space: &Space, step: &Step) -> Tuned {
    let range = &space.ranges()[step.range];
    let name = format!("{}.{}", range.scheme, range.key.name());
    let [from, to] = [step.from, step.to].map(|value| range.key.show(value));
    let (outcome, why) = match &step.outcome {
        Outcome::Kept => ("kept", "kept".to_owned()),
        Outcome::Worse => ("worse", "worse, taken back".to_owned()),
        Outcome::Same => ("same", "no difference shows, taken back".to_owned()),
        Outcome::OverLimit => ("over_limit", "slower than the limit, taken back".to_owned()),
        Outcome::Broken => ("broken", "stopped, far too slow".to_owned()),
        Outcome::Spent => {
            ("spent", "with the steps before slower than the limit, taken back".to_owned())
        }
        Outcome::Refused(why) => ("refused", format!("refused: {}", why.replace('\n', " "))),
    };
    let mut text = format!("tune: {name} {from} -> {to}: ");
    if let (Some(saved), Some(slowdown)) = (&step.saved, &step.slowdown) {
        let (more, by) =
            if saved.mean < 0.0 { ("less", -saved.mean) } else { ("more", saved.mean) };
        text += &format!(
            "saves {} % {more}, slowdown {} % ± {}: ",
            percent(by),
            percent(slowdown.mean),
            percent(half(slowdown))
        );
    }
    Tuned {
        what: "step",
        range: Some(name),
        from: Some(from),
        to: Some(to),
        pairs: step.pairs,
        saved: step.saved,
        slowdown: step.slowdown,
        outcome: Some(outcome),
        values: String::new(),
        text: text + &why,
    }
}

/// Half the width of an interval.
fn half(estimate: &Estimate) -> f64 {
    (estimate.high - estimate.low) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Range;

    #[test]
    fn a_step_is_one_line() {
        let space = Space::new(vec![Range::parse("cold.age=1s..60s").unwrap()]);
        let estimate = |mean: f64| Some(Estimate { low: mean - 0.002, mean, high: mean + 0.002 });
        let step = |saved, outcome| Step {
            range: 0,
            from: 4_000_000,
            to: 5_600_000,
            pairs: 3,
            saved,
            slowdown: saved.and(estimate(0.001)),
            outcome,
        };
        for (step, expected) in [
            (
                step(estimate(0.012), Outcome::Kept),
                "tune: cold.age 4s -> 5600ms: saves 1.2 % more, slowdown 0.1 % ± 0.2: kept",
            ),
            (
                step(estimate(-0.03), Outcome::Worse),
                "tune: cold.age 4s -> 5600ms: saves 3.0 % less, slowdown 0.1 % ± 0.2: worse, taken \
                 back",
            ),
            (
                step(None, Outcome::Refused("a\nb".to_owned())),
                "tune: cold.age 4s -> 5600ms: refused: a b",
            ),
        ] {
            assert_eq!(tried(&space, &step).text, expected);
        }
        assert_eq!(percent(-0.0004), "0.0");
    }
}
