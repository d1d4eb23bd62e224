//! Workloads with parameters: scattered memory, sweeps, and a large target.
//!
//! A layout has a name that says its parameters, so whatever takes the name of a shipped workload
//! takes these as well:
//!
//! ```text
//! scattered[-BLOCK][-PERCENT]         scattered-64k-3: 3 % of 1 GiB, in pieces of 64 KiB
//! sweep[-blocks][-fast|-slow|-TIME]   sweep-blocks-300ms: 1 GiB once per 300 ms, by eight pointers
//! large[-clustered]                   5 % of 8 GiB, scattered or in three places
//! ```
//!
//! Names that are shipped as files mean the same here; a test holds them together. A file wins,
//! since some of them run for longer.

use std::fmt::{Display, Formatter};

use isotherm_core::units::{millis, show_interval, show_size, size};

/// The memory of the layouts that are not large, in bytes.
const TOTAL: u64 = 1 << 30;
/// What a sweep by blocks gives each of its pointers, in bytes.
const BLOCK: u64 = 128 << 20;
/// The rarest sweep, in ms. A rarer one would hardly come around in a run.
const RAREST_MS: u64 = 60_000;
/// Where the hot places of `large-clustered` begin, in bytes. They are spread unevenly.
const PLACES: [u64; 3] = [1 << 30, 3 << 30, 13 << 29];

/// A workload with parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layout {
    /// A share of 1 GiB is hot, in pieces that lie scattered.
    Scattered {
        /// Size of a piece, in bytes: a power of two from 4 KiB to 64 MiB.
        block: u64,
        /// How much is hot, in percent: above 0, at most 100.
        percent: f64,
    },
    /// 1 GiB is gone over, again and again.
    Sweep {
        /// How long it takes to come around, in ms: from 1 to 60,000.
        every_ms: u64,
        /// By eight pointers, each of which goes over 128 MiB, rather than by one.
        by_blocks: bool,
    },
    /// 5 % of 8 GiB are hot.
    Large {
        /// In three places of 136 MiB, rather than in scattered pieces of 256 KiB.
        clustered: bool,
    },
}

/// What is asked for beside a name. Fields that are `None` or `false` change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Change {
    /// The size of a piece, in bytes.
    pub block: Option<u64>,
    /// How much is hot, in percent.
    pub percent: Option<f64>,
    /// How long a sweep takes, in ms.
    pub every_ms: Option<u64>,
    /// Whether a sweep is by blocks.
    pub by_blocks: Option<bool>,
    /// Whether the hot memory lies together.
    pub clustered: bool,
}

