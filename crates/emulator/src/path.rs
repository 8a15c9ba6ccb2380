//! A path of two links, one in each direction, and common configurations.

use std::time::{Duration, Instant};

use crate::bitrate::Bitrate;
use crate::config::LinkConfig;
use crate::draw::Direction;
use crate::link::{ChangeError, Delivery, Dropped, Link, Queued};
use crate::loss::Loss;
use crate::packet::Packet;
use crate::probability::Probability;
use crate::queue::{Occupancy, QueueLimit, QueueSize};
use crate::time::saturating_add;
use crate::wifi::Medium;

/// Both directions of a path between two hosts.
#[derive(Debug)]
pub struct Path {
    /// Link from the side that opened the path.
    pub forward: Link,
    /// Link back to the side that opened the path.
    pub reverse: Link,
    /// Direction of the last turn on an 802.11 medium that both links share.
    last: Direction,
}

impl Path {
    /// Creates an empty path. Both directions use `seed`, but their random draws are independent.
    ///
    /// A [`LinkConfig`] alone applies to both directions.
    pub fn new(config: impl Into<PathConfig>, seed: u64) -> Self {
        let config = config.into();
        let mut forward = Link::new(config.forward, seed, Direction::Forward);
        let mut reverse = Link::new(config.reverse, seed, Direction::Reverse);
        // The path can order the turns on a shared medium only if both links store their waiting
        // packets. RED and PIE do not store them.
        let is_cell = forward.uses_wifi() && reverse.uses_wifi();
        if is_cell && !forward.decides_on_arrival() && !reverse.decides_on_arrival() {
            forward.decide_on_departure();
            reverse.decide_on_departure();
        }
        Self { forward, reverse, last: Direction::Reverse }
    }

    /// Returns the link of a direction.
    pub const fn link(&self, direction: Direction) -> &Link {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Reverse => &self.reverse,
        }
    }

    /// Returns the link of a direction.
    pub const fn link_mut(&mut self, direction: Direction) -> &mut Link {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Reverse => &mut self.reverse,
        }
    }

    /// Pushes a packet into the link of a direction; see [`Link::push`].
    ///
    /// If both links are 802.11 ([`LinkConfig::wifi`]), they share one half-duplex cell, so the
    /// packet's airtime also delays the other link.
    pub fn push(
        &mut self,
        direction: Direction,
        now: Instant,
        packet: impl Into<Packet>,
    ) -> Result<(), Dropped> {
        self.settle(now, Duration::ZERO);
        let result = self.link_mut(direction).push(now, packet);
        self.report_turn(direction);
        result
    }

    /// Removes and returns the next packet of a direction that is due by `now`; see [`Link::pop`].
    ///
    /// In a shared 802.11 cell, a direction with CoDel or drop-head stores its packets until their
    /// turns on the medium. So does one with drop-tail, unless the other direction has RED or PIE.
    /// A pop serves the stored packets of both directions whose turns start by `now` less the
    /// shorter of the two delays, in the order of the turns.
    pub fn pop(&mut self, direction: Direction, now: Instant) -> Option<Delivery> {
        self.settle(now, self.forward.least_delay().min(self.reverse.least_delay()));
        self.link_mut(direction).pop(now)
    }

    /// Changes the settings of both links for packets pushed from now on; see [`Link::change`].
    ///
    /// # Errors
    /// If a setting of either link cannot change. Then both stay as they are.
    pub fn change(&mut self, now: Instant, config: PathConfig) -> Result<(), ChangeError> {
        self.forward.check_change(&config.forward)?;
        self.reverse.check_change(&config.reverse)?;
        self.forward.change(now, config.forward)?;
        self.reverse.change(now, config.reverse)
    }

    /// Prepares both links for [`change`](Self::change), before the first packet; see
    /// [`Link::allow_changes`].
    pub fn allow_changes(&mut self) {
        self.forward.allow_changes();
        self.reverse.allow_changes();
    }

    /// Returns the packets queued in a direction at `now`. Changes no drop and no due time, unless
    /// a packet is pushed later with an earlier time.
    pub fn queued(&mut self, direction: Direction, now: Instant) -> Queued {
        self.settle(now, Duration::ZERO);
        self.link_mut(direction).queued(now)
    }

    /// Starts both links at `at`; see [`Link::start`].
    pub fn start(&mut self, at: Instant) {
        self.forward.start(at);
        self.reverse.start(at);
    }

    /// Serves the stored packets of both directions whose turns on the shared medium (802.11
    /// airtime) start at or before `now` less `ahead`, in the order of the turns.
    fn settle(&mut self, now: Instant, ahead: Duration) {
        if !self.forward.uses_wifi() || !self.reverse.uses_wifi() {
            return;
        }
        while let Some((start, direction)) = self.next_turn() {
            if saturating_add(start, ahead) > now {
                return;
            }
            self.link_mut(direction).serve_next();
            self.report_turn(direction);
        }
    }

    /// Returns the start and direction of the next turn on the shared medium. If both directions
    /// could start at the same time, the direction that did not have the last turn sends first.
    fn next_turn(&self) -> Option<(Instant, Direction)> {
        let of = |link: &Link, direction| link.next_service().map(|start| (start, direction));
        let forward = of(&self.forward, Direction::Forward);
        let reverse = of(&self.reverse, Direction::Reverse);
        forward.into_iter().chain(reverse).min_by_key(|(start, direction)| (*start, *direction == self.last))
    }

    /// Reports the airtime that this direction used, to the other direction.
    fn report_turn(&mut self, direction: Direction) {
        let (link, other) = match direction {
            Direction::Forward => (&mut self.forward, &mut self.reverse),
            Direction::Reverse => (&mut self.reverse, &mut self.forward),
        };
        let Some(turn) = link.medium_mut().and_then(Medium::take_turn) else { return };
        if let Some(air) = other.medium_mut() {
            air.on_other_turn(turn);
        }
        self.last = direction;
    }
}

