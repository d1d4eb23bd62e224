//! What is installed on this machine, and by which Debian package the rest comes.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

/// Debian's: its modules are packages.
pub(super) const PYTHON: &str = "/usr/bin/python3";

/// The first of `programs` that is neither a path that exists nor found in `PATH`.
pub(super) fn not_installed(programs: &[&str], package: &str) -> Option<String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<_> = std::env::split_paths(&paths).collect();
    let there = |p: &&&str| dirs.iter().any(|d| d.join(p).is_file()) || Path::new(p).is_file();
    let lost = programs.iter().find(|p| !there(p))?;
    Some(format!("no {lost}: apt-get install {package}"))
}

/// The first of `modules` that Debian's Python does not have: its name and its package.
pub(super) fn no_module(modules: &[(&str, &str)]) -> Option<String> {
    let there = |module: &str| {
        let done = Command::new(PYTHON).args(["-c", &format!("import {module}")]).output();
        done.is_ok_and(|o| o.status.success())
    };
    let (module, package) = modules.iter().find(|(module, _)| !there(module))?;
    Some(format!("no {module} of {PYTHON}: apt-get install {package}"))
}

/// Runs a command to its end; what it says on standard output.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let done = command.output().with_context(|| format!("start {command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    anyhow::ensure!(done.status.success(), "{command:?}: {}: {}", done.status, text(&done.stderr));
    Ok(text(&done.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_program_is_named_with_its_package() {
        assert_eq!(not_installed(&["sh", "/bin/sh"], "dash"), None);
        let lost = not_installed(&["sh", "no-such-program"], "nothing");
        assert_eq!(lost.as_deref(), Some("no no-such-program: apt-get install nothing"));
    }

    #[test]
    fn a_lost_module_is_named_with_its_package() {
        let lost = no_module(&[("no_such_module", "python3-nothing")]).unwrap();
        assert!(lost.ends_with("apt-get install python3-nothing"), "{lost}");
    }
}
