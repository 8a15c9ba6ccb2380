//! The receivers behind one socket: finds a datagram's receiver by its peer, admits new peers, bounds how
//! many there are and how much memory they hold together, removes idle ones. The only place in this crate
//! that sees a peer's address, and it sees an opaque key.

mod notices;
mod peers;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use notices::{Notice, Notices};
use peers::Peers;

use crate::cookie::CookieJar;
use crate::receiver::DEFAULT_IDLE;
use crate::wire::native::{self, CloseReason};
use crate::wire::{self, MAX_REPLY, Near, Open, Packet, Wire};
use crate::{Ecn, Endpoint, Receiver, ReceiverConfig, ReceiverEvent, ReceiverStats, TransmitBuf};

/// Limits of a listener, and the configuration of its receivers.
#[derive(Debug, Clone, Copy)]
pub struct ListenerConfig {
    /// Every receiver's configuration.
    pub receiver: ReceiverConfig,
    /// Peers at once; more are left unanswered.
    pub max_peers: usize,
    /// Bytes that all receivers together may hold, beyond holes or unread by the application. Of each, 128 KiB may be
    /// unread in any case.
    pub memory_limit: u64,
    /// The same for one receiver.
    pub peer_memory_limit: u64,
    /// A peer that is silent for this long is forgotten.
    pub idle: Duration,
    /// What the cookies are made with that prove a peer's address; nobody may guess it. Without one, transfers
    /// whose wire knows cookies are left unanswered.
    pub secret: Option<[u8; 32]>,
}

impl ListenerConfig {
    /// Default limits: 4096 peers, 512 MiB in all, 128 MiB a peer (which holds the 80,000 packets of 1464
    /// bytes that the reference accepts ahead), 25 s of silence.
    pub fn new(receiver: ReceiverConfig) -> Self {
        Self {
            receiver,
            max_peers: 4096,
            memory_limit: 512 << 20,
            peer_memory_limit: 128 << 20,
            idle: DEFAULT_IDLE,
            secret: None,
        }
    }
}

/// What a listener counted. Datagrams unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenerStats {
    /// Datagrams taken in.
    pub received: u64,
    /// Dropped: no packet of a sender.
    pub malformed: u64,
    /// Dropped: longer than the limit.
    pub too_long: u64,
    /// Dropped: data or FIN of a peer without a transfer.
    pub no_connection: u64,
    /// Dropped: a SYN while there were as many peers as allowed.
    pub refused: u64,
    /// SYNs that were asked for a cookie.
    pub retries: u64,
    /// Of the malformed: SYNs of other versions that were told which ones are spoken here.
    pub other_versions: u64,
    /// SYNs that were told nothing: too many others waited for their answer.
    pub unanswered: u64,
    /// Peers that were forgotten and not told why: too many others waited to be told.
    pub unsaid: u64,
    /// Peers admitted so far.
    pub admitted: u64,
    /// Largest number of peers at once.
    pub max_active: usize,
    /// Largest memory held by all receivers together, in bytes.
    pub max_memory: u64,
    /// Sums over the receivers, those that are gone included.
    pub receivers: ReceiverStats,
}

impl ListenerStats {
    /// Adds what another listener counted; the maxima are added up too.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.malformed += other.malformed;
        self.too_long += other.too_long;
        self.no_connection += other.no_connection;
        self.refused += other.refused;
        self.retries += other.retries;
        self.other_versions += other.other_versions;
        self.unanswered += other.unanswered;
        self.unsaid += other.unsaid;
        self.admitted += other.admitted;
        self.max_active += other.max_active;
        self.max_memory += other.max_memory;
        self.receivers.merge(&other.receivers);
    }
}

/// What to do with a SYN of a new peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The peer has a receiver now, and had none before.
    New,
    /// The peer had one.
    Known,
    /// There is no room.
    Refused,
    /// The peer is asked to prove its address first.
    Unproven,
}

#[derive(Debug)]
struct Entry {
    receiver: Receiver,
    /// The format and connection of its newest SYN.
    wire: Wire,
    last_active: Instant,
    /// Its time in `idle`.
    idle_at: Instant,
    /// In `ready`.
    queued: bool,
    /// Its time in `timers`.
    timer: Option<Instant>,
    memory: u64,
}

