//! A socket as the kernel has it: what it was told for all that it sends, and the calls that an send_batch makes. Owns the
//! descriptor.

use std::cell::Cell;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

#[cfg(unix)]
use quinn_udp::TransportErrorPayload;
use quinn_udp::{EcnCodepoint, Transmit, UdpSockRef, UdpSocketState};
use rdt_datagram::Ecn;

use crate::icmp::IcmpErrors;
use crate::send_batch::{Datagrams, Kernel, SendCall};
use crate::zerocopy::{self, File};
use crate::{Remote, sendmmsg, socket_options};

/// A socket with one peer is connected to it when this many bytes leave in a call, datagram by datagram. Until then it still
/// hears, and counts, what foreign_messages send.
const MUCH: usize = 16 * 1024;

/// The socket as the kernel has it.
pub(crate) struct KernelSocket {
    pub(crate) socket: Arc<UdpSocket>,
    pub(crate) state: UdpSocketState,
    /// The kernel reports datagrams that found nobody.
    reports: bool,
    /// The segment size that the socket has by itself, for what is sent by reference; 0 is none.
    segment: Cell<usize>,
    /// The codepoint that the socket has by itself, for the same.
    codepoint: Cell<Ecn>,
    /// All that is sent goes to one peer.
    one_peer: bool,
    /// The socket has that peer by itself: the kernel looks for no way to it and draws no number at each datagram.
    connected: Cell<bool>,
}

impl KernelSocket {
    pub(crate) fn new(socket: UdpSocket, state: UdpSocketState) -> Self {
        Self {
            socket: Arc::new(socket),
            state,
            reports: false,
            segment: Cell::new(0),
            codepoint: Cell::new(Ecn::NotEct),
            one_peer: false,
            connected: Cell::new(false),
        }
    }

    /// All that is sent from now on goes to one peer.
    pub(crate) fn set_one_peer(&mut self) {
        self.one_peer = true;
    }

    #[cfg(unix)]
    pub(crate) fn report_unreachable(&mut self) {
        self.reports = self.state.enable_transport_errors(UdpSockRef::from(&*self.socket)).is_ok();
    }

    /// Windows reports without being asked, as an error of the next read.
    #[cfg(not(unix))]
    pub(crate) fn report_unreachable(&mut self) {
        self.reports = true;
    }

    fn set_segment(&self, size: usize) -> io::Result<()> {
        socket_options::set_segment(&self.socket, size)?;
        self.segment.set(size);
        Ok(())
    }

    /// Gives the socket its one peer, if it has none.
    fn connect(&self, peer: Remote) -> io::Result<()> {
        if !self.connected.get() {
            self.socket.connect(peer.addr)?;
            self.connected.set(true);
        }
        Ok(())
    }

    fn set_codepoint(&self, ecn: Ecn) -> io::Result<()> {
        if self.codepoint.get() != ecn {
            socket_options::set_codepoint(&self.socket, ecn)?;
            self.codepoint.set(ecn);
        }
        Ok(())
    }
}

impl Kernel for KernelSocket {
    fn max_gso_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn send(&self, call: SendCall, peer: Remote, datagrams: Datagrams<'_>) -> io::Result<usize> {
        // What tells no size of its own would be cut to the socket's or, if that is beyond the path's, refused; and what
        // tells no codepoint would get the socket's.
        if call != SendCall::Gso && self.segment.get() != 0 {
            self.set_segment(0)?;
        }
        if datagrams.ecn == Ecn::NotEct {
            self.set_codepoint(Ecn::NotEct)?;
        }
        if call == SendCall::Sendmmsg {
            if self.one_peer && datagrams.bytes.len() >= MUCH {
                self.connect(peer)?;
            }
            return sendmmsg::sendmmsg(&self.socket, peer, self.connected.get(), datagrams);
        }
        let Datagrams { bytes, size, ecn } = datagrams;
        let segment_size = (call == SendCall::Gso).then_some(size);
        // There is no codepoint of quinn's for 0.
        let ecn = EcnCodepoint::from_bits(ecn.bits());
        let transmit =
            Transmit { destination: peer.addr, ecn, contents: bytes, segment_size, src_ip: peer.local };
        self.state.try_send(UdpSockRef::from(&*self.socket), &transmit)?;
        Ok(bytes.len().div_ceil(size).max(1))
    }

    fn lend(&self, peer: Remote, file: &File, offset: u64, datagrams: Datagrams<'_>) -> io::Result<usize> {
        self.connect(peer)?;
        if self.segment.get() != datagrams.size {
            self.set_segment(datagrams.size)?;
        }
        self.set_codepoint(datagrams.ecn)?;
        zerocopy::send(&self.socket, file, offset, datagrams.bytes.len())
    }

    /// Only the one that was told in place of a message, or of an answer to a call.
    #[cfg(not(unix))]
    fn drain_icmp_errors(&self, error: Option<&io::Error>) -> IcmpErrors {
        let mut reports = IcmpErrors::default();
        if let Some(error) = error.filter(|_| self.reports) {
            reports.note(error);
        }
        reports
    }

    /// Unread reports would keep the socket "ready". An error of a call repeats one of them.
    #[cfg(unix)]
    fn drain_icmp_errors(&self, _: Option<&io::Error>) -> IcmpErrors {
        let mut reports = IcmpErrors::default();
        while self.reports
            && let Ok(Some(report)) = self.state.recv_transport_error(UdpSockRef::from(&*self.socket))
        {
            tracing::debug!(?report, "the network reports an undelivered datagram");
            // Too big a datagram is reported here too, and counted where it was refused.
            if matches!(report.payload, TransportErrorPayload::Unreachable) {
                reports.note(&io::Error::from_raw_os_error(report.raw_errno));
            }
        }
        reports
    }
}

#[cfg(all(test, linux_api))]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use socket2::SockRef;

    use super::*;

    #[test]
    fn a_codepoint_that_the_kernel_did_not_take_is_asked_for_again() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
        let mut port = KernelSocket::new(socket, state);
        let no_socket = UdpSocket::from(OwnedFd::from(File::open("/dev/null").unwrap()));
        let socket = std::mem::replace(&mut port.socket, Arc::new(no_socket));
        port.set_codepoint(Ecn::Ect0).unwrap_err();
        port.socket = socket;
        port.set_codepoint(Ecn::Ect0).unwrap();
        assert_eq!(SockRef::from(&*port.socket).tos_v4().unwrap(), u32::from(Ecn::Ect0.bits()));
    }
}
