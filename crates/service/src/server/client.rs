//! One client: reads its calls and answers them, one by one.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use isotherm_control::error::{Kind, Refusal};
use isotherm_control::frame::{FrameError, Frames, write_frame};
use isotherm_control::message::{Call, Reply};
use isotherm_control::{MOST_BYTES, MOST_READER_BYTES, service};
use tracing::debug;

use super::{follow, methods};
use crate::access::{Peer, Right};
use crate::shared::Shared;

/// A client that takes nothing for so long is hung up on.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Serves a client until it hangs up, or says something that cannot be understood.
pub(super) fn serve(stream: &UnixStream, peer: &Peer, right: Right, shared: &Shared) {
    stream.set_write_timeout(Some(WRITE_PATIENCE)).ok();
    let most = if right == Right::Act { MOST_BYTES } else { MOST_READER_BYTES };
    let mut frames = Frames::new(stream, most);
    loop {
        let call = match frames.next_frame() {
            Ok(Some(message)) => Call::parse(message),
            Ok(None) => return,
            Err(FrameError::TooLarge(most)) => {
                debug!(uid = peer.uid, pid = peer.pid, "a message of more than {most} bytes");
                let why = format!("it has more than {most} bytes");
                let bad = Refusal::new(Kind::BadMessage, "to read a message", why, "");
                say(stream, &bad.reply()).ok();
                return;
            }
            Err(FrameError::Io(err)) if err.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        match call {
            Ok(call) => {
                if answer(stream, call, peer, right, shared).is_err() {
                    return;
                }
            }
            Err(why) => {
                // The NUL byte says where the next message begins, but who sends such a thing
                // talks another protocol.
                let hint = "varlink: a JSON object, and a NUL byte after it";
                let bad = Refusal::new(Kind::BadMessage, "to read a message", why, hint);
                say(stream, &bad.reply()).ok();
                return;
            }
        }
    }
}

/// Answers a call. An error means that the client cannot be reached any more.
fn answer(
    stream: &UnixStream,
    call: Call,
    peer: &Peer,
    right: Right,
    shared: &Shared,
) -> io::Result<()> {
    let oneway = call.oneway;
    if let Some(reply) = service::answer(&call, &shared.settings.version) {
        return if oneway { Ok(()) } else { say(stream, &reply) };
    }
    if call.split().1 == "Follow" {
        return follow::follow(stream, call, shared);
    }
    let reply = methods::answer(call, peer, right, shared);
    if oneway { Ok(()) } else { say(stream, &reply) }
}

pub(super) fn say(stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    write_frame(&mut &*stream, &reply.text())
}