/// Settings of both links of a path. By default neither has any effect on packets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathConfig {
    /// Link from the side that opened the path.
    pub forward: LinkConfig,
    /// Link back to the side that opened the path.
    pub reverse: LinkConfig,
}

/// Uses the same link configuration for both directions.
impl From<LinkConfig> for PathConfig {
    fn from(link: LinkConfig) -> Self {
        Self { forward: link.clone(), reverse: link }
    }
}

impl PathConfig {
    /// Returns a path of two different links, for example with a slow reverse direction.
    pub const fn asymmetric(forward: LinkConfig, reverse: LinkConfig) -> Self {
        Self { forward, reverse }
    }

    /// Returns the sum of both propagation delays.
    pub fn rtt(&self) -> Duration {
        self.forward.delay.saturating_add(self.reverse.delay)
    }

    /// Sets the queue limit of both links to `size`. A multiple of the bandwidth-delay product uses
    /// each link's own rate and the path's round-trip time; the queue of a link without a rate
    /// becomes unlimited.
    #[must_use]
    pub fn queue_size(self, size: QueueSize) -> Self {
        let rtt = self.rtt();
        Self { forward: self.forward.queue_size(size, rtt), reverse: self.reverse.queue_size(size, rtt) }
    }

    /// Returns a path with this round-trip time and the same rate (`None`: no limit) each way.
    ///
    /// No packet is lost and the queues are unlimited.
    pub fn symmetric(rtt: Duration, rate: impl Into<Option<Bitrate>>) -> Self {
        let rate = rate.into();
        let (forward, reverse) = halves(rtt);
        let link = |delay| LinkConfig::new(rate, delay);
        Self { forward: link(forward), reverse: link(reverse) }
    }

    /// Returns the path that the receiver of the classic wire format emulates; see [`ClassicLink`].
    pub fn classic(classic: ClassicLink) -> Self {
        let (forward, reverse) = halves(classic.rtt);
        let link = |delay, loss| {
            LinkConfig::new(classic.rate, delay)
                .loss(Loss::Bernoulli(loss))
                .queue(QueueLimit::packets(classic.buffer))
                .occupancy(Occupancy::WaitingAndInFlight)
                .memory_limit(classic.memory_limit)
        };
        Self { forward: link(forward, classic.loss_forward), reverse: link(reverse, classic.loss_reverse) }
    }
}

/// Path that a sender of the classic wire format requests its receiver to emulate.
///
/// Each direction has its own rate and buffer. Serialisation counts UDP payload bytes without
/// headers. Waiting packets and packets on the wire count towards the buffer, so that an empty link
/// accepts a burst of `buffer` + 1 packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassicLink {
    /// Sum of both propagation delays.
    pub rtt: Duration,
    /// Serialisation rate of each direction.
    pub rate: Bitrate,
    /// Loss probability of each packet in the forward direction.
    pub loss_forward: Probability,
    /// Loss probability of each packet in the reverse direction.
    pub loss_reverse: Probability,
    /// Limit on the packets waiting or on the wire, for each direction.
    pub buffer: u32,
    /// Memory limit of each direction, in bytes; see [`LinkConfig::memory_limit`].
    pub memory_limit: u64,
}

