//! Random Early Detection: S. Floyd and V. Jacobson, "Random Early Detection Gateways for
//! Congestion Avoidance", IEEE/ACM Transactions on Networking 1 (4), 1993.

use std::time::{Duration, Instant};

use crate::Ecn;
use crate::bitrate::Bitrate;
use crate::packet::Service;
use crate::probability::Probability;
use crate::queue::Signal;
use crate::queue::aqm::{Aqm, Arrival};
use crate::queue::notation::Parameters;
use crate::units::{NotationError, parse_bytes, parse_probability, write_bytes};

/// Settings of RED. The defaults are those that S. Floyd recommends ("RED: Discussions of Setting
/// Parameters", 1997): 5 and 15 packets of 1500 bytes, 10 %, a weight of 0.002, and `gentle`.
///
/// The drop probability of a packet does not depend on its size (RFC 7141).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RedConfig {
    /// Average queue below which no packet is dropped, in bytes on the wire.
    pub min: u64,
    /// Average queue at which the drop probability is `max_p`, in bytes. More than `min`.
    pub max: u64,
    /// Drop probability at an average queue of `max`. It rises linearly from 0 at `min`.
    pub max_p: Probability,
    /// Weight of a new sample in the moving average of the queue.
    pub weight: Probability,
    /// True if the probability rises from `max_p` at `max` to 1 at `2 * max`, false if it jumps to
    /// 1.
    pub gentle: bool,
    /// True if ECN-capable packets are marked instead of dropped, unless the probability is 1.
    pub ecn: bool,
}

impl Default for RedConfig {
    fn default() -> Self {
        let probability = |value| Probability::new(value).expect("a number from 0 to 1");
        Self {
            min: 5 * 1_500,
            max: 15 * 1_500,
            max_p: probability(0.1),
            weight: probability(0.002),
            gentle: true,
            ecn: false,
        }
    }
}

impl RedConfig {
    /// Returns the drop probability at an average queue of `average` bytes: `p_b` in the paper.
    pub fn probability(&self, average: f64) -> f64 {
        let (min, max, max_p) = (precise(self.min), precise(self.max), self.max_p.as_f64());
        if average < min {
            0.0
        } else if average < max {
            max_p * (average - min) / (max - min)
        } else if self.gentle && average < 2.0 * max {
            max_p + (1.0 - max_p) * (average - max) / max
        } else {
            1.0
        }
    }
}

impl RedConfig {
    /// Returns these settings changed by `parameters`.
    pub(super) fn read(mut self, parameters: &mut Parameters<'_>) -> Result<Self, NotationError> {
        parameters.quantity("min", parse_bytes, &mut self.min)?;
        parameters.quantity("max", parse_bytes, &mut self.max)?;
        parameters.quantity("p", parse_probability, &mut self.max_p)?;
        parameters.quantity("weight", parse_probability, &mut self.weight)?;
        parameters.flag("gentle", &mut self.gentle)?;
        parameters.flag("ecn", &mut self.ecn)?;
        if self.max <= self.min {
            let reason = format!("it must be more than min, which is {}", write_bytes(self.min));
            return Err(parameters.refuse("max", reason));
        }
        Ok(self)
    }

    /// Returns the text of all parameters.
    pub(super) fn write(&self) -> String {
        let Self { min, max, max_p, weight, gentle, ecn } = *self;
        let [min, max] = [min, max].map(write_bytes);
        let gentle = if gentle { "" } else { ",gentle=no" };
        let ecn = if ecn { ",ecn" } else { "" };
        format!("min={min},max={max},p={max_p},weight={weight}{gentle}{ecn}")
    }
}

#[derive(Debug)]
pub(super) struct Red {
    config: RedConfig,
    /// Serialisation time of a small packet. While the link is idle, the average decays by one step
    /// in this time. `None` if the link has no rate.
    typical: Option<Duration>,
    /// Moving average of the queue, in bytes on the wire.
    average: f64,
    /// Packets since the last drop or mark. `None` while the average is not above `min`.
    count: Option<u32>,
    /// End of service of the last admitted packet. `None` before the first.
    busy_until: Option<Instant>,
}

/// Size of the small packet for `typical`, as in the network simulator ns.
const SMALL_PACKET_BYTES: usize = 500;

/// Returns the serialisation time of a small packet. `None` if it takes no time.
fn typical(rate: Option<Bitrate>) -> Option<Duration> {
    rate.map(|rate| rate.transmit_time(SMALL_PACKET_BYTES, &mut 0)).filter(|time| !time.is_zero())
}

impl Red {
    pub(super) fn new(config: RedConfig, rate: Option<Bitrate>) -> Self {
        Self { config, typical: typical(rate), average: 0.0, count: None, busy_until: None }
    }

    /// Returns whether a packet that the queue limit admits is dropped or marked. `None`: neither.
    fn signal(&mut self, ecn: Ecn, draw: u64) -> Option<Signal> {
        let probability = self.config.probability(self.average);
        if probability <= 0.0 {
            self.count = None;
            return None;
        }
        // The first packet with an average above `min` is number 0.
        let count = self.count.map_or(0, |count| count.saturating_add(1));
        self.count = Some(count);
        if !spread(probability, count).happens(draw) {
            return None;
        }
        self.count = Some(0);
        let is_marked = self.config.ecn && ecn.is_capable() && probability < 1.0;
        Some(if is_marked { Signal::Mark } else { Signal::Drop })
    }
}

impl Aqm for Red {
    fn set_rate(&mut self, rate: Option<Bitrate>) {
        self.typical = typical(rate);
    }

    /// Updates the average (section 4 of the paper). Packets that the queue limit drops are samples
    /// too, because while the queue is full no other packets arrive.
    ///
    /// During idle time the average decays as if small packets arrived and found an empty queue.
    fn on_arrival(&mut self, now: Instant, backlog: u64) {
        let weight = self.config.weight.as_f64();
        let idle = match self.busy_until {
            Some(end) if end > now => {
                self.average += weight * (precise(backlog) - self.average);
                return;
            }
            Some(end) => now.saturating_duration_since(end),
            None => return,
        };
        self.average = match self.typical {
            Some(typical) => self.average * power(1.0 - weight, idle.as_nanos() / typical.as_nanos()),
            None => 0.0,
        };
    }

    fn on_enqueue(&mut self, arrival: &Arrival) -> Option<Signal> {
        self.signal(arrival.ecn, arrival.draw())
    }

    fn on_scheduled(&mut self, service: Service) {
        self.busy_until = Some(service.end);
    }
}

/// Returns the probability `p_a` of the paper, which makes the number of packets between two drops
/// uniform from 1 to 1 / `probability`.
fn spread(probability: f64, count: u32) -> Probability {
    let rest = 1.0 - f64::from(count) * probability;
    if rest <= probability {
        return Probability::ONE;
    }
    Probability::new(probability / rest).unwrap_or(Probability::ONE)
}

/// Returns `base` to the power of `exponent`; the result of `powf` may differ between platforms.
fn power(base: f64, exponent: u128) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}

#[expect(clippy::cast_precision_loss, reason = "a queue is far below 2^53 bytes")]
const fn precise(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests;
