//! Finds out why a source is not there, for the error's text. It is slow, and runs only after a
//! failure.

use std::path::Path;
use std::{fs, io};

use isotherm_core::scheme::Metric;

use super::Source;
use super::cgroup::{Cgroups, is_not_supported};
use super::error::{MetricError, MetricKind, because};
use super::text::list;
use crate::Roots;

/// Looks at what else the machine has.
#[derive(Debug)]
pub(super) struct Missing<'r> {
    roots: &'r Roots,
}

/// What a kernel command line says about PSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Psi {
    Unsaid,
    On,
    Off,
}

impl<'r> Missing<'r> {
    pub(super) const fn new(roots: &'r Roots) -> Self {
        Self { roots }
    }

    /// Why `source` at `path` could not be opened and read.
    pub(super) fn explain(
        &self,
        source: Source,
        cgroup: &str,
        path: &Path,
        err: io::Error,
    ) -> MetricError {
        self.reason(source, cgroup, path, &err).with(err)
    }

    fn reason(&self, source: Source, cgroup: &str, path: &Path, err: &io::Error) -> MetricError {
        let tried = format!("read {}", path.display());
        if err.kind() == io::ErrorKind::PermissionDenied {
            let why = "the file is not for everybody, or a container hides it";
            let hint = "run as root, and in a container with the host's /proc and /sys";
            return because(MetricKind::Permission, tried, why, hint);
        }
        let missing = err.kind() == io::ErrorKind::NotFound;
        match source {
            Source::Pressure if is_not_supported(err) => psi_off(tried),
            Source::Pressure if missing => self.no_psi(tried),
            Source::CgroupPressure if is_not_supported(err) => psi_off(tried),
            Source::CgroupPressure if missing => self.no_cgroup_psi(tried, cgroup, path),
            Source::CgroupNodes | Source::CgroupStat if missing => {
                self.no_memory_of_cgroup(source, tried, cgroup, path)
            }
            Source::Node(nr) if missing => self.no_node(tried, nr),
            _ => unexpected(tried),
        }
    }

    /// There is no pressure file: newer kernels make none if they are booted with PSI off.
    fn no_psi(&self, tried: String) -> MetricError {
        let (reason, why, hint) = match self.psi_of_cmdline() {
            Psi::Off => {
                (MetricKind::PsiOff, "this kernel was booted with psi=0", "boot without psi=0")
            }
            Psi::On => (
                MetricKind::NoPsi,
                "this kernel was booted with psi=1 and still has none: it was built without CONFIG_PSI, or \
                 a container hides it",
                "use a kernel with CONFIG_PSI (4.20 or later), or give the goal another metric",
            ),
            Psi::Unsaid => (
                MetricKind::NoPsi,
                "this kernel was built without CONFIG_PSI, or with PSI off by default \
                 (CONFIG_PSI_DEFAULT_DISABLED)",
                "boot with psi=1; `zgrep PSI /proc/config.gz` or `grep PSI /boot/config-$(uname -r)` tells \
                 whether that helps",
            ),
        };
        because(reason, tried, why, hint)
    }

    fn psi_of_cmdline(&self) -> Psi {
        let text = self.proc_text("cmdline");
        // The last one counts.
        let last = text.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix("psi="));
        match last {
            None => Psi::Unsaid,
            Some("0" | "n" | "N" | "no" | "off") => Psi::Off,
            Some(_) => Psi::On,
        }
    }

    fn no_cgroup_psi(&self, tried: String, cgroup: &str, path: &Path) -> MetricError {
        let switch = path.with_file_name("cgroup.pressure");
        if fs::read_to_string(&switch).is_ok_and(|text| text.trim() == "0") {
            let why = format!("PSI is switched off for cgroup `{cgroup}`");
            let hint = format!("`echo 1 > {}`", switch.display());
            return because(MetricKind::PsiOff, tried, why, hint);
        }
        match fs::read_to_string(self.roots.proc.root().join("pressure/memory")) {
            Ok(_) => because(
                MetricKind::NoPsi,
                tried,
                "this kernel has PSI, but not for this cgroup",
                "give a cgroup below it, or use the metric of the whole machine (some_mem_psi_us)",
            ),
            Err(err) if is_not_supported(&err) => psi_off(tried),
            Err(_) => self.no_psi(tried),
        }
    }

    fn no_memory_of_cgroup(
        &self,
        source: Source,
        tried: String,
        cgroup: &str,
        path: &Path,
    ) -> MetricError {
        let cgroups = Cgroups::mounted(&self.roots.proc);
        let has = |dir: &Path| has_memory_controller(&dir.join("cgroup.controllers"));
        let here = path.parent().unwrap_or(path);
        let (reason, why, hint) = if !cgroups.v2.as_deref().is_some_and(has) {
            match cgroups.v1_of("memory") {
                Some(v1) => (
                    MetricKind::NoMemoryController,
                    format!("the memory controller is in cgroup v1 ({}), not in v2", v1.display()),
                    "boot with cgroup_no_v1=memory, or with systemd.unified_cgroup_hierarchy=1".to_owned(),
                ),
                None => (
                    MetricKind::NoMemoryController,
                    "cgroup v2 has no memory controller here: the kernel was built without CONFIG_MEMCG, or \
                     booted with cgroup_disable=memory"
                        .to_owned(),
                    "boot without cgroup_disable=memory, or use a kernel with CONFIG_MEMCG".to_owned(),
                ),
            }
        } else if !has(here) {
            (
                MetricKind::NoMemoryController,
                format!("the memory controller is not enabled for cgroup `{cgroup}`"),
                match here.parent() {
                    Some(above) => {
                        format!("`echo +memory > {}/cgroup.subtree_control`", above.display())
                    }
                    None => String::new(),
                },
            )
        } else if source == Source::CgroupStat {
            // Every kernel with the controller has the file.
            (MetricKind::NoCgroup, "the cgroup was just removed".to_owned(), String::new())
        } else {
            (
                MetricKind::NoMemoryController,
                "this kernel does not tell a cgroup's memory by node".to_owned(),
                "use Linux 5.10 or later, built with CONFIG_NUMA".to_owned(),
            )
        };
        because(reason, tried, why, hint)
    }

    fn no_node(&self, tried: String, nr: i32) -> MetricError {
        let online = self.nodes("online");
        let (why, hint) = match online.as_slice() {
            [] => (
                "this kernel knows no NUMA nodes (CONFIG_NUMA)".to_owned(),
                "use free_mem_rate, which is of the whole machine".to_owned(),
            ),
            [only] => (
                format!("this machine has one node only, node {only}"),
                format!("give node {only}"),
            ),
            nodes => (format!("there is no node {nr}"), format!("give one of: {}", joined(nodes))),
        };
        because(MetricKind::NoNode, tried, why, hint)
    }

    /// A node of CPUs or devices alone.
    pub(super) fn node_without_memory(&self, nr: i32) -> MetricError {
        let nodes = self.nodes("has_memory");
        let tried = format!("read MemTotal of node {nr}: 0");
        let why = format!("node {nr} has no memory");
        because(
            MetricKind::NodeWithoutMemory,
            tried,
            why,
            format!("nodes with memory: {}", joined(&nodes)),
        )
    }

    fn nodes(&self, which: &str) -> Vec<u32> {
        let path = self.roots.sys.join("devices/system/node").join(which);
        list(&fs::read_to_string(path).unwrap_or_default())
    }

    fn proc_text(&self, file: &str) -> String {
        fs::read_to_string(self.roots.proc.root().join(file)).unwrap_or_default()
    }
}

