//! Event loop in virtual time: the clock jumps from event to event, and nodes with input or due
//! timers are driven.

mod measure;
mod nodes;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use rdt_crypto::Aead;
use rdt_emulator::{Direction, NoStation, Path};
use rdt_server::ServerConfig;
use rdt_transport::drive::{Budget, Turn, turn};
use rdt_transport::{ConfigError, ConnectionSetConfig, FramePool, SenderConfig, TransmitBuf};

use crate::application::Application;
use crate::limits::LimitRecorder;
use crate::network::{EcnRewrite, Interceptor, Network, NodeIo, WireId};
use crate::node::Node;
use crate::node_id::NodeId;
use crate::queue_series::QueueSamplers;
use crate::read_policy::{ReadPolicy, Reader};
use crate::sender_node::{Machine, Outcome};
use crate::server_node::ServerNode;

/// Limit on the datagrams in a batch of a simulated socket.
const MAX_SEGMENTS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Timer(NodeId),
    Wire(WireId, Direction),
}

/// Events in the order of their times. Events of the same time keep the order of insertion, so a
/// run depends on its inputs alone.
#[derive(Debug)]
struct EventQueue<T> {
    heap: BinaryHeap<Reverse<(u128, T)>>,
    /// Origin of the times in `heap`.
    epoch: Instant,
    inserted: u64,
}

impl<T: Ord> EventQueue<T> {
    fn new(epoch: Instant) -> Self {
        Self { heap: BinaryHeap::new(), epoch, inserted: 0 }
    }

    fn insert(&mut self, time: Instant, item: T) {
        let turn = self.next_turn();
        self.insert_at(time, turn, item);
    }

    /// Returns the place among events of the same time of an event that is inserted now.
    fn next_turn(&mut self) -> u64 {
        self.inserted += 1;
        self.inserted
    }

    fn insert_at(&mut self, time: Instant, turn: u64, item: T) {
        // Nanoseconds and place in one number, which is compared several times for each event.
        let nanos = time.saturating_duration_since(self.epoch).as_nanos();
        self.heap.push(Reverse(((nanos << 64) | u128::from(turn), item)));
    }

    fn time_of(&self, key: u128) -> Instant {
        let nanos = (key >> 64) as u64;
        self.epoch + Duration::from_nanos(nanos)
    }

    fn next_time(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((key, _))| self.time_of(*key))
    }

    fn pop(&mut self) -> Option<(Instant, T)> {
        self.heap.pop().map(|Reverse((key, item))| (self.time_of(key), item))
    }
}

/// Timer of a node. Most deadlines are postponed with every packet, so `events` has an entry only
/// for the earliest one; a later deadline gets its entry when that entry is due.
#[derive(Debug, Clone, Copy, Default)]
struct NodeTimer {
    deadline: Option<Instant>,
    /// Place of the deadline among events of the same time.
    turn: u64,
    /// Time of the earliest entry in `events`; not after `deadline`.
    queued: Option<Instant>,
}

/// Senders and servers, sources and sinks (nodes), the wires between them, and a virtual clock.
/// Methods panic if an identifier is not of this simulation, or is of a node of another kind than
/// the method requires.
pub struct Simulation {
    epoch: Instant,
    now: Instant,
    nodes: Vec<Node>,
    timers: Vec<NodeTimer>,
    /// For both directions of each wire, the time of its wake-up in `events`. If a packet overtakes
    /// others, `events` gets an earlier entry too, and the later entry has no effect.
    scheduled_wires: Vec<[Option<Instant>; 2]>,
    network: Network,
    events: EventQueue<Event>,
    batch: TransmitBuf,
    /// Send buffers of all senders: their free memory is at most 16 MiB, however many there are.
    frames: FramePool,
    queues: QueueSamplers,
    /// Recorders of senders' limits, by the ends of their routes.
    limits: Vec<((NodeId, NodeId), LimitRecorder)>,
    /// Cipher of the connections of senders.
    cipher: Aead,
}

