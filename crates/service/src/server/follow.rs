//! `Follow`: sends what happens until the client hangs up.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use isotherm_control::error::{Kind, Refusal};
use isotherm_control::frame::write_frame;
use isotherm_control::message::Call;
use isotherm_control::{service, types};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::client::say;
use crate::hub::{LEAST, Wish};
use crate::policy::told;
use crate::shared::Shared;

/// The time between two snapshots, if none was asked for.
const USUAL: Duration = Duration::from_secs(1);
/// How often it is looked whether a client has hung up while nothing happens.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends what happens. Returns when the client is to be asked for its next call.
///
/// # Errors
///
/// If the client cannot be reached any more.
pub(super) fn follow(stream: &UnixStream, call: Call, shared: &Shared) -> io::Result<()> {
    let more = call.more && !call.oneway;
    let wanted: types::Follow = match call.arguments() {
        Ok(wanted) => wanted,
        Err(why) => return say(stream, &service::invalid_parameter(&why)),
    };
    if !more {
        let what = "to follow what happens";
        let why = "a method with many replies has to be called with `more`";
        let refusal = Refusal::new(Kind::WrongState, what, why, "`varlinkctl call --more`");
        return say(stream, &refusal.reply());
    }
    if let Some(policy) = &wanted.policy
        && let Err(refusal) = shared.policies.text(policy)
    {
        return say(stream, &refusal.reply());
    }
    let every = match wanted.every_ms {
        None => USUAL,
        Some(0) => Duration::ZERO,
        Some(ms) => Duration::from_millis(ms).max(LEAST),
    };
    let (snapshots, events, accounts) = (wanted.snapshots, wanted.events, wanted.accounts);
    let all = snapshots.is_none() && events.is_none() && accounts.is_none();
    let follower = shared.hub.follow(Wish {
        snapshots: snapshots.unwrap_or(all),
        events: events.unwrap_or(all),
        accounts: accounts.unwrap_or(all),
        policy: wanted.policy,
        every,
    });
    loop {
        let next = follower.next(PATIENCE);
        if next.lost > 0 {
            write_frame(&mut &*stream, &told::lost(next.lost))?;
        }
        match next.message {
            Some(message) => write_frame(&mut &*stream, &message)?,
            None if shared.clients.is_stopping() || has_hung_up(stream) => {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            None => {}
        }
    }
}

/// Whether the other end is closed. A client says nothing while it follows, so anything that can
/// be read is the end, or a call that came too early; both end the stream.
fn has_hung_up(stream: &UnixStream) -> bool {
    wait_for_a_word(stream, 0)
}

/// Waits until a peer has said something or hung up, at most for so many seconds. Returns whether
/// it has. A program that is refused before it has asked would not hear why.
pub(super) fn wait_for_a_word(stream: &UnixStream, seconds: i64) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::IN | PollFlags::RDHUP)];
    let patience = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut fds, Some(&patience)).is_ok_and(|ready| ready > 0)
}
