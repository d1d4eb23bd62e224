//! Which regions a scheme matches: closed ranges of size, access frequency and age (R§4.1).
//!
//! The kernel counts frequency in samples per window and age in windows. It does not rescale them
//! when the intervals change, so tuned intervals stretch "10 seconds" to minutes (R§9.1.4). Here
//! frequency can also be given in basis points, and age in microseconds. These follow the
//! intervals.

use crate::attrs::Attrs;
use crate::math::mult_frac;

/// A closed range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bounds<T> {
    /// The least value inside.
    pub min: T,
    /// The largest value inside.
    pub max: T,
}

impl<T: Ord + Copy> Bounds<T> {
    /// The range from `min` to `max`, both inside.
    #[must_use]
    pub const fn new(min: T, max: T) -> Self {
        Self { min, max }
    }

    /// Whether `value` is inside.
    #[must_use]
    pub fn contains(&self, value: T) -> bool {
        self.min <= value && value <= self.max
    }

    /// Whether the bounds are in the wrong order, so that nothing is inside.
    #[must_use]
    pub fn is_upside_down(&self) -> bool {
        self.max < self.min
    }
}

/// How often a region is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Frequency {
    /// In samples per window (`nr_accesses`), as the kernel counts.
    Samples(Bounds<u32>),
    /// In basis points of all samples of a window.
    Bp(Bounds<u32>),
}

/// For how long a region has looked like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Age {
    /// In aggregation windows, as the kernel counts.
    Windows(Bounds<u32>),
    /// In microseconds.
    Micros(Bounds<u64>),
}

/// An access pattern (`struct damos_access_pattern`, Linux 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Size of the region, in bytes.
    pub sz: Bounds<u64>,
    /// Access frequency.
    pub nr_accesses: Frequency,
    /// Age.
    pub age: Age,
}

impl Default for Pattern {
    /// The kernel's default: all bounds are 0, which no region matches.
    fn default() -> Self {
        Self {
            sz: Bounds::default(),
            nr_accesses: Frequency::Samples(Bounds::default()),
            age: Age::Windows(Bounds::default()),
        }
    }
}

impl Pattern {
    /// Every region.
    pub const ALL: Self = Self {
        sz: Bounds::new(0, u64::MAX),
        nr_accesses: Frequency::Samples(Bounds::new(0, u32::MAX)),
        age: Age::Windows(Bounds::new(0, u32::MAX)),
    };

    /// Regions of any size that were not accessed for `us` microseconds or longer.
    #[must_use]
    pub const fn idle_for_us(us: u64) -> Self {
        Self {
            nr_accesses: Frequency::Samples(Bounds::new(0, 0)),
            age: Age::Micros(Bounds::new(us, u64::MAX)),
            ..Self::ALL
        }
    }

    /// The pattern in samples and windows of `attrs`. Fractions are cut off, as in the kernel's
    /// tools.
    #[must_use]
    pub fn resolve(&self, attrs: &Attrs) -> Resolved {
        let max_nr = u64::from(attrs.max_nr_accesses());
        let samples = |bp: u32| saturated(mult_frac(u64::from(bp), max_nr, 10_000));
        let windows = |us: u64| match us {
            u64::MAX => u32::MAX,
            us => saturated(us / attrs.aggr_us.max(1)),
        };
        Resolved {
            sz: self.sz,
            nr_accesses: match self.nr_accesses {
                Frequency::Samples(bounds) => bounds,
                Frequency::Bp(bp) => Bounds::new(samples(bp.min), samples(bp.max)),
            },
            age: match self.age {
                Age::Windows(bounds) => bounds,
                Age::Micros(us) => Bounds::new(windows(us.min), windows(us.max)),
            },
        }
    }

    /// Whether one of the ranges is upside down, so that no region matches.
    #[must_use]
    pub fn is_upside_down(&self) -> bool {
        self.sz.is_upside_down()
            || match self.nr_accesses {
                Frequency::Samples(bounds) | Frequency::Bp(bounds) => bounds.is_upside_down(),
            }
            || match self.age {
                Age::Windows(bounds) => bounds.is_upside_down(),
                Age::Micros(bounds) => bounds.is_upside_down(),
            }
    }
}

/// A pattern in samples and windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resolved {
    /// Size, in bytes.
    pub sz: Bounds<u64>,
    /// Samples per window.
    pub nr_accesses: Bounds<u32>,
    /// Windows.
    pub age: Bounds<u32>,
}

impl Resolved {
    /// Whether a region of this size, frequency and age matches.
    #[must_use]
    pub fn matches(&self, sz: u64, nr_accesses: u32, age: u32) -> bool {
        self.sz.contains(sz) && self.nr_accesses.contains(nr_accesses) && self.age.contains(age)
    }
}

fn saturated(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}
