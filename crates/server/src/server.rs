//! [`Server`]: a [`Listener`] behind the emulated paths of its peers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use rdt_emulator::{self as emulator, DelayHistogram, Delivery, Direction, Ledger, child_seed};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::wire::{FromSender, LinkWanted};
use rdt_transport::{
    Admission, Ecn, Endpoint, Listener, MAX_HALF_OPEN_PEERS, ReceiverEvent, TransmitBuf, one_by_one,
};

use crate::link_memory::LinkMemory;
use crate::path::PeerPath;
use crate::{LinkMode, ServerConfig};

/// Limit on the pool of unused packet buffers.
const MAX_POOLED_BUFFERS: usize = 256;
/// Limit on the datagrams that wait for the socket. Further datagrams are dropped.
const MAX_OUTGOING: usize = 16 * 1024;
/// Limit on the memory of packets inside the links of half-open peers, bytes, and on its share of
/// the memory of all links.
const MAX_HALF_OPEN_LINK_MEMORY: u64 = 16 << 20;
const HALF_OPEN_SHARE: u64 = 4;

/// A datagram that waits for the socket: it has left its reverse link, or its peer has no path.
#[derive(Debug)]
struct Outgoing<P> {
    peer: P,
    ecn: Ecn,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Datagram<'a> {
    ecn: Ecn,
    bytes: &'a [u8],
}

/// Receivers of many peers. Each is behind the emulated path that the peer's first SYN requested,
/// if it requested one.
#[derive(Debug)]
pub struct Server<P> {
    config: ServerConfig,
    pub(crate) listener: Listener<P>,
    pub(crate) paths: BTreeMap<P, PeerPath>,
    /// Next wake-up of each path whose links contain packets, earliest first.
    wakeups: BTreeSet<(Instant, P)>,
    outgoing: VecDeque<Outgoing<P>>,
    events: VecDeque<(P, ReceiverEvent)>,
    pool: Vec<Vec<u8>>,
    /// Memory of the packets inside all links, bytes.
    link_memory: u64,
    pub(crate) max_link_memory: u64,
    /// Limit on the links of connected peers, and of half-open ones.
    connected_links: LinkMemory,
    half_open_links: LinkMemory,
    /// Number of peers admitted so far.
    connections: u64,
    pub(crate) outgoing_dropped: u64,
    pub(crate) lateness: DelayHistogram,
    /// Sums of the ledgers of removed paths.
    pub(crate) removed_forward: Ledger,
    pub(crate) removed_reverse: Ledger,
}

impl<P: Copy + Ord + Debug + Hash> Server<P> {
    /// Creates a server without peers.
    pub fn new(config: ServerConfig) -> Self {
        let half_open = (config.link_memory_limit / HALF_OPEN_SHARE).min(MAX_HALF_OPEN_LINK_MEMORY);
        Self {
            listener: Listener::new(config.listener),
            connected_links: LinkMemory::new(config.link_memory_limit, config.listener.max_peers),
            half_open_links: LinkMemory::new(half_open, MAX_HALF_OPEN_PEERS),
            config,
            paths: BTreeMap::new(),
            wakeups: BTreeSet::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            pool: Vec::new(),
            link_memory: 0,
            max_link_memory: 0,
            connections: 0,
            outgoing_dropped: 0,
            lateness: DelayHistogram::default(),
            removed_forward: Ledger::default(),
            removed_reverse: Ledger::default(),
        }
    }

    /// Returns the listener behind the paths.
    pub fn listener(&self) -> &Listener<P> {
        &self.listener
    }

    /// Limits the number of peers of one source ([`Listener::limit_sources`]).
    pub fn limit_sources(&mut self, source_of: fn(&P) -> u64) {
        self.listener.limit_sources(source_of);
    }

    /// Returns contiguous unread bytes of `peer`, in order. Empty only if no byte is unread.
    pub fn data(&self, peer: P) -> &[u8] {
        self.listener.data(peer)
    }

    /// Consumes the first `n` bytes of [`Server::data`].
    pub fn consume(&mut self, peer: P, n: usize) {
        self.listener.consume(peer, n);
    }

    /// Lets the receiver answer the FIN of `peer`: the application has stored the transfer.
    pub fn confirm(&mut self, now: Instant, peer: P) {
        self.listener.confirm(peer);
        self.route_replies(now);
    }

