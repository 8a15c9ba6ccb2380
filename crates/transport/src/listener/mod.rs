//! The receivers behind one socket: finds a datagram's receiver by its peer, admits new peers, bounds how
//! many there are and how much memory they hold together, removes idle ones. The only place in this crate
//! that sees a peer's address, and it sees an opaque key.

mod admission;
mod budget;
mod config;
mod peers;
mod receive;
mod stateless;
mod stats;
mod transmit;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

pub use admission::Admission;
use budget::{Budget, Claim};
pub use config::{ListenerConfig, SocketBuffer};
use peers::Peers;
use stateless::{Notices, ResetLimiter};
pub use stats::ListenerStats;

use crate::cookie::CookieJar;
use crate::wire::native::CloseReason;
use crate::wire::{MAX_REPLY, Near, Packet, Wire};
use crate::{Ecn, Endpoint, Receiver, ReceiverEvent, ReceiverStats, TransmitBuf};

/// Numbers near which those of a peer without a transfer are unwrapped: packet numbers far enough from 0 that none is
/// negative.
const NO_TRANSFER: Near = Near { seq: 0, tx: 1 << 31 };

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
    resets: ResetLimiter,
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
    budget: Budget,
    /// Messages dropped because the socket's buffer was full, modulo 2^32.
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
            resets: ResetLimiter::default(),
            epoch: None,
            left_over: None,
            scratch: Box::new([0; MAX_REPLY]),
            events: VecDeque::new(),
            memory: 0,
            holders: 0,
            budget: Budget::new(config.socket_buffer),
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
            self.budget.close(claim);
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
        self.config.socket_buffer.map(|_| self.overflow)
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
        entry.update_claim(&mut self.budget);
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

impl<P: Copy + Ord + Debug + Hash> Endpoint for Listener<P> {
    type Peer = P;
    type Event = (P, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, ecn: Ecn, datagram: &[u8]) {
        let Some(packet) = self.inspect(now, peer, datagram) else { return };
        let Packet::Syn(open) = packet else {
            // Inspecting it found its peer.
            let connection = self.peers.latest_mut().and_then(|entry| entry.wire.connection_id());
            return self.deliver_latest(now, peer, connection, ecn, &packet);
        };
        if matches!(self.admit(now, peer, &open), Admission::New | Admission::Known) {
            self.deliver(now, peer, ecn, &packet);
        }
    }

    fn handle_datagrams(&mut self, now: Instant, peer: P, ecn: Ecn, bytes: &[u8], stride: usize) -> usize {
        if bytes.is_empty() {
            self.handle_datagram(now, peer, ecn, bytes);
            return 1;
        }
        let stride = stride.max(1);
        let mut rest = bytes;
        loop {
            rest = self.take_run(now, peer, ecn, rest, stride);
            if rest.is_empty() {
                return bytes.len().div_ceil(stride);
            }
            let (datagram, others) = rest.split_at(stride.min(rest.len()));
            self.handle_datagram(now, peer, ecn, datagram);
            rest = others;
        }
    }

    fn handle_overflow(&mut self, messages: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "counted modulo 2^32, as ACKs tell it")]
        let messages = messages as u32;
        self.overflow = self.overflow.wrapping_add(messages);
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
            let (last_active, wire) = (entry.last_active, entry.wire);
            let deadline = last_active + self.idle_limit(wire);
            if deadline <= now {
                self.close(peer);
            } else {
                if let Some(entry) = self.peers.get_mut(&peer) {
                    entry.idle_at = deadline;
                }
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
        self.fill(now, out)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn poll_event(&mut self) -> Option<(P, ReceiverEvent)> {
        self.events.pop_front()
    }
}

impl Entry {
    /// Gives the receiver its present share of the socket's buffer.
    fn set_share(&mut self, budget: &Budget) {
        let share = self.claim.map_or_else(|| budget.share_of_new(), |claim| budget.share_of(claim));
        if let Some(share) = share {
            self.receiver.set_share(share);
        }
    }

    /// Marks the transfer as active before data is delivered, and renews its share.
    fn claim_on_data(&mut self, now: Instant, budget: &mut Budget) {
        if let Some(claim) = &mut self.claim {
            budget.on_data(now, claim);
        }
        self.set_share(budget);
    }

    /// Updates the claim after the receiver changed: a transfer began or ended, data arrived or was offered.
    fn update_claim(&mut self, budget: &mut Budget) {
        if self.receiver.is_unfinished() {
            let claim = self.claim.get_or_insert_with(|| budget.open());
            budget.on_offer(claim, self.receiver.offered());
        } else if let Some(claim) = self.claim.take() {
            budget.close(claim);
        }
    }

    /// Writes the next reply, which may offer a larger window.
    fn poll_reply(&mut self, now: Instant, budget: &mut Budget, out: &mut [u8; MAX_REPLY]) -> Option<usize> {
        if !self.receiver.may_offer() {
            return self.receiver.poll_reply(now, out);
        }
        self.set_share(budget);
        let len = self.receiver.poll_reply(now, out);
        self.update_claim(budget);
        len
    }
}

#[cfg(test)]
mod tests;
