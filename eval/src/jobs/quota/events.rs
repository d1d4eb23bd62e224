//! The event log of `isotherm run`, cut into quota windows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::case::Given;

/// Something that the tool did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Acted {
    /// When it was over.
    #[serde(rename = "t_ns")]
    pub(super) end_ns: u64,
    /// How long it took.
    pub(super) ns: u64,
    pub(super) asked_bytes: u64,
    pub(super) done_bytes: u64,
}

impl Acted {
    pub(super) const fn begin_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.ns)
    }
}

#[derive(Debug, Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    regions: Option<u64>,
    #[serde(flatten)]
    acted: Acted,
}

fn lines(text: &str) -> impl Iterator<Item = Line> {
    // A torn last line is none.
    text.lines().filter_map(|l| serde_json::from_str(l).ok())
}

/// All that was done.
pub(super) fn acted(text: &str) -> Vec<Acted> {
    lines(text).filter(|l| l.event == "acted").map(|l| l.acted).collect()
}

/// Number of regions, each second.
pub(super) fn regions(text: &str) -> Vec<u64> {
    lines(text).filter(|l| l.event == "summary").filter_map(|l| l.regions).collect()
}

/// What was measured last for the first goal of the first scheme, each second.
pub(super) fn currents(text: &str) -> Vec<Given> {
    let values = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    let summaries = values.filter(|v| v["event"] == "summary");
    let current = |v: &Value| v["schemes"][0]["goals"][0]["current"].as_u64();
    summaries.filter_map(|v| Some(Given { ns: v["t_ns"].as_u64()?, value: current(&v)? })).collect()
}

/// What was done in one quota window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Window {
    pub(super) begin_ns: u64,
    pub(super) ns: u64,
    pub(super) asked_bytes: u64,
}

/// Windows of at least `len_ns`, which should be a little less than the tool's. The first action
/// after the end of one begins the next. The tool's own begin a little before their first action,
/// so those in which there is always something to do are cut where its own are. Only the first may
/// have begun long before its first action, and so ends early: after half its length.
pub(super) fn windows(acted: &[Acted], len_ns: u64) -> Vec<Window> {
    let mut all: Vec<Window> = Vec::new();
    for a in acted {
        let len_ns = if all.len() == 1 { len_ns / 2 } else { len_ns };
        if all.last().is_none_or(|w| a.begin_ns() >= w.begin_ns + len_ns) {
            all.push(Window { begin_ns: a.begin_ns(), ..Window::default() });
        }
        if let Some(w) = all.last_mut() {
            w.ns += a.ns;
            w.asked_bytes += a.asked_bytes;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_with_an_action() {
        let text = r#"{"event":"summary","t_ns":5,"regions":12,"schemes":[{"goals":[{"current":7}]}]}
{"event":"acted","t_ns":110,"ns":10,"asked_bytes":4096,"done_bytes":1}
{"event":"acted","t_ns":140,"ns":20,"asked_bytes":8192}
{"event":"acted","t_ns":165,"ns":15,"asked_bytes":4096}
{"event":"acted","t_ns":249,"ns":1,"asked_bytes":4096}
{"event":"acted","t_ns":251,"ns":1,"asked_bytes":4096}
{"event":"acted","t_ns":430,"n"#;
        let acted = acted(text);
        assert_eq!(acted.len(), 5);
        assert_eq!(regions(text), [12]);
        assert_eq!(currents(text), [Given { ns: 5, value: 7 }]);
        let windows = windows(&acted, 100);
        assert_eq!(windows[0], Window { begin_ns: 100, ns: 30, asked_bytes: 12_288 });
        assert_eq!(windows[1], Window { begin_ns: 150, ns: 16, asked_bytes: 8192 });
        assert_eq!(windows[2], Window { begin_ns: 250, ns: 1, asked_bytes: 4096 });
    }
}
