//! Faults that are injected into a simulated world, by a seed.

use std::str::FromStr;

use isotherm_core::units;

/// Chances of faults; all 0 by default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// Chance that a sleep ends late.
    pub late: f64,
    /// How late on average (exponentially distributed), in µs.
    pub late_us: f64,
    /// Chance that a single page cannot be looked at or made old this time.
    pub fail: f64,
    /// Share of the pages that can never be made old.
    pub blind: f64,
    /// Chance that a look at the mappings fails this time.
    pub not_now: f64,
    /// How often per second a process dies before its scheduled end.
    pub vanish: f64,
    /// How often per second somebody else clears the accessed bit of a page of 4 KiB. That of a
    /// huge page is cleared as often as those of all pages in it together.
    pub clear: f64,
    /// How long it takes to make one unit of 2 MiB old, in ns, in addition to the world's costs.
    pub slow_ns: u64,
    /// CPU time that the monitor takes for itself whenever it has slept, in ns: to decide, to draw
    /// regions, to write a record. A budget pays for that, too.
    pub busy_ns: u64,
}

impl Faults {
    /// Adds a fault, written as `late=0.01:2ms`, `fail=0.01`, `blind=0.1`, `notnow=0.2`,
    /// `vanish=0.05` (per second), `clear=0.001` (per page and second), `slow=150us` (per unit) or
    /// `busy=350us` (per sleep).
    ///
    /// # Errors
    ///
    /// What was expected instead.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (key, value) = text.split_once('=').ok_or_else(expected)?;
        match key {
            "late" => {
                let (chance, by) = value.split_once(':').ok_or_else(expected)?;
                self.late = share(chance)?;
                let ms = units::millis(by).map_err(|_why| format!("{by}: not a time, as 2ms"))?;
                self.late_us = super::lane::to_f64(ms) * 1e3;
            }
            "fail" => self.fail = share(value)?,
            "blind" => self.blind = share(value)?,
            "notnow" => self.not_now = share(value)?,
            "vanish" => self.vanish = number(value)?,
            "clear" => self.clear = number(value)?,
            "slow" => self.slow_ns = time_ns(value)?,
            "busy" => self.busy_ns = time_ns(value)?,
            _ => return Err(expected()),
        }
        Ok(())
    }
}

impl FromStr for Faults {
    type Err = String;

    /// Reads faults separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        text.split(',').map(str::trim).try_for_each(|f| faults.add(f))?;
        Ok(faults)
    }
}

fn expected() -> String {
    "expected late=CHANCE:TIME, fail=CHANCE, blind=SHARE, notnow=CHANCE, vanish=PER_SECOND, \
     clear=PER_SECOND, slow=TIME or busy=TIME"
        .into()
}

fn number(text: &str) -> Result<f64, String> {
    let x = text.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0);
    x.ok_or_else(|| format!("{text}: not a number from 0 on"))
}

fn time_ns(text: &str) -> Result<u64, String> {
    let us = units::interval_us_with_unit(text)
        .map_err(|_why| format!("{text}: not a time, as 150us"))?;
    Ok(us.saturating_mul(1000))
}

fn share(text: &str) -> Result<f64, String> {
    let x = number(text)?;
    if x <= 1.0 { Ok(x) } else { Err(format!("{text}: a share above 1")) }
}
