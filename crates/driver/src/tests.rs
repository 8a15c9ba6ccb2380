//! Test doubles of an endpoint and a socket.

use std::time::Instant;

use rdt_transport::drive::{DatagramIo, Received};
use rdt_transport::{Ecn, Endpoint, TransmitBuf};

use crate::{Socket, SocketError, clock};

/// Endpoint that sends `to_send` datagrams, and has one timer.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) to_send: usize,
    pub(crate) deadline: Option<Instant>,
    pub(crate) fired: usize,
    pub(crate) got: usize,
}

impl Endpoint for Machine {
    type Peer = ();
    type Event = ();

    fn handle_datagram(&mut self, _: Instant, (): (), _: Ecn, _: &mut [u8]) {
        self.got += 1;
    }

    fn handle_timeout(&mut self, _: Instant) {
        self.deadline = None;
        self.fired += 1;
    }

    fn poll_transmit(&mut self, _: Instant, out: &mut TransmitBuf) -> Option<()> {
        self.to_send = self.to_send.checked_sub(1)?;
        out.slot(1).map(|slot| slot.fill(7))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }
}

/// Socket with `input` datagrams to read, which counts sends. Fails after `fails_after` reads
/// without a datagram.
pub(crate) struct FakeSocket {
    pub(crate) input: usize,
    pub(crate) sent: usize,
    pub(crate) empty_reads: usize,
    pub(crate) fails_after: usize,
    /// True if no datagram can be sent.
    pub(crate) full: bool,
    datagram: [u8; 1],
    batch: TransmitBuf,
}

impl FakeSocket {
    pub(crate) fn new(input: usize) -> Self {
        let batch = TransmitBuf::new(1);
        Self { input, sent: 0, empty_reads: 0, fails_after: usize::MAX, full: false, datagram: [7], batch }
    }
}

impl DatagramIo for FakeSocket {
    type Peer = ();

    fn recv(&mut self) -> Option<Received<'_, ()>> {
        let Some(left) = self.input.checked_sub(1) else {
            self.empty_reads += 1;
            return None;
        };
        self.input = left;
        Some(Received { peer: (), bytes: &mut self.datagram, stride: 1, ecn: Ecn::NotEct, at: clock::now() })
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        self.batch.clear();
        (!self.full).then_some(&mut self.batch)
    }

    fn flush(&mut self, (): ()) {
        self.sent += 1;
    }
}

impl Socket for FakeSocket {
    fn take_error(&mut self) -> Option<SocketError> {
        (self.empty_reads >= self.fails_after)
            .then(|| SocketError::Receive(std::io::Error::other("unplugged")))
    }
}
