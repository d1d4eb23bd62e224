//! Workload configs, in the format of masim with keys that masim lacks.
//!
//! Any config that the memory access simulator *masim* reads is read here with the same meaning:
//!
//! ```text
//! # Lines that start with a hash are comments. A blank line ends a paragraph.
//! # First paragraph, one region per line:
//! # name, size in bytes[, file with its first content | none]
//! a, 104857600
//! b, 104857600, none
//!
//! # Every further paragraph is a phase:
//! # its name, its length in ms, then one access pattern per line:
//! # region, randomness (1 or 0), stride in bytes, probability[, ro | wo | rw]
//! first phase
//! 5000
//! a, 0, 4096, 80, wo
//! b, 1, 64, 20, ro
//! ```
//!
//! A sequential pattern touches the region's bytes 0, stride, 2 * stride, ... and begins again. A
//! random pattern touches bytes at random and ignores its stride. Patterns without a rate run at
//! full speed and share the time in proportion to their probabilities. Without `ro|wo|rw` accesses
//! are writes.
//!
//! # Keys of our own
//!
//! Numbers of bytes take `K`, `M`, `G` (powers of 1024). Lines that start with `@`, before or
//! between the regions, hold for the whole run. Regions, phase lengths and patterns take further
//! `key=value` fields. A phase may have no pattern.
//!
//! | where | key | meaning |
//! |---|---|---|
//! | `@` | `seed=N` | seed of all random choices (1) |
//! | `@` | `threads=N` | threads per process; rates are shared among them (1) |
//! | `@` | `processes=N` | size of the fork tree: process `i` is forked by `(i - 1) / 2` (1) |
//! | `@` | `fork_ms=N` | process `i` is forked `i * N` ms after the start (1000) |
//! | `@` | `gap=SIZE` | least unmapped gap between two regions (64M) |
//! | region | `thp=on\|off\|default` | `MADV_HUGEPAGE`, `MADV_NOHUGEPAGE` or no advice (off) |
//! | region | `populate=yes\|no` | write every page before the run starts (yes) |
//! | region | `mapped=SIZE` | how much is mapped at the start (all) |
//! | region | `at=ADDRESS` | where it begins, as 0x2000000000 (behind the region before) |
//! | phase | `resize=NAME:SIZE` | as the phase begins, map, resize or (0) unmap a region |
//! | pattern | `rate=X` | accesses per second, in total |
//! | pattern | `hz=X` | accesses per second of each page that the pattern can touch |
//! | pattern | `offset=SIZE`, `length=SIZE` | only this part of the region |
//! | pattern | `pieces=SIZE`, `share=X` | X percent of the pieces of SIZE bytes, at random |
//! | pattern | `pieces`, `share`, `every=MS` | every MS other pieces are chosen |
//! | pattern | `zipf=X`, `block=SIZE` | random blocks; the k-th by address has weight 1 / k^X |
//! | pattern | `scatter=yes\|no` | the blocks' ranks are shuffled by the seed (no) |
//! | pattern | `sparse=SIZE` | only the first 4 KiB of every SIZE bytes |
//! | pattern | `step=SIZE`, `every=MS` | every MS the part touched moves up by SIZE, and around |
//! | pattern | `process=N` | only process N of the fork tree does this |
//!
//! A phase may have several `resize`, each of which maps, grows or shrinks a region, or with 0
//! unmaps it. A block has 4 KiB or more. With more than 4096 blocks, neighbouring ranks have one
//! common weight (their mean): those from rank k to 1.05 k. Each pattern with `pieces` chooses its
//! own. With `every`, the first choice comes again after 64 others.
//!
//! Absent on purpose: this module opens no files. It only returns the name of a region's data file.

mod error;
mod field;
mod keys;
mod layout;
mod parse;
mod print;
mod shipped;

pub use error::ParseError;
pub use layout::{Change, Layout};
pub use shipped::{SHIPPED, shipped};

/// Whether huge pages may back a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thp {
    /// Huge pages are advised for.
    On,
    /// Huge pages are advised against, so that every leaf has 4 KiB.
    #[default]
    Off,
    /// No advice: the machine's setting decides.
    Default,
}

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Reads a byte.
    ReadOnly,
    /// Writes a byte.
    #[default]
    WriteOnly,
    /// Reads a byte and writes it back, changed.
    ReadWrite,
}

/// Where the first region goes, unless it says where: far from a program, its heap, libraries and
/// stack.
const BASE: u64 = 0x2000_0000_0000;
/// As far as page tables of five levels reach.
const HIGHEST: u64 = 1 << 56;
/// Regions begin at multiples of this, in bytes.
const ALIGNED: u64 = 2 << 20;

/// Settings for the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Seed of all random choices.
    pub seed: u64,
    /// Threads per process.
    pub threads: u32,
    /// Processes in the fork tree, the first included.
    pub processes: u32,
    /// Time between two forks, in ms.
    pub fork_ms: u64,
    /// Least unmapped gap between two regions, in bytes.
    pub gap: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, threads: 1, processes: 1, fork_ms: 1000, gap: 64 << 20 }
    }
}

