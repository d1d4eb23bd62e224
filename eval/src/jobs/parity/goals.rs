//! What parity asks for: our own methods beside the kernel's DAMON, workload by workload.

use super::rows::Row;
use super::{CENSUS, CENSUS_OF_3, FIRST_TOUCH, KDAMOND};

/// Medians of few runs: a difference below this is none.
const SAME: f64 = 0.01;
/// Slowdowns are in shares; on a busy machine less than this is noise.
const SAME_SLOWDOWN: f64 = 0.005;
const CPU_FACTOR: f64 = 2.0;
/// Where hot memory lies in pieces that are smaller than any region, `census` has to find this many
/// times what the kernel's DAMON finds, for no more CPU.
const PIECES: &str = "scattered-256k";
const RECALL_FACTOR: f64 = 5.0;

/// One line per workload and method.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = format!(
        "Goals, per workload: at least as accurate as {KDAMOND} (within {SAME}), slows the target down no more \
         (within {SAME_SLOWDOWN}), and takes at most {CPU_FACTOR} times the CPU of the kernel's thread; {CENSUS} has {RECALL_FACTOR} times \
         its recall on {PIECES} for no more CPU.\n"
    );
    let ours = [CENSUS, CENSUS_OF_3, FIRST_TOUCH];
    for ours in rows.iter().filter(|r| ours.contains(&r.contestant.as_str())) {
        let theirs = rows.iter().find(|r| r.workload == ours.workload && r.contestant == KDAMOND);
        let line = match theirs {
            Some(theirs) if theirs.precision.is_some() || theirs.recall.is_some() => {
                let missed = missed(ours, theirs);
                if missed.is_empty() {
                    "reached".into()
                } else {
                    format!("missed: {}", missed.join(", "))
                }
            }
            _ => "nothing to compare with".into(),
        };
        text.push_str(&format!("  {} {}: {line}\n", ours.workload, ours.contestant));
    }
    text
}

/// What is compared.
type Share = fn(&Row) -> Option<f64>;

fn missed(ours: &Row, theirs: &Row) -> Vec<String> {
    let mut missed = Vec::new();
    let shares: [(&str, Share, f64); 4] = [
        ("precision", |r| r.precision, 1.0),
        ("recall", |r| r.recall, 1.0),
        ("wss p50", |r| r.wss_p50, -1.0),
        ("wss p75", |r| r.wss_p75, -1.0),
    ];
    for (name, of, sign) in shares {
        match (of(ours), of(theirs)) {
            (Some(a), Some(b)) if (b - a) * sign > SAME => {
                missed.push(format!("{name} {a:.3} to {b:.3}"));
            }
            (None, Some(b)) => missed.push(format!("{name} - to {b:.3}")),
            _ => {}
        }
    }
    if let (Some(a), Some(b)) = (ours.slowdown, theirs.slowdown)
        && a.median > b.median + SAME_SLOWDOWN
    {
        let noise = if a.lo <= b.hi { " (the ranges overlap)" } else { "" };
        missed.push(format!(
            "slowdown {:.2} % to {:.2} %{noise}",
            a.median * 100.0,
            b.median * 100.0
        ));
    }
    let is_census = [CENSUS, CENSUS_OF_3].contains(&ours.contestant.as_str());
    let finds_pieces = is_census && ours.workload == PIECES;
    if finds_pieces
        && let (Some(a), Some(b)) = (ours.recall, theirs.recall)
        && a < RECALL_FACTOR * b
    {
        missed.push(format!("recall {a:.3} to {b:.3}, less than {RECALL_FACTOR} times"));
    }
    let factor = if finds_pieces { 1.0 } else { CPU_FACTOR };
    match (ours.own_cpu_percent, theirs.kernel_cpu_percent) {
        (Some(a), Some(b)) if a > factor * b => {
            missed.push(format!("CPU {a:.2} % to {b:.2} % of the kernel's thread"));
        }
        (_, None) => missed.push("CPU: the kernel's thread was not found".into()),
        _ => {}
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Middle;

    fn row(
        contestant: &str,
        precision: f64,
        wss: f64,
        slowdown: f64,
        own: f64,
        kernel: Option<f64>,
    ) -> Row {
        Row {
            workload: "w".into(),
            contestant: contestant.into(),
            precision: Some(precision),
            recall: Some(precision),
            wss_p50: Some(wss),
            wss_p75: Some(wss),
            slowdown: Middle::of(&[slowdown]),
            own_cpu_percent: Some(own),
            kernel_cpu_percent: kernel,
            ..Row::default()
        }
    }

    #[test]
    fn what_is_worse_than_the_kernel_is_named() {
        let kernel = row(KDAMOND, 0.9, 0.1, 0.01, 0.5, Some(1.0));
        for (ours, expected) in [
            (row(FIRST_TOUCH, 0.895, 0.105, 0.012, 1.9, None), &[][..]),
            (row(FIRST_TOUCH, 0.8, 0.1, 0.01, 1.0, None), &["precision 0.800", "recall 0.800"]),
            (row(FIRST_TOUCH, 1.0, 0.2, 0.01, 1.0, None), &["wss p50", "wss p75"]),
            (row(FIRST_TOUCH, 1.0, 0.1, 0.03, 2.1, None), &["slowdown 3.00 %", "CPU 2.10 %"]),
        ] {
            let missed = missed(&ours, &kernel);
            assert_eq!(missed.len(), expected.len(), "{missed:?}");
            assert!(missed.iter().zip(expected).all(|(m, e)| m.starts_with(e)), "{missed:?}");
        }
        let told = text(&[row(FIRST_TOUCH, 1.0, 0.0, 0.0, 0.0, None)]);
        assert!(told.ends_with("w pagewalk-first-touch: nothing to compare with\n"), "{told}");
    }

    #[test]
    fn census_has_to_find_the_pieces_that_no_region_can_hold() {
        let of = |contestant: &str, recall: f64, own: f64, kernel: Option<f64>| Row {
            workload: PIECES.into(),
            ..row(contestant, recall, 0.0, 0.0, own, kernel)
        };
        let kernel = of(KDAMOND, 0.1, 0.5, Some(1.0));
        let judged = |ours: &Row| missed(ours, &kernel);
        assert!(judged(&of(CENSUS, 0.5, 1.0, None)).is_empty());
        assert!(judged(&of(FIRST_TOUCH, 0.4, 1.5, None)).is_empty());
        let both = judged(&of(CENSUS, 0.4, 1.5, None));
        assert_eq!(both.len(), 2, "{both:?}");
    }
}