/// A set of receivers, one a peer.
#[derive(Debug)]
pub struct Listener<P> {
    config: ListenerConfig,
    peers: Peers<P, Entry>,
    /// One entry a peer, at or before the time at which it may be idle for too long. It is moved on only
    /// when it comes up, so a datagram costs nothing here.
    idle: BTreeSet<(Instant, P)>,
    /// When receivers want to be asked for a delayed ACK. A time may be too early, never too late.
    timers: BTreeSet<(Instant, P)>,
    /// The earliest of both, kept at hand because it is asked for far more often than it changes.
    deadline: Option<Instant>,
    /// Peers with replies to send, in turn.
    ready: VecDeque<P>,
    notices: Notices<P>,
    jar: Option<CookieJar>,
    /// The first time heard of: cookies count from it.
    epoch: Option<Instant>,
    /// A reply that did not fit the batch before.
    left_over: Option<(P, usize)>,
    scratch: Box<[u8; MAX_REPLY]>,
    events: VecDeque<(P, ReceiverEvent)>,
    memory: u64,
    /// Receivers that hold some of it.
    holders: u64,
    stats: ListenerStats,
    gone: ReceiverStats,
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// A listener without peers.
    pub fn new(config: ListenerConfig) -> Self {
        Self {
            jar: config.secret.map(CookieJar::new),
            config,
            peers: Peers::new(),
            idle: BTreeSet::new(),
            timers: BTreeSet::new(),
            deadline: None,
            ready: VecDeque::new(),
            notices: Notices::new(config.max_peers),
            epoch: None,
            left_over: None,
            scratch: Box::new([0; MAX_REPLY]),
            events: VecDeque::new(),
            memory: 0,
            holders: 0,
            stats: ListenerStats::default(),
            gone: ReceiverStats::default(),
        }
    }

    /// Makes room for `peer`, which sent a valid SYN.
    pub fn admit(&mut self, now: Instant, peer: P, open: &Open) -> Admission {
        if let Some(entry) = self.peers.get_mut(&peer)
            && entry.wire == open.wire
        {
            return Admission::Known;
        }
        // Anybody can forge a SYN that needs no cookie; it must not end a transfer that did.
        let proven = |entry: &Entry| entry.wire.connection_id().is_some() && entry.receiver.is_unfinished();
        if open.wire.connection_id().is_none() && self.peers.get(&peer).is_some_and(proven) {
            self.stats.refused += 1;
            return Admission::Refused;
        }
        if !self.is_proven(now, peer, open) {
            return Admission::Unproven;
        }
        if let Some(entry) = self.peers.get_mut(&peer) {
            entry.wire = open.wire;
            return Admission::Known;
        }
        if self.peers.len() >= self.config.max_peers {
            self.stats.refused += 1;
            if let Some(connection_id) = open.wire.connection_id() {
                self.notices.answer(peer, connection_id, Notice::Close(CloseReason::Refused));
            }
            return Admission::Refused;
        }
        let mut receiver = Receiver::new(self.config.receiver);
        receiver.set_idle(self.config.idle);
        let idle_at = now + self.config.idle;
        let entry = Entry {
            receiver,
            wire: open.wire,
            last_active: now,
            idle_at,
            queued: false,
            timer: None,
            memory: 0,
        };
        self.peers.insert(peer, entry);
        self.idle.insert((idle_at, peer));
        self.set_deadline();
        self.stats.admitted += 1;
        self.stats.max_active = self.stats.max_active.max(self.peers.len());
        self.events.push_back((peer, ReceiverEvent::Connected));
        Admission::New
    }

    /// True if the SYN shows a cookie of ours, where its wire knows them; else the peer is asked for it, and
    /// nothing is kept of it.
    fn is_proven(&mut self, now: Instant, peer: P, open: &Open) -> bool {
        let Wire::Native { connection_id } = open.wire else { return true };
        let epoch = *self.epoch.get_or_insert(now);
        let Some(jar) = &self.jar else {
            self.stats.refused += 1;
            return false;
        };
        let now_s = now.saturating_duration_since(epoch).as_secs();
        let mut address = Address::default();
        peer.hash(&mut address);
        if open.cookie.is_some_and(|cookie| jar.check(&cookie, now_s, &address.0, connection_id)) {
            return true;
        }
        let retry = Notice::Retry(jar.mint(now_s, &address.0, connection_id));
        self.stats.retries += u64::from(self.notices.answer(peer, connection_id, retry));
        false
    }

