//! What the running kernel's DAMON knows.
//!
//! There are two sources. The kernel's version says what mainline of that version has. That costs
//! nothing, and is enough to choose by. Distributions backport features and leave features out, so
//! the *files* decide where it counts: an existing context directory, whoever made it, or our own
//! after the claim. This module only reads, so it cannot disturb a kdamond that runs.

use std::path::Path;

use isotherm_host::Version;

use crate::config::feature::{Feature, Mark};
use crate::config::model::Operations;
use crate::sysfs::root::Root;

/// How sure it is that a kernel has a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Has {
    /// Its file is there.
    Yes,
    /// Its file is not there, or the version is too old.
    No,
    /// Mainline of this version has it; no file showed it so far.
    ByVersion,
}

impl Has {
    /// Whether it may be counted on.
    #[must_use]
    pub const fn is_likely(self) -> bool {
        !matches!(self, Self::No)
    }
}

/// What the running kernel's DAMON knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Whether the sysfs interface is there.
    pub present: bool,
    /// What the kernel calls itself.
    pub release: String,
    /// Its version, if that could be read.
    pub version: Option<Version>,
    /// Operations sets that are built in, where a context directory says so.
    pub operations: Option<Vec<Operations>>,
    seen: Vec<(Feature, bool)>,
}

impl Features {
    /// Reads the version, and the first context directory that exists. Writes nothing.
    #[must_use]
    pub fn detect(root: &Root) -> Self {
        let release = root.release();
        let mut features = Self {
            present: root.is_present(),
            version: Version::parse(&release),
            release,
            operations: None,
            seen: Vec::new(),
        };
        for index in root.indices().unwrap_or_default() {
            features.look_at(root, index);
        }
        features
    }

    /// Looks at the files of one kdamond directory, reading only.
    pub fn look_at(&mut self, root: &Root, index: u32) {
        let kdamond = root.kdamond(index);
        let context = kdamond.join("contexts/0");
        if !root.exists(&context) {
            return;
        }
        if self.operations.is_none()
            && let Ok(text) = root.read(&context.join("avail_operations"))
        {
            let names = text.split_ascii_whitespace();
            self.operations = Some(names.filter_map(Operations::from_name).collect());
        }
        let see = |dir: &Path, file: &str| Some(root.exists(&dir.join(file)));
        let scheme = context.join("schemes/0");
        let target = context.join("targets/0");
        let (scheme_there, target_there) = (root.exists(&scheme), root.exists(&target));
        for feature in Feature::ALL {
            let there = match feature.mark() {
                Mark::Kdamond(file) => see(&kdamond, file),
                Mark::Context(file) => see(&context, file),
                Mark::Scheme(file) if scheme_there => see(&scheme, file),
                Mark::Target(file) if target_there => see(&target, file),
                _ => None,
            };
            if let Some(there) = there {
                self.seen.retain(|(known, _)| *known != feature);
                self.seen.push((feature, there));
            }
        }
    }

    /// Whether the kernel has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> Has {
        if !self.present {
            return Has::No;
        }
        match self.seen.iter().find(|(known, _)| *known == feature) {
            Some((_, true)) => Has::Yes,
            Some((_, false)) => Has::No,
            None if self.version.is_some_and(|version| version >= feature.since()) => {
                Has::ByVersion
            }
            None => Has::No,
        }
    }

    /// Whether an operations set is built in; `None` if only a context directory could tell, and
    /// there is none.
    #[must_use]
    pub fn has_operations(&self, operations: Operations) -> Option<bool> {
        if !self.present {
            return Some(false);
        }
        self.operations.as_ref().map(|built_in| built_in.contains(&operations))
    }
}
