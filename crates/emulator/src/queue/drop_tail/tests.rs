use std::time::Duration;

use super::*;
use crate::bitrate::Bitrate;
use crate::queue::{Incapable, QueueSize};
use rdt_testing::{epoch, ms};

/// A queue whose packets need 1 ms each at the serialiser and then 10 ms on the wire.
struct Bench {
    queue: BoundedQueue,
    start: Instant,
    free_at: Instant,
}

impl Bench {
    fn new(limit: QueueLimit, occupancy: Occupancy) -> Self {
        let start = epoch();
        Self { queue: BoundedQueue::new(limit, occupancy), start, free_at: start }
    }

    /// Offers a packet `at` milliseconds after the start, and returns whether the queue admits it.
    fn offer(&mut self, at: u64, bytes: u64) -> bool {
        let now = self.start + ms(at);
        let starts = self.free_at.max(now);
        let admitted = self.queue.admits(now, starts, bytes);
        if admitted {
            self.free_at = starts + ms(1);
            self.queue.enter(Passage { enters: now, starts, due: starts + ms(11) }, bytes);
        }
        admitted
    }

    /// Offers a burst of 1000 packets, `at` ms after the start, and returns the number admitted.
    fn burst(&mut self, at: u64) -> usize {
        (0..1_000).filter(|_| self.offer(at, 100)).count()
    }
}

#[test]
fn burst_into_idle_link_keeps_limit_plus_one() {
    for limit in [0, 1, 10, 999] {
        let mut bench = Bench::new(QueueLimit::packets(limit), Occupancy::Waiting);
        assert_eq!(bench.burst(0), limit as usize + 1, "limit {limit}");
    }
}

#[test]
fn burst_into_empty_path_keeps_limit_plus_one() {
    for limit in [0, 1, 10, 999] {
        let mut bench = Bench::new(QueueLimit::packets(limit), Occupancy::WaitingAndInFlight);
        assert_eq!(bench.burst(0), limit as usize + 1, "limit {limit}");
    }
}

#[test]
fn waiting_packet_stops_counting_at_service_start() {
    let mut bench = Bench::new(QueueLimit::packets(2), Occupancy::Waiting);
    assert_eq!(bench.burst(0), 3);
    // At 1 ms the service of the second packet starts. At 4 ms no packet waits.
    assert_eq!(bench.burst(1), 1);
    assert_eq!(bench.burst(4), 3);
}

#[test]
fn path_packet_stops_counting_at_delivery() {
    let mut bench = Bench::new(QueueLimit::packets(2), Occupancy::WaitingAndInFlight);
    assert_eq!(bench.burst(0), 3);
    // The packets are due at 11, 12 and 13 ms.
    assert_eq!(bench.burst(10), 0);
    assert_eq!(bench.burst(11), 1);
    assert_eq!(bench.burst(13), 2);
}

#[test]
fn packets_on_wire_are_not_waiting() {
    let mut bench = Bench::new(QueueLimit::packets(1), Occupancy::Waiting);
    // At one packet for each service time, ten packets are on the wire and no packet waits.
    assert!((0..100).all(|at| bench.offer(at, 100)));
    assert_eq!(bench.queue.packets(), 0);
}

#[test]
fn bytes_are_bounded_where_packets_wait() {
    let mut bench = Bench::new(QueueLimit::bytes(250), Occupancy::Waiting);
    assert_eq!(bench.burst(0), 3);
    assert!(bench.offer(0, 50), "a smaller packet still fits, exactly");
    assert!(!bench.offer(0, 1));
}

#[test]
fn oversized_packet_passes_idle_link() {
    let mut bench = Bench::new(QueueLimit::bytes(250), Occupancy::Waiting);
    assert!(bench.offer(0, 1_000));
    assert!(!bench.offer(0, 1_000));
}

#[test]
fn path_occupancy_bounds_bytes_ahead() {
    let mut bench = Bench::new(QueueLimit::bytes(250), Occupancy::WaitingAndInFlight);
    // The first three packets find 0, 100 and 200 bytes ahead, the fourth 300.
    assert_eq!(bench.burst(0), 3);
}

#[test]
fn both_bounds_hold_together() {
    let limit = QueueLimit { packets: Some(3), bytes: Some(250) };
    let mut bench = Bench::new(limit, Occupancy::Waiting);
    assert_eq!(bench.burst(0), 3, "one in service, 200 bytes waiting");
    let mut bench = Bench::new(QueueLimit { packets: Some(1), ..limit }, Occupancy::Waiting);
    assert_eq!(bench.burst(0), 2, "one in service, one packet waiting");
}

