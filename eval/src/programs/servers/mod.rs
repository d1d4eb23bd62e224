//! Servers: programs that last, and answer for as long as they are loaded.

mod go;
mod jvm;
mod memcached;
mod nginx;
mod node;
mod postgres;
mod redis;

pub(super) use go::Go;
pub(super) use jvm::Jvm;
pub(super) use memcached::Memcached;
pub(super) use nginx::Nginx;
pub(super) use node::Node;
pub(super) use postgres::Postgres;
pub(super) use redis::Redis;

use super::Size;

/// So many keys in full size.
fn keys(full: u32, size: Size) -> anyhow::Result<u32> {
    Ok(u32::try_from(size.scaled(u64::from(full)))?)
}
