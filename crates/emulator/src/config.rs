//! Settings of one link.
//!
//! Under the defaults a link is a perfect wire.

use std::time::Duration;

use crate::bitrate::Bitrate;
use crate::delay::{Jitter, Reorder};
use crate::loss::Loss;
use crate::mtu::Mtu;
use crate::outage::Outage;
use crate::probability::Probability;
use crate::queue::{Discipline, Marking, Occupancy, QueueLimit, QueueSize};
use crate::rate::{Trace, VaryingRate};
use crate::schedule::Schedule;
use crate::wifi::WifiConfig;

/// Default memory limit of a link, in bytes: 1 GiB.
///
/// This holds over 800 ms of traffic at 10 Gbit/s, more than any plausible path. A misconfigured
/// path still cannot exhaust the machine's memory.
pub const DEFAULT_MEMORY_LIMIT_BYTES: u64 = 1 << 30;

/// Settings of a link. The default is a perfect wire: no loss, no delay, no limit but on memory.
///
/// Every method but [`new`](Self::new) returns the same link with one thing changed:
///
/// ```
/// use std::time::Duration;
/// use rdt_emulator::{Bitrate, LinkConfig, Loss, Probability, QueueLimit};
///
/// let link = LinkConfig::new(Bitrate::from_bps(10_000_000), Duration::from_millis(20))
///     .loss(Loss::script([7, 8, 30]))
///     .queue(QueueLimit::packets(25))
///     .overhead(28)
///     .duplicate(Probability::new(0.01).expect("between 0 and 1"));
/// assert_eq!(link.queue, QueueLimit::packets(25));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Loss model.
    pub loss: Loss,
    /// When the link is down. Packets that arrive then are dropped.
    pub outage: Outage,
    /// The longest packet that passes whole. Longer ones are dropped or fragmented.
    pub mtu: Mtu,
    /// Serialisation rate, or `None` for no limit.
    pub rate: Option<Bitrate>,
    /// Replaces `rate` if the rate varies.
    pub varying: Option<VaryingRate>,
    /// Propagation delay, from the end of serialisation to delivery.
    pub delay: Duration,
    /// Variation of `delay` from packet to packet.
    pub jitter: Option<Jitter>,
    /// Packets held back for others to overtake.
    pub reorder: Option<Reorder>,
    /// Limit on the queue's occupancy.
    pub queue: QueueLimit,
    /// The packets that count as occupancy.
    pub occupancy: Occupancy,
    /// Queue discipline.
    pub discipline: Discipline,
    /// Threshold above which packets are marked, with any discipline.
    pub marking: Option<Marking>,
    /// Probability that a second copy follows an admitted packet.
    ///
    /// The copy waits, is served and travels as a packet of its own. It has the same number and
    /// other draws. It is neither lost on arrival nor duplicated, but the queue may drop it.
    pub duplicate: Probability,
    /// Probability that one bit of an admitted packet is flipped.
    pub corrupt: Probability,
    /// Header bytes of each packet besides its payload. They count against the MTU.
    pub overhead: u32,
    /// Bytes of link-layer framing of each packet or fragment: 14 for the Ethernet header, 38 with
    /// preamble, checksum and gap. They do not count against the MTU.
    pub framing: u32,
    /// Limit on the memory that the link holds, in bytes as
    /// [`Link::held_bytes`](crate::Link::held_bytes) counts them.
    ///
    /// The limit protects the machine and is not part of the model. It covers all packets held,
    /// also those that are due and not yet popped.
    pub memory_limit: u64,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self::new(None, Duration::ZERO)
    }
}

impl LinkConfig {
    /// A link of this rate (`None` for no limit) and propagation delay that is a perfect wire
    /// otherwise.
    pub fn new(rate: impl Into<Option<Bitrate>>, delay: Duration) -> Self {
        Self {
            loss: Loss::None,
            outage: Outage::None,
            mtu: Mtu::unlimited(),
            rate: rate.into(),
            varying: None,
            delay,
            jitter: None,
            reorder: None,
            queue: QueueLimit::UNLIMITED,
            occupancy: Occupancy::Waiting,
            discipline: Discipline::DropTail,
            marking: None,
            duplicate: Probability::ZERO,
            corrupt: Probability::ZERO,
            overhead: 0,
            framing: 0,
            memory_limit: DEFAULT_MEMORY_LIMIT_BYTES,
        }
    }

