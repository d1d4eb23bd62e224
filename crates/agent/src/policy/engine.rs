//! Who applies a context's schemes.

/// Who applies the schemes of a context over the kernel's DAMON (`ops = "kdamond"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Engine {
    /// The kernel, if it can apply all schemes as the policy says; otherwise Isotherm.
    #[default]
    Auto,
    /// The kernel. A policy with a scheme that it cannot apply is refused.
    Kernel,
    /// Isotherm, over the kernel's snapshots.
    Isotherm,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Kernel, Self::Isotherm];

    /// As in a policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kernel => "kernel",
            Self::Isotherm => "isotherm",
        }
    }

    /// The engine of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }
}
