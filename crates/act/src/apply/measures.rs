//! The values that the goals of schemes are measured by: of the machine, of its nodes, and of what
//! the schemes did.

use isotherm_core::Measure;
use isotherm_core::scheme::Metric;
use isotherm_sys::clock::now;

use crate::apply::Actor;

impl Actor {
    /// Fills in what is asked for. A value that cannot be had is none.
    pub(super) fn measure(&mut self, measures: &mut [Measure]) {
        self.read_levels(measures);
        for measure in measures {
            let scheme = measure.scheme;
            let counters = self.accounts.get(scheme).map(|account| &account.counters);
            measure.value = match measure.metric {
                Metric::DoneBytes => counters.map(|c| c.done_bytes),
                Metric::RefaultedBytes => counters.map(|c| c.refaulted_bytes),
                Metric::RefaultBp => self.refault_bp(scheme),
                // The core has the user's value itself.
                Metric::UserInput => None,
                metric => self.machine_metric(scheme, metric),
            };
        }
    }

    /// The refault rate of a scheme, in basis points; none while it did nothing.
    fn refault_bp(&mut self, scheme: usize) -> Option<u64> {
        let window = self.settings.get(scheme)?.refault_window_us;
        self.accounts.get_mut(scheme)?.refault_bp(window, now())
    }

    /// Reads how full the nodes are that these measures are about, once for all of them.
    fn read_levels(&mut self, measures: &mut [Measure]) {
        if let Err(why) = self.levels.read(measures.iter().map(|m| m.metric)) {
            let scheme = measures.first().map_or(0, |m| m.scheme);
            self.trouble(scheme, 0, &why);
        }
        for measure in measures {
            measure.level = self.levels.of(measure.metric);
        }
    }

    /// A value read from the machine. If the machine lacks it, that is reported once, and the value
    /// is none.
    fn machine_metric(&mut self, scheme: usize, metric: Metric) -> Option<u64> {
        let cgroups = self.settings.get(scheme).map_or(&[][..], |s| s.cgroups.as_slice());
        match self.metrics.read(metric, cgroups) {
            Ok(value) => Some(value),
            Err(why) => {
                self.trouble(scheme, 0, &why.to_string());
                None
            }
        }
    }
}
