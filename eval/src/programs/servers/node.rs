//! A node server with about 600 MiB of objects on its heap, of which the newest tenth is asked for.

use super::keys;
use crate::processes::child::Child;
use crate::programs::clients::Http;
use crate::programs::clients::keyed::{Keyed, Load};
use crate::programs::installed::not_installed;
use crate::programs::{Place, Program, Running, Size};

const SOURCE: &str = include_str!("cache.js");
const LOAD: Load = Load { keys: 400_000, rate: 2_000.0, depth: 16 };

/// The program.
#[derive(Debug)]
pub(crate) struct Node;

impl Program for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn about(&self) -> &'static str {
        "a node HTTP server, 600 MiB of objects in the old generation, a tenth by Zipf's law"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["node"], "nodejs")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let source = place.write("cache.js", SOURCE)?;
        let socket = place.file("node.sock");
        let load = Load { keys: keys(LOAD.keys, size)?, ..LOAD };
        let (source, path) = (source.to_string_lossy(), socket.to_string_lossy());
        let n = load.keys.to_string();
        let args = ["--max-old-space-size=2048", &*source, &*path, &*n];
        let child = Child::start("node", args, &place.file("node.log"))?;
        Ok(Box::new(Keyed::<Http>::connect(child, &socket, load, 60)?))
    }
}
