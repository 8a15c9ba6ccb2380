//! UDP socket with batched reads and writes. Owns the receive memory (slab) and the counters.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use rdt_datagram::{DatagramIo, Ecn, FrameSource, Received, TransmitBuf};
use socket2::{Domain, Protocol, SockRef, Socket as RawSocket, Type};

use crate::buffer_pool::zeroed;
use crate::clock::{self, Reading};
use crate::error::{ReadFailure, SocketError, classify_read};
use crate::send_batch::{Kernel as _, SendBatch};
use crate::socket::KernelSocket;
use crate::socket_options::request_buffers;
use crate::{BufferOccupancy, Offload, UdpOptions, UdpStats, socket_options};

/// Limit on the messages of one receive call.
const RECV_MESSAGES: usize = 32;
/// Largest message, bytes: the limit of receive offload (GRO).
const MESSAGE_BYTES: usize = 64 * 1024;
/// Messages in a receive call after large ones: so few that they stay in the cache.
const RECV_MESSAGES_LARGE: usize = 4;
/// Average size above which messages count as large, bytes.
const LARGE_MESSAGE_BYTES: usize = 16 * 1024;
/// Uncoalesced datagrams read in a row before replies are sent: about a GRO message.
const STREAM_DATAGRAMS: usize = 32;
const _: () = assert!(RECV_MESSAGES * MESSAGE_BYTES <= 2 << 20, "the receive slab stays within 2 MiB");

/// Address of a peer, and the local address to which it sent, and which a reply must come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Remote {
    /// Address of the peer.
    pub addr: SocketAddr,
    /// Local address; `None` lets the operating system choose.
    pub local: Option<IpAddr>,
}

impl Remote {
    /// Returns the source that limits count this peer towards: its IPv4 address, or the /56 network
    /// of its IPv6 address, all of which one host may own.
    pub fn source(&self) -> u64 {
        rdt_datagram::source_number(self.addr.ip())
    }
}

impl From<SocketAddr> for Remote {
    fn from(addr: SocketAddr) -> Self {
        Self { addr, local: None }
    }
}

