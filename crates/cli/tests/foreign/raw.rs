//! A socket for packets built by hand. Records the exchange, for the message of a failing test.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rdt_udp::clock;

use crate::wire::{self, hex};

/// Time limit of an expected reply.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(10);
/// Limit on the lines of the record.
const RECORD: usize = 60;
/// Limit on the bytes of a packet shown in a line of the record.
const SHOWN: usize = 32;

pub(crate) struct Raw {
    socket: UdpSocket,
    /// Address of the peer; `None` until the first datagram arrives, whose sender is then the peer.
    other: Option<SocketAddr>,
    /// True if smaller windows than expected are accepted, because the receiver's socket buffer
    /// limits them.
    fits_socket: bool,
    record: VecDeque<String>,
    buffer: Vec<u8>,
}

impl Raw {
    pub(crate) fn new(other: Option<SocketAddr>) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        Self { socket, other, fits_socket: false, record: VecDeque::new(), buffer: vec![0; 1 << 16] }
    }

    pub(crate) fn to(other: SocketAddr) -> Self {
        Self::new(Some(other))
    }

    /// Creates a socket towards a receiver whose windows are limited by its socket buffer.
    pub(crate) fn to_socket(other: SocketAddr) -> Self {
        Self { fits_socket: true, ..Self::to(other) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("it is bound")
    }

    pub(crate) fn other(&self) -> SocketAddr {
        self.other.expect("a peer has sent a datagram")
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.note("sent    ", bytes);
        self.socket.send_to(bytes, self.other()).expect("the loopback takes it");
    }

    /// Receives the next datagram; `None` after `time`.
    pub(crate) fn receive(&mut self, time: Duration) -> Option<Vec<u8>> {
        // The operating system takes a timeout of zero for none.
        self.socket.set_read_timeout(Some(time.max(Duration::from_millis(1)))).expect("a valid timeout");
        let (len, from) = self.socket.recv_from(&mut self.buffer).ok()?;
        let bytes = self.buffer[..len].to_vec();
        self.note("received", &bytes);
        let other = *self.other.get_or_insert(from);
        self.check(from == other, || format!("a datagram came from {from}, not from {other}"));
        Some(bytes)
    }

    /// Receives the next datagram; panics after a timeout.
    pub(crate) fn wait(&mut self) -> Vec<u8> {
        match self.receive(WAIT_LIMIT) {
            Some(bytes) => bytes,
            None => self.fail("nothing comes"),
        }
    }

    pub(crate) fn expect(&mut self, wanted: &[u8]) {
        let bytes = self.wait();
        let good = bytes == wanted || self.fits_socket && wire::is_narrower(&bytes, wanted);
        self.check(good, || format!("{} came, not {}", hex(&bytes), hex(wanted)));
    }

    /// Sends `bytes`, and checks that the next datagram is `wanted`.
    pub(crate) fn ask(&mut self, bytes: &[u8], wanted: &[u8]) {
        self.send(bytes);
        self.expect(wanted);
    }

    /// Checks that nothing arrives for `time`.
    pub(crate) fn quiet(&mut self, time: Duration) {
        if self.receive(time).is_some() {
            self.fail("something came where silence was due");
        }
    }

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

    /// Receives datagrams until none arrives for `pause`.
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
