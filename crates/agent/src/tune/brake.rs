//! When a trial is stopped before its end: the program is far too slow.

/// Above so many times the limit.
const AT_ONCE: f64 = 4.0;
/// And above so many deviations of what is noise, this much before that is known.
const DEVIATIONS: f64 = 3.0;
const UNKNOWN_NOISE: f64 = 0.05;

/// When a trial is stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brake {
    /// The largest slowdown that is allowed, as a share.
    pub max_slowdown: f64,
    /// Deviation of the slowdown in a whole phase; none if not known.
    pub noise: Option<f64>,
}

impl Brake {
    /// Whether a slowdown stops the trial. `passed` is the share of a phase that has passed: the
    /// less that is, the larger is the noise.
    #[must_use]
    pub fn stops(&self, slowdown: f64, passed: f64) -> bool {
        let noise = self.noise.unwrap_or(UNKNOWN_NOISE) / passed.clamp(1e-3, 1.0).sqrt();
        slowdown > AT_ONCE * self.max_slowdown + DEVIATIONS * noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_time_needs_much_slowdown() {
        let brake = Brake { max_slowdown: 0.02, noise: Some(0.01) };
        assert!(brake.stops(0.12, 1.0) && !brake.stops(0.10, 1.0) && !brake.stops(0.12, 0.25));
        let unknown = Brake { noise: None, ..brake };
        assert!(!unknown.stops(0.2, 1.0) && unknown.stops(0.24, 1.0) && !unknown.stops(0.24, 0.0));
    }
}
