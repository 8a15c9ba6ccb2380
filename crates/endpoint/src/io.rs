//! Datagram I/O of an endpoint: a UDP socket, or a port of an emulated network.

use std::io;
use std::net::{SocketAddr, UdpSocket};
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
    pub(crate) fn bind(address: SocketAddr, options: UdpOptions) -> Result<Self, SocketError> {
        Ok(Self::Udp(Box::new(UdpPort { io: UdpIo::bind(address, options)?, readable: false })))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Udp(port) => port.io.local_addr(),
            #[cfg(feature = "emulator")]
            Self::Network(port) => Ok(port.address()),
        }
    }

    /// Returns the UDP socket, to wait on. `None` for an emulated network.
    pub(crate) fn socket(&self) -> Option<Arc<UdpSocket>> {
        match self {
            Self::Udp(port) => Some(port.io.socket()),
            #[cfg(feature = "emulator")]
            Self::Network(_) => None,
        }
    }

    /// Returns the bytes of the socket's receive buffer. `None` if arrivals wait elsewhere.
    pub(crate) fn receive_buffer(&self) -> Option<usize> {
        match self {
            Self::Udp(port) => Some(port.io.stats().receive_buffer),
            #[cfg(feature = "emulator")]
            Self::Network(_) => None,
        }
    }

    /// Requests the ICMP errors of datagrams, which end the opening of a connection to a port at
    /// which no program listens.
    pub(crate) fn report_unreachable(&mut self) {
        match self {
            Self::Udp(port) => port.io.report_unreachable(),
            #[cfg(feature = "emulator")]
            Self::Network(_) => {}
        }
    }

    /// Records that datagrams may have arrived: the next [`DatagramIo::recv`] reads the socket.
    pub(crate) fn set_readable(&mut self) {
        match self {
            Self::Udp(port) => port.readable = true,
            #[cfg(feature = "emulator")]
            Self::Network(_) => {}
        }
    }

    /// False once the socket was read until it was empty.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_readable(&self) -> bool {
        match self {
            Self::Udp(port) => port.readable,
            #[cfg(feature = "emulator")]
            Self::Network(_) => false,
        }
    }

    /// Returns when the next datagram arrives, if that is known beforehand.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        match self {
            Self::Udp(_) => None,
            #[cfg(feature = "emulator")]
            Self::Network(port) => port.next_arrival(),
        }
    }

    /// Returns the error that made the socket unusable, once. An error of sending concerns one
    /// peer, and the others continue.
    pub(crate) fn take_error(&mut self) -> Option<SocketError> {
        match self {
            Self::Udp(port) => port.io.take_error().filter(|error| matches!(error, SocketError::Receive(_))),
            #[cfg(feature = "emulator")]
            Self::Network(_) => None,
        }
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
                batch.map(|batch| Received {
                    peer: PeerAddress(batch.peer),
                    bytes: batch.bytes,
                    stride: batch.stride,
                    ecn: batch.ecn,
                    at: batch.at,
                })
            }
            #[cfg(feature = "emulator")]
            Self::Network(port) => port.recv(),
        }
    }

    fn take_refused(&mut self) -> Option<(PeerAddress, u64)> {
        match self {
            Self::Udp(port) => port.io.take_refused().map(|(peer, reports)| (PeerAddress(peer), reports)),
            #[cfg(feature = "emulator")]
            Self::Network(_) => None,
        }
    }

    fn take_overflow(&mut self) -> u64 {
        match self {
            Self::Udp(port) => port.io.take_overflow(),
            #[cfg(feature = "emulator")]
            Self::Network(_) => 0,
        }
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
        match self {
            Self::Udp(port) => port.io.leave(),
            #[cfg(feature = "emulator")]
            Self::Network(_) => {}
        }
    }

    fn present(&self, now: Instant) -> Instant {
        match self {
            Self::Udp(port) => port.io.present(now),
            #[cfg(feature = "emulator")]
            Self::Network(_) => now,
        }
    }
}
