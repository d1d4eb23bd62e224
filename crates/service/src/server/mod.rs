//! The control socket: takes in clients, each on a thread of its own.
//!
//! Anybody can connect, so that who has no right is told so, and the log says who it was. Such a
//! peer gets one answer and is hung up on. The number of clients is limited, with a few places for
//! those who may act, so that readers cannot lock out an administrator.

mod client;
mod follow;
mod methods;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use isotherm_control::error::{Kind, Refusal};
use isotherm_control::frame::write_frame;
use rustix::net::Shutdown;
use tracing::{info, warn};

use crate::access::{Access, Peer, Right};
use crate::shared::{Clients, Shared};

/// The most clients at once.
const MOST_CLIENTS: usize = 256;
/// Of these, places that only those may take who may act.
const RESERVED: usize = 16;
/// The most peers at once that are told that they have no right.
const MOST_REFUSED: usize = 16;
/// A thread of a client reads JSON of limited depth and waits for others.
const STACK: usize = 512 << 10;
/// How long a peer without rights has to say what it wants before it is refused.
const REFUSAL_PATIENCE_S: i64 = 1;

/// The listening socket. Dropping it hangs up on all clients.
#[derive(Debug)]
pub(crate) struct Server {
    path: PathBuf,
    listener: Arc<UnixListener>,
    clients: Arc<Clients>,
    thread: Option<JoinHandle<()>>,
}

/// A place among the clients; given back when it is dropped.
struct Place {
    clients: Arc<Clients>,
    number: usize,
    is_refused: bool,
}

impl Place {
    fn take(clients: &Arc<Clients>, right: Right) -> Option<Self> {
        let is_refused = right == Right::None;
        let (count, most) = match right {
            Right::None => (&clients.refused, MOST_REFUSED),
            Right::Read => (&clients.served, MOST_CLIENTS - RESERVED),
            Right::Act => (&clients.served, MOST_CLIENTS),
        };
        if count.fetch_add(1, Ordering::Relaxed) >= most {
            count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let number = clients.next.fetch_add(1, Ordering::Relaxed);
        Some(Self { clients: Arc::clone(clients), number, is_refused })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let count = if self.is_refused { &self.clients.refused } else { &self.clients.served };
        count.fetch_sub(1, Ordering::Relaxed);
        let mut streams = self.clients.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|(number, _)| *number != self.number);
    }
}

impl Server {
    /// Listens at `path`. A socket that a former agent left there is removed. The caller holds the
    /// lock of the state, so no other agent listens there.
    ///
    /// # Errors
    ///
    /// If the path cannot be used.
    pub(crate) fn start(
        path: &Path,
        access: Arc<RwLock<Access>>,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir)?;
        }
        if fs::symlink_metadata(path).is_ok_and(|found| {
            use std::os::unix::fs::FileTypeExt;
            found.file_type().is_socket()
        }) {
            fs::remove_file(path)?;
        }
        let listener = Arc::new(UnixListener::bind(path)?);
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        let clients = Arc::clone(&shared.clients);
        let accepting = Accepting { listener: Arc::clone(&listener), access, shared };
        let thread = std::thread::Builder::new().name("control".into());
        let thread = thread.spawn(move || accepting.run())?;
        Ok(Self { path: path.to_owned(), listener, clients, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.clients.stopping.store(true, Ordering::Relaxed);
        // This wakes the thread that accepts.
        rustix::net::shutdown(&self.listener, Shutdown::Both).ok();
        self.thread.take().map(JoinHandle::join);
        for (_, stream) in
            self.clients.streams.lock().unwrap_or_else(PoisonError::into_inner).iter()
        {
            stream.shutdown(std::net::Shutdown::Both).ok();
        }
        fs::remove_file(&self.path).ok();
    }
}

struct Accepting {
    listener: Arc<UnixListener>,
    access: Arc<RwLock<Access>>,
    shared: Arc<Shared>,
}

impl Accepting {
    fn run(&self) {
        loop {
            let accepted = self.listener.accept();
            if self.shared.clients.is_stopping() {
                return;
            }
            match accepted {
                Ok((stream, _)) => self.take_in(stream),
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => {
                    // Too many open files, for example. Waiting is all that can be done.
                    warn!("cannot accept a client: {err}");
                    std::thread::sleep(Duration::from_millis(200));
                }
            }
        }
    }

    fn take_in(&self, stream: UnixStream) {
        let peer = match Peer::of(&stream) {
            Ok(peer) => peer,
            Err(err) => return warn!("cannot tell who a client is, so it is not served: {err}"),
        };
        let access = *self.access.read().unwrap_or_else(PoisonError::into_inner);
        let right = access.of(&peer);
        if right == Right::None {
            info!(uid = peer.uid, pid = peer.pid, "a user without rights was refused");
        }
        let Some(place) = Place::take(&self.shared.clients, right) else {
            return refuse(stream, &too_many(right));
        };
        if let Ok(own) = stream.try_clone() {
            let mut streams =
                self.shared.clients.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.push((place.number, own));
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(format!("client {}", peer.pid));
        let spawned = thread.stack_size(STACK).spawn(move || {
            // The place is given back at the end, also after a panic.
            let _place = place;
            if right == Right::None {
                follow::wait_for_a_word(&stream, REFUSAL_PATIENCE_S);
                refuse(stream, &no_right(&peer));
            } else {
                client::serve(&stream, &peer, right, &shared);
            }
        });
        if let Err(err) = spawned {
            warn!("cannot start a thread for a client: {err}");
        }
    }
}

fn too_many(right: Right) -> Refusal {
    let (what, why) = match right {
        Right::None => ("to use the agent", "you have no right to, and others are told so now"),
        _ => ("to serve another client", "as many as are allowed are connected"),
    };
    let hint = "close a connection, or try again later";
    Refusal::new(Kind::Busy, what, why, hint)
}

fn no_right(peer: &Peer) -> Refusal {
    Refusal::new(
        Kind::NotAllowed,
        "to use the agent",
        format!("user {} is neither root nor in the group that may read", peer.uid),
        "`usermod -aG isotherm USER`, then log in again; `isotherm agent --readers GROUP` names \
         another group",
    )
}

/// Says why, and hangs up. A peer that does not read cannot hold this up.
fn refuse(stream: UnixStream, refusal: &Refusal) {
    stream.set_nonblocking(true).ok();
    write_frame(&mut &stream, &refusal.reply().text()).ok();
    stream.shutdown(std::net::Shutdown::Write).ok();
}