/// Returns the address to bind for datagrams to `peer`: any interface, any port.
pub fn wildcard_for(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// UDP socket with any number of peers.
pub struct UdpIo {
    pub(crate) kernel: KernelSocket,
    slab: Box<[u8]>,
    metas: [RecvMeta; RECV_MESSAGES],
    #[cfg(linux_api)]
    headers: Box<crate::recvmmsg::MessageHeaders>,
    /// Drop counter of the socket at the last [`DatagramIo::take_overflow`], modulo 2^32.
    #[cfg(linux_api)]
    overflow: u32,
    /// Number of messages in the slab, and index of the next one to return.
    filled: usize,
    next: usize,
    /// True if the last read emptied the buffer: the next one returns nothing, so replies leave.
    drained: bool,
    /// Limit on the messages of the next receive call.
    ask: usize,
    /// Datagrams read since the receive buffer was last empty or replies were last sent.
    unanswered: usize,
    send_batch: SendBatch,
    by_reference: bool,
    gro: bool,
    pub(crate) stats: UdpStats,
    fatal: Option<SocketError>,
    /// Time at which the slab was last filled.
    read_at: Reading,
    last_arrival: Option<Instant>,
    occupancy: Option<Arc<BufferOccupancy>>,
}

impl UdpIo {
    /// Binds a socket. An IPv6 wildcard address accepts IPv4 too.
    ///
    /// # Errors
    ///
    /// [`SocketError::Bind`] if the address is in use or not local.
    pub fn bind(address: SocketAddr, options: UdpOptions) -> Result<Self, SocketError> {
        Self::try_bind(address, options).map_err(|error| SocketError::Bind { address, error })
    }

    fn try_bind(address: SocketAddr, options: UdpOptions) -> io::Result<Self> {
        let raw = RawSocket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            // On a system without dual-stack sockets, only IPv6 is served.
            let _ = raw.set_only_v6(false);
        }
        #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
        raw.set_reuse_port(options.share_port)?;
        raw.bind(&address.into())?;
        request_buffers(&raw, &options);
        let socket: UdpSocket = raw.into();
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let gro = socket_options::prepare(&socket, options.gro);
        let stats = UdpStats {
            receive_buffer: SockRef::from(&socket).recv_buffer_size().unwrap_or(0),
            receive_buffer_asked: options.receive_buffer,
            send_buffer: SockRef::from(&socket).send_buffer_size().unwrap_or(0),
            ..UdpStats::default()
        };
        Ok(Self {
            kernel: KernelSocket::new(socket, state),
            by_reference: options.by_reference,
            slab: zeroed(RECV_MESSAGES * MESSAGE_BYTES)?,
            metas: [RecvMeta::default(); RECV_MESSAGES],
            #[cfg(linux_api)]
            headers: crate::recvmmsg::MessageHeaders::new(),
            #[cfg(linux_api)]
            overflow: 0,
            filled: 0,
            next: 0,
            drained: false,
            ask: RECV_MESSAGES,
            unanswered: 0,
            send_batch: SendBatch::new(options.gso, cfg!(linux_api)),
            gro,
            stats,
            fatal: None,
            read_at: Reading::take(),
            last_arrival: None,
            occupancy: None,
        })
    }

    /// Enables the report of ICMP errors, counted as [`UdpStats::unreachable`]. Not for a server,
    /// because each error costs a system call, and peers can cause them.
    pub fn report_unreachable(&mut self) {
        self.kernel.report_unreachable();
    }

    /// Creates an estimate of this socket's receive buffer for a sender in the same process.
    pub fn occupancy(&mut self) -> Arc<BufferOccupancy> {
        let occupancy = Arc::new(BufferOccupancy::new(self.stats.receive_buffer));
        self.occupancy = Some(Arc::clone(&occupancy));
        occupancy
    }

    /// Returns the local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.kernel.socket.local_addr()
    }

    /// Returns the socket, to wait on.
    pub fn socket(&self) -> Arc<UdpSocket> {
        Arc::clone(&self.kernel.socket)
    }

    /// Returns the counters.
    pub fn stats(&self) -> UdpStats {
        UdpStats { receive_overflow: socket_options::receive_overflow(&self.kernel.socket), ..self.stats }
    }

    /// Returns the offloads in use. A later send may give one up.
    pub fn offload(&self) -> Offload {
        Offload {
            send_call: self.send_batch.call(&self.kernel),
            send_segments: self.send_batch.max_segments(&self.kernel),
            by_reference: self.send_batch.is_zerocopy(),
            receive_segments: if self.gro { self.kernel.state.gro_segments() } else { 1 },
            given_up: self.send_batch.given_up(),
        }
    }

    /// Returns the error that made the socket unusable, once.
    pub fn take_error(&mut self) -> Option<SocketError> {
        self.fatal.take()
    }

    /// Opens a pool of frames for zero-copy sending, if the options and the kernel allow it.
    pub(crate) fn zerocopy_pool(&mut self) -> Option<Box<dyn FrameSource>> {
        if self.by_reference { self.send_batch.open_zerocopy_pool() } else { None }
    }

    /// Returns the source of [`DatagramIo::recv`]'s next message; reads messages if none is left.
    pub(crate) fn next_source(&mut self) -> Option<SocketAddr> {
        (self.next < self.filled || self.fill()).then(|| self.metas[self.next].addr)
    }

    /// Drops the message that [`DatagramIo::recv`] would return next.
    pub(crate) fn skip_message(&mut self) {
        self.next += 1;
    }

    pub(crate) fn batch(&self) -> &TransmitBuf {
        self.send_batch.batch()
    }

    /// Reads messages into the slab; returns false if there are none, or if replies are due first.
    fn fill(&mut self) -> bool {
        self.next = 0;
        self.filled = 0;
        if std::mem::take(&mut self.drained) {
            self.unanswered = 0;
            return false;
        }
        // Each failed read removes one ICMP error from the socket, so a few retries get past them.
        for _ in 0..4 {
            match self.read_messages() {
                Ok(count) => {
                    self.filled = count;
                    self.unanswered += self.metas[..count].iter().map(datagrams).sum::<usize>();
                    // A short read emptied the buffer: replies are sent before the next read. If
                    // datagrams arrive in a row, reading continues, because replying to every few
                    // datagrams costs both hosts more.
                    let streams = (2..STREAM_DATAGRAMS).contains(&self.unanswered);
                    self.drained = count < self.ask && !streams;
                    let bytes: usize = self.metas[..count].iter().map(|meta| meta.len).sum();
                    self.ask =
                        if bytes > count * LARGE_MESSAGE_BYTES { RECV_MESSAGES_LARGE } else { RECV_MESSAGES };
                    self.read_at = Reading::take();
                    self.stats.receive_calls += 1;
                    return count > 0;
                }
                Err(e) => match classify_read(&e) {
                    ReadFailure::WouldBlock => {
                        self.unanswered = 0;
                        if let Some(occupancy) = &self.occupancy {
                            occupancy.on_empty();
                        }
                        return false;
                    }
                    ReadFailure::Unreachable => {
                        self.stats.note_icmp_errors(self.kernel.drain_icmp_errors(Some(&e)));
                    }
                    ReadFailure::Fatal => {
                        self.fatal = Some(SocketError::Receive(e));
                        return false;
                    }
                },
            }
        }
        false
    }

    fn read_messages(&mut self) -> io::Result<usize> {
        let rooms = self.slab.chunks_exact_mut(MESSAGE_BYTES).take(self.ask);
        #[cfg(linux_api)]
        return self.headers.receive(&self.kernel.socket, rooms, &mut self.metas);
        #[cfg(not(linux_api))]
        {
            let mut rooms = rooms;
            let mut slices: [io::IoSliceMut<'_>; RECV_MESSAGES] =
                std::array::from_fn(|_| io::IoSliceMut::new(rooms.next().unwrap_or_default()));
            self.kernel.state.recv(
                UdpSockRef::from(&*self.kernel.socket),
                &mut slices[..self.ask],
                &mut self.metas,
            )
        }
    }

    fn note(&mut self, sent: io::Result<()>) {
        if let Err(error) = sent {
            self.fatal = Some(SocketError::Send(error));
        }
    }
}

