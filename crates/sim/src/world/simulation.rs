//! A world, its clock and a context, joined by the production driver.

use isotherm_core::{Attrs, AttrsError, Context, Driver, Event, Scheme, Snapshot, Time};

use super::{Options, VirtualClock, World};
use crate::config::Config;

/// A run of the monitor over a simulated world.
///
/// ```
/// use isotherm_core::Attrs;
/// use isotherm_sim::config::{Config, shipped};
/// use isotherm_sim::world::{Options, Simulation};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::parse(&shipped("hot10").ok_or("no such workload")?)?;
/// let options = Options { duration_ms: Some(2_000), ..Options::default() };
/// let mut simulation = Simulation::new(&config, &options, Attrs::default())?;
/// let mut windows = 0;
/// while let Some(snapshot) = simulation.next_snapshot() {
///     assert!(snapshot.nr_regions() >= 10);
///     windows += 1;
/// }
/// assert_eq!(windows, 20);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Simulation {
    driver: Driver<World, VirtualClock>,
    /// Processes below this number (in order of start) were made targets.
    admitted: usize,
}

impl Simulation {
    /// Joins a new world of `config` and a context with `attrs`, both with the seed of `options`.
    ///
    /// # Errors
    ///
    /// If the attributes are not valid.
    pub fn new(config: &Config, options: &Options, attrs: Attrs) -> Result<Self, AttrsError> {
        let world = World::new(config, options);
        let clock = world.clock();
        let context = Context::new(attrs, options.seed)?;
        let mut simulation = Self { driver: Driver::new(context, world, clock), admitted: 0 };
        simulation.admit(Time(0));
        Ok(simulation)
    }

    /// Runs to the end of the next window. `None` when the world has ended.
    pub fn next_snapshot(&mut self) -> Option<&Snapshot> {
        loop {
            let now = self.world().now();
            if now >= self.world().end() {
                return None;
            }
            self.admit(now);
            match self.driver.run() {
                Event::Snapshot => return Some(self.driver.context.snapshot()),
                Event::Interrupted => {}
                Event::Stopped => {
                    // Another process may still start.
                    let next = self.world().processes().nth(self.admitted)?.start;
                    isotherm_core::Clock::sleep_until(&mut self.driver.clock, next);
                }
            }
        }
    }

    /// Replaces the schemes at the next turn of the loop. The simulated world settles what they ask
    /// for and does nothing.
    pub fn commit_schemes(&mut self, schemes: impl Into<Vec<Scheme>>) {
        self.driver.context.commit_schemes(schemes);
    }

    /// Makes targets of the processes that have started by `now`.
    fn admit(&mut self, now: Time) {
        let Driver { context, ops, .. } = &mut self.driver;
        for process in ops.processes().skip(self.admitted).take_while(|p| p.start <= now) {
            context.add_target(process.id);
            self.admitted += 1;
        }
    }

    /// The world.
    #[must_use]
    pub const fn world(&self) -> &World {
        &self.driver.ops
    }

    /// The context.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.driver.context
    }

    /// The context, to change it while it runs.
    pub const fn context_mut(&mut self) -> &mut Context {
        &mut self.driver.context
    }
}
