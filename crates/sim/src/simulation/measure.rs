//! Measurements of flows and wires. None of them changes a run.

use std::time::{Duration, Instant};

use rdt_emulator::{Direction, DropCause};

use super::Simulation;
use crate::limits::{LimitRecorder, Limits};
use crate::network::WireId;
use crate::node::NodeId;
use crate::queue_series::QueueSeries;

impl Simulation {
    /// Counts the bytes that a server's application reads from now on in bins of this width, for
    /// each peer ([`Transfer::goodput`](crate::Transfer)). If the receivers drop the payload
    /// ([`ReceiverConfig::keep_payload`](rdt_transport::ReceiverConfig)), bytes count when they
    /// have arrived in order.
    ///
    /// # Panics
    /// If the width is zero.
    pub fn record_goodput(&mut self, server: NodeId, width: Duration) {
        assert!(!width.is_zero(), "the width of a bin is not zero");
        self.server_mut(server).bin = Some(width);
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
        LimitRecorder::default()
    }

    /// Returns the limits of a sender from the opening of its connection until its transfer ended,
    /// or until now. `recorder` is the observer of [`Simulation::measure_limits`].
    pub fn limits(&self, sender: NodeId, recorder: &LimitRecorder) -> Limits {
        let node = self.sender(sender);
        let Some(opened) = node.opened_at else { return Limits::default() };
        // A link that is busy for a whole RTT has a queue that the sender does not let run empty.
        let rtt = node.sender.stats().min_rtt.unwrap_or_default();
        let busy = self.network.busy_periods((sender, node.server), rtt);
        recorder.limits(opened, node.ended_at.unwrap_or(self.now), busy)
    }

    /// Samples the queues up to `until`, before the events of that time.
    pub(super) fn sample_queues(&mut self, until: Instant) {
        if self.queues.next.is_some_and(|next| next <= until) {
            self.queues.sample(until, &mut self.network);
        }
    }
}
