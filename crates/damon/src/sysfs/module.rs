//! The special-purpose modules of the kernel: which there are, and which of them runs.

use std::path::PathBuf;

use crate::sysfs::root::Root;

/// A special-purpose module of DAMON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Module {
    /// Pages out memory that was idle for long, while memory is short (5.16).
    Reclaim,
    /// Sorts the LRU lists by what was accessed (6.0).
    LruSort,
    /// Measures for how long memory is idle (6.17).
    Stat,
}

impl Module {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Reclaim, Self::LruSort, Self::Stat];

    /// The name that users give.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reclaim => "reclaim",
            Self::LruSort => "lru_sort",
            Self::Stat => "stat",
        }
    }

    /// The kernel's name for it, as its documentation has it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Reclaim => "DAMON_RECLAIM",
            Self::LruSort => "DAMON_LRU_SORT",
            Self::Stat => "DAMON_STAT",
        }
    }

    /// The module that a user means: `reclaim`, `lru-sort`, `DAMON_STAT`, ...
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('-', "_");
        let name = name.strip_prefix("damon_").unwrap_or(&name);
        Self::ALL.into_iter().find(|module| module.name() == name)
    }

    /// The directory of its parameters.
    #[must_use]
    pub fn dir(self, root: &Root) -> PathBuf {
        root.modules().join(format!("damon_{}", self.name())).join("parameters")
    }

    /// Whether the kernel has it.
    #[must_use]
    pub fn is_present(self, root: &Root) -> bool {
        root.exists(&self.dir(root))
    }

    /// Whether it runs; no if that cannot be seen.
    #[must_use]
    pub fn is_enabled(self, root: &Root) -> bool {
        // Before 6.19, `enabled` still says Y after a failed start. The pid is always right.
        let dir = self.dir(root);
        let pid: Result<i32, _> = root.number(&dir.join("kdamond_pid"));
        match pid {
            Ok(pid) => pid > 0,
            Err(_) => root.read(&dir.join("enabled")).is_ok_and(|text| text == "Y"),
        }
    }

    /// How a user stops it.
    #[must_use]
    pub fn how_to_stop(self) -> String {
        format!(
            "stop it: isotherm kernel-module disable {} (or echo N > /sys/module/damon_{}/parameters/enabled)",
            self.name(),
            self.name()
        )
    }
}

/// The module that runs, if one does.
#[must_use]
pub fn running(root: &Root) -> Option<Module> {
    Module::ALL.into_iter().find(|module| module.is_enabled(root))
}
