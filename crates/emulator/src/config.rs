//! Settings of one link.

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
/// 1 GiB is over 800 ms of traffic at 10 Gbit/s, longer than any plausible path. The limit stops a
/// misconfigured path from exhausting the host's memory.
pub const DEFAULT_MEMORY_LIMIT_BYTES: u64 = 1 << 30;

/// Settings of a link. By default it has no loss, no delay, and no limit except on memory.
///
/// Every method except [`new`](Self::new) and [`highest_rate`](Self::highest_rate) returns the
/// settings with one of them changed:
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
    /// Times at which the link is down: it drops packets that arrive then.
    pub outage: Outage,
    /// Link MTU, in bytes of the packet with `overhead`. Longer packets are dropped or fragmented.
    pub mtu: Mtu,
    /// Serialisation rate. `None`: serialisation takes no time.
    pub rate: Option<Bitrate>,
    /// Rate that varies with time, which replaces `rate`. `None`: the rate is constant.
    pub varying: Option<VaryingRate>,
    /// Propagation delay, from the end of a packet's serialisation to its delivery.
    pub delay: Duration,
    /// Variation of `delay` from packet to packet.
    pub jitter: Option<Jitter>,
    /// Random extra delay of single packets, so that later packets overtake them.
    pub reorder: Option<Reorder>,
    /// Limit on the packets and bytes that count as `occupancy`.
    pub queue: QueueLimit,
    /// Which packets count towards `queue`.
    pub occupancy: Occupancy,
    /// Queue discipline: which packets are dropped or marked.
    pub discipline: Discipline,
    /// Queue threshold above which arriving packets are marked CE, besides the marks of
    /// `discipline`.
    pub marking: Option<Marking>,
    /// Probability that the link duplicates an admitted packet.
    ///
    /// The copy passes queue, serialiser and delay as a separate packet with its own random draws.
    /// It is neither lost on arrival nor duplicated, but the queue may drop it.
    pub duplicate: Probability,
    /// Probability that one bit of an admitted packet is flipped.
    pub corrupt: Probability,
    /// Header bytes added to the payload of each packet. They count towards the MTU.
    pub overhead: u32,
    /// Link-layer bytes added to each packet or fragment: 14 for the Ethernet header, 38 with
    /// preamble, checksum and gap. They do not count towards the MTU.
    pub framing: u32,
    /// Limit on the memory of the packets inside the link, in bytes as
    /// [`Link::held_bytes`](crate::Link::held_bytes) counts them.
    ///
    /// The limit protects the host and is not part of the model. Due packets count until popped.
    pub memory_limit: u64,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self::new(None, Duration::ZERO)
    }
}

/// Methods that return the settings with one field changed.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $kind:ty,)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $field(self, $field: $kind) -> Self {
            Self { $field, ..self }
        }
    )*};
}

impl LinkConfig {
    /// Returns settings with this rate (`None`: no limit) and delay. All other effects are off.
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

    /// Changes the rate at each of these times since the start of the link.
    #[must_use]
    pub fn rate_steps(self, steps: impl IntoIterator<Item = (Duration, Bitrate)>) -> Self {
        let steps = steps.into_iter().map(|(at, rate)| (at, Some(rate)));
        let varying = Some(VaryingRate::Steps(Schedule::new(self.rate, steps)));
        Self { varying, ..self }
    }

    /// Sends packets at the opportunities of `trace`. Sets [`LinkConfig::rate`] to its mean rate.
    #[must_use]
    pub fn trace(self, trace: Trace) -> Self {
        let rate = Some(trace.mean_rate());
        Self { rate, varying: Some(VaryingRate::Trace(trace)), ..self }
    }

    /// Sends packets through an 802.11 cell. Each uses the airtime of an IP packet of its payload
    /// and `overhead` bytes. Sets [`LinkConfig::rate`] to the throughput of 1500-byte packets in a
    /// saturated cell.
    #[must_use]
    pub fn wifi(self, wifi: WifiConfig) -> Self {
        self.wifi_schedule(Schedule::constant(wifi))
    }

    /// Sends packets through an 802.11 cell whose bit rate changes; see [`VaryingRate::Wifi`]. Sets
    /// [`LinkConfig::rate`] as [`wifi`](Self::wifi) does for the cell at the start.
    #[must_use]
    pub fn wifi_schedule(self, cells: Schedule<WifiConfig>) -> Self {
        let rate = Some(cells.at(Duration::ZERO).throughput(1_500));
        Self { rate, varying: Some(VaryingRate::Wifi(cells)), ..self }
    }

    /// Returns the highest rate of the link at any time; for a trace, the highest over one second.
    /// `None` if no rate ever limits the link.
    pub fn highest_rate(&self) -> Option<Bitrate> {
        self.varying.as_ref().and_then(VaryingRate::highest).or(self.rate)
    }

    /// Sets the variation of the propagation delay from packet to packet.
    #[must_use]
    pub fn jitter(self, jitter: Jitter) -> Self {
        Self { jitter: Some(jitter), ..self }
    }

    /// Delays each packet by `extra` with this probability, so that later packets overtake it.
    #[must_use]
    pub fn reorder(self, probability: Probability, extra: Duration) -> Self {
        Self { reorder: Some(Reorder { probability, extra }), ..self }
    }

    /// Sets the queue's limit to `size`; `rtt` is the path's round-trip time. If `size` is a
    /// multiple of the bandwidth-delay product and the link has no rate, the queue becomes
    /// unlimited.
    #[must_use]
    pub fn queue_size(self, size: QueueSize, rtt: Duration) -> Self {
        let queue = QueueLimit::of_size(size, self.rate, rtt).unwrap_or(QueueLimit::UNLIMITED);
        Self { queue, ..self }
    }

    /// Sets the queue threshold above which arriving packets are marked CE.
    #[must_use]
    pub fn marking(self, marking: Marking) -> Self {
        Self { marking: Some(marking), ..self }
    }

    setters! {
        /// Sets the loss model.
        loss: Loss,
        /// Sets the times at which the link is down.
        outage: Outage,
        /// Sets the MTU.
        mtu: Mtu,
        /// Sets the limit on the packets and bytes that count as occupancy.
        queue: QueueLimit,
        /// Sets which packets count towards the queue's limit.
        occupancy: Occupancy,
        /// Sets the queue discipline.
        discipline: Discipline,
        /// Duplicates each packet with this probability.
        duplicate: Probability,
        /// Flips one bit of each packet with this probability.
        corrupt: Probability,
        /// Sets the header bytes added to the payload of each packet.
        overhead: u32,
        /// Sets the link-layer bytes added to each packet or fragment.
        framing: u32,
        /// Sets the limit on the memory of the packets inside the link, in bytes.
        memory_limit: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::ms;

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
        let faster: Schedule<WifiConfig> = "wifi-g:rate=6mbit+1s:54mbit+2s:9mbit".parse().unwrap();
        assert_eq!(highest(LinkConfig::default().wifi_schedule(faster)), Some(24_096_385.0));
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
