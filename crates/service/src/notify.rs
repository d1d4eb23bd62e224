//! What systemd is told (`sd_notify(3)`): ready, what is being done, still alive.
//!
//! A message is a datagram to the socket that `NOTIFY_SOCKET` names. Without that variable nobody
//! wants to know, and nothing is sent.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use isotherm_sys::clock;

/// The connection to systemd; or none, if the program was not started by it.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Reads `NOTIFY_SOCKET` and `WATCHDOG_USEC`.
    ///
    /// # Errors
    ///
    /// If `NOTIFY_SOCKET` is set and no socket can be made for it.
    pub fn of_environment() -> io::Result<Self> {
        let Some(name) = env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty()) else {
            return Ok(Self::default());
        };
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let pid = env::var("WATCHDOG_PID").ok();
        let is_ours = pid.is_none_or(|pid| pid == std::process::id().to_string());
        let us = env::var("WATCHDOG_USEC").ok().and_then(|us| us.parse().ok());
        let watchdog = us.filter(|us| is_ours && *us > 0).map(Duration::from_micros);
        Ok(Self { socket: Some((socket, address)), watchdog })
    }

    /// How often [`Self::alive`] has to be called, at least; none if nobody watches.
    #[must_use]
    pub fn every(&self) -> Option<Duration> {
        self.watchdog.map(|patience| patience / 3)
    }

    /// The service is ready.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// What the service is doing, for `systemctl status`.
    pub fn status(&self, text: &str) {
        self.send(&format!("STATUS={}", text.replace('\n', " ")));
    }

    /// The service still works.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// The service reads its files again; [`Self::ready`] ends that.
    pub fn reloading(&self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", clock::now().as_ns() / 1000));
    }

    /// The service is about to end.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Sends a message. A systemd that does not read must not stop the service, so a failure is
    /// ignored.
    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            socket.send_to_addr(message.as_bytes(), address).ok();
        }
    }
}
