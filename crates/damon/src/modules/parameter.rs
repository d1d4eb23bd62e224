//! The modules' parameters: names, units, defaults, and what the kernel takes (R§6.2 to R§6.4).
//!
//! The table is that of Linux 7.2. A kernel's files show which of these parameters it has. A
//! parameter that is not in the table is shown as it is.

use std::collections::BTreeMap;

use super::Module;

/// What a parameter's number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Yes or no.
    Flag,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Bytes, in the module's address unit.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// A physical address.
    Address,
    /// Thousandths.
    Permil,
    /// Ten-thousandths.
    BasisPoints,
    /// A number of something.
    Count,
    /// A thread's pid; -1 for none.
    Pid,
    /// 101 times in milliseconds, by commas.
    Percentiles,
}

/// What a parameter is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Users set it.
    Tunable,
    /// Switches the module, or makes it read its parameters again. It is not set as the others are.
    Switch,
    /// The kernel says something by it.
    Statistic,
}

/// A parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its file's name.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// What it is for.
    pub role: Role,
    /// The value unless it is set, as the file shows it. Empty for statistics.
    pub default: &'static str,
}

const fn tunable(name: &'static str, unit: Unit, default: &'static str) -> Parameter {
    Parameter { name, unit, role: Role::Tunable, default }
}

const fn said(name: &'static str, unit: Unit) -> Parameter {
    Parameter { name, unit, role: Role::Statistic, default: "" }
}

const fn switch(name: &'static str) -> Parameter {
    Parameter { name, unit: Unit::Flag, role: Role::Switch, default: "N" }
}

const RECLAIM: &[Parameter] = &[
    switch("enabled"),
    switch("commit_inputs"),
    said("kdamond_pid", Unit::Pid),
    tunable("min_age", Unit::Micros, "120000000"),
    tunable("quota_ms", Unit::Millis, "10"),
    tunable("quota_sz", Unit::Bytes, "134217728"),
    tunable("quota_reset_interval_ms", Unit::Millis, "1000"),
    tunable("quota_mem_pressure_us", Unit::Micros, "0"),
    tunable("quota_autotune_feedback", Unit::BasisPoints, "0"),
    tunable("wmarks_interval", Unit::Micros, "5000000"),
    tunable("wmarks_high", Unit::Permil, "500"),
    tunable("wmarks_mid", Unit::Permil, "400"),
    tunable("wmarks_low", Unit::Permil, "200"),
    tunable("sample_interval", Unit::Micros, "5000"),
    tunable("aggr_interval", Unit::Micros, "100000"),
    tunable("min_nr_regions", Unit::Count, "10"),
    tunable("max_nr_regions", Unit::Count, "1000"),
    tunable("autotune_monitoring_intervals", Unit::Flag, "N"),
    tunable("monitor_region_start", Unit::Address, "0"),
    tunable("monitor_region_end", Unit::Address, "0"),
    tunable("addr_unit", Unit::Count, "1"),
    tunable("skip_anon", Unit::Flag, "N"),
    said("nr_reclaim_tried_regions", Unit::Count),
    said("bytes_reclaim_tried_regions", Unit::Bytes),
    said("nr_reclaimed_regions", Unit::Count),
    said("bytes_reclaimed_regions", Unit::Bytes),
    said("nr_quota_exceeds", Unit::Count),
];

const LRU_SORT: &[Parameter] = &[
    switch("enabled"),
    switch("commit_inputs"),
    said("kdamond_pid", Unit::Pid),
    tunable("hot_thres_access_freq", Unit::Permil, "500"),
    tunable("cold_min_age", Unit::Micros, "120000000"),
    tunable("active_mem_bp", Unit::BasisPoints, "0"),
    tunable("filter_young_pages", Unit::Flag, "N"),
    tunable("quota_ms", Unit::Millis, "10"),
    tunable("quota_reset_interval_ms", Unit::Millis, "1000"),
    tunable("wmarks_interval", Unit::Micros, "5000000"),
    tunable("wmarks_high", Unit::Permil, "200"),
    tunable("wmarks_mid", Unit::Permil, "150"),
    tunable("wmarks_low", Unit::Permil, "50"),
    tunable("sample_interval", Unit::Micros, "5000"),
    tunable("aggr_interval", Unit::Micros, "100000"),
    tunable("min_nr_regions", Unit::Count, "10"),
    tunable("max_nr_regions", Unit::Count, "1000"),
    tunable("autotune_monitoring_intervals", Unit::Flag, "N"),
    tunable("monitor_region_start", Unit::Address, "0"),
    tunable("monitor_region_end", Unit::Address, "0"),
    tunable("addr_unit", Unit::Count, "1"),
    said("nr_lru_sort_tried_hot_regions", Unit::Count),
    said("bytes_lru_sort_tried_hot_regions", Unit::Bytes),
    said("nr_lru_sorted_hot_regions", Unit::Count),
    said("bytes_lru_sorted_hot_regions", Unit::Bytes),
    said("nr_hot_quota_exceeds", Unit::Count),
    said("nr_lru_sort_tried_cold_regions", Unit::Count),
    said("bytes_lru_sort_tried_cold_regions", Unit::Bytes),
    said("nr_lru_sorted_cold_regions", Unit::Count),
    said("bytes_lru_sorted_cold_regions", Unit::Bytes),
    said("nr_cold_quota_exceeds", Unit::Count),
];

