//! Where a monitor's windows come from: real processes, a simulation, or a set of the user's own.

use isotherm_agent::monitor::Monitor;
use isotherm_agent::policy::SchemePolicy;
use isotherm_core::{Lengths, TargetId, Time};

use crate::Error;
use crate::event::Event;
use crate::scheme::Account;
use crate::snapshot::Identities;

/// What a source has after running for a while.
#[derive(Debug)]
pub(crate) enum Next {
    /// A window is over: [`Source::raw`].
    Window,
    /// Something happened.
    Event(Event),
    /// Nothing yet; a good time to look up.
    Idle,
    /// No window will come any more.
    Over,
}

/// A source of windows.
pub(crate) trait Source: Identities {
    /// Runs until there is something to tell.
    ///
    /// # Errors
    ///
    /// If no window will come although there are targets.
    fn next(&mut self) -> Result<Next, Error>;

    /// The time by the source's clock.
    fn now(&self) -> Time;

    /// The last finished window.
    fn raw(&self) -> &isotherm_core::Snapshot;

    /// How long the windows up to the last finished one really took.
    fn lengths(&self) -> &Lengths;

    /// Puts these schemes in force; those that were there before come first and are the same.
    fn commit_schemes(&mut self, schemes: &[SchemePolicy]);

    /// What each of these schemes did.
    fn accounts(&mut self, schemes: &[SchemePolicy]) -> Vec<Account>;

    /// Whether this machine can do what the last of these schemes says. What it can only do in part
    /// is told.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    fn check(&mut self, scheme: &SchemePolicy) -> Result<Vec<Event>, Error> {
        let _ = scheme;
        Ok(Vec::new())
    }

    /// Takes in a target of the user's own operations set; whether there is one.
    fn add_target(&mut self, id: TargetId, name: &str) -> bool {
        let _ = (id, name);
        false
    }

    /// The monitor over real processes, if it is one.
    fn live(&mut self) -> Option<&mut Monitor> {
        None
    }
}
