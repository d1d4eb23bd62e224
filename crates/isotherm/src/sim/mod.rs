//! Simulated workloads, for tests and for trying things out: no process, no privilege, no waiting.
//!
//! A [`Workload`] says which memory is touched how often. A monitor over it runs the same lines as
//! over real processes, under a clock that jumps from one sample to the next; the same seed gives
//! the same windows. The simulated machine has memory and processes but no swap, no other nodes and
//! no pressure: a scheme decides, gathers evidence and counts as in a dry run, and nothing is taken
//! away.
//!
//! ```
//! use std::time::Duration;
//!
//! use isotherm::Monitor;
//! use isotherm::sim::Workload;
//!
//! // 64 MiB of which the first 8 are touched at random, 20,000 times per second.
//! let text = "heap, 64M\n\nsteady\n5000\nheap, 1, 64, 1, length=8M, rate=20000\n";
//! let workload = Workload::parse(text)?;
//! let mut monitor = Monitor::builder().sim(workload).seed(7).build()?;
//! let mut windows = 0;
//! while let Some(snapshot) = monitor.next_snapshot()? {
//!     assert!(snapshot.end() <= Duration::from_secs(5));
//!     windows += 1;
//! }
//! assert_eq!(windows, 50);
//! # Ok::<(), isotherm::Error>(())
//! ```

mod acting;

use std::time::Duration;

use isotherm_sim::config::{self, Config};
use isotherm_sim::world::{Options, World};

pub(crate) use acting::Acting;
pub use isotherm_sim::world::Faults;

use crate::Error;
use crate::units::millis;

/// What a simulated world does: memory, phases, access patterns.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    config: Config,
    options: Options,
}

impl Workload {
    /// A workload in the text form that `isotherm workload` runs as a real process;
    /// `isotherm_sim::config` describes it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) with the first line that cannot be
    /// understood.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let config = Config::parse(text).map_err(|e| {
            Error::invalid(
                "this is not a workload",
                &e.to_string(),
                "the module's documentation has one",
            )
        })?;
        Ok(Self { config, options: Options::default() })
    }

    /// One that comes with Isotherm, as `stairs`, `hot10` or `scattered-64k-3`. `isotherm workload
    /// --list` names them all, and the parameters that a name can have.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there is none of this name.
    pub fn shipped(name: &str) -> Result<Self, Error> {
        let Some(text) = config::shipped(name) else {
            let names: Vec<_> = config::SHIPPED.iter().map(|(name, _)| *name).collect();
            let hint = format!("there are: {}", names.join(", "));
            return Err(Error::invalid(&format!("there is no workload `{name}`"), "", &hint));
        };
        Self::parse(&text)
    }

    /// Ends after this time; phases begin again. Without it all phases run once. Milliseconds
    /// count.
    #[must_use]
    pub fn lasting(mut self, time: Duration) -> Self {
        self.options.duration_ms = Some(millis(time));
        self
    }

    /// The world at its start.
    pub(crate) fn world(&self, seed: u64) -> World {
        World::new(&self.config, &Options { seed, ..self.options })
    }

    /// Lets things go wrong, by chances: pages that cannot be looked at, late sleeps, early deaths.
    #[must_use]
    pub const fn faults(mut self, faults: Faults) -> Self {
        self.options.faults = faults;
        self
    }
}
