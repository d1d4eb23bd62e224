//! Moving pages. One node is enough to move them to where they are, and to refuse others.

use isotherm_act::{ActKind, Process};
use isotherm_core::AddrRange;
use isotherm_host::nodes::Nodes;

use crate::target::{ARENA, Target};

const PAGE: u64 = 4096;

#[test]
fn moves_between_nodes_and_refuses_missing_ones() {
    let nodes = match Nodes::read() {
        Ok(nodes) => nodes,
        Err(e) => return eprintln!("skipped: {e}"),
    };
    let mut target = Target::spawn();
    target.say(&format!("map {} small", 5000 * PAGE));
    let process = Process::open(target.pid()).unwrap();
    // A hole behind the memory.
    let range = [AddrRange::new(ARENA, ARENA + 5100 * PAGE)];
    for &node in nodes.with_memory() {
        let mut never = || false;
        let done = process.migrate(&nodes, &range, &mut |_| Some(node), false, &mut never).unwrap();
        assert!(!done.outcome.is_cut_short(), "{done:?}");
        assert_eq!(done.already_bytes + done.outcome.accepted_bytes, 5000 * PAGE, "{done:?}");
        assert_eq!(done.absent_bytes, 100 * PAGE);
        let again =
            process.migrate(&nodes, &range, &mut |_| Some(node), false, &mut never).unwrap();
        assert_eq!((again.already_bytes, again.outcome.asked_bytes), (5000 * PAGE, 0));
    }
    let missing = nodes.with_memory().last().unwrap() + 1;
    let error = process.migrate(&nodes, &range, &mut |_| Some(missing), false, &mut || false);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ActKind::NoSuchNode);
    assert!(error.why().contains(&format!("node {missing}")), "{error}");
    let node = nodes.with_memory()[0];
    let mut every_second = |addr: u64| (addr / PAGE).is_multiple_of(2).then_some(node);
    let done = process.migrate(&nodes, &range, &mut every_second, false, &mut || false).unwrap();
    assert_eq!(done.already_bytes + done.outcome.accepted_bytes, 2500 * PAGE);
    let mut batches = 0;
    let mut stop = || {
        batches += 1;
        batches > 2
    };
    let done = process.migrate(&nodes, &range, &mut |_| Some(node), false, &mut stop).unwrap();
    assert!(done.outcome.stopped);
    assert_eq!(done.already_bytes + done.outcome.accepted_bytes, 4096 * PAGE);
    assert_eq!(target.say("wrong"), "0");
    target.kill();
    let done = process.migrate(&nodes, &range, &mut |_| Some(node), false, &mut || false).unwrap();
    assert!(done.outcome.gone);
}
