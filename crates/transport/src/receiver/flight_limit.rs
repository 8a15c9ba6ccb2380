//! Limit on the data in flight to one receiver: what its share of the socket's receive buffer
//! holds, plus what a long network path holds. UDP has no back-pressure, so the offered window must
//! prevent overflow. Without this limit, a sender on the same host fills the small buffer of an
//! ordinary user whenever the receiver's thread is not scheduled, and the excess is lost in the
//! host.
//!
//! Owns one peer's share and its RTT and delivery rate as far as they bound the window. Counts in
//! the format's numbers: packets (classic) or bytes (native).

use std::time::{Duration, Instant};

use crate::wire::Numbering;

/// Lower limit of the window, packets. A single one would wait for the ACK delay (one ACK per two).
const MIN_PACKETS: u64 = 2;
/// A sender that uses a new window within this many shortest RTTs was blocked by the window.
const PROMPT_RTTS: u32 = 2;
/// Multiple of the measured bandwidth-delay product that may be in flight: slow start doubles the
/// window in a round trip, and a router's queue may hold as much as its links.
const BDP_GAIN: u64 = 4;
/// Minimum RTTs of continuous arrivals after which a higher delivery rate of the past is forgotten.
const FORGET_AFTER_RTTS: u128 = 8;

/// Share of the socket's receive buffer that one peer may fill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferShare {
    /// Size of the share, in bytes as [`charge`](Self::charge) counts them.
    pub bytes: u64,
    /// True if a larger buffer would make the share larger.
    pub is_scarce: bool,
    /// Returns the bytes charged to the buffer for a datagram with this many bytes of payload.
    pub charge: fn(u64) -> u64,
    /// Part of an RTT spent in idle hosts, by wake-ups and batching.
    pub min_host_delay: Duration,
    /// Part of an RTT spent in the hosts at their present load; at least `min_host_delay`.
    pub host_delay: Duration,
}

/// A packet or byte that could not be sent before it was offered: its arrival measures the RTT.
#[derive(Debug, Clone, Copy)]
struct Probe {
    number: u64,
    offered_at: Instant,
    /// End of the data that had arrived when `number` was offered.
    arrived: u64,
    /// True if a larger buffer would have allowed a larger offer.
    bounded: bool,
}

/// Limit on the data that one peer may have in flight, and the measurements that determine it.
#[derive(Debug)]
pub(crate) struct FlightLimit {
    /// `None` for no limit.
    share: Option<BufferShare>,
    numbering: Numbering,
    /// Largest payload so far, bytes.
    largest: u64,
    /// Capacity of `share`, in the format's numbers.
    room: u64,
    probe: Option<Probe>,
    /// Shortest RTT so far.
    min_rtt: Option<Duration>,
    /// Recent maximum of the delivery rate, in the format's numbers per second.
    rate: u64,
    /// Time of the newest arrival.
    last_arrival: Option<Instant>,
    /// True if the sender paused since the probe was offered: it measures the sender, not the path.
    paused: bool,
    /// Allowance for the path, in the format's numbers.
    path: u64,
    /// RTTs in which this limit blocked the sender.
    limited: u64,
}

impl FlightLimit {
    /// Returns a state without a limit, for packets with about `payload` bytes of payload.
    pub(crate) fn new(numbering: Numbering, payload: u64) -> Self {
        Self {
            share: None,
            numbering,
            largest: payload.max(1),
            room: u64::MAX,
            probe: None,
            min_rtt: None,
            rate: 0,
            last_arrival: None,
            paused: false,
            path: 0,
            limited: 0,
        }
    }

    pub(crate) fn set_share(&mut self, share: BufferShare) {
        let before = self.share.replace(share);
        if before.is_none_or(|before| before.bytes != share.bytes) {
            self.set_room();
        }
    }

    /// Handles an RTT of another source. Samples of probes include the time in the hosts.
    pub(crate) fn on_rtt(&mut self, rtt: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
    }

    /// Returns the right edge to offer when all up to `arrived` has left the socket or was lost.
    pub(crate) fn edge(&self, arrived: u64) -> u64 {
        arrived.saturating_add(self.room).saturating_add(self.path)
    }

    /// Returns the bytes, as charged to the socket's buffer, of data offered below `edge` that has
    /// not arrived. The allowance for the path is not counted. Zero without a limit.
    pub(crate) fn held(&self, arrived: u64, edge: u64) -> u64 {
        let Some(share) = self.share else { return 0 };
        let in_buffer = edge.saturating_sub(arrived).saturating_sub(self.path);
        // No buffer is larger than 4 GiB, and capped terms cannot overflow a sum.
        in_buffer
            .div_ceil(self.packet())
            .saturating_mul((share.charge)(self.largest))
            .min(u64::from(u32::MAX))
    }

