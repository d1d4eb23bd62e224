//! Goals that follow the watermarks of a node, for schemes that the kernel applies. The watermarks
//! are read each second, and goals that moved are committed.

use isotherm_core::Time;

use super::super::Kdamond;
use isotherm_host::Roots;
use isotherm_host::nodes::{Gauge, Level};
use isotherm_sys::clock::now;

/// How often watermarks are looked at, in ns.
const LOOK_NS: u64 = 1_000_000_000;

/// When and how the watermarks were looked at last.
#[derive(Debug, Default)]
pub(in crate::kdamond) struct Marks {
    roots: Roots,
    nodes: Vec<u32>,
    gauge: Gauge,
    read_at: Option<Time>,
    /// Whether it was told that they cannot be read.
    told: bool,
}

impl Marks {
    /// The levels of the nodes, which may be none; `None` if they cannot be read.
    fn levels(&mut self, nodes: Vec<u32>) -> Result<Vec<(u32, Level)>, String> {
        if nodes != self.nodes {
            self.gauge = Gauge::new(&nodes);
            self.nodes = nodes;
        }
        let levels = self.gauge.read(&self.roots)?;
        Ok(self.nodes.iter().copied().zip(levels).collect())
    }
}

impl Kdamond {
    /// Moves the goals of what is pushed down along with the watermarks; returns whether a goal was
    /// moved.
    pub(in crate::kdamond) fn move_goals(&mut self) -> bool {
        let mut nodes: Vec<u32> = self.pushed.iter().flat_map(super::Pushed::followed).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() {
            return false;
        }
        match self.marks.levels(nodes) {
            Ok(levels) => {
                let before = self.pushed.clone();
                self.pushed.iter_mut().for_each(|pushed| pushed.follow(&levels));
                self.marks.told = false;
                before != self.pushed
            }
            Err(why) => {
                if !std::mem::replace(&mut self.marks.told, true) {
                    self.trouble(format!("goals stay as they are: {why}"));
                }
                false
            }
        }
    }

    /// Looks at the watermarks, if it is time, and commits the goals that moved. Call it often.
    pub fn follow_marks(&mut self) {
        let now = now();
        if self.marks.read_at.is_some_and(|at| now.since(at) < LOOK_NS) {
            return;
        }
        self.marks.read_at = Some(now);
        if self.move_goals() && self.pid.is_some() {
            let config = self.config();
            let done = self.shared.kernel().commit_goals(&config);
            if let Err(err) = done {
                self.trouble(err.to_string());
            }
        }
    }
}
