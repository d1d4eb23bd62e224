//! Numbers with units.

use std::time::Duration;

use isotherm_core::units::{bounds, duration, interval_us, interval_us_with_unit, share_bp, size};

#[test]
fn intervals() {
    let cases = [
        ("5000", Some(5000)),
        ("5ms", Some(5000)),
        (" 5 ms ", Some(5000)),
        ("0.5s", Some(500_000)),
        ("2m", Some(120_000_000)),
        ("1h", Some(3_600_000_000)),
        ("1d", Some(86_400_000_000)),
        ("0", Some(0)),
        ("0.1us", Some(0)),
        ("0.5us", Some(1)),
        ("18446744073709551615us", Some(u64::MAX)),
        ("18446744073709551616us", None),
        ("5 parsecs", None),
        ("ms", None),
        ("", None),
        ("-1s", None),
        (".5s", None),
        ("5.s", None),
        ("1.2.3s", None),
        ("1e9s", None),
        ("99999999999999999999s", None),
        ("0.1234567890123s", None),
    ];
    for (text, want) in cases {
        assert_eq!(interval_us(text).ok(), want, "{text}");
    }
    assert_eq!(interval_us_with_unit("5000").ok(), None);
    assert_eq!(interval_us_with_unit("0"), Ok(0));
    assert_eq!(duration("2").ok(), None);
    assert_eq!(duration("0.5s"), Ok(Duration::from_millis(500)));
    assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
}

#[test]
fn sizes_and_shares() {
    let sizes = [
        ("4096", Some(4096)),
        ("4K", Some(4096)),
        ("4k", Some(4096)),
        ("2.5MiB", Some(2_621_440)),
        ("1G", Some(1 << 30)),
        ("16383P", Some(16_383 << 50)),
        ("16384P", None),
        // Powers of 1024 in every spelling, as in DAMON's tools.
        ("4KB", Some(4096)),
        ("4X", None),
    ];
    for (text, want) in sizes {
        assert_eq!(size(text).ok(), want, "{text}");
    }
    let shares = [
        ("5%", Some(500)),
        ("0.01%", Some(1)),
        ("0.005%", None),
        ("500permil", Some(5000)),
        ("7bp", Some(7)),
        ("0", Some(0)),
        ("5", None),
    ];
    for (text, want) in shares {
        assert_eq!(share_bp(text).ok(), want, "{text}");
    }
}

#[test]
fn ranges() {
    assert_eq!(bounds("10..1000"), Ok((10, 1000)));
    for wrong in ["10", "10..", "..5", "a..b", "-1..4"] {
        assert!(bounds(wrong).is_err(), "{wrong}");
    }
}
