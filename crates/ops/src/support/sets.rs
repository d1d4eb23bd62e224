//! For each operations set that the design knows, whether this machine could run it.

use std::path::Path;

use isotherm_host::{Machine, Roots};
use serde::Serialize;

use super::Support;

/// The operations sets, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SetName {
    /// Page tables read by eBPF.
    PageWalk,
    /// The kernel's idle page tracking.
    Idle,
    /// The kernel's own DAMON.
    Kdamond,
    /// Writes, by userfaultfd write protection.
    Written,
    /// Whole mappings, by `clear_refs` and `smaps`.
    Smaps,
}

impl SetName {
    /// All of them, best first.
    pub const ALL: [Self; 5] =
        [Self::PageWalk, Self::Idle, Self::Kdamond, Self::Written, Self::Smaps];

    /// As in `--ops`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PageWalk => "pagewalk",
            Self::Idle => "idle",
            Self::Kdamond => "kdamond",
            Self::Written => "written",
            Self::Smaps => "smaps",
        }
    }

    /// The set called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }

    /// Whether this version of Isotherm has the set. The others are only looked for.
    #[must_use]
    pub const fn is_built(self) -> bool {
        matches!(self, Self::PageWalk | Self::Idle | Self::Kdamond | Self::Smaps)
    }

    /// Whether the set may be taken without being asked for by name. The whole machine shares the
    /// kernel's DAMON, so nothing is started there unless the user asks.
    #[must_use]
    pub const fn is_automatic(self) -> bool {
        self.is_built() && !matches!(self, Self::Kdamond)
    }

    /// Whether it can watch physical memory.
    #[must_use]
    pub const fn sees_physical(self) -> bool {
        matches!(self, Self::Idle | Self::Kdamond)
    }

    /// What it sees, in a few words.
    #[must_use]
    pub const fn sees(self) -> &'static str {
        match self {
            Self::PageWalk => "reads and writes, per page",
            Self::Idle => "reads and writes, per page, page cache too",
            Self::Kdamond => "what the kernel's DAMON sees",
            Self::Written => "writes only, per page",
            Self::Smaps => "reads and writes, per mapping only",
        }
    }
}

/// Whether the set can be had here, by what lies open to see. For `pagewalk`, opening it
/// ([`PageWalk::new`](crate::pagewalk::PageWalk::new)) gives the full answer.
#[must_use]
pub fn detect(set: SetName, machine: &Machine, roots: &Roots) -> Support {
    match set {
        SetName::PageWalk => page_walk(machine),
        SetName::Idle => idle(machine, &roots.sys),
        SetName::Kdamond => kdamond(machine, &roots.sys),
        SetName::Written => written(machine),
        SetName::Smaps => smaps(machine, roots),
    }
}

fn page_walk(machine: &Machine) -> Support {
    if machine.arch != "x86_64" {
        let why = format!("page tables of {} are not known yet", machine.arch);
        return Support::no(why, None, "use another set");
    }
    if !machine.btf {
        return Support::no(
            "the kernel does not describe its types (no /sys/kernel/btf/vmlinux)",
            Some("5.17"),
            "boot a kernel with CONFIG_DEBUG_INFO_BTF, as the distributions' are",
        );
    }
    if machine.lockdown.as_deref() == Some("confidentiality") {
        return Support::no(
            "kernel lockdown (confidentiality) keeps BPF programs from reading kernel memory",
            Some("5.17"),
            "boot with lockdown=integrity",
        );
    }
    Support::Unknown { why: "the kernel has to be asked to load the program".to_owned() }
}

fn idle(machine: &Machine, sys: &Path) -> Support {
    if !sys.join("kernel/mm/page_idle/bitmap").exists() {
        return Support::no(
            "this kernel was built without CONFIG_IDLE_PAGE_TRACKING",
            Some("4.3"),
            "boot a kernel that has it",
        );
    }
    needs(machine, "CAP_SYS_ADMIN")
}

/// Checks only whether the directory exists: another program may be using it.
fn kdamond(machine: &Machine, sys: &Path) -> Support {
    if !sys.join("kernel/mm/damon/admin").exists() {
        return Support::no(
            "this kernel was built without CONFIG_DAMON_SYSFS, or we may not see it",
            Some("5.18"),
            "boot a kernel that has it",
        );
    }
    match needs(machine, "CAP_DAC_OVERRIDE") {
        Support::Yes => Support::Unknown {
            why:
                "whether the kernel's DAMON has an operations set for processes shows only when it \
                  is configured, and it may be in use"
                    .to_owned(),
        },
        no => no,
    }
}

fn written(machine: &Machine) -> Support {
    match machine.kernel_version() {
        Some(version) if version < (6, 7) => {
            Support::no("the kernel has no PAGEMAP_SCAN", Some("6.7"), "boot a newer kernel")
        }
        Some(_) => needs(machine, "CAP_SYS_PTRACE"),
        None => Support::Unknown { why: "the kernel's version cannot be read".to_owned() },
    }
}

fn smaps(machine: &Machine, roots: &Roots) -> Support {
    let own = roots.proc.path_of(std::process::id(), "clear_refs");
    if own.exists() {
        return Support::Yes;
    }
    Support::no(
        format!("{} has no file clear_refs (CONFIG_PROC_PAGE_MONITOR)", machine.kernel),
        Some("2.6.22"),
        "boot a kernel that has it, or mount /proc",
    )
}

fn needs(machine: &Machine, capability: &str) -> Support {
    if machine.has_capability(capability) {
        return Support::Yes;
    }
    Support::No {
        why: format!("{capability} is missing"),
        since: None,
        fix: format!("run as root, or grant {capability}"),
        denied: true,
    }
}