    /// Removes `peer`, whose transfer cannot be stored, with its path. Sends a CLOSE with the
    /// reason if it is native.
    pub fn refuse(&mut self, peer: P, reason: CloseReason) {
        self.listener.refuse(peer, reason);
        self.absorb_events();
    }

    /// Removes all native peers with unfinished transfers and sends each a CLOSE, at shutdown. The
    /// CLOSEs bypass the links, because the program may end before links would deliver them.
    pub fn abort_unfinished(&mut self) {
        self.listener.refuse_unfinished(CloseReason::Aborted);
        self.absorb_events();
    }

    /// Rejects new peers from now on. Existing peers stay connected.
    pub fn refuse_new(&mut self) {
        self.listener.refuse_new();
    }

    /// Returns the time until which `peer` may still retransmit a packet whose answer was lost. Its
    /// first timeout is three RTTs, or `spare` on a path without delay. `None` if the peer is
    /// unknown.
    pub fn quiet_at(&self, peer: P, spare: Duration) -> Option<Instant> {
        let rtt = self.paths.get(&peer).map_or(Duration::ZERO, |p| p.rtt);
        self.listener.last_active(peer).map(|at| at + 3 * rtt + spare)
    }

    /// Returns the ledgers of the forward and the reverse link of `peer`. `None` without a path.
    pub fn path_ledgers(&self, peer: P) -> Option<(&Ledger, &Ledger)> {
        self.paths.get(&peer).map(|p| (p.path.forward.ledger(), p.path.reverse.ledger()))
    }

    /// Returns whether links are emulated, which requires that the caller polls on time.
    pub fn is_emulating(&self) -> bool {
        self.config.link != LinkMode::None
    }

    /// Returns the memory of receivers and of packets inside links, bytes.
    pub fn memory(&self) -> u64 {
        self.listener.memory() + self.link_memory
    }

    /// Pushes a datagram into the forward link of its peer. The SYN of a new peer creates its path.
    fn enter(&mut self, now: Instant, peer: P, datagram: Datagram<'_>, seed: u64) {
        let Some(packet) = self.listener.inspect(now, peer, datagram.bytes) else {
            // The listener may have answered with a stateless reply.
            return self.route_replies(now);
        };
        if let FromSender::Syn(open) = packet {
            let admission = self.listener.admit(now, peer, &open);
            // Removes the path of a half-open peer at this address before the new one is added.
            self.absorb_events();
            match admission {
                Admission::New => self.add_path(now, peer, open.link, seed),
                Admission::Known => {}
                // An address that is not connected has no path, so the reply bypasses the links.
                Admission::Refused | Admission::Unproven => return self.route_replies(now),
            }
        }
        let Some(path) = self.paths.get_mut(&peer) else {
            self.listener.deliver(now, peer, datagram.ecn, &packet);
            self.absorb_events();
            return self.route_replies(now);
        };
        path.last_arrival = now;
        self.listener.touch(now, peer);
        let packet = self.packet(datagram);
        self.push(now, peer, packet, Direction::Forward);
    }

    /// Adds the path of a new peer, if its SYN requests one.
    fn add_path(&mut self, now: Instant, peer: P, wanted: Option<LinkWanted>, seed: u64) {
        // The first path uses `seed` itself, so it loses the same packets as any other single path
        // with this seed, as in `rdt-emu sim`.
        let seed = match self.connections {
            0 => seed,
            n => child_seed(seed, n),
        };
        self.connections += 1;
        let Some(wanted) = wanted else { return };
        let mut path = PeerPath::new(now, wanted, self.config.peer_link_memory_limit, seed);
        path.half_open = self.listener.is_half_open(peer);
        self.paths.insert(peer, path);
    }

    /// True if `peer` is known and has no path.
    fn is_direct(&self, peer: P) -> bool {
        !self.is_emulating() || self.listener.wire(peer).is_some() && !self.paths.contains_key(&peer)
    }

    fn packet(&mut self, datagram: Datagram<'_>) -> emulator::Packet {
        let mut bytes = self.pool.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(datagram.bytes);
        emulator::Packet::from(bytes).with_ecn(datagram.ecn)
    }

