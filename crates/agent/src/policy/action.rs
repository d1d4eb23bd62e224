//! The actions that can be carried out from outside a process, and those that cannot.

use std::ops::Range;

use isotherm_core::scheme::Action;

use crate::text::{TextError, unknown};

/// Reads an action that can be carried out. `by_kernel`: the kernel's DAMON applies it to physical
/// memory, so actions that only the kernel has are allowed.
pub(crate) fn available(
    name: &str,
    span: Range<usize>,
    by_kernel: bool,
) -> Result<Action, TextError> {
    let not_here = |hint: &str| {
        Err(TextError::new(span.clone(), format!("action `{name}` is not available"))
            .why("the kernel has no call to move the pages of a process to the head or tail of an LRU list")
            .hint(hint))
    };
    match Action::from_name(name) {
        Some(action @ (Action::LruDeprio | Action::LruPrio)) if by_kernel => Ok(action),
        Some(Action::LruDeprio) => not_here(
            "`cold` moves pages to the inactive list, which is nearly the same; or let the kernel's DAMON do it, on \
             physical memory: ops = \"kdamond\", targets = [{ paddr = \"all\" }]",
        ),
        Some(Action::LruPrio) => not_here(
            "`cold` on what is idle leaves the hot pages ahead of it; or let the kernel's DAMON do it, on \
             physical memory: ops = \"kdamond\", targets = [{ paddr = \"all\" }]",
        ),
        Some(action) => Ok(action),
        None => {
            let known: Vec<_> = Action::ALL.iter().map(|action| action.name()).collect();
            Err(unknown(span, "action", name, &known))
        }
    }
}
