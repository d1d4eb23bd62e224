//! How a policy comes to many hosts: on which of them it acts, and when it stops by itself.
//!
//! These are wishes for whoever runs the policy on many hosts. `isotherm agent` heeds them; a run
//! on one machine (`isotherm run`) does not.

/// The whole, in basis points.
const ALL_BP: u32 = 10_000;

/// How a policy comes to many hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// The share of all hosts on which it acts, in basis points. On the others it only watches.
    pub share_bp: u32,
    /// The most memory pressure of the machine: the share of time in which some task waited for
    /// memory (`some avg10`), in basis points; none: any.
    pub max_pressure_bp: Option<u32>,
    /// The most of what was taken that may come back within the refault window, in basis points;
    /// none: any.
    pub max_refaults_bp: Option<u32>,
    /// The most troubles per minute that schemes may report; none: any.
    pub max_errors: Option<u64>,
}

impl Default for Rollout {
    /// All hosts, and no limits.
    fn default() -> Self {
        Self { share_bp: ALL_BP, max_pressure_bp: None, max_refaults_bp: None, max_errors: None }
    }
}

impl Rollout {
    /// Whether it is for a part of the hosts only.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.share_bp < ALL_BP
    }
}