    /// Sets the loss model.
    #[must_use]
    pub fn loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    /// Sets the times at which the link is down.
    #[must_use]
    pub fn outage(self, outage: Outage) -> Self {
        Self { outage, ..self }
    }

    /// Sets the longest packet that passes whole.
    #[must_use]
    pub fn mtu(self, mtu: Mtu) -> Self {
        Self { mtu, ..self }
    }

    /// Changes the rate at each of these times, which count from the start of the link.
    #[must_use]
    pub fn rate_steps(self, steps: impl IntoIterator<Item = (Duration, Bitrate)>) -> Self {
        let steps = steps.into_iter().map(|(at, rate)| (at, Some(rate)));
        let varying = Some(VaryingRate::Steps(Schedule::new(self.rate, steps)));
        Self { varying, ..self }
    }

    /// Sends at the opportunities of a trace. [`LinkConfig::rate`] becomes its mean rate.
    #[must_use]
    pub fn trace(self, trace: Trace) -> Self {
        let rate = Some(trace.mean_rate());
        Self { rate, varying: Some(VaryingRate::Trace(trace)), ..self }
    }

    /// Sends through an 802.11 cell: a packet takes the airtime of an IP packet of its size with
    /// overhead. [`LinkConfig::rate`] becomes the throughput of 1500-byte packets in a saturated
    /// cell.
    #[must_use]
    pub fn wifi(self, wifi: WifiConfig) -> Self {
        Self { rate: Some(wifi.throughput(1_500)), varying: Some(VaryingRate::Wifi(wifi)), ..self }
    }

    /// The highest rate at any time, over a second if the rate is a trace. `None` if the rate is
    /// never limited. Times without a limit do not count.
    pub fn highest_rate(&self) -> Option<Bitrate> {
        self.varying.as_ref().and_then(VaryingRate::highest).or(self.rate)
    }

    /// Sets the variation of the delay.
    #[must_use]
    pub fn jitter(self, jitter: Jitter) -> Self {
        Self { jitter: Some(jitter), ..self }
    }

    /// Delays a packet by `extra` with this probability, so that later packets overtake it.
    #[must_use]
    pub fn reorder(self, probability: Probability, extra: Duration) -> Self {
        Self { reorder: Some(Reorder { probability, extra }), ..self }
    }

    /// Sets the limit on the queue's occupancy.
    #[must_use]
    pub fn queue(self, queue: QueueLimit) -> Self {
        Self { queue, ..self }
    }

    /// Sets the queue's limit to this size, on a path with this round-trip time. A multiple of the
    /// bandwidth-delay product is no limit if the link has no rate.
    #[must_use]
    pub fn queue_size(self, size: QueueSize, rtt: Duration) -> Self {
        let queue = QueueLimit::of_size(size, self.rate, rtt).unwrap_or(QueueLimit::UNLIMITED);
        Self { queue, ..self }
    }

    /// Sets which packets count as occupancy.
    #[must_use]
    pub fn occupancy(self, occupancy: Occupancy) -> Self {
        Self { occupancy, ..self }
    }

    /// Sets the queue discipline.
    #[must_use]
    pub fn discipline(self, discipline: Discipline) -> Self {
        Self { discipline, ..self }
    }

    /// Sets the marking threshold.
    #[must_use]
    pub fn marking(self, marking: Marking) -> Self {
        Self { marking: Some(marking), ..self }
    }

    /// Duplicates packets with this probability.
    #[must_use]
    pub fn duplicate(self, duplicate: Probability) -> Self {
        Self { duplicate, ..self }
    }

