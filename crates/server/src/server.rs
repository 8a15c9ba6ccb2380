//! The machine: a [`Listener`] behind the paths of its peers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use rdt_emulator::{
    self as emulator, Bitrate, ClassicLink, DelayHistogram, Delivery, Direction, Ledger, Loss, Path,
    PathConfig, Probability, QueueLimit, child_seed,
};
use rdt_transport::wire::native::{CloseReason, LinkRequest};
use rdt_transport::wire::{LinkWanted, Packet};
use rdt_transport::{
    Admission, Ecn, Endpoint, LinkProperties, Listener, ReceiverEvent, TransmitBuf, one_by_one,
};

use crate::{LinkMode, ServerConfig, ServerStats};

/// Buffers of packets that left a link, kept for the next ones.
const POOL: usize = 256;
/// Datagrams that wait for the socket; a socket that takes none for longer loses the newest.
const MAX_OUTGOING: usize = 16 * 1024;

/// One peer's path and when it next needs attention.
#[derive(Debug)]
struct PeerPath {
    path: Path,
    rtt: Duration,
    wakeup: Option<Instant>,
}

/// A datagram that left its link, or never entered one, and waits for the socket.
#[derive(Debug)]
struct Outgoing<P> {
    peer: P,
    ecn: Ecn,
    bytes: Vec<u8>,
}

/// What arrived from a peer.
#[derive(Debug, Clone, Copy)]
struct Datagram<'a> {
    ecn: Ecn,
    bytes: &'a [u8],
}

/// Receivers of many peers, each behind the path that its peer asked for.
#[derive(Debug)]
pub struct Server<P> {
    config: ServerConfig,
    listener: Listener<P>,
    paths: BTreeMap<P, PeerPath>,
    wakeups: BTreeSet<(Instant, P)>,
    outgoing: VecDeque<Outgoing<P>>,
    events: VecDeque<(P, ReceiverEvent)>,
    pool: Vec<Vec<u8>>,
    link_memory: u64,
    max_link_memory: u64,
    connections: u64,
    outgoing_dropped: u64,
    lateness: DelayHistogram,
    gone_forward: Ledger,
    gone_reverse: Ledger,
}

impl<P: Copy + Ord + Debug + Hash> Server<P> {
    /// A server without peers.
    pub fn new(config: ServerConfig) -> Self {
        Self {
            listener: Listener::new(config.listener),
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
            gone_forward: Ledger::default(),
            gone_reverse: Ledger::default(),
        }
    }

    /// The receivers.
    pub fn listener(&self) -> &Listener<P> {
        &self.listener
    }

    /// In-order bytes of `peer` that were not consumed.
    pub fn data(&self, peer: P) -> &[u8] {
        self.listener.data(peer)
    }

    /// Takes the first `n` bytes of [`Server::data`] as read.
    pub fn consume(&mut self, peer: P, n: usize) {
        self.listener.consume(peer, n);
    }

    /// Answers the FIN of `peer`: the application has stored its transfer.
    pub fn confirm(&mut self, now: Instant, peer: P) {
        self.listener.confirm(peer);
        self.route_replies(now);
    }

    /// Forgets `peer` and what is on its path: its transfer cannot be stored.
    pub fn close(&mut self, peer: P) {
        self.listener.refuse(peer, CloseReason::Storage);
        self.absorb_events();
    }

    /// Forgets everybody whose transfer is unfinished and that can be told: the application ends. The news leaves past the
    /// links, for which there may be no time.
    pub fn abort_unfinished(&mut self) {
        self.listener.refuse_unfinished(CloseReason::Aborted);
        self.absorb_events();
    }

    /// Nobody becomes a peer any more; those who are stay.
    pub fn refuse_new(&mut self) {
        self.listener.refuse_new();
    }

    /// Until when `peer` may still ask again for an answer that was lost, if `spare` is as long as it waits on
    /// a path that takes no time: its first timeout is three round trips.
    pub fn quiet_at(&self, peer: P, spare: Duration) -> Option<Instant> {
        let rtt = self.paths.get(&peer).map_or(Duration::ZERO, |p| p.rtt);
        self.listener.last_active(peer).map(|at| at + 3 * rtt + spare)
    }

    /// What happened so far on the path of `peer`: its forward and its reverse ledger.
    pub fn path_ledgers(&self, peer: P) -> Option<(&Ledger, &Ledger)> {
        self.paths.get(&peer).map(|p| (p.path.forward.ledger(), p.path.reverse.ledger()))
    }

    /// True if the server asks for punctual calls: links emulate times.
    pub fn is_emulating(&self) -> bool {
        self.config.link != LinkMode::None
    }

