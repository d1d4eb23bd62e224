//! Readers of short texts on the command line: `200M/s`, `10ms/s`, `psi=0.5ms/s`, `free=0.5%@0`,
//! `50%,40%,20%`.

use isotherm_act::apply::Settings;
use isotherm_core::scheme::{CgroupId, Goal, Metric, WatermarkMetric, Watermarks};
use isotherm_core::units::{self, UnitError};

use crate::policy::metric::{self, Unit, WORDS, Word};
use crate::policy::{cgroup_path, number_of};

/// Longest window of a rate, in ms: a day.
const LONGEST_MS: u64 = 86_400_000;

/// An amount per time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How much: bytes, or µs.
    pub amount: u64,
    /// Per how long, in ms.
    pub per_ms: u64,
}

impl Rate {
    /// How much it is in a window of this length.
    pub(crate) fn in_window(self, window_ms: u64) -> u64 {
        let amount =
            u128::from(self.amount) * u128::from(window_ms) / u128::from(self.per_ms.max(1));
        u64::try_from(amount).unwrap_or(u64::MAX)
    }

    /// Reads `AMOUNT/TIME`; `none` is no rate. Time is a unit (`s`) or an interval (`500ms`).
    fn read(
        text: &str,
        expected: &'static str,
        amount: impl FnOnce(&str) -> Result<u64, UnitError>,
    ) -> Result<Option<Self>, UnitError> {
        if text.trim() == "none" {
            return Ok(None);
        }
        let form = UnitError::Form { expected };
        let (value, per) = text.split_once('/').ok_or_else(|| form.clone())?;
        let amount = amount(value)?;
        let per_ms = per_ms(per)?;
        // A limit of 0 would stop the scheme, which can be had by leaving the scheme out.
        if amount == 0 || per_ms == 0 {
            return Err(form);
        }
        Ok(Some(Self { amount, per_ms }))
    }
}

fn per_ms(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    let us = if text.starts_with(|c: char| c.is_ascii_digit()) {
        units::interval_us_with_unit(text)?
    } else {
        units::time_unit_ns(text)? / 1000
    };
    if !us.is_multiple_of(1000) {
        return Err(UnitError::TooFine { least: "1ms" });
    }
    if us / 1000 > LONGEST_MS { Err(UnitError::TooLarge) } else { Ok(us / 1000) }
}

/// Reads a limit in bytes: `200M/s`, `1G/10s`, `none`.
///
/// # Errors
///
/// If it is not of that form, or less than a page.
pub fn size_rate(text: &str) -> Result<Option<Rate>, UnitError> {
    let expected = "SIZE/TIME, at least 4K, as 200M/s, or `none`";
    match Rate::read(text, expected, units::size)? {
        // Less than one page is nothing.
        Some(Rate { amount: ..4096, .. }) => Err(UnitError::Form { expected }),
        rate => Ok(rate),
    }
}

/// Reads a limit in time: `10ms/s`, `none`. The amount is in µs.
///
/// # Errors
///
/// If it is not of that form, less than 1 ms, or longer than its window.
pub fn time_rate(text: &str) -> Result<Option<Rate>, UnitError> {
    let expected = "TIME/TIME, at least 1 ms and at most all, as 10ms/s, or `none`";
    let rate = Rate::read(text, expected, units::interval_us_with_unit)?;
    match rate {
        Some(Rate { amount, per_ms }) if !(1000..=per_ms * 1000).contains(&amount) => {
            Err(UnitError::Form { expected })
        }
        rate => Ok(rate),
    }
}

/// A goal as the command line says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoalKnob {
    word: &'static Word,
    node: i32,
    cgroup: Option<String>,
    /// In the metric's unit; for pressure and refaults in bytes: so much per `per_ms`.
    target: u64,
    /// For these: per how long.
    per_ms: u64,
    current: u64,
}

impl GoalKnob {
    /// A goal whose present value the user gives. 10,000 means that it is met (the feedback
    /// parameter of the kernel's modules).
    pub const FEEDBACK_TARGET: u64 = 10_000;

    /// The goal, for a quota window of this length.
    pub(crate) fn goal(&self, window_ms: u64, settings: &mut Settings) -> Goal {
        let cgroup = self.cgroup.as_deref();
        let number = cgroup.map_or(0, |path| number_of(&mut settings.cgroups, path));
        let metric = metric::from_parts(self.word.name, self.node, CgroupId(number));
        let target = match self.word.unit {
            Unit::Stall | Unit::Bytes => {
                Rate { amount: self.target, per_ms: self.per_ms }.in_window(window_ms).max(1)
            }
            _ => self.target,
        };
        let goal = Goal::new(metric.unwrap_or(Metric::UserInput), target);
        Goal { current: self.current, ..goal }
    }

    pub(crate) fn share(name: &str, bp: u64) -> Option<Self> {
        let word = WORDS.iter().find(|word| word.name == name)?;
        Some(Self { word, node: 0, cgroup: None, target: bp, per_ms: 0, current: 0 })
    }
}

const GOAL: &str = "NAME=VALUE[@WHERE]: psi=0.5ms/s, psi-full=1ms/s@/app, free=5%, free=0.5%@0, used=99.7%@0, \
    used=30%@0/app, active=50%, inactive=50%, refaults=1%, refaults=1M/s@/app, user=CURRENT/TARGET";

