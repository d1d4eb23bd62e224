//! What cgroups use, for people: a table with the cgroups that have the most memory first.

use isotherm::raw::core::units::bytes;
use isotherm_control::types::{Cgroup, Cgroups};

use super::text::{columns, head, time};

/// Idle times of which the table has a column, in ms.
const IDLE_MS: [u64; 2] = [60_000, 600_000];

pub(super) fn table(all: &Cgroups) -> String {
    if all.cgroups.is_empty() {
        return "no cgroup that matches has a process that is watched\n".to_owned();
    }
    let mut cgroups: Vec<&Cgroup> = all.cgroups.iter().collect();
    let place =
        |group: &Cgroup| (group.cgroup.clone(), group.policy.clone(), group.context.clone());
    cgroups.sort_by_cached_key(|group| (u64::MAX - memory(group), place(group)));
    let mut rows = vec![head(&[
        "CGROUP",
        "POLICY",
        "PROCESSES",
        "HOT",
        "WARM",
        "COLD",
        "UNKNOWN",
        "IDLE 1m",
        "IDLE 10m",
        "LOOKED AT",
        "TOUCHED",
    ])];
    rows.extend(cgroups.into_iter().map(row));
    columns(&rows)
}

fn memory(group: &Cgroup) -> u64 {
    let known = group.hot_bytes.saturating_add(group.warm_bytes).saturating_add(group.cold_bytes);
    known.saturating_add(group.unresolved_bytes)
}

/// How much has been idle for so long. If nothing has, it is only known where the cgroup has been
/// watched for so long.
fn idle(group: &Cgroup, ms: u64) -> String {
    let long = group.idle.iter().filter(|idle| idle.idle_ms >= ms).map(|idle| idle.bytes);
    let is_long = group.watched_ns.is_some_and(|ns| ns / 1_000_000 >= ms);
    match long.fold(0, u64::saturating_add) {
        0 if !is_long => "-".to_owned(),
        long => bytes(long),
    }
}

fn row(group: &Cgroup) -> Vec<String> {
    let processes = match group.waiting {
        0 => group.processes.to_string(),
        waiting => format!("{} (+{waiting})", group.processes),
    };
    let touched = group.touched.iter();
    let touched = touched.map(|span| format!("{} in {}", bytes(span.bytes), time(span.span_ns)));
    let touched: Vec<String> = touched.collect();
    vec![
        group.cgroup.clone(),
        format!("{}/{}", group.policy, group.context),
        processes,
        bytes(group.hot_bytes),
        bytes(group.warm_bytes),
        bytes(group.cold_bytes),
        bytes(group.unresolved_bytes),
        idle(group, IDLE_MS[0]),
        idle(group, IDLE_MS[1]),
        format!("{} ago", time(group.look_age_ns)),
        if touched.is_empty() {
            format!("{} in a window", bytes(group.working_set_bytes))
        } else {
            touched.join(", ")
        },
    ]
}

#[cfg(test)]
mod tests {
    use isotherm_control::types::{Idle, Touched};

    use super::*;

    #[test]
    fn the_cgroup_with_the_most_memory_comes_first() {
        let idle = |idle_ms, mib: u64| Idle { idle_ms, bytes: mib << 20 };
        let span = Touched { span_ns: 1_000_000_000, bytes: 3 << 20, ..Touched::default() };
        let small = Cgroup {
            cgroup: "/small".into(),
            policy: "p".into(),
            context: "c".into(),
            processes: 1,
            waiting: 2,
            hot_bytes: 1 << 20,
            working_set_bytes: 5 << 20,
            ..Cgroup::default()
        };
        let large = Cgroup {
            cgroup: "/large".into(),
            processes: 7,
            waiting: 0,
            warm_bytes: 2 << 20,
            cold_bytes: 64 << 20,
            idle: vec![idle(1000, 1), idle(60_000, 2), idle(700_000, 4)],
            touched: vec![span],
            look_age_ns: 2_000_000_000,
            ..small.clone()
        };
        let text = table(&Cgroups { cgroups: vec![small, large] });
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!((lines[1][0], lines[2][0]), ("/large", "/small"), "{text}");
        assert!(text.contains("6.00 MiB") && text.contains("4.00 MiB"), "idle: {text}");
        assert!(text.contains("3.00 MiB in 1") && text.contains("5.00 MiB in a window"), "{text}");
        assert_eq!((lines[1][2], &lines[2][2..4]), ("7", &["1", "(+2)"][..]), "{text}");
        assert!(table(&Cgroups::default()).starts_with("no cgroup"));
    }

    #[test]
    fn nothing_is_idle_only_after_it_was_watched_for_so_long() {
        let minutes = |minutes: u64| Some(minutes * 60_000_000_000);
        let all = [Idle { idle_ms: 1000, bytes: 1 << 20 }, Idle { idle_ms: 90_000, bytes: 4096 }];
        for (watched_ns, nr_idle, told) in [
            (None, 1, ["-", "-"]),
            (Some(0), 1, ["-", "-"]),
            (Some(59_999_999_999), 1, ["-", "-"]),
            (minutes(1), 1, ["0 B", "-"]),
            (minutes(10), 1, ["0 B", "0 B"]),
            // A process that has come from another cgroup.
            (Some(5), 2, ["4.00 KiB", "-"]),
        ] {
            let group = Cgroup { watched_ns, idle: all[..nr_idle].to_vec(), ..Cgroup::default() };
            assert_eq!(IDLE_MS.map(|ms| idle(&group, ms)), told, "{watched_ns:?}");
        }
    }
}
