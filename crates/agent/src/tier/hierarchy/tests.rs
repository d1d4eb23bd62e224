use super::*;

/// Nodes with CPUs, memory and a memory tier; distances grow with the difference of the numbers.
fn machine(nodes: &[(bool, bool, Option<u32>)]) -> Facts {
    let all = 0..u32::try_from(nodes.len()).unwrap();
    let distances = |node: u32| all.clone().map(|other| 10 + 10 * node.abs_diff(other)).collect();
    let facts = all.clone().zip(nodes).map(|(node, &(has_cpu, has_memory, tier))| NodeFacts {
        node,
        has_cpu,
        has_memory,
        tier,
        distances: distances(node),
        latency_ns: None,
    });
    Facts { nodes: facts.collect() }
}

fn cxl() -> Facts {
    machine(&[
        (true, true, Some(4)),
        (false, true, Some(54)),
        (false, true, Some(90)),
        (true, false, None),
    ])
}

fn both(upper: u32, lower: u32) -> Link {
    Link { upper, lower, promotes: true, demotes: true }
}

#[test]
fn pairs_make_chains() {
    for (fast, slow, links) in
        [(&[0][..], &[1][..], vec![both(0, 1)]), (&[1, 0], &[2, 1], vec![both(0, 1), both(1, 2)])]
    {
        let made = Hierarchy::of_pairs(&cxl(), fast, slow).unwrap();
        assert_eq!(made.links, links, "{fast:?} {slow:?}");
        assert_eq!(made.top(), [0]);
    }
    let odd =
        Hierarchy::of_pairs(&machine(&[(true, true, Some(9)), (true, true, Some(4))]), &[0], &[1]);
    assert_eq!(odd.unwrap().why.len(), 2, "it is slower by the kernel, and has CPUs");
}

#[test]
fn what_is_no_hierarchy_is_refused() {
    for (fast, slow, code, said) in [
        (&[0][..], &[][..], 2, "1 --fast and 0 --slow"),
        (&[0], &[7], 2, "there is no node 7"),
        (&[0], &[3], 2, "node 3 has no memory"),
        (&[3], &[1], 2, "node 3 has no memory"),
        (&[1], &[1], 2, "cannot be above itself"),
        (&[0, 0], &[1, 2], 2, "--fast 0 is given twice"),
        (&[0, 1], &[2, 2], 2, "--slow 2 is given twice"),
        (&[0, 1], &[1, 0], 2, "in a circle"),
        (&[0, 1, 2], &[1, 2, 0], 2, "in a circle"),
        (&[1], &[2], 2, "has no CPUs"),
    ] {
        let refused = Hierarchy::of_pairs(&cxl(), fast, slow).unwrap_err();
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.text.contains(said) && refused.text.contains("hint:"), "{said}: {refused}");
    }
    let one = machine(&[(true, true, Some(4)), (true, false, None)]);
    for refused in [Hierarchy::found(&one), Hierarchy::of_pairs(&one, &[0], &[1])] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, 3);
        assert!(refused.text.starts_with("this machine has one memory node"), "{refused}");
        assert!(refused.text.contains("the only node with memory is node 0"), "{refused}");
    }
    let alike = machine(&[(true, true, Some(4)), (true, true, Some(4))]);
    assert_eq!(Hierarchy::found(&alike).unwrap_err().code, 3);
}

