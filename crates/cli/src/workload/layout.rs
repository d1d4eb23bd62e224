//! Parameters of the shipped workloads that have some: `scattered`, `sweep` and `large`.

use isotherm::raw::core::units::{millis, share_bp, size};
use isotherm::raw::sim::config::{Change, Layout};

use crate::exit::usage;

/// What the list of workloads says of those with parameters, after an empty line.
pub(super) const LISTED: &str = "
With parameters, or these in the name:
scattered [--block SIZE] [--hot SHARE]      scattered-64k-3: 3 % of 1 GiB, in pieces of 64 KiB
sweep [--every TIME] [--by blocks|pointer]  sweep-blocks-300ms: 1 GiB in 0.3 s, by eight pointers
large [--clustered]                         large-clustered: 5 % of 8 GiB, in three places
";

const HEADING: &str = "Workloads with parameters";

/// Parameters of a shipped workload.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LayoutArgs {
    /// Of `scattered`: the size of a hot piece (256K).
    #[arg(long, hide_short_help = true, help_heading = HEADING, value_name = "SIZE", value_parser = size)]
    block: Option<u64>,
    /// Of `scattered`: how much of the memory is hot (10%).
    #[arg(long, hide_short_help = true, help_heading = HEADING, value_name = "SHARE", value_parser = share_bp)]
    hot: Option<u64>,
    /// Of `sweep`: how long it takes to go over the memory once (1s).
    #[arg(long, hide_short_help = true, help_heading = HEADING, value_name = "TIME", value_parser = millis)]
    every: Option<u64>,
    /// Of `sweep`: who goes over the memory (pointer).
    #[arg(long, hide_short_help = true, help_heading = HEADING, value_name = "WAY")]
    by: Option<By>,
    /// Of `large`: the hot memory lies in three places, and not scattered.
    #[arg(long, hide_short_help = true, help_heading = HEADING)]
    clustered: bool,
}

/// Who goes over the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// One pointer, from the beginning to the end.
    Pointer,
    /// Eight pointers, each in an eighth of the memory.
    Blocks,
}

impl LayoutArgs {
    /// The name of `source` with these parameters.
    pub(super) fn named(&self, source: &str) -> anyhow::Result<String> {
        let change = Change {
            block: self.block,
            #[expect(clippy::cast_precision_loss, reason = "a share of at most some thousand")]
            percent: self.hot.map(|bp| bp as f64 / 100.0),
            every_ms: self.every,
            by_blocks: self.by.map(|by| by == By::Blocks),
            clustered: self.clustered,
        };
        if change == Change::default() {
            return Ok(source.to_owned());
        }
        let wrong = |why: &str| {
            usage(format!(
                "{source}: {why}\n  tried: make a workload with the given parameters\n  \
                 hint:  `isotherm workload --list` says which workload has which"
            ))
        };
        let layout = Layout::of_name(source).ok_or_else(|| wrong("it has no parameters"))?;
        Ok(layout.changed(&change).map_err(|why| wrong(&why))?.to_string())
    }
}
