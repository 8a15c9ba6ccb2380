//! Prometheus metrics over HTTP/1.1, in the `OpenMetrics` text format.
//!
//! A thread answers one request at a time. It reads counters when it is asked, and nothing here is
//! called per packet.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;
use rdt_udp::clock;

use crate::host_port::{HostPort, bind_address};

/// Time limit of a request, and of its answer, by which a silent client delays the next one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a connection could not be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Largest head of a request, bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 64;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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

/// Name and value of a label.
pub type Label = (&'static str, &'static str);

/// Metrics of one answer.
#[derive(Debug)]
pub struct Samples<'e>(DescriptorEncoder<'e>);

impl Samples<'_> {
    /// Adds a counter; its name gets the suffix `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, [([], value)])
    }

    /// Adds counters of one name, told apart by their labels.
    pub fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], u64)>,
    ) -> fmt::Result {
        self.family(name, help, ConstCounter::<u64>::TYPE, values, ConstCounter::new)
    }

    /// Adds a value that may fall.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, [([], value)])
    }

    /// Adds values of one name that may fall.
    pub fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], f64)>,
    ) -> fmt::Result {
        self.family(name, help, ConstGauge::<f64>::TYPE, values, ConstGauge::new)
    }

    fn family<V, M: EncodeMetric, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        values: impl IntoIterator<Item = ([Label; N], V)>,
        metric: fn(V) -> M,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in values {
            metric(value).encode(family.encode_family(&&labels[..])?)?;
        }
        Ok(())
    }
}

/// Serves the metrics that `read` adds, on a thread that runs until the program ends. Returns the
/// address. Fails if it is not available, or if the thread cannot start.
pub fn serve(
    address: SocketAddr,
    read: impl Fn(&mut Samples<'_>) -> fmt::Result + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Source(read)));
    thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            if stream.is_err() {
                // Without descriptors, the next accept would fail at once, again and again.
                thread::park_timeout(ACCEPT_RETRY);
            }
            let answered = stream.and_then(|stream| answer(stream, &registry));
            if let Err(error) = answered {
                tracing::debug!(%error, "a scrape of the metrics failed");
            }
        }
    })?;
    Ok(address)
}

struct Source<F>(F);

impl<F> fmt::Debug for Source<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl<F: Fn(&mut Samples<'_>) -> fmt::Result + Send + Sync + 'static> Collector for Source<F> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0(&mut Samples(encoder))
    }
}

/// Answers one request, and closes the connection.
fn answer(mut stream: TcpStream, registry: &Registry) -> io::Result<()> {
    let deadline = clock::now() + REQUEST_TIMEOUT;
    let (status, mut body) = request(&mut stream, deadline)?;
    if status == OK {
        text::encode(&mut body, registry).map_err(io::Error::other)?;
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
        let samples = |samples: &mut Samples<'_>| {
            samples.counter("rdt_x_bytes", "Bytes", 7)?;
            samples.counters("rdt_y", "By cause", [([("cause", "a")], 1), ([("cause", "b")], 2)])?;
            samples.gauge("rdt_z", "Now", 0.5)
        };
        let address = serve((Ipv4Addr::LOCALHOST, 0).into(), samples).unwrap();
        let answer = ask(address, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        for line in
            ["# TYPE rdt_x_bytes counter", "rdt_x_bytes_total 7", "rdt_y_total{cause=\"b\"} 2", "rdt_z 0.5"]
        {
            assert!(body.lines().any(|it| it == line), "{line}: {body}");
        }
        assert!(body.ends_with("# EOF\n"), "{body}");
    }

    #[test]
    fn other_requests_get_their_status() {
        let address = serve((Ipv4Addr::LOCALHOST, 0).into(), |_| Ok(())).unwrap();
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
