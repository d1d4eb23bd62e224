//! What goals and watermarks measure, read from this machine.
//!
//! [`Metrics::read`] answers a [`Metric`] with the reference's numbers (R§4.6): parts are
//! `mult_frac(part, 10000, whole)` in basis points, the free memory rate is `free * 1000 / total`,
//! and pressure is the total since boot in µs, of which the core takes differences. A number that
//! this machine does not have is a [`MetricError`], never a zero.
//!
//! Memory that came back after it was reclaimed is `workingset_refault_anon` and `_file` of
//! `/proc/vmstat` and of a cgroup's `memory.stat` (`workingset_refault` until Linux 5.8), in bytes.
//! These count up as well, and whatever was reclaimed counts, whoever asked for that.
//!
//! Files stay open and are read at offset 0 into one buffer, so that a reading that works costs one
//! system call per file and allocates nothing. A file that fails is opened once more: a cgroup may
//! have been made anew.
//!
//! The kernel adds up pressure every 2 s. A reading in between shows the total of the last time,
//! here as in the kernel's own goals.
//!
//! Absent on purpose: `user_input` and `refault_bp`, which others know, and `node_eligible_mem_bp`,
//! which needs a physical address space.

pub mod cgroup;
mod error;
mod missing;
mod text;

use std::fs::File;
use std::path::PathBuf;

use isotherm_core::math::mult_frac;
use isotherm_core::scheme::{CgroupId, Metric};

use crate::Roots;
use crate::again::read_again;
use crate::proc::meminfo_kib;
pub use cgroup::Cgroups;
use missing::Missing;
pub(crate) use text::pressure_total;
pub use text::refaulted;

pub use error::{MetricError, MetricKind};

/// The metrics of a machine.
#[derive(Debug)]
pub struct Metrics {
    roots: Roots,
    open: Vec<Open>,
    buf: Vec<u8>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Roots::default())
    }
}

/// A file that numbers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Pressure,
    MemInfo,
    Node(i32),
    VmStat,
    CgroupPressure,
    CgroupNodes,
    CgroupStat,
}

/// A source that is open. `cgroup` is empty for those without.
#[derive(Debug)]
struct Open {
    source: Source,
    cgroup: String,
    file: File,
}

/// Enough for every text on a machine with a few nodes; it doubles where that is not so.
const BUF: usize = 8 << 10;
/// Files held open at most: cgroups that a policy no longer names must not pile up.
const MAX_OPEN: usize = 64;

