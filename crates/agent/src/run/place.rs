//! Where schemes run: in the kernel's DAMON, or in Isotherm's engine over what the set sees.

use isotherm_core::scheme::Action;
use isotherm_ops::kdamond::{Kdamond, Pushed};

use super::runner::Refused;
use crate::policy::{ContextPolicy, Engine};
use crate::push::{NotPushed, push_down};

/// Where the schemes of a context run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Place {
    /// In Isotherm's engine.
    #[default]
    Isotherm,
    /// In the kernel, with the schemes in the form that the kernel gets.
    Kernel(Vec<Pushed>),
}

impl Place {
    pub(super) const fn is_kernel(&self) -> bool {
        matches!(self, Self::Kernel(_))
    }
}

/// Decides where the schemes of a context run. The second value is a line for people, if there was
/// a choice.
///
/// # Errors
///
/// If the policy wants the kernel, and the kernel cannot apply a scheme.
pub(super) fn place(
    policy: &ContextPolicy,
    kdamond: Option<&mut Kdamond>,
) -> Result<(Place, Option<String>), Refused> {
    let name = &policy.name;
    let Some(kdamond) = kdamond else {
        if policy.engine == Engine::Kernel {
            let text = format!(
                "context `{name}` wants its schemes to run in the kernel\n  why:   only the operations set \
                 `kdamond` can do that\n  hint:  ops = \"kdamond\" (--ops kdamond)"
            );
            return Err(Refused { code: 2, text });
        }
        return Ok((Place::Isotherm, None));
    };
    if policy.schemes.is_empty() {
        return Ok((Place::Isotherm, None));
    }
    let here = |why: &str| {
        let line = format!("schemes run in Isotherm's engine over the kernel's snapshots: {why}");
        Ok((Place::Isotherm, Some(line)))
    };
    if policy.engine == Engine::Isotherm {
        return here("the policy says so");
    }
    let physical = policy.memory().is_some();
    let operations = if physical {
        isotherm_damon::Operations::Paddr
    } else {
        isotherm_damon::Operations::Vaddr
    };
    let features = kdamond.features();
    let one =
        |s: &crate::policy::SchemePolicy| push_down(&s.scheme, &s.settings, operations, &features);
    let pushed: Result<Vec<Pushed>, NotPushed> = policy.schemes.iter().map(one).collect();
    match (pushed, policy.engine) {
        (Ok(pushed), engine) => {
            let why = match engine {
                Engine::Kernel => "the policy says so",
                _ => "it can apply every scheme, and no scheme asks for evidence or proof",
            };
            let mut line = format!("schemes run in the kernel's DAMON: {why}");
            if policy.schemes.iter().any(|s| s.scheme.quota.brake.is_some()) {
                line.push_str(
                    "; the brake has no effect, since the kernel does not count refaults",
                );
            }
            Ok((Place::Kernel(pushed), Some(line)))
        }
        (Err(why), engine) if engine == Engine::Kernel || only_the_kernel(policy) => {
            let text = format!(
                "context `{name}` wants its schemes to run in the kernel, which cannot do all of them\n  why:   \
                 {why}\n  hint:  change that, or let Isotherm apply them: engine = \"isotherm\" (which has no \
                 lru_prio and lru_deprio)"
            );
            Err(Refused { code: 3, text })
        }
        (Err(why), _) => here(&why.to_string()),
    }
}

/// Whether the policy has a scheme that only the kernel can apply.
fn only_the_kernel(policy: &ContextPolicy) -> bool {
    policy.schemes.iter().any(|s| matches!(s.scheme.action, Action::LruPrio | Action::LruDeprio))
}
