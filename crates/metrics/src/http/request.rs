//! Requests and the heads of answers, as far as this server needs HTTP/1.1 (RFC 9112).

use std::borrow::Cow;
use std::io::{self, Read};

/// The head of a request is at most so long, in bytes.
const MOST: usize = 8 << 10;

/// A request that was understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Asked {
    /// Without what stands behind a `?`.
    pub(super) path: String,
    pub(super) is_head: bool,
    pub(super) wants_openmetrics: bool,
}

/// What is sent back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) media: &'static str,
    pub(super) body: Body,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    Text(Cow<'static, str>),
    OpenMetrics,
    Plain,
}

impl Answer {
    pub(super) fn text(status: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, media: "text/plain; charset=utf-8", body: Body::Text(text.into()) }
    }

    /// The status line and the fields.
    pub(super) fn head(&self, len: usize) -> String {
        let Self { status, media, .. } = self;
        let reason = match status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            505 => "HTTP Version Not Supported",
            _ => "Service Unavailable",
        };
        let allow = if *status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {media}\r\nContent-Length: {len}\r\n\
             {allow}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
    }
}

/// Reads the head of a request. The inner error is what to answer to one that was not understood.
pub(super) fn read(stream: &mut impl Read) -> io::Result<Result<Asked, Answer>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !has_end(&head) {
        if head.len() >= MOST {
            return Ok(Err(Answer::text(431, "the request is too long\n")));
        }
        match stream.read(&mut part) {
            Ok(0) if head.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(0) => return Ok(Err(Answer::text(400, "the request has no end\n"))),
            Ok(n) => head.extend_from_slice(part.get(..n).unwrap_or_default()),
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    Ok(parse(&head))
}

fn has_end(head: &[u8]) -> bool {
    head.windows(4).any(|four| four == b"\r\n\r\n") || head.windows(2).any(|two| two == b"\n\n")
}

/// Understands the head of a request.
pub(super) fn parse(head: &[u8]) -> Result<Asked, Answer> {
    let bad = |why| Err(Answer::text(400, why));
    let Ok(text) = std::str::from_utf8(head) else { return bad("the request is no text\n") };
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return bad("the first line is not METHOD PATH VERSION\n");
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Answer::text(505, "HTTP/1.1 is spoken here\n"));
    }
    if !matches!(method, "GET" | "HEAD") {
        return Err(Answer::text(405, "only GET and HEAD\n"));
    }
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let mut wants_openmetrics = false;
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else {
            return bad("a field without a colon\n");
        };
        wants_openmetrics |= name.eq_ignore_ascii_case("accept") && accepts_openmetrics(value);
    }
    Ok(Asked { path, is_head: method == "HEAD", wants_openmetrics })
}

/// Whether a list of media types asks for OpenMetrics 1.0, or any version of it, and not only with
/// weight 0.
fn accepts_openmetrics(list: &str) -> bool {
    list.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_it = parts
            .next()
            .is_some_and(|media| media.eq_ignore_ascii_case("application/openmetrics-text"));
        is_it
            && parts.all(|part| match part.split_once('=') {
                Some((name, value)) if name.trim().eq_ignore_ascii_case("version") => {
                    value.trim().trim_matches('"').starts_with("1.")
                }
                Some((name, value)) if name.trim().eq_ignore_ascii_case("q") => {
                    value.trim().parse::<f32>().is_ok_and(|weight| weight > 0.0)
                }
                _ => true,
            })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(head: &str) -> u16 {
        parse(head.as_bytes()).err().map_or(200, |answer| answer.status)
    }

    #[test]
    fn requests_are_understood_or_refused_with_a_status() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
            ("HEAD / HTTP/1.0\r\n\r\n", 200),
            ("GET /metrics\r\n\r\n", 400),
            ("GET  /metrics HTTP/1.1\r\n\r\n", 400),
            ("GET /metrics HTTP/2\r\n\r\n", 505),
            ("POST /metrics HTTP/1.1\r\n\r\n", 405),
            ("GET /metrics HTTP/1.1\r\nnonsense\r\n\r\n", 400),
            ("\r\n\r\n", 400),
        ] {
            assert_eq!(status(head), expected, "{head:?}");
        }
        let asked = parse(b"GET /metrics?name=x HTTP/1.1\n\n").unwrap();
        assert_eq!((asked.path.as_str(), asked.is_head), ("/metrics", false));
    }

    #[test]
    fn the_format_is_what_the_reader_accepts() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/plain;version=0.0.4", false),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", true),
            ("application/openmetrics-text;version=0.0.1;q=0.5,text/plain", false),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,text/plain;q=0.3,*/*;q=0.1",
                true,
            ),
            ("application/openmetrics-text;q=0", false),
        ] {
            assert_eq!(accepts_openmetrics(accept), expected, "{accept}");
        }
    }

    #[test]
    fn long_and_broken_requests_end() {
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(2 * MOST));
        let refused = read(&mut long.as_bytes()).unwrap().unwrap_err();
        assert_eq!(refused.status, 431);
        assert_eq!(read(&mut &b"GET /"[..]).unwrap().unwrap_err().status, 400);
        assert!(read(&mut &b""[..]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let answer = read(&mut bytes.as_slice());
            if let Ok(Err(refused)) = answer {
                prop_assert!(refused.status >= 400);
            }
        }
    }
}
