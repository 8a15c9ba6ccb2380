//! The receivers behind one socket: finds a datagram's receiver by its peer, admits new peers, bounds how
//! many there are and how much memory they hold together, removes idle ones. The only place in this crate
//! that sees a peer's address, and it sees an opaque key.

mod admission;
mod config;
mod endpoint;
mod notices;
mod peers;
mod replies;
mod runs;
mod shares;
mod stats;
mod unknown;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

pub use admission::Admission;
pub use config::ListenerConfig;
use notices::{Notice, Notices};
use peers::Peers;
use shares::{Claim, Shares};
pub use stats::ListenerStats;
use unknown::Budget;

use crate::cookie::CookieJar;
use crate::wire::native::{self, CloseReason};
use crate::wire::{MAX_REPLY, Near, Packet, Wire};
use crate::{Ecn, Receiver, ReceiverEvent, ReceiverStats};

/// What the numbers of a peer without a transfer are unwrapped around: none of the transmissions is before the first then.
const NOBODY: Near = Near { seq: 0, tx: 1 << 31 };

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
    /// Of the socket's buffer, while its transfer is not finished.
    claim: Option<Claim>,
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
    /// Of answers to those whose connection is not known.
    unknown: Budget,
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
    /// Of the socket's buffer, of receivers with a transfer that is not finished.
    shares: Shares,
    /// Messages for which that buffer had no room, modulo 2^32.
    overflow: u32,
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
            unknown: Budget::default(),
            epoch: None,
            left_over: None,
            scratch: Box::new([0; MAX_REPLY]),
            events: VecDeque::new(),
            memory: 0,
            holders: 0,
            shares: Shares::new(config.socket_buffer),
            overflow: 0,
            stats: ListenerStats::default(),
            gone: ReceiverStats::default(),
        }
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
        if let Some(connection_id) = self.wire(peer).and_then(Wire::connection_id) {
            self.notices.say_last(peer, connection_id, reason);
        }
        self.close(peer);
    }

    /// Forgets everybody whose transfer is unfinished, or whose SYN is still on its way, and that can be told why. Who is
    /// done needs no word, and where the format has none, nothing changes.
    pub fn refuse_unfinished(&mut self, reason: CloseReason) {
        let is_due = |entry: &Entry| {
            let connection = entry.wire.connection_id();
            connection.is_some()
                && (entry.receiver.is_unfinished() || entry.receiver.connection_id() != connection)
        };
        let due: Vec<P> =
            self.peers.iter().filter(|(_, entry)| is_due(entry)).map(|(peer, _)| *peer).collect();
        for peer in due {
            self.refuse(peer, reason);
        }
    }

    /// Forgets `peer`; its datagrams find no transfer from now on.
    pub fn close(&mut self, peer: P) {
        let Some(entry) = self.peers.remove(&peer) else { return };
        self.memory -= entry.memory;
        self.holders -= u64::from(entry.memory > 0);
        if let Some(claim) = entry.claim {
            self.shares.close(claim);
        }
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

    /// Nobody becomes a peer any more; those who are stay.
    pub fn refuse_new(&mut self) {
        self.config.max_peers = 0;
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

    /// Checks a datagram without acting on it, counting it if it is to be dropped; who sent it may be told so. Sequence
    /// numbers of a peer without a transfer are unwrapped around 0.
    pub fn inspect<'d>(&mut self, now: Instant, peer: P, datagram: &'d [u8]) -> Option<Packet<'d>> {
        self.stats.received += 1;
        if datagram.len() > self.config.receiver.max_datagram {
            self.stats.too_long += 1;
            return None;
        }
        // Mutable, so that the search for the peer is done once for a run of datagrams.
        let entry = self.peers.get_mut(&peer);
        let (near, wire) = entry.map_or((NOBODY, None), |e| (e.receiver.near(), Some(e.wire)));
        match Packet::decode(datagram, near) {
            Ok((_, packet @ Packet::Syn(_))) => Some(packet),
            Ok((connection, packet)) if wire.is_some_and(|wire| wire.connection_id() == connection) => {
                Some(packet)
            }
            Ok((connection, packet)) => {
                self.stats.no_connection += 1;
                if let (None, Some(connection_id), Some(tx)) = (wire, connection, packet.transmission()) {
                    self.answer_unknown(now, peer, connection_id, tx);
                }
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
        match packet {
            Packet::Data(_) => entry.claim_on_data(now, &mut self.shares),
            _ => entry.set_share(&self.shares),
        }
        let held = entry.memory;
        let (allowance, overflow) = (self.allowance(held), self.overflow());
        self.with_latest(peer, |receiver| {
            receiver.set_overflow(overflow);
            receiver.handle(now, packet, ecn, allowance);
        });
        self.refuse_if_broken(peer);
    }

    /// The peer that was found last is forgotten if what it said of its stream cannot be.
    fn refuse_if_broken(&mut self, peer: P) {
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

    /// What receivers may tell of it: where windows do not follow the buffer, only slowing down helps, as for the network's
    /// losses.
    fn overflow(&self) -> Option<u32> {
        (self.config.socket_buffer != u64::MAX).then_some(self.overflow)
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
        self.take_over(peer);
    }

    /// Takes over what the receiver of the peer that was found last has to say.
    fn take_over(&mut self, peer: P) {
        let Some(entry) = self.peers.latest_mut() else { return };
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
        entry.note_claim(&mut self.shares);
        self.stats.max_memory = self.stats.max_memory.max(self.memory);
        if !entry.queued && entry.receiver.may_reply(entry.last_active) {
            entry.queued = true;
            self.ready.push_back(peer);
        }
        // Even for one that is queued: it may turn out to have nothing to say yet.
        self.set_timer(peer);
    }

    /// Keeps the time at which the receiver of the peer that was found last will have something to say.
    fn set_timer(&mut self, peer: P) {
        let Some(entry) = self.peers.latest_mut() else { return };
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

    /// After so long without a packet a peer is forgotten whose transfer has this format.
    fn idle_limit(&self, wire: Wire) -> Duration {
        match wire.connection_id() {
            Some(_) => self.config.native_idle,
            None => self.config.idle,
        }
    }
}

impl Entry {
    /// Its receiver hears what it may have on its way.
    fn set_share(&mut self, shares: &Shares) {
        self.receiver
            .set_share(self.claim.map_or_else(|| shares.part_of_new(), |claim| shares.part_of(claim)));
    }

    /// Data is about to come to its receiver, which hears the same.
    fn claim_on_data(&mut self, now: Instant, shares: &mut Shares) {
        if let Some(claim) = &mut self.claim {
            shares.on_data(now, claim);
        }
        self.set_share(shares);
    }

    /// Its receiver did something: its transfer began or ended, data came, more was offered.
    fn note_claim(&mut self, shares: &mut Shares) {
        if self.receiver.is_unfinished() {
            let claim = self.claim.get_or_insert_with(|| shares.open());
            shares.on_offer(claim, self.receiver.offered());
        } else if let Some(claim) = self.claim.take() {
            shares.close(claim);
        }
    }

    /// Writes its next reply, which may offer more.
    fn poll_reply(&mut self, now: Instant, shares: &mut Shares, out: &mut [u8; MAX_REPLY]) -> Option<usize> {
        if !self.receiver.may_offer() {
            return self.receiver.poll_reply(now, out);
        }
        self.set_share(shares);
        let len = self.receiver.poll_reply(now, out);
        self.note_claim(shares);
        len
    }
}

#[cfg(test)]
mod tests;
