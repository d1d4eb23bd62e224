//! A reading as text: OpenMetrics 1.0, or the text format of Prometheus before it.

use std::fmt::Write as _;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use crate::families::{PREFIX, families};
use crate::reading::Reading;

/// The media type of [`openmetrics`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of [`plain`].
pub const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A reading as the library wants it.
#[derive(Debug)]
struct Once(Arc<Reading>);

impl Collector for Once {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        families().try_for_each(|family| family.encode(&self.0, &mut encoder))
    }
}

/// The reading as OpenMetrics.
#[must_use]
pub fn openmetrics(reading: &Arc<Reading>) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Once(Arc::clone(reading))));
    let mut out = String::new();
    // Writing to a string cannot fail.
    text::encode(&mut out, &registry).ok();
    out
}

/// The reading in the older text format, which the textfile collector of `node_exporter` reads. It
/// has no units, no end, and no kind `info`, and counters have their whole name everywhere.
#[must_use]
pub fn plain(reading: &Arc<Reading>) -> String {
    let (mut out, mut help) = (String::new(), "");
    for line in openmetrics(reading).lines() {
        let head = line.strip_prefix("# ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>());
        match head.as_deref() {
            // It comes before the kind, which says how the name goes on.
            Some(["HELP", _, text]) => help = text,
            Some(["TYPE", name, of]) => {
                let (suffix, kind) = match *of {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "histogram" => ("", "histogram"),
                    _ => ("", "gauge"),
                };
                writeln!(out, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}").ok();
            }
            Some(_) => {}
            None => drop(writeln!(out, "{line}")),
        }
    }
    out
}