    /// Pushes a packet into a link, whose memory it limits to the floor of the path and what the
    /// other paths leave.
    fn push(&mut self, now: Instant, peer: P, packet: emulator::Packet, direction: Direction) {
        let Some(entry) = self.paths.get_mut(&peer) else { return self.recycle(packet.bytes) };
        let memory = if entry.half_open { &mut self.half_open_links } else { &mut self.connected_links };
        let before = entry.held_bytes();
        let link = entry.path.link_mut(direction);
        let opposite = before - link.held_bytes();
        let most = memory.limit_of(before).saturating_sub(opposite);
        link.set_memory_limit(self.config.peer_link_memory_limit.min(most));
        let dropped = entry.path.push(direction, now, packet).err();
        // May be less than `before`: a drop-head queue drops packets for a new one.
        let held = entry.held_bytes();
        memory.update(before, held);
        self.link_memory = self.link_memory - before + held;
        self.max_link_memory = self.max_link_memory.max(self.link_memory);
        if let Some(dropped) = dropped {
            self.recycle(dropped.packet);
        }
        self.schedule(peer);
    }

    /// Updates `wakeups` to the next wake-up of the links of `peer`.
    fn schedule(&mut self, peer: P) {
        let Some(entry) = self.paths.get_mut(&peer) else { return };
        let wanted = match (entry.path.forward.next_wakeup(), entry.path.reverse.next_wakeup()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if wanted != entry.wakeup {
            if let Some(old) = entry.wakeup {
                self.wakeups.remove(&(old, peer));
            }
            if let Some(new) = wanted {
                self.wakeups.insert((new, peer));
            }
            entry.wakeup = wanted;
        }
    }

    /// Handles all deliveries due by `now` in order, each with its due time as the current time.
    fn advance(&mut self, now: Instant) {
        while let Some(&(due, peer)) = self.wakeups.first()
            && due <= now
        {
            if self.has_silent_sender(due, peer) {
                self.listener.close(peer);
                self.absorb_events();
                self.remove_path(peer);
                continue;
            }
            self.leave_forward(due, peer);
            self.leave_reverse(due, peer, now);
            self.schedule(peer);
        }
    }

    /// True if no packet has arrived from the sender for so long that its links must not keep it:
    /// a slow link may hold packets for years.
    fn has_silent_sender(&self, now: Instant, peer: P) -> bool {
        let listener = &self.config.listener;
        let is_silent =
            |path: &PeerPath| now.saturating_duration_since(path.last_arrival) > listener.native_idle;
        !listener.receiver.faithful && self.paths.get(&peer).is_some_and(is_silent)
    }

    fn leave_forward(&mut self, due: Instant, peer: P) {
        while let Some(delivery) = self.pop(due, peer, Direction::Forward) {
            self.listener.deliver_datagram(due, peer, delivery.ecn, &delivery.packet);
            self.recycle(delivery.packet);
            self.route_replies(due);
        }
    }

    fn leave_reverse(&mut self, due: Instant, peer: P, now: Instant) {
        while let Some(delivery) = self.pop(due, peer, Direction::Reverse) {
            self.listener.touch(due, peer);
            self.lateness.record(now.saturating_duration_since(due));
            self.put_out(Outgoing { peer, ecn: delivery.ecn, bytes: delivery.packet });
        }
    }

    fn put_out(&mut self, outgoing: Outgoing<P>) {
        if self.outgoing.len() < MAX_OUTGOING {
            self.outgoing.push_back(outgoing);
        } else {
            self.outgoing_dropped += 1;
            self.recycle(outgoing.bytes);
        }
    }

    fn pop(&mut self, now: Instant, peer: P, direction: Direction) -> Option<Delivery> {
        let entry = self.paths.get_mut(&peer)?;
        let before = entry.held_bytes();
        let delivery = entry.path.link_mut(direction).pop(now);
        let held = entry.held_bytes();
        let memory = if entry.half_open { &mut self.half_open_links } else { &mut self.connected_links };
        memory.update(before, held);
        self.link_memory = self.link_memory - before + held;
        delivery
    }

    /// Moves the listener's replies into the reverse links, or `outgoing` for peers without a path.
    fn route_replies(&mut self, now: Instant) {
        if !self.listener.may_reply() || !self.is_emulating() {
            return;
        }
        while let Some((peer, reply)) = self.listener.poll_reply(now) {
            let mut bytes = self.pool.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(reply);
            if self.paths.contains_key(&peer) {
                // Sent as Not-ECT, because replies are not congestion-controlled.
                self.push(now, peer, bytes.into(), Direction::Reverse);
            } else {
                self.put_out(Outgoing { peer, ecn: Ecn::NotEct, bytes });
            }
        }
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.pool.len() < MAX_POOLED_BUFFERS {
            self.pool.push(buffer);
        }
    }

    /// Moves events from the listener to `events`, and removes the paths of removed peers.
    #[inline]
    fn absorb_events(&mut self) {
        while let Some((peer, event)) = self.listener.poll_event() {
            self.absorb(peer, event);
        }
    }

    #[inline(never)]
    fn absorb(&mut self, peer: P, event: ReceiverEvent) {
        match event {
            ReceiverEvent::Closed { .. } => {
                self.remove_path(peer);
                self.withdraw(peer);
            }
            ReceiverEvent::Dropped => return self.remove_path(peer),
            ReceiverEvent::Connected => self.connect_path(peer),
            ReceiverEvent::Started => self.withdraw(peer),
            _ => {}
        }
        self.events.push_back((peer, event));
    }

    /// Drops queued events about bytes that the listener has discarded.
    fn withdraw(&mut self, peer: P) {
        let void = |event| matches!(event, ReceiverEvent::Readable | ReceiverEvent::Finished { .. });
        self.events.retain(|(p, event)| *p != peer || !void(*event));
    }

    /// Counts the path of a peer that was half-open towards the limit of connected peers.
    fn connect_path(&mut self, peer: P) {
        let Some(entry) = self.paths.get_mut(&peer).filter(|entry| entry.half_open) else { return };
        entry.half_open = false;
        let held = entry.held_bytes();
        self.half_open_links.update(held, 0);
        self.connected_links.update(0, held);
    }

    fn remove_path(&mut self, peer: P) {
        let Some(entry) = self.paths.remove(&peer) else { return };
        if let Some(wakeup) = entry.wakeup {
            self.wakeups.remove(&(wakeup, peer));
        }
        let held = entry.held_bytes();
        let memory = if entry.half_open { &mut self.half_open_links } else { &mut self.connected_links };
        memory.update(held, 0);
        self.link_memory -= held;
        self.removed_forward.merge(&entry.path.forward.into_ledger());
        self.removed_reverse.merge(&entry.path.reverse.into_ledger());
    }
}

impl<P: Copy + Ord + Debug + Hash> Endpoint for Server<P> {
    type Peer = P;
    type Event = (P, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &mut [u8]) {
        match self.config.link {
            LinkMode::None => self.listener.handle_datagram(now, peer, ecn, datagram),
            // `handle_timeout` handles deliveries later. All input comes first, because the
            // socket's buffer is the one queue that the emulation does not model.
            LinkMode::Emulated { seed } => {
                self.enter(now, peer, Datagram { ecn, bytes: datagram }, seed);
            }
        }
    }

