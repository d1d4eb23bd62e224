//! Redis with 1 GiB of values of which the newest tenth is asked for, by Zipf's law.

use super::keys;
use crate::processes::child::Child;
use crate::programs::clients::Resp;
use crate::programs::clients::keyed::{Keyed, Load};
use crate::programs::installed::not_installed;
use crate::programs::{Place, Program, Running, Size};

const LOAD: Load = Load { keys: 900_000, rate: 40_000.0, depth: 32 };

/// The program.
#[derive(Debug)]
pub(crate) struct Redis;

impl Program for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn about(&self) -> &'static str {
        "redis-server, 1 GiB of values, GETs of the newest tenth by Zipf's law"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["redis-server"], "redis-server")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let socket = place.file("redis.sock");
        let dir = place.path().to_string_lossy().into_owned();
        let options = [
            ("--port", "0"),
            ("--unixsocket", &*socket.to_string_lossy()),
            ("--dir", &*dir),
            ("--save", ""),
            ("--appendonly", "no"),
            ("--daemonize", "no"),
        ];
        let args = options.iter().flat_map(|(k, v)| [*k, *v]);
        let child = Child::start("redis-server", args, &place.file("redis.log"))?;
        let load = Load { keys: keys(LOAD.keys, size)?, ..LOAD };
        Ok(Box::new(Keyed::<Resp>::connect_and_store(child, &socket, load)?))
    }
}