const STAT: &[Parameter] = &[
    switch("enabled"),
    said("kdamond_pid", Unit::Pid),
    said("aggr_interval_us", Unit::Micros),
    said("estimated_memory_bandwidth", Unit::BytesPerSecond),
    said("memory_idle_ms_percentiles", Unit::Percentiles),
];

impl Module {
    /// Its parameters, in the order in which they are shown.
    #[must_use]
    pub const fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Reclaim => RECLAIM,
            Self::LruSort => LRU_SORT,
            Self::Stat => STAT,
        }
    }

    /// The parameter of this name.
    #[must_use]
    pub fn parameter(self, name: &str) -> Option<&'static Parameter> {
        self.parameters().iter().find(|parameter| parameter.name == name)
    }
}

impl Unit {
    /// Converts a user's value to what the kernel's file takes. A user may write a plain number, a
    /// number with a suffix (`2s`, `100ms`, `128M`, `50%`), or `y` or `n`. A time needs its unit,
    /// since the kernel has microseconds in some files and milliseconds in others.
    ///
    /// # Errors
    ///
    /// If the text is not understood: what would be.
    pub fn parse(self, text: &str) -> Result<String, String> {
        let text = text.trim();
        if self == Self::Flag {
            return match text.to_ascii_lowercase().as_str() {
                "y" | "yes" | "on" | "true" | "1" => Ok("Y".into()),
                "n" | "no" | "off" | "false" | "0" => Ok("N".into()),
                _ => Err("it takes y or n".into()),
            };
        }
        if let Some(hex) = text.strip_prefix("0x") {
            let number = u64::from_str_radix(hex, 16);
            return number.map(|n| n.to_string()).map_err(|_err| "that is no number".into());
        }
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let is_time = matches!(self, Self::Micros | Self::Millis);
        if is_time && suffix.is_empty() && number.bytes().any(|digit| matches!(digit, b'1'..=b'9'))
        {
            let own = if self == Self::Micros { "us" } else { "ms" };
            return Err(format!(
                "`{number}` has no unit; did you mean {number}s or {number}{own}?"
            ));
        }
        let factor = self.factor(suffix.trim()).ok_or_else(|| self.takes().to_owned())?;
        let scaled = scaled(number, factor).ok_or_else(|| self.takes().to_owned())?;
        Ok(scaled.to_string())
    }

    /// How many of the file's units a suffix stands for, as a fraction.
    fn factor(self, suffix: &str) -> Option<(u64, u64)> {
        if suffix.is_empty() {
            return Some((1, 1));
        }
        let micros = match suffix {
            "us" => 1,
            "ms" => 1000,
            "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            _ => 0,
        };
        match self {
            Self::Micros if micros != 0 => Some((micros, 1)),
            Self::Millis if micros != 0 => Some((micros, 1000)),
            Self::Bytes | Self::Address => {
                let letter = suffix.trim_end_matches("iB").trim_end_matches('B');
                let at = ["", "K", "M", "G", "T"].iter().position(|s| *s == letter)?;
                Some((1 << (10 * at), 1))
            }
            Self::Permil if suffix == "%" => Some((10, 1)),
            Self::BasisPoints if suffix == "%" => Some((100, 1)),
            _ => None,
        }
    }

    const fn takes(self) -> &'static str {
        match self {
            Self::Flag => "it takes y or n",
            Self::Micros | Self::Millis => "it takes a time such as 100ms, 2s, 5m",
            Self::Bytes | Self::Address => "it takes bytes, or a size such as 64K, 128M, 2G",
            Self::Permil => "it takes thousandths, or a share such as 40%",
            Self::BasisPoints => "it takes ten-thousandths, or a share such as 40%",
            _ => "it takes a number",
        }
    }
}

/// A decimal number with at most one point, times a fraction. `None` if the result is not whole.
fn scaled(number: &str, (times, per): (u64, u64)) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || part.len() > 9 {
        return None;
    }
    let tenths = 10u128.pow(u32::try_from(part.len()).ok()?);
    let whole: u128 = whole.parse().ok()?;
    let part: u128 = if part.is_empty() { 0 } else { part.parse().ok()? };
    let product = whole.checked_mul(tenths)?.checked_add(part)?.checked_mul(times.into())?;
    let divisor = tenths * u128::from(per);
    (product % divisor == 0).then(|| u64::try_from(product / divisor).ok()).flatten()
}