    /// Memory in use, in bytes: reassembly and links.
    pub fn memory(&self) -> u64 {
        self.listener.memory() + self.link_memory
    }

    /// Counters as they stand.
    pub fn stats(&self) -> ServerStats {
        let (mut forward, mut reverse) = (self.gone_forward, self.gone_reverse);
        for peer in self.paths.values() {
            forward.merge(peer.path.forward.ledger());
            reverse.merge(peer.path.reverse.ledger());
        }
        ServerStats {
            listener: self.listener.stats(),
            forward,
            reverse,
            lateness: self.lateness.clone(),
            max_link_memory: self.max_link_memory,
            outgoing_dropped: self.outgoing_dropped,
        }
    }

    /// A datagram enters its peer's forward link.
    fn enter(&mut self, now: Instant, peer: P, datagram: Datagram<'_>, seed: u64) {
        let Some(packet) = self.listener.inspect(now, peer, datagram.bytes) else {
            // It may be told why.
            return self.route_replies(now);
        };
        if let Packet::Syn(open) = packet {
            match self.listener.admit(now, peer, &open) {
                Admission::New => self.lay_path(peer, open.link, seed),
                Admission::Known => {}
                // An answer to a stranger does not pass a link that is laid for those who are known.
                Admission::Refused | Admission::Unproven => return self.route_replies(now),
            }
        }
        self.listener.touch(now, peer);
        self.absorb_events();
        let packet = self.packet(datagram);
        self.push(now, peer, packet, Direction::Forward);
    }

    fn lay_path(&mut self, peer: P, wanted: Option<LinkWanted>, seed: u64) {
        let memory = self.config.peer_link_memory_limit;
        let (rtt, config) = match wanted {
            Some(LinkWanted::Packets(link)) => classic_path(&link, memory),
            Some(LinkWanted::Bytes(link)) => path_by_bytes(&link, memory),
            None => (Duration::ZERO, PathConfig::default()),
        };
        // The first draws as a link of its own with this seed does: its packet n has the fate of packet n there.
        let seed = match self.connections {
            0 => seed,
            n => child_seed(seed, n),
        };
        let path = Path::new(config, seed);
        self.connections += 1;
        self.paths.insert(peer, PeerPath { path, rtt, wakeup: None });
    }

    /// A copy to be put on a link.
    fn packet(&mut self, datagram: Datagram<'_>) -> emulator::Packet {
        let mut bytes = self.pool.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(datagram.bytes);
        emulator::Packet::from(bytes).with_ecn(emulator::Ecn::from_bits(datagram.ecn.bits()))
    }

    /// Pushes into one link of a path, within the memory that all links share.
    fn push(&mut self, now: Instant, peer: P, packet: emulator::Packet, direction: Direction) {
        let Some(entry) = self.paths.get_mut(&peer) else { return self.recycle(packet.bytes) };
        let link = entry.path.link_mut(direction);
        let before = link.held_bytes();
        let free = self.config.link_memory_limit.saturating_sub(self.link_memory - before);
        link.set_memory_limit(self.config.peer_link_memory_limit.min(free));
        let dropped = entry.path.push(direction, now, packet).err();
        // Less than before where the packet drove others out.
        let held = entry.path.link_mut(direction).held_bytes();
        self.link_memory = self.link_memory - before + held;
        self.max_link_memory = self.max_link_memory.max(self.link_memory);
        if let Some(dropped) = dropped {
            self.recycle(dropped.packet);
        }
        self.schedule(peer);
    }

    /// Moves the wake-up of a path to where its links want it.
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

    /// Handles everything that is due by `now`, each at its own time and in the order of those times.
    fn advance(&mut self, now: Instant) {
        while let Some(&(due, peer)) = self.wakeups.first()
            && due <= now
        {
            self.leave_forward(due, peer);
            self.leave_reverse(due, peer, now);
            self.schedule(peer);
        }
    }

    fn leave_forward(&mut self, due: Instant, peer: P) {
        while let Some(delivery) = self.pop(due, peer, Direction::Forward) {
            self.listener.deliver_datagram(due, peer, codepoint(&delivery), &delivery.packet);
            self.recycle(delivery.packet);
            self.route_replies(due);
        }
    }