impl Default for Simulation {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulation {
    /// Creates a simulation without nodes and wires, at time 0.
    #[allow(clippy::disallowed_methods, reason = "an arbitrary origin: only differences from it are used")]
    pub fn new() -> Self {
        let epoch = Instant::now();
        Self {
            epoch,
            now: epoch,
            nodes: Vec::new(),
            timers: Vec::new(),
            scheduled_wires: Vec::new(),
            network: Network::new(epoch),
            events: EventQueue::new(epoch),
            batch: TransmitBuf::new(MAX_SEGMENTS),
            frames: FramePool::new(),
            queues: QueueSamplers::default(),
            limits: Vec::new(),
            cipher: Aead::None,
        }
    }

    /// Sets the cipher of native senders that are added from now on. By default there is none.
    pub fn set_cipher(&mut self, cipher: Aead) {
        self.cipher = cipher;
    }

    /// Replaces a sender by a new one with the same address, as if its program restarted. It
    /// transfers `bytes` bytes.
    ///
    /// # Errors
    /// As [`SenderConfig::validate`].
    pub fn restart_sender(
        &mut self,
        id: NodeId,
        config: SenderConfig,
        bytes: u64,
    ) -> Result<(), ConfigError> {
        let server = self.sender(id).server;
        *self.sender_mut(id) = self.new_sender(id, config, server, Application::transfer(bytes))?;
        self.network.woken.push_back(id);
        Ok(())
    }

    /// Replaces a server by a new one without peers, as if its program restarted.
    pub fn restart_server(&mut self, id: NodeId, config: ServerConfig) {
        let bin = self.server(id).bin;
        *self.server_mut(id) = ServerNode::new(config, id, self.epoch, self.now);
        self.server_mut(id).bin = bin;
        self.network.woken.push_back(id);
    }

    /// Replaces the connections of a node by an empty set, as if its program restarted.
    pub fn restart_connections(&mut self, id: NodeId, config: ConnectionSetConfig<NodeId>, seed: u64) {
        *self.connections_mut(id) = self.new_connections(config, seed);
    }

    /// Returns the present instant of virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Aborts all unfinished transfers of a server, as at its shutdown. The server still runs.
    pub fn abort_transfers(&mut self, id: NodeId) {
        let now = self.now;
        self.server_mut(id).server.abort_unfinished(now);
        self.network.woken.push_back(id);
    }

    /// Stalls the application of a server, or those of a node with connections, until virtual time
    /// `until`: they do nothing.
    pub fn stall(&mut self, id: NodeId, until: Duration) {
        let until = Some(self.epoch + until);
        match &mut self.nodes[id.index()] {
            Node::Connections(node) => node.asleep_until = until,
            _ => self.server_mut(id).asleep_until = until,
        }
        self.network.woken.push_back(id);
    }

    /// Passes every datagram from now on to `interceptor`.
    pub fn intercept(&mut self, interceptor: Box<dyn Interceptor>) {
        self.network.interceptor = Some(interceptor);
    }

    /// Rewrites ECN codepoints on all wires from now on. Datagrams that it drops are in no ledger.
    pub fn rewrite_ecn(&mut self, rewrite: EcnRewrite) {
        self.network.ecn_rewrite = Some(rewrite);
    }

    /// Adds a wire, which [`Simulation::route`] can use. Its path must be empty.
    pub fn add_wire(&mut self, path: Path) -> WireId {
        self.scheduled_wires.push([None; 2]);
        self.network.add_wire(path)
    }

    /// Makes an empty wire part of the simulation's 802.11 cell, whose wires share one
    /// [`Air`](rdt_emulator::Air). Its ends are the stations with these numbers.
    ///
    /// # Errors
    /// As [`Air::add`](rdt_emulator::Air::add).
    pub fn share_air(&mut self, wire: WireId, stations: [usize; 2]) -> Result<(), NoStation> {
        self.network.share_air(wire, stations)
    }