/// What is wrong with the values taken together (`damon_*_apply_parameters()`, Linux 7.2). Some
/// kernels do not check all of this, and then divide by an `aggr_interval` of 0.
pub(super) fn problems(module: Module, values: &BTreeMap<String, String>) -> Vec<String> {
    let get = |name: &str| values.get(name).and_then(|value| value.parse::<u64>().ok());
    let mut found = Vec::new();
    let mut rule = |broken: Option<bool>, what: &str| {
        if broken == Some(true) {
            found.push(what.to_owned());
        }
    };
    let both = |a: &str, b: &str, f: fn(u64, u64) -> bool| Some(f(get(a)?, get(b)?));
    rule(get("aggr_interval").map(|aggr| aggr == 0), "aggr_interval is 0");
    if module == Module::LruSort {
        rule(get("sample_interval").map(|sample| sample == 0), "sample_interval is 0");
    }
    let above = |a, b| a > b;
    rule(both("sample_interval", "aggr_interval", above), "sample_interval is above aggr_interval");
    rule(get("min_nr_regions").map(|min| min < 3), "min_nr_regions is below 3");
    rule(both("min_nr_regions", "max_nr_regions", above), "min_nr_regions is above max_nr_regions");
    let below = |a, b| a < b;
    rule(
        both("wmarks_high", "wmarks_mid", below),
        "wmarks_high is below wmarks_mid: it would never work",
    );
    rule(
        both("wmarks_mid", "wmarks_low", below),
        "wmarks_mid is below wmarks_low: it would never work",
    );
    for share in ["wmarks_high", "hot_thres_access_freq"] {
        rule(get(share).map(|permil| permil > 1000), &format!("{share} is above 1000 thousandths"));
    }
    rule(get("active_mem_bp").map(|bp| bp > 10_000), "active_mem_bp is above 10000");
    let odd = get("addr_unit").map(|unit| unit == 0 || !(4096 / unit).max(1).is_power_of_two());
    rule(odd, "addr_unit does not divide a page into a power of two");
    let (start, end) = (get("monitor_region_start"), get("monitor_region_end"));
    let range = start.zip(end).filter(|&(start, end)| start != 0 || end != 0);
    rule(
        range.map(|(start, end)| start >= end),
        "monitor_region_start is not below monitor_region_end",
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_say_in_the_kernel_s_units() {
        for (unit, text, want) in [
            (Unit::Flag, "yes", Some("Y")),
            (Unit::Flag, "OFF", Some("N")),
            (Unit::Flag, "maybe", None),
            (Unit::Micros, "120000000", None),
            (Unit::Micros, "120000000us", Some("120000000")),
            (Unit::Micros, "0", Some("0")),
            (Unit::Millis, "10", None),
            (Unit::Micros, "2m", Some("120000000")),
            (Unit::Micros, "1.5s", Some("1500000")),
            (Unit::Micros, "0.1us", None),
            (Unit::Micros, "5 GiB", None),
            (Unit::Millis, "500us", None),
            (Unit::Millis, "1s", Some("1000")),
            (Unit::Bytes, "128M", Some("134217728")),
            (Unit::Bytes, "0.5GiB", Some("536870912")),
            (Unit::Bytes, "1KB", Some("1024")),
            (Unit::Address, "0x100000", Some("1048576")),
            (Unit::Permil, "40%", Some("400")),
            (Unit::Permil, "12.5%", Some("125")),
            (Unit::BasisPoints, "0.01%", Some("1")),
            (Unit::Count, "-1", None),
            (Unit::Count, "", None),
            (Unit::Count, "18446744073709551616", None),
        ] {
            assert_eq!(unit.parse(text).ok().as_deref(), want, "{unit:?} {text}");
        }
    }

    #[test]
    fn defaults_are_fine_and_each_rule_bites() {
        let defaults = |module: Module| -> BTreeMap<String, String> {
            let tunable = module.parameters().iter().filter(|p| p.role == Role::Tunable);
            tunable.map(|p| (p.name.to_owned(), p.default.to_owned())).collect()
        };
        for module in Module::ALL {
            assert_eq!(problems(module, &defaults(module)), Vec::<String>::new());
        }
        for (name, value) in [
            ("aggr_interval", "0"),
            ("sample_interval", "100001"),
            ("sample_interval", "0"),
            ("min_nr_regions", "2"),
            ("max_nr_regions", "9"),
            ("wmarks_high", "100"),
            ("wmarks_low", "180"),
            ("wmarks_high", "1001"),
            ("hot_thres_access_freq", "1001"),
            ("active_mem_bp", "10001"),
            ("addr_unit", "0"),
            ("addr_unit", "3"),
            ("monitor_region_start", "5"),
        ] {
            let mut values = defaults(Module::LruSort);
            values.insert(name.into(), value.into());
            assert!(!problems(Module::LruSort, &values).is_empty(), "{name}={value}");
        }
    }
}
