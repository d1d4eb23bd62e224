//! Why a number cannot be had on this machine.

use crate::error::{Class, Error, Kind};

/// A number that cannot be had on this machine, and why.
pub type MetricError = Error<MetricKind>;

/// The kind of a [`MetricError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// It is not the machine's to tell: the user gives it, or the schemes count it.
    NotFromTheMachine,
    /// It needs an operations set over the physical address space.
    PhysicalOnly,
    /// The kernel has no PSI, or not for this.
    NoPsi,
    /// The kernel has PSI, and it is switched off.
    PsiOff,
    /// Cgroup v2 is not mounted.
    NoCgroup2,
    /// The memory controller is not in cgroup v2.
    NoMemoryController,
    /// There is no such cgroup.
    NoCgroup,
    /// There is no such NUMA node.
    NoNode,
    /// The node has no memory.
    NodeWithoutMemory,
    /// We may not read it.
    Permission,
    /// Anything else that the kernel said, or a text that does not read as it should.
    Unexpected,
}

impl Kind for MetricKind {
    fn class(self) -> Class {
        match self {
            Self::Permission => Class::Permission,
            Self::Unexpected => Class::Unexpected,
            _ => Class::NotSupported,
        }
    }
}

/// A reason. [`of`] says later of which number.
pub(super) fn because(
    reason: MetricKind,
    tried: impl Into<String>,
    why: impl Into<String>,
    hint: impl Into<String>,
) -> MetricError {
    Error::new(reason, "a number cannot be had", tried, why, hint)
}

/// The same reason, with `what` cannot be had: a phrase such as ``metric `some_mem_psi_us` ``.
pub(super) fn of(reason: MetricError, what: &str) -> MetricError {
    reason.about(format!("{what} cannot be had"))
}
