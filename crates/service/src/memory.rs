//! Keeps the agent's own memory below its cap.
//!
//! What grows with what is watched are regions, pages' states and what waits for followers. So in a
//! round with more than 80 % of the cap in use the agent becomes thriftier by a step: half as many
//! regions per context, a quarter of the room for what waits. After three such steps, and at 95 %,
//! the policy that watches most memory is put to wait, as if it had failed: it is tried again
//! later. With less than 60 % in use for a while it goes back step by step.
//!
//! The cap is the agent's own care. What the kernel enforces is `MemoryMax` of the unit.

/// Above this share of the cap, in percent, the agent becomes thriftier.
const HIGH: u64 = 80;
/// Above this one a policy has to wait.
const FULL: u64 = 95;
/// Below this one it becomes less thrifty.
const LOW: u64 = 60;
/// The most steps.
pub(crate) const MOST_THRIFT: u32 = 3;
/// After so many rounds of low use a step is taken back.
const CALM: u32 = 6;
/// After a policy was put to wait, its memory gets so many rounds to be given back.
const REST: u32 = 2;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Keep,
    /// Be as thrifty as this from now on.
    Thrift(u32),
    /// Put the policy that watches most memory to wait.
    Shed,
}

/// What is known from the rounds before.
#[derive(Debug, Default)]
pub(crate) struct Thrift {
    level: u32,
    calm: u32,
    rest: u32,
}

impl Thrift {
    /// How thrifty the agent is.
    pub(crate) const fn level(&self) -> u32 {
        self.level
    }

    /// One round: so much memory is used, of so much. A cap of 0 is none.
    pub(crate) fn round(&mut self, used: u64, cap: u64) -> Step {
        if cap == 0 {
            return Step::Keep;
        }
        let percent = used.saturating_mul(100) / cap;
        self.rest = self.rest.saturating_sub(1);
        self.calm = if percent < LOW { self.calm + 1 } else { 0 };
        if percent >= HIGH && self.level < MOST_THRIFT {
            self.level += 1;
            return Step::Thrift(self.level);
        }
        if percent >= FULL && self.rest == 0 {
            self.rest = REST;
            return Step::Shed;
        }
        if self.calm >= CALM && self.level > 0 {
            self.calm = 0;
            self.level -= 1;
            return Step::Thrift(self.level);
        }
        Step::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_becomes_thrifty_in_steps_then_sheds_and_goes_back_slowly() {
        let mut thrift = Thrift::default();
        let mut steps = |used: &[u64]| -> Vec<Step> {
            used.iter().map(|used| thrift.round(*used, 100)).collect()
        };
        assert_eq!(steps(&[79, 80]), [Step::Keep, Step::Thrift(1)]);
        assert_eq!(steps(&[99, 85, 94]), [Step::Thrift(2), Step::Thrift(3), Step::Keep]);
        // A policy at a time, with time to see what that has given back.
        assert_eq!(steps(&[95, 95, 95]), [Step::Shed, Step::Keep, Step::Shed]);
        let back = steps(&[59; 20]);
        let taken: Vec<_> = back.into_iter().filter(|step| *step != Step::Keep).collect();
        assert_eq!(taken, [Step::Thrift(2), Step::Thrift(1), Step::Thrift(0)]);
        // In between nothing changes.
        assert_eq!(steps(&[70; 20]), [Step::Keep; 20]);
    }

    #[test]
    fn no_cap_means_no_care() {
        assert_eq!(Thrift::default().round(u64::MAX, 0), Step::Keep);
    }
}
