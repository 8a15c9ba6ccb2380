//! Emulated paths of all senders, the memory of the packets inside, and when they leave.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rdt_emulator::{Direction, Ledger, Packet, child_seed};
use rdt_transport::{AddressKey, Ecn, MAX_HALF_OPEN_PEERS};

use crate::link_memory::LinkMemory;
use crate::path::{LinkWanted, PeerPath};
use crate::{SenderId, ServerConfig};

/// Limit on the pool of unused packet buffers.
const MAX_POOLED_BUFFERS: usize = 256;
/// Limit on the memory of packets inside the links of half-open peers, bytes, and on its share of
/// the memory of all links. The floor of each of them, 2 KiB, has room for a packet of 1472 bytes.
pub(crate) const MAX_HALF_OPEN_LINK_MEMORY: u64 = 8 << 20;
const HALF_OPEN_SHARE: u64 = 4;

/// Datagram that enters or leaves a link, with the address of its sender or of its destination.
#[derive(Debug, Clone)]
pub(crate) struct Datagram<P, B> {
    pub(crate) peer: P,
    pub(crate) ecn: Ecn,
    pub(crate) bytes: B,
}

/// Paths of all senders that requested one.
#[derive(Debug)]
pub(crate) struct Links<P> {
    /// Boxed because nodes of the map have room for more entries than they hold.
    pub(crate) paths: BTreeMap<SenderId<P>, Box<PeerPath<P>>>,
    /// Next wake-up of each path whose links contain packets, earliest first.
    wakeups: BTreeSet<(Instant, SenderId<P>)>,
    pool: Vec<Vec<u8>>,
    /// Limit on the memory of packets inside one direction of a path, bytes.
    path_memory_limit: u64,
    /// Memory of the packets inside all links, bytes.
    pub(crate) memory: u64,
    pub(crate) max_memory: u64,
    /// Limit on the links of connected senders, and of half-open ones.
    pub(crate) connected: LinkMemory,
    pub(crate) half_open: LinkMemory,
    /// Number of senders admitted so far.
    senders: u64,
    /// Sums of the ledgers of removed paths.
    pub(crate) removed_forward: Ledger,
    pub(crate) removed_reverse: Ledger,
}

