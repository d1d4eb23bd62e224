//! The house rules that no compiler checks: sizes, arrows between crates, cycles between modules,
//! where unsafe code is and who prints. `ci/tidy` runs this program.
//!
//! Some rules are older than the code that breaks them. What breaks them today is listed below
//! `limits/` with its present size, and may only shrink: a larger number is an error, and so is an
//! entry that is larger than the truth. `ci/tidy --shrink` lowers the entries to the truth; it
//! never raises one.
//!
//! Only the standard library is used, so that a fresh machine builds it in a few seconds.

mod arrows;
mod boxed;
mod cycles;
mod functions;
mod limits;
mod sizes;
mod source;
mod texts;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use limits::Limit;
use tree::Tree;

/// Where the lists of what may only shrink are.
const LIMITS: &str = "ci/rules/limits";

/// Measures every place that a rule is about.
type Measure = fn(&Tree) -> limits::Found;

/// The rules with a list.
const RULES: [(Limit, Measure); 6] = [
    (limit("functions", "lines of code", 70), functions::lengths),
    (limit("folders", "source files", 12), sizes::folders),
    (sum("comments", "comment lines over 100 columns"), sizes::comments),
    (sum("cycles", "modules that use each other"), cycles::modules),
    (sum("boxed", "signatures with Box<dyn Error>"), boxed::signatures),
    (limit("share", "% of the product's lines", 25), sizes::shares),
];

/// A rule by which every place has its own limit.
const fn limit(name: &'static str, unit: &'static str, most: usize) -> Limit {
    Limit { name, unit, most, moves: false }
}

/// A rule by which a number has to become 0, wherever it is counted.
const fn sum(name: &'static str, unit: &'static str) -> Limit {
    Limit { name, unit, most: 0, moves: true }
}

#[expect(clippy::print_stderr, reason = "what is wrong is this program's result")]
fn main() -> ExitCode {
    let shrink = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--shrink") => true,
        Some(other) => {
            eprintln!("tidy: {other}: not known; tried: nothing, or --shrink");
            return ExitCode::from(2);
        }
    };
    match check(Path::new("."), shrink) {
        Ok(wrong) if wrong.is_empty() => ExitCode::SUCCESS,
        Ok(wrong) => {
            wrong.iter().for_each(|line| eprintln!("tidy: {line}"));
            ExitCode::FAILURE
        }
        Err(err) => {
            eprintln!("tidy: {err}");
            ExitCode::FAILURE
        }
    }
}

/// Everything that is wrong below `root`, one line each.
fn check(root: &Path, shrink: bool) -> Result<Vec<String>, String> {
    let tree = Tree::read(root)?;
    let table = arrows::Table::parse(tree.text("ci/rules/crates.txt").unwrap_or_default())?;
    let mut wrong = texts::check(&tree, &table);
    wrong.extend(sizes::files(&tree));
    wrong.extend(table.check(&tree));
    for (limit, measure) in RULES {
        let path = format!("{LIMITS}/{}.txt", limit.name);
        let listed = limits::parse(tree.text(&path).unwrap_or_default())
            .map_err(|line| format!("{path}: not understood: `{line}`"))?;
        let found = measure(&tree);
        if shrink {
            let text = limit.shrunk(&listed, &found);
            std::fs::write(root.join(&path), text).map_err(|e| format!("write {path}: {e}"))?;
        }
        wrong.extend(limit.check(&listed, &found, shrink));
    }
    Ok(wrong)
}
