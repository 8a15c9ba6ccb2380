//! Measurements of flows and wires. None of them changes a run.

use std::time::{Duration, Instant};

use rdt_emulator::{Direction, DropCause};
use rdt_transport::{ConnectionId, SenderStats};

use super::Simulation;
use crate::limits::{LimitRecorder, Limits};
use crate::network::WireId;
use crate::node::Node;
use crate::node_id::NodeId;
use crate::queue_series::QueueSeries;

impl Simulation {
    /// Counts the bytes that the application of a server, or of a node with connections, reads from
    /// now on in bins of this width, for each peer ([`Transfer::goodput`](crate::Transfer)). If the
    /// receivers drop the payload
    /// ([`ReceiverConfig::keep_payload`](rdt_transport::ReceiverConfig)), bytes count when they
    /// have arrived in order.
    ///
    /// # Panics
    /// If the width is zero.
    pub fn record_goodput(&mut self, id: NodeId, width: Duration) {
        assert!(!width.is_zero(), "the width of a bin is not zero");
        match &mut self.nodes[id.index()] {
            Node::Connections(node) => node.bin = Some(width),
            _ => self.server_mut(id).bin = Some(width),
        }
    }

    /// Counts the payload of each source that arrives at `sink` from now on in bins of this width
    /// ([`Arrived::goodput`](crate::Arrived)). Has no effect on sources that are added later.
    ///
    /// # Panics
    /// If the width is zero.
    pub fn record_arrivals(&mut self, sink: NodeId, width: Duration) {
        self.sink_mut(sink).record(width);
    }

    /// Returns how many datagrams from `from` to `to` each wire of their route dropped, by cause.
    /// Counts of zero are left out.
    pub fn drops(&self, from: NodeId, to: NodeId) -> Vec<(WireId, DropCause, u64)> {
        self.network.drops((from, to))
    }

    /// Samples the queue of one direction of a wire at multiples of `interval`, from the start of
    /// virtual time to the latest event.
    ///
    /// # Panics
    /// If the interval is zero, or the simulation has run.
    pub fn sample_queue(&mut self, wire: WireId, direction: Direction, interval: Duration) {
        self.add_queue_sampler((wire, direction), interval, true);
    }

    /// As [`Simulation::sample_queue`], but keeps only the sums of the samples.
    ///
    /// # Panics
    /// If the interval is zero, or the simulation has run.
    pub fn summarise_queue(&mut self, wire: WireId, direction: Direction, interval: Duration) {
        self.add_queue_sampler((wire, direction), interval, false);
    }

    fn add_queue_sampler(&mut self, link: (WireId, Direction), interval: Duration, keeps_samples: bool) {
        assert!(self.now == self.epoch, "queues are sampled from the start on");
        self.network.link_mut(link.0, link.1).count_queued_bytes();
        self.queues.add(self.epoch, link, interval, keeps_samples);
    }

    /// Returns the samples of a queue so far. `None` without [`Simulation::sample_queue`].
    pub fn queue_series(&self, wire: WireId, direction: Direction) -> Option<&QueueSeries> {
        self.queues.series(wire, direction)
    }

    /// Starts to measure the limits of a sender and returns the observer, which the caller attaches
    /// to it, alone or in a vector with others. Records the busy periods of the wires between the
    /// sender and its server, so the route must be known.
    pub fn measure_limits(&mut self, sender: NodeId) -> LimitRecorder {
        let ends = (sender, self.sender(sender).server);
        self.measure_limits_between(ends)
    }

    /// Same as [`Simulation::measure_limits`] of a stream from one node to another.
    pub fn measure_limits_between(&mut self, ends: (NodeId, NodeId)) -> LimitRecorder {
        let hops = self.network.hops(ends);
        // Only busy periods of at least the smallest RTT count, which is not below these delays.
        // Half of them leaves room for what an estimate subtracts.
        let delays = hops.iter().map(|(wire, _)| {
            let path = self.network.wire(*wire);
            path.forward.least_delay() + path.reverse.least_delay()
        });
        let least = delays.sum::<Duration>() / 2;
        for (wire, direction) in hops {
            self.network.link_mut(wire, direction).record_busy_periods(least);
        }
        let recorder = LimitRecorder::default();
        self.limits.push((ends, recorder.clone()));
        recorder
    }

    /// Returns the limits of a sender from the opening of its connection until its transfer ended,
    /// or until now. `recorder` is the observer of [`Simulation::measure_limits`].
    pub fn limits(&self, sender: NodeId, recorder: &LimitRecorder) -> Limits {
        let node = self.sender(sender);
        let Some(opened) = node.opened_at else { return Limits::default() };
        let times = (opened, node.ended_at.unwrap_or(self.now));
        self.limits_of((sender, node.server), times, &node.stats(), recorder)
    }

    /// Returns the limits of one side's stream of a connection, until the peer confirmed it, or
    /// until now.
    ///
    /// # Panics
    /// If `node` has no such connection.
    pub fn limits_of_connection(&self, node: NodeId, id: ConnectionId, recorder: &LimitRecorder) -> Limits {
        let there = self.connections(node);
        let exchange = &there.exchanges[&id];
        let Some(peer) = there.set.address(id) else { return Limits::default() };
        let end = exchange.delivered_at.or(exchange.closed_at).unwrap_or(self.now);
        let stats = there.set.get(id).map(|connection| connection.stats().sender).unwrap_or_default();
        self.limits_of((node, peer), (exchange.opened_at, end), &stats, recorder)
    }

    fn limits_of(
        &self,
        ends: (NodeId, NodeId),
        (opened, end): (Instant, Instant),
        stats: &SenderStats,
        recorder: &LimitRecorder,
    ) -> Limits {
        // A link that is busy for a whole RTT has a queue that the sender does not let run empty.
        let busy = self.network.busy_periods(ends, stats.min_rtt.unwrap_or_default());
        let hops = self.network.hops(ends);
        let shares = |other: (NodeId, NodeId)| self.network.hops(other).iter().any(|hop| hops.contains(hop));
        let others = self.limits.iter().filter(|(other, _)| *other != ends && shares(*other));
        recorder.limits(opened, end, busy, || others.flat_map(|(_, other)| other.contends()).collect())
    }

    /// Samples the queues up to `until`, before the events of that time.
    pub(super) fn sample_queues(&mut self, until: Instant) {
        if self.queues.next.is_some_and(|next| next <= until) {
            self.queues.sample(until, &mut self.network);
        }
    }
}
