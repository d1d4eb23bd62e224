//! Every file of Linux 7.2's tree, with its mode and its value when it is made (R§5.2).

use crate::fake::Tree;

/// A directory of each kind, made by these writes.
const MADE: &[(&str, &str)] = &[
    ("0/contexts/0/monitoring_attrs/probes/nr_probes", "1"),
    ("0/contexts/0/monitoring_attrs/probes/0/filters/nr_filters", "1"),
    ("0/contexts/0/targets/nr_targets", "1"),
    ("0/contexts/0/targets/0/regions/nr_regions", "1"),
    ("0/contexts/0/schemes/nr_schemes", "1"),
    ("0/contexts/0/schemes/0/quotas/goals/nr_goals", "1"),
    ("0/contexts/0/schemes/0/core_filters/nr_filters", "1"),
    ("0/contexts/0/schemes/0/ops_filters/nr_filters", "1"),
    ("0/contexts/0/schemes/0/filters/nr_filters", "1"),
    ("0/contexts/0/schemes/0/dests/nr_dests", "1"),
];

/// Files, a line per directory: the directory, then `name=value` (read-write) or `name:value`
/// (read-only). `-` stands for the directory of kdamonds, `_` for nothing, `/` for a
/// new line in the value.
const FILES: &str = "\
- nr_kdamonds=1
0 state=off pid:-1 refresh_ms=0
0/contexts nr_contexts=1
0/contexts/0 avail_operations:vaddr/fvaddr/paddr operations=vaddr addr_unit=1 pause=N
0/contexts/0/monitoring_attrs/intervals sample_us=5000 aggr_us=100000 update_us=60000000
0/contexts/0/monitoring_attrs/intervals/intervals_goal access_bp=0 aggrs=0 min_sample_us=0 max_sample_us=0
0/contexts/0/monitoring_attrs/nr_regions min=10 max=1000
0/contexts/0/monitoring_attrs/probes nr_probes=1
0/contexts/0/monitoring_attrs/probes/0/filters nr_filters=1
0/contexts/0/monitoring_attrs/probes/0/filters/0 type=anon matching=N allow=N path=_
0/contexts/0/targets nr_targets=1
0/contexts/0/targets/0 pid_target=0 obsolete_target=N
0/contexts/0/targets/0/regions nr_regions=1
0/contexts/0/targets/0/regions/0 start=0 end=0
0/contexts/0/schemes nr_schemes=1
0/contexts/0/schemes/0 action=stat target_nid=-1 apply_interval_us=0
0/contexts/0/schemes/0/access_pattern/sz min=0 max=0
0/contexts/0/schemes/0/access_pattern/nr_accesses min=0 max=0
0/contexts/0/schemes/0/access_pattern/age min=0 max=0
0/contexts/0/schemes/0/quotas ms=0 bytes=0 reset_interval_ms=0 effective_bytes:0 goal_tuner=consist fail_charge_num=0 fail_charge_denom=0
0/contexts/0/schemes/0/quotas/weights sz_permil=0 nr_accesses_permil=0 age_permil=0
0/contexts/0/schemes/0/quotas/goals nr_goals=1
0/contexts/0/schemes/0/quotas/goals/0 target_metric=user_input target_value=0 current_value=0 nid=0 path=_
0/contexts/0/schemes/0/watermarks metric=none interval_us=0 high=0 mid=0 low=0
0/contexts/0/schemes/0/core_filters nr_filters=1
0/contexts/0/schemes/0/core_filters/0 type=anon matching=N allow=N memcg_path=_ addr_start=0 addr_end=0 min=0 max=0 damon_target_idx=0
0/contexts/0/schemes/0/ops_filters nr_filters=1
0/contexts/0/schemes/0/ops_filters/0 type=anon matching=N allow=N memcg_path=_ addr_start=0 addr_end=0 min=0 max=0 damon_target_idx=0
0/contexts/0/schemes/0/filters nr_filters=1
0/contexts/0/schemes/0/filters/0 type=anon matching=N allow=N memcg_path=_ addr_start=0 addr_end=0 min=0 max=0 damon_target_idx=0
0/contexts/0/schemes/0/dests nr_dests=1
0/contexts/0/schemes/0/dests/0 id=0 weight=0
0/contexts/0/schemes/0/stats nr_tried:0 sz_tried:0 nr_applied:0 sz_applied:0 sz_ops_filter_passed:0 qt_exceeds:0 nr_snapshots:0 max_nr_snapshots=0
0/contexts/0/schemes/0/tried_regions total_bytes:0
";

pub(crate) fn full() -> Tree {
    let tree = Tree::with_context();
    for (path, text) in MADE {
        tree.put(path, text);
    }
    tree
}

#[test]
fn every_file_is_there_with_its_mode_and_value() {
    let tree = full();
    let mut expected = Vec::new();
    for line in FILES.lines() {
        let (dir, files) = line.split_once(' ').unwrap();
        for file in files.split(' ') {
            let at = file.find(['=', ':']).unwrap();
            let (name, value) = (&file[..at], &file[at + 1..]);
            let value = if value == "_" { String::new() } else { value.replace('/', "\n") };
            let path = if dir == "-" { name.to_owned() } else { format!("{dir}/{name}") };
            let mode = if file[at..].starts_with('=') { 0o600 } else { 0o400 };
            let ino = tree.world.at(&format!("admin/kdamonds/{path}")).expect(&path);
            assert_eq!(tree.world.kind(ino).unwrap().mode, mode, "{path}");
            assert_eq!(tree.read(&path).as_deref(), Ok(format!("{value}\n").as_str()), "{path}");
            expected.push(path);
        }
    }
    let mut found = tree.files("");
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "no other file");
}

#[test]
fn writing_a_number_makes_all_directories_anew() {
    let tree = full();
    let nr = "0/contexts/0/targets/nr_targets";
    tree.put("0/contexts/0/targets/0/pid_target", "42");
    let before = tree.world.at("admin/kdamonds/0/contexts/0/targets/0/pid_target").unwrap();
    tree.put(nr, "1");
    assert_eq!(tree.read("0/contexts/0/targets/0/pid_target").as_deref(), Ok("0\n"));
    // What was open before is gone, and stays so.
    assert_eq!(tree.world.read(before), Err(rustix::io::Errno::NODEV));
    assert_eq!(tree.world.write(before, b"1"), Err(rustix::io::Errno::NODEV));
    tree.put(nr, "0");
    assert_eq!(tree.files("0/contexts/0/targets"), ["0/contexts/0/targets/nr_targets"]);
}