/// Reads a goal: `psi=0.5ms/s` (all of `psi`, `psi-full` with `@/CGROUP`), `free=0.5%@0` and
/// `used=99.7%@0` of a node (with `@0/CGROUP`: of a cgroup on it), `free=5%` of the machine,
/// `active=`, `inactive=` of the LRU lists, `refaults=1%` of what the scheme acted on,
/// `refaults=1M/s` of whatever was reclaimed (with `@/CGROUP`: from it), `user=5000/10000`.
///
/// # Errors
///
/// If it is not of that form, or the goal is 0.
pub fn goal(text: &str) -> Result<GoalKnob, UnitError> {
    let form = || UnitError::Form { expected: GOAL };
    let (name, rest) = text.split_once('=').ok_or_else(form)?;
    let (value, place) = match rest.split_once('@') {
        Some((value, place)) => (value, Some(place.trim())),
        None => (rest, None),
    };
    let (node, cgroup) = place.map_or(Some((None, None)), where_of).ok_or_else(form)?;
    let metric = match (name.trim(), node.is_some(), cgroup.is_some()) {
        ("psi", false, false) => "some_mem_psi_us",
        ("psi", false, true) => "cgroup_some_mem_psi_us",
        ("psi-full", false, false) => "full_mem_psi_us",
        ("psi-full", false, true) => "cgroup_full_mem_psi_us",
        ("free", false, false) => "free_mem_rate",
        ("free", true, false) => "node_mem_free_bp",
        ("free", true, true) => "node_memcg_free_bp",
        ("used", true, false) => "node_mem_used_bp",
        ("used", true, true) => "node_memcg_used_bp",
        ("active", false, false) => "active_mem_bp",
        ("inactive", false, false) => "inactive_mem_bp",
        ("refaults", false, false) if value.contains('/') => "workingset_refault_bytes",
        ("refaults", false, true) => "cgroup_workingset_refault_bytes",
        ("refaults", false, false) => "refault_bp",
        ("user", false, false) => "user_input",
        _ => return Err(form()),
    };
    let word = WORDS.iter().find(|word| word.name == metric).ok_or_else(form)?;
    let mut knob =
        GoalKnob { word, node: node.unwrap_or(0), cgroup, target: 0, per_ms: 0, current: 0 };
    match word.unit {
        Unit::Stall => {
            let expected = "TIME/TIME, more than 0 and at most all, as 0.5ms/s";
            let rate = Rate::read(value, expected, units::interval_us_with_unit)?;
            let rate = rate.filter(|rate| rate.amount <= rate.per_ms * 1000);
            let rate = rate.ok_or(UnitError::Form { expected })?;
            (knob.target, knob.per_ms) = (rate.amount, rate.per_ms);
        }
        Unit::Bytes => {
            let expected = "SIZE/TIME, as 1M/s";
            let rate = Rate::read(value, expected, units::size)?;
            let rate = rate.ok_or(UnitError::Form { expected })?;
            (knob.target, knob.per_ms) = (rate.amount, rate.per_ms);
        }
        Unit::Share => knob.target = units::share_bp(value)?,
        Unit::Permil => knob.target = permil(value)?,
        Unit::Input => {
            let (current, target) = value.split_once('/').unwrap_or((value, ""));
            let number = |text: &str| text.trim().parse::<u64>().ok().ok_or_else(form);
            knob.current = number(current)?;
            knob.target =
                if target.is_empty() { GoalKnob::FEEDBACK_TARGET } else { number(target)? };
        }
    }
    let is_share = matches!(word.unit, Unit::Share) && knob.target > 10_000
        || matches!(word.unit, Unit::Permil) && knob.target > 1000;
    if knob.target == 0 || is_share { Err(form()) } else { Ok(knob) }
}

/// `NODE`, `NODE/CGROUP` or `/CGROUP`.
fn where_of(text: &str) -> Option<(Option<i32>, Option<String>)> {
    let at = text.find('/').unwrap_or(text.len());
    let (node, path) = text.split_at(at);
    let node = if node.is_empty() { None } else { Some(node.parse::<u16>().ok()?.into()) };
    let path = if path.is_empty() { None } else { Some(cgroup_path(path).ok()?.to_owned()) };
    if node.is_none() && path.is_none() { None } else { Some((node, path)) }
}

/// A share in permil; a number without a unit is permil already, as in the kernel's modules.
fn permil(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = units::split(text)?;
    let least = "a permil (0.1%)";
    if unit.is_empty() {
        return number.exactly(1, least);
    }
    match units::share_bp(text)? {
        bp if bp.is_multiple_of(10) => Ok(bp / 10),
        _ => Err(UnitError::TooFine { least }),
    }
}

/// Reads watermarks on free memory: `50%,40%,20%` or `500,400,200` (high, mid, low), looked at
/// every 5 s; `none` is none.
///
/// # Errors
///
/// If it is not of that form, or they could never let a scheme start.
pub fn watermarks(text: &str) -> Result<Watermarks, UnitError> {
    if text.trim() == "none" {
        return Ok(Watermarks::default());
    }
    let expected = "HIGH,MID,LOW with 100% >= HIGH >= MID > LOW, as 50%,40%,20%, or `none`";
    let marks: Vec<u64> = text.split(',').map(permil).collect::<Result<_, _>>()?;
    match marks.as_slice() {
        &[high, mid, low] if 1000 >= high && high >= mid && mid > low => {
            Ok(free_memory(high, mid, low))
        }
        _ => Err(UnitError::Form { expected }),
    }
}

/// Watermarks on free memory, in permil, looked at every 5 s.
pub(super) const fn free_memory(high: u64, mid: u64, low: u64) -> Watermarks {
    Watermarks { metric: WatermarkMetric::FreeMemRate, interval_us: 5_000_000, high, mid, low }
}
