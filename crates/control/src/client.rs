//! The side that asks. Every call waits for its answer.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::NAME;
use crate::error::{CallError, Refusal};
use crate::frame::{FrameError, Frames, write_frame};
use crate::message::{Call, Reply, object};

/// The largest reply that is read. A snapshot of many contexts is larger than any call.
const MOST_REPLY_BYTES: usize = 256 << 20;

/// A connection to an agent.
#[derive(Debug)]
pub struct Client {
    frames: Frames<UnixStream>,
}

impl Client {
    /// Connects to the agent that listens at `path`.
    ///
    /// # Errors
    ///
    /// If nobody listens there, or the path may not be used.
    pub fn connect(path: &Path) -> Result<Self, CallError> {
        let stream = UnixStream::connect(path).map_err(|err| CallError::connect(path, &err))?;
        Ok(Self { frames: Frames::new(stream, MOST_REPLY_BYTES) })
    }

    /// How long to wait for a reply; none: without end.
    ///
    /// # Errors
    ///
    /// If the socket refuses it.
    pub fn set_patience(&self, patience: Option<Duration>) -> std::io::Result<()> {
        self.frames.input().set_read_timeout(patience)
    }

    /// Calls a method of the interface, and waits for its reply.
    ///
    /// # Errors
    ///
    /// If the agent refuses, or gives no answer.
    pub fn call<T: for<'a> Deserialize<'a>>(
        &mut self,
        method: &str,
        arguments: &impl Serialize,
    ) -> Result<T, CallError> {
        self.send(method, arguments, false)?;
        self.receive()
    }

    /// Calls a method that replies several times. [`Self::receive`] returns the replies.
    ///
    /// # Errors
    ///
    /// If the agent cannot be told.
    pub fn call_more(&mut self, method: &str, arguments: &impl Serialize) -> Result<(), CallError> {
        self.send(method, arguments, true)
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    ///
    /// If the agent refuses, or gives no answer.
    pub fn receive<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T, CallError> {
        let late = || CallError::lost("nothing came in time");
        self.receive_within().and_then(|reply| reply.ok_or_else(late))
    }

    /// Waits for the next reply; none if no whole one came within the patience. It may be asked for
    /// again then.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`].
    pub fn receive_within<T: for<'a> Deserialize<'a>>(&mut self) -> Result<Option<T>, CallError> {
        let message = match self.frames.next_frame() {
            Ok(Some(message)) => message,
            Ok(None) => return Err(CallError::lost("it hung up")),
            Err(FrameError::Io(err))
                if matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                return Ok(None);
            }
            Err(err) => return Err(CallError::lost(err)),
        };
        let reply: Reply = serde_json::from_slice(message).map_err(CallError::lost)?;
        if let Some(error) = &reply.error {
            return Err(CallError::Refused(Refusal::of_reply(error, &reply)));
        }
        serde_json::from_value(Value::Object(reply.parameters)).map(Some).map_err(CallError::lost)
    }

    fn send(
        &mut self,
        method: &str,
        arguments: &impl Serialize,
        more: bool,
    ) -> Result<(), CallError> {
        let method = format!("{NAME}.{method}");
        let call = Call { method, parameters: object(arguments), more, oneway: false };
        let message = serde_json::to_string(&call).map_err(CallError::lost)?;
        let mut stream = self.frames.input();
        match write_frame(&mut stream, &message) {
            // An agent that refuses a caller says so before it hangs up. That can be read still.
            Err(err) if err.kind() == ErrorKind::BrokenPipe => Ok(()),
            sent => sent.and_then(|()| stream.flush()).map_err(CallError::lost),
        }
    }
}
