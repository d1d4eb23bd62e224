//! Measures a scrape: so many cgroups, from the request to the last byte, over a loopback port.
//!
//! `cargo run --release -p isotherm-metrics --example scrape -- 500`
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "an example that measures")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use isotherm_metrics::http::{Address, Server};

#[path = "../tests/exposition/made_up.rs"]
mod made_up;

fn main() {
    let cgroups = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(500);
    let server = Server::start(&Address::parse("127.0.0.1:0", false).unwrap()).unwrap();
    server.publish(Arc::new(made_up::reading(cgroups)), true);
    let Address::Tcp(at) = server.address() else { return };
    let mut times = Vec::new();
    let mut len = 0;
    for _ in 0..50 {
        let began = Instant::now();
        let mut stream = TcpStream::connect(at).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        len = stream.read_to_string(&mut text).unwrap();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    println!(
        "{cgroups} cgroups, {} KiB: median {:.2} ms, longest {:.2} ms",
        len / 1024,
        times[times.len() / 2].as_secs_f64() * 1e3,
        times[times.len() - 1].as_secs_f64() * 1e3
    );
}
