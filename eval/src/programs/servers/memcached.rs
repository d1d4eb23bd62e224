//! memcached with about 800 MiB of items of which the newest tenth is asked for, by Zipf's law.
//!
//! Memory is in slabs of one class. Its own thread for the LRU lists looks at what is cold, too.

use super::keys;
use crate::processes::child::Child;
use crate::programs::clients::Memcached as Protocol;
use crate::programs::clients::keyed::{Keyed, Load};
use crate::programs::installed::not_installed;
use crate::programs::{Place, Program, Running, Size};

const LOAD: Load = Load { keys: 700_000, rate: 40_000.0, depth: 32 };

/// The program.
#[derive(Debug)]
pub(crate) struct Memcached;

impl Program for Memcached {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn about(&self) -> &'static str {
        "memcached, 800 MiB of items in slabs, gets of the newest tenth by Zipf's law"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["memcached"], "memcached")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let socket = place.file("memcached.sock");
        let path = socket.to_string_lossy();
        // More memory than the items take: nothing is evicted. Root must say so to stay root.
        let args = ["-s", &*path, "-a", "0700", "-m", "2048", "-t", "2", "-u", "root"];
        let child = Child::start("memcached", args, &place.file("memcached.log"))?;
        let load = Load { keys: keys(LOAD.keys, size)?, ..LOAD };
        Ok(Box::new(Keyed::<Protocol>::connect_and_store(child, &socket, load)?))
    }
}
