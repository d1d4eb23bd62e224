//! Tells the program which commit, features and target it was built from, for `--version`.
//!
//! The commit is read from the files of the checkout, since git may be missing. Outside of a
//! checkout it is `unknown`, unless the one who builds names it in `ISOTHERM_COMMIT`. Only this
//! crate is built again after a commit.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ISOTHERM_COMMIT");
    let root = PathBuf::from(var("CARGO_MANIFEST_DIR")).join("../..");
    let given = Some(var("ISOTHERM_COMMIT")).filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| commit_of(&root));
    let features = env::vars_os().filter_map(|(name, _)| {
        let name = name.into_string().ok()?;
        Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-"))
    });
    let mut features: Vec<String> = features.collect();
    features.sort_unstable();
    println!("cargo::rustc-env=ISOTHERM_BUILT_COMMIT={}", commit.unwrap_or("unknown".to_owned()));
    println!("cargo::rustc-env=ISOTHERM_BUILT_FEATURES={}", features.join(" "));
    println!("cargo::rustc-env=ISOTHERM_BUILT_TARGET={}", var("TARGET"));
    println!("cargo::rustc-env=ISOTHERM_BUILT_PROFILE={}", var("PROFILE"));
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The commit that is checked out at `root` itself. A checkout around it is another project's.
fn commit_of(root: &Path) -> Option<String> {
    let git = root.join(".git");
    // In a second worktree `.git` is a file that names the directory.
    let git = match fs::read_to_string(&git) {
        Ok(text) => root.join(text.strip_prefix("gitdir:")?.trim()),
        Err(_) => git,
    };
    let shared = read(&git.join("commondir")).map(|path| git.join(path.trim()));
    let shared = shared.unwrap_or_else(|| git.clone());
    // Grows at every commit and checkout, also while the branch is only in `packed-refs`.
    watch(&git.join("logs/HEAD"));
    let head = watched(&git.join("HEAD"))?;
    let commit = match head.strip_prefix("ref:").map(str::trim) {
        None => head.trim().to_owned(),
        Some(name) => {
            let packed = watched(&shared.join("packed-refs")).unwrap_or_default();
            let packed = packed.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' '));
            let loose = watched(&shared.join(name)).map(|text| text.trim().to_owned());
            loose.or_else(|| packed.map(str::to_owned))?
        }
    };
    let is_hash = commit.len() >= 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| commit[..12].to_owned())
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The text of a file; a change of it makes Cargo run this program again.
fn watched(path: &Path) -> Option<String> {
    watch(path);
    read(path)
}

/// Watches a file if it exists. Cargo would take a missing one for a change each time.
fn watch(path: &Path) {
    if path.is_file() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
