//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation; draft-ietf-ccwg-bbr,
//! "Delivery Rate Samples"): one sample for each ACK that delivers data.
//!
//! Owns the connection's counters of delivered and lost bytes. Keeps no record of packets: the
//! caller stores a [`SentState`] for each transmission. A retransmission has its own.

use std::time::{Duration, Instant};

use super::trains::Trains;
use super::{LostPacket, RateSample, TrainRate};

/// Estimator state at the time of one transmission. Times are nanoseconds since the estimator's
/// epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SentState {
    delivered: u64,
    delivered_at: u64,
    first_sent_at: u64,
    sent_at: u64,
    lost: u64,
    tx_in_flight: u64,
    app_limited: bool,
}

impl SentState {
    /// Returns the state of a transmission of the same batch, `bytes` later.
    pub(crate) fn after(&self, bytes: u64) -> Self {
        Self { tx_in_flight: self.tx_in_flight + bytes, ..*self }
    }
}

/// Delivery-rate estimator of one connection.
///
/// For each ACK, call [`on_lost`](Self::on_lost) and [`on_delivered`](Self::on_delivered) for every
/// affected transmission, then [`sample`](Self::sample) once. `now` must not decrease.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryRate {
    epoch: Instant,
    delivered: u64,
    lost: u64,
    delivered_at: u64,
    first_sent_at: u64,
    /// Bytes in `delivered` that duplicate ACKs reported and no cumulative ACK has covered.
    reported: u64,
    /// `delivered` and `reported` after the previous ACK.
    prior_delivered: u64,
    prior_reported: u64,
    /// App-limited until `delivered` exceeds this value; 0 if not app-limited.
    app_limited_until: u64,
    /// Most recently sent transmission among those delivered by the current ACK.
    newest: Option<SentState>,
    /// Last converted time and its result: many packets share one time.
    clock: (Instant, u64),
    trains: Trains,
}

