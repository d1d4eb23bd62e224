//! The state of the modules, as text and as JSON.

use std::fmt::Write;

use isotherm::raw::damon::Root;
use isotherm::raw::damon::modules::{Module, Role, StatReport, Unit, Value};
use serde_json::json;

use isotherm::raw::core::units::bytes;

/// One line per module.
pub(super) fn list(root: &Root) -> String {
    let mut text = String::new();
    for module in Module::ALL {
        // Writing to a string does not fail.
        writeln!(text, "{:<9} {}", module.name(), state(root, module)).ok();
    }
    text
}

/// The state of a module in one line.
pub(super) fn state(root: &Root, module: Module) -> String {
    let title = module.title();
    if !module.is_present(root) {
        return format!(
            "{title}: not in kernel {} (needs {}; mainline has it since {})",
            root.release(),
            module.option(),
            module.since()
        );
    }
    if !module.is_enabled(root) {
        return format!("{title}: off");
    }
    let pid: Result<u32, _> = root.number(&module.dir(root).join("kdamond_pid"));
    match pid {
        Ok(pid) => format!("{title}: on, thread {pid}"),
        Err(_) => format!("{title}: on"),
    }
}

/// The same as JSON.
pub(super) fn list_json(root: &Root) -> serde_json::Value {
    let one = |module: Module| {
        json!({
            "name": module.name(),
            "title": module.title(),
            "present": module.is_present(root),
            "enabled": module.is_enabled(root),
            "option": module.option(),
            "since": module.since(),
        })
    };
    json!({ "kernel": root.release(), "modules": Module::ALL.map(one) })
}

/// Everything about one module.
pub(super) fn show(
    root: &Root,
    module: Module,
    values: &[Value],
    report: Option<&StatReport>,
) -> String {
    let mut text = format!("{}\n", state(root, module));
    let mut section = |title: &str, wanted: &dyn Fn(&Value) -> bool| {
        let rows: Vec<&Value> = values.iter().filter(|value| wanted(value)).collect();
        if rows.is_empty() {
            return;
        }
        writeln!(text, "\n{title}").ok();
        for value in rows {
            let said = value.text.as_deref().unwrap_or("(may not be read)");
            let unit = value.parameter.map_or(Unit::Count, |parameter| parameter.unit);
            let default = value.parameter.map_or("", |parameter| parameter.default);
            let mut row = format!("  {:<32} {:<12} {}", value.name, said, meaning(unit, said));
            if !default.is_empty() && default != said && unit != Unit::Address {
                write!(row, "  (default {default})").ok();
            }
            writeln!(text, "{}", row.trim_end()).ok();
        }
    };
    let role = |value: &Value| value.parameter.map(|parameter| parameter.role);
    section("parameters", &|value| role(value) == Some(Role::Tunable));
    section("statistics, since it was first enabled", &|value| {
        let known =
            value.parameter.is_some_and(|p| !matches!(p.unit, Unit::Percentiles | Unit::Pid));
        known && role(value) == Some(Role::Statistic) && report.is_none()
    });
    section("not known to Isotherm", &|value| value.parameter.is_none());
    if let Some(report) = report {
        text.push('\n');
        text.push_str(&idle(report));
    }
    text
}

/// The same as JSON: values as the kernel writes them, with units.
pub(super) fn show_json(
    root: &Root,
    module: Module,
    values: &[Value],
    report: Option<&StatReport>,
) -> serde_json::Value {
    let one = |value: &Value| {
        json!({
            "name": value.name,
            "value": value.text,
            "unit": value.parameter.map(|parameter| unit_name(parameter.unit)),
            "default": value.parameter.map(|p| p.default).filter(|d| !d.is_empty()),
        })
    };
    let wanted = |value: &&Value| report.is_none() || value.name != "memory_idle_ms_percentiles";
    let values: Vec<_> = values.iter().filter(wanted).map(one).collect();
    let mut all = json!({
        "name": module.name(),
        "kernel": root.release(),
        "enabled": module.is_enabled(root),
        "parameters": values,
    });
    if let Some(report) = report {
        all["stat"] = json!({
            "idle_ms_percentiles": report.idle_ms,
            "estimated_bandwidth_bytes_per_second": report.bandwidth,
            "aggr_interval_us": report.aggr_us,
        });
    }
    all
}

/// Idle percentiles: a bar per percent of memory, and a table.
fn idle(report: &StatReport) -> String {
    let mut text = String::new();
    if !report.enabled {
        text.push_str("The module is off: these are its last numbers, or zeros if it never ran.\n");
    }
    let top = report.idle_ms.iter().copied().max().unwrap_or(0).max(1);
    writeln!(text, "idle time of memory, hottest first, up to {}", duration(top)).ok();
    writeln!(text, "  {}", sparkline(&report.idle_ms, top)).ok();
    writeln!(text, "  0 %{:>22} 50 %{:>14} 100 %", "", "").ok();
    text.push_str("\n  memory   idle for\n");
    for percent in [0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100] {
        let Some(ms) = report.percentile(percent) else { continue };
        let what = match ms {
            0 => "0, or accessed".into(),
            ms if ms < 0 => format!("accessed, since {}", duration(-ms)),
            ms => format!("up to {}", duration(ms)),
        };
        writeln!(text, "  {percent:>4} %   {what}").ok();
    }
    text.push('\n');
    for (what, ms) in [("10 s", 10_000), ("1 min", 60_000), ("10 min", 600_000)] {
        writeln!(text, "  idle for {what} or more: {} % of memory", report.idle_for(ms)).ok();
    }
    writeln!(
        text,
        "\nestimated memory bandwidth: {}/s (a lower bound: the counts are partial)",
        bytes(report.bandwidth)
    )
    .ok();
    if let Some(us) = report.aggr_us.filter(|&us| us != 0) {
        let ms = i64::try_from(us / 1000).unwrap_or(i64::MAX);
        writeln!(text, "aggregation interval, tuned: {}", duration(ms)).ok();
    }
    text
}

