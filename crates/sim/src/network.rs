//! Network between nodes: wires, inboxes, and the hash of all arriving datagrams.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use rdt_emulator::{Air, BusyPeriod, Delivery, Direction, DropCause, Link, NoStation, Packet, Path, Queued};
use rdt_transport::drive::{DatagramIo, Received};
use rdt_transport::{Ecn, TransmitBuf};

use crate::node_id::NodeId;

/// Limit on the pool of unused datagram buffers.
const MAX_POOLED_BUFFERS: usize = 64;
/// Limit on the drops that a link stores between two calls: more than any call causes.
const MAX_LATE_DROPS: usize = 1 << 20;
/// Offset basis and prime of the 64-bit FNV-1a hash.
const FNV: (u64, u64) = (0xCBF2_9CE4_8422_2325, 0x0000_0100_0000_01B3);

/// Datagrams from one node, coalesced as by a socket with GRO. `stride` is the bytes of each.
#[derive(Debug)]
pub(crate) struct Batch {
    from: NodeId,
    bytes: Vec<u8>,
    stride: usize,
    ecn: Ecn,
}

/// Sees all datagrams and can inject more, for tests that examine the datagrams of a transfer.
pub trait Interceptor: Debug + Send {
    /// Called when a node sends a datagram, before the datagram enters its wire.
    fn on_sent(&mut self, now: Instant, from: NodeId, to: NodeId, datagram: &[u8]);

    /// Called when a datagram arrives at a node, before the node reads it. The returned datagrams
    /// arrive directly after it, from the same source.
    fn on_arrived(&mut self, now: Instant, from: NodeId, to: NodeId, datagram: &[u8]) -> Vec<Vec<u8>>;
}

/// Rewrites the ECN codepoint of a datagram before its first wire. Its arguments are the time since
/// the start and the codepoint. Returns the new codepoint, or `None` to drop the datagram.
pub type EcnRewrite = fn(Duration, Ecn) -> Option<Ecn>;

/// Identifier of a wire (an emulated path) in its simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireId(u32);

impl WireId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

type Ends = (NodeId, NodeId);

/// Packets of one route.
#[derive(Debug)]
struct Flow {
    ends: Ends,
    direction: Direction,
    /// Wires in the order in which packets pass them.
    hops: Vec<Hop>,
    /// Packets inside the first wire.
    backlog: u64,
    /// True if the source waits until a packet leaves the first wire.
    source_waits: bool,
}

#[derive(Debug)]
struct Hop {
    wire: WireId,
    /// Packets dropped, by the index of their cause in [`DropCause::ALL`].
    dropped: [u64; DropCause::ALL.len()],
}

impl Flow {
    /// Returns the place of a wire among the hops.
    fn hop(&self, wire: WireId) -> usize {
        self.hops.iter().position(|hop| hop.wire == wire).unwrap_or(0)
    }
}

fn link(path: &Path, direction: Direction) -> &Link {
    match direction {
        Direction::Forward => &path.forward,
        Direction::Reverse => &path.reverse,
    }
}

/// Inboxes, wires and routes. Datagrams between nodes without a route arrive without delay or loss.
#[derive(Debug)]
pub(crate) struct Network {
    epoch: Instant,
    inboxes: Vec<VecDeque<Batch>>,
    wires: Vec<Path>,
    /// Air of the wires that are of one 802.11 cell.
    air: Air,
    /// Indices in `flows`, which are also the tags of packets on wires.
    routes: BTreeMap<Ends, u32>,
    /// Route for each packet tag. Entries are never removed, because packets of a replaced route
    /// may still be on its wires.
    flows: Vec<Flow>,
    pool: Vec<Vec<u8>>,
    /// Nodes to drive: they have new datagrams, or their state was changed from outside.
    pub(crate) woken: VecDeque<NodeId>,
    /// Directions of wires whose next wake-up may have changed.
    pub(crate) rescheduled: Vec<(WireId, Direction)>,
    /// Number of datagrams that arrived at inboxes.
    pub(crate) datagrams: u64,
    pub(crate) hash: u64,
    pub(crate) interceptor: Option<Box<dyn Interceptor>>,
    /// Applied to datagrams on all wires. `None`: codepoints are not changed.
    pub(crate) ecn_rewrite: Option<EcnRewrite>,
}

