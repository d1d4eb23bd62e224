//! Messages in a stream of bytes: each ends with a NUL byte.

use std::io::{self, Read, Write};

/// How many bytes are read at once.
const CHUNK: usize = 16 << 10;

/// Reads messages from a stream.
#[derive(Debug)]
pub struct Frames<R> {
    input: R,
    /// Bytes that were read and not returned. Never more than `most` and a chunk.
    buffer: Vec<u8>,
    /// Bytes at the beginning of the buffer that were returned by the last call.
    taken: usize,
    most: usize,
}

/// Why there is no next message.
#[derive(Debug)]
#[non_exhaustive]
pub enum FrameError {
    /// The stream failed. With a time limit for reading: nothing came within it.
    Io(io::Error),
    /// The message is larger than this many bytes. What follows cannot be understood any more, so
    /// the connection is to be closed.
    TooLarge(usize),
    /// The stream ended within a message.
    CutShort,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(err) => err.fmt(f),
            Self::TooLarge(most) => write!(f, "a message of more than {most} bytes"),
            Self::CutShort => f.write_str("the stream ended within a message"),
        }
    }
}

impl std::error::Error for FrameError {}

impl<R: Read> Frames<R> {
    /// Reads messages of at most `most` bytes from `input`.
    pub const fn new(input: R, most: usize) -> Self {
        Self { input, buffer: Vec::new(), taken: 0, most }
    }

    /// The stream.
    pub const fn input(&self) -> &R {
        &self.input
    }

    /// The next message, without its NUL byte; none at the end of the stream.
    ///
    /// # Errors
    ///
    /// If the stream fails, or the message is too large. After [`FrameError::Io`] another call goes
    /// on where this one was interrupted.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let mut searched = 0;
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|byte| *byte == 0) {
                let end = searched + at;
                if end > self.most {
                    return Err(FrameError::TooLarge(self.most));
                }
                self.taken = end + 1;
                return Ok(Some(&self.buffer[..end]));
            }
            searched = self.buffer.len();
            if searched > self.most {
                return Err(FrameError::TooLarge(self.most));
            }
            if self.fill().map_err(FrameError::Io)? == 0 {
                return match searched {
                    0 => Ok(None),
                    _ => Err(FrameError::CutShort),
                };
            }
        }
    }

    /// Reads once, and returns how many bytes came.
    fn fill(&mut self) -> io::Result<usize> {
        let before = self.buffer.len();
        // A buffer that once held a large message is given back when nothing of it is left.
        if before == 0 && self.buffer.capacity() > 2 * CHUNK {
            self.buffer = Vec::new();
        }
        self.buffer.resize(before + CHUNK, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[before..]) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }
}

/// Writes a message, and the NUL byte after it, in one call.
///
/// # Errors
///
/// If the stream fails.
pub fn write_frame(out: &mut impl Write, message: &str) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(message.len() + 1);
    bytes.extend_from_slice(message.as_bytes());
    bytes.push(0);
    out.write_all(&bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives a few bytes at a time, as a socket may.
    struct Drip(Vec<u8>, usize);

    impl Read for Drip {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in(
            messages in prop::collection::vec("[a-z{}]{0,50}", 0..20),
            step in 1_usize..200,
        ) {
            let mut bytes = Vec::new();
            for message in &messages {
                write_frame(&mut bytes, message).unwrap();
            }
            let mut frames = Frames::new(Drip(bytes, step), 50);
            for message in &messages {
                prop_assert_eq!(frames.next_frame().unwrap(), Some(message.as_bytes()));
            }
            prop_assert!(frames.next_frame().unwrap().is_none());
        }
    }

    #[test]
    fn a_message_that_is_too_large_needs_no_room() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                into.fill(b'x');
                Ok(into.len())
            }
        }
        let mut frames = Frames::new(Endless, 1000);
        assert!(matches!(frames.next_frame(), Err(FrameError::TooLarge(1000))));
        assert!(frames.buffer.capacity() <= 2 * CHUNK, "{}", frames.buffer.capacity());
        // One byte too many, though all of it came at once.
        let exact = |n: usize| [vec![b'x'; n], vec![0]].concat();
        assert!(Frames::new(&exact(1000)[..], 1000).next_frame().unwrap().is_some());
        let bytes = exact(1001);
        let mut frames = Frames::new(&bytes[..], 1000);
        assert!(matches!(frames.next_frame(), Err(FrameError::TooLarge(1000))));
    }

    #[test]
    fn the_end_within_a_message_is_told() {
        assert!(matches!(Frames::new(&b"abc"[..], 9).next_frame(), Err(FrameError::CutShort)));
        assert!(matches!(Frames::new(&b""[..], 9).next_frame(), Ok(None)));
    }
}
