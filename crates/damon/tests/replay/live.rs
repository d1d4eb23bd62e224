//! Fresh traces of a real kernel, in the lab's VMs. `traces/make` keeps them.

use std::path::Path;
use std::time::{Duration, Instant};

use isotherm_core::Attrs;
use isotherm_damon::tracefs::{Options, Trace, Windows};
use isotherm_host::proc::Proc;

use super::explain::{Rules, Story, explain};
use super::kdamond::{self, Kdamonds, in_lab};
use super::trace_file::{TraceFile, region};

const PATIENCE: Duration = Duration::from_secs(120);

/// Name, attributes, number of windows: the kernel's defaults, and so few regions that splitting is
/// often not allowed.
const SETTINGS: [(&str, kdamond::Attrs, usize); 2] = [
    ("default", kdamond::Attrs { sample_us: 5000, aggr_us: 100_000, min: 10, max: 1000 }, 40),
    ("few", kdamond::Attrs { sample_us: 5000, aggr_us: 100_000, min: 5, max: 20 }, 60),
];

#[test]
fn a_fresh_trace_is_explained() {
    if !in_lab("a_fresh_trace_is_explained") {
        return;
    }
    let mut text = Vec::new();
    Proc::default().read_system("sys/kernel/osrelease", &mut text).unwrap();
    let kernel = String::from_utf8(text).unwrap().trim().to_owned();
    for (name, attrs, n) in SETTINGS {
        let trace = capture(&kernel, attrs, n);
        if let Some(dir) = std::env::var_os("ISOTHERM_TRACE_OUT") {
            let (major, minor) = trace.version();
            let file = Path::new(&dir).join(format!("{major}.{minor}-{name}.trace"));
            std::fs::write(file, trace.text()).unwrap();
        }
        let told: Result<Story, String> = explain(&trace, Rules::of(trace.version()));
        eprintln!("{kernel} {name}: {told:?}");
        assert_eq!(told.unwrap().transitions, n - 1);
    }
}

fn capture(kernel: &str, attrs: kdamond::Attrs, n: usize) -> TraceFile {
    let core = Attrs {
        sample_us: attrs.sample_us,
        aggr_us: attrs.aggr_us,
        min_nr_regions: attrs.min,
        max_nr_regions: attrs.max,
        ..Attrs::reference()
    };
    let kdamonds = Kdamonds::start(&[attrs]);
    let mut trace = Trace::open(&Options::default()).unwrap();
    let pid = kdamonds.on()[0];
    let (mut items, mut windows, mut out) = (Vec::new(), Windows::new(), Vec::new());
    windows.expect(pid, 1);
    let start = Instant::now();
    while out.len() < n {
        assert!(start.elapsed() < PATIENCE, "{} windows", out.len());
        std::thread::sleep(Duration::from_millis(50));
        items.clear();
        trace.read(&mut items).unwrap();
        items.iter().for_each(|item| windows.push(item));
        while let Some(window) = windows.next() {
            // Events of a window that was under way when the trace was opened, or that did not fit
            // into the buffer of a busy machine. Only windows that follow each other tell a story.
            let Ok(window) = window else {
                out.clear();
                continue;
            };
            let regions = window.targets.iter().flat_map(|t| &t.regions);
            if window.kdamond == pid && out.len() < n {
                out.push(regions.map(|r| region(r.range, r.nr_accesses, r.age)).collect());
            }
        }
    }
    TraceFile { kernel: kernel.to_owned(), attrs: core, windows: out }
}