    /// The peer is not silent, although none of its datagrams was handled: one is on an emulated link.
    pub fn touch(&mut self, now: Instant, peer: P) {
        if let Some(entry) = self.peers.get_mut(&peer) {
            entry.last_active = now;
        }
    }

    /// When `peer` was last not silent.
    pub fn last_active(&self, peer: P) -> Option<Instant> {
        self.peers.get(&peer).map(|entry| entry.last_active)
    }

    /// The format of the newest SYN of `peer`, and the connection's number in it.
    pub fn wire(&self, peer: P) -> Option<Wire> {
        self.peers.get(&peer).map(|entry| entry.wire)
    }

    /// In-order bytes of `peer` that were not consumed.
    pub fn data(&self, peer: P) -> &[u8] {
        self.peers.get(&peer).map_or(&[], |entry| entry.receiver.data())
    }

    /// Takes the first `n` bytes of [`Listener::data`] as read.
    pub fn consume(&mut self, peer: P, n: usize) {
        self.with(peer, |receiver| receiver.consume(n));
    }

    /// Answers the FIN of `peer`: the application has stored its transfer.
    pub fn confirm(&mut self, peer: P) {
        self.with(peer, Receiver::confirm);
    }

    /// Forgets `peer` and tells it why, where its format can say that.
    pub fn refuse(&mut self, peer: P, reason: CloseReason) {
        if let Some(Wire::Native { connection_id }) = self.wire(peer) {
            self.notices.say_last(peer, connection_id, reason);
        }
        self.close(peer);
    }

    /// Forgets `peer`; its datagrams find no transfer from now on.
    pub fn close(&mut self, peer: P) {
        let Some(entry) = self.peers.remove(&peer) else { return };
        self.memory -= entry.memory;
        self.holders -= u64::from(entry.memory > 0);
        self.gone.merge(&entry.receiver.stats());
        if entry.queued {
            self.ready.retain(|p| *p != peer);
        }
        // The bytes of which these tell are gone; that the peer was there is still news.
        let void = |event| matches!(event, ReceiverEvent::Readable | ReceiverEvent::Finished { .. });
        self.events.retain(|(p, event)| *p != peer || !void(*event));
        self.idle.remove(&(entry.idle_at, peer));
        if let Some(timer) = entry.timer {
            self.timers.remove(&(timer, peer));
        }
        self.set_deadline();
        self.events.push_back((peer, ReceiverEvent::Closed { unfinished: entry.receiver.is_unfinished() }));
    }

    /// Peers at present.
    pub fn active(&self) -> usize {
        self.peers.len()
    }

    /// True if `peer` has a receiver.
    pub fn knows(&self, peer: P) -> bool {
        self.peers.contains_key(&peer)
    }

    /// True if the transfer of any peer began and was not finished.
    pub fn has_unfinished(&self) -> bool {
        self.peers.values().any(|entry| entry.receiver.is_unfinished())
    }

    /// Memory that all receivers hold, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Counters as they stand.
    pub fn stats(&self) -> ListenerStats {
        let mut stats = self.stats;
        stats.unanswered = self.notices.unanswered();
        stats.unsaid = self.notices.unsaid();
        stats.receivers = self.gone;
        for entry in self.peers.values() {
            stats.receivers.merge(&entry.receiver.stats());
        }
        stats
    }