#[test]
fn no_limit_admits_everything() {
    for occupancy in [Occupancy::Waiting, Occupancy::WaitingAndInFlight] {
        assert_eq!(Bench::new(QueueLimit::UNLIMITED, occupancy).burst(0), 1_000);
    }
}

const MBIT: Bitrate = Bitrate::from_bps(1_000_000);

#[test]
fn bdp_multiple_is_exact() {
    let of = |millionths, rate, rtt| {
        QueueLimit::of_size(QueueSize::BdpMillionths(millionths), rate, rtt).and_then(|limit| limit.bytes)
    };
    // 1 Mbit/s for 100 ms are 12,500 bytes.
    assert_eq!(of(1_000_000, Some(MBIT), ms(100)), Some(12_500));
    assert_eq!(of(1_500_000, Some(MBIT), ms(100)), Some(18_750));
    assert_eq!(of(80, Some(MBIT), ms(100)), Some(1));
    assert_eq!(of(79, Some(MBIT), ms(100)), Some(0));
    assert_eq!(of(1_000_000, None, ms(100)), None);
    assert_eq!(of(u64::MAX, Some(Bitrate::from_bps(u64::MAX)), Duration::MAX), Some(u64::MAX));
}

#[test]
fn packet_and_byte_sizes_need_no_rate() {
    assert_eq!(QueueLimit::of_size(QueueSize::Packets(9), None, ms(0)), Some(QueueLimit::packets(9)));
    assert_eq!(QueueLimit::of_size(QueueSize::Bytes(9), None, ms(0)), Some(QueueLimit::bytes(9)));
}

/// Returns the signals for a burst of 8 packets, with a queue limit of 5 and a threshold of 2
/// packets.
fn signals(marking: Marking, occupancy: Occupancy, ecn: Ecn) -> Vec<Option<Signal>> {
    let mut queue = BoundedQueue::new(QueueLimit::packets(5), occupancy).marking(Some(marking));
    let now = epoch();
    let mut free_at = now;
    let mut signals = Vec::new();
    for _ in 0..8 {
        if queue.admits(now, free_at, 100) {
            signals.push(queue.signal(now, free_at, 100, ecn));
            queue.enter(Passage { enters: now, starts: free_at, due: free_at + ms(9) }, 100);
            free_at += ms(1);
        }
    }
    signals
}

#[test]
fn only_packets_above_threshold_are_marked() {
    let marked = Some(Signal::Mark);
    let expected = [None, None, None, marked, marked, marked];
    for marking in [Marking::above(QueueLimit::packets(2)), Marking::above(QueueLimit::bytes(200))] {
        for occupancy in [Occupancy::Waiting, Occupancy::WaitingAndInFlight] {
            for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
                assert_eq!(signals(marking, occupancy, ecn), expected, "{marking:?} {occupancy:?}");
            }
        }
    }
}

#[test]
fn incapable_packets_pass_or_drop_as_configured() {
    let marking = Marking::above(QueueLimit::packets(2));
    assert_eq!(signals(marking, Occupancy::Waiting, Ecn::NotEct), [None; 6]);
    let dropped = Some(Signal::Drop);
    let marking = Marking { incapable: Incapable::Drop, ..marking };
    let signals = signals(marking, Occupancy::Waiting, Ecn::NotEct);
    assert_eq!(signals, [None, None, None, dropped, dropped, dropped]);
}

#[test]
fn overtaking_packets_free_places_in_order() {
    let mut queue = BoundedQueue::new(QueueLimit::packets(2), Occupancy::WaitingAndInFlight);
    let now = epoch();
    for due in [30, 10, 20] {
        assert!(queue.admits(now, now, 1));
        queue.enter(Passage { enters: now, starts: now, due: now + ms(due) }, 1);
    }
    assert!(!queue.admits(now + ms(9), now + ms(9), 1));
    let counted = [10, 20, 29, 30].map(|at| {
        queue.admits(now + ms(at), now + ms(at), 1);
        queue.packets()
    });
    assert_eq!(counted, [2, 1, 1, 0]);
}

#[test]
fn saturated_departure_frees_no_place_early() {
    let mut queue = BoundedQueue::new(QueueLimit::packets(0), Occupancy::WaitingAndInFlight);
    let now = epoch();
    let far = crate::time::saturating_add(now, Duration::MAX);
    assert!(queue.admits(now, now, 1));
    queue.enter(Passage { enters: now, starts: now, due: far }, 1);
    let century = now + Duration::from_secs(100 * 365 * 86_400);
    assert!(!queue.admits(century, century, 1));
}