    /// Flips one bit of a packet with this probability.
    #[must_use]
    pub fn corrupt(self, corrupt: Probability) -> Self {
        Self { corrupt, ..self }
    }

    /// Sets the header bytes of each packet.
    #[must_use]
    pub fn overhead(self, overhead: u32) -> Self {
        Self { overhead, ..self }
    }

    /// Sets the framing bytes of each frame.
    #[must_use]
    pub fn framing(self, framing: u32) -> Self {
        Self { framing, ..self }
    }

    /// Sets the memory limit, in bytes.
    #[must_use]
    pub fn memory_limit(self, memory_limit: u64) -> Self {
        Self { memory_limit, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    const RATE: Bitrate = Bitrate::from_bps(8_000_000);

    #[test]
    fn new_link_has_defaults_except_rate_and_delay() {
        let expected = LinkConfig { rate: Some(RATE), delay: ms(3), ..LinkConfig::default() };
        assert_eq!(LinkConfig::new(RATE, ms(3)), expected);
        assert_eq!(LinkConfig::new(None, Duration::ZERO), LinkConfig::default());
    }

    #[test]
    fn each_setter_changes_one_field() {
        let half = Probability::new(0.5).unwrap();
        let limit = QueueLimit::packets(4);
        let built = LinkConfig::new(RATE, ms(1))
            .loss(Loss::every_nth(2))
            .outage(Outage::once(ms(1), ms(2)))
            .mtu(Mtu::new(9))
            .rate_steps([(ms(5), RATE)])
            .jitter(Jitter::uniform(ms(1)))
            .reorder(half, ms(6))
            .queue(limit)
            .occupancy(Occupancy::WaitingAndInFlight)
            .discipline(Discipline::DropHead)
            .marking(Marking::above(limit))
            .duplicate(half)
            .corrupt(Probability::ONE)
            .overhead(28)
            .framing(14)
            .memory_limit(77);
        let expected = LinkConfig {
            loss: Loss::every_nth(2),
            outage: Outage::once(ms(1), ms(2)),
            mtu: Mtu::new(9),
            rate: Some(RATE),
            varying: Some(VaryingRate::Steps(Schedule::new(Some(RATE), [(ms(5), Some(RATE))]))),
            delay: ms(1),
            jitter: Some(Jitter::uniform(ms(1))),
            reorder: Some(Reorder { probability: half, extra: ms(6) }),
            queue: limit,
            occupancy: Occupancy::WaitingAndInFlight,
            discipline: Discipline::DropHead,
            marking: Some(Marking::above(limit)),
            duplicate: half,
            corrupt: Probability::ONE,
            overhead: 28,
            framing: 14,
            memory_limit: 77,
        };
        assert_eq!(built, expected);
    }

    #[test]
    fn highest_rate_ignores_unlimited_times() {
        let highest = |link: LinkConfig| link.highest_rate().map(|rate| rate.as_bps_f64().round());
        let new = |rate| LinkConfig::new(rate, ms(1));
        let steps =
            |first| new(first).rate_steps([(ms(1), Bitrate::from_bps(5)), (ms(2), Bitrate::from_bps(3))]);
        assert_eq!((highest(new(None)), highest(new(Some(RATE)))), (None, Some(8e6)));
        assert_eq!((highest(steps(None)), highest(steps(Some(RATE)))), (Some(5.0), Some(8e6)));
        assert_eq!(highest(LinkConfig::default().wifi(WifiConfig::g())), Some(24_096_385.0));
    }

    #[test]
    fn bdp_queue_follows_rate_and_trace() {
        let size = QueueSize::BdpMillionths(1_000_000);
        assert_eq!(LinkConfig::new(RATE, ms(9)).queue_size(size, ms(10)).queue, QueueLimit::bytes(10_000));
        let trace = LinkConfig::default().trace(Trace::parse("3").unwrap());
        assert_eq!(trace.queue_size(size, ms(30)).queue, QueueLimit::bytes(15_000));
        assert_eq!(LinkConfig::default().queue_size(size, ms(30)).queue, QueueLimit::UNLIMITED);
    }
}
