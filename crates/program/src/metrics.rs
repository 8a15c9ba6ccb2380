//! Prometheus metrics over HTTP/1.1, in Prometheus' text format 0.0.4, which `promtool` and all
//! scrapers read.
//!
//! A thread answers one request at a time. It reads counters when it is asked, and nothing here is
//! called per packet.

use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rdt_udp::clock;

use crate::VERSION;
use crate::host_port::{HostPort, bind_address};

/// Time limit of a request, and of its answer, by which a silent client delays the next one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a connection could not be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Largest head of a request, bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 64;
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Option of the programs with metrics.
#[derive(Debug, Clone, clap::Args)]
pub struct MetricsArgs {
    /// Serve Prometheus metrics at http://ADDR:PORT/metrics, to everyone who reaches it; PORT alone
    /// is on the loopback interface, and 0 takes a free one
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,
}

/// Parses the address of `--metrics`.
fn address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => match text.parse::<HostPort>() {
            Ok(HostPort { host, port: Some(port) }) if !host.is_empty() => bind_address(text, port),
            _ => Err("write PORT or ADDR:PORT, as 9100 or 127.0.0.1:9100".to_owned()),
        },
    }
}

/// Name and value of a label. Neither has a character that must be escaped.
pub type Label = (&'static str, &'static str);

/// Metrics of one answer.
#[derive(Debug, Default)]
pub struct Samples(String);

impl Samples {
    /// Adds a counter; its name gets the suffix `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.counters(name, help, [([], value)]);
    }

    /// Adds counters of one name, told apart by their labels.
    pub fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], impl Display)>,
    ) {
        self.family(&format!("{name}_total"), help, "counter", values);
    }

    /// Adds a value that may fall.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauges(name, help, [([], value)]);
    }

    /// Adds values of one name that may fall.
    pub fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], impl Display)>,
    ) {
        self.family(name, help, "gauge", values);
    }

    fn family<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        values: impl IntoIterator<Item = ([Label; N], impl Display)>,
    ) {
        // A string takes everything.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let labels = labels.map(|(label, value)| format!("{label}=\"{value}\"")).join(",");
            let labels = if N == 0 { labels } else { format!("{{{labels}}}") };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

/// Serves the metrics that `read` adds, on a thread that runs until the program ends. Returns the
/// address. Fails if it is not available, or if the thread cannot start.
pub fn serve(address: SocketAddr, read: impl Fn(&mut Samples) + Send + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            if stream.is_err() {
                // Without descriptors, the next accept would fail at once, again and again.
                thread::park_timeout(ACCEPT_RETRY);
            }
            let answered = stream.and_then(|stream| answer(stream, &read));
            if let Err(error) = answered {
                tracing::debug!(%error, "a scrape of the metrics failed");
            }
        }
    })?;
    Ok(address)
}

/// Answers one request, and closes the connection.
fn answer(mut stream: TcpStream, read: &impl Fn(&mut Samples)) -> io::Result<()> {
    let deadline = clock::now() + REQUEST_TIMEOUT;
    let (status, mut body) = request(&mut stream, deadline)?;
    if status == OK {
        let mut samples = Samples::default();
        samples.gauges("rdt_build_info", "Version of the program", [([("version", VERSION)], 1)]);
        read(&mut samples);
        body = samples.0;
    }
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    stream.write_all((head + &body).as_bytes())
}

/// Status of the answer that has the metrics.
const OK: &str = "200 OK";
const BAD: &str = "400 Bad Request";

/// Reads the head of a request, and returns the status and the body of the answer, without metrics.
/// Fails if the head is not complete by `deadline`.
fn request(stream: &mut TcpStream, deadline: Instant) -> io::Result<(&'static str, String)> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while head.len() < MAX_HEAD_BYTES {
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&chunk[..read]);
        if let Some((status, body)) = parse(&head) {
            return Ok((status, body.to_owned()));
        }
    }
    Ok((BAD, String::new()))
}

/// Parses the head of a request; `None` if it is not complete.
fn parse(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some((BAD, "")),
        Ok(httparse::Status::Complete(_)) => {}
    }
    Some(match (request.method, request.path.unwrap_or_default().split('?').next()) {
        (Some("GET"), Some("/metrics")) => (OK, ""),
        (Some("GET"), _) => ("404 Not Found", "the metrics are at /metrics\n"),
        _ => ("405 Method Not Allowed", "only GET is answered\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the bytes of a request, and returns the answer.
    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn scrape_reads_current_values() {
        let samples = |samples: &mut Samples| {
            samples.counter("rdt_x_bytes", "Bytes", 7);
            let causes = ["a", "b"].map(|cause| ([("direction", "forward"), ("cause", cause)], 2));
            samples.counters("rdt_y", "By cause", causes);
            samples.gauge("rdt_z", "Share", 0.5);
        };
        let address = serve((Ipv4Addr::LOCALHOST, 0).into(), samples).unwrap();
        let answer = ask(address, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        let expected = format!(
            "# HELP rdt_build_info Version of the program\n\
             # TYPE rdt_build_info gauge\n\
             rdt_build_info{{version=\"{VERSION}\"}} 1\n\
             # HELP rdt_x_bytes_total Bytes\n\
             # TYPE rdt_x_bytes_total counter\n\
             rdt_x_bytes_total 7\n\
             # HELP rdt_y_total By cause\n\
             # TYPE rdt_y_total counter\n\
             rdt_y_total{{direction=\"forward\",cause=\"a\"}} 2\n\
             rdt_y_total{{direction=\"forward\",cause=\"b\"}} 2\n\
             # HELP rdt_z Share\n\
             # TYPE rdt_z gauge\n\
             rdt_z 0.5\n"
        );
        assert_eq!(body, expected);
    }

    #[test]
    fn other_requests_get_their_status() {
        let address = serve((Ipv4Addr::LOCALHOST, 0).into(), |_| ()).unwrap();
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            ("\0\0\0\r\n\r\n", "400 Bad Request"),
        ] {
            let answer = ask(address, request.as_bytes());
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {answer}");
        }
    }

    #[test]
    fn request_may_arrive_in_pieces() {
        assert_eq!(parse(b"GET /metr"), None);
        assert_eq!(parse(b"GET /metrics HTTP/1.0\r\nA: b\r\n"), None);
        assert_eq!(parse(b"GET /metrics HTTP/1.0\r\nA: b\r\n\r\n"), Some((OK, "")));
    }

    #[test]
    fn port_alone_is_on_loopback() {
        assert_eq!(address("9100"), Ok("127.0.0.1:9100".parse().unwrap()));
        assert_eq!(address("[::]:0"), Ok("[::]:0".parse().unwrap()));
        for text in ["", "70000", "host:1", "127.0.0.1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
