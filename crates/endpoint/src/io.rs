//! Datagram I/O of an endpoint: a UDP socket, or a port of an emulated network.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use rdt_datagram::{DatagramIo, Received, TransmitBuf};
use rdt_udp::{SocketError, UdpIo, UdpOptions};

use crate::address::PeerAddress;
#[cfg(feature = "emulator")]
use crate::network::Port;

pub(crate) enum Io {
    Udp(Box<UdpPort>),
    #[cfg(feature = "emulator")]
    Network(Port),
}

/// UDP socket that is read only while it may be readable.
pub(crate) struct UdpPort {
    io: UdpIo,
    readable: bool,
}

impl Io {
    /// Binds a socket to the first of these addresses that can be bound.
    pub(crate) fn bind(addresses: impl ToSocketAddrs, options: UdpOptions) -> io::Result<Self> {
        let mut failure = io::ErrorKind::AddrNotAvailable.into();
        for address in addresses.to_socket_addrs()? {
            match UdpIo::bind(address, options) {
                Ok(io) => return Ok(Self::Udp(Box::new(UdpPort { io, readable: false }))),
                Err(error) => failure = io::Error::new(error.kind(), error),
            }
        }
        Err(failure)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Udp(port) => port.io.local_addr(),
            #[cfg(feature = "emulator")]
            Self::Network(port) => Ok(port.address()),
        }
    }

    #[cfg_attr(
        not(feature = "emulator"),
        expect(clippy::unnecessary_wraps, reason = "an emulated network has none")
    )]
    fn udp(&self) -> Option<&UdpPort> {
        match self {
            Self::Udp(port) => Some(port),
            #[cfg(feature = "emulator")]
            Self::Network(_) => None,
        }
    }

    #[cfg_attr(
        not(feature = "emulator"),
        expect(clippy::unnecessary_wraps, reason = "an emulated network has none")
    )]
    fn udp_mut(&mut self) -> Option<&mut UdpPort> {
        match self {
            Self::Udp(port) => Some(port),
            #[cfg(feature = "emulator")]
            Self::Network(_) => None,
        }
    }

    /// Returns the UDP socket, to wait on. `None` for an emulated network.
    pub(crate) fn socket(&self) -> Option<Arc<UdpSocket>> {
        self.udp().map(|port| port.io.socket())
    }

    /// Returns the bytes of the socket's receive buffer. `None` if arrivals wait elsewhere.
    pub(crate) fn receive_buffer(&self) -> Option<usize> {
        self.udp().map(|port| port.io.stats().receive_buffer)
    }

    /// Requests ICMP errors, which end a connect to a port at which no program listens.
    pub(crate) fn report_unreachable(&mut self) {
        if let Some(port) = self.udp_mut() {
            port.io.report_unreachable();
        }
    }

    /// Records that datagrams may have arrived: the next [`DatagramIo::recv`] reads the socket.
    pub(crate) fn set_readable(&mut self) {
        if let Some(port) = self.udp_mut() {
            port.readable = true;
        }
    }

    /// False once the socket was read until it was empty.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_readable(&self) -> bool {
        self.udp().is_some_and(|port| port.readable)
    }

    /// Returns when the next datagram arrives, if that is known beforehand.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        match self {
            Self::Udp(_) => None,
            #[cfg(feature = "emulator")]
            Self::Network(port) => port.next_arrival(),
        }
    }

    /// Returns the error that made the socket unusable, once. Send errors concern one peer only.
    pub(crate) fn take_error(&mut self) -> Option<SocketError> {
        self.udp_mut()?.io.take_error().filter(|error| matches!(error, SocketError::Receive(_)))
    }
}

impl DatagramIo for Io {
    type Peer = PeerAddress;

    fn recv(&mut self) -> Option<Received<'_, PeerAddress>> {
        match self {
            Self::Udp(port) => {
                let UdpPort { io, readable } = &mut **port;
                if !*readable {
                    return None;
                }
                let batch = io.recv();
                *readable = batch.is_some();
                batch.map(|batch| batch.with_peer(PeerAddress))
            }
            #[cfg(feature = "emulator")]
            Self::Network(port) => port.recv(),
        }
    }

    fn take_refused(&mut self) -> Option<(PeerAddress, u64)> {
        self.udp_mut()?.io.take_refused().map(|(peer, reports)| (PeerAddress(peer), reports))
    }

    fn take_overflow(&mut self) -> u64 {
        self.udp_mut().map_or(0, |port| port.io.take_overflow())
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        match self {
            Self::Udp(port) => port.io.transmit_buf(),
            #[cfg(feature = "emulator")]
            Self::Network(port) => port.transmit_buf(),
        }
    }

    fn flush(&mut self, peer: PeerAddress) {
        match self {
            Self::Udp(port) => port.io.flush(peer.0),
            #[cfg(feature = "emulator")]
            Self::Network(port) => port.flush(peer),
        }
    }

    fn leave(&mut self) {
        if let Some(port) = self.udp_mut() {
            port.io.leave();
        }
    }

    fn present(&self, now: Instant) -> Instant {
        self.udp().map_or(now, |port| port.io.present(now))
    }
}
