//! Numbers with units, as they stand on the command line and are shown.

pub(crate) use isotherm_agent::units::{bounds, duration, interval_us};

/// Shows bytes with three significant digits.
pub(crate) fn bytes(n: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let mut x = n as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if x < 1000.0 {
            break;
        }
        x /= 1024.0;
        unit = next;
    }
    let digits = if unit == "B" || x >= 99.95 { 0 } else { 1 + usize::from(x < 9.995) };
    format!("{x:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [(0, "0 B"), (999, "999 B"), (4096, "4.00 KiB"), (10 << 20, "10.0 MiB")];
        for (n, want) in cases {
            assert_eq!(bytes(n), want);
        }
        assert_eq!(bytes(1 << 30), "1.00 GiB");
        assert_eq!(bytes(1023 << 10), "1.00 MiB");
    }
}