/// A region of memory, mapped on its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Its largest size, in bytes.
    pub size: u64,
    /// File with the first content.
    pub data: Option<String>,
    /// Huge pages.
    pub thp: Thp,
    /// Whether every page is written before the run starts.
    pub populate: bool,
    /// Bytes mapped at the start.
    pub mapped: u64,
    /// Where it begins: a multiple of 2 MiB. `None` is behind the region before, with a gap.
    pub at: Option<u64>,
}

/// How often a pattern's accesses happen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Accesses per second.
    Total(f64),
    /// Accesses per second and page.
    PerPage(f64),
}

/// A skewed choice among blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zipf {
    /// The k-th block has weight 1 / k^exponent.
    pub exponent: f64,
    /// Block size, in bytes.
    pub block: u64,
    /// Whether ranks are shuffled rather than in address order.
    pub scatter: bool,
}

/// A hot part that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drift {
    /// How far it moves at a time, in bytes.
    pub step: u64,
    /// How long it stays, in ms.
    pub every_ms: u64,
}

/// Scattered pieces, of which some are hot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pieces {
    /// Size of one, in bytes.
    pub size: u64,
    /// How many of them are touched, in percent.
    pub share: f64,
    /// How long these are touched until others are, in ms; `None` is for the whole phase.
    pub every_ms: Option<u64>,
}

impl Pieces {
    /// At most so many choices of pieces take turns.
    pub const MAX_CHOICES: u64 = 64;

    /// How many of `nr` pieces are touched: at least one.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a number of pieces, far below 2^52"
    )]
    pub fn touched_of(&self, nr: u64) -> u64 {
        ((nr as f64 * self.share / 100.0).round() as u64).clamp(1, nr.max(1))
    }
}

/// One access pattern of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// Index into [`Config::regions`].
    pub region: usize,
    /// Random rather than sequential.
    pub random: bool,
    /// Distance of two sequential accesses, in bytes.
    pub stride: u64,
    /// Share of the time among the patterns without a rate.
    pub weight: u32,
    /// Reads, writes or both.
    pub mode: Mode,
    /// How often; `None` is as fast as possible.
    pub rate: Option<Rate>,
    /// First byte inside the region.
    pub offset: u64,
    /// Number of bytes; `None` is up to the region's end.
    pub length: Option<u64>,
    /// Skewed choice.
    pub zipf: Option<Zipf>,
    /// Only some pieces.
    pub pieces: Option<Pieces>,
    /// Only the first 4 KiB of every so many bytes.
    pub sparse: Option<u64>,
    /// Movement.
    pub drift: Option<Drift>,
    /// Only in this process of the fork tree.
    pub process: Option<u32>,
}

impl Pattern {
    /// A pattern without any of our own keys.
    #[must_use]
    pub const fn new(region: usize, random: bool, stride: u64, weight: u32, mode: Mode) -> Self {
        Self {
            region,
            random,
            stride,
            weight,
            mode,
            rate: None,
            offset: 0,
            length: None,
            zipf: None,
            pieces: None,
            sparse: None,
            drift: None,
            process: None,
        }
    }
}

/// A stretch of time with fixed patterns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Its length, in ms.
    pub time_ms: u64,
    /// Regions (by index) and the sizes they get as the phase begins.
    pub resize: Vec<(usize, u64)>,
    /// What is accessed.
    pub patterns: Vec<Pattern>,
}

/// A whole workload.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// Settings for the whole run.
    pub settings: Settings,
    /// Its memory.
    pub regions: Vec<Region>,
    /// Its phases, in order.
    pub phases: Vec<Phase>,
}

impl Config {
    /// Reads a config.
    ///
    /// # Errors
    ///
    /// The first line that cannot be understood, with its number and what was expected there.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text)
    }

    /// Where each region begins. The same in a real process and in a simulated one.
    #[must_use]
    pub fn bases(&self) -> Vec<u64> {
        let mut next = BASE;
        let base_of = |region: &Region| {
            let base = region.at.unwrap_or(next);
            let end = base.saturating_add(region.size.next_multiple_of(ALIGNED));
            // A config whose regions do not all end below is refused.
            next = end.saturating_add(self.settings.gap).min(HIGHEST).next_multiple_of(ALIGNED);
            base
        };
        self.regions.iter().map(base_of).collect()
    }

    /// The length of all phases together, in ms.
    #[must_use]
    pub fn total_ms(&self) -> u64 {
        self.phases.iter().map(|p| p.time_ms).fold(0, u64::saturating_add)
    }

    /// Scales all times by `factor`. No time gets shorter than 1 ms.
    pub fn scale(&mut self, factor: f64) {
        let scaled = |ms: u64| -> u64 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "milliseconds of a run are far below 2^52, and `as` saturates"
            )]
            let ms = (ms as f64 * factor).round() as u64;
            ms.max(1)
        };
        self.settings.fork_ms = scaled(self.settings.fork_ms);
        for phase in &mut self.phases {
            phase.time_ms = scaled(phase.time_ms);
            for pattern in &mut phase.patterns {
                let drift = pattern.drift.as_mut().map(|d| &mut d.every_ms);
                let pieces = pattern.pieces.as_mut().and_then(|p| p.every_ms.as_mut());
                drift.into_iter().chain(pieces).for_each(|every| *every = scaled(*every));
            }
        }
    }
}