/// Fifty bars for a hundred percent; accessed memory is a dot.
fn sparkline(idle_ms: &[i64], top: i64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |&ms: &i64| {
        if ms <= 0 {
            return '·';
        }
        // The scale is logarithmic, because ages span orders of magnitude.
        let share = (f64_of(ms) + 1.0).ln() / (f64_of(top) + 1.0).ln();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 7"
        )]
        let index = (share * 7.0).round().clamp(0.0, 7.0) as usize;
        BARS[index]
    };
    idle_ms.iter().skip(1).step_by(2).map(bar).collect()
}

#[expect(clippy::cast_precision_loss, reason = "for a picture")]
fn f64_of(n: i64) -> f64 {
    n as f64
}

/// A time in ms, with two or three digits.
fn duration(ms: i64) -> String {
    let ms = f64_of(ms);
    match ms {
        _ if ms < 1000.0 => format!("{ms:.0} ms"),
        _ if ms < 120_000.0 => format!("{:.1} s", ms / 1000.0),
        _ if ms < 7_200_000.0 => format!("{:.1} min", ms / 60_000.0),
        _ => format!("{:.1} h", ms / 3_600_000.0),
    }
}

/// A parameter's text in words.
fn meaning(unit: Unit, said: &str) -> String {
    let number = said.parse::<u64>().ok();
    let ms = |us: u64| duration(i64::try_from(us).unwrap_or(i64::MAX));
    match (unit, number) {
        (Unit::Micros, Some(us)) if us >= 1000 => format!("µs = {}", ms(us / 1000)),
        (Unit::Micros, Some(_)) => "µs".into(),
        (Unit::Millis, Some(n)) if n >= 1000 => format!("ms = {}", ms(n)),
        (Unit::Millis, Some(_)) => "ms".into(),
        (Unit::Bytes, Some(n)) if n >= 1024 => format!("bytes = {}", bytes(n)),
        (Unit::Bytes, Some(_)) => "bytes".into(),
        (Unit::BytesPerSecond, Some(n)) => format!("{}/s", bytes(n)),
        (Unit::Address, Some(n)) => format!("= {n:#x}"),
        (Unit::Permil, Some(n)) => format!("permil = {}.{} %", n / 10, n % 10),
        (Unit::BasisPoints, Some(n)) => format!("bp = {}.{:02} %", n / 100, n % 100),
        _ => String::new(),
    }
}

const fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Flag => "flag",
        Unit::Micros => "us",
        Unit::Millis => "ms",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "bytes_per_second",
        Unit::Address => "address",
        Unit::Permil => "permil",
        Unit::BasisPoints => "bp",
        Unit::Count => "count",
        Unit::Pid => "pid",
        Unit::Percentiles => "ms_percentiles",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_as_a_picture_and_a_table() {
        let idle_ms = (0..=100i64).map(|p| if p < 20 { -500 } else { (p - 19).pow(2) * 1000 });
        let report = StatReport {
            enabled: true,
            idle_ms: idle_ms.collect(),
            bandwidth: 3 << 20,
            aggr_us: Some(200_000),
        };
        let text = idle(&report);
        expect_test::expect![[r#"
            idle time of memory, hottest first, up to 109.3 min
              ··········▅▅▆▆▆▆▆▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇█████████████████
              0 %                       50 %               100 %

              memory   idle for
                 0 %   accessed, since 500 ms
                 1 %   accessed, since 500 ms
                 5 %   accessed, since 500 ms
                10 %   accessed, since 500 ms
                25 %   up to 36.0 s
                50 %   up to 16.0 min
                75 %   up to 52.3 min
                90 %   up to 84.0 min
                95 %   up to 96.3 min
                99 %   up to 106.7 min
               100 %   up to 109.3 min

              idle for 10 s or more: 78 % of memory
              idle for 1 min or more: 74 % of memory
              idle for 10 min or more: 57 % of memory

            estimated memory bandwidth: 3.00 MiB/s (a lower bound: the counts are partial)
            aggregation interval, tuned: 200 ms
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn values_in_words() {
        for (unit, said, want) in [
            (Unit::Micros, "120000000", "µs = 2.0 min".to_owned()),
            (Unit::Micros, "0", "µs".into()),
            (Unit::Bytes, "134217728", "bytes = 128 MiB".into()),
            (Unit::Permil, "125", "permil = 12.5 %".into()),
            (Unit::BasisPoints, "9970", "bp = 99.70 %".into()),
            (Unit::Address, "4096", "= 0x1000".into()),
            (Unit::Flag, "Y", String::new()),
            (Unit::Bytes, "(may not be read)", String::new()),
        ] {
            assert_eq!(meaning(unit, said), want, "{unit:?} {said}");
        }
    }
}
