//! Estimates with their intervals, and the price of a page that comes back.

use isotherm_core::units::percent;
use serde::Serialize;

/// An estimate with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Estimate {
    /// Lower end.
    pub lo: f64,
    /// The estimate.
    pub mid: f64,
    /// Upper end.
    pub hi: f64,
}

impl Estimate {
    /// `mid` within its bounds, of which none is below 0.
    #[must_use]
    pub const fn new(lo: f64, mid: f64, hi: f64) -> Self {
        let lo = lo.max(0.0);
        let hi = hi.max(lo);
        Self { lo, mid: mid.clamp(lo, hi), hi }
    }

    /// The product with a factor of 0 or more.
    #[must_use]
    pub const fn times(self, factor: f64) -> Self {
        Self { lo: self.lo * factor, mid: self.mid * factor, hi: self.hi * factor }
    }

    /// Another value of 0 or more as the estimate, within an interval that holds both.
    #[must_use]
    pub const fn moved_to(self, mid: f64) -> Self {
        Self { lo: self.lo.min(mid), mid, hi: self.hi.max(mid) }
    }

    /// The product of two estimates, neither below 0, whose errors are independent.
    #[must_use]
    pub fn by(self, other: Self) -> Self {
        let (a, b) = (self.mid, other.mid);
        let error = |of_a: f64, of_b: f64| (of_a * b).hypot(of_b * a);
        let down = error(a - self.lo, b - other.lo);
        let up = error(self.hi - a, other.hi - b);
        Self::new(a * b - down, a * b, a * b + up)
    }
}

/// What it costs when a page comes back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Price {
    /// For how long the program waits, in µs.
    pub us: Estimate,
    /// Where that is from, for people.
    pub source: String,
    /// How many CPUs the program keeps busy. So many threads go on while one waits.
    pub cpus: f64,
    /// Units of work that the program does per second, where a counter is known.
    pub work_per_s: Option<f64>,
}

impl Price {
    /// What is assumed where nothing was measured: 20 µs, as zram on a machine of today, and up to
    /// 200 µs, as a solid-state disk.
    #[must_use]
    pub fn assumed() -> Self {
        let source = "assumed; nothing was measured".to_owned();
        Self {
            us: Estimate { lo: 10.0, mid: 20.0, hi: 200.0 },
            source,
            cpus: 1.0,
            work_per_s: None,
        }
    }
}

/// `mid [lo .. hi]`.
pub(crate) fn interval(e: Estimate, show: &dyn Fn(f64) -> String) -> String {
    format!("{} [{} .. {}]", show(e.mid), show(e.lo), show(e.hi))
}

/// The same of shares, with one sign for all three.
pub(crate) fn shares(e: Estimate) -> String {
    let bare = |share: f64| percent(share).trim_end_matches([' ', '%']).to_owned();
    format!("{} [{} .. {}] %", bare(e.mid), bare(e.lo), bare(e.hi))
}
