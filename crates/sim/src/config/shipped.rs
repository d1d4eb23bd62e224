//! The workloads that come with Isotherm.

macro_rules! workloads {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../workloads/", $name, ".cfg")))),*]
    };
}

/// Name and text of every shipped workload.
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
];

/// The text of a shipped workload.
#[must_use]
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}