impl<P: AddressKey> Links<P> {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let half_open = (config.link_memory_limit / HALF_OPEN_SHARE).min(MAX_HALF_OPEN_LINK_MEMORY);
        Self {
            paths: BTreeMap::new(),
            wakeups: BTreeSet::new(),
            pool: Vec::new(),
            path_memory_limit: config.peer_link_memory_limit,
            memory: 0,
            max_memory: 0,
            connected: LinkMemory::new(config.link_memory_limit, config.max_peers),
            half_open: LinkMemory::new(half_open, MAX_HALF_OPEN_PEERS),
            senders: 0,
            removed_forward: Ledger::default(),
            removed_reverse: Ledger::default(),
        }
    }

    pub(crate) fn contains(&self, sender: SenderId<P>) -> bool {
        self.paths.contains_key(&sender)
    }

    /// Counts a new sender, and adds its path if it requests one.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        sender: SenderId<P>,
        wanted: Option<LinkWanted>,
        seed: u64,
        is_half_open: bool,
    ) {
        // The first path uses `seed` itself, so it loses the same packets as any other single path
        // with this seed, as in `rdt-emu sim`.
        let seed = match self.senders {
            0 => seed,
            n => child_seed(seed, n),
        };
        self.senders += 1;
        let Some(wanted) = wanted else { return };
        let mut path = PeerPath::new(now, wanted, self.path_memory_limit, seed);
        path.half_open = is_half_open;
        self.paths.insert(sender, Box::new(path));
    }

    /// Pushes a packet into a link, whose memory is the path's floor and what other paths leave.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        sender: SenderId<P>,
        datagram: &Datagram<P, &[u8]>,
        direction: Direction,
    ) {
        let packet = Packet::from(self.copy(datagram.bytes)).with_ecn(datagram.ecn);
        let Some(entry) = self.paths.get_mut(&sender) else { return self.recycle(packet.bytes) };
        if direction == Direction::Forward {
            entry.last_arrival = now;
        }
        let packet = packet.with_tag(entry.tag_of(datagram.peer));
        let memory = if entry.half_open { &mut self.half_open } else { &mut self.connected };
        let before = entry.held_bytes();
        let link = entry.path.link_mut(direction);
        let opposite = before - link.held_bytes();
        let most = memory.limit_of(before).saturating_sub(opposite);
        link.set_memory_limit(self.path_memory_limit.min(most));
        let dropped = entry.path.push(direction, now, packet).err();
        // May be less than `before`: a drop-head queue drops packets for a new one.
        let held = entry.held_bytes();
        memory.update(before, held);
        self.memory = self.memory - before + held;
        self.max_memory = self.max_memory.max(self.memory);
        if let Some(dropped) = dropped {
            self.recycle(dropped.packet);
        }
        self.schedule(sender);
    }

    /// Takes the next packet that leaves a link by `now`.
    pub(crate) fn pop(
        &mut self,
        now: Instant,
        sender: SenderId<P>,
        direction: Direction,
    ) -> Option<Datagram<P, Vec<u8>>> {
        let entry = self.paths.get_mut(&sender)?;
        let before = entry.held_bytes();
        let delivery = entry.path.link_mut(direction).pop(now);
        let held = entry.held_bytes();
        let memory = if entry.half_open { &mut self.half_open } else { &mut self.connected };
        memory.update(before, held);
        self.memory = self.memory - before + held;
        let delivery = delivery?;
        let peer = entry.address_of(delivery.tag)?;
        Some(Datagram { peer, ecn: delivery.ecn, bytes: delivery.packet })
    }

    pub(crate) fn first_wakeup(&self) -> Option<(Instant, SenderId<P>)> {
        self.wakeups.first().copied()
    }

    /// Updates `wakeups` to the next wake-up of the links of `sender`.
    pub(crate) fn schedule(&mut self, sender: SenderId<P>) {
        let Some(entry) = self.paths.get_mut(&sender) else { return };
        let wanted = match (entry.path.forward.next_wakeup(), entry.path.reverse.next_wakeup()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if wanted != entry.wakeup {
            if let Some(old) = entry.wakeup {
                self.wakeups.remove(&(old, sender));
            }
            if let Some(new) = wanted {
                self.wakeups.insert((new, sender));
            }
            entry.wakeup = wanted;
        }
    }

    /// Counts the path of a peer that was half-open towards the limit of connected peers.
    pub(crate) fn connect(&mut self, sender: SenderId<P>) {
        let Some(entry) = self.paths.get_mut(&sender).filter(|entry| entry.half_open) else { return };
        entry.half_open = false;
        let held = entry.held_bytes();
        self.half_open.update(held, 0);
        self.connected.update(0, held);
    }

    /// Removes the path of `sender` with the packets inside it.
    pub(crate) fn remove(&mut self, sender: SenderId<P>) {
        let Some(entry) = self.paths.remove(&sender) else { return };
        if let Some(wakeup) = entry.wakeup {
            self.wakeups.remove(&(wakeup, sender));
        }
        let held = entry.held_bytes();
        let memory = if entry.half_open { &mut self.half_open } else { &mut self.connected };
        memory.update(held, 0);
        self.memory -= held;
        self.removed_forward.merge(&entry.path.forward.into_ledger());
        self.removed_reverse.merge(&entry.path.reverse.into_ledger());
    }

    pub(crate) fn has_packets(&self, sender: SenderId<P>) -> bool {
        self.paths.get(&sender).is_some_and(|path| path.wakeup.is_some())
    }

    /// Copies a datagram to a pooled buffer.
    pub(crate) fn copy(&mut self, datagram: &[u8]) -> Vec<u8> {
        let mut bytes = self.pool.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(datagram);
        bytes
    }

    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.pool.len() < MAX_POOLED_BUFFERS {
            self.pool.push(buffer);
        }
    }
}
