//! Numbers with units: one grammar, and what is written can be read again.

use std::time::Duration;

use isotherm_core::units::{
    MIB, address, bytes, counted, duration, interval_us_with_unit, mib, millis, percent, share_bp,
    show_interval, show_share, show_size, size, span, span_ns,
};
use proptest::prelude::*;

#[test]
fn written_for_people() {
    let sizes = [
        (0, "0 B"),
        (999, "999 B"),
        (4096, "4.00 KiB"),
        (10 << 20, "10.0 MiB"),
        (1 << 30, "1.00 GiB"),
        (1023 << 10, "0.999 MiB"),
        (u64::MAX, "16777216 TiB"),
    ];
    for (n, text) in sizes {
        assert_eq!(bytes(n), text);
    }
    let columns = [
        (0.0, "0 MiB"),
        (41.0, "<0.001 MiB"),
        (4096.0, "0.00391 MiB"),
        (1.5 * MIB, "1.50 MiB"),
        (9.996 * MIB, "10.0 MiB"),
        (104.4 * MIB, "104 MiB"),
        (12_345.0 * MIB, "12345 MiB"),
    ];
    for (n, text) in columns {
        assert_eq!(mib(n), text);
    }
    let spans =
        [(0.0, "0 s"), (5e6, "5.00 ms"), (12e9, "12.0 s"), (300e9, "5.00 min"), (9e12, "2.50 h")];
    for (ns, text) in spans {
        assert_eq!(span(ns), text);
    }
    assert_eq!(percent(0.125), "12.5 %");
    let counts = [0, 1, 2].map(|number| counted(number, "snapshot"));
    assert_eq!(counts, ["0 snapshots", "1 snapshot", "2 snapshots"]);
}

#[test]
fn one_grammar() {
    let sizes = ["4096", "4096B", "4K", "4k", "4KB", "4kb", "4 KiB", "4kib", "0.00390625M"];
    for text in sizes {
        assert_eq!(size(text), Ok(4096), "{text}");
        assert_eq!(address(text), Ok(4096), "{text}");
    }
    for text in ["iB", "4ib", "4X", "4KKB", "", "K", "-1", "18446744073709551615K"] {
        assert!(size(text).is_err(), "{text}");
    }
    let times = ["1500ms", "1.5s", " 1.5 s ", "1500000us", "1500000µs", "1500000000ns", "0.025m"];
    for text in times {
        assert_eq!(interval_us_with_unit(text), Ok(1_500_000), "{text}");
        assert_eq!(millis(text), Ok(1500), "{text}");
        assert_eq!(span_ns(text), Ok(1_500_000_000), "{text}");
    }
    assert_eq!((span_ns("0"), millis("0"), duration("0")), (Ok(0), Ok(0), Ok(Duration::ZERO)));
    let refused = [
        span_ns("2").map(drop),
        millis("2").map(drop),
        duration("2").map(drop),
        interval_us_with_unit("2").map(drop),
    ];
    for why in refused.map(Result::unwrap_err) {
        assert_eq!(why.to_string(), "`2` has no unit; did you mean 2s or 2ms?");
    }
    let why = share_bp("7").unwrap_err();
    assert_eq!(why.to_string(), "`7` has no unit; did you mean 7%?");
    for text in ["7", "s", "2 weeks"] {
        assert!(millis(text).is_err(), "{text}");
    }
    let addresses =
        [("0x7fff0000", Some(0x7fff_0000)), ("2GiB", Some(2 << 30)), ("7fff", None), ("0x", None)];
    for (text, want) in addresses.into_iter().chain([("0x+1", None), ("99999999999T", None)]) {
        assert_eq!(address(text).ok(), want, "{text}");
    }
}

/// Fewer cases under Miri, which is slow, and no file of failures, which it cannot write.
fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 16 } else { 512 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Small numbers as often as large ones.
fn numbers() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(n, shift)| n >> shift)
}

/// Whether `read` is `written` within three significant digits and one unit.
fn is_near(read: u64, written: u64) -> bool {
    read.abs_diff(written) <= written / 200 + 1
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn exact_texts_are_read_as_they_were_written(n in numbers()) {
        prop_assert_eq!(interval_us_with_unit(&show_interval(n)), Ok(n));
        prop_assert_eq!(size(&show_size(n)), Ok(n));
        prop_assert_eq!(share_bp(&show_share(n)), Ok(n));
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    fn rounded_texts_are_read_within_their_digits(n in numbers()) {
        // The largest sizes round up to more than there can be.
        let n = n.min(u64::MAX / 256 * 255);
        prop_assert!(is_near(size(&bytes(n)).unwrap(), n), "{}", bytes(n));
        let text = mib(n as f64);
        if n == 0 || n > 1048 {
            prop_assert!(is_near(size(&text).unwrap(), n), "{text}");
        }
        let text = span(n as f64);
        prop_assert!(is_near(span_ns(&text).unwrap(), n), "{text}");
    }

    #[test]
    fn percent_is_read_within_its_digit(bp in 0..20_000_u64) {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let text = percent(bp as f64 / 10_000.0);
        prop_assert!(share_bp(&text).unwrap().abs_diff(bp) <= 5, "{text}");
    }
}
