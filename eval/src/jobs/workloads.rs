//! Which of the shipped workloads a job measures.

use std::path::Path;
use std::process::Command;

use crate::job::Spec;

/// What `--only` calls the group below.
const GROUP: &str = "scattered";
/// Workloads that no region-based monitor finds easy: memory whose hot parts lie scattered, or are
/// shared after forks, or that is gone over so that nothing stays hot.
const SCATTERED: [&str; 14] = [
    "scattered-2m",
    "scattered-256k",
    "scattered-256k-3",
    "scattered-256k-30",
    "scattered-64k",
    "scattered-4k",
    "text",
    "moving",
    "hash-table",
    "sweep-fast",
    "sweep",
    "sweep-slow",
    "sweep-blocks",
    "shared",
];
/// Needs more memory than most machines for tests have, so it runs only if it is named.
const LARGE: &str = "large";
/// The memory that `large` and its monitor need, in GiB.
const LARGE_GIB: u64 = 10;

/// Whether `workload` is of the group `scattered`.
pub(super) fn is_scattered(workload: &str) -> bool {
    SCATTERED.contains(&workload)
}

/// The memory in GiB that a job needs which otherwise needs `usual_gib`.
pub(super) fn memory_gib(spec: &Spec, usual_gib: u64) -> u64 {
    if spec.only.iter().any(|o| o == LARGE) { LARGE_GIB } else { usual_gib }
}

/// The workloads that `--only` names, by themselves or by their group. If it names none, those that
/// are `usual` for the job; `large` never is.
pub(super) fn wanted(spec: &Spec, shipped: &[String], usual: impl Fn(&str) -> bool) -> Vec<String> {
    let named = |o: &String| o == GROUP || shipped.contains(o);
    let limited = spec.only.iter().any(named);
    let by_group = spec.only.iter().any(|o| o == GROUP);
    let is_wanted = |name: &&String| {
        if limited {
            spec.only.contains(name) || (by_group && is_scattered(name))
        } else {
            *name != LARGE && usual(name)
        }
    };
    shipped.iter().filter(is_wanted).cloned().collect()
}

/// Names of the shipped workloads, as the binary under test lists them.
pub(super) fn shipped(isotherm: &Path) -> anyhow::Result<Vec<String>> {
    let list = super::output(Command::new(isotherm).args(["workload", "--list"]))?;
    let names: Vec<String> =
        list.lines().filter_map(|l| l.split_whitespace().next()).map(str::to_owned).collect();
    anyhow::ensure!(!names.is_empty(), "`isotherm workload --list` names no workload");
    Ok(names)
}

#[cfg(test)]
mod tests {
    use isotherm_sim::config::SHIPPED;

    use super::*;

    fn of(only: &[&str]) -> Vec<String> {
        let shipped: Vec<String> = SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
        let only = only.iter().map(|o| (*o).to_owned()).collect();
        wanted(&Spec { only, ..Spec::of_test("accuracy") }, &shipped, |name| name != "tier")
    }

    #[test]
    fn names_and_the_group_are_wanted() {
        assert_eq!(of(&["scattered"]), SCATTERED, "all are shipped, in this order");
        assert_eq!(of(&["stairs", "census"]), ["stairs"]);
        assert_eq!(of(&["large", "sweep"]), ["sweep", "large"]);
        assert_eq!(of(&["scattered", "tier"])[..2], ["tier", "scattered-2m"]);
        for only in [&[][..], &["census", "pagewalk"]] {
            let all = of(only);
            assert_eq!(all.len(), SHIPPED.len() - 2, "{all:?}");
            assert!(!all.iter().any(|name| name == "large" || name == "tier"));
        }
    }
}