impl Layout {
    /// The layout of this name, if it is the name of one.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let mut words = name.split('-');
        let layout = match words.next()? {
            "scattered" => {
                let block = words.next().map_or(Some(256 << 10), |word| size(word).ok())?;
                let percent = words.next().map_or(Some(10.0), |word| word.parse().ok())?;
                Self::Scattered { block, percent }
            }
            "sweep" => {
                let mut word = words.next();
                let by_blocks = word == Some("blocks");
                if by_blocks {
                    word = words.next();
                }
                let every_ms = match word {
                    None => 1000,
                    Some("fast") => 300,
                    Some("slow") => 5000,
                    Some(time) => millis(time).ok()?,
                };
                Self::Sweep { every_ms, by_blocks }
            }
            "large" => match words.next() {
                None => Self::Large { clustered: false },
                Some("clustered") => Self::Large { clustered: true },
                Some(_) => return None,
            },
            _ => return None,
        };
        (words.next().is_none() && layout.check().is_ok()).then_some(layout)
    }

    /// The layout with other parameters.
    ///
    /// # Errors
    ///
    /// What is wrong, in words: a parameter that this layout does not have, or that is out of its
    /// bounds.
    pub fn changed(self, change: &Change) -> Result<Self, String> {
        let changed = match self {
            Self::Scattered { block, percent } => Self::Scattered {
                block: change.block.unwrap_or(block),
                percent: change.percent.unwrap_or(percent),
            },
            Self::Sweep { every_ms, by_blocks } => Self::Sweep {
                every_ms: change.every_ms.unwrap_or(every_ms),
                by_blocks: change.by_blocks.unwrap_or(by_blocks),
            },
            Self::Large { clustered } => Self::Large { clustered: clustered || change.clustered },
        };
        let [scattered, sweep, large] = [
            matches!(self, Self::Scattered { .. }),
            matches!(self, Self::Sweep { .. }),
            matches!(self, Self::Large { .. }),
        ];
        let foreign = [
            (change.block.is_some() && !scattered, "the size of a block", "`scattered`"),
            (change.percent.is_some() && !scattered, "a hot share", "`scattered`"),
            (change.every_ms.is_some() && !sweep, "the time of a sweep", "`sweep`"),
            (change.by_blocks.is_some() && !sweep, "the way of a sweep", "`sweep`"),
            (change.clustered && !large, "`clustered`", "`large`"),
        ];
        if let Some((_, what, owner)) = foreign.iter().find(|(is_asked_for, ..)| *is_asked_for) {
            return Err(format!("{what} can be given for {owner} only"));
        }
        changed.check()?;
        Ok(changed)
    }

    fn check(self) -> Result<(), String> {
        match self {
            Self::Scattered { block, .. }
                if !block.is_power_of_two() || !(4096..=64 << 20).contains(&block) =>
            {
                Err("a block has a power of two of bytes, from 4K to 64M".into())
            }
            Self::Scattered { percent, .. } if !(percent > 0.0 && percent <= 100.0) => {
                Err("a hot share is above 0 and at most 100 %".into())
            }
            Self::Sweep { every_ms, .. } if !(1..=RAREST_MS).contains(&every_ms) => {
                Err("a sweep takes from 1ms to 60s".into())
            }
            _ => Ok(()),
        }
    }

    /// The config, as text.
    #[must_use]
    pub fn text(self) -> String {
        let (bytes, ms, patterns) = match self {
            Self::Scattered { block, percent } => {
                let keys = format!("pieces={}, share={percent}, hz=200", show_size(block));
                (TOTAL, 20_000, vec![format!("m, 1, 64, 1, rw, {keys}")])
            }
            Self::Sweep { every_ms, by_blocks } => {
                #[expect(clippy::cast_precision_loss, reason = "at most a minute in ms")]
                let hz = 1000.0 / every_ms as f64;
                let one = |keys: String| format!("m, 0, 4096, 1, rw, {keys}hz={hz}");
                let block = |at: u64| one(format!("offset={at}, length={}, ", show_size(BLOCK)));
                let blocks = || (0..TOTAL / BLOCK).map(|i| block(i * BLOCK)).collect();
                (TOTAL, 20_000, if by_blocks { blocks() } else { vec![one(String::new())] })
            }
            Self::Large { clustered: false } => {
                let keys = "pieces=256K, share=5, hz=100";
                (8 * TOTAL, 60_000, vec![format!("m, 1, 64, 1, rw, {keys}")])
            }
            Self::Large { clustered: true } => {
                let place = |at: &u64| format!("m, 1, 64, 1, rw, offset={at}, length=136M, hz=100");
                (8 * TOTAL, 60_000, PLACES.iter().map(place).collect())
            }
        };
        let (bytes, patterns) = (show_size(bytes), patterns.join("\n"));
        format!("# {self}\nm, {bytes}\n\nsteady\n{ms}\n{patterns}\n")
    }
}

