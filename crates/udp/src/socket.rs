//! Socket of the operating system: its descriptor, the options set on it, and the system calls of a
//! send batch.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

#[cfg(all(unix, not(linux_api)))]
use quinn_udp::TransportErrorPayload;
use quinn_udp::{EcnCodepoint, Transmit, UdpSockRef, UdpSocketState};
use rdt_datagram::Ecn;

#[cfg(linux_api)]
use crate::error_queue;
use crate::icmp::{IcmpErrors, RefusedPeers};
use crate::send_batch::{Datagrams, Kernel, SendCall};
use crate::zerocopy::{self, File};
use crate::{Remote, socket_options};

/// Bytes in one `sendmmsg` from which a socket with one peer is connected. Until then it also
/// receives, and counts, messages from other addresses.
const CONNECT_MIN_BYTES: usize = 16 * 1024;

pub(crate) struct KernelSocket {
    pub(crate) socket: Arc<UdpSocket>,
    pub(crate) state: UdpSocketState,
    reports: bool,
    /// Destinations of port-unreachable errors.
    pub(crate) refused: RefCell<RefusedPeers>,
    /// Segment size of the socket for zero-copy sends (`UDP_SEGMENT`), bytes; 0 for none.
    segment: Cell<usize>,
    /// ECN codepoint of the socket, used by zero-copy sends.
    codepoint: Cell<Ecn>,
    /// True if all sends go to one peer, so that the kernel may cache the route.
    pub(crate) one_peer: bool,
    /// True if connected: the kernel caches the route, and needs no IP identification per datagram.
    connected: Cell<bool>,
}

impl KernelSocket {
    pub(crate) fn new(socket: UdpSocket, state: UdpSocketState) -> Self {
        Self {
            socket: Arc::new(socket),
            state,
            reports: false,
            refused: RefCell::default(),
            segment: Cell::new(0),
            codepoint: Cell::new(Ecn::NotEct),
            one_peer: false,
            connected: Cell::new(false),
        }
    }

    #[cfg(unix)]
    pub(crate) fn report_unreachable(&mut self) {
        self.reports = self.state.enable_transport_errors(UdpSockRef::from(&*self.socket)).is_ok();
    }

    /// Windows reports ICMP errors without a request, as the error of the next read.
    #[cfg(not(unix))]
    pub(crate) fn report_unreachable(&mut self) {
        self.reports = true;
    }

    fn set_segment(&self, size: usize) -> io::Result<()> {
        if self.segment.get() != size {
            socket_options::set_segment(&self.socket, size)?;
            self.segment.set(size);
        }
        Ok(())
    }

    fn connect(&self, peer: Remote) -> io::Result<()> {
        if !self.connected.get() {
            self.socket.connect(peer.addr)?;
            self.connected.set(true);
        }
        Ok(())
    }

    fn send_from(&self, call: SendCall, peer: Remote, datagrams: Datagrams<'_>) -> io::Result<usize> {
        if call == SendCall::Sendmmsg {
            if self.one_peer && datagrams.bytes.len() >= CONNECT_MIN_BYTES {
                self.connect(peer)?;
            }
            #[cfg(linux_api)]
            return crate::sendmmsg::sendmmsg(&self.socket, peer, self.connected.get(), datagrams);
            #[cfg(not(linux_api))]
            return Err(io::ErrorKind::Unsupported.into());
        }
        let Datagrams { bytes, size, ecn } = datagrams;
        let segment_size = (call == SendCall::Gso).then_some(size);
        // quinn-udp represents codepoint 0 as `None`.
        let ecn = EcnCodepoint::from_bits(ecn.bits());
        let transmit =
            Transmit { destination: peer.addr, ecn, contents: bytes, segment_size, src_ip: peer.local };
        self.state.try_send(UdpSockRef::from(&*self.socket), &transmit)?;
        Ok(bytes.len().div_ceil(size).max(1))
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
        // A send without its own segment size or codepoint would use that of the socket: the kernel
        // would segment the datagrams, or refuse them beyond the path MTU.
        if call != SendCall::Gso {
            self.set_segment(0)?;
        }
        if datagrams.ecn == Ecn::NotEct {
            self.set_codepoint(Ecn::NotEct)?;
        }
        match self.send_from(call, peer, datagrams) {
            // The host has lost the address to which the peer sent. From another one, the peer
            // follows this side, and its packets then name the new address.
            Err(error) if peer.local.is_some() && may_lack_source(&error) => {
                self.send_from(call, Remote::from(peer.addr), datagrams)
            }
            result => result,
        }
    }