    /// Routes datagrams from `from` to `to` over the forward link of `wire`, and from `to` to
    /// `from` over its reverse link. Several pairs may share a wire. Between nodes without a route,
    /// datagrams arrive without delay or loss.
    pub fn route(&mut self, from: NodeId, to: NodeId, wire: WireId) {
        self.route_over(from, to, &[wire]);
    }

    /// As [`Simulation::route`], over several wires in series: a datagram that leaves a wire enters
    /// the next one at that instant. Datagrams from `to` to `from` pass the reverse links in the
    /// opposite order.
    pub fn route_over(&mut self, from: NodeId, to: NodeId, wires: &[WireId]) {
        self.network.route((from, to), wires);
    }

    /// Sets the read policy of the application of a server, or of a node with connections. By
    /// default it reads immediately.
    pub fn set_read_policy(&mut self, id: NodeId, policy: ReadPolicy) {
        match &mut self.nodes[id.index()] {
            Node::Connections(node) => node.set_read_policy(policy),
            _ => self.server_mut(id).reader = Some(Reader::new(policy)),
        }
    }

    /// Sets the read policy of a server's application for the data of one peer.
    pub fn set_peer_read_policy(&mut self, server: NodeId, peer: NodeId, policy: ReadPolicy) {
        self.server_mut(server).readers.insert(peer, Reader::new(policy));
    }

    /// Returns a wire, for example to read its ledgers.
    pub fn wire(&self, id: WireId) -> &Path {
        self.network.wire(id)
    }

    /// Runs the simulation until virtual time `until`.
    pub fn run_until(&mut self, until: Duration) {
        self.run_while(until, |_| true);
        let until = self.epoch + until;
        self.sample_queues(until);
        self.now = self.now.max(until);
    }

    /// Runs until all transfers have ended (and returns true), or until virtual time `limit`.
    pub fn run_senders(&mut self, limit: Duration) -> bool {
        self.run_while(limit, |node| match node {
            Node::Sender(node) => node.outcome == Outcome::Running,
            _ => false,
        })
    }

    /// Runs until all connections have ended at both sides (and returns true), or until virtual
    /// time `limit`.
    pub fn run_connections(&mut self, limit: Duration) -> bool {
        self.run_while(limit, |node| match node {
            Node::Connections(node) => !node.is_idle(),
            _ => false,
        })
    }

    /// Runs while `is_running` holds for a node, and returns true after that; false at virtual time
    /// `limit`, or if nothing happens any more.
    fn run_while(&mut self, limit: Duration, is_running: impl Fn(&Node) -> bool) -> bool {
        let limit = self.epoch + limit;
        loop {
            while let Some(id) = self.network.woken.pop_front() {
                self.take_turns(id);
            }
            if !self.nodes.iter().any(&is_running) {
                return true;
            }
            match self.events.next_time() {
                Some(time) if time <= limit => self.step(),
                _ => return false,
            }
        }
    }

    /// Returns the virtual time since the start.
    pub fn elapsed(&self) -> Duration {
        self.now - self.epoch
    }

    /// Returns the instant of virtual time 0, the origin of times in traces.
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Returns the number of datagrams that arrived at nodes.
    pub fn datagrams(&self) -> u64 {
        self.network.datagrams
    }

    /// Returns a hash over time, source, destination, header and length of all arriving datagrams.
    pub fn hash(&self) -> u64 {
        self.network.hash
    }

    fn step(&mut self) {
        let Some((time, event)) = self.events.pop() else { return };
        self.sample_queues(time);
        self.now = self.now.max(time);
        match event {
            Event::Timer(id) => {
                let timer = &mut self.timers[id.index()];
                timer.queued = timer.queued.filter(|queued| *queued != time);
                if timer.deadline == Some(time) {
                    timer.deadline = None;
                    self.take_turns(id);
                }
                self.queue_timer(id);
            }
            Event::Wire(wire, direction) => {
                self.scheduled_wires[wire.index()][direction as usize].take_if(|at| *at == time);
                self.network.run_wire(self.now, wire, direction);
                self.schedule_wires();
            }
        }
    }

