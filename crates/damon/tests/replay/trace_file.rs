//! A short trace as compact text: one line per window, sizes in pages.
//!
//! ```text
//! # kernel=6.12.117 sample_us=5000 aggr_us=100000 min=10 max=1000
//! 0x400 24584:0/1 24584:20/3 +34108000000 935:2/0
//! ```
//!
//! A window is the first page, then per region `pages:nr_accesses/age`; `+N` is a gap of N pages.

use isotherm_core::{AddrRange, Attrs, Region};

const PAGE: u64 = 4096;

/// A trace: under what attributes, on which kernel, and the regions of each window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TraceFile {
    pub(crate) kernel: String,
    pub(crate) attrs: Attrs,
    pub(crate) windows: Vec<Vec<Region>>,
}

pub(crate) fn region(range: AddrRange, nr_accesses: u32, age: u32) -> Region {
    let mut region = Region::new(range);
    region.nr_accesses = nr_accesses;
    region.age = age;
    region
}

impl TraceFile {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let head = lines.next()?.strip_prefix("# ")?;
        let value =
            |key: &str| head.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let number = |key: &str| value(key)?.parse::<u64>().ok();
        let attrs = Attrs {
            sample_us: number("sample_us")?,
            aggr_us: number("aggr_us")?,
            min_nr_regions: number("min")?,
            max_nr_regions: number("max")?,
            ..Attrs::reference()
        };
        let windows = lines.map(window).collect::<Option<_>>()?;
        Some(Self { kernel: value("kernel")?.to_owned(), attrs, windows })
    }

    pub(crate) fn text(&self) -> String {
        let a = &self.attrs;
        let mut text = format!(
            "# kernel={} sample_us={} aggr_us={} min={} max={}\n",
            self.kernel, a.sample_us, a.aggr_us, a.min_nr_regions, a.max_nr_regions
        );
        for regions in &self.windows {
            let mut at = regions.first().map_or(0, |r| r.range.start);
            text.push_str(&format!("{:#x}", at / PAGE));
            for r in regions {
                if at < r.range.start {
                    text.push_str(&format!(" +{}", (r.range.start - at) / PAGE));
                }
                text.push_str(&format!(" {}:{}/{}", r.len() / PAGE, r.nr_accesses, r.age));
                at = r.range.end;
            }
            text.push('\n');
        }
        text
    }

    /// Major and minor number of the kernel.
    pub(crate) fn version(&self) -> (u32, u32) {
        let mut parts = self.kernel.split(['.', '-', '+']).map_while(|p| p.parse().ok());
        (parts.next().unwrap(), parts.next().unwrap_or(0))
    }
}

fn window(line: &str) -> Option<Vec<Region>> {
    let mut words = line.split(' ');
    let mut at = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()? * PAGE;
    let mut regions = Vec::new();
    for word in words {
        if let Some(gap) = word.strip_prefix('+') {
            at += gap.parse::<u64>().ok()? * PAGE;
            continue;
        }
        let (pages, rest) = word.split_once(':')?;
        let (nr, age) = rest.split_once('/')?;
        let end = at + pages.parse::<u64>().ok()? * PAGE;
        regions.push(region(AddrRange::new(at, end), nr.parse().ok()?, age.parse().ok()?));
        at = end;
    }
    Some(regions)
}

#[test]
fn what_is_written_is_read() {
    let text = "# kernel=6.12.117+deb13 sample_us=5000 aggr_us=100000 min=10 max=1000\n\
                0x400 2:0/1 3:20/3 +34108000000 935:2/0\n0x400 5:0/1 +34108000000 935:0/0\n";
    let trace = TraceFile::parse(text).unwrap();
    assert_eq!(trace.version(), (6, 12));
    assert_eq!(trace.windows[0].len(), 3);
    assert_eq!(trace.windows[0][1], region(AddrRange::new(0x40_2000, 0x40_5000), 20, 3));
    assert_eq!(trace.text(), text);
    for bad in ["", "# kernel=1\n", &text.replace("20/3", "20"), &text.replace("0x", "")] {
        assert_eq!(TraceFile::parse(bad), None, "{bad}");
    }
}
