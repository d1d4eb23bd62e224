//! A heatmap per program for `docs/gallery`, of its first record by the default method.
//!
//! A picture in a repository is small: one that is too large is drawn again of the process with the
//! most accesses alone, and kept only if that suffices.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::cli::say;
use crate::dir::{PICTURE_BYTES, ResultDir};
use crate::job::Bench;
use crate::jobs::output;

/// Draws it, unless it is there. A picture that fails fails no measurement.
pub(super) fn draw(bench: &Bench<'_>, program: &str, record: &Path) {
    let heatmap = |more: &[&str]| {
        let mut command = Command::new(&bench.spec.isotherm);
        command.args(["report", "heatmap"]).arg(record).args(more);
        output(&mut command)
    };
    let done = if record.exists() { drawn(bench.dir, program, heatmap) } else { Ok(()) };
    if let Err(e) = done.context("draw a heatmap") {
        say(&format!("published: {program}: {e:#}"));
    }
}

/// `heatmap` runs `isotherm report heatmap` with these options.
fn drawn(
    dir: &ResultDir,
    program: &str,
    heatmap: impl Fn(&[&str]) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let picture = dir.picture(&format!("{program}.png"))?;
    if picture.exists() {
        return Ok(());
    }
    // Under another name until it is complete; the ending says which kind.
    let draft = dir.raw("heatmap.png");
    let to = draft.to_str().context("a path that is no text")?;
    heatmap(&["--output", to])?;
    if !is_small(&draft)? {
        let told: Value = serde_json::from_str(&heatmap(&["--json"])?)?;
        let most = told["panels"][0]["pid"].as_u64().context("a heatmap without panels")?;
        heatmap(&["--output", to, "--target", &most.to_string()])?;
    }
    anyhow::ensure!(is_small(&draft)?, "it has more than {PICTURE_BYTES} bytes");
    fs::rename(&draft, &picture).with_context(|| format!("write {}", picture.display()))
}

fn is_small(path: &Path) -> anyhow::Result<bool> {
    let found = fs::metadata(path).with_context(|| format!("look at {}", path.display()))?;
    Ok(found.len() <= PICTURE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Spec;

    #[test]
    fn a_large_picture_is_drawn_of_one_process() {
        let out = tempfile::tempdir().unwrap();
        let dir = ResultDir::create(out.path(), &Spec::of_test("published")).unwrap();
        // Pictures of all processes are large, and so are those of process 8.
        let isotherm = |most: u32| {
            move |options: &[&str]| {
                if options == ["--json"] {
                    return Ok(format!("{{\"panels\":[{{\"pid\":{most}}},{{\"pid\":1}}]}}"));
                }
                let bytes = if options.ends_with(&["--target", "7"]) { 100 } else { 200_000 };
                fs::write(options[1], vec![b'.'; bytes])?;
                Ok(String::new())
            }
        };
        let picture = dir.picture("gcc.png").unwrap();
        let told = drawn(&dir, "gcc", isotherm(8)).unwrap_err().to_string();
        assert!(told.contains("more than 102400 bytes") && !picture.exists(), "{told}");
        drawn(&dir, "gcc", isotherm(7)).unwrap();
        assert_eq!(fs::metadata(&picture).unwrap().len(), 100);
        // It is not drawn again.
        drawn(&dir, "gcc", isotherm(8)).unwrap();
        assert_eq!(fs::metadata(&picture).unwrap().len(), 100);
    }
}