impl Metrics {
    /// Those of the machine that shows itself at `roots`. Opens nothing yet.
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self { roots, open: Vec::new(), buf: vec![0; BUF] }
    }

    /// Measures. `cgroups` has the paths of the cgroups below the mount of cgroup v2, by the number
    /// that is a [`CgroupId`].
    ///
    /// Units: the metric's; for pressure the total since boot in µs.
    ///
    /// # Errors
    ///
    /// If this machine does not have the number, or not now.
    pub fn read(&mut self, metric: Metric, cgroups: &[String]) -> Result<u64, MetricError> {
        self.measure(metric, cgroups).map_err(|why| error::of(why, &what(metric, cgroups)))
    }

    /// Whether [`Metrics::read`] works here; for checking a policy before it runs.
    ///
    /// # Errors
    ///
    /// As [`Metrics::read`].
    pub fn check(&mut self, metric: Metric, cgroups: &[String]) -> Result<(), MetricError> {
        self.read(metric, cgroups).map(drop)
    }

    fn measure(&mut self, metric: Metric, cgroups: &[String]) -> Result<u64, MetricError> {
        let cgroup = |CgroupId(nr): CgroupId| {
            let nr = usize::try_from(nr).unwrap_or(usize::MAX);
            cgroups.get(nr).map(String::as_str).ok_or_else(missing::unnamed_cgroup)
        };
        match metric {
            Metric::SomeMemPsiUs => self.pressure(Source::Pressure, "", "some"),
            Metric::FullMemPsiUs => self.pressure(Source::Pressure, "", "full"),
            Metric::CgroupSomeMemPsiUs(id) => {
                self.pressure(Source::CgroupPressure, cgroup(id)?, "some")
            }
            Metric::CgroupFullMemPsiUs(id) => {
                self.pressure(Source::CgroupPressure, cgroup(id)?, "full")
            }
            Metric::FreeMemRate => {
                let [free, total] = self.fields(Source::MemInfo, ["MemFree:", "MemTotal:"])?;
                free.saturating_mul(1000).checked_div(total).ok_or_else(missing::no_memory)
            }
            Metric::NodeMemUsedBp(node) => {
                let [free, total] = self.node(node)?;
                bp(total.saturating_sub(free), total)
            }
            Metric::NodeMemFreeBp(node) => {
                let [free, total] = self.node(node)?;
                bp(free, total)
            }
            Metric::NodeMemcgUsedBp(node, id) => {
                let (used, total) = self.node_of_cgroup(node, cgroup(id)?)?;
                bp(used, total)
            }
            Metric::NodeMemcgFreeBp(node, id) => {
                let (used, total) = self.node_of_cgroup(node, cgroup(id)?)?;
                bp(total.saturating_sub(used), total)
            }
            Metric::ActiveMemBp => {
                let [active, rest] = self.fields(Source::MemInfo, ["Active:", "Inactive:"])?;
                bp(active, active.saturating_add(rest))
            }
            Metric::InactiveMemBp => {
                let [active, rest] = self.fields(Source::MemInfo, ["Active:", "Inactive:"])?;
                bp(rest, active.saturating_add(rest))
            }
            Metric::WorkingsetRefaultBytes => self.parse(Source::VmStat, "", refaulted),
            Metric::CgroupWorkingsetRefaultBytes(id) => {
                self.parse(Source::CgroupStat, cgroup(id)?, refaulted)
            }
            Metric::UserInput
            | Metric::RefaultBp
            | Metric::DoneBytes
            | Metric::RefaultedBytes
            | Metric::NodeEligibleMemBp(_) => Err(missing::not_here(metric)),
        }
    }

    fn pressure(&mut self, source: Source, cgroup: &str, line: &str) -> Result<u64, MetricError> {
        self.parse(source, cgroup, |text| pressure_total(text, line))
    }

    fn fields<const N: usize>(
        &mut self,
        source: Source,
        names: [&str; N],
    ) -> Result<[u64; N], MetricError> {
        self.parse(source, "", |text| {
            let mut out = [0; N];
            for (out, name) in out.iter_mut().zip(names) {
                *out = meminfo_kib(text, name)?;
            }
            Some(out)
        })
    }

    /// Free and total memory of a node, in KiB.
    fn node(&mut self, node: i32) -> Result<[u64; 2], MetricError> {
        let found = self.fields(Source::Node(node), ["MemFree:", "MemTotal:"])?;
        if found[1] == 0 {
            return Err(Missing::new(&self.roots).node_without_memory(node));
        }
        Ok(found)
    }

    /// A cgroup's memory on a node and all of the node's, in bytes.
    fn node_of_cgroup(&mut self, node: i32, cgroup: &str) -> Result<(u64, u64), MetricError> {
        let [_, total] = self.node(node)?;
        let used = self.parse(Source::CgroupNodes, cgroup, |text| {
            let mut used = 0_u64;
            for kind in ["active_anon", "inactive_anon", "active_file", "inactive_file"] {
                used = used.saturating_add(text::on_node(text, kind, node)?);
            }
            Some(used)
        })?;
        Ok((used, total.saturating_mul(1024)))
    }

    /// Reads a source and takes something out of its text.
    fn parse<T>(
        &mut self,
        source: Source,
        cgroup: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, MetricError> {
        let known = self.open.iter().position(|o| o.source == source && o.cgroup == cgroup);
        let from_known = known.and_then(|nr| {
            let len = read_again(&self.open.get(nr)?.file, &mut self.buf);
            if len.is_err() {
                self.open.swap_remove(nr);
            }
            len.ok()
        });
        let len = match from_known {
            Some(len) => len,
            None => self.open_and_read(source, cgroup)?,
        };
        let text = self.buf.get(..len).and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.and_then(parse).ok_or_else(|| missing::unexpected_text(source, cgroup))
    }

    #[cold]
    fn open_and_read(&mut self, source: Source, cgroup: &str) -> Result<usize, MetricError> {
        let path = self.path(source, cgroup)?;
        let read = File::open(&path).and_then(|file| Ok((read_again(&file, &mut self.buf)?, file)));
        let (len, file) =
            read.map_err(|err| Missing::new(&self.roots).explain(source, cgroup, &path, err))?;
        if self.open.len() >= MAX_OPEN {
            self.open.swap_remove(0);
        }
        self.open.push(Open { source, cgroup: cgroup.to_owned(), file });
        Ok(len)
    }

    fn path(&self, source: Source, cgroup: &str) -> Result<PathBuf, MetricError> {
        let in_cgroup = || Cgroups::mounted(&self.roots.proc).v2_dir(cgroup);
        Ok(match source {
            Source::Pressure => self.roots.proc.root().join("pressure/memory"),
            Source::MemInfo => self.roots.proc.root().join("meminfo"),
            Source::VmStat => self.roots.proc.root().join("vmstat"),
            Source::Node(nr) => {
                self.roots.sys.join(format!("devices/system/node/node{nr}/meminfo"))
            }
            Source::CgroupPressure => in_cgroup()?.join("memory.pressure"),
            Source::CgroupNodes => in_cgroup()?.join("memory.numa_stat"),
            Source::CgroupStat => in_cgroup()?.join("memory.stat"),
        })
    }
}

/// A part in basis points of the whole.
fn bp(part: u64, whole: u64) -> Result<u64, MetricError> {
    if whole == 0 { Err(missing::no_memory()) } else { Ok(mult_frac(part, 10_000, whole)) }
}

/// The metric in words.
fn what(metric: Metric, cgroups: &[String]) -> String {
    let mut out = format!("metric `{}`", metric.name());
    let (node, id) = match metric {
        Metric::NodeMemcgUsedBp(node, id) | Metric::NodeMemcgFreeBp(node, id) => {
            (Some(node), Some(id))
        }
        Metric::NodeMemUsedBp(node)
        | Metric::NodeMemFreeBp(node)
        | Metric::NodeEligibleMemBp(node) => (Some(node), None),
        Metric::CgroupSomeMemPsiUs(id)
        | Metric::CgroupFullMemPsiUs(id)
        | Metric::CgroupWorkingsetRefaultBytes(id) => (None, Some(id)),
        _ => (None, None),
    };
    if let Some(node) = node {
        out += &format!(" of node {node}");
    }
    let path = id.and_then(|CgroupId(nr)| cgroups.get(usize::try_from(nr).ok()?));
    if let Some(path) = path {
        out += &format!(" of cgroup `{path}`");
    }
    out
}
