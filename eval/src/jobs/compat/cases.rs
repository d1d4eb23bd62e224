//! What is run, and what it has to say.

/// A command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// Its words, without the program. `PID` is the target's.
    pub(super) words: &'static str,
    /// What has to be in its output, besides that it ends with 0.
    pub(super) says: &'static str,
}

const fn case(words: &'static str, says: &'static str) -> Case {
    Case { words, says }
}

/// Commands of damo 3.4, in an order in which each finds what it needs.
pub(super) const DAMO: &[Case] = &[
    case("version", "."),
    case("features", "sysfs/schemes_quota_goals"),
    case("report sysinfo", "damo version"),
    case("args damon PID", "kdamonds"),
    case("start PID --damos_action stat", ""),
    case("report damon", "state: on"),
    case("report damon --json", "\"state\": \"on\""),
    case("tune PID --monitoring_nr_regions_range 20 200 --damos_action stat", ""),
    case("report damon", "[20, 200]"),
    case("report access", "access"),
    case("report access --style detailed", "total size"),
    case("report access --style simple-boxes", "total size"),
    case("report access --style hot", "total size"),
    case("report access --style cold", "total size"),
    case("report access --style temperature-sz-hist", "total size"),
    case("report access --style recency-sz-hist", "idle time"),
    case("report access --style cold-memory-tail", "idle time"),
    case("report access --style recency-percentiles", "|"),
    case("report access --style temperature-percentiles", "|"),
    case("report access --raw_form", "-"),
    case("report access --total_sz_only", "iB"),
    case("record --snapshot 0s 1", ""),
    case("report access --input_file damon.data", "total size"),
    case("stop", ""),
    case("report damon", "state: off"),
    case("record PID --timeout 4", ""),
    case("report access --input_file damon.data", "total size"),
    case("report heatmap --input damon.data --output stdout", "x-axis"),
    case("report wss --input damon.data", "100"),
    case("report nr_regions --input damon.data", "100"),
    case("report record_info --input damon.data", ""),
    // Hot functions are the real `perf`'s business, which need not be there.
    case("report holistic --access_pattern damon.data --perf_path true", "Heatmap"),
    case("monitor PID --count 2", "8"),
    case("monitor PID --report_type wss --count 2", "target_id"),
    case("schemes \"sleep 3\" --damos_action stat", ""),
    case("reclaim enable", ""),
    case("reclaim disable", ""),
    case("lru_sort enable", ""),
    case("lru_sort disable", ""),
    case("module stat write enabled Y", ""),
    case("module stat read enabled", "Y"),
    case("module stat read idle_time_percentiles", "100"),
    case("module stat write enabled N", ""),
    case("module stat read", "memory_idle_ms_percentiles"),
];

/// The commands of a smoke run, with what they need of each other.
pub(super) const QUICK: &[&str] = &[
    "version",
    "start PID --damos_action stat",
    "report damon",
    "tune PID --monitoring_nr_regions_range 20 200 --damos_action stat",
    "report access",
    "record --snapshot 0s 1",
    "stop",
    "record PID --timeout 4",
    "report access --input_file damon.data",
];

/// The kernel's selftests that need no kernel module and no debug kernel, and do not count objects
/// inside of the kernel. Those that begin with `debugfs` are in kernels up to 6.13, the last two of
/// the others in kernels from 6.17 and 7.2 on.
pub(super) const SELFTESTS: &[Case] = &[
    case("sysfs.sh", ""),
    case("damos_quota.py", ""),
    case("damos_quota_goal.py", ""),
    case("damos_apply_interval.py", ""),
    case("damos_tried_regions.py", ""),
    case("damon_nr_regions.py", ""),
    case("sysfs_update_schemes_tried_regions_wss_estimation.py", ""),
    case("sysfs_update_schemes_tried_regions_hang.py", ""),
    case("sysfs_update_removed_scheme_dir.sh", ""),
    case("reclaim.sh", ""),
    case("lru_sort.sh", ""),
    case("sysfs.py", ""),
    case("sysfs_no_op_commit_break.py", ""),
    case("debugfs_attrs.sh", ""),
    case("debugfs_schemes.sh", ""),
    case("debugfs_target_ids.sh", ""),
    case("debugfs_empty_targets.sh", ""),
    case("debugfs_duplicate_context_creation.sh", ""),
    case("debugfs_rm_non_contexts.sh", ""),
    case("debugfs_huge_count_read_write.sh", ""),
    case("debugfs_target_ids_read_before_terminate_race.sh", ""),
];
