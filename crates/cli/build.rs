//! Tells the program which commit, features and target it was built from, for `--version`.
//!
//! The commit is read from the files of the checkout, since git may be missing. Outside of a
//! checkout it is `unknown`, unless the one who builds names it in `ISOTHERM_COMMIT`. Only this
//! crate is built again after a commit.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ISOTHERM_COMMIT");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let root = PathBuf::from(var("CARGO_MANIFEST_DIR")).join("../..");
    let given = Some(var("ISOTHERM_COMMIT")).filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| commit_of(&root));
    let features = env::vars_os().filter_map(|(name, _)| {
        let name = name.into_string().ok()?;
        Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-"))
    });
    let mut features: Vec<String> = features.collect();
    features.sort_unstable();
    println!("cargo::rustc-env=ISOTHERM_BUILT_DATE={}", date(&root));
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

/// The day of these sources, as 2026-11-23: `SOURCE_DATE_EPOCH`, else when `Cargo.toml` was
/// written.
fn date(root: &Path) -> String {
    let given = var("SOURCE_DATE_EPOCH").parse::<u64>().ok();
    let written = || fs::metadata(root.join("Cargo.toml")).ok()?.modified().ok();
    let since_1970 = || Some(written()?.duration_since(UNIX_EPOCH).ok()?.as_secs());
    let days = given.or_else(since_1970).unwrap_or(0) / 86_400;
    // Years begin in March, so that the day that comes and goes is the last one. An era has 400
    // years, which are 146097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, january) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + january)
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
