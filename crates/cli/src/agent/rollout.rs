//! Options for how policies come to many hosts.

use std::path::PathBuf;

use isotherm::raw::host::{Machine, Roots};
use isotherm_service::rollout::Rollout;

/// Options for how policies come to many hosts.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Rollout")]
pub(super) struct RolloutArgs {
    /// Run only policies whose SHA-256 is in this file, as `sha256sum *.toml` writes it.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pins: Option<PathBuf>,
    /// Run only policies that this public key of minisign has signed, in POLICY.toml.minisig.
    ///
    /// With --pins as well, one of both is enough.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    policy_key: Option<PathBuf>,
    /// Act on nothing while this file exists; PATH.NAME is for the policy NAME alone.
    ///
    /// What policies had done is undone as by `isotherm ctl stop`, and they only watch until the
    /// file is gone. The file is looked for five times a second, and may be on shared storage.
    #[arg(long, value_name = "PATH", default_value = "/etc/isotherm/stop", hide_short_help = true)]
    stop_file: PathBuf,
    /// What this host is called when a policy acts on a share of hosts; its own name if not given.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    rollout_host: Option<String>,
}

impl RolloutArgs {
    pub(super) fn settings(self) -> Rollout {
        let own = || Machine::read(&Roots::default()).host;
        Rollout {
            pins: self.pins,
            key: self.policy_key,
            stop_file: self.stop_file,
            host: self.rollout_host.or_else(own).unwrap_or_else(|| "localhost".to_owned()),
        }
    }
}
