//! The text protocol of memcached: `set` and `get`.

use anyhow::{Context, bail};

use super::connection::{Protocol, Reply, Store, key_name, line};

/// What follows the bytes of a value.
const TAIL: &[u8] = b"\r\nEND\r\n";

/// See there.
#[derive(Debug)]
pub(crate) struct Memcached;

impl Protocol for Memcached {
    fn get(key: u32, request: &mut Vec<u8>) {
        request.extend_from_slice(b"get ");
        request.extend_from_slice(&key_name(key));
        request.extend_from_slice(b"\r\n");
    }

    fn reply(text: &[u8]) -> anyhow::Result<Option<Reply>> {
        let Some((line, begin)) = line(text) else { return Ok(None) };
        let mut words = line.split(' ');
        match words.next() {
            Some("STORED") => Ok(Some(Reply { body: begin..begin, end: begin })),
            Some("END") => bail!("a key is lost: the server has evicted it"),
            Some("VALUE") => {
                let len = words.nth(2).and_then(|n| n.parse::<usize>().ok());
                let end = begin + len.with_context(|| format!("no length in `{line}`"))?;
                let Some(tail) = text.get(end..end + TAIL.len()) else { return Ok(None) };
                anyhow::ensure!(tail == TAIL, "more than one value in a reply");
                Ok(Some(Reply { body: begin..end, end: end + TAIL.len() }))
            }
            _ => bail!("the server says `{line}`"),
        }
    }
}

impl Store for Memcached {
    fn set(key: u32, value: &[u8], request: &mut Vec<u8>) {
        request.extend_from_slice(b"set ");
        request.extend_from_slice(&key_name(key));
        // Flags and time of expiry: none.
        request.extend_from_slice(format!(" 0 0 {}\r\n", value.len()).as_bytes());
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_cut_out() {
        let value = "VALUE k00000001 0 3\r\nabc\r\nEND\r\n";
        for (text, expected) in [
            ("STORED\r\nSTORED\r\n", Some((8..8, 8))),
            (value, Some((21..24, 31))),
            (&value[..30], None),
            (&value[..10], None),
            ("", None),
        ] {
            let got = Memcached::reply(text.as_bytes()).unwrap().map(|r| (r.body, r.end));
            assert_eq!(got, expected, "{text:?}");
        }
        for text in ["END\r\n", "SERVER_ERROR out of memory\r\n", "VALUE k 0\r\n"] {
            assert!(Memcached::reply(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn requests_are_as_memcached_wants_them() {
        let mut request = Vec::new();
        Memcached::get(7, &mut request);
        Memcached::set(8, b"ab", &mut request);
        let expected = "get k00000007\r\nset k00000008 0 0 2\r\nab\r\n";
        assert_eq!(String::from_utf8(request).unwrap(), expected);
    }
}
