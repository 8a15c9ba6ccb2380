//! Events for controller tests, and tests against published window models.

use std::time::{Duration, Instant};

use super::{AckEvent, Cause, CongestionEvent, Controller, Cubic, Reno};
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
        way_back: Duration::ZERO,
        srtt: rtt,
        min_rtt: rtt,
        delivered: acked,
        rate: None,
    }
}

pub(super) fn congestion(now: Instant, cause: Cause, flight_size: u64) -> CongestionEvent {
    CongestionEvent { now, cause, flight_size }
}

#[test]
fn slow_start_after_timeout_is_limited_unless_paced() {
    const MSS: u64 = 1000;
    for (paced, packets) in [(false, 2), (true, 9)] {
        let cubic = Cubic::new(MSS, 20, paced);
        let mut reno = Reno::new(MSS, 20);
        reno.paced = paced;
        let controllers: [Box<dyn Controller>; 2] = [Box::new(reno), Box::new(cubic)];
        for mut controller in controllers {
            controller.on_congestion(&congestion(start(), Cause::Timeout, 40 * MSS));
            assert_eq!(controller.cwnd(), MSS);
            controller.on_ack(&AckEvent { episode: Some(Cause::Timeout), ..ack(start(), 8 * MSS) });
            assert_eq!(controller.cwnd(), packets * MSS, "{controller:?}");
        }
    }
}
