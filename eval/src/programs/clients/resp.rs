//! The protocol of Redis: SET and GET.

use anyhow::{Context, bail};

use super::connection::{Protocol, Reply, Store, key_name, line};

/// See there.
#[derive(Debug)]
pub(crate) struct Resp;

impl Protocol for Resp {
    fn get(key: u32, request: &mut Vec<u8>) {
        request.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$9\r\n");
        request.extend_from_slice(&key_name(key));
        request.extend_from_slice(b"\r\n");
    }

    fn reply(text: &[u8]) -> anyhow::Result<Option<Reply>> {
        let Some((line, begin)) = line(text) else { return Ok(None) };
        match line.split_at_checked(1) {
            Some(("+" | ":", _)) => Ok(Some(Reply { body: begin..begin, end: begin })),
            Some(("$", "-1")) => bail!("a key is lost"),
            Some(("$", len)) => {
                let end = begin + len.parse::<usize>().context("a length")?;
                Ok((text.len() >= end + 2).then_some(Reply { body: begin..end, end: end + 2 }))
            }
            _ => bail!("the server says `{line}`"),
        }
    }
}

impl Store for Resp {
    fn set(key: u32, value: &[u8], request: &mut Vec<u8>) {
        request.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$9\r\n");
        request.extend_from_slice(&key_name(key));
        request.extend_from_slice(format!("\r\n${}\r\n", value.len()).as_bytes());
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_cut_out() {
        for (text, expected) in [
            ("+OK\r\n+OK\r\n", Some((5..5, 5))),
            ("$3\r\nabc\r\n", Some((4..7, 9))),
            ("$3\r\nabc\r", None),
            ("$3\r\nabc\r\n+", Some((4..7, 9))),
            ("$3", None),
            ("", None),
            (":7\r\n", Some((4..4, 4))),
        ] {
            let got = Resp::reply(text.as_bytes()).unwrap().map(|r| (r.body, r.end));
            assert_eq!(got, expected, "{text:?}");
        }
        for text in ["-ERR no\r\n", "$-1\r\n", "$x\r\n", "\n"] {
            assert!(Resp::reply(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn requests_are_as_redis_wants_them() {
        let mut request = Vec::new();
        Resp::get(7, &mut request);
        Resp::set(8, b"ab", &mut request);
        let expected = "*2\r\n$3\r\nGET\r\n$9\r\nk00000007\r\n\
                        *3\r\n$3\r\nSET\r\n$9\r\nk00000008\r\n$2\r\nab\r\n";
        assert_eq!(String::from_utf8(request).unwrap(), expected);
    }
}