/// Its name.
impl Display for Layout {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Scattered { block, percent } => {
                write!(f, "scattered-{}", show_size(block).to_lowercase())?;
                // Without a share it is the usual one.
                if (percent - 10.0).abs() > f64::EPSILON { write!(f, "-{percent}") } else { Ok(()) }
            }
            Self::Sweep { every_ms, by_blocks } => {
                f.write_str(if by_blocks { "sweep-blocks" } else { "sweep" })?;
                match every_ms {
                    1000 => Ok(()),
                    300 => f.write_str("-fast"),
                    5000 => f.write_str("-slow"),
                    ms => write!(f, "-{}", show_interval(ms * 1000)),
                }
            }
            Self::Large { clustered } => {
                f.write_str(if clustered { "large-clustered" } else { "large" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Rate, SHIPPED};
    use super::*;

    #[test]
    fn names_read_back() {
        for (name, same) in [
            ("scattered", "scattered-256k"),
            ("scattered-64k-3", "scattered-64k-3"),
            ("scattered-2M-0.5", "scattered-2m-0.5"),
            ("scattered-4k-10", "scattered-4k"),
            ("sweep-1s", "sweep"),
            ("sweep-blocks-300ms", "sweep-blocks-fast"),
            ("sweep-blocks-5s", "sweep-blocks-slow"),
            ("sweep-250ms", "sweep-250ms"),
            ("large-clustered", "large-clustered"),
        ] {
            let layout = Layout::of_name(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(layout.to_string(), same, "{name}");
            assert_eq!(Layout::of_name(same), Some(layout), "{name}");
            let config = Config::parse(&layout.text()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(Config::parse(&config.to_string()), Ok(config), "{name}");
        }
        for name in [
            "",
            "scatter",
            "scattered-",
            "scattered-3k",
            "scattered-1k",
            "scattered-128m",
            "scattered-64k-0",
            "scattered-64k-101",
            "scattered-64k-NaN",
            "scattered-64k-3-3",
            "sweep-0",
            "sweep-61s",
            "sweep-5",
            "sweep-fast-blocks",
            "large-3",
            "stairs",
        ] {
            assert_eq!(Layout::of_name(name), None, "{name}");
        }
    }

    /// What is shipped as a file under the name of a layout does the same, perhaps for longer.
    #[test]
    fn files_agree_with_the_layouts_of_their_names() {
        let mut agreed = 0;
        for (name, text) in SHIPPED {
            let Some(layout) = Layout::of_name(name) else { continue };
            let [mut file, mut made] =
                [(*text).to_owned(), layout.text()].map(|text| Config::parse(&text).unwrap());
            assert!(file.total_ms() >= made.total_ms(), "{name}");
            for config in [&mut file, &mut made] {
                config.phases[0].time_ms = 0;
                for pattern in &mut config.phases[0].patterns {
                    let Some(Rate::PerPage(hz)) = &mut pattern.rate else { panic!("{name}") };
                    *hz = (*hz * 1000.0).round();
                }
            }
            assert_eq!(file, made, "{name}");
            agreed += 1;
        }
        assert_eq!(agreed, 11);
    }

    #[test]
    fn parameters_belong_to_their_layouts() {
        let of = |name: &str, change: &Change| {
            Layout::of_name(name).unwrap().changed(change).map(|layout| layout.to_string())
        };
        let change = Change { block: Some(4096), percent: Some(3.0), ..Change::default() };
        assert_eq!(of("scattered-64k", &change).as_deref(), Ok("scattered-4k-3"));
        assert!(of("sweep", &change).unwrap_err().contains("`scattered` only"));
        let change = Change { every_ms: Some(300), by_blocks: Some(true), ..Change::default() };
        assert_eq!(of("sweep", &change).as_deref(), Ok("sweep-blocks-fast"));
        assert!(of("large", &change).unwrap_err().contains("`sweep` only"));
        let change = Change { by_blocks: Some(false), ..Change::default() };
        assert_eq!(of("sweep-blocks-slow", &change).as_deref(), Ok("sweep-slow"));
        let change = Change { clustered: true, ..Change::default() };
        assert_eq!(of("large", &change).as_deref(), Ok("large-clustered"));
        assert!(of("scattered", &change).unwrap_err().contains("`large` only"));
        let change = Change { percent: Some(101.0), ..Change::default() };
        assert!(of("scattered", &change).unwrap_err().contains("at most 100 %"));
        let change = Change { block: Some(5000), ..Change::default() };
        assert!(of("scattered", &change).unwrap_err().contains("power of two"));
    }
}