    /// Checks a datagram without acting on it, counting it if it is to be dropped. Sequence numbers of a
    /// peer without a transfer are unwrapped around 0.
    pub fn inspect<'d>(&mut self, peer: P, datagram: &'d [u8]) -> Option<Packet<'d>> {
        self.stats.received += 1;
        if datagram.len() > self.config.receiver.max_datagram {
            self.stats.too_long += 1;
            return None;
        }
        // Mutable, so that the search for the peer is done once for a run of datagrams.
        let entry = self.peers.get_mut(&peer);
        let (near, wire) = entry.map_or((Near::default(), None), |e| (e.receiver.near(), Some(e.wire)));
        match Packet::decode(datagram, near) {
            Ok((_, packet @ Packet::Syn(_))) => Some(packet),
            Ok((connection, packet)) if wire.is_some_and(|wire| wire.connection_id() == connection) => {
                Some(packet)
            }
            Ok(_) => {
                self.stats.no_connection += 1;
                None
            }
            Err(_) => {
                self.stats.malformed += 1;
                if let Some(connection_id) = native::other_version(datagram) {
                    let told = self.notices.answer(peer, connection_id, Notice::Versions);
                    self.stats.other_versions += u64::from(told);
                }
                None
            }
        }
    }

    /// Gives an inspected packet to its receiver, if that still exists.
    pub fn deliver(&mut self, now: Instant, peer: P, ecn: Ecn, packet: &Packet<'_>) {
        match self.peers.get_mut(&peer).map(|entry| entry.wire.connection_id()) {
            Some(connection) => self.deliver_latest(now, peer, connection, ecn, packet),
            None => self.stats.no_connection += 1,
        }
    }

    /// The same for the peer that was found last, and for a packet of `connection`. Its receiver may not be there
    /// yet, or still be at the transfer before: the SYN was lost, or came later than what followed it.
    fn deliver_latest(
        &mut self,
        now: Instant,
        peer: P,
        connection: Option<u64>,
        ecn: Ecn,
        packet: &Packet<'_>,
    ) {
        let Some(entry) = self.peers.latest_mut() else { return };
        if !matches!(packet, Packet::Syn(_)) && entry.receiver.connection_id() != connection {
            self.stats.no_connection += 1;
            return;
        }
        if matches!(packet, Packet::Close) {
            return self.close(peer);
        }
        entry.last_active = now;
        let held = entry.memory;
        let allowance = self.allowance(held);
        self.with_latest(peer, |receiver| receiver.handle(now, packet, ecn, allowance));
        if self.peers.latest_mut().is_some_and(|entry| entry.receiver.is_broken()) {
            self.refuse(peer, CloseReason::Checksum);
        }
    }

    /// Reads a datagram again that was inspected when it entered an emulated link, now that it left it, and
    /// gives it to its receiver.
    pub fn deliver_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &[u8]) {
        let Some(entry) = self.peers.get_mut(&peer) else {
            self.stats.no_connection += 1;
            return;
        };
        match Packet::decode(datagram, entry.receiver.near()) {
            Ok((connection, packet)) => self.deliver_latest(now, peer, connection, ecn, &packet),
            Err(_) => self.stats.malformed += 1,
        }
    }

    /// Memory that a receiver may hold that holds so much now, in bytes: those that hold some divide what is free, so what
    /// is offered to all together is there.
    fn allowance(&self, held: u64) -> u64 {
        let others = self.holders - u64::from(held > 0);
        let free = self.config.memory_limit.saturating_sub(self.memory);
        self.config.peer_memory_limit.min(held + free / (others + 1))
    }

    /// The next reply; peers that have some take turns.
    pub fn poll_reply(&mut self, now: Instant) -> Option<(P, &[u8])> {
        let (peer, len) = self.next_reply(now)?;
        Some((peer, &self.scratch[..len]))
    }

    /// Writes the next reply into the scratch. Strangers come after the peers, but for one in so many replies.
    fn next_reply(&mut self, now: Instant) -> Option<(P, usize)> {
        if let Some(left_over) = self.left_over.take() {
            return Some(left_over);
        }
        if let Some(last_words) = self.notices.pop_last_words(&mut self.scratch) {
            return Some(last_words);
        }
        if let Some(overdue) = self.notices.pop_overdue(&mut self.scratch) {
            return Some(overdue);
        }
        while let Some(peer) = self.ready.pop_front() {
            let Some(entry) = self.peers.get_mut(&peer) else { continue };
            let reply = entry.receiver.poll_reply(now, &mut self.scratch);
            entry.queued = entry.receiver.may_reply(now);
            if entry.queued {
                self.ready.push_back(peer);
            }
            if let Some(len) = reply {
                self.notices.on_reply();
                return Some((peer, len));
            }
        }
        self.notices.pop_answer(&mut self.scratch)
    }

    /// Something was put into or taken out of `idle` or `timers`.
    fn set_deadline(&mut self) {
        let idle = self.idle.first().map(|(deadline, _)| *deadline);
        let timer = self.timers.first().map(|(deadline, _)| *deadline);
        self.deadline = match (idle, timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Lets one receiver do something and takes over what it has to say.
    fn with(&mut self, peer: P, act: impl FnOnce(&mut Receiver)) {
        if self.peers.get_mut(&peer).is_some() {
            self.with_latest(peer, act);
        }
    }

    /// The same for the peer that was found last.
    fn with_latest(&mut self, peer: P, act: impl FnOnce(&mut Receiver)) {
        let Some(entry) = self.peers.latest_mut() else { return };
        act(&mut entry.receiver);
        while let Some(event) = entry.receiver.poll_event() {
            if event == ReceiverEvent::Started {
                // What was not read is void, and so is the news of it.
                self.events.retain(|told| *told != (peer, ReceiverEvent::Readable));
            }
            self.events.push_back((peer, event));
        }
        let memory = entry.receiver.memory();
        self.memory = self.memory - entry.memory + memory;
        self.holders = self.holders - u64::from(entry.memory > 0) + u64::from(memory > 0);
        entry.memory = memory;
        self.stats.max_memory = self.stats.max_memory.max(self.memory);
        if !entry.queued && entry.receiver.may_reply(entry.last_active) {
            entry.queued = true;
            self.ready.push_back(peer);
        }
        // Even for one that is queued: it may turn out to have nothing to say yet.
        if let Some(deadline) = entry.receiver.deadline()
            && entry.timer.is_none_or(|timer| deadline < timer)
        {
            if let Some(timer) = entry.timer.replace(deadline) {
                self.timers.remove(&(timer, peer));
            }
            self.timers.insert((deadline, peer));
            self.set_deadline();
        }
    }
}

impl<P: Copy + Ord + Debug + Hash> Endpoint for Listener<P> {
    type Peer = P;
    type Event = (P, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &[u8]) {
        let Some(packet) = self.inspect(peer, datagram) else { return };
        let Packet::Syn(open) = packet else {
            // Inspecting it found its peer.
            let connection = self.peers.latest_mut().and_then(|entry| entry.wire.connection_id());
            return self.deliver_latest(now, peer, connection, ecn, &packet);
        };
        if matches!(self.admit(now, peer, &open), Admission::New | Admission::Known) {
            self.deliver(now, peer, ecn, &packet);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        while let Some(&(deadline, peer)) = self.idle.first()
            && deadline <= now
        {
            self.idle.pop_first();
            let Some(entry) = self.peers.get_mut(&peer) else { continue };
            let deadline = entry.last_active + self.config.idle;
            if deadline <= now {
                self.close(peer);
            } else {
                entry.idle_at = deadline;
                self.idle.insert((deadline, peer));
            }
        }
        while let Some(&(due, peer)) = self.timers.first()
            && due <= now
        {
            self.timers.pop_first();
            let Some(entry) = self.peers.get_mut(&peer) else { continue };
            entry.timer = entry.receiver.deadline().filter(|deadline| *deadline > now);
            if let Some(deadline) = entry.timer {
                self.timers.insert((deadline, peer));
            }
            if entry.receiver.may_reply(now) && !entry.queued {
                entry.queued = true;
                self.ready.push_back(peer);
            }
        }
        self.set_deadline();
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        if !out.has_room(wire::REPLY_LEN) {
            return None;
        }
        let (peer, mut len) = self.next_reply(now)?;
        let found = self.peers.get_mut(&peer).is_some();
        loop {
            let Some(slot) = out.slot(len) else {
                // Of another size than those before it, or there is no more room.
                self.left_over = Some((peer, len));
                break;
            };
            slot.copy_from_slice(&self.scratch[..len]);
            // Replies are mostly of one size, so mostly what does not fit is not even made.
            let Some(entry) = found.then(|| self.peers.latest_mut()).flatten().filter(|_| out.has_room(len))
            else {
                break;
            };
            let Some(next) = entry.receiver.poll_reply(now, &mut self.scratch) else { break };
            self.notices.on_reply();
            len = next;
        }
        (!out.is_empty()).then_some(peer)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn poll_event(&mut self) -> Option<(P, ReceiverEvent)> {
        self.events.pop_front()
    }
}

/// The bytes of a peer's key, for its cookie.
#[derive(Default)]
struct Address(Vec<u8>);

impl Hasher for Address {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Nobody wants a number of it.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
