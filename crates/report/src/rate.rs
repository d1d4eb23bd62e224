//! How often a region is touched.
//!
//! A census looks at the end of one sample per turn. So `nr_accesses` is that of one sample: 0 for
//! memory that is touched every 20 ms and happened to be left alone in those 5 ms, and it stays 0
//! until the next turn. The same turn tells which pages were touched within the whole window. Each
//! of those was touched in one sample of it at least. Page maps have them; see
//! [`PageMaps::tell`](crate::page_maps::PageMaps::tell).

use isotherm_core::RegionInfo;

/// The share of samples in which a page of the region was touched, 0 to 1, on average.
pub(crate) fn rate(r: &RegionInfo, max_nr_accesses: u32) -> f64 {
    let max = f64::from(max_nr_accesses.max(1));
    let in_sample = f64::from(r.nr_accesses) / max;
    let seldom = within_window(r).map_or(0.0, |share| (share - in_sample).max(0.0));
    in_sample + seldom / max
}

fn within_window(r: &RegionInfo) -> Option<f64> {
    r.touched.and_then(|touched| touched.window).map(f64::from)
}

#[cfg(test)]
mod tests {
    use isotherm_core::TouchedShare;

    use super::*;

    #[test]
    fn pages_that_were_touched_within_the_window_count_where_the_sample_missed_them() {
        // nr_accesses of 20, share touched within the window: rate
        let cases = [
            (0, None, 0.0),
            (5, None, 0.25),
            (0, Some(0.0), 0.0),
            (0, Some(1.0), 0.05),
            (0, Some(0.5), 0.025),
            (10, Some(0.5), 0.5),
            (10, Some(1.0), 0.525),
            (20, Some(1.0), 1.0),
            // Measured in different turns.
            (20, Some(0.0), 1.0),
        ];
        for (nr_accesses, window, want) in cases {
            let touched = Some(TouchedShare { window, ..TouchedShare::default() });
            let r = RegionInfo { nr_accesses, touched, resolved: true, ..RegionInfo::default() };
            assert!((rate(&r, 20) - want).abs() < 1e-9, "{r:?}: {}", rate(&r, 20));
        }
    }
}