    /// Handles the arrival of a packet with `payload` bytes that ends at number `end`; `arrived` is
    /// the end of the data that arrived before.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Instant, end: u64, payload: u64, arrived: u64) {
        let Some(share) = self.share else { return };
        if payload > self.largest {
            self.largest = payload;
            self.set_room();
        }
        // All packets of a coalesced run arrive at one time.
        if self.last_arrival != Some(now) {
            self.paused |= self.is_pause(now, &share);
            self.last_arrival = Some(now);
        }
        if let Some(probe) = self.probe.filter(|probe| end > probe.number) {
            self.probe = None;
            let sample = now.saturating_duration_since(probe.offered_at);
            self.measure(sample, end.max(arrived).saturating_sub(probe.arrived), &share);
            let waited = self.min_rtt.is_some_and(|rtt| sample < PROMPT_RTTS * rtt);
            self.limited += u64::from(probe.bounded && waited);
        }
    }

    /// Handles an offer that moves the right edge from `before` to `edge`, `bounded` by this limit.
    pub(crate) fn on_offer(&mut self, now: Instant, before: u64, edge: u64, arrived: u64, bounded: bool) {
        let Some(share) = self.share else { return };
        if edge > before && self.probe.is_none() {
            let bounded = bounded && share.is_scarce;
            self.probe = Some(Probe { number: before, offered_at: now, arrived, bounded });
            self.paused = false;
        }
    }

    /// Returns the RTTs in which the sender waited for a window that a larger buffer would enlarge.
    pub(crate) fn limited(&self) -> u64 {
        self.limited
    }

    /// Returns the size of a full packet, in the format's numbers.
    fn packet(&self) -> u64 {
        match self.numbering {
            Numbering::Packets => 1,
            Numbering::Bytes => self.largest,
        }
    }

    fn set_room(&mut self) {
        if let Some(share) = self.share {
            let packets = share.bytes / (share.charge)(self.largest).max(1);
            self.room = packets.max(MIN_PACKETS).saturating_mul(self.packet());
        }
    }

    /// True if the last arrival is so long ago that the sender had no data, rather than no window.
    fn is_pause(&self, now: Instant, share: &BufferShare) -> bool {
        let silence = self.last_arrival.map(|arrival| now.saturating_duration_since(arrival));
        silence
            .zip(self.min_rtt)
            .is_some_and(|(silence, rtt)| silence > PROMPT_RTTS * rtt.max(share.min_host_delay))
    }

    /// Updates the allowance for the path by a probe's RTT and the amount delivered meanwhile. A
    /// sender that does not use its window up makes the sample longer than the RTT, so the shortest
    /// sample counts. A lower rate replaces a higher one gradually, the faster the longer it was
    /// observed: the path may have become slower.
    fn measure(&mut self, sample: Duration, delivered: u64, share: &BufferShare) {
        let nanos = sample.as_nanos();
        if nanos == 0 {
            return;
        }
        let saturate = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let rtt = self.min_rtt.map_or(sample, |rtt| rtt.min(sample));
        self.min_rtt = Some(rtt);
        let forgotten = match nanos / rtt.as_nanos() {
            _ if self.paused => 0,
            rtts => saturate(u128::from(self.rate) * rtts.min(FORGET_AFTER_RTTS) / FORGET_AFTER_RTTS),
        };
        self.rate = (self.rate - forgotten).max(saturate(u128::from(delivered) * 1_000_000_000 / nanos));
        let path_delay = rtt.saturating_sub(share.host_delay).as_nanos();
        self.path = saturate(u128::from(self.rate) * path_delay / 1_000_000_000).saturating_mul(BDP_GAIN);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use rdt_testing::epoch;

    /// Buffer share for 100 packets of 1460 bytes.
    const SHARE: u64 = 230_400;

    /// Returns what Linux charges for a datagram: in one packet of 1500 bytes, or in a jumbo frame.
    fn charge(payload: u64) -> u64 {
        if payload > 1500 { 16_640 } else { 2304 }
    }

    fn scarce(bytes: u64) -> BufferShare {
        let host_delay = Duration::from_millis(1);
        BufferShare { bytes, is_scarce: true, charge, min_host_delay: host_delay, host_delay }
    }

    fn packets(share: u64) -> FlightLimit {
        let mut limit = FlightLimit::new(Numbering::Packets, 1460);
        limit.set_share(scarce(share));
        limit
    }

    /// Sends full windows, each with RTT `trip`; returns the limit after the last.
    fn limit_after(limit: &mut FlightLimit, trip: Duration, windows: u64) -> u64 {
        let (mut now, mut arrived) = (epoch(), 0);
        limit.on_offer(now, 0, 1, 0, false);
        for _ in 0..windows {
            now += trip;
            limit.on_arrival(now, arrived + 1, 1460, arrived);
            let edge = limit.edge(arrived);
            limit.on_offer(now, arrived + 1, edge, arrived + 1, true);
            arrived = edge;
        }
        limit.edge(0)
    }

    #[test]
    fn share_converts_to_packets_or_bytes() {
        assert_eq!(packets(SHARE).edge(7), 107);
        let mut bytes = FlightLimit::new(Numbering::Bytes, 1444);
        assert_eq!(bytes.edge(7), u64::MAX, "no limit yet");
        bytes.set_share(scarce(SHARE));
        assert_eq!(bytes.edge(7), 7 + 100 * 1444);
        bytes.on_arrival(epoch(), 9000, 8944, 0);
        assert_eq!(bytes.edge(0), SHARE / charge(8944) * 8944, "larger packets are charged more");
        assert_eq!(packets(1).edge(0), MIN_PACKETS, "two packets at least");
    }

    #[test]
    fn free_datagrams_do_not_divide_by_zero() {
        let mut limit = FlightLimit::new(Numbering::Packets, 1460);
        limit.set_share(BufferShare { charge: |_| 0, ..scarce(SHARE) });
        assert_eq!(limit.edge(0), SHARE);
    }

    #[test]
    fn long_path_adds_bandwidth_delay_product() {
        let near = limit_after(&mut packets(SHARE), Duration::from_millis(1), 20);
        assert_eq!(near, 100, "within a host only the socket's buffer counts");
        let ms = Duration::from_millis(20);
        let far: Vec<u64> = (1..5).map(|windows| limit_after(&mut packets(SHARE), ms, windows)).collect();
        assert!(far.windows(2).skip(1).all(|pair| pair[1] >= 2 * pair[0]), "{far:?}: at least doubles");
    }

    #[test]
    fn queueing_in_hosts_adds_no_path_allowance() {
        let mut limit = packets(SHARE);
        limit.on_rtt(Duration::from_micros(500));
        let queued = limit_after(&mut limit, Duration::from_millis(150), 20);
        assert_eq!(queued, 100, "the handshake was fast, so data waits in the hosts");
    }

    /// A flow over a path with an RTT of 20 ms.
    struct Flow {
        limit: FlightLimit,
        now: Instant,
        /// Packets that have arrived.
        arrived: u64,
        /// Right edge offered at each ms of the last RTT, oldest first.
        offers: VecDeque<u64>,
    }

    impl Flow {
        fn new() -> Self {
            let mut limit = packets(SHARE);
            limit.on_offer(epoch(), 0, 100, 0, true);
            Self { limit, now: epoch(), arrived: 0, offers: [0; 19].into_iter().chain([100]).collect() }
        }

        /// Runs with at most `per_ms` packets a millisecond; returns the limit afterwards.
        fn run(&mut self, per_ms: u64, millis: u64) -> u64 {
            for _ in 0..millis {
                self.now += Duration::from_millis(1);
                let (known, before) = (self.offers[0], self.offers[19]);
                let end = known.min(self.arrived + per_ms);
                if end > self.arrived {
                    self.limit.on_arrival(self.now, end, 1460, self.arrived);
                    self.arrived = end;
                }
                let edge = before.max(self.limit.edge(self.arrived));
                self.limit.on_offer(self.now, before, edge, self.arrived, true);
                self.offers.pop_front();
                self.offers.push_back(edge);
            }
            self.limit.edge(0)
        }
    }

    #[test]
    fn slower_path_lowers_allowance() {
        let mut flow = Flow::new();
        let fast = flow.run(100, 4000);
        assert!((7000..=9000).contains(&fast), "{fast} packets, four times 2000");
        let slow = flow.run(10, 4000);
        assert!((700..=1100).contains(&slow), "{slow} packets, four times 200");
        let again = flow.run(100, 4000);
        assert!((7000..=9000).contains(&again), "{again} packets, four times 2000");
    }

    #[test]
    fn pauses_keep_path_allowance() {
        let mut flow = Flow::new();
        let fast = flow.run(100, 4000);
        for _ in 0..30 {
            flow.run(0, 1000);
            flow.run(100, 20);
        }
        let after = flow.run(0, 60_000);
        assert!(after >= fast * 9 / 10, "{after} packets, {fast} before");
    }

    #[test]
    fn short_rtt_sample_removes_path_allowance() {
        let mut limit = packets(SHARE);
        assert!(
            limit_after(&mut limit, Duration::from_millis(50), 4) > 1000,
            "an inflated sample, as of a busy host"
        );
        let arrived = 1 << 30;
        let now = epoch();
        limit.probe = Some(Probe { number: arrived, offered_at: now, arrived, bounded: true });
        limit.on_arrival(now + Duration::from_micros(80), arrived + 1, 1460, arrived);
        assert_eq!(limit.edge(0), 100);
    }

    #[test]
    fn prompt_use_of_bounded_window_counts_limited() {
        let (mut limit, mut now, mut edge) = (packets(SHARE), epoch(), 0);
        let mut limited = |micros, bounded| {
            limit.on_offer(now, edge, edge + 100, edge, bounded);
            now += Duration::from_micros(micros);
            edge += 100;
            limit.on_arrival(now, edge - 99, 1460, edge - 100);
            limit.limited()
        };
        assert_eq!(limited(100, false), 0, "the window was limited by something else");
        assert_eq!(limited(100, true), 1);
        assert_eq!(limited(500, true), 1, "the sender was not blocked");
    }
}
