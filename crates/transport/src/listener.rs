//! The receivers behind one socket: finds a datagram's receiver by its peer, admits new peers, bounds how
//! many there are and how much memory they hold together, removes idle ones. The only place in this crate
//! that sees a peer's address, and it sees an opaque key.

mod peers;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use peers::Peers;

use crate::wire::{self, FromReceiver, FromSender};
use crate::{Endpoint, Receiver, ReceiverConfig, ReceiverEvent, ReceiverStats, TransmitBuf};

/// Limits of a listener, and the configuration of its receivers.
#[derive(Debug, Clone, Copy)]
pub struct ListenerConfig {
    /// Every receiver's configuration.
    pub receiver: ReceiverConfig,
    /// Peers at once; more are left unanswered.
    pub max_peers: usize,
    /// Bytes that all receivers together may hold beyond holes. Bytes in order are the application's to
    /// read after every turn.
    pub memory_limit: u64,
    /// The same for one receiver.
    pub peer_memory_limit: u64,
    /// A peer that is silent for this long is forgotten.
    pub idle: Duration,
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
            idle: Duration::from_secs(25),
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
}

#[derive(Debug)]
struct Entry {
    receiver: Receiver,
    last_active: Instant,
    /// Its time in `idle`.
    idle_at: Instant,
    /// In `ready`.
    queued: bool,
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
    /// Peers with replies to send, in turn.
    ready: VecDeque<P>,
    events: VecDeque<(P, ReceiverEvent)>,
    memory: u64,
    stats: ListenerStats,
    gone: ReceiverStats,
}

impl<P: Copy + Ord + Debug> Listener<P> {
    /// A listener without peers.
    pub fn new(config: ListenerConfig) -> Self {
        Self {
            config,
            peers: Peers::new(),
            idle: BTreeSet::new(),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            memory: 0,
            stats: ListenerStats::default(),
            gone: ReceiverStats::default(),
        }
    }

