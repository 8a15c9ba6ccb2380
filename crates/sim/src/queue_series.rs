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
    /// Empty if only the sums are kept.
    pub queued: Vec<Queued>,
    /// Number of samples.
    pub samples: u64,
    /// Sum of the packets of all samples.
    pub packets: u64,
}

impl QueueSeries {
    /// Returns the mean number of queued packets. `None` without samples.
    #[allow(clippy::cast_precision_loss, reason = "sums of packets are far below 2^53")]
    pub fn mean_packets(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.packets as f64 / self.samples as f64)
    }
}

#[derive(Debug)]
struct Sampler {
    wire: WireId,
    direction: Direction,
    /// Time of the next sample.
    next: Instant,
    /// True if each sample is kept, not only the sums.
    keeps_samples: bool,
    series: QueueSeries,
}

#[derive(Debug, Default)]
pub(crate) struct QueueSamplers {
    samplers: Vec<Sampler>,
    /// Time of the earliest next sample. `None`: no queue is sampled.
    pub(crate) next: Option<Instant>,
}

impl QueueSamplers {
    pub(crate) fn add(
        &mut self,
        epoch: Instant,
        (wire, direction): (WireId, Direction),
        interval: Duration,
        keeps_samples: bool,
    ) {
        assert!(!interval.is_zero(), "the sampling interval is not zero");
        let series = QueueSeries { interval, ..QueueSeries::default() };
        self.samplers.push(Sampler { wire, direction, next: epoch, keeps_samples, series });
        self.next = Some(epoch);
    }

    pub(crate) fn series(&self, wire: WireId, direction: Direction) -> Option<&QueueSeries> {
        let found = self.samplers.iter().find(|it| (it.wire, it.direction) == (wire, direction));
        found.map(|sampler| &sampler.series)
    }

    #[cold]
    pub(crate) fn sample(&mut self, until: Instant, network: &mut Network) {
        self.next = None;
        for Sampler { wire, direction, next, keeps_samples, series } in &mut self.samplers {
            while *next <= until {
                let queued = network.queued(*next, *wire, *direction);
                (series.samples, series.packets) = (series.samples + 1, series.packets + queued.packets);
                series.queued.extend(keeps_samples.then_some(queued));
                *next += series.interval;
            }
            self.next = self.next.into_iter().chain([*next]).min();
        }
    }
}
