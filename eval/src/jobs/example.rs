//! Runs an example program of another crate of this workspace, and finds its source.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

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

/// Builds it in release mode and runs it; returns what it prints.
///
/// It is built as part of the workspace: that turns on the same features as a build of everything
/// does, so that what such a build has made is not compiled once more.
pub(crate) fn run(package: &str, name: &str, args: &[&str]) -> anyhow::Result<String> {
    source(package, name)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--quiet", "--workspace", "--example", name]);
    build.args(["--message-format", "json-render-diagnostics"]).current_dir(root()?);
    let told = output(build)?;
    let program = executable(&told).with_context(|| format!("cargo made no program {name}"))?;
    let mut command = Command::new(program);
    command.args(args).current_dir(root()?);
    output(command)
}

/// What a command prints, if it succeeds.
fn output(mut command: Command) -> anyhow::Result<String> {
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let done = command.output().with_context(|| format!("start {command:?}"))?;
    if !done.status.success() {
        bail!("{command:?}: {}", done.status);
    }
    String::from_utf8(done.stdout).context("an answer that is no text")
}

/// The program that Cargo says it has made: one JSON object per line, of which one names it.
fn executable(told: &str) -> Option<PathBuf> {
    let messages = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|m| m["executable"].as_str().map(PathBuf::from)).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_artifact_with_an_executable() {
        let told = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                    {\"reason\":\"compiler-artifact\",\"executable\":\"/t/examples/huge\"}\n\
                    {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(told), Some(PathBuf::from("/t/examples/huge")));
        assert_eq!(executable("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }
}
