//! What the schemes that the kernel's DAMON applies did, by name.

use isotherm_core::scheme::{Entry, Ledger};
use isotherm_ops::kdamond::Counted;

/// The schemes that run in the kernel now, and the ledger of all that ever ran there.
#[derive(Debug, Default)]
pub(in crate::run) struct KernelAccounts {
    names: Vec<String>,
    ledger: Ledger,
}

impl KernelAccounts {
    /// Calls `push`, which gives other schemes to the kernel. `counted`: the counters of the
    /// present schemes, read before.
    ///
    /// # Errors
    ///
    /// If `push` fails. The kernel then still has the present schemes, and nothing changes here.
    pub(in crate::run) fn push<E>(
        &mut self,
        counted: &[Counted],
        names: Vec<String>,
        push: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        push()?;
        self.ledger.commit(&self.entries(counted), &names);
        self.names = names;
        Ok(())
    }

    /// What all of them did. `counted`: the counters of the schemes that run in the kernel now.
    pub(in crate::run) fn all(&self, counted: &[Counted]) -> Vec<Entry> {
        self.ledger.all(&self.entries(counted))
    }

    fn entries(&self, counted: &[Counted]) -> Vec<Entry> {
        let both = self.names.iter().zip(counted);
        both.map(|(name, counted)| (name.clone(), counted.counters.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::scheme::Counters;

    use super::*;

    fn counted(tried: &[u64]) -> Vec<Counted> {
        let one = |sz_tried: &u64| Counted {
            counters: Counters { sz_tried: *sz_tried, ..Counters::default() },
            esz: None,
        };
        tried.iter().map(one).collect()
    }

    fn tried(accounts: &KernelAccounts, now: &[u64]) -> Vec<(String, u64)> {
        accounts.all(&counted(now)).into_iter().map(|(name, c)| (name, c.sz_tried)).collect()
    }

    #[test]
    fn a_push_that_the_kernel_refuses_counts_nothing_twice() {
        let mut accounts = KernelAccounts::default();
        accounts.push(&[], vec!["a".into()], || Ok::<_, ()>(())).unwrap();
        for _ in 0..3 {
            accounts.push(&counted(&[40]), Vec::new(), || Err(())).unwrap_err();
            accounts.push(&counted(&[40]), vec!["b".into()], || Err(())).unwrap_err();
        }
        assert_eq!(tried(&accounts, &[41]), [("a".into(), 41)]);
        // A push that the kernel accepts moves all that was counted into the ledger, once.
        accounts.push(&counted(&[41]), Vec::new(), || Ok::<_, ()>(())).unwrap();
        assert_eq!(tried(&accounts, &[]), [("a".into(), 41)]);
        accounts.push(&[], vec!["a".into()], || Ok::<_, ()>(())).unwrap();
        assert_eq!(tried(&accounts, &[2]), [("a".into(), 43)]);
    }
}
