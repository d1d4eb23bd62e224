//! HTTP/1.1 as far as a client needs it that keeps its connection: GET of `/KEY`.
//!
//! It is no [`Store`](super::connection::Store): a server that speaks this makes its values, or
//! finds them in files. Replies in chunks are refused; no server here sends them.

use anyhow::{Context, bail};

use super::connection::{Protocol, Reply, key_name};

const END: &[u8] = b"\r\n\r\n";

/// See there.
#[derive(Debug)]
pub(crate) struct Http;

impl Protocol for Http {
    fn get(key: u32, request: &mut Vec<u8>) {
        request.extend_from_slice(b"GET /");
        request.extend_from_slice(&key_name(key));
        request.extend_from_slice(b" HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }

    fn reply(text: &[u8]) -> anyhow::Result<Option<Reply>> {
        let Some(len) = text.windows(END.len()).position(|w| w == END) else { return Ok(None) };
        let head = String::from_utf8_lossy(&text[..len]);
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            bail!("the server says `{status}`");
        }
        let named = |l: &str| {
            let (name, value) = l.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        };
        let body = lines.find_map(named).context("a reply without Content-Length")??;
        let begin = len + END.len();
        let end = begin + body;
        Ok((text.len() >= end).then_some(Reply { body: begin..end, end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_cut_out() {
        let text = b"HTTP/1.1 200 OK\r\nDate: now\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1";
        let got = Http::reply(text).unwrap().unwrap();
        assert_eq!((&text[got.body], &text[got.end..]), (&b"abc"[..], &b"HTTP/1.1"[..]));
        assert!(Http::reply(&text[..50]).unwrap().is_none());
        assert!(Http::reply(&text[..20]).unwrap().is_none());
        for text in [
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert!(Http::reply(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
