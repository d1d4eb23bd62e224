//! Which of the shipped workloads a job measures.

use std::path::Path;
use std::process::Command;

use isotherm_sim::config::Layout;

use crate::job::Spec;

/// What `--only` calls the group below.
pub(super) const GROUP: &str = "scattered";
/// Workloads that no region-based monitor finds easy: memory whose hot parts lie scattered, or are
/// shared after forks, or that is gone over so that nothing stays hot. Some are shipped as files,
/// some are layouts whose parameters their names say.
const SCATTERED: [&str; 23] = [
    "scattered-2m",
    "scattered-2m-3",
    "scattered-2m-30",
    "scattered-256k",
    "scattered-256k-3",
    "scattered-256k-30",
    "scattered-64k",
    "scattered-64k-3",
    "scattered-64k-30",
    "scattered-4k",
    "scattered-4k-3",
    "scattered-4k-30",
    "text",
    "moving",
    "hash-table",
    "sweep-fast",
    "sweep",
    "sweep-slow",
    "sweep-blocks-fast",
    "sweep-blocks",
    "sweep-blocks-slow",
    "bursts",
    "shared",
];
/// What workloads of 8 GiB have in their names. They need more memory than most machines for tests
/// have, so they run only if they are named.
const LARGE: &str = "large";
/// The memory that they and their monitor need, in GiB.
const LARGE_GIB: u64 = 10;

/// Whether `workload` is of the group `scattered`. Layouts with other parameters are, too.
pub(super) fn is_scattered(workload: &str) -> bool {
    SCATTERED.contains(&workload) || (is_layout(workload) && !workload.starts_with(LARGE))
}

/// Whether `name` says the parameters of a workload, as `scattered-64k-3`. The name of the group is
/// none.
fn is_layout(name: &str) -> bool {
    name != GROUP && Layout::of_name(name).is_some()
}

/// The memory in GiB that a job needs which otherwise needs `usual_gib`.
pub(super) fn memory_gib(spec: &Spec, usual_gib: u64) -> u64 {
    if spec.only.iter().any(|o| o.starts_with(LARGE)) { LARGE_GIB } else { usual_gib }
}

/// The workloads that `--only` names, by themselves, by their group or by their parameters. If it
/// names none, those that are `usual` for the job; large ones never are.
pub(super) fn wanted(spec: &Spec, shipped: &[String], usual: impl Fn(&str) -> bool) -> Vec<String> {
    let by_group = spec.only.iter().any(|o| o == GROUP);
    let named = |o: &str| shipped.iter().any(|name| name == o) || is_layout(o);
    let limited = by_group || spec.only.iter().any(|o| named(o));
    // In the order of the list, those that are not shipped as files behind them.
    let mut all = shipped.to_vec();
    let of_group = SCATTERED.iter().copied().filter(|_| by_group || !limited);
    for name in of_group.chain(spec.only.iter().map(String::as_str).filter(|o| named(o))) {
        if !all.iter().any(|known| known == name) {
            all.push(name.to_owned());
        }
    }
    let is_wanted = |name: &String| {
        if limited {
            spec.only.contains(name) || (by_group && SCATTERED.contains(&name.as_str()))
        } else {
            !name.starts_with(LARGE) && usual(name)
        }
    };
    all.retain(is_wanted);
    all
}

/// A line that says which workloads a result is about.
pub(super) fn ran<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    format!("\nWorkloads: {}.\n", all.join(", "))
}

/// Names of the shipped workloads, as the binary under test lists them.
pub(super) fn shipped(isotherm: &Path) -> anyhow::Result<Vec<String>> {
    let list = super::output(Command::new(isotherm).args(["workload", "--list"]))?;
    // Behind an empty line, it says which workloads have parameters.
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names: Vec<String> =
        lines.filter_map(|l| l.split_whitespace().next()).map(str::to_owned).collect();
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
        let sorted = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            names.sort_unstable();
            names
        };
        let mut group = of(&["scattered"]);
        group.sort_unstable();
        assert_eq!(group, sorted(&SCATTERED));
        assert_eq!(of(&["stairs", "census"]), ["stairs"]);
        assert_eq!(of(&["large", "sweep"]), ["sweep", "large"]);
        assert_eq!(of(&["scattered", "tier"])[..2], ["tier", "scattered-2m"]);
        for only in [&[][..], &["census", "pagewalk"]] {
            let all = of(only);
            // Of the group some are layouts; `tier` is not usual, and `large` never.
            let layouts = SCATTERED.iter().filter(|n| !SHIPPED.iter().any(|(s, _)| s == *n));
            assert_eq!(all.len(), SHIPPED.len() - 2 + layouts.count(), "{all:?}");
            assert!(!all.iter().any(|name| name == "large" || name == "tier"));
        }
    }

    #[test]
    fn parameters_are_wanted_by_name() {
        assert_eq!(of(&["scattered-64k-5"]), ["scattered-64k-5"]);
        assert_eq!(of(&["sweep-blocks-300ms", "census"]), ["sweep-blocks-300ms"]);
        assert_eq!(of(&["large-clustered"]), ["large-clustered"]);
        assert_eq!(of(&["scattered-64k-500"]), of(&[]), "no name of a workload");
        assert!(is_scattered("scattered-8k-2") && !is_scattered("large-clustered"));
        let spec = Spec { only: vec!["large-clustered".into()], ..Spec::of_test("accuracy") };
        assert_eq!((memory_gib(&spec, 3), memory_gib(&Spec::of_test("x"), 3)), (LARGE_GIB, 3));
    }

    #[test]
    fn what_ran_is_said_once() {
        assert_eq!(ran(["a", "b", "a"].into_iter()), "\nWorkloads: a, b.\n");
    }
}
