//! Internal part of rdt: helpers for the tests of its programs. Their folder and processes, a
//! private sshd, JSON against its schema, Prometheus metrics.
//!
//! Apart from `rdt-testing`, because `serde_json` makes type inference fail in the tests of
//! `rdt-transport`.
#![forbid(unsafe_code)]
#![allow(clippy::missing_panics_doc, clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod contract;
pub mod home;
pub mod programs;

use std::io::{PipeWriter, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::programs::WAIT_LIMIT;

/// Returns the writing end of a pipe whose reader has gone.
pub fn closed_pipe() -> PipeWriter {
    std::io::pipe().expect("a pipe").1
}

/// Returns the metrics of a program, as text.
pub fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("a program that listens");
    stream.set_read_timeout(Some(WAIT_LIMIT)).expect("a timeout");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: rdt\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(body.ends_with('\n'), "{body}");
    body.to_owned()
}

/// Returns the sum of the values of a metric whose line begins with `name`; 0 if there is none.
pub fn value(metrics: &str, name: &str) -> f64 {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let values = lines.filter_map(|rest| rest.split(' ').next_back()?.parse::<f64>().ok());
    values.sum()
}

/// Scrapes until the sum of `name` is `wanted`, because programs publish at an interval.
pub fn scrape_until(address: SocketAddr, name: &str, wanted: f64) -> String {
    let mut last = String::new();
    for _ in 0..600 {
        last = scrape(address);
        if (value(&last, name) - wanted).abs() < f64::EPSILON {
            return last;
        }
        #[expect(clippy::disallowed_methods, reason = "another process gives no sign")]
        std::thread::sleep(WAIT_LIMIT / 600);
    }
    panic!("{name} is not {wanted}: {last}");
}

/// Returns the names of the metrics, as scraped.
pub fn names(metrics: &str) -> Vec<&str> {
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let mut names: Vec<_> = lines.filter_map(|line| line.split(['{', ' ']).next()).collect();
    names.dedup();
    names
}