    fn handle_datagrams(
        &mut self,
        now: Instant,
        peer: P,
        ecn: Ecn,
        bytes: &mut [u8],
        stride: usize,
    ) -> usize {
        if self.is_direct(peer) {
            return self.listener.handle_datagrams(now, peer, ecn, bytes, stride);
        }
        one_by_one(self, now, peer, ecn, bytes, stride)
    }

    fn handle_overflow(&mut self, messages: u64) {
        self.listener.handle_overflow(messages);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.listener.handle_timeout(now);
        self.absorb_events();
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        if !self.is_emulating() {
            return self.listener.poll_transmit(now, out);
        }
        // Includes replies that no packet triggered: window updates and delayed ACKs.
        self.route_replies(now);
        let &Outgoing { peer, ecn, .. } = self.outgoing.front()?;
        let before = out.segments();
        out.set_ecn(ecn);
        while let Some(next) = self.outgoing.front()
            && (next.peer, next.ecn) == (peer, ecn)
            && let Some(slot) = out.slot(next.bytes.len())
        {
            slot.copy_from_slice(&next.bytes);
            if let Some(next) = self.outgoing.pop_front() {
                self.recycle(next.bytes);
            }
        }
        (out.segments() > before).then_some(peer)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let wakeup = self.wakeups.first().map(|(due, _)| *due);
        match (wakeup, self.listener.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn poll_event(&mut self) -> Option<(P, ReceiverEvent)> {
        self.absorb_events();
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests;
