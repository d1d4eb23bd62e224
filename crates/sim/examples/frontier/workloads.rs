//! The workloads of the study: shipped ones, and some that are each difficult in one way.

use std::borrow::Cow;
use std::error::Error;

use isotherm_sim::config::{Config, shipped};

/// Names of the shipped workloads in the study.
const SHIPPED: [&str; 10] = [
    "hot10",
    "stairs",
    "zipf",
    "phase-change",
    "mmap-churn",
    "scattered-2m",
    "scattered-256k",
    "scattered-4k",
    "moving",
    "sweep",
];

/// (name, config).
const OWN: [(&str, &str); 7] = [
    (
        "drift",
        "m, 512M\n\nmoving\n40000\n\
         m, 1, 64, 1, rw, offset=64M, length=64M, step=64M, every=5000, hz=400\n",
    ),
    (
        "fuzzy",
        "m, 1G\n\nsteady\n40000\n\
         m, 1, 64, 1, rw, offset=96M,  length=8M, hz=8\n\
         m, 1, 64, 1, rw, offset=104M, length=8M, hz=60\n\
         m, 1, 64, 1, rw, offset=112M, length=128M, hz=400\n\
         m, 1, 64, 1, rw, offset=240M, length=8M, hz=60\n\
         m, 1, 64, 1, rw, offset=248M, length=8M, hz=8\n\
         m, 1, 64, 1, rw, offset=684M, length=4M, hz=30\n\
         m, 1, 64, 1, rw, offset=688M, length=32M, hz=150\n\
         m, 1, 64, 1, rw, offset=720M, length=4M, hz=30\n",
    ),
    (
        // Every second page is hot: no region can be all hot or all cold.
        "interleaved",
        "m, 32M\nc, 224M\n\nsteady\n40000\nm, 1, 64, 1, rw, sparse=8K, hz=400\n",
    ),
    (
        // Rates between hot and cold, which the monitor has to distinguish.
        "warm",
        "m, 512M\n\nsteady\n40000\n\
         m, 1, 64, 1, rw, length=128M, hz=20\n\
         m, 1, 64, 1, rw, offset=256M, length=64M, hz=100\n",
    ),
    (
        // As hot10 on a slow machine: a tenth is touched twice per window, the rest never.
        "faint",
        "m, 1G\n\nsteady\n40000\nm, 1, 64, 1, rw, offset=256M, length=102M, hz=20\n",
    ),
    (
        "islands",
        "m, 1G\n\nsteady\n40000\n\
         m, 1, 64, 1, rw, offset=100M, length=1M, hz=400\n\
         m, 1, 64, 1, rw, offset=300M, length=2M, hz=400\n\
         m, 1, 64, 1, rw, offset=500M, length=4M, hz=400\n\
         m, 1, 64, 1, rw, offset=700M, length=8M, hz=400\n\
         m, 1, 64, 1, rw, offset=900M, length=16M, hz=400\n",
    ),
    (
        // A sweep that takes longer than a window.
        "slow-sweep",
        "m, 256M\n\nsteady\n40000\nm, 0, 4096, 1, rw, length=64M, hz=2\n",
    ),
];

/// The workloads of these names, shipped ones of any kind among them; those of the study if there
/// are no names.
pub(crate) fn workloads(wanted: &[String]) -> Result<Vec<(String, Config)>, Box<dyn Error>> {
    let of_study = SHIPPED.into_iter().chain(OWN.iter().map(|(name, _)| *name));
    let names: Vec<String> = match wanted {
        [] => of_study.map(str::to_owned).collect(),
        _ => wanted.to_vec(),
    };
    let config = |name: String| {
        let own = OWN.iter().find(|(n, _)| *n == name).map(|(_, text)| Cow::Borrowed(*text));
        let text = own.or_else(|| shipped(&name)).ok_or_else(|| format!("no workload {name}"))?;
        Ok((name, Config::parse(&text)?))
    };
    names.into_iter().map(config).collect()
}
