//! The brake, which the kernel does not have: what a scheme may do when its memory is touched again
//! too soon.

use std::cell::Cell;
use std::rc::Rc;

use isotherm_core::Attrs;
use isotherm_core::scheme::{Action, Brake, Metric, Quota, Scheme};

use crate::schemes::acting::{Acting, attrs_q, match_all};

/// The effective size of each window while these refault rates are measured, one per window, in
/// basis points. 0 if the window has no limit.
fn windows(quota: Quota, rates: &[Option<u64>]) -> Vec<u64> {
    let quota =
        Quota { brake: Some(Brake { max_refault_bp: 200, settle_ms: 0, floor: 0 }), ..quota };
    let scheme = Scheme { quota, ..match_all(Action::Pageout) };
    let attrs = Attrs { strict: false, ..attrs_q() };
    let mut run = Acting::new(attrs, &[&[(0, 1024)]], vec![scheme]);
    let rate = Rc::new(Cell::new(None));
    let now = Rc::clone(&rate);
    run.measure = Box::new(move |m| if m.metric == Metric::RefaultBp { now.get() } else { None });
    rates
        .iter()
        .map(|next| {
            rate.set(*next);
            let done: u64 = run.window().iter().map(|r| r.range.len().min(r.max_bytes)).sum();
            let esz = run.ctx.schemes()[0].quota().esz;
            assert!(done > 0 && (esz == 0 || done <= esz), "{done} of {esz} bytes");
            esz
        })
        .collect()
}

#[test]
fn brake_halves_and_lets_go() {
    // The first window has no limit. The second has half of what the first did, and the third half
    // of that. Where the rate is four times the limit, a quarter is left, and so on down to the
    // smallest region. From there the size grows by a quarter at a time, or by a region if that is
    // more.
    let bad = [Some(0), Some(201), Some(201), Some(800), Some(201)];
    assert_eq!(windows(Quota::default(), &bad), [0, 512, 256, 64, 32]);
    let good: Vec<_> =
        [Some(0), Some(201), Some(201), Some(201)].into_iter().chain([Some(200); 30]).collect();
    let seen = windows(Quota::default(), &good);
    assert_eq!(seen[..8], [0, 512, 256, 128, 160, 200, 250, 312]);
    assert_eq!(seen.last(), Some(&0), "{seen:?}");
    let least = [Some(9999); 20];
    assert_eq!(windows(Quota::default(), &least).last(), Some(&16));
}

#[test]
fn brake_under_a_quota() {
    let quota = Quota { sz: 512, ..Quota::default() };
    let rates = [Some(0), Some(300), Some(300), Some(0), Some(0), Some(0), Some(0), Some(0)];
    assert_eq!(windows(quota.clone(), &rates), [512, 256, 128, 160, 200, 250, 312, 390]);
    // A rate that is not known is no reason to brake.
    assert_eq!(windows(quota, &[None; 4]), [512; 4]);
}