impl Network {
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            inboxes: Vec::new(),
            wires: Vec::new(),
            air: Air::default(),
            routes: BTreeMap::new(),
            flows: Vec::new(),
            pool: Vec::new(),
            woken: VecDeque::new(),
            rescheduled: Vec::new(),
            datagrams: 0,
            hash: FNV.0,
            interceptor: None,
            ecn_rewrite: None,
        }
    }

    pub(crate) fn add_inbox(&mut self) {
        self.inboxes.push(VecDeque::new());
    }

    /// Adds a wire without routes. The origin of its schedules is the start of the simulation.
    pub(crate) fn add_wire(&mut self, mut path: Path) -> WireId {
        assert!(
            path.forward.next_wakeup().is_none() && path.reverse.next_wakeup().is_none(),
            "a new wire has no packets"
        );
        let id = WireId(u32::try_from(self.wires.len()).expect("fewer wires than 2^32 fit in memory"));
        path.start(self.epoch);
        for link in [&mut path.forward, &mut path.reverse] {
            if link.drops_late() {
                link.keep_dropped(MAX_LATE_DROPS);
            }
        }
        self.wires.push(path);
        id
    }

    /// Makes a wire part of the 802.11 cell, between these stations.
    pub(crate) fn share_air(&mut self, wire: WireId, stations: [usize; 2]) -> Result<(), NoStation> {
        let index = wire.index();
        self.air.add(index, &self.wires[index], stations)
    }

    /// Routes datagrams between two nodes over wires in series: forward through all from the first
    /// to the second node, and through their reverse links in the opposite order.
    pub(crate) fn route(&mut self, (from, to): Ends, wires: &[WireId]) {
        let nodes = self.inboxes.len();
        assert!(from.index() < nodes && to.index() < nodes && from != to, "a route connects two nodes");
        assert!(!wires.is_empty(), "a route uses at least one wire");
        assert!(wires.iter().all(|wire| wire.index() < self.wires.len()), "wires are of this simulation");
        let twice = wires.iter().enumerate().any(|(n, wire)| wires[..n].contains(wire));
        assert!(!twice, "a route uses a wire once");
        let hop = |wire: &WireId| Hop { wire: *wire, dropped: [0; DropCause::ALL.len()] };
        let there = wires.iter().map(hop).collect();
        let back = wires.iter().rev().map(hop).collect();
        self.add_flow((from, to), Direction::Forward, there);
        self.add_flow((to, from), Direction::Reverse, back);
    }

    fn add_flow(&mut self, ends: Ends, direction: Direction, hops: Vec<Hop>) {
        let flow = u32::try_from(self.flows.len()).expect("fewer routes than 2^32 fit in memory");
        self.routes.insert(ends, flow);
        self.flows.push(Flow { ends, direction, hops, backlog: 0, source_waits: false });
    }

    /// Returns the packets queued in a direction of a wire.
    pub(crate) fn queued(&mut self, now: Instant, wire: WireId, direction: Direction) -> Queued {
        let index = wire.index();
        if self.air.has(index) {
            return self.air.queued(&mut self.wires, index, direction, now);
        }
        self.wires[index].queued(direction, now)
    }

    pub(crate) fn link_mut(&mut self, wire: WireId, direction: Direction) -> &mut Link {
        self.wires[wire.index()].link_mut(direction)
    }

    fn flow(&self, ends: Ends) -> Option<&Flow> {
        self.routes.get(&ends).map(|flow| &self.flows[*flow as usize])
    }

    /// Returns the wires of a route with their direction; none if there is no route.
    pub(crate) fn hops(&self, ends: Ends) -> Vec<(WireId, Direction)> {
        let Some(flow) = self.flow(ends) else { return Vec::new() };
        flow.hops.iter().map(|hop| (hop.wire, flow.direction)).collect()
    }

    /// Returns the busy periods of the links of a route that are at least as long as `least`.
    pub(crate) fn busy_periods(&self, ends: Ends, least: Duration) -> Vec<BusyPeriod> {
        let links = self.hops(ends).into_iter().map(|(wire, way)| link(&self.wires[wire.index()], way));
        let is_long = |period: &&BusyPeriod| period.to.saturating_duration_since(period.from) >= least;
        links.flat_map(|link| link.busy_periods().iter().filter(is_long).copied()).collect()
    }

    /// Returns the number of packets of a route dropped by each wire for each cause, if not zero.
    pub(crate) fn drops(&self, ends: Ends) -> Vec<(WireId, DropCause, u64)> {
        let Some(flow) = self.flow(ends) else { return Vec::new() };
        let of_hop = |hop: &Hop| {
            let wire = hop.wire;
            let counts = DropCause::ALL.into_iter().zip(hop.dropped).filter(|(_, count)| *count > 0);
            counts.map(move |(cause, count)| (wire, cause, count)).collect::<Vec<_>>()
        };
        flow.hops.iter().flat_map(of_hop).collect()
    }

    /// Returns whether fewer than `limit` packets from `from` to `to` are inside the first wire. If
    /// not, wakes the node `from` when one leaves it. Without a route there is always room.
    pub(crate) fn has_room(&mut self, (from, to): Ends, limit: u64) -> bool {
        let Some(flow) = self.routes.get(&(from, to)) else { return true };
        let flow = &mut self.flows[*flow as usize];
        flow.source_waits = flow.backlog >= limit;
        !flow.source_waits
    }

    pub(crate) fn wire(&self, wire: WireId) -> &Path {
        &self.wires[wire.index()]
    }

    pub(crate) fn wire_wakeup(&self, wire: WireId, direction: Direction) -> Option<Instant> {
        link(&self.wires[wire.index()], direction).next_wakeup()
    }

    /// Moves the packets of one direction of a wire that are due by `now` into their next wires or
    /// the inboxes.
    pub(crate) fn run_wire(&mut self, now: Instant, wire: WireId, direction: Direction) {
        while let Some(delivery) = self.leave(now, wire, direction) {
            let flow = &mut self.flows[delivery.tag as usize];
            let hop = flow.hop(wire);
            if hop == 0 && !delivery.is_copy {
                Self::on_left(flow, &mut self.woken);
            }
            let flow = &self.flows[delivery.tag as usize];
            if let Some(next) = flow.hops.get(hop + 1).map(|hop| hop.wire) {
                let packet = Packet { bytes: delivery.packet, ecn: delivery.ecn, tag: delivery.tag };
                self.enter(now, next, direction, packet);
                self.rescheduled.push((next, direction));
            } else {
                let (from, to) = flow.ends;
                let stride = delivery.packet.len();
                self.arrive(now, to, Batch { from, bytes: delivery.packet, stride, ecn: delivery.ecn });
            }
        }
        self.count_late_drops(wire, direction);
        self.rescheduled.push((wire, direction));
    }

    /// Returns the next packet of one direction of a wire that is due by `now`.
    fn leave(&mut self, now: Instant, wire: WireId, direction: Direction) -> Option<Delivery> {
        let index = wire.index();
        if self.air.has(index) {
            return self.air.pop(&mut self.wires, index, direction, now);
        }
        self.wires[index].pop(direction, now)
    }

    fn enter(&mut self, now: Instant, wire: WireId, direction: Direction, packet: Packet) {
        let tag = packet.tag;
        let index = wire.index();
        let result = if self.air.has(index) {
            self.air.push(&mut self.wires, index, direction, now, packet)
        } else {
            self.wires[index].push(direction, now, packet)
        };
        let flow = &mut self.flows[tag as usize];
        match result {
            Ok(()) => flow.backlog += u64::from(flow.hops[0].wire == wire),
            Err(dropped) => {
                let hop = flow.hop(wire);
                flow.hops[hop].dropped[dropped.cause as usize] += 1;
            }
        }
        self.count_late_drops(wire, direction);
    }

    fn count_late_drops(&mut self, wire: WireId, direction: Direction) {
        while let Some(drop) = self.wires[wire.index()].link_mut(direction).pop_dropped() {
            let flow = &mut self.flows[drop.packet.tag as usize];
            let hop = flow.hop(wire);
            flow.hops[hop].dropped[drop.cause as usize] += 1;
            if hop == 0 && !drop.is_copy {
                Self::on_left(flow, &mut self.woken);
            }
        }
    }

    /// Counts a packet that has left the first wire.
    fn on_left(flow: &mut Flow, woken: &mut VecDeque<NodeId>) {
        flow.backlog -= 1;
        if std::mem::take(&mut flow.source_waits) {
            woken.push_back(flow.ends.0);
        }
    }

    pub(crate) fn send(&mut self, now: Instant, from: NodeId, to: NodeId, batch: &TransmitBuf) {
        if let Some(interceptor) = &mut self.interceptor {
            for datagram in batch.datagrams() {
                interceptor.on_sent(now, from, to, datagram);
            }
        }
        let Some(&tag) = self.routes.get(&(from, to)) else {
            let mut bytes = self.pool.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(batch.bytes());
            let (stride, ecn) = (batch.segment_size(), batch.ecn());
            return self.arrive(now, to, Batch { from, bytes, stride, ecn });
        };
        let elapsed = now.saturating_duration_since(self.epoch);
        let ecn = self.ecn_rewrite.map_or(Some(batch.ecn()), |rewrite| rewrite(elapsed, batch.ecn()));
        let Some(ecn) = ecn else { return };
        let Flow { hops, direction, .. } = &self.flows[tag as usize];
        let (wire, direction) = (hops[0].wire, *direction);
        for datagram in batch.datagrams() {
            let packet = Packet::from(datagram.to_vec()).with_tag(tag).with_ecn(ecn);
            self.enter(now, wire, direction, packet);
        }
        self.rescheduled.push((wire, direction));
    }

    fn arrive(&mut self, now: Instant, to: NodeId, batch: Batch) {
        let time = now.saturating_duration_since(self.epoch).as_nanos();
        self.note(u64::try_from(time).unwrap_or(u64::MAX));
        self.note((u64::from(batch.from.0) << 32) | u64::from(to.0));
        for datagram in batch.bytes.chunks(batch.stride.max(1)) {
            self.datagrams += 1;
            // The first 12 bytes contain type and numbers, which distinguish packets.
            let mut head = [0; 16];
            let n = datagram.len().min(12);
            head[..n].copy_from_slice(&datagram[..n]);
            let words = u128::from_le_bytes(head);
            #[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
            for word in [words as u64, (words >> 64) as u64 ^ ((datagram.len() as u64) << 32)] {
                self.note(word);
            }
        }
        let Some(inbox) = self.inboxes.get_mut(to.index()) else { return };
        let mut added = Vec::new();
        if let Some(interceptor) = &mut self.interceptor {
            for datagram in batch.bytes.chunks(batch.stride.max(1)) {
                added.extend(interceptor.on_arrived(now, batch.from, to, datagram));
            }
        }
        let Batch { from, ecn, .. } = batch;
        inbox.push_back(batch);
        inbox.extend(added.into_iter().map(|bytes| Batch { from, stride: bytes.len(), bytes, ecn }));
        self.woken.push_back(to);
    }

    /// Passes each datagram in the inbox of `node` to `each`, with its source.
    pub(crate) fn drain(&mut self, node: NodeId, mut each: impl FnMut(NodeId, &[u8])) {
        while let Some(batch) = self.inboxes.get_mut(node.index()).and_then(VecDeque::pop_front) {
            for datagram in batch.bytes.chunks(batch.stride.max(1)) {
                each(batch.from, datagram);
            }
            self.recycle(batch.bytes);
        }
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.pool.len() < MAX_POOLED_BUFFERS {
            self.pool.push(buffer);
        }
    }

    fn note(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(FNV.1);
    }
}

