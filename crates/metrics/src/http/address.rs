//! Where to listen.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::error::{self, ServeError};

/// Where to listen: a port of this machine, or a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) => write!(f, "{at}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// Reads `127.0.0.1:9464`, `[::1]:9464`, `localhost:9464`, `:9464` (on 127.0.0.1),
    /// `/run/x.sock` or `unix:/run/x.sock`.
    ///
    /// Metrics tell what runs on a machine, to anybody who asks. So an address that other machines
    /// can reach is refused, unless `any` says that this is wanted.
    ///
    /// # Errors
    ///
    /// If it is none of these, or is refused.
    pub fn parse(text: &str, any: bool) -> Result<Self, ServeError> {
        let path = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text));
        if let Some(path) = path {
            if !path.starts_with('/') {
                return Err(error::no_address(text, "the path of a socket begins with /"));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let local = text.strip_prefix("localhost").unwrap_or(text);
        let at = match local.strip_prefix(':') {
            Some(port) => {
                port.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            }
            None => text.parse().ok(),
        };
        let Some(at) = at else {
            return Err(error::no_address(text, "it is neither IP:PORT nor the path of a socket"));
        };
        if any || is_loopback(at.ip()) { Ok(Self::Tcp(at)) } else { Err(error::not_loopback(text)) }
    }
}

/// Also of IPv4 addresses within IPv6.
fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => {
            ip == Ipv6Addr::LOCALHOST || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ServeKind;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown) in [
            ("127.0.0.1:9464", "127.0.0.1:9464"),
            ("127.1.2.3:0", "127.1.2.3:0"),
            ("[::1]:9464", "[::1]:9464"),
            ("localhost:9464", "127.0.0.1:9464"),
            (":9464", "127.0.0.1:9464"),
            ("/run/isotherm/m.sock", "unix:/run/isotherm/m.sock"),
            ("unix:/run/m.sock", "unix:/run/m.sock"),
        ] {
            assert_eq!(Address::parse(text, false).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_others_can_reach_has_to_be_asked_for() {
        for text in ["0.0.0.0:9464", "[::]:9464", "10.0.0.1:9464", "[::ffff:10.0.0.1]:9464"] {
            let refused = Address::parse(text, false).unwrap_err();
            assert_eq!(refused.kind(), ServeKind::NotLoopback, "{text}");
            assert!(Address::parse(text, true).is_ok(), "{text}");
        }
        for text in ["", "9464", "example.org:80", "unix:x", "127.0.0.1:99999", ":x"] {
            assert_eq!(Address::parse(text, true).unwrap_err().kind(), ServeKind::NoAddress);
        }
    }
}