    fn leave_reverse(&mut self, due: Instant, peer: P, now: Instant) {
        while let Some(delivery) = self.pop(due, peer, Direction::Reverse) {
            self.listener.touch(due, peer);
            self.lateness.record(now.saturating_duration_since(due));
            self.put_out(Outgoing { peer, ecn: codepoint(&delivery), bytes: delivery.packet });
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
        let link = self.paths.get_mut(&peer)?.path.link_mut(direction);
        let before = link.held_bytes();
        let delivery = link.pop(now);
        self.link_memory -= before - link.held_bytes();
        delivery
    }

    /// Sends the listener's replies into their reverse links.
    fn route_replies(&mut self, now: Instant) {
        // Asked at every turn, and mostly there is none.
        if !self.listener.may_reply() || !self.is_emulating() {
            return;
        }
        while let Some((peer, reply)) = self.listener.poll_reply(now) {
            let mut bytes = self.pool.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(reply);
            if self.paths.contains_key(&peer) {
                // Nobody slows down for marks on replies.
                self.push(now, peer, bytes.into(), Direction::Reverse);
            } else {
                self.put_out(Outgoing { peer, ecn: Ecn::NotEct, bytes });
            }
        }
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.pool.len() < POOL {
            self.pool.push(buffer);
        }
    }

    /// Takes the listener's events over, and the path of a peer away with the peer.
    fn absorb_events(&mut self) {
        while let Some((peer, event)) = self.listener.poll_event() {
            match event {
                ReceiverEvent::Closed { .. } => {
                    self.tear_down(peer);
                    self.withdraw(peer);
                }
                ReceiverEvent::Started => self.withdraw(peer),
                _ => {}
            }
            self.events.push_back((peer, event));
        }
    }

    /// The bytes of which these tell are gone.
    fn withdraw(&mut self, peer: P) {
        let void = |event| matches!(event, ReceiverEvent::Readable | ReceiverEvent::Finished { .. });
        self.events.retain(|(p, event)| *p != peer || !void(*event));
    }

    fn tear_down(&mut self, peer: P) {
        let Some(entry) = self.paths.remove(&peer) else { return };
        if let Some(wakeup) = entry.wakeup {
            self.wakeups.remove(&(wakeup, peer));
        }
        self.link_memory -= entry.path.forward.held_bytes() + entry.path.reverse.held_bytes();
        self.gone_forward.merge(&entry.path.forward.into_ledger());
        self.gone_reverse.merge(&entry.path.reverse.into_ledger());
    }
}

impl<P: Copy + Ord + Debug + Hash> Endpoint for Server<P> {
    type Peer = P;
    type Event = (P, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &[u8]) {
        match self.config.link {
            LinkMode::None => self.listener.handle_datagram(now, peer, ecn, datagram),
            // What is due is handled in `handle_timeout`, each thing at its own time: taking datagrams off the
            // socket comes first, because the socket's buffer is the one queue that is in no model.
            LinkMode::Emulated { seed } => {
                self.enter(now, peer, Datagram { ecn, bytes: datagram }, seed);
            }
        }
    }

    fn handle_datagrams(&mut self, now: Instant, peer: P, ecn: Ecn, bytes: &[u8], stride: usize) -> usize {
        if self.config.link == LinkMode::None {
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
        // What no packet brought about: an application that reads on, an ACK that waited.
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

/// What a packet left its link with.
fn codepoint(delivery: &Delivery) -> Ecn {
    Ecn::from_bits(delivery.ecn.bits())
}

/// The path that a classic sender asks for.
fn classic_path(link: &LinkProperties, memory_limit: u64) -> (Duration, PathConfig) {
    let rtt = Duration::try_from_secs_f32(link.rtt_s).unwrap_or_default();
    let config = PathConfig::classic(ClassicLink {
        rtt,
        rate: Bitrate::from_bps_f64(f64::from(link.speed_bps)).unwrap_or(Bitrate::from_bps(1)),
        loss_forward: Probability::new(f64::from(link.loss_forward)).unwrap_or(Probability::ZERO),
        loss_reverse: Probability::new(f64::from(link.loss_reverse)).unwrap_or(Probability::ZERO),
        buffer: link.buffer,
        memory_limit,
    });
    (rtt, config)
}

/// The path that is asked for with a queue in bytes, which counts waiting packets only.
fn path_by_bytes(link: &LinkRequest, memory_limit: u64) -> (Duration, PathConfig) {
    let rtt = Duration::from_micros(u64::from(link.rtt_us));
    let probability = |ppb: u32| Probability::new(f64::from(ppb) / 1e9).unwrap_or(Probability::ZERO);
    let mut config = PathConfig::symmetric(rtt, Bitrate::from_bps(link.rate_bps));
    for (side, loss) in
        [(&mut config.forward, link.loss_forward_ppb), (&mut config.reverse, link.loss_reverse_ppb)]
    {
        side.loss = Loss::Bernoulli(probability(loss));
        side.queue = QueueLimit::bytes(link.queue_bytes);
        side.memory_limit = memory_limit;
    }
    (rtt, config)
}

#[cfg(test)]
mod tests;