/// Simulated socket of one node during a turn.
pub(crate) struct NodeIo<'a, P> {
    pub(crate) network: &'a mut Network,
    pub(crate) node: NodeId,
    pub(crate) now: Instant,
    pub(crate) batch: &'a mut TransmitBuf,
    pub(crate) received: Option<Batch>,
    /// Maps a peer to its node. The second argument is `default_peer`, the only peer of a sender.
    pub(crate) address: fn(P, NodeId) -> NodeId,
    pub(crate) peer: fn(NodeId) -> P,
    pub(crate) default_peer: NodeId,
}

impl<'a> NodeIo<'a, NodeId> {
    /// Returns the socket of a node with many peers.
    pub(crate) fn of_many(
        network: &'a mut Network,
        node: NodeId,
        now: Instant,
        batch: &'a mut TransmitBuf,
    ) -> Self {
        let (address, peer) = (|peer, _| peer, |from| from);
        Self { network, node, now, batch, received: None, address, peer, default_peer: node }
    }
}

impl<P: Copy> DatagramIo for NodeIo<'_, P> {
    type Peer = P;

    fn recv(&mut self) -> Option<Received<'_, P>> {
        if let Some(old) = self.received.take() {
            self.network.recycle(old.bytes);
        }
        self.received = self.network.inboxes.get_mut(self.node.index())?.pop_front();
        let batch = self.received.as_mut()?;
        Some(Received {
            peer: (self.peer)(batch.from),
            bytes: &mut batch.bytes,
            stride: batch.stride,
            ecn: batch.ecn,
            at: self.now,
        })
    }

    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
        self.batch.clear();
        Some(self.batch)
    }

    fn flush(&mut self, peer: P) {
        let to = (self.address)(peer, self.default_peer);
        self.network.send(self.now, self.node, to, self.batch);
    }

    fn leave(&mut self) {
        self.batch.clear();
    }
}
