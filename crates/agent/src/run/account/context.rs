//! What the schemes of a context did, wherever they ran: the kernel's part and Isotherm's, added up
//! by name.

use isotherm_core::scheme::{Counters, Entry};
use isotherm_ops::kdamond::Kdamond;

use super::{Account, Standing};
use crate::run::context::Work;
use crate::run::place::Place;

impl Work {
    /// How the schemes stand that are in force: a commit's take effect at the next turn of the
    /// monitor's loop.
    pub(in crate::run) fn standings(&mut self) -> Vec<Standing> {
        let accounts = self.accounts();
        let of = |name: &String| accounts.iter().find(|a| a.name == *name).cloned();
        if self.place.is_kernel() {
            let counted = self.monitor.kdamond().map(Kdamond::counted).unwrap_or_default();
            let both = self.policy.schemes.iter().zip(&counted);
            return both
                .filter_map(|(s, counted)| {
                    Some(Standing::of_kernel(of(&s.settings.name)?, &s.scheme, counted))
                })
                .collect();
        }
        let names: Vec<_> =
            self.monitor.actor().settings().iter().map(|s| s.name.clone()).collect();
        let installed = names.iter().zip(self.monitor.context().schemes());
        installed.filter_map(|(name, scheme)| Some(Standing::new(of(name)?, scheme))).collect()
    }

    /// What all schemes that there ever were did: those of the policy in order, behind those that
    /// are no more.
    pub(in crate::run) fn accounts(&mut self) -> Vec<Account> {
        let counted = self.monitor.kdamond().map(Kdamond::counted).unwrap_or_default();
        let mut entries = self.kernel.all(&counted);
        for (name, counters) in self.monitor.accounts() {
            match entries.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => sum.add(&counters),
                None => entries.push((name, counters)),
            }
        }
        let now: Vec<&String> = self.policy.schemes.iter().map(|s| &s.settings.name).collect();
        let place = |name: &String| now.iter().position(|n| *n == name);
        for name in &now {
            // One that was committed and is not in force yet did nothing.
            if !entries.iter().any(|(other, _)| other == *name) {
                entries.push(((*name).clone(), Counters::default()));
            }
        }
        // Stable, and `None` comes first: those that are no more stay in the order in which they
        // went.
        entries.sort_by_key(|(name, _)| place(name));
        let blocked = match self.place {
            Place::Kernel(_) => None,
            Place::Isotherm => self.monitor.actor().blocked().map(str::to_owned),
        };
        let account = |(name, counters): Entry| {
            let action = *self.actions.get(&name)?;
            let blocked = place(&name).and(blocked.clone());
            Some(Account { blocked, ..Account::new(&self.policy.name, name, action, counters) })
        };
        entries.into_iter().filter_map(account).collect()
    }

    /// Remembers what the schemes of the policy do, for accounts of those that are no more.
    pub(in crate::run) fn note_actions(&mut self) {
        for scheme in &self.policy.schemes {
            self.actions.insert(scheme.settings.name.clone(), scheme.scheme.action.name());
        }
    }
}
