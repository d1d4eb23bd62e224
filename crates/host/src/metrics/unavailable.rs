//! Why a number cannot be had on this machine.

use std::fmt;

/// The sort of reason, for programs; people get the text of [`Unavailable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
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

/// A number that cannot be had on this machine. The text says what was tried, why it failed, and
/// what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    pub(super) what: String,
    pub(super) because: Because,
}

impl Unavailable {
    /// The sort of reason.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.because.reason
    }

    /// What cannot be had: a phrase such as ``metric `some_mem_psi_us` ``.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What was tried, and what the kernel said.
    #[must_use]
    pub fn tried(&self) -> &str {
        &self.because.tried
    }

    /// Why it failed.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.because.why
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.because.hint
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be had", self.what)?;
        let lines = [("tried:", self.tried()), ("why:  ", self.why()), ("hint: ", self.hint())];
        for (name, text) in lines.iter().filter(|(_, text)| !text.is_empty()) {
            write!(f, "\n  {name} {text}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Unavailable {}

/// A reason without what it is the reason of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Because {
    pub(super) reason: Reason,
    pub(super) tried: String,
    pub(super) why: String,
    pub(super) hint: String,
}

impl Because {
    pub(super) fn new(
        reason: Reason,
        tried: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { reason, tried: tried.into(), why: why.into(), hint: hint.into() }
    }
}
