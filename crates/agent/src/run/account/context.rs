//! What the schemes of a context did. The kernel's counters and those of Isotherm's engine are
//! added up by name, since a scheme can have run in both.

use isotherm_core::scheme::{Counters, Entry};
use isotherm_ops::kdamond::Kdamond;

use super::{Account, Standing};
use crate::run::context::Work;
use crate::run::place::Place;

impl Work {
    /// The state of the schemes that are in force. Schemes of a commit are in force from the next
    /// turn of the monitor's loop.
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

    /// What every scheme of this context did since its start. Schemes that a commit removed come
    /// first; the schemes of the policy follow, in its order.
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
            // A scheme that was committed and is not in force yet has done nothing.
            if !entries.iter().any(|(other, _)| other == *name) {
                entries.push(((*name).clone(), Counters::default()));
            }
        }
        // The sort is stable and `None` comes first, so removed schemes stay in the order in which
        // they were removed.
        entries.sort_by_key(|(name, _)| place(name));
        let blocked = match self.place {
            Place::Kernel(_) => None,
            Place::Isotherm => self.monitor.actor().blocked().map(str::to_owned),
        };
        let account = |(name, counters): Entry| {
            let (action, dry_run) = *self.actions.get(&name)?;
            let blocked = place(&name).and(blocked.clone());
            Some(Account {
                blocked,
                dry_run,
                ..Account::new(&self.policy.name, name, action, counters)
            })
        };
        entries.into_iter().filter_map(account).collect()
    }

    /// Remembers the actions of the policy's schemes, and whether they are a dry run, for the
    /// accounts of schemes that a later commit removes.
    pub(in crate::run) fn note_actions(&mut self) {
        for scheme in &self.policy.schemes {
            let what = (scheme.scheme.action.name(), scheme.settings.dry_run);
            self.actions.insert(scheme.settings.name.clone(), what);
        }
    }
}
