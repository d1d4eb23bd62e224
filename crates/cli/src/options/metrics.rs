//! Options for metrics of what runs.

use std::path::PathBuf;

use isotherm_metrics::http::Address;
use isotherm_metrics::{Build, Outlets, textfile};

use crate::exit;

/// Options for metrics.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricsArgs {
    /// Serve metrics for Prometheus here, as 127.0.0.1:9464 or /run/isotherm/metrics.sock.
    ///
    /// GET /metrics answers in OpenMetrics or the older text format, whatever is asked for;
    /// /healthz and /readyz tell whether there are numbers. Other machines cannot reach it.
    #[arg(long = "metrics", value_name = "ADDRESS", hide_short_help = true)]
    address: Option<String>,
    /// With --metrics: allow an address that other machines can reach.
    #[arg(long = "metrics-any-address", requires = "address", hide_short_help = true)]
    any: bool,
    /// Write metrics to this file about every 10 s, for the textfile collector.
    ///
    /// That is a part of Prometheus' node exporter. The name has to end in .prom. The file is
    /// replaced as a whole.
    #[arg(long = "metrics-textfile", value_name = "FILE", hide_short_help = true)]
    textfile: Option<PathBuf>,
}

impl MetricsArgs {
    /// Where metrics are wanted.
    pub(crate) fn outlets(&self) -> anyhow::Result<Outlets> {
        let address = self.address.as_ref().map(|text| Address::parse(text, self.any));
        if let Some(path) = &self.textfile {
            textfile::check(path)
                .map_err(|err| exit::usage(format!("{}: {err}", path.display())))?;
        }
        Ok(Outlets {
            address: address.transpose().map_err(exit::of)?,
            textfile: self.textfile.clone(),
        })
    }
}

/// This program, as metrics name it.
pub(crate) fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("ISOTHERM_BUILT_COMMIT").to_owned(),
    }
}
