//! A UDP socket with batched reads and writes. Owns the receive slab and the counters
//! of everything that the kernel granted, took and refused. Knows no protocol.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use rdt_transport::drive::{DatagramIo, Received};
use rdt_transport::{Ecn, FramePool, TransmitBuf};
use socket2::{Domain, Protocol, SockRef, Socket as RawSocket, Type};

use crate::clock::{self, Reading};
use crate::error::{ReadFailure, SendFailure, SocketError, classify_read};
use crate::outbox::{GivenUp, Kernel as _, Outbox, SendCall};
use crate::port::Port;
use crate::reports::Reports;
use crate::{Gauge, kernel, memory, send_many};

/// Messages read in one call.
const RECEIVE_BATCH: usize = 32;
/// Bytes of one message: what receive offload joins at most.
const MESSAGE: usize = 64 * 1024;
/// Messages that one call reads after some that were larger than [`LARGE`] on average: what was read is then still in the
/// cache when it is looked at.
const FEW: usize = 4;
/// Bytes.
const LARGE: usize = 16 * 1024;
/// Datagrams of a stream that are read one by one before they are answered; as many as come joined in one message.
const ANSWERED: usize = 32;
const _: () = assert!(RECEIVE_BATCH * MESSAGE <= 2 << 20, "the receive slab stays within 2 MiB");

/// What to ask the kernel for.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "switches, each of which a user may turn")]
pub struct UdpOptions {
    /// Bytes of buffer for what arrives.
    pub receive_buffer: usize,
    /// Bytes of buffer for what leaves.
    pub send_buffer: usize,
    /// Send with segmentation offload where the system has it.
    pub gso: bool,
    /// Receive with datagrams joined where the system does that.
    pub gro: bool,
    /// Lend large batches to the kernel where it sends by reference and the socket has one peer, in place of having
    /// them copied. It pays for a connection that has a processor and its cache for itself: among 64 in one thread
    /// copying is faster.
    pub by_reference: bool,
    /// Let other sockets of this user bind to the same port; the system spreads senders over them.
    pub share_port: bool,
}

impl Default for UdpOptions {
    /// 32 MiB each way (the kernel grants what its limits allow), offload on, batches copied.
    fn default() -> Self {
        Self {
            receive_buffer: 32 << 20,
            send_buffer: 32 << 20,
            gso: true,
            gro: true,
            by_reference: false,
            share_port: false,
        }
    }
}

/// How batches are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// How more than one datagram is sent at present.
    pub send_call: SendCall,
    /// Datagrams in one call at present.
    pub send_segments: usize,
    /// Large batches are lent to the kernel at present, not copied.
    pub by_reference: bool,
    /// Segments that one received message may hold; 1 without offload.
    pub receive_segments: usize,
    /// What was tried and is not any more.
    pub given_up: GivenUp,
}

impl Offload {
    /// Adds another socket's: what all of them can do at present, and what any gave up.
    pub fn merge(&mut self, other: &Self) {
        self.send_call = self.send_call.max(other.send_call);
        self.send_segments = self.send_segments.min(other.send_segments);
        self.by_reference &= other.by_reference;
        self.receive_segments = self.receive_segments.min(other.receive_segments);
        self.given_up.gso = self.given_up.gso.or(other.given_up.gso);
        self.given_up.sendmmsg = self.given_up.sendmmsg.or(other.given_up.sendmmsg);
    }
}

