//! Events for controller tests, and tests against published window models.

use std::time::{Duration, Instant};

use super::{AckEvent, Cause, CongestionEvent};
pub(super) use rdt_testing::epoch as start;

mod models;
mod random;

/// Returns an ACK of `acked` bytes: cwnd-limited, without loss, RTT 100 ms.
pub(super) fn ack(now: Instant, acked: u64) -> AckEvent {
    let rtt = Duration::from_millis(100);
    AckEvent {
        now,
        acked,
        lost: 0,
        prior_in_flight: acked,
        in_flight: 0,
        cwnd_limited: true,
        episode: None,
        latest_rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        delivered: acked,
        rate: None,
    }
}

pub(super) fn congestion(now: Instant, cause: Cause, flight_size: u64) -> CongestionEvent {
    CongestionEvent { now, cause, flight_size }
}
