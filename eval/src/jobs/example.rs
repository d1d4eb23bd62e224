//! Runs an example program of another crate of this workspace, and finds its source.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The root of the sources around the current directory or this program.
fn root() -> anyhow::Result<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let mut up = starts.iter().flatten().flat_map(|p| p.ancestors());
    let found = up.find(|p| p.join("crates/core/Cargo.toml").is_file());
    found.map(Path::to_owned).context("not started within the sources of Isotherm")
}

/// The source file of example `name` of `package`.
pub(crate) fn source(package: &str, name: &str) -> anyhow::Result<PathBuf> {
    let folder = package.strip_prefix("isotherm-").unwrap_or(package);
    let examples = PathBuf::from("crates").join(folder).join("examples");
    let root = root()?;
    let mut places =
        [format!("{name}.rs"), format!("{name}/main.rs")].map(|f| examples.join(f)).into_iter();
    let found = places.find(|p| root.join(p).is_file());
    found.with_context(|| format!("no {name} in {}", examples.display()))
}

/// Builds and runs it in release mode; returns what it prints.
pub(crate) fn run(package: &str, name: &str, args: &[&str]) -> anyhow::Result<String> {
    source(package, name)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--release", "--quiet", "-p", package, "--example", name, "--"]);
    command.args(args).current_dir(root()?).stdin(Stdio::null()).stderr(Stdio::inherit());
    let done = command.output().with_context(|| format!("start {command:?}"))?;
    if !done.status.success() {
        bail!("{command:?}: {}", done.status);
    }
    String::from_utf8(done.stdout).context("an answer that is no text")
}
