//! The table `[rollout]`: on which hosts a policy acts, and when it stops by itself.

use super::fields::{Entry, Errors};
use crate::policy::Rollout;

const KEYS: &[&str] = &["share", "max_pressure", "max_refaults", "max_errors"];

pub(super) fn rollout(entry: &Entry<'_>, errors: &mut Errors) -> Rollout {
    let mut rollout = Rollout::default();
    let Some(fields) = entry.fields(KEYS, errors) else { return rollout };
    if let Some(bp) = fields.maybe("share", errors, |e| e.share("5%")) {
        rollout.share_bp = bp;
    }
    rollout.max_pressure_bp = fields.maybe("max_pressure", errors, |e| e.share("10%"));
    rollout.max_refaults_bp = fields.maybe("max_refaults", errors, |e| e.share("5%"));
    rollout.max_errors = fields.maybe("max_errors", errors, |e| e.whole());
    rollout
}