/// Splits `rtt` into the delays of both directions. The reverse direction is a nanosecond longer if
/// `rtt` is odd, so that the sum is exact.
pub(crate) fn halves(rtt: Duration) -> (Duration, Duration) {
    let forward = rtt / 2;
    (forward, rtt.saturating_sub(forward))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outage::Outage;
    use rdt_testing::{epoch, ms, ns};

    fn classic() -> ClassicLink {
        ClassicLink {
            rtt: ms(100),
            rate: Bitrate::from_bps(10_000_000),
            loss_forward: Probability::ZERO,
            loss_reverse: Probability::ZERO,
            buffer: 10,
            memory_limit: 1 << 20,
        }
    }

    #[test]
    fn rtt_halves_sum_exactly() {
        for rtt in [Duration::ZERO, ns(1), ns(99), ms(100), Duration::new(29, 999_999_999), Duration::MAX] {
            for config in [
                PathConfig::symmetric(rtt, Bitrate::from_bps(1)),
                PathConfig::classic(ClassicLink { rtt, ..classic() }),
            ] {
                assert_eq!(config.forward.delay + config.reverse.delay, rtt);
                assert!(config.reverse.delay <= config.forward.delay + ns(1));
            }
        }
    }

    #[test]
    fn unloaded_round_trip_is_rtt_plus_serialisation() {
        let mut path = Path::new(PathConfig::classic(classic()), 1);
        let now = epoch();
        path.forward.push(now, vec![0; 1_472]).unwrap();
        let there = path.forward.next_wakeup().unwrap();
        path.reverse.push(there, vec![0; 12]).unwrap();
        let back = path.reverse.next_wakeup().unwrap();
        assert_eq!(back - now, ms(100) + ns((1_472 + 12) * 8 * 100));
    }

    #[test]
    fn classic_path_keeps_buffer_plus_one() {
        for buffer in [1, 10] {
            for bps in [300, 10_000_000, 10_000_000_000] {
                let config = ClassicLink { buffer, rate: Bitrate::from_bps(bps), ..classic() };
                let mut path = Path::new(PathConfig::classic(config), 1);
                let now = epoch();
                for link in [&mut path.forward, &mut path.reverse] {
                    let kept = (0..1_000).filter(|_| link.push(now, vec![0; 12]).is_ok()).count();
                    assert_eq!(kept, buffer as usize + 1, "buffer {buffer} at {bps} bit/s");
                }
            }
        }
    }

    #[test]
    fn classic_path_loses_per_direction() {
        let certain = Probability::new(1.0).unwrap();
        let config = ClassicLink { loss_reverse: certain, ..classic() };
        let mut path = Path::new(PathConfig::classic(config), 1);
        assert!(path.forward.push(epoch(), vec![0; 12]).is_ok());
        assert!(path.reverse.push(epoch(), vec![0; 12]).is_err());
    }

    #[test]
    fn directions_lose_different_packets() {
        let half = Probability::new(0.5).unwrap();
        let config = ClassicLink { loss_forward: half, loss_reverse: half, buffer: 1_000, ..classic() };
        let mut path = Path::new(PathConfig::classic(config), 1);
        let now = epoch();
        let fates =
            |link: &mut Link| -> Vec<bool> { (0..64).map(|_| link.push(now, vec![0; 12]).is_ok()).collect() };
        assert_ne!(fates(&mut path.forward), fates(&mut path.reverse));
    }

    #[test]
    fn symmetric_path_counts_waiting_packets_only() {
        let limited = PathConfig::symmetric(ms(40), Bitrate::from_bps(1_000_000));
        assert_eq!(limited.forward, limited.reverse);
        assert_eq!(limited.forward.occupancy, Occupancy::Waiting);
        assert_eq!(limited.forward.rate, Some(Bitrate::from_bps(1_000_000)));

        let unlimited = PathConfig::symmetric(ms(40), None);
        assert_eq!(unlimited.forward, LinkConfig { delay: ms(20), ..LinkConfig::default() });
    }

    #[test]
    fn one_config_serves_both_directions() {
        let (wide, thin) = (LinkConfig::new(None, ms(1)), LinkConfig::new(Bitrate::from_bps(1), ms(2)));
        assert_eq!(PathConfig::from(thin.clone()), PathConfig::asymmetric(thin.clone(), thin.clone()));
        let path = PathConfig::asymmetric(wide.clone(), thin.clone());
        assert_eq!((&path.forward, &path.reverse, path.rtt()), (&wide, &thin, ms(3)));
    }

    #[test]
    fn bdp_queue_uses_rtt_and_own_rate() {
        let link = |bps, delay| LinkConfig::new(Bitrate::from_bps(bps), delay);
        let path = PathConfig::asymmetric(link(8_000_000, ms(10)), link(800_000, ms(30)))
            .queue_size(QueueSize::BdpMillionths(500_000));
        assert_eq!(path.forward.queue, QueueLimit::bytes(20_000));
        assert_eq!(path.reverse.queue, QueueLimit::bytes(2_000));
    }

    #[test]
    fn both_directions_start_together() {
        let config = LinkConfig::default().outage(Outage::once(ms(10), ms(20)));
        let mut path = Path::new(config, 1);
        let now = epoch();
        path.start(now);
        let at = |link: &mut Link, millis| link.push(now + ms(millis), vec![0]).is_ok();
        assert!(at(&mut path.forward, 5));
        assert!(!at(&mut path.forward, 15));
        assert!(!at(&mut path.reverse, 15), "although nothing came earlier");
    }
}
