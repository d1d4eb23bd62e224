//! What clients of the agent send: frames of a stream, and calls in them.

use std::io::{self, Read};

use isotherm_control::frame::Frames;
use isotherm_control::message::Call;
use isotherm_control::{service, types};

/// The most bytes of a message.
const MOST: usize = 4096;

/// Gives a few bytes at a time, as a socket may.
struct Drip<'a>(&'a [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(self.0.len()).min(into.len());
        into.get_mut(..n).unwrap_or_default().copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// The messages of a stream are what stands between its NUL bytes, however it arrives. A call that
/// is read means the same when it is written and read again, and what describes the service
/// answers every call or leaves it to the agent.
pub(crate) fn control(data: &[u8]) {
    let step = usize::from(data.first().copied().unwrap_or(0)) * 7 + 1;
    let mut frames = Frames::new(Drip(data, step), MOST);
    let mut left = data;
    // Any failure is the end of the stream: nothing that is cut short or too long is a message.
    while let Ok(Some(message)) = frames.next_frame() {
        assert!(message.len() <= MOST, "a message that is too long");
        let (expected, rest) = left.split_at(message.len());
        assert_eq!(message, expected, "a message that nobody sent");
        left = rest.strip_prefix(&[0]).unwrap_or_else(|| panic!("a message without its end"));
        call(message);
    }
}

fn call(message: &[u8]) {
    let call = match Call::parse(message) {
        Ok(call) => call,
        Err(why) => return assert!(!why.is_empty(), "a refusal says why"),
    };
    let written = serde_json::to_vec(&call).unwrap_or_else(|e| panic!("not written: {e}"));
    let again = Call::parse(&written).unwrap_or_else(|e| panic!("what was written: {e}"));
    assert_eq!(again, call);
    let (interface, method) = call.split();
    let is_for_agent = interface == isotherm_control::NAME;
    match service::answer(&call, "1.0") {
        Some(reply) => {
            assert!(!is_for_agent, "the agent's own method {method} was answered");
            assert!(!reply.text().contains('\0'), "a reply has to end where it ends");
        }
        None => assert!(is_for_agent, "{interface} was left to the agent"),
    }
    // Arguments of one method are no arguments of another, but whatever is taken is plain.
    let taken = [
        call.clone().arguments::<types::NoArguments>().is_ok(),
        call.clone().arguments::<types::OfPolicy>().is_ok(),
        call.clone().arguments::<types::OfAny>().is_ok(),
        call.clone().arguments::<types::Commit>().is_ok(),
        call.clone().arguments::<types::Which>().is_ok(),
        call.clone().arguments::<types::WhichCgroups>().is_ok(),
        call.clone().arguments::<types::Follow>().is_ok(),
    ];
    assert!(!taken[0] || call.parameters.is_empty(), "arguments where there are none");
    assert!(!taken[1] || call.parameters.len() == 1, "an argument that nobody knows");
}
