//! Clients of servers: what asks a program for something, and takes the time.
//!
//! A [`Connection`](connection::Connection) speaks one of the protocols (Redis, memcached, HTTP)
//! over a Unix socket, and [`keyed`] loads such a server. A [`Talk`](talk::Talk) has its load
//! inside of itself and answers line by line.

pub(crate) mod connection;
mod http;
pub(crate) mod keyed;
mod memcached;
mod resp;
pub(crate) mod talk;
pub(crate) mod value;
pub(crate) mod zipf;

pub(crate) use http::Http;
pub(crate) use memcached::Memcached;
pub(crate) use resp::Resp;