    /// Makes room for `peer`, which sent a valid SYN.
    pub fn admit(&mut self, now: Instant, peer: P) -> Admission {
        if self.peers.contains_key(&peer) {
            return Admission::Known;
        }
        if self.peers.len() >= self.config.max_peers {
            self.stats.refused += 1;
            return Admission::Refused;
        }
        let receiver = Receiver::new(self.config.receiver);
        let idle_at = now + self.config.idle;
        self.peers.insert(peer, Entry { receiver, last_active: now, idle_at, queued: false, memory: 0 });
        self.idle.insert((idle_at, peer));
        self.stats.admitted += 1;
        self.stats.max_active = self.stats.max_active.max(self.peers.len());
        self.events.push_back((peer, ReceiverEvent::Connected));
        Admission::New
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

    /// Forgets `peer`; its datagrams find no transfer from now on.
    pub fn close(&mut self, peer: P) {
        let Some(entry) = self.peers.remove(&peer) else { return };
        self.memory -= entry.memory;
        self.gone.merge(&entry.receiver.stats());
        if entry.queued {
            self.ready.retain(|p| *p != peer);
        }
        // The bytes of which these tell are gone; that the peer was there is still news.
        let void = |event| matches!(event, ReceiverEvent::Readable | ReceiverEvent::Finished { .. });
        self.events.retain(|(p, event)| *p != peer || !void(*event));
        self.idle.remove(&(entry.idle_at, peer));
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
        stats.receivers = self.gone;
        for entry in self.peers.values() {
            stats.receivers.merge(&entry.receiver.stats());
        }
        stats
    }

    /// Checks a datagram without acting on it, counting it if it is to be dropped. Sequence numbers of a
    /// peer without a transfer are unwrapped around 0.
    pub fn inspect<'d>(&mut self, peer: P, datagram: &'d [u8]) -> Option<FromSender<'d>> {
        self.stats.received += 1;
        if datagram.len() > self.config.receiver.max_datagram {
            self.stats.too_long += 1;
            return None;
        }
        // Mutable, so that the search for the peer is done once for a run of datagrams.
        let entry = self.peers.get_mut(&peer);
        let known = entry.is_some();
        match wire::decode_from_sender(datagram, entry.map_or(0, |e| e.receiver.rcv_nxt())) {
            Ok(packet @ FromSender::Syn(_)) => Some(packet),
            Ok(packet) if known => Some(packet),
            Ok(_) => {
                self.stats.no_connection += 1;
                None
            }
            Err(_) => {
                self.stats.malformed += 1;
                None
            }
        }
    }

    /// Gives an inspected packet to its receiver, if that still exists.
    pub fn deliver(&mut self, now: Instant, peer: P, packet: &FromSender<'_>) {
        let Some(entry) = self.peers.get_mut(&peer) else {
            self.stats.no_connection += 1;
            return;
        };
        entry.last_active = now;
        let held = entry.memory;
        let free = self.config.memory_limit.saturating_sub(self.memory - held);
        let allowance = self.config.peer_memory_limit.min(free);
        self.with(peer, |receiver| receiver.handle(now, packet, allowance));
    }

    /// Reads a datagram again that was inspected when it entered an emulated link, now that it left it, and
    /// gives it to its receiver.
    pub fn deliver_datagram(&mut self, now: Instant, peer: P, datagram: &[u8]) {
        let near = self.peers.get_mut(&peer).map_or(0, |entry| entry.receiver.rcv_nxt());
        match wire::decode_from_sender(datagram, near) {
            Ok(packet) => self.deliver(now, peer, &packet),
            Err(_) => self.stats.malformed += 1,
        }
    }

    /// Takes the next reply; peers that have some take turns.
    pub fn poll_reply(&mut self) -> Option<(P, FromReceiver)> {
        while let Some(peer) = self.ready.pop_front() {
            let Some(entry) = self.peers.get_mut(&peer) else { continue };
            let reply = entry.receiver.poll_reply();
            entry.queued = entry.receiver.has_replies();
            if entry.queued {
                self.ready.push_back(peer);
            }
            if let Some(reply) = reply {
                return Some((peer, reply));
            }
        }
        None
    }

    /// Lets one receiver do something and takes over what it has to say.
    fn with(&mut self, peer: P, act: impl FnOnce(&mut Receiver)) {
        let Some(entry) = self.peers.get_mut(&peer) else { return };
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
        entry.memory = memory;
        self.stats.max_memory = self.stats.max_memory.max(self.memory);
        if entry.receiver.has_replies() && !entry.queued {
            entry.queued = true;
            self.ready.push_back(peer);
        }
    }
}

impl<P: Copy + Ord + Debug> Endpoint for Listener<P> {
    type Peer = P;
    type Event = (P, ReceiverEvent);

    fn handle_datagram(&mut self, now: Instant, peer: P, datagram: &[u8]) {
        let Some(packet) = self.inspect(peer, datagram) else { return };
        if matches!(packet, FromSender::Syn(_)) && self.admit(now, peer) == Admission::Refused {
            return;
        }
        self.deliver(now, peer, &packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
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
    }

    fn poll_transmit(&mut self, _now: Instant, out: &mut TransmitBuf) -> Option<P> {
        if !out.has_room(wire::REPLY_LEN) {
            return None;
        }
        let (peer, reply) = self.poll_reply()?;
        let mut next = Some(reply);
        while let Some(reply) = next {
            // Replies are all of one size, so only a full batch ends the loop before the replies do.
            let Some(slot) = out.slot(wire::REPLY_LEN) else { break };
            wire::encode_reply(&reply, slot);
            let room = out.has_room(wire::REPLY_LEN);
            next = match self.peers.get_mut(&peer) {
                Some(entry) if room => entry.receiver.poll_reply(),
                _ => None,
            };
        }
        Some(peer)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.idle.first().map(|(deadline, _)| *deadline)
    }

    fn poll_event(&mut self) -> Option<(P, ReceiverEvent)> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests;