    fn send_zerocopy(
        &self,
        peer: Remote,
        file: &File,
        offset: u64,
        datagrams: Datagrams<'_>,
    ) -> io::Result<usize> {
        self.connect(peer)?;
        self.set_segment(datagrams.size)?;
        self.set_codepoint(datagrams.ecn)?;
        zerocopy::send(&self.socket, file, offset, datagrams.bytes.len())
    }

    /// Returns the error of the failed call only: there is no error queue.
    #[cfg(not(unix))]
    fn drain_icmp_errors(&self, error: Option<&io::Error>) -> IcmpErrors {
        let mut reports = IcmpErrors::default();
        if let Some(error) = error.filter(|_| self.reports) {
            reports.note(error);
        }
        reports
    }

    /// Reads the whole error queue, because an unread error would keep the socket readable. Ignores
    /// the error of the failed call, which is in the queue too.
    #[cfg(linux_api)]
    fn drain_icmp_errors(&self, _: Option<&io::Error>) -> IcmpErrors {
        let mut reports = IcmpErrors::default();
        while self.reports
            && let Ok(Some(report)) = error_queue::take(&self.socket)
        {
            tracing::debug!(?report, "the network reports an undelivered datagram");
            // EMSGSIZE appears in this queue too, but was counted when the send failed.
            if !report.is_unreachable {
                continue;
            }
            let error = io::Error::from_raw_os_error(report.error);
            reports.note(&error);
            if let Some(peer) =
                report.destination.filter(|_| error.kind() == io::ErrorKind::ConnectionRefused)
            {
                self.refused.borrow_mut().note(peer);
            }
        }
        reports
    }

    /// Same without the destinations of the datagrams.
    #[cfg(all(unix, not(linux_api)))]
    fn drain_icmp_errors(&self, _: Option<&io::Error>) -> IcmpErrors {
        let mut reports = IcmpErrors::default();
        while self.reports
            && let Ok(Some(report)) = self.state.recv_transport_error(UdpSockRef::from(&*self.socket))
        {
            tracing::debug!(?report, "the network reports an undelivered datagram");
            // EMSGSIZE appears in this queue too, but was counted when the send failed.
            if matches!(report.payload, TransportErrorPayload::Unreachable) {
                reports.note(&io::Error::from_raw_os_error(report.raw_errno));
            }
        }
        reports
    }
}

/// True if this error of a send call may mean that the host does not have the source address. Linux
/// returns EINVAL, or ENETUNREACH if the route is gone as well.
fn may_lack_source(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, InvalidInput, NetworkUnreachable};
    matches!(error.kind(), AddrNotAvailable | InvalidInput | NetworkUnreachable)
}

#[cfg(test)]
#[cfg(linux_api)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use socket2::SockRef;

    use super::*;

    #[test]
    fn failed_codepoint_is_set_again() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
        let mut kernel = KernelSocket::new(socket, state);
        let no_socket = UdpSocket::from(OwnedFd::from(File::open("/dev/null").unwrap()));
        let socket = std::mem::replace(&mut kernel.socket, Arc::new(no_socket));
        kernel.set_codepoint(Ecn::Ect0).unwrap_err();
        kernel.socket = socket;
        kernel.set_codepoint(Ecn::Ect0).unwrap();
        assert_eq!(SockRef::from(&*kernel.socket).tos_v4().unwrap(), u32::from(Ecn::Ect0.bits()));
    }
    #[test]
    fn lost_source_address_gives_way_to_another() {
        for call in [SendCall::Single, SendCall::Gso, SendCall::Sendmmsg] {
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
            let kernel = KernelSocket::new(socket, state);
            let peer = Remote { addr: receiver.local_addr().unwrap(), local: "192.0.2.7".parse().ok() };
            let datagrams = Datagrams { bytes: &[1; 30], size: 30, ecn: Ecn::NotEct };
            assert_eq!(kernel.send(call, peer, datagrams).unwrap(), 1, "{call:?}");
            assert_eq!(receiver.recv(&mut [0; 99]).unwrap(), 30);
        }
    }
}
