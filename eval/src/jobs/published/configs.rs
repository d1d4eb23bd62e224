//! Under what each program is measured: the configurations of DAMON's published evaluations, and
//! ours.
//!
//! The published schemes act on memory that is idle for 10 s, in runs of three minutes on average.
//! Runs are shorter here, and so are the ages of `prcl`: the time scale is another, and with it the
//! quotas of the ready-made scheme would be more than a machine can do, so there are none.

use std::path::Path;

use crate::processes::tool::RECORD;

/// Without Isotherm.
pub(super) const ORIG: &str = "orig";
/// A record by DAMON's method.
pub(super) const REC: &str = "rec";
/// A record of physical memory.
pub(super) const PREC: &str = "prec";
/// Huge pages everywhere.
pub(super) const THP: &str = "thp";
/// Huge pages where `isotherm thp` puts them.
pub(super) const ETHP: &str = "ethp";
/// Reclaim by regions and age alone.
pub(super) const PRCL: &str = "prcl";
/// The policy that `isotherm tune` found.
pub(super) const TUNED: &str = "prcl-tuned";
/// A record as `isotherm record` makes it by default.
pub(super) const CENSUS: &str = "census";
/// Reclaim with evidence and brake, as `isotherm reclaim` does by default.
pub(super) const EVIDENCE: &str = "prcl+evidence";
/// The policy that `isotherm plan` recommends.
pub(super) const PLAN: &str = "plan";

/// A configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Config {
    /// Its name on the command line and in tables.
    pub(super) name: &'static str,
    /// The machine's setting for transparent huge pages.
    pub(super) huge_pages: &'static str,
    /// What runs beside the program.
    pub(super) beside: Beside,
}

/// What runs beside the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    /// `isotherm record` of the program, with these options.
    Record(&'static [&'static str]),
    /// `isotherm thp`.
    HugePages,
    /// `isotherm reclaim`, with these options and the age.
    Reclaim(&'static [&'static str]),
    /// A policy that is made once per program.
    Policy,
}

const UNLIMITED: [&str; 6] = ["--watermarks", "none", "--quota", "none", "--quota-time", "none"];
/// As DAMON's `prcl`: `4K max 0 0 AGE max pageout`.
const AS_DAMON: [&str; 5] = ["--method", "resample", "--evidence", "off", "--no-brake"];

/// All, in the order of the published tables; ours at the end.
pub(super) const ALL: [Config; 10] = [
    config(ORIG, Beside::Nothing),
    config(REC, Beside::Record(&["--method", "resample"])),
    // Each look at a frame is a system call, so the intervals are longer (docs/PHYSICAL.md).
    config(
        PREC,
        Beside::Record(&["--paddr", "--ops", "idle", "--sample", "100ms", "--aggr", "2s"]),
    ),
    Config { name: THP, huge_pages: "always", beside: Beside::Nothing },
    config(ETHP, Beside::HugePages),
    config(PRCL, Beside::Reclaim(&AS_DAMON)),
    config(TUNED, Beside::Policy),
    config(CENSUS, Beside::Record(&[])),
    config(EVIDENCE, Beside::Reclaim(&[])),
    config(PLAN, Beside::Policy),
];

const fn config(name: &'static str, beside: Beside) -> Config {
    Config { name, huge_pages: "madvise", beside }
}

impl Config {
    /// Whether it records physical memory, and so no process.
    fn is_physical(self) -> bool {
        self.name == PREC
    }

    /// Whether `pids` belong on its command line.
    pub(super) fn takes_pids(self) -> bool {
        !self.is_physical() && self.beside != Beside::Policy
    }

    /// The subcommand and its options. `file` is the record to write, or the policy to run.
    pub(super) fn command(self, age_ms: u64, file: &Path) -> Option<(&'static str, Vec<String>)> {
        let file = file.to_string_lossy().into_owned();
        let text = |options: &[&str]| options.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>();
        match self.beside {
            Beside::Nothing => None,
            Beside::Record(options) => {
                let output = vec!["--output".to_owned(), file];
                Some((RECORD, [output, text(options)].concat()))
            }
            Beside::HugePages => Some(("thp", Vec::new())),
            Beside::Reclaim(options) => {
                let age = vec!["--age".to_owned(), format!("{age_ms}ms")];
                Some(("reclaim", [text(&UNLIMITED), age, text(options)].concat()))
            }
            Beside::Policy => Some(("run", vec![file])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str) -> String {
        let config = ALL.iter().find(|c| c.name == name).unwrap();
        let (subcommand, args) = config.command(2000, Path::new("f")).unwrap();
        format!("{subcommand} {}", args.join(" "))
    }

    #[test]
    fn commands_are_those_of_the_seeds_and_of_a_user() {
        assert!(ALL[0].command(2000, Path::new("f")).is_none());
        assert_eq!(line(REC), "record --output f --method resample");
        assert_eq!(line(CENSUS), "record --output f");
        assert_eq!(line(ETHP).trim(), "thp");
        assert_eq!(line(PLAN), "run f");
        assert_eq!(
            line(PRCL),
            "reclaim --watermarks none --quota none --quota-time none --age 2000ms --method resample \
             --evidence off --no-brake"
        );
        assert!(line(EVIDENCE).ends_with("--age 2000ms"));
    }

    #[test]
    fn only_what_watches_processes_gets_pids() {
        let without: Vec<&str> = ALL.iter().filter(|c| !c.takes_pids()).map(|c| c.name).collect();
        assert_eq!(without, [PREC, TUNED, PLAN]);
        let always: Vec<&str> =
            ALL.iter().filter(|c| c.huge_pages == "always").map(|c| c.name).collect();
        assert_eq!(always, [THP]);
    }
}
