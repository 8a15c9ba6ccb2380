//! Network between nodes: wires, inboxes, and the hash of all arriving datagrams.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use rdt_emulator::{Direction, Link, Packet, Path};
use rdt_transport::drive::{DatagramIo, Received};
use rdt_transport::{Ecn, TransmitBuf};

use crate::node::NodeId;

/// Limit on the pool of unused datagram buffers.
const MAX_POOLED_BUFFERS: usize = 64;
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

/// Rewrites the ECN codepoint of a datagram before a wire. Its arguments are the time since the
/// start and the codepoint. Returns the new codepoint, or `None` to drop the datagram.
pub type EcnRewrite = fn(Duration, Ecn) -> Option<Ecn>;

/// Identifier of a wire (an emulated path) in its simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireId(u32);

impl WireId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

type Ends = (NodeId, NodeId);

#[derive(Debug, Clone, Copy)]
struct Route {
    wire: WireId,
    direction: Direction,
    /// Index of this route in [`Network::flows`], which is also the tag of its packets on the wire.
    flow: u32,
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
    routes: BTreeMap<Ends, Route>,
    /// Source and destination for each packet tag. Entries are never removed, because packets of a
    /// replaced route may still be on its wire.
    flows: Vec<Ends>,
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
        self.wires.push(path);
        id
    }

    /// Routes datagrams between two nodes over a wire, forward from the first to the second.
    pub(crate) fn route(&mut self, (from, to): Ends, wire: WireId) {
        let nodes = self.inboxes.len();
        assert!(from.index() < nodes && to.index() < nodes && from != to, "a route connects two nodes");
        assert!(wire.index() < self.wires.len(), "a route uses a wire of its simulation");
        for (ends, direction) in [((from, to), Direction::Forward), ((to, from), Direction::Reverse)] {
            let flow = u32::try_from(self.flows.len()).expect("fewer routes than 2^32 fit in memory");
            self.flows.push(ends);
            self.routes.insert(ends, Route { wire, direction, flow });
        }
    }

    pub(crate) fn wire(&self, wire: WireId) -> &Path {
        &self.wires[wire.index()]
    }

    pub(crate) fn wire_wakeup(&self, wire: WireId, direction: Direction) -> Option<Instant> {
        link(&self.wires[wire.index()], direction).next_wakeup()
    }

    /// Moves the packets of one direction of a wire that are due by `now` into the inboxes.
    pub(crate) fn run_wire(&mut self, now: Instant, wire: WireId, direction: Direction) {
        while let Some(delivery) = self.wires[wire.index()].pop(direction, now) {
            let (from, to) = self.flows[delivery.tag as usize];
            let stride = delivery.packet.len();
            self.arrive(now, to, Batch { from, bytes: delivery.packet, stride, ecn: delivery.ecn });
        }
        self.rescheduled.push((wire, direction));
    }

    fn send(&mut self, now: Instant, from: NodeId, to: NodeId, batch: &TransmitBuf) {
        if let Some(interceptor) = &mut self.interceptor {
            for datagram in batch.datagrams() {
                interceptor.on_sent(now, from, to, datagram);
            }
        }
        let Some(&Route { wire, direction, flow }) = self.routes.get(&(from, to)) else {
            let mut bytes = self.pool.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(batch.bytes());
            let (stride, ecn) = (batch.segment_size(), batch.ecn());
            return self.arrive(now, to, Batch { from, bytes, stride, ecn });
        };
        let elapsed = now.saturating_duration_since(self.epoch);
        let ecn = self.ecn_rewrite.map_or(Some(batch.ecn()), |rewrite| rewrite(elapsed, batch.ecn()));
        let Some(ecn) = ecn else { return };
        let path = &mut self.wires[wire.index()];
        for datagram in batch.datagrams() {
            // The link's ledger counts a dropped packet.
            let _ = path.push(direction, now, Packet::from(datagram.to_vec()).with_tag(flow).with_ecn(ecn));
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

impl<P: Copy> DatagramIo for NodeIo<'_, P> {
    type Peer = P;

    fn recv(&mut self) -> Option<Received<'_, P>> {
        if let Some(old) = self.received.take()
            && self.network.pool.len() < MAX_POOLED_BUFFERS
        {
            self.network.pool.push(old.bytes);
        }
        self.received = self.network.inboxes.get_mut(self.node.index())?.pop_front();
        let batch = self.received.as_ref()?;
        Some(Received {
            peer: (self.peer)(batch.from),
            bytes: &batch.bytes,
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
