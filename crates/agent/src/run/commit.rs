//! Commits another policy to a context that runs. A commit is prepared first, so that it can be
//! refused with nothing changed, and then put in force.
//!
//! Whether the kernel accepts its part is known only when it was written. So with the set `kdamond`
//! that part is put in force while the commit is prepared, and taken back if another context
//! refuses. Everything else is only checked in the preparation, and cannot fail later.

use isotherm_core::Attrs;
use isotherm_host::Roots;
use isotherm_pages::places::Places;

use super::context::{Work, schemes};
use super::message::Event;
use super::place::{Place, place};
use super::runner::Refused;
use super::set::fit;
use crate::policy::{ContextPolicy, SchemePolicy};

/// A policy that was checked and can be put in force.
#[derive(Debug)]
pub(super) struct Prepared {
    policy: ContextPolicy,
    attrs: Attrs,
    place: Place,
    between: Between,
    /// Where the schemes run, for people.
    line: Option<String>,
    /// The kernel's schemes before, if the preparation has changed them.
    kernel_before: Option<Place>,
    attrs_before: Option<Attrs>,
}

/// The nodes between which the schemes of a context move memory.
#[derive(Debug, Default)]
pub(super) struct Between {
    /// Ascending; empty if no scheme has a source node.
    nodes: Vec<u32>,
    /// Which frame is on which node.
    places: Places,
}

impl Between {
    /// The nodes of a policy's schemes, and which frame is on which of them.
    ///
    /// # Errors
    ///
    /// If the machine does not say on which node a page is.
    pub(super) fn of(policy: &ContextPolicy) -> Result<Self, Refused> {
        let ends = |s: &SchemePolicy| Some([s.scheme.source_nid?, s.scheme.target_nid?]);
        let mut nodes: Vec<u32> = policy.schemes.iter().filter_map(ends).flatten().collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() {
            return Ok(Self::default());
        }
        let places = Places::read(&Roots::default()).map_err(|why| Refused {
            code: 3,
            text: format!(
                "cannot tell on which node a page is\n  why:   {why}\n  hint:  a kernel with \
                 CONFIG_NUMA and CONFIG_MEMORY_HOTPLUG"
            ),
        })?;
        Ok(Self { nodes, places })
    }
}

impl Work {
    /// Checks whether a policy can be put in force.
    ///
    /// # Errors
    ///
    /// If it cannot. Nothing has changed then.
    pub(super) fn prepare_commit(&mut self, policy: ContextPolicy) -> Result<Prepared, Refused> {
        let (place, line) = place(&policy, self.monitor.kdamond())?;
        let mut attrs = policy.attrs;
        fit(self.monitor.ops(), &mut attrs);
        attrs.validate().map_err(|e| Refused {
            code: 3,
            text: format!("context `{}`: impossible attributes: {e}", policy.name),
        })?;
        let between = Between::of(&policy)?;
        let (kernel_before, attrs_before) = (None, None);
        let mut prepared =
            Prepared { policy, attrs, place, between, line, kernel_before, attrs_before };
        if self.monitor.kdamond().is_some()
            && let Err(text) = self.prepare_kernel(&mut prepared)
        {
            let text = format!("context `{}`: {text}", prepared.policy.name);
            self.abort(prepared);
            return Err(Refused { code: 3, text });
        }
        Ok(prepared)
    }

    /// The part of a commit that only the kernel can refuse.
    fn prepare_kernel(&mut self, prepared: &mut Prepared) -> Result<(), String> {
        if prepared.policy.attrs != self.policy.attrs {
            let before = *self.monitor.context().attrs();
            let committed = self.monitor.commit_attrs(prepared.attrs);
            committed.map_err(|e| format!("the attributes are refused: {e}"))?;
            prepared.attrs_before = Some(before);
        }
        // A change of a scheme's name counts too: the kernel's counters go on under the new name.
        let changes =
            prepared.place != self.place || prepared.policy.schemes != self.policy.schemes;
        if changes && (prepared.place.is_kernel() || self.place.is_kernel()) {
            let before = self.place.clone();
            self.push(&prepared.place, &prepared.policy)?;
            prepared.kernel_before = Some(before);
        }
        Ok(())
    }

    /// Takes a prepared commit back.
    pub(super) fn abort(&mut self, prepared: Prepared) {
        let mut failed = Vec::new();
        if let Some(before) = prepared.kernel_before {
            let policy = self.policy.clone();
            failed.extend(self.push(&before, &policy).err());
        }
        if let Some(before) = prepared.attrs_before {
            failed.extend(self.monitor.commit_attrs(before).err().map(|e| e.to_string()));
        }
        for text in failed {
            self.left_out(
                0,
                &format!("the kernel's former schemes or attributes could not be restored: {text}"),
            );
        }
    }

    /// Puts a prepared policy in force.
    pub(super) fn commit(&mut self, prepared: Prepared) {
        let Prepared { policy, attrs, place, between, line, .. } = prepared;
        if policy.attrs != self.policy.attrs
            && self.monitor.kdamond().is_none()
            && let Err(err) = self.monitor.commit_attrs(attrs)
        {
            // The attributes were checked, so a refusal is a defect of Isotherm. The schemes work
            // with the former attributes too.
            self.left_out(0, &format!("the attributes stay as they are: {err}"));
        }
        let moves = place.is_kernel() != self.place.is_kernel();
        if policy.schemes != self.policy.schemes || moves {
            self.install(place, &policy, between);
        }
        if moves && let Some(line) = line {
            self.left_out(0, &line);
        }
        self.monitor.follow(&policy.targets);
        self.monitor.set_slowed(policy.slowed);
        self.policy = policy;
        self.note_actions();
        self.events.send(Event::Committed);
    }

    /// Gives the kernel the schemes that it has to apply; none if Isotherm's engine applies them.
    ///
    /// # Errors
    ///
    /// If the kernel refuses them. It then keeps the former schemes.
    pub(super) fn push(&mut self, place: &Place, policy: &ContextPolicy) -> Result<(), String> {
        let Some(kdamond) = self.monitor.kdamond() else { return Ok(()) };
        let (pushed, names) = match place {
            Place::Kernel(pushed) => {
                (pushed.clone(), policy.schemes.iter().map(|s| s.settings.name.clone()).collect())
            }
            Place::Isotherm => (Vec::new(), Vec::new()),
        };
        let counted = kdamond.counted();
        let done = self.kernel.push(&counted, names, || kdamond.push(pushed));
        done.map_err(|e| e.to_string())
    }

    /// Gives Isotherm's engine the schemes that it has to apply; none if the kernel applies them.
    pub(super) fn install(&mut self, place: Place, policy: &ContextPolicy, between: Between) {
        self.monitor.actor().set_places(between.places, between.nodes);
        let own = if place.is_kernel() { Vec::new() } else { schemes(policy) };
        self.monitor.commit_schemes(own);
        self.place = place;
    }
}
