//! Queue of a link over time.

use std::time::{Duration, Instant};

use rdt_emulator::{Direction, Queued};

use crate::network::{Network, WireId};

/// Samples of a link's queue at a fixed interval. Sample i is the state at time i * interval,
/// before the events of that time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSeries {
    /// Time between two samples.
    pub interval: Duration,
    /// Queued packets and their bytes on the wire at each sample, from the start of virtual time.
    pub queued: Vec<Queued>,
}

#[derive(Debug)]
struct Sampler {
    wire: WireId,
    direction: Direction,
    /// Time of the next sample.
    next: Instant,
    series: QueueSeries,
}

/// All sampled queues of a simulation.
#[derive(Debug, Default)]
pub(crate) struct QueueSamplers {
    samplers: Vec<Sampler>,
    /// Time of the earliest next sample. `None`: no queue is sampled.
    pub(crate) next: Option<Instant>,
}

impl QueueSamplers {
    pub(crate) fn add(&mut self, epoch: Instant, wire: WireId, direction: Direction, interval: Duration) {
        assert!(!interval.is_zero(), "the sampling interval is not zero");
        let series = QueueSeries { interval, queued: Vec::new() };
        self.samplers.push(Sampler { wire, direction, next: epoch, series });
        self.next = Some(epoch);
    }

    pub(crate) fn series(&self, wire: WireId, direction: Direction) -> Option<&QueueSeries> {
        let found = self.samplers.iter().find(|it| (it.wire, it.direction) == (wire, direction));
        found.map(|sampler| &sampler.series)
    }

    /// Takes all samples up to `until`.
    #[cold]
    pub(crate) fn sample(&mut self, until: Instant, network: &mut Network) {
        self.next = None;
        for Sampler { wire, direction, next, series } in &mut self.samplers {
            while *next <= until {
                series.queued.push(network.queued(*next, *wire, *direction));
                *next += series.interval;
            }
            self.next = self.next.into_iter().chain([*next]).min();
        }
    }
}
