//! What files take, and what the kernel says to the rest (R§5.1, R§5.2).

use rustix::io::Errno;

use crate::layout::full;

#[test]
fn values_are_taken_or_refused_as_by_the_kernel() {
    let tree = full();
    let context = "0/contexts/0";
    let scheme = "0/contexts/0/schemes/0";
    for (dir, file, text, expected) in [
        (context, "monitoring_attrs/intervals/sample_us", "0x10\n", Ok("16")),
        (context, "monitoring_attrs/intervals/aggr_us", "010", Ok("8")),
        (context, "monitoring_attrs/intervals/aggr_us", "-1", Err(Errno::INVAL)),
        (context, "monitoring_attrs/intervals/aggr_us", "18446744073709551616", Err(Errno::RANGE)),
        (context, "monitoring_attrs/probes/nr_probes", "5", Err(Errno::INVAL)),
        (context, "operations", "paddr\n", Ok("paddr")),
        (context, "operations", "foo", Err(Errno::INVAL)),
        (context, "addr_unit", "0", Err(Errno::INVAL)),
        (context, "addr_unit", "3", Ok("3")),
        (context, "pause", "yes", Ok("Y")),
        (context, "pause", "maybe", Err(Errno::INVAL)),
        (context, "targets/0/pid_target", "99999999999", Err(Errno::INVAL)),
        (context, "targets/0/pid_target", "-5", Ok("-5")),
        (context, "targets/nr_targets", "-1", Err(Errno::INVAL)),
        (context, "targets/nr_targets", "99999999999", Err(Errno::RANGE)),
        (context, "avail_operations", "vaddr", Err(Errno::ACCESS)),
        (scheme, "action", "migrate_cold\n", Ok("migrate_cold")),
        (scheme, "action", "migrate_cold\n\n", Err(Errno::INVAL)),
        (scheme, "target_nid", "-1", Ok("-1")),
        (scheme, "quotas/ms", "18446744073709551616", Err(Errno::INVAL)),
        (scheme, "quotas/fail_charge_num", "4294967296", Err(Errno::INVAL)),
        (scheme, "quotas/weights/sz_permil", "4294967296", Err(Errno::RANGE)),
        (scheme, "quotas/goal_tuner", "temporal", Ok("temporal")),
        (scheme, "quotas/goals/0/target_metric", "node_memcg_free_bp", Ok("node_memcg_free_bp")),
        (scheme, "core_filters/0/type", "young", Err(Errno::INVAL)),
        (scheme, "core_filters/0/type", "addr", Ok("addr")),
        (scheme, "ops_filters/0/type", "addr", Err(Errno::INVAL)),
        (scheme, "filters/0/type", "target", Ok("target")),
        (scheme, "filters/0/type", "foo", Err(Errno::INVAL)),
        // The newline that `echo` writes is kept, as in the kernel.
        (scheme, "filters/0/memcg_path", "/a/b\n", Ok("/a/b\n")),
        (scheme, "stats/nr_tried", "1", Err(Errno::ACCESS)),
        (scheme, "stats/max_nr_snapshots", "1", Ok("1")),
        (scheme, "watermarks/metric", "free_mem_rate", Ok("free_mem_rate")),
        ("0", "refresh_ms", "4294967296", Err(Errno::RANGE)),
        ("0", "contexts/nr_contexts", "2", Err(Errno::INVAL)),
        ("0", "state", "foo", Err(Errno::INVAL)),
        ("0", "pid", "1", Err(Errno::ACCESS)),
    ] {
        let path = format!("{dir}/{file}");
        let before = tree.read(&path).unwrap();
        let wrote = tree.write(&path, text);
        let now = tree.read(&path).unwrap();
        match expected {
            Ok(value) => {
                assert_eq!(wrote, Ok(text.len()), "{path} <- {text:?}");
                assert_eq!(now, format!("{value}\n"), "{path} <- {text:?}");
            }
            Err(errno) => {
                assert_eq!(wrote, Err(errno), "{path} <- {text:?}");
                assert_eq!(now, before, "{path} <- {text:?} has changed nothing");
            }
        }
    }
}

#[test]
fn only_a_page_of_a_write_is_looked_at() {
    let tree = full();
    let path = "0/contexts/0/schemes/0/filters/0/memcg_path";
    let long = "x".repeat(10_000);
    assert_eq!(tree.write(path, &long), Ok(4096));
    assert_eq!(tree.read(path).unwrap().len(), 4097);
    assert_eq!(tree.write(path, ""), Ok(0), "an empty write does nothing");
    assert_eq!(tree.read(path).unwrap().len(), 4097);
}
