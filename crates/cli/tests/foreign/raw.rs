//! A socket that sends what it is told, byte by byte, and remembers what went to and fro for the message of a
//! test that fails.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rdt_driver::clock;

use crate::wire::{self, hex};

/// How long something that must come may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Lines of the record.
const RECORD: usize = 60;
/// Bytes of a packet that a line shows.
const SHOWN: usize = 32;

pub(crate) struct Raw {
    socket: UdpSocket,
    /// Whom it talks to; the first who speaks, if nobody was named.
    other: Option<SocketAddr>,
    /// It may be offered less than is wanted, as the socket's buffer has it.
    fits_socket: bool,
    record: VecDeque<String>,
    buffer: Vec<u8>,
}

impl Raw {
    pub(crate) fn new(other: Option<SocketAddr>) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        Self { socket, other, fits_socket: false, record: VecDeque::new(), buffer: vec![0; 1 << 16] }
    }

    /// Talks to `other`.
    pub(crate) fn to(other: SocketAddr) -> Self {
        Self::new(Some(other))
    }

    /// The same, with a receiver whose windows fit its socket's buffer, of whatever size that is.
    pub(crate) fn to_socket(other: SocketAddr) -> Self {
        Self { fits_socket: true, ..Self::to(other) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("it is bound")
    }

    /// Whom it talks to.
    pub(crate) fn other(&self) -> SocketAddr {
        self.other.expect("somebody spoke")
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.note("sent    ", bytes);
        self.socket.send_to(bytes, self.other()).expect("the loopback takes it");
    }

    /// The next datagram, if one comes in time.
    pub(crate) fn receive(&mut self, time: Duration) -> Option<Vec<u8>> {
        // A timeout of zero would be none at all.
        self.socket.set_read_timeout(Some(time.max(Duration::from_millis(1)))).expect("a valid timeout");
        let (len, from) = self.socket.recv_from(&mut self.buffer).ok()?;
        let bytes = self.buffer[..len].to_vec();
        self.note("received", &bytes);
        let other = *self.other.get_or_insert(from);
        self.check(from == other, || format!("a datagram came from {from}, not from {other}"));
        Some(bytes)
    }

    /// The next datagram, which must come.
    pub(crate) fn wait(&mut self) -> Vec<u8> {
        match self.receive(PATIENCE) {
            Some(bytes) => bytes,
            None => self.fail("nothing comes"),
        }
    }

    /// The next datagram must be `wanted`.
    pub(crate) fn expect(&mut self, wanted: &[u8]) {
        let bytes = self.wait();
        let good = bytes == wanted || self.fits_socket && wire::is_narrower(&bytes, wanted);
        self.check(good, || format!("{} came, not {}", hex(&bytes), hex(wanted)));
    }

    /// Sends and must get `wanted` next.
    pub(crate) fn ask(&mut self, bytes: &[u8], wanted: &[u8]) {
        self.send(bytes);
        self.expect(wanted);
    }

    /// Nothing may come for `time`.
    pub(crate) fn quiet(&mut self, time: Duration) {
        if self.receive(time).is_some() {
            self.fail("something came where silence was due");
        }
    }

    /// Takes what comes for `time`.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let end = clock::now() + time;
        let mut all = Vec::new();
        loop {
            let left = end.saturating_duration_since(clock::now());
            if left.is_zero() {
                return all;
            }
            all.extend(self.receive(left));
        }
    }

    /// Takes what is there, up to a pause of `pause`.
    pub(crate) fn drain(&mut self, pause: Duration) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.receive(pause)).collect()
    }

    pub(crate) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(&what());
        }
    }

    pub(crate) fn fail(&self, what: &str) -> ! {
        let record = self.record.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "  {line}");
            text
        });
        panic!("{what}\n{} said and heard last:\n{record}", self.address());
    }

    fn note(&mut self, verb: &str, bytes: &[u8]) {
        if self.record.len() == RECORD {
            self.record.pop_front();
        }
        let shown = hex(&bytes[..bytes.len().min(SHOWN)]);
        let more = if bytes.len() > SHOWN { "..." } else { "" };
        self.record.push_back(format!("{verb} {:5} bytes {shown}{more}", bytes.len()));
    }
}
