//! The server as its readers see it.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isotherm_metrics::http::{Address, ServeKind, Server};
use isotherm_metrics::{Build, Reading};

fn start() -> Server {
    Server::start(&Address::parse("127.0.0.1:0", false).unwrap()).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let Address::Tcp(at) = server.address() else { panic!("{:?}", server.address()) };
    TcpStream::connect(at).unwrap()
}

/// The head and the body of an answer.
fn ask(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn get(server: &Server, path: &str, accept: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n");
    ask(connect(server), &request)
}

fn reading() -> Arc<Reading> {
    let build = Build { version: "1.2.3".into(), commit: "abc".into() };
    Arc::new(Reading { build, ..Reading::default() })
}

#[test]
fn metrics_come_in_the_format_that_is_asked_for() {
    let server = start();
    server.publish(reading(), true);
    let (head, body) = get(&server, "/metrics", "application/openmetrics-text; version=1.0.0");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    assert!(body.contains("isotherm_build_info{version=\"1.2.3\",commit=\"abc\"} 1\n"), "{body}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    let (head, body) = get(&server, "/metrics", "*/*");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(body.contains("# TYPE isotherm_build_info gauge\n"), "{body}");
    assert!(body.contains("# TYPE isotherm_overhead_cpu_seconds_total counter\n"), "{body}");
    assert!(!body.contains("# EOF") && !body.contains("# UNIT"), "{body}");
}

#[test]
fn health_is_at_once_and_readiness_when_there_are_numbers() {
    let server = start();
    let status = |path| get(&server, path, "*/*").0.split(' ').nth(1).unwrap().to_owned();
    assert_eq!([status("/healthz"), status("/readyz"), status("/x")], ["200", "503", "404"]);
    server.publish(reading(), true);
    assert_eq!(status("/readyz?verbose"), "200");
    server.lacks(Some("policy `p` does not run: why".to_owned()));
    let (head, body) = get(&server, "/readyz", "*/*");
    assert!(head.starts_with("HTTP/1.1 503") && body.contains("policy `p`"), "{head} {body}");
    assert_eq!([status("/healthz"), status("/metrics")], ["200", "200"]);
    server.lacks(None);
    assert_eq!(status("/readyz"), "200");
    let (head, body) = ask(connect(&server), "HEAD /healthz HTTP/1.1\r\n\r\n");
    assert!(head.contains("Content-Length: 3") && body.is_empty(), "{head}");
    let (head, _) = ask(connect(&server), "DELETE /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 405") && head.contains("Allow: GET"), "{head}");
}

#[test]
fn connections_that_say_nothing_do_not_keep_others_out_for_long() {
    let server = start();
    server.publish(reading(), true);
    // More than there are places for; none of them says anything.
    let silent: Vec<TcpStream> = (0..40).map(|_| connect(&server)).collect();
    let mut answers = Vec::new();
    // Each silent one is given up after some seconds; then there is room again.
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let mut stream = connect(&server);
        let mut text = String::new();
        let asked = stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n");
        if asked.is_ok() && stream.read_to_string(&mut text).is_ok() && text.contains(" 200 ") {
            answers.push(text);
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(answers.len(), 1);
    drop(silent);
}

#[test]
fn a_request_without_end_is_refused() {
    let server = start();
    let mut stream = connect(&server);
    let mut text = String::new();
    // The server may answer and close before all of it is sent.
    stream.write_all(format!("GET /{}", "a".repeat(9 << 10)).as_bytes()).ok();
    stream.read_to_string(&mut text).ok();
    assert!(text.starts_with("HTTP/1.1 431"), "{text}");
}

#[test]
fn a_socket_is_served_replaced_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.sock");
    let address = Address::parse(path.to_str().unwrap(), false).unwrap();
    // Left by a program that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Server::start(&address).unwrap();
    let (head, _) = ask(UnixStream::connect(&path).unwrap(), "GET /healthz HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let second = Server::start(&address).unwrap_err();
    assert_eq!(second.kind(), ServeKind::InUse, "{second}");
    drop(server);
    assert!(!path.exists());
}
