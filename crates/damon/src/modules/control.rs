//! Reading, switching and tuning a module.

use std::collections::BTreeMap;
use std::io;

use super::parameter::{Parameter, Role, problems};
use super::{Module, running};
use crate::error::{self, DamonError, DamonKind};
use crate::kdamond::Kdamond;
use crate::sysfs::root::Root;

/// A parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Its file's name.
    pub name: String,
    /// What is known about it; `None` for one that is newer than our table.
    pub parameter: Option<&'static Parameter>,
    /// What the file says; `None` if it may not be read.
    pub text: Option<String>,
}

/// A parameter that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// What it said.
    pub from: String,
    /// What it says.
    pub to: String,
}

impl Module {
    /// The first mainline kernel that has it.
    #[must_use]
    pub const fn since(self) -> &'static str {
        match self {
            Self::Reclaim => "5.16",
            Self::LruSort => "6.0",
            Self::Stat => "6.17",
        }
    }

    /// The build option that brings it.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Reclaim => "CONFIG_DAMON_RECLAIM",
            Self::LruSort => "CONFIG_DAMON_LRU_SORT",
            Self::Stat => "CONFIG_DAMON_STAT",
        }
    }

    fn require(self, root: &Root) -> Result<(), DamonError> {
        if self.is_present(root) {
            return Ok(());
        }
        Err(error::cannot(
            DamonKind::NotBuilt,
            format!("use {}", self.title()),
            format!(
                "kernel {} was built without it ({}; mainline has it since {})",
                root.release(),
                self.option(),
                self.since()
            ),
            "boot a kernel that has it; `isotherm reclaim`, `lru-sort` and `stat` do the same without one",
        ))
    }

    /// All of its parameters, known ones first, as this kernel has them.
    ///
    /// # Errors
    ///
    /// If the kernel has no such module, or its directory cannot be listed.
    pub fn values(self, root: &Root) -> Result<Vec<Value>, DamonError> {
        self.require(root)?;
        let dir = self.dir(root);
        let mut names = root.names(&dir)?;
        let order = |name: &String| {
            let known = self.parameters().iter().position(|parameter| parameter.name == *name);
            known.unwrap_or(usize::MAX)
        };
        names.sort_by_key(|name| (order(name), name.clone()));
        let value = |name: String| Value {
            parameter: self.parameter(&name),
            text: root.read(&dir.join(&name)).ok(),
            name,
        };
        Ok(names.into_iter().map(value).collect())
    }

    /// Switches the module on, after checking for everything that the kernel would refuse.
    ///
    /// # Errors
    ///
    /// [`DamonKind::NotBuilt`], [`DamonKind::NotOurs`] if a kdamond runs,
    /// [`DamonKind::ModuleInTheWay`] if another module does, [`DamonKind::Refused`] if the
    /// parameters do not go together.
    pub fn enable(self, root: &Root) -> Result<(), DamonError> {
        self.require(root)?;
        if self.is_enabled(root) {
            return Ok(());
        }
        let tried = format!("enable {}", self.title());
        if let Some(other) = running(root) {
            let why = format!("{} is enabled, and each of them runs alone", other.title());
            return Err(error::cannot(DamonKind::ModuleInTheWay, tried, why, other.how_to_stop()));
        }
        for index in root.indices().unwrap_or_default() {
            let kdamond = Kdamond::new(root, index);
            if kdamond.is_on()? {
                let pid = kdamond.pid()?.map_or_else(String::new, |pid| format!(" (thread {pid})"));
                return Err(error::cannot(
                    DamonKind::NotOurs,
                    tried,
                    format!("kdamond {index}{pid} runs, and the module runs alone"),
                    "end the program that runs it first",
                ));
            }
        }
        let values = self.current(root)?;
        self.check(&tried, &values)?;
        self.switch(root, "enabled", "Y")?;
        if self.is_enabled(root) {
            return Ok(());
        }
        let why = "the kernel took it, and no thread runs; its log may say why";
        Err(error::cannot(DamonKind::NotRunning, tried, why, "dmesg | grep -i damon"))
    }

    /// Switches the module off.
    ///
    /// # Errors
    ///
    /// [`DamonKind::NotBuilt`], and what the kernel says.
    pub fn disable(self, root: &Root) -> Result<(), DamonError> {
        self.require(root)?;
        if self.is_enabled(root) { self.switch(root, "enabled", "N") } else { Ok(()) }
    }

    /// Sets parameters, all or none. All values are checked first, alone and together. If the
    /// kernel refuses one, the old values are put back. If the module runs, the new values are
    /// committed to it.
    ///
    /// # Errors
    ///
    /// [`DamonKind::Refused`] with every problem found, before anything is written. Else what the
    /// kernel says.
    pub fn set(self, root: &Root, wanted: &[(String, String)]) -> Result<Vec<Changed>, DamonError> {
        self.require(root)?;
        let tried = format!("set parameters of {}", self.title());
        let mut values = self.current(root)?;
        let mut changes: Vec<Changed> = Vec::new();
        let mut wrong = Vec::new();
        for (name, text) in wanted {
            match self.understood(name, text, &values) {
                Err(why) => wrong.push(format!("{name}={text}: {why}")),
                Ok(to) => {
                    let from = values.insert(name.clone(), to.clone()).unwrap_or_default();
                    match changes.iter_mut().find(|change| change.name == *name) {
                        Some(change) => change.to = to,
                        None => changes.push(Changed { name: name.clone(), from, to }),
                    }
                }
            }
        }
        if !wrong.is_empty() {
            return Err(error::cannot(DamonKind::Refused, tried, wrong.join("; "), ""));
        }
        self.check(&tried, &values)?;
        changes.retain(|change| change.from != change.to);
        if changes.is_empty() {
            return Ok(changes);
        }
        for (nth, change) in changes.iter().enumerate() {
            if let Err(said) = self.write(root, &change.name, &change.to) {
                let err = self.refused(root, &change.name, &change.to, said);
                return Err(self.put_back(root, &changes[..nth], err));
            }
        }
        if self.is_enabled(root)
            && let Err(err) = self.switch(root, "commit_inputs", "Y")
        {
            let err = self.put_back(root, &changes, err);
            if !self.is_enabled(root) {
                return Err(err
                    .map_kind(|_| DamonKind::NotRunning)
                    .because("and the module ended by that"));
            }
            // What was taken over of it goes again.
            self.switch(root, "commit_inputs", "Y").ok();
            return Err(err);
        }
        Ok(changes)
    }

    /// What its tunable files say now.
    fn current(self, root: &Root) -> Result<BTreeMap<String, String>, DamonError> {
        let values = self.values(root)?.into_iter();
        let tunable = values.filter(|v| v.parameter.is_some_and(|p| p.role == Role::Tunable));
        Ok(tunable.filter_map(|value| Some((value.name, value.text?))).collect())
    }

    fn understood(
        self,
        name: &str,
        text: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<String, String> {
        match self.parameter(name) {
            None => Err(format!("{} has no such parameter", self.title())),
            Some(Parameter { role: Role::Statistic, .. }) => {
                Err("only the kernel writes it".into())
            }
            Some(Parameter { role: Role::Switch, .. }) => {
                Err(format!("use: isotherm kernel-module enable {}", self.name()))
            }
            Some(_) if !values.contains_key(name) => {
                Err("this kernel's module does not have it yet".into())
            }
            Some(parameter) => parameter.unit.parse(text),
        }
    }

    fn check(self, tried: &str, values: &BTreeMap<String, String>) -> Result<(), DamonError> {
        let found = problems(self, values);
        if found.is_empty() {
            return Ok(());
        }
        Err(error::cannot(DamonKind::Refused, tried, found.join("; "), ""))
    }

    fn write(self, root: &Root, name: &str, value: &str) -> io::Result<()> {
        root.write(&self.dir(root).join(name), value)
    }

    fn switch(self, root: &Root, name: &str, value: &str) -> Result<(), DamonError> {
        self.write(root, name, value).map_err(|said| self.refused(root, name, value, said))
    }

    fn refused(self, root: &Root, name: &str, value: &str, said: io::Error) -> DamonError {
        let path = self.dir(root).join(name);
        let tried = format!("write `{value}` to {}", path.display());
        match said.raw_os_error() {
            Some(libc::EBUSY) => error::cannot(
                DamonKind::NotOurs,
                tried,
                "a kdamond runs, and the module runs alone",
                "end the program that runs it first",
            ),
            Some(libc::EINVAL | libc::ERANGE | libc::ENOMEM) => {
                let why = format!("{} refuses it", self.title());
                error::cannot(DamonKind::Refused, tried, why, "")
            }
            _ => return error::io(tried, said),
        }
        .with(said)
    }

    fn put_back(self, root: &Root, changes: &[Changed], mut err: DamonError) -> DamonError {
        for change in changes {
            if let Err(said) = self.write(root, &change.name, &change.from) {
                let more =
                    format!("and {} could not be put back to {}: {said}", change.name, change.from);
                err = err.because(&more);
            }
        }
        err
    }
}