impl DatagramIo for UdpIo {
    type Peer = Remote;

    fn recv(&mut self) -> Option<Received<'_, Remote>> {
        if self.next == self.filled && !self.fill() {
            return None;
        }
        let index = self.next;
        self.next += 1;
        let meta = &self.metas[index];
        let start = index * MESSAGE_BYTES;
        let datagrams = datagrams(meta);
        self.stats.received += datagrams as u64;
        self.stats.received_messages += 1;
        if let Some(occupancy) = &self.occupancy {
            occupancy.remove(datagrams, meta.len);
        }
        let stamped = self.read_at.arrival(meta.timestamp);
        let at = self.last_arrival.map_or(stamped, |last| last.max(stamped));
        self.last_arrival = Some(at);
        Some(Received {
            peer: Remote { addr: meta.addr, local: meta.dst_ip },
            bytes: &mut self.slab[start..start + meta.len],
            stride: meta.stride,
            ecn: meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8)),
            at,
        })
    }

    fn take_refused(&mut self) -> Option<(Remote, u64)> {
        let (addr, reports) = self.kernel.refused.get_mut().take()?;
        Some((addr.into(), reports))
    }

    #[cfg(linux_api)]
    fn take_overflow(&mut self) -> u64 {
        let told = self.headers.overflow;
        u64::from(told.wrapping_sub(std::mem::replace(&mut self.overflow, told)))
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        if self.send_batch.is_stuck() {
            let sent = self.send_batch.resume(&self.kernel, &mut self.stats);
            self.note(sent);
            if self.send_batch.is_stuck() {
                return None;
            }
        }
        Some(self.send_batch.open(&self.kernel))
    }

    fn flush(&mut self, peer: Remote) {
        let sent = self.send_batch.send(&self.kernel, &mut self.stats, peer);
        self.note(sent);
    }

    fn leave(&mut self) {
        self.send_batch.leave();
    }

    fn present(&self, _: Instant) -> Instant {
        clock::now()
    }
}

fn datagrams(meta: &RecvMeta) -> usize {
    meta.len.div_ceil(meta.stride.max(1)).max(1)
}