    /// Drives a node until it is idle at the current time, and schedules its timer.
    fn take_turns(&mut self, id: NodeId) {
        self.nodes[id.index()].pump(self.now);
        let deadline = loop {
            let turn = self.turn(id);
            let node = &mut self.nodes[id.index()];
            if node.pump(self.now) || turn.more {
                continue;
            }
            let deadline = node.deadline();
            if deadline.is_none_or(|deadline| deadline > self.now) {
                break deadline;
            }
        };
        self.schedule_wires();
        let timer = &mut self.timers[id.index()];
        if deadline != timer.deadline {
            (timer.deadline, timer.turn) = (deadline, self.events.next_turn());
            self.queue_timer(id);
        }
    }

    /// Inserts the deadline of a node into `events`, unless an earlier entry is there.
    fn queue_timer(&mut self, id: NodeId) {
        let timer = &mut self.timers[id.index()];
        if let Some(deadline) = timer.deadline
            && timer.queued.is_none_or(|queued| deadline < queued)
        {
            timer.queued = Some(deadline);
            self.events.insert_at(deadline, timer.turn, Event::Timer(id));
        }
    }

    fn turn(&mut self, node: NodeId) -> Turn {
        let (network, now, batch) = (&mut self.network, self.now, &mut self.batch);
        match &mut self.nodes[node.index()] {
            Node::Sender(n) if n.opened_at.is_none() => Turn::default(),
            Node::Sender(n) => match &mut n.machine {
                Machine::Classic { sender, .. } => {
                    let mut io = NodeIo {
                        network,
                        node,
                        now,
                        batch,
                        received: None,
                        address: |(), server| server,
                        peer: |_| (),
                        default_peer: n.server,
                    };
                    turn(&mut **sender, &mut io, now, Budget::default())
                }
                Machine::Native(initiator) => {
                    let mut io = NodeIo::of_many(network, node, now, batch);
                    turn(&mut initiator.node.set, &mut io, now, Budget::default())
                }
            },
            Node::Server(n) => {
                let mut io = NodeIo::of_many(network, node, now, batch);
                turn(&mut n.server, &mut io, now, Budget::default())
            }
            Node::Connections(n) => {
                let mut io = NodeIo::of_many(network, node, now, batch);
                turn(&mut n.set, &mut io, now, Budget::default())
            }
            Node::Source(n) => {
                n.send(now, node, network, batch);
                Turn::default()
            }
            Node::Sink(n) => {
                network.drain(node, |from, datagram| n.receive(now, from, datagram));
                Turn::default()
            }
        }
    }

    fn schedule_wires(&mut self) {
        while let Some((wire, direction)) = self.network.rescheduled.pop() {
            let Some(time) = self.network.wire_wakeup(wire, direction) else { continue };
            let time = time.max(self.now);
            let scheduled = &mut self.scheduled_wires[wire.index()][direction as usize];
            if scheduled.is_none_or(|at| time < at) {
                *scheduled = Some(time);
                self.events.insert(time, Event::Wire(wire, direction));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_keep_order_of_insertion() {
        let t0 = rdt_testing::epoch();
        let mut events = EventQueue::new(t0);
        for (ms, item) in [(5, 'a'), (3, 'z'), (5, 'b'), (3, 'y')] {
            events.insert(t0 + Duration::from_millis(ms), item);
        }
        let order: String = std::iter::from_fn(|| events.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, "zyab");
    }
    #[test]
    fn postponed_deadlines_leave_few_events() {
        let scenario = crate::Scenario { bytes: 10_000_000, ..crate::Scenario::default() };
        let (mut simulation, sender, _) = scenario.prepare();
        let mut most = 0;
        while simulation.sender(sender).outcome == Outcome::Running {
            simulation.run_until(simulation.elapsed() + Duration::from_millis(10));
            most = most.max(simulation.events.heap.len());
        }
        assert!(most <= 8, "{most} events of two nodes");
    }
}
