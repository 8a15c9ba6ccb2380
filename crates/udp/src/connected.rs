use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rdt_datagram::{DatagramIo, FrameSource, Received, TransmitBuf};

use crate::{BufferOccupancy, SocketError, UdpIo};

/// UDP socket with one peer. Messages from other addresses are dropped and counted.
pub struct Connected {
    io: UdpIo,
    peer: SocketAddr,
    foreign_messages: u64,
    occupancy: Option<Arc<BufferOccupancy>>,
    /// Number of port-unreachable errors that [`DatagramIo::take_refused`] has returned so far.
    refused: u64,
}

impl Connected {
    /// Restricts `io` to `peer`, and enables the report of ICMP errors.
    pub fn new(mut io: UdpIo, peer: SocketAddr) -> Self {
        io.report_unreachable();
        io.kernel.one_peer = true;
        Self { io, peer, foreign_messages: 0, occupancy: None, refused: 0 }
    }

    /// Restricts the socket to another peer.
    pub fn set_peer(&mut self, peer: SocketAddr) {
        self.peer = peer;
    }

    /// Stops sending while `occupancy` is full. `occupancy` describes the receive buffer of the
    /// peer's socket, which must be in the same process.
    pub fn limit(&mut self, occupancy: Arc<BufferOccupancy>) {
        self.occupancy = Some(occupancy);
    }

    /// Opens a pool of frames for zero-copy sending on this socket. Returns `None` if
    /// [`UdpOptions::by_reference`] is off or the kernel does not support it.
    ///
    /// [`UdpOptions::by_reference`]: crate::UdpOptions::by_reference
    pub fn zerocopy_pool(&mut self) -> Option<Box<dyn FrameSource>> {
        self.io.zerocopy_pool()
    }

    /// Returns the socket.
    pub fn io(&self) -> &UdpIo {
        &self.io
    }

    /// Returns the error that made the socket unusable, once.
    pub fn take_error(&mut self) -> Option<SocketError> {
        self.io.take_error()
    }

    /// Returns the number of messages from addresses other than the peer's.
    pub fn foreign_messages(&self) -> u64 {
        self.foreign_messages
    }
}

impl DatagramIo for Connected {
    type Peer = ();

    fn recv(&mut self) -> Option<Received<'_, ()>> {
        while !same_address(self.io.next_source()?, self.peer) {
            self.io.skip_message();
            self.foreign_messages += 1;
        }
        self.io.recv().map(|batch| batch.with_peer(|_| ()))
    }

    fn take_refused(&mut self) -> Option<((), u64)> {
        let refused = self.io.stats.refused;
        let reports = refused - std::mem::replace(&mut self.refused, refused);
        (reports > 0).then_some(((), reports))
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        if self.occupancy.as_ref().is_some_and(|occupancy| occupancy.is_full()) {
            std::thread::yield_now();
            return None;
        }
        self.io.transmit_buf()
    }

    fn flush(&mut self, (): ()) {
        if let Some(occupancy) = &self.occupancy {
            let batch = self.io.batch();
            occupancy.add(batch.segments(), batch.bytes().len());
        }
        self.io.flush(self.peer.into());
    }

    fn leave(&mut self) {
        self.io.leave();
    }

    fn present(&self, now: Instant) -> Instant {
        self.io.present(now)
    }
}

/// Compares address and port only: a reply may have another IPv6 scope or flow label.
fn same_address(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.ip().to_canonical() == b.ip().to_canonical()
}
