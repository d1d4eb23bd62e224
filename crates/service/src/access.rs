//! Who may do what on the control socket.
//!
//! The kernel says who is at the other end (`SO_PEERCRED`, `SO_PEERGROUPS`), as of the moment of
//! connecting. Root may do everything. Members of one group may read, and members of another may
//! act. The groups are looked up in `/etc/group`; groups that come from elsewhere (LDAP) are given
//! by their number.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use isotherm_sys::peer;
use rustix::net::sockopt::socket_peercred;

/// What a peer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Nothing.
    None,
    /// Ask, and follow what happens.
    Read,
    /// Start, stop and change policies, too.
    Act,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process, as of the moment of connecting.
    pub pid: i32,
    /// Its group and its supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Asks the kernel.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn of(stream: &UnixStream) -> std::io::Result<Self> {
        let cred = socket_peercred(stream)?;
        // A kernel before 4.13 knows only the first group.
        let mut groups = peer::groups(stream.as_fd()).unwrap_or_default();
        groups.push(cred.gid.as_raw());
        Ok(Self { uid: cred.uid.as_raw(), pid: cred.pid.as_raw_nonzero().get(), groups })
    }
}

/// The groups that have rights. A group that the machine does not have gives nobody a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    readers: Option<u32>,
    actors: Option<u32>,
}

impl Access {
    /// Looks up the groups by their names (or numbers) in a file like `/etc/group`.
    #[must_use]
    pub fn read(groups: &Path, readers: &str, actors: Option<&str>) -> Self {
        let text = std::fs::read_to_string(groups).unwrap_or_default();
        Self {
            readers: number_of(&text, readers),
            actors: actors.and_then(|g| number_of(&text, g)),
        }
    }

    /// The number of the group whose members may read.
    #[must_use]
    pub const fn readers(&self) -> Option<u32> {
        self.readers
    }

    /// What this peer may do.
    #[must_use]
    pub fn of(&self, peer: &Peer) -> Right {
        let is_in = |group: Option<u32>| group.is_some_and(|gid| peer.groups.contains(&gid));
        if peer.uid == 0 || is_in(self.actors) {
            Right::Act
        } else if is_in(self.readers) {
            Right::Read
        } else {
            Right::None
        }
    }
}

/// The number of a group: `name:password:number:members`.
fn number_of(text: &str, name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_the_groups() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("group");
        std::fs::write(&file, "root:x:0:\nisotherm:x:71:a,b\nops:x:72:\nbad\nworse:x:y:\n")
            .unwrap();
        let peer = |uid, groups: &[u32]| Peer { uid, pid: 1, groups: groups.to_vec() };
        for (readers, actors, peer, right) in [
            ("isotherm", None, peer(0, &[0]), Right::Act),
            ("isotherm", None, peer(7, &[7]), Right::None),
            ("isotherm", None, peer(7, &[7, 71]), Right::Read),
            ("isotherm", None, peer(7, &[72]), Right::None),
            ("isotherm", Some("ops"), peer(7, &[72]), Right::Act),
            ("isotherm", Some("ops"), peer(7, &[71]), Right::Read),
            // Group 0 is not root.
            ("isotherm", Some("ops"), peer(7, &[0]), Right::None),
            // Groups that do not exist give no right, above all not that of group 0.
            ("nobody-has-this", Some("nor-this"), peer(7, &[0, 71, 72]), Right::None),
            ("worse", Some("bad"), peer(7, &[0]), Right::None),
            ("71", Some("9999"), peer(7, &[9999]), Right::Act),
        ] {
            let access = Access::read(&file, readers, actors);
            assert_eq!(access.of(&peer), right, "{readers} {actors:?} {peer:?}");
        }
        let none = Access::read(&dir.path().join("missing"), "isotherm", None);
        assert_eq!(none.of(&peer(7, &[71])), Right::None);
    }

    #[test]
    fn the_kernel_says_who_we_are() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(u32::try_from(peer.pid).unwrap(), std::process::id());
    }
}
