//! The monitor: snapshots out, schemes in.

mod builder;
mod live;
mod own;
mod processes;
mod simulated;
mod source;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use isotherm_agent::policy::SchemePolicy;
use isotherm_core::{Attrs, TargetId, Time};

pub use builder::Builder;
pub use isotherm_ops::targets::ChildExit;
use source::{Next, Source};

use crate::event::Event;
use crate::scheme::{Account, Scheme};
use crate::snapshot::{Snapshot, Target};
use crate::{Error, raw};

/// At most so many events are kept until somebody takes them; the oldest go first.
const MAX_EVENTS: usize = 1024;

/// Watches targets window by window, and lets schemes act on them.
///
/// A monitor runs only inside [`Monitor::next_snapshot`], on the thread that calls it; it cannot be
/// moved to another thread, so build it where it is to run. Dropped, it lets its targets go as they
/// are.
///
/// ```no_run
/// use std::time::Duration;
///
/// use isotherm::{Monitor, Scheme};
///
/// # let pid = 4711;
/// let builder = Monitor::builder().pid(pid).children(true).sample(Duration::from_millis(5));
/// let mut monitor = builder.build()?;
/// monitor.add_scheme(Scheme::pageout().idle_for(Duration::from_secs(3)).dry_run())?;
/// while let Some(snapshot) = monitor.next_snapshot()? {
///     println!("{}", snapshot.working_set());
/// }
/// # Ok::<(), isotherm::Error>(())
/// ```
#[derive(Debug)]
pub struct Monitor {
    source: Box<dyn Source>,
    set: &'static str,
    notes: Vec<String>,
    attrs: Attrs,
    schemes: Vec<SchemePolicy>,
    events: VecDeque<Event>,
    lost_events: u64,
    stop: Stopper,
}

impl Monitor {
    /// Says what to watch, and how.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs to the end of the next window. None when no target is left and none can come, or after
    /// [`Stopper::stop`]. Targets that come and go are taken in on the way; see
    /// [`Monitor::take_events`].
    ///
    /// # Errors
    ///
    /// [`NotWatched`](crate::ErrorKind::NotWatched) if there are targets and the operations set can
    /// look at none of them, and [`Failed`](crate::ErrorKind::Failed) if it was at work and cannot
    /// go on.
    pub fn next_snapshot(&mut self) -> Result<Option<Snapshot<'_>>, Error> {
        loop {
            if self.stop.is_stopped() {
                return Ok(None);
            }
            match self.source.next()? {
                Next::Window => break,
                Next::Event(event) => self.tell(event),
                Next::Idle => {}
                Next::Over => return Ok(None),
            }
        }
        Ok(Some(Snapshot::new(self.source.raw(), self.source.lengths(), &*self.source)))
    }

    /// Adds a scheme; it works from the next window on. Those that are there already are asked
    /// first, in their order. A scheme without a name gets its action's, with a number if that is
    /// taken.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the scheme makes no sense or its name is taken,
    /// [`NotSupported`](crate::ErrorKind::NotSupported) or
    /// [`Permission`](crate::ErrorKind::Permission) if this machine cannot do what it says. Nothing
    /// changes then.
    pub fn add_scheme(&mut self, scheme: Scheme) -> Result<(), Error> {
        let name = self.free_name(&scheme)?;
        let policy = scheme.name(name).complete(&self.attrs)?;
        for event in self.source.check(&policy)? {
            self.tell(event);
        }
        self.schemes.push(policy);
        self.source.commit_schemes(&self.schemes);
        Ok(())
    }

    fn free_name(&self, scheme: &Scheme) -> Result<String, Error> {
        let name = scheme.own_name();
        let is_taken = |name: &str| self.schemes.iter().any(|s| s.settings.name == name);
        if !is_taken(name) {
            return Ok(name.to_owned());
        }
        if scheme.is_named() {
            let what = format!("there is a scheme `{name}` already");
            return Err(Error::invalid(
                &what,
                "accounts and events name schemes",
                "take another name",
            ));
        }
        let numbered = (2_u32..).map(|n| format!("{name} {n}")).find(|name| !is_taken(name));
        Ok(numbered.unwrap_or_default())
    }

    /// What each scheme did so far, in the order in which they were added.
    pub fn schemes(&mut self) -> Vec<Account> {
        self.source.accounts(&self.schemes)
    }

    /// What happened since this was asked last, oldest first. At most 1024 events are kept; see
    /// [`Monitor::lost_events`].
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    /// How many events were dropped because nobody took them.
    #[must_use]
    pub const fn lost_events(&self) -> u64 {
        self.lost_events
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
            self.lost_events += 1;
        }
        self.events.push_back(event);
    }

    /// The targets that there are now, watched or not.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        self.source.targets()
    }

    /// Watches one more target of one's own operations set; it is watched from the next window on.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the monitor is not over such a set.
    pub fn add_target(&mut self, id: TargetId, name: &str) -> Result<(), Error> {
        if self.source.add_target(id, name) {
            return Ok(());
        }
        let why = "targets that are named by number belong to an operations set of one's own";
        Err(Error::invalid("this monitor finds its targets itself", why, "Builder::operations"))
    }

    /// The name of the operations set that looks: `pagewalk`, `idle`, `kdamond`, `smaps`, `sim` or
    /// `own`.
    #[must_use]
    pub const fn set(&self) -> &'static str {
        self.set
    }

    /// Why this operations set was chosen and what it cannot do, in lines for people.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The attributes: intervals, bounds and method, as they were when it was built and fitted to
    /// the set.
    #[must_use]
    pub const fn attrs(&self) -> &Attrs {
        &self.attrs
    }

    /// How the command ended that [`Builder::command`] started; none while it runs or if there is
    /// none.
    pub fn command_exit(&mut self) -> Option<ChildExit> {
        self.source.live()?.tracker().child_exit()
    }

    /// Ends the command that [`Builder::command`] started, if it runs: SIGTERM, and up to 2 s of
    /// patience.
    pub fn end_command(&mut self) -> Option<ChildExit> {
        raw::agent::run::end_command(self.source.live()?)
    }

    /// Ends [`Monitor::next_snapshot`] from another thread or from a signal's handler.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// The time by the clock that the monitor runs by.
    pub(crate) fn clock_now(&self) -> Time {
        self.source.now()
    }

    /// The monitor over real processes below this one; none for a simulation or an own set. What is
    /// changed there is changed behind this one's back.
    pub fn live(&mut self) -> Option<&mut raw::agent::monitor::Monitor> {
        self.source.live()
    }
}

/// Ends a monitor's run from elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<AtomicBool>);

impl Stopper {
    /// Lets [`Monitor::next_snapshot`] return none from now on; one that runs notices within a
    /// window or 100 ms, whichever is later.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
