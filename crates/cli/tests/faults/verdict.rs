//! What `reclaim` tells a new user: whether it works, what it waits for, what it would bring.

use crate::acting::{halves, sees_pages};
use crate::program::{Running, isotherm, scratch};

#[test]
fn watermarks_are_for_targets_that_were_not_named() {
    let dir = scratch();
    for what in ["reclaim", "lru-sort"] {
        let policy =
            |args: &str| isotherm(dir.path(), &format!("{what} {args} --print-policy")).out;
        assert!(policy("--name postgres").contains("watermarks"), "{}", policy("--name postgres"));
        assert!(!policy("-p 1").contains("watermarks"), "{}", policy("-p 1"));
        assert!(policy("-p 1 --name postgres").contains("watermarks"));
        assert!(policy("-p 1 --watermarks 50%,40%,20%").contains("watermarks"));
    }
}

#[test]
fn who_waits_for_watermarks_says_how_much_is_free() {
    if !sees_pages() {
        return;
    }
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    // No machine that runs this has less than 0.2 % of free memory.
    let args =
        format!("reclaim -p {} --watermarks 0.2%,0.1%,0% --dry-run --duration 4s", target.pid());
    let said = isotherm(dir.path(), &args);
    said.expect(0, &["waiting: ", "of memory is free; it works between 0 % and 0.2 %"]);
    assert!(
        said.out.contains("waits: ") && said.out.contains("% of memory is free"),
        "{}",
        said.out
    );
}

#[test]
fn a_dry_run_gives_a_verdict_and_names_the_quota_that_binds() {
    if !sees_pages() {
        return;
    }
    let dir = scratch();
    let target = halves(dir.path());
    let args = format!(
        "reclaim -p {} --dry-run --age 1s --confirm 1s --quota 2M/s --quota-time none --duration 10s",
        target.pid()
    );
    let said = isotherm(dir.path(), &args);
    said.expect(0, &[]);
    assert!(!said.err.contains("waiting"), "who names a process need not wait: {}", said.err);
    for part in [
        "verdict: ",
        "  <- this age",
        "time to drain under this quota: ",
        "the quota of 2.00 MiB/s was used up in",
        "still waits",
        "--quota SIZE/TIME",
    ] {
        assert!(said.out.contains(part), "no `{part}` in {}", said.out);
    }
    let place = |part: &str| said.out.find(part).unwrap();
    assert!(place("verdict: ") < place("would have acted"), "it comes first: {}", said.out);
    target.assert_untouched();
}