fn has_memory_controller(file: &Path) -> bool {
    fs::read_to_string(file)
        .is_ok_and(|text| text.split_ascii_whitespace().any(|name| name == "memory"))
}

fn joined(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn psi_off(tried: String) -> MetricError {
    let why = "this kernel has PSI and was booted with it off";
    because(MetricKind::PsiOff, tried, why, "boot with psi=1")
}

fn unexpected(tried: String) -> MetricError {
    because(
        MetricKind::Unexpected,
        tried,
        "the kernel gave an answer that was not expected",
        "try again",
    )
}

pub(super) fn unexpected_text(source: Source, cgroup: &str) -> MetricError {
    let file = match source {
        Source::Pressure => "/proc/pressure/memory".to_owned(),
        Source::MemInfo => "/proc/meminfo".to_owned(),
        Source::VmStat => "/proc/vmstat".to_owned(),
        Source::Node(nr) => format!("the meminfo of node {nr}"),
        Source::CgroupPressure => format!("memory.pressure of cgroup `{cgroup}`"),
        Source::CgroupNodes => format!("memory.numa_stat of cgroup `{cgroup}`"),
        Source::CgroupStat => format!("memory.stat of cgroup `{cgroup}`"),
    };
    because(
        MetricKind::Unexpected,
        format!("read {file}"),
        "the text does not have what it should",
        "report it with the file's text",
    )
}

pub(super) fn no_memory() -> MetricError {
    because(MetricKind::Unexpected, "read /proc/meminfo", "it says that there is no memory", "")
}

pub(super) fn unnamed_cgroup() -> MetricError {
    because(MetricKind::NoCgroup, "", "the goal names no cgroup", "give the goal a cgroup's path")
}

/// Metrics that nobody can read here, whatever the machine.
pub(super) fn not_here(metric: Metric) -> MetricError {
    let (reason, why, hint) = match metric {
        Metric::NodeEligibleMemBp(_) => (
            MetricKind::PhysicalOnly,
            "it needs a set that monitors the physical address space; Isotherm's sets monitor processes",
            "use node_mem_used_bp or node_memcg_used_bp",
        ),
        Metric::RefaultBp | Metric::DoneBytes | Metric::RefaultedBytes => {
            (MetricKind::NotFromTheMachine, "the schemes count it, not the machine", "")
        }
        _ => (MetricKind::NotFromTheMachine, "the user gives it", "set the goal's current value"),
    };
    because(reason, "", why, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Proc;

    /// Errors that no made-up file can give.
    #[test]
    fn what_the_kernel_says() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: Proc::new(dir.path()), sys: dir.path().into() };
        let path = dir.path().join("file");
        for (source, errno, reason) in [
            (Source::Pressure, 95, MetricKind::PsiOff),
            (Source::CgroupPressure, 95, MetricKind::PsiOff),
            (Source::Pressure, 13, MetricKind::Permission),
            (Source::CgroupNodes, 13, MetricKind::Permission),
            (Source::MemInfo, 2, MetricKind::Unexpected),
            (Source::Node(0), 5, MetricKind::Unexpected),
        ] {
            let err = io::Error::from_raw_os_error(errno);
            let because = Missing::new(&roots).explain(source, "db", &path, err);
            assert_eq!(because.kind(), reason, "{source:?} {errno}: {because:?}");
            assert!(because.attempt().contains("os error"), "{because:?}");
        }
        let off = Missing::new(&roots).explain(
            Source::Pressure,
            "",
            &path,
            io::Error::from_raw_os_error(95),
        );
        assert_eq!(off.hint(), "boot with psi=1");
    }
}
