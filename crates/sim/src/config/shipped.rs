//! The workloads that come with Isotherm.

use std::borrow::Cow;

use super::Layout;

macro_rules! workloads {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../workloads/", $name, ".cfg")))),*]
    };
}

/// Name and text of every shipped workload. As a real process `large` needs 8.1 GiB, and the others
/// at most 2.1 GiB each.
pub const SHIPPED: &[(&str, &str)] = workloads![
    "stairs",
    "zigzag",
    "zipf",
    "hot10",
    "sparse-thp",
    "phase-change",
    "fork-tree",
    "mmap-churn",
    "tier",
    "tier-scattered",
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
    "bursts",
    "shared",
    "large",
];

/// The text of a shipped workload, or of a [`Layout`].
#[must_use]
pub fn shipped(name: &str) -> Option<Cow<'static, str>> {
    let file = SHIPPED.iter().find(|(n, _)| *n == name).map(|(_, text)| Cow::Borrowed(*text));
    file.or_else(|| Layout::of_name(name).map(|layout| Cow::Owned(layout.text())))
}