impl DeliveryRate {
    /// Returns an estimator without samples. No later time may be before `epoch`.
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            delivered: 0,
            lost: 0,
            delivered_at: 0,
            first_sent_at: 0,
            reported: 0,
            prior_delivered: 0,
            prior_reported: 0,
            app_limited_until: 0,
            newest: None,
            clock: (epoch, 0),
            trains: Trains::default(),
        }
    }

    pub(crate) fn sent_at(&self, state: &SentState) -> Instant {
        self.epoch + Duration::from_nanos(state.sent_at)
    }

    /// Returns the bytes delivered since the connection began.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// True while packets sent in an app-limited phase are in flight.
    pub(crate) fn app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// Records a transmission of `bytes` while `in_flight_before` bytes are in flight. After an
    /// idle period, the interval of the next sample begins here, so that it excludes the idle time.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, in_flight_before: u64) -> SentState {
        let sent_at = self.nanos(now);
        if in_flight_before == 0 {
            self.first_sent_at = sent_at;
            self.delivered_at = self.first_sent_at;
        }
        SentState {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            sent_at,
            lost: self.lost,
            tx_in_flight: in_flight_before + bytes,
            app_limited: self.app_limited(),
        }
    }

    /// Records the delivery of `bytes`, by cumulative ACK or SACK. For transmissions of one batch,
    /// one call suffices: `state` is that of the last transmission, `bytes` the sum.
    pub(crate) fn on_delivered(&mut self, now: Instant, state: &SentState, bytes: u64) {
        self.delivered += bytes;
        // The time at which an ACK left is estimated, and may step back.
        self.delivered_at = self.delivered_at.max(self.nanos(now));
        // Among packets with the same send time, the one with more data in flight was sent later.
        let newer = self.newest.is_none_or(|newest| {
            (state.sent_at, state.tx_in_flight) >= (newest.sent_at, newest.tx_in_flight)
        });
        if newer {
            self.newest = Some(*state);
            self.first_sent_at = state.sent_at;
        }
    }

    /// Records the delivery of `bytes` that a duplicate ACK reports. A later cumulative ACK
    /// covers them again: see [`on_reported_acked`](Self::on_reported_acked).
    pub(crate) fn on_reported(&mut self, now: Instant, state: &SentState, bytes: u64) {
        self.on_delivered(now, state, bytes);
        self.reported += bytes;
    }

    /// Handles a cumulative ACK that covers up to `bytes` of the reported data: counts them once.
    pub(crate) fn on_reported_acked(&mut self, bytes: u64) {
        let covered = bytes.min(self.reported);
        self.reported -= covered;
        // Transmissions without a record were not counted a second time.
        self.delivered -= covered.min(self.delivered - self.prior_delivered);
    }

    /// Returns the bytes that the current ACK shows to be delivered. It newly acknowledges
    /// `acked` bytes, of which duplicate ACKs may have reported a part before. Call once for each
    /// ACK, last.
    pub(crate) fn newly_delivered(&mut self, acked: u64) -> u64 {
        self.prior_delivered = self.delivered;
        let before = std::mem::replace(&mut self.prior_reported, self.reported);
        (acked + self.reported).saturating_sub(before)
    }

    pub(crate) fn on_lost(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    /// Describes a lost transmission to model-based controllers. Call after
    /// [`on_lost`](Self::on_lost).
    pub(crate) fn lost_packet(&self, now: Instant, state: &SentState, bytes: u64) -> LostPacket {
        LostPacket {
            now,
            bytes,
            tx_in_flight: state.tx_in_flight,
            lost_since_sent: self.lost - state.lost,
            app_limited: state.app_limited,
        }
    }

    /// Starts an app-limited phase: no data to send, room in the window, and no loss to retransmit.
    /// Samples are marked until the current `in_flight` bytes have been delivered.
    pub(crate) fn set_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Returns the sample of the current ACK; `None` if it delivered no data.
    ///
    /// `delivery_rate` is 0 (the other fields are valid) if the interval is shorter than `min_rtt`.
    /// This happens if an ACK of the original is attributed to a spurious retransmission.
    pub(crate) fn sample(&mut self, min_rtt: Duration) -> Option<RateSample> {
        if self.app_limited() && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let state = self.newest.take()?;
        let send_elapsed = state.sent_at.saturating_sub(state.first_sent_at);
        let ack_elapsed = self.delivered_at.saturating_sub(state.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        let delivered = self.delivered - state.delivered;
        let reliable = interval > 0 && Duration::from_nanos(interval) >= min_rtt;
        Some(RateSample {
            delivery_rate: if reliable { bytes_per_second(delivered, interval) } else { 0 },
            interval: Duration::from_nanos(interval),
            delivered,
            lost: self.lost - state.lost,
            prior_delivered: state.delivered,
            tx_in_flight: state.tx_in_flight,
            app_limited: state.app_limited,
        })
    }

    /// Returns the bottleneck rate estimated from packet trains, including the current ACK. Call
    /// before [`sample`](Self::sample).
    pub(crate) fn train(&mut self) -> Option<TrainRate> {
        let newest = self.newest?;
        self.trains.on_ack(self.delivered_at, newest.sent_at, self.delivered);
        self.trains.rate()
    }

    /// Converts to nanoseconds since the epoch; 64 bits last 584 years.
    fn nanos(&mut self, time: Instant) -> u64 {
        if self.clock.0 != time {
            let elapsed = time.saturating_duration_since(self.epoch).as_nanos();
            self.clock = (time, u64::try_from(elapsed).unwrap_or(u64::MAX));
        }
        self.clock.1
    }
}

pub(super) fn bytes_per_second(bytes: u64, nanos: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(nanos)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::epoch;

    const MSS: u64 = 1000;

    impl SentState {
        /// True if the sender was app-limited at this transmission.
        pub(crate) fn app_limited(&self) -> bool {
            self.app_limited
        }
    }

    impl DeliveryRate {
        /// Returns the bytes declared lost since the connection began, counted for each
        /// transmission.
        pub(crate) fn lost(&self) -> u64 {
            self.lost
        }
    }

    struct Flow {
        start: Instant,
        rate: DeliveryRate,
        in_flight: u64,
    }

    #[derive(Clone, Copy)]
    struct Packet {
        state: SentState,
    }

    impl Flow {
        fn new() -> Self {
            let start = epoch();
            Self { start, rate: DeliveryRate::new(start), in_flight: 0 }
        }

        fn at(&self, millis: u64) -> Instant {
            self.start + Duration::from_millis(millis)
        }

        fn send(&mut self, millis: u64) -> Packet {
            let sent_at = self.at(millis);
            let state = self.rate.on_sent(sent_at, MSS, self.in_flight);
            self.in_flight += MSS;
            Packet { state }
        }

        fn ack(&mut self, millis: u64, packets: &[Packet]) -> RateSample {
            for packet in packets {
                self.rate.on_delivered(self.at(millis), &packet.state, MSS);
                self.in_flight -= MSS;
            }
            self.rate.sample(Duration::from_millis(100)).unwrap()
        }
    }

    #[test]
    fn packet_record_is_at_most_56_bytes() {
        assert!(size_of::<SentState>() <= 56, "{}", size_of::<SentState>());
    }

    #[test]
    fn steady_flow_is_measured_at_its_rate() {
        let mut flow = Flow::new();
        // One packet each 10 ms, RTT 100 ms: 100,000 bytes/s, ten packets in flight.
        let mut sent = Vec::new();
        let mut last = None;
        for tick in 0..60 {
            if tick >= 10 {
                let packet = sent[tick - 10];
                last = Some(flow.ack(tick as u64 * 10, &[packet]));
            }
            sent.push(flow.send(tick as u64 * 10));
        }
        let sample = last.unwrap();
        assert_eq!(sample.delivery_rate, 100_000);
        assert_eq!((sample.delivered, sample.interval), (10 * MSS, Duration::from_millis(100)));
        assert_eq!((sample.tx_in_flight, sample.app_limited, sample.lost), (10 * MSS, false, 0));
        assert_eq!(flow.rate.delivered(), 50 * MSS);
    }

    #[test]
    fn ack_compression_does_not_raise_rate() {
        let mut flow = Flow::new();
        let sent: Vec<_> = (0..20).map(|tick| flow.send(tick * 10)).collect();
        flow.ack(200, &sent[..1]);
        // Nineteen packets, sent over 190 ms, acknowledged within 1 ms: by ACKs alone 19 MB/s.
        let sample = flow.ack(201, &sent[1..]);
        assert_eq!(sample.interval, Duration::from_millis(201));
        assert_eq!(sample.delivery_rate, 20 * MSS * 1000 / 201);

        // The last packet is sent after the first ACK, so its interval begins there.
        let mut flow = Flow::new();
        let first = flow.send(0);
        let early: Vec<_> = (1..10).map(|tick| flow.send(tick * 10)).collect();
        flow.ack(100, &[first]);
        let late: Vec<_> = (0..10).map(|tick| flow.send(100 + tick * 20)).collect();
        flow.ack(290, &early);
        let sample = flow.ack(290, &late);
        assert_eq!(
            sample.interval,
            Duration::from_millis(280),
            "the ten left over 280 ms, after the first at 0"
        );
        assert_eq!(sample.delivery_rate, 19 * MSS * 1000 / 280);
    }

    #[test]
    fn interval_below_min_rtt_gives_no_rate() {
        let mut flow = Flow::new();
        let packet = flow.send(0);
        let sample = flow.ack(40, &[packet]);
        assert_eq!((sample.delivery_rate, sample.delivered), (0, MSS));
        let again = flow.rate.sample(Duration::ZERO);
        assert_eq!(again, None, "this ACK delivered nothing more");
    }

    #[test]
    fn samples_are_app_limited_until_bubble_is_delivered() {
        let mut flow = Flow::new();
        let before = flow.send(0);
        flow.rate.set_app_limited(flow.in_flight);
        let inside = flow.send(50);
        assert!(!flow.ack(100, &[before]).app_limited, "it left before the bubble began");
        assert!(flow.rate.app_limited(), "1000 bytes delivered, and the bubble ends beyond 1000");
        let still = flow.send(120);
        assert!(flow.ack(150, &[inside]).app_limited);
        assert!(!flow.rate.app_limited());
        let after = flow.send(160);
        assert!(flow.ack(220, &[still]).app_limited);
        assert!(!flow.ack(260, &[after]).app_limited);
    }

    #[test]
    fn retransmission_is_measured_from_its_own_send_time() {
        let mut flow = Flow::new();
        let first = flow.send(0);
        let lost = flow.send(10);
        let third = flow.send(20);
        flow.ack(100, &[first]);
        let sample = flow.ack(120, &[third]);
        assert_eq!((sample.lost, sample.delivered), (0, 2 * MSS));
        flow.rate.on_lost(MSS);
        flow.in_flight -= MSS;
        let told = flow.rate.lost_packet(flow.at(120), &lost.state, MSS);
        assert_eq!((told.lost_since_sent, told.tx_in_flight), (MSS, 2 * MSS));
        let again = flow.send(120);
        let sample = flow.ack(220, &[again]);
        assert_eq!((sample.prior_delivered, sample.delivered, sample.lost), (2 * MSS, MSS, 0));
        assert_eq!(sample.interval, Duration::from_millis(100));
        assert_eq!((flow.rate.delivered(), flow.rate.lost()), (3 * MSS, MSS));
    }

    #[test]
    fn pause_is_excluded_from_next_interval() {
        let mut flow = Flow::new();
        let packet = flow.send(0);
        flow.ack(100, &[packet]);
        let burst: Vec<_> = (0..5).map(|tick| flow.send(10_000 + tick * 10)).collect();
        for (tick, &packet) in burst.iter().enumerate() {
            let sample = flow.ack(10_100 + tick as u64 * 10, &[packet]);
            assert_eq!(sample.interval, Duration::from_millis(100 + tick as u64 * 10));
            assert_eq!(sample.delivered, (tick as u64 + 1) * MSS);
        }
    }
}
