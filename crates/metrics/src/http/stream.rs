//! Sockets of both kinds, with a time limit for all that is done with a connection.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Address;
use super::error::{self, ServeError};

/// A socket that is listened on. The file of a Unix socket is removed at the end.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, path: PathBuf, inode: u64 },
}

impl Listener {
    /// Listens. Also returns the address with the port that the kernel chose.
    pub(super) fn bind(address: &Address) -> Result<(Self, Address), ServeError> {
        let bound = match address {
            Address::Tcp(at) => TcpListener::bind(at).and_then(|listener| {
                listener.set_nonblocking(true)?;
                let at = Address::Tcp(listener.local_addr()?);
                Ok((Self::Tcp(listener), at))
            }),
            Address::Unix(path) => {
                bind_unix(path).map(|listener| (listener, Address::Unix(path.clone())))
            }
        };
        bound.map_err(|err| error::not_bound(address, err))
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        let kind = match self {
            Self::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nonblocking(false)?;
                Either::Tcp(stream)
            }
            Self::Unix { listener, .. } => {
                let stream = listener.accept()?.0;
                stream.set_nonblocking(false)?;
                Either::Unix(stream)
            }
        };
        Ok(Stream { kind, until: Instant::now() })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, inode, .. } = self
            && fs::symlink_metadata(&path).is_ok_and(|meta| meta.ino() == *inode)
        {
            fs::remove_file(path).ok();
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<Listener> {
    // A socket that nobody listens on was left by a program that was killed.
    let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    let refused = |err: io::Error| err.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).err().is_some_and(refused) {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    let inode = fs::symlink_metadata(path)?.ino();
    Ok(Listener::Unix { listener, path: path.to_path_buf(), inode })
}

#[derive(Debug)]
enum Either {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection. Reading and writing fail once its time is over.
#[derive(Debug)]
pub(super) struct Stream {
    kind: Either,
    until: Instant,
}

impl Stream {
    /// Gives it so much time from now on.
    pub(super) fn limit(&mut self, patience: Duration) {
        self.until = Instant::now() + patience;
    }

    /// Lets the other side read the rest: a socket that is closed with unread bytes is reset, and
    /// what was sent is lost.
    pub(super) fn finish(mut self) -> io::Result<()> {
        match &self.kind {
            Either::Tcp(stream) => stream.shutdown(Shutdown::Write)?,
            Either::Unix(stream) => stream.shutdown(Shutdown::Write)?,
        }
        let mut rest = [0; 1024];
        let mut left = 64;
        while left > 0 && self.read(&mut rest)? > 0 {
            left -= 1;
        }
        Ok(())
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.left()?;
        match &mut self.kind {
            Either::Tcp(stream) => {
                stream.set_read_timeout(left)?;
                stream.read(buf)
            }
            Either::Unix(stream) => {
                stream.set_read_timeout(left)?;
                stream.read(buf)
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let left = self.left()?;
        match &mut self.kind {
            Either::Tcp(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(buf)
            }
            Either::Unix(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(buf)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
