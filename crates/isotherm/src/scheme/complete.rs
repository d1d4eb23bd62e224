//! From what was said of a scheme to the whole of it.

use isotherm_agent::policy::{SchemePolicy, defaults};
use isotherm_core::scheme::{Action, Destination};
use isotherm_core::{Attrs, scheme as core};

use super::{Scheme, Watermarks};
use crate::Error;
use crate::units::micros;

impl Scheme {
    /// The name, which must be unique in a monitor.
    pub(crate) fn own_name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.action.name())
    }

    /// Whether the name was given, and not made from the action.
    pub(crate) const fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// The whole of it, with what was not said filled in.
    ///
    /// # Errors
    ///
    /// If it makes no sense.
    pub(crate) fn complete(self, attrs: &Attrs) -> Result<SchemePolicy, Error> {
        self.verify()?;
        let mut settings = self.settings;
        let mut filters = core::Filters::default();
        for (filter, allow) in &self.filters {
            filters.push(filter.to_core(*allow, &mut settings.cgroups, &mut settings.mappings));
        }
        let mut quota = match &self.quota {
            Some(quota) => quota.to_core(&mut settings.cgroups),
            None => defaults::quota(self.action),
        };
        quota.weights = defaults::weights(self.action);
        quota.brake = self.brake.unwrap_or_else(|| defaults::brake(self.action));
        settings.evidence = match self.evidence {
            Some(evidence) => evidence,
            None if defaults::uses_evidence(self.action) => {
                defaults::evidence(&self.pattern, attrs)
            }
            None => settings.evidence,
        };
        settings.name = self.name.unwrap_or_else(|| self.action.name().to_owned());
        let dests =
            self.nodes.iter().map(|(nid, weight)| Destination { nid: *nid, weight: *weight });
        let scheme = core::Scheme {
            pattern: self.pattern,
            action: self.action,
            apply_interval_us: micros(self.apply_interval),
            quota,
            watermarks: self.watermarks.map(Watermarks::to_core).unwrap_or_default(),
            filters,
            target_nid: None,
            source_nid: None,
            rest: None,
            dests: dests.collect(),
            max_nr_snapshots: 0,
            by_page: false,
        };
        Ok(SchemePolicy { scheme, settings })
    }

    fn verify(&self) -> Result<(), Error> {
        let refuse = |why: &str, hint: &str| {
            Err(Error::invalid(&format!("scheme `{}` makes no sense", self.own_name()), why, hint))
        };
        if self.pattern.is_upside_down() {
            return refuse("a range of its pattern is empty, so no memory can match", "");
        }
        if self.watermarks.is_some_and(|marks| !marks.is_valid()) {
            let hint = "high >= mid >= low, and an interval above zero";
            return refuse("its watermarks are not in order", hint);
        }
        let migrates = matches!(self.action, Action::MigrateHot | Action::MigrateCold);
        if migrates && self.nodes.is_empty() {
            return refuse("it has no node to migrate to", "give at least one");
        }
        Ok(())
    }
}