/// What a socket counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct UdpStats {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Of these, datagrams that were lent to the kernel and not copied.
    pub sent_by_reference: u64,
    /// Calls that sent them.
    pub send_calls: u64,
    /// Datagrams read.
    pub received: u64,
    /// Messages in which they came: receive offload joins many datagrams in one.
    pub received_messages: u64,
    /// Calls that read them.
    pub receive_calls: u64,
    /// Times that the socket was full; the batch was kept.
    pub blocked: u64,
    /// Datagrams lost because the kernel had no memory for them.
    pub lost_no_buffers: u64,
    /// Datagrams lost because they are longer than the interface can carry.
    pub lost_too_big: u64,
    /// Datagrams that could not be sent for another reason.
    pub lost_other: u64,
    /// Reports that a datagram found nobody at its destination, or no way there.
    pub unreachable: u64,
    /// Those of them that say that nobody listens.
    pub refused: u64,
    /// The newest of these says that there is no way there, and not that nobody listens; of several sockets, that of each
    /// which was told anything.
    pub no_way: bool,
    /// Messages that arrived and found the receive buffer full, where the system tells: lost in this host, not in the
    /// network. With receive offload a message is up to 64 datagrams, and how many they were nobody counts.
    pub receive_overflow: Option<u64>,
    /// Receive buffer granted, bytes. Linux grants twice what it was asked for, and charges more than a datagram's bytes.
    pub receive_buffer: usize,
    /// Receive buffer asked for, bytes.
    pub receive_buffer_asked: usize,
    /// Send buffer granted, bytes.
    pub send_buffer: usize,
}

impl UdpStats {
    /// Adds another socket's counts; buffer sizes are per socket and stay.
    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_by_reference += other.sent_by_reference;
        self.send_calls += other.send_calls;
        self.received += other.received;
        self.received_messages += other.received_messages;
        self.receive_calls += other.receive_calls;
        self.blocked += other.blocked;
        self.lost_no_buffers += other.lost_no_buffers;
        self.lost_too_big += other.lost_too_big;
        self.lost_other += other.lost_other;
        // A socket that was told nothing says nothing, and one that was refused found a way.
        let silent = |stats: &Self| stats.unreachable == 0;
        self.no_way = (self.no_way || silent(self) && other.no_way) && (other.no_way || silent(other));
        self.unreachable += other.unreachable;
        self.refused += other.refused;
        self.receive_overflow = self.receive_overflow.zip(other.receive_overflow).map(|(a, b)| a + b);
    }

    /// These came, after all others.
    pub(crate) fn note_reports(&mut self, reports: Reports) {
        self.unreachable += reports.count();
        self.refused += reports.refused;
        if reports.count() > 0 {
            self.no_way = reports.newest_no_way;
        }
    }

    /// So many datagrams will not arrive, for this reason.
    pub(crate) fn count_lost(&mut self, reason: SendFailure, datagrams: usize) {
        *match reason {
            SendFailure::NoBuffers => &mut self.lost_no_buffers,
            SendFailure::TooBig => &mut self.lost_too_big,
            _ => &mut self.lost_other,
        } += datagrams as u64;
    }
}

/// The other end of a datagram, and the address of this host that it used: an answer must come from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Remote {
    /// The peer's address.
    pub addr: SocketAddr,
    /// Ours; `None` leaves the choice to the system.
    pub local: Option<IpAddr>,
}

impl From<SocketAddr> for Remote {
    fn from(addr: SocketAddr) -> Self {
        Self { addr, local: None }
    }
}

/// A socket that talks to anybody.
pub struct UdpIo {
    port: Port,
    slab: Box<[u8]>,
    metas: [RecvMeta; RECEIVE_BATCH],
    #[cfg(target_os = "linux")]
    envelopes: Box<crate::receive_many::Envelopes>,
    /// Messages that found the buffer full, those that were handed on, modulo 2^32.
    #[cfg(target_os = "linux")]
    overflow: u32,
    /// Messages of the slab that hold something, and the next one to hand out.
    filled: usize,
    next: usize,
    /// The last read left nothing behind that is worth another look before an answer.
    drained: bool,
    /// Messages that the next call asks for.
    ask: usize,
    /// Datagrams that were read since there was nothing to read, or an answer was due.
    unanswered: usize,
    outbox: Outbox,
    by_reference: bool,
    gro: bool,
    stats: UdpStats,
    fatal: Option<SocketError>,
    /// When the messages in the slab were read.
    read_at: Reading,
    /// When the newest message handed out arrived.
    last_arrival: Option<Instant>,
    gauge: Option<Arc<Gauge>>,
}

