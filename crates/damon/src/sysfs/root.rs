//! Where a kernel's DAMON is: its sysfs tree, its modules' parameters, and the `/proc` beside them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use isotherm_host::proc::Proc;

use crate::error::{self, DamonError, DamonKind};
use crate::sysfs::files::{Files, SystemFiles, patiently};

/// Where a kernel's DAMON is: the running kernel's, or a made-up one's for tests.
#[derive(Debug, Clone)]
pub struct Root {
    admin: PathBuf,
    modules: PathBuf,
    proc: Proc,
    files: Arc<dyn Files>,
    patience: Duration,
}

impl Default for Root {
    fn default() -> Self {
        Self {
            admin: "/sys/kernel/mm/damon/admin".into(),
            modules: "/sys/module".into(),
            proc: Proc::default(),
            files: Arc::new(SystemFiles),
            patience: Duration::from_secs(10),
        }
    }
}

impl Root {
    /// The files below `dir`: `dir/admin` for the sysfs tree, `dir/module` for the modules,
    /// `dir/proc`.
    pub fn at(dir: impl AsRef<Path>) -> Self {
        let dir = dir.as_ref();
        Self {
            admin: dir.join("admin"),
            modules: dir.join("module"),
            proc: Proc::new(dir.join("proc")),
            ..Self::default()
        }
    }

    /// The same with another door to the files.
    #[must_use]
    pub fn with_files(self, files: Arc<dyn Files>) -> Self {
        Self { files, ..self }
    }

    /// The same root with another time for which EBUSY is retried. The default is 10 s.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Whether the kernel has the interface, as far as we may see.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.files.exists(&self.admin.join("kdamonds"))
    }

    /// Checks that the interface is there.
    ///
    /// # Errors
    ///
    /// If it is not there. The error says why, and what to do.
    pub fn require(&self) -> Result<(), DamonError> {
        if self.is_present() {
            return Ok(());
        }
        let release = self.release();
        Err(error::cannot(
            DamonKind::NotBuilt,
            format!("use {}", self.admin.display()),
            format!("kernel {release} has no DAMON sysfs interface (CONFIG_DAMON_SYSFS, 5.18)"),
            "boot a kernel that has it, or use another operations set, such as pagewalk",
        ))
    }

    /// The directory with all kdamonds.
    #[must_use]
    pub fn kdamonds(&self) -> PathBuf {
        self.admin.join("kdamonds")
    }

    /// The directory of the kdamond with this index.
    #[must_use]
    pub fn kdamond(&self, index: u32) -> PathBuf {
        self.kdamonds().join(index.to_string())
    }

    /// The directory of the kernel's modules.
    #[must_use]
    pub fn modules(&self) -> &Path {
        &self.modules
    }

    /// The `/proc` beside it.
    #[must_use]
    pub fn proc(&self) -> &Proc {
        &self.proc
    }

    /// The door to the files.
    #[must_use]
    pub fn files(&self) -> &dyn Files {
        &*self.files
    }

    /// What the kernel calls itself (`uname -r`); `unknown` if it does not say.
    #[must_use]
    pub fn release(&self) -> String {
        let mut buf = Vec::new();
        match self.proc.read_system("sys/kernel/osrelease", &mut buf) {
            Ok(()) => String::from_utf8_lossy(buf.trim_ascii()).into_owned(),
            Err(_) => "unknown".into(),
        }
    }

    /// Indices of the kdamond directories that are there.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn indices(&self) -> Result<Vec<u32>, DamonError> {
        let dir = self.kdamonds();
        let listed = self.files.numbers(&dir);
        listed.map_err(|said| error::io(format!("list {}", dir.display()), said))
    }

    /// How many kdamond directories there are (`nr_kdamonds`).
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn nr_kdamonds(&self) -> Result<u32, DamonError> {
        self.number(&self.kdamonds().join("nr_kdamonds"))
    }

    /// Whether a file or directory is there.
    #[must_use]
    pub fn exists(&self, path: &Path) -> bool {
        self.files.exists(path)
    }

    /// Reads a file, without the newline at its end.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn read(&self, path: &Path) -> Result<String, DamonError> {
        let mut buf = Vec::new();
        self.read_into(path, &mut buf)?;
        Ok(String::from_utf8_lossy(buf.trim_ascii_end()).into_owned())
    }

    /// Reads a file that is one number.
    ///
    /// # Errors
    ///
    /// What the kernel says, or that it is not a number.
    pub fn number<T: std::str::FromStr>(&self, path: &Path) -> Result<T, DamonError> {
        let text = self.read(path)?;
        text.trim().parse().map_err(|_err| unreadable(path, &text))
    }

    /// Names of the files in a directory.
    pub(crate) fn names(&self, dir: &Path) -> Result<Vec<String>, DamonError> {
        let listed = self.files.names(dir);
        listed.map_err(|said| error::io(format!("list {}", dir.display()), said))
    }

    pub(crate) fn read_into(&self, path: &Path, buf: &mut Vec<u8>) -> Result<(), DamonError> {
        let read = patiently(self.patience, || self.files.read(path, buf));
        read.map_err(|said| error::reading(path, said))
    }

    /// Writes a value; EBUSY is retried.
    pub(crate) fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        patiently(self.patience, || self.files.write(path, value.as_bytes()))
    }

    /// Writes a value once.
    pub(crate) fn write_once(&self, path: &Path, value: &str) -> io::Result<()> {
        self.files.write(path, value.as_bytes())
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }
}

/// A file whose text is not what the kernel's documentation says.
pub(crate) fn unreadable(path: &Path, text: &str) -> DamonError {
    error::cannot(
        DamonKind::Unreadable,
        format!("read {}", path.display()),
        format!("it says `{text}`, which is not what such a file says"),
        "",
    )
}
