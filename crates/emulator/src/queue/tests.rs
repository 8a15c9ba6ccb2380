use super::*;
use crate::testing::{epoch, ms};

/// A queue whose packets take 1 ms each at the serialiser and then 10 ms on the wire.
struct Bench {
    queue: Queue,
    start: Instant,
    free_at: Instant,
}

impl Bench {
    fn new(limit: QueueLimit, occupancy: Occupancy) -> Self {
        let start = epoch();
        Self { queue: Queue::new(limit, occupancy), start, free_at: start }
    }

    /// Offers one packet `at` milliseconds after the start.
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

    /// How many of a burst of 1000 are admitted `at` milliseconds after the start.
    fn burst(&mut self, at: u64) -> usize {
        (0..1_000).filter(|_| self.offer(at, 100)).count()
    }
}

#[test]
fn a_burst_into_an_idle_link_keeps_one_in_service_and_the_limit_waiting() {
    for limit in [0, 1, 10, 999] {
        let mut bench = Bench::new(QueueLimit::packets(limit), Occupancy::Waiting);
        assert_eq!(bench.burst(0), limit as usize + 1, "limit {limit}");
    }
}

#[test]
fn a_burst_into_an_empty_path_keeps_the_limit_and_one() {
    for limit in [0, 1, 10, 999] {
        let mut bench = Bench::new(QueueLimit::packets(limit), Occupancy::WaitingAndInFlight);
        assert_eq!(bench.burst(0), limit as usize + 1, "limit {limit}");
    }
}

#[test]
fn a_waiting_place_is_free_at_the_instant_service_starts() {
    let mut bench = Bench::new(QueueLimit::packets(2), Occupancy::Waiting);
    assert_eq!(bench.burst(0), 3);
    // At 1 ms the second packet enters service, at 3 ms the third has ended and nobody waits.
    assert_eq!(bench.burst(1), 1);
    assert_eq!(bench.burst(4), 3);
}

#[test]
fn a_place_on_the_path_is_free_at_the_instant_of_delivery() {
    let mut bench = Bench::new(QueueLimit::packets(2), Occupancy::WaitingAndInFlight);
    assert_eq!(bench.burst(0), 3);
    // The deliveries are due at 11, 12 and 13 ms.
    assert_eq!(bench.burst(10), 0);
    assert_eq!(bench.burst(11), 1);
    assert_eq!(bench.burst(13), 2);
}

#[test]
fn the_wire_does_not_count_as_waiting() {
    let mut bench = Bench::new(QueueLimit::packets(1), Occupancy::Waiting);
    // One packet per service time: ten of them are on the wire, none ever waits.
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
fn a_packet_larger_than_the_limit_passes_an_idle_link() {
    let mut bench = Bench::new(QueueLimit::bytes(250), Occupancy::Waiting);
    assert!(bench.offer(0, 1_000));
    assert!(!bench.offer(0, 1_000));
}

#[test]
fn bytes_ahead_are_bounded_where_the_whole_path_counts() {
    let mut bench = Bench::new(QueueLimit::bytes(250), Occupancy::WaitingAndInFlight);
    // 0, 100 and 200 bytes are ahead of the first three, 300 of the fourth.
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
