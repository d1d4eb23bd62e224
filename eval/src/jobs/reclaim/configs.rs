//! Under which flags `isotherm reclaim` is measured.

/// A configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Config {
    /// Its name on the command line and in tables.
    pub(super) name: String,
    /// Flags of `isotherm reclaim`; none: without Isotherm.
    pub(super) flags: Option<Vec<String>>,
}

/// Without Isotherm.
pub(super) const ORIG: &str = "orig";
/// With evidence: the headline.
pub(super) const EVIDENCE: &str = "evidence";
/// Without evidence and brake, as DAMON does, at twice the age: evidence takes as long again as the
/// age by default, so that both page out after the same time, and can be compared at equal savings.
pub(super) const PLAIN: &str = "plain";
/// The same at the age itself.
pub(super) const PLAIN_EARLY: &str = "plain-early";
/// The same at four times the age. This one and the one before run only where they are
/// named.
const PLAIN_LATE: &str = "plain-late";
/// With evidence, but without the brake that refaults pull. Runs only where it is named.
pub(super) const NO_BRAKE: &str = "evidence-no-brake";
/// With evidence, sampled by this method whatever the default is. They run only where they are
/// named.
const BY_METHOD: [(&str, &str); 2] =
    [("evidence-census", "census"), ("evidence-first-touch", "first-touch")];
/// No configuration: all of the grid.
pub(super) const GRID: &str = "grid";

/// Time quotas of the seeds' table.
const QUOTAS: [&str; 4] = ["none", "200ms", "50ms", "10ms"];

fn config(name: &str, age_ms: u64, flags: &[&str]) -> Config {
    let age = format!("{age_ms}ms");
    let base = ["--watermarks", "none", "--age", &age];
    let flags = base.iter().chain(flags).map(|f| (*f).to_owned()).collect();
    Config { name: name.to_owned(), flags: Some(flags) }
}

/// What all programs are measured under; the first three unless others are named.
pub(super) fn headline(age_ms: u64) -> Vec<Config> {
    let unlimited = ["--quota", "none", "--quota-time", "none"];
    let plain = [&unlimited[..], &["--evidence", "off", "--no-brake"]].concat();
    let by_method = BY_METHOD.map(|(name, method)| {
        config(name, age_ms, &[&unlimited[..], &["--method", method]].concat())
    });
    let mut all = vec![
        Config { name: ORIG.into(), flags: None },
        config(EVIDENCE, age_ms, &unlimited),
        config(PLAIN, 2 * age_ms, &plain),
        config(PLAIN_EARLY, age_ms, &plain),
        config(PLAIN_LATE, 4 * age_ms, &plain),
        config(NO_BRAKE, age_ms, &[&unlimited[..], &["--no-brake"]].concat()),
    ];
    all.extend(by_method);
    all
}

/// Evidence x time quota x prioritization; without a quota there is nothing to prioritize.
pub(super) fn grid(age_ms: u64) -> Vec<Config> {
    let mut all = Vec::new();
    for evidence in ["on", "off"] {
        for (quota, priority) in QUOTAS
            .iter()
            .flat_map(|q| [(q, "N"), (q, "Y")])
            .filter(|(q, p)| (**q, *p) != ("none", "Y"))
        {
            let limit = if *quota == "none" { "none".to_owned() } else { format!("{quota}/s") };
            let mut flags = vec!["--evidence", evidence, "--quota", "none", "--quota-time", &limit];
            if evidence == "off" {
                flags.push("--no-brake");
            }
            if priority == "N" {
                flags.push("--no-priority");
            }
            all.push(config(&format!("{evidence}/{quota}/{priority}"), age_ms, &flags));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_that_of_the_seeds() {
        let grid = grid(4000);
        let names: Vec<&str> = grid.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names[..3], ["on/none/N", "on/200ms/N", "on/200ms/Y"]);
        assert_eq!(names.len(), 14);
        let last = grid[13].flags.as_deref().unwrap().join(" ");
        assert_eq!(
            last,
            "--watermarks none --age 4000ms --evidence off --quota none --quota-time 10ms/s --no-brake"
        );
        assert!(grid[12].flags.as_deref().unwrap().ends_with(&["--no-priority".to_owned()]));
    }

    #[test]
    fn the_first_is_without_isotherm() {
        let all = headline(4000);
        assert_eq!((all[0].name.as_str(), &all[0].flags), (ORIG, &None));
        assert!(all[2].flags.as_deref().unwrap().contains(&"off".to_owned()));
        assert!(all[4].flags.as_deref().unwrap().contains(&"16000ms".to_owned()));
    }
}