#[test]
fn a_hierarchy_is_found() {
    let (cpu, mem) = (true, true);
    for (name, facts, links) in [
        ("three tiers", cxl(), vec![both(0, 1), both(1, 2)]),
        ("no tiers known", machine(&[(cpu, mem, None), (!cpu, mem, None)]), vec![both(0, 1)]),
        (
            "all in one tier",
            machine(&[(!cpu, mem, Some(4)), (cpu, mem, Some(4))]),
            vec![both(1, 0)],
        ),
        (
            "two above one",
            machine(&[(cpu, mem, Some(4)), (cpu, mem, Some(4)), (!cpu, mem, Some(9))]),
            vec![Link { promotes: false, ..both(0, 2) }, both(1, 2)],
        ),
        (
            "each has its own",
            machine(&[
                (!cpu, mem, Some(9)),
                (cpu, mem, Some(4)),
                (cpu, mem, Some(4)),
                (!cpu, mem, Some(9)),
            ]),
            vec![both(1, 0), both(2, 3)],
        ),
        (
            "one above two",
            machine(&[(cpu, mem, Some(4)), (!cpu, mem, Some(9)), (!cpu, mem, Some(9))]),
            vec![both(0, 1), Link { demotes: false, ..both(0, 2) }],
        ),
    ] {
        let found = Hierarchy::found(&facts).unwrap();
        assert_eq!(found.links, links, "{name}");
        assert!(found.why[0].starts_with("found by"), "{name}: {:?}", found.why);
    }
}

#[test]
fn three_tiers_are_read_from_a_machine() {
    use isotherm_host::Roots;
    use isotherm_host::nodes::levels;
    use isotherm_host::proc::Proc;
    use isotherm_pages::places::Places;

    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let roots = Roots { proc: Proc::new(dir.path()), sys: dir.path().to_owned() };
    put("devices/system/node/has_memory", "0-2\n");
    put("devices/system/node/has_cpu", "0\n");
    put("devices/system/node/online", "0-3\n");
    put("devices/system/memory/block_size_bytes", "8000000\n");
    let mut zones = String::new();
    for (node, distances, tier, mib) in
        [(0, "10 14 24", 4, 1024), (1, "14 10 26", 22, 2048), (2, "24 26 10", 54, 4096)]
    {
        let at = format!("devices/system/node/node{node}");
        put(&format!("{at}/distance"), distances);
        let kib = mib * 1024;
        let text = format!("Node {node} MemTotal: {kib} kB\nNode {node} MemFree: {} kB\n", kib / 4);
        put(&format!("{at}/meminfo"), &text);
        put(&format!("{at}/memory{node}/state"), "online\n");
        put(
            &format!("devices/virtual/memory_tiering/memory_tier{tier}/nodelist"),
            &format!("{node}\n"),
        );
        zones +=
            &format!("Node {node}, zone Normal\n        high     256\n        managed  1000\n");
    }
    put("zoneinfo", &zones);
    let hierarchy = Hierarchy::found(&Facts::read(&roots).unwrap()).unwrap();
    assert_eq!(hierarchy.links, [both(0, 1), both(1, 2)]);
    assert_eq!(
        hierarchy.why,
        ["found by memory tiers of the kernel: node 0 above node 1 above node 2"]
    );
    let levels = |nodes: &[u32]| levels(&roots, nodes);
    let all = levels(&hierarchy.nodes()).unwrap();
    let mib: Vec<_> = all.iter().map(|l| (l.free >> 20, l.total >> 20, l.high >> 20)).collect();
    assert_eq!(mib, [(256, 1024, 1), (512, 2048, 1), (1024, 4096, 1)]);
    assert_eq!(Places::read(&roots).unwrap().node_of(2 * 0x8000), Some(2));

    // The middle one is unplugged: what is left is a hierarchy of its own, and the old one cannot
    // be read.
    std::fs::remove_dir_all(dir.path().join("devices/system/node/node1")).unwrap();
    put("devices/system/node/has_memory", "0,2\n");
    put("devices/system/node/online", "0,2-3\n");
    std::fs::remove_dir_all(dir.path().join("devices/virtual/memory_tiering/memory_tier22"))
        .unwrap();
    assert!(levels(&[0, 1, 2]).unwrap_err().contains("node1/meminfo"));
    let left = Hierarchy::found(&Facts::read(&roots).unwrap()).unwrap();
    assert_eq!(left.links, [both(0, 2)]);
}
