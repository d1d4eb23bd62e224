//! A Go server with a cache of 500 MiB of live objects, of which the newest tenth is asked for.
//!
//! One value in 16 that is asked for is made anew, so the collector runs, and marks also what is
//! cold. The server is compiled by the machine's Go, which keeps what it has compiled of its
//! library in the user's cache directory.

use std::process::{Command, Stdio};

use super::keys;
use crate::processes::child::Child;
use crate::programs::clients::Http;
use crate::programs::clients::keyed::{Keyed, Load};
use crate::programs::installed::{not_installed, output};
use crate::programs::{Place, Program, Running, Size};

const SOURCE: &str = include_str!("cache.go");
const LOAD: Load = Load { keys: 600_000, rate: 5_000.0, depth: 16 };

/// The program.
#[derive(Debug)]
pub(crate) struct Go;

impl Program for Go {
    fn name(&self) -> &'static str {
        "go"
    }

    fn about(&self) -> &'static str {
        "a Go HTTP server, a cache of 500 MiB of objects under its collector, a tenth by Zipf's law"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["go"], "golang-go")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let source = place.write("cache.go", SOURCE)?;
        let server = place.file("cache");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&server).arg(source).current_dir(place.path());
        // Nothing is fetched, and no C compiler is needed.
        for (name, value) in
            [("GO111MODULE", "off"), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0")]
        {
            build.env(name, value);
        }
        if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
            build.env("GOCACHE", place.file("go-cache"));
        }
        output(&mut build)?;
        let load = Load { keys: keys(LOAD.keys, size)?, ..LOAD };
        let socket = place.file("go.sock");
        let mut command = Command::new(server);
        command.arg(&socket).arg(load.keys.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = Child::spawn(command, &place.file("go.log"))?;
        Ok(Box::new(Keyed::<Http>::connect(child, &socket, load, 60)?))
    }
}