impl UdpIo {
    /// Binds a socket. An IPv6 wildcard takes IPv4 too.
    ///
    /// # Errors
    /// [`SocketError::Bind`] when the address is taken or not this machine's.
    pub fn bind(address: SocketAddr, options: UdpOptions) -> Result<Self, SocketError> {
        Self::try_bind(address, options).map_err(|error| SocketError::Bind { address, error })
    }

    fn try_bind(address: SocketAddr, options: UdpOptions) -> io::Result<Self> {
        let raw = RawSocket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            // Where the system has no dual-stack sockets, IPv6 alone is served.
            let _ = raw.set_only_v6(false);
        }
        #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
        raw.set_reuse_port(options.share_port)?;
        raw.bind(&address.into())?;
        request_buffers(&raw, &options);
        let socket: UdpSocket = raw.into();
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        kernel::allow_fragments(&socket);
        kernel::report_overflow(&socket);
        let gro = options.gro || !kernel::disable_receive_offload(&socket);
        let stats = UdpStats {
            receive_buffer: SockRef::from(&socket).recv_buffer_size().unwrap_or(0),
            receive_buffer_asked: options.receive_buffer,
            send_buffer: SockRef::from(&socket).send_buffer_size().unwrap_or(0),
            ..UdpStats::default()
        };
        Ok(Self {
            port: Port::new(socket, state),
            by_reference: options.by_reference,
            slab: memory::zeroed(RECEIVE_BATCH * MESSAGE)?,
            metas: [RecvMeta::default(); RECEIVE_BATCH],
            #[cfg(target_os = "linux")]
            envelopes: crate::receive_many::Envelopes::new(),
            #[cfg(target_os = "linux")]
            overflow: 0,
            filled: 0,
            next: 0,
            drained: false,
            ask: RECEIVE_BATCH,
            unanswered: 0,
            outbox: Outbox::new(options.gso, send_many::AVAILABLE),
            gro,
            stats,
            fatal: None,
            read_at: Reading::take(),
            last_arrival: None,
            gauge: None,
        })
    }

    /// Asks the kernel to report datagrams that found nobody at their destination, where it can: they count
    /// as [`UdpStats::unreachable`]. A server does not ask: its peers could fill its buffer with reports.
    pub fn report_unreachable(&mut self) {
        self.port.report_unreachable();
    }

    /// A gauge of what waits in this socket's receive buffer, for a sender in the same process.
    pub fn gauge(&mut self) -> Arc<Gauge> {
        let gauge = Arc::new(Gauge::new(self.stats.receive_buffer));
        self.gauge = Some(Arc::clone(&gauge));
        gauge
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.port.socket.local_addr()
    }

    /// The socket itself, to wait on.
    pub fn socket(&self) -> Arc<UdpSocket> {
        Arc::clone(&self.port.socket)
    }

    /// Counters as they stand.
    pub fn stats(&self) -> UdpStats {
        UdpStats { receive_overflow: kernel::receive_overflow(&self.port.socket), ..self.stats }
    }

    /// How batches are moved at present; offload may vanish in the middle of a run.
    pub fn offload(&self) -> Offload {
        Offload {
            send_call: self.outbox.call(&self.port),
            send_segments: self.outbox.max_segments(&self.port),
            by_reference: self.outbox.lends(),
            receive_segments: if self.gro { self.port.state.gro_segments() } else { 1 },
            given_up: self.outbox.given_up(),
        }
    }

    /// The error that ended this socket's use, once.
    pub fn take_error(&mut self) -> Option<SocketError> {
        self.fatal.take()
    }

    /// Reads the next messages into the slab; false if there are none.
    fn fill(&mut self) -> bool {
        self.next = 0;
        self.filled = 0;
        if std::mem::take(&mut self.drained) {
            self.unanswered = 0;
            return false;
        }
        // Each refusal takes one report off the socket, so a few tries get past them.
        for _ in 0..4 {
            match self.read_messages() {
                Ok(count) => {
                    self.filled = count;
                    self.unanswered += self.metas[..count].iter().map(datagrams).sum::<usize>();
                    // What was read short was read empty: what there is to answer goes first, and the next turn looks
                    // again. But of a stream more came meanwhile, and an answer to each few costs both sides more.
                    let streams = (2..ANSWERED).contains(&self.unanswered);
                    self.drained = count < self.ask && !streams;
                    let bytes: usize = self.metas[..count].iter().map(|meta| meta.len).sum();
                    self.ask = if bytes > count * LARGE { FEW } else { RECEIVE_BATCH };
                    self.read_at = Reading::take();
                    self.stats.receive_calls += 1;
                    return count > 0;
                }
                Err(e) => match classify_read(&e) {
                    ReadFailure::WouldBlock => {
                        self.unanswered = 0;
                        if let Some(gauge) = &self.gauge {
                            gauge.on_empty();
                        }
                        return false;
                    }
                    ReadFailure::Unreachable => self.stats.note_reports(self.port.drain_reports(Some(&e))),
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
        let rooms = self.slab.chunks_exact_mut(MESSAGE).take(self.ask);
        #[cfg(target_os = "linux")]
        return self.envelopes.receive(&self.port.socket, rooms, &mut self.metas);
        #[cfg(not(target_os = "linux"))]
        {
            let mut rooms = rooms;
            let mut slices: [io::IoSliceMut<'_>; RECEIVE_BATCH] =
                std::array::from_fn(|_| io::IoSliceMut::new(rooms.next().unwrap_or_default()));
            self.port.state.recv(
                UdpSockRef::from(&*self.port.socket),
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
        let start = index * MESSAGE;
        let datagrams = datagrams(meta);
        self.stats.received += datagrams as u64;
        self.stats.received_messages += 1;
        if let Some(gauge) = &self.gauge {
            gauge.take(datagrams, meta.len);
        }
        let stamped = self.read_at.arrival(meta.timestamp);
        let at = self.last_arrival.map_or(stamped, |last| last.max(stamped));
        self.last_arrival = Some(at);
        Some(Received {
            peer: Remote { addr: meta.addr, local: meta.dst_ip },
            bytes: &self.slab[start..start + meta.len],
            stride: meta.stride,
            ecn: meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8)),
            at,
        })
    }

    #[cfg(target_os = "linux")]
    fn take_overflow(&mut self) -> u64 {
        let told = self.envelopes.overflow;
        u64::from(told.wrapping_sub(std::mem::replace(&mut self.overflow, told)))
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        if self.outbox.is_stuck() {
            let sent = self.outbox.resume(&self.port, &mut self.stats);
            self.note(sent);
            if self.outbox.is_stuck() {
                return None;
            }
        }
        Some(self.outbox.open(&self.port))
    }

    fn flush(&mut self, peer: Remote) {
        let sent = self.outbox.send(&self.port, &mut self.stats, peer);
        self.note(sent);
    }

    fn leave(&mut self) {
        self.outbox.leave();
    }

    fn present(&self, _: Instant) -> Instant {
        clock::now()
    }
}

/// A socket that talks to one peer: datagrams of others are dropped and counted.
pub struct Connected {
    io: UdpIo,
    peer: SocketAddr,
    strangers: u64,
    gauge: Option<Arc<Gauge>>,
    /// Of [`UdpStats::refused`], those that were handed on.
    refused: u64,
}

impl Connected {
    /// Uses `io` for `peer` alone.
    pub fn new(mut io: UdpIo, peer: SocketAddr) -> Self {
        io.report_unreachable();
        io.port.set_one_peer();
        Self { io, peer, strangers: 0, gauge: None, refused: 0 }
    }

    /// Sends no more than `gauge` has room for: its other side is the peer's socket, in this process.
    pub fn limit(&mut self, gauge: Arc<Gauge>) {
        self.gauge = Some(gauge);
    }

    /// Memory for the sender that this socket is for ([`Sender::with_memory`](rdt_transport::Sender::with_memory)): what is
    /// written there leaves without a copy, where the kernel and [`UdpOptions`] allow it.
    pub fn memory(&mut self) -> FramePool {
        if self.io.by_reference { self.io.outbox.memory() } else { FramePool::new() }
    }

    /// The socket.
    pub fn io(&self) -> &UdpIo {
        &self.io
    }

    /// The error that ended this socket's use, once.
    pub fn take_error(&mut self) -> Option<SocketError> {
        self.io.take_error()
    }

    /// Messages of others than the peer.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }
}

impl DatagramIo for Connected {
    type Peer = ();

    fn recv(&mut self) -> Option<Received<'_, ()>> {
        loop {
            if self.io.next == self.io.filled && !self.io.fill() {
                return None;
            }
            if same_address(self.io.metas[self.io.next].addr, self.peer) {
                break;
            }
            self.io.next += 1;
            self.strangers += 1;
        }
        self.io.recv().map(|batch| Received {
            peer: (),
            bytes: batch.bytes,
            stride: batch.stride,
            ecn: batch.ecn,
            at: batch.at,
        })
    }

    fn take_refused(&mut self) -> u64 {
        let refused = self.io.stats.refused;
        refused - std::mem::replace(&mut self.refused, refused)
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        if self.gauge.as_ref().is_some_and(|gauge| gauge.is_full()) {
            std::thread::yield_now();
            return None;
        }
        self.io.transmit_buf()
    }

    fn flush(&mut self, (): ()) {
        if let Some(gauge) = &self.gauge {
            let batch = self.io.outbox.batch();
            gauge.put(batch.segments(), batch.bytes().len());
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

/// Datagrams in a message.
fn datagrams(meta: &RecvMeta) -> usize {
    meta.len.div_ceil(meta.stride.max(1)).max(1)
}

/// The kernel grants what it allows; what that was is in the statistics. A receiver's buffer that is smaller
/// than its senders' windows overflows whenever the receiver is not scheduled for a moment, so where the
/// process may exceed the system's limit, it does.
fn request_buffers(socket: &RawSocket, options: &UdpOptions) {
    let _ = socket.set_send_buffer_size(options.send_buffer);
    #[cfg(target_os = "linux")]
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, options.receive_buffer).is_ok() {
        return;
    }
    let _ = socket.set_recv_buffer_size(options.receive_buffer);
}

/// IPv6 addresses carry a scope and a flow label, which the sender of a reply need not repeat.
fn same_address(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.ip().to_canonical() == b.ip().to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_found_no_way_if_each_that_was_told_anything_found_none() {
        let told = |unreachable, no_way| UdpStats { unreachable, no_way, ..UdpStats::default() };
        let merged = |mut a: UdpStats, b: UdpStats| {
            a.merge(&b);
            (a.unreachable, a.no_way)
        };
        assert_eq!(merged(told(1, true), told(0, false)), (1, true));
        assert_eq!(merged(told(0, false), told(2, true)), (2, true));
        assert_eq!(merged(told(1, true), told(2, true)), (3, true));
        assert_eq!(merged(told(1, true), told(1, false)), (2, false));
        assert_eq!(merged(told(1, false), told(1, true)), (2, false));
        assert_eq!(merged(told(0, false), told(0, false)), (0, false));
    }

    #[test]
    fn sockets_together_do_what_the_weakest_does() {
        let able = Offload {
            send_call: SendCall::Gso,
            send_segments: 64,
            by_reference: true,
            receive_segments: 64,
            given_up: GivenUp::default(),
        };
        let given_up = GivenUp { gso: Some(22), sendmmsg: None };
        let weak = Offload { send_call: SendCall::Sendmmsg, by_reference: false, given_up, ..able };
        let weaker = Offload { send_call: SendCall::Single, send_segments: 1, receive_segments: 1, ..able };
        for mut order in [[able, weak, weaker], [weaker, able, weak], [weak, weaker, able]] {
            let [total, others @ ..] = &mut order;
            for other in others {
                total.merge(other);
            }
            assert_eq!(*total, Offload { given_up, by_reference: false, ..weaker });
        }
    }
}
