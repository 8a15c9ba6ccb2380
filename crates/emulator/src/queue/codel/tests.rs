//! Tests with drop times computed by hand, for packets of 1000 bytes, a target of 5 ms and an
//! interval of 100 ms.

use super::*;
use crate::Ecn;
use crate::mtu::Frames;
use crate::packet::Packet;
use rdt_testing::{epoch, just_before, ms, ns};

/// A CoDel queue, and what it did to its packets.
struct Bench {
    codel: CoDel,
    fifo: Fifo,
    start: Instant,
    /// Time of each drop, in nanoseconds since the start.
    dropped: Vec<u64>,
    /// Time of each mark, in nanoseconds since the start.
    marked: Vec<u64>,
}

impl Bench {
    fn new(config: CoDelConfig) -> Self {
        let start = epoch();
        Self { codel: CoDel::new(config), fifo: Fifo::default(), start, dropped: vec![], marked: vec![] }
    }

    /// Adds `count` packets that arrive at `at` after the start.
    fn arrive(&mut self, at: Duration, count: usize, ecn: Ecn) {
        for _ in 0..count {
            let packet = Packet::from(vec![0; 1_000]).with_ecn(ecn);
            let frames = Frames::whole(1_000);
            self.fifo.push(QueuedPacket { enters: self.start + at, seed: 0, index: 0, frames, packet });
        }
    }

    /// Dequeues a packet and returns its queueing delay, or `None` if the queue is empty.
    fn ask(&mut self, at: Duration) -> Option<Duration> {
        let (now, since) = (self.start + at, nanos(at));
        let departure = self.codel.on_dequeue(now, &mut self.fifo, &mut |_| self.dropped.push(since))?;
        if departure.is_marked {
            self.marked.push(since);
        }
        Some(now - departure.packet.enters)
    }

    /// Dequeues a packet every millisecond, from `from` to `to` ms after the start.
    fn ask_from(&mut self, from: u64, to: u64) {
        for at in from..=to {
            self.ask(ms(at));
        }
    }

    fn dropped_ms(&self) -> Vec<u64> {
        self.dropped.iter().map(|at| at / 1_000_000).collect()
    }
}

#[test]
fn control_law_divides_interval_by_root_count() {
    let start = epoch();
    for (count, spacing) in [
        (1, 100_000_000),
        (2, 70_710_678),
        (3, 57_735_027),
        (4, 50_000_000),
        (5, 44_721_360),
        (100, 10_000_000),
        (1_000_000, 100_000),
    ] {
        assert_eq!(control_law(start, ms(100), count), start + ns(spacing), "{count}");
    }
}

#[test]
fn drops_begin_after_interval_and_follow_law() {
    let mut bench = Bench::new(CoDelConfig::default());
    bench.arrive(ms(0), 1_000, Ecn::NotEct);
    bench.ask_from(1, 500);
    // The delay is above the target from 5 ms on, so the first drop is at 105 ms. By the control
    // law the next are due at 205, 275.71, 333.45, 383.45, 428.17 and 468.99 ms, and happen at the
    // next whole millisecond.
    assert_eq!(bench.dropped_ms(), [105, 205, 276, 334, 384, 429, 469]);
}

#[test]
fn short_excess_delay_causes_no_drop() {
    let mut bench = Bench::new(CoDelConfig::default());
    // A burst of 90 packets departs within 90 ms. Another burst follows after a packet with a delay
    // of 4 ms.
    bench.arrive(ms(0), 90, Ecn::NotEct);
    bench.ask_from(1, 90);
    bench.arrive(ms(91), 91, Ecn::NotEct);
    bench.ask_from(95, 185);
    assert!(bench.dropped.is_empty());
}

#[test]
fn target_itself_counts_as_above() {
    for (waits, is_above) in [(ms(5), true), (just_before(ms(5)), false)] {
        let mut bench = Bench::new(CoDelConfig::default());
        bench.arrive(ms(0), 10, Ecn::NotEct);
        bench.ask(waits);
        assert_eq!(bench.codel.first_above.is_some(), is_above, "{waits:?}");
    }
}

#[test]
fn last_two_packets_are_not_dropped() {
    let mut bench = Bench::new(CoDelConfig::default());
    bench.arrive(ms(0), 2, Ecn::NotEct);
    for at in [200, 400, 600, 800] {
        bench.ask(ms(at));
        bench.arrive(ms(at - 150), 1, Ecn::NotEct);
    }
    assert!(bench.dropped.is_empty());
    // If two packets remain behind it, a packet counts as above the target.
    bench.arrive(ms(850), 2, Ecn::NotEct);
    bench.ask(ms(1_000));
    bench.arrive(ms(1_000), 1, Ecn::NotEct);
    bench.ask(ms(1_100));
    assert_eq!(bench.dropped_ms(), [1_100]);
}

#[test]
fn overdue_drops_happen_at_once() {
    let mut bench = Bench::new(CoDelConfig::default());
    bench.arrive(ms(0), 100, Ecn::NotEct);
    for at in [5, 105, 400] {
        bench.ask(ms(at));
    }
    // At 400 ms the drops due at 205, 275.7, 333.4 and 383.4 ms happen; the next is due at 428 ms.
    assert_eq!(bench.dropped_ms(), [105, 400, 400, 400, 400]);
    assert_eq!(bench.fifo.len(), 100 - 5 - 3);
}

/// Returns a queue that left the drop state at 341 ms, with a count of 4.
fn after_a_drop_state() -> Bench {
    let mut bench = Bench::new(CoDelConfig::default());
    bench.arrive(ms(0), 1_000, Ecn::NotEct);
    bench.ask_from(1, 340);
    assert_eq!((bench.codel.count, bench.dropped.len()), (4, 4));
    while bench.fifo.pop().is_some() {}
    bench.arrive(ms(340), 1, Ecn::NotEct);
    bench.ask(ms(341));
    assert!(!bench.codel.dropping);
    bench
}

#[test]
fn one_packet_below_target_ends_drop_state() {
    let mut bench = after_a_drop_state();
    bench.arrive(ms(341), 300, Ecn::NotEct);
    bench.ask_from(342, 445);
    // The delay must be above the target for an interval from 346 ms on before the next drop.
    assert_eq!(bench.dropped.len(), 4);
    bench.ask(ms(446));
    assert_eq!(bench.dropped_ms().last(), Some(&446));
}

#[test]
fn recent_drop_rate_is_resumed() {
    let mut bench = after_a_drop_state();
    bench.arrive(ms(341), 1_000, Ecn::NotEct);
    bench.ask_from(342, 600);
    // The count rose from 1 to 4 in the last drop state, so this one starts with 3: the spacings
    // are 57.7, 50 and 44.7 ms.
    assert_eq!(bench.dropped_ms()[4..], [446, 504, 554, 599]);
    assert_eq!(bench.codel.last_count, 3);
}

#[test]
fn last_drop_of_state_counts() {
    let mut bench = Bench::new(CoDelConfig::default());
    // The last packet of the old burst is dropped at 276 ms. The packets behind it are new.
    bench.arrive(ms(0), 278, Ecn::NotEct);
    bench.ask_from(1, 274);
    bench.arrive(ms(274), 1_000, Ecn::NotEct);
    bench.ask_from(275, 276);
    assert_eq!((bench.codel.dropping, bench.codel.count), (false, 3));
    bench.ask_from(277, 460);
    // The delay is above the target from 279 ms on. The count rose from 1 to 3, so the second drop
    // state starts with 2: the spacing is 70.7 ms.
    assert_eq!(bench.dropped_ms(), [105, 205, 276, 379, 450]);
}

#[test]
fn drop_rate_restarts_after_sixteen_intervals() {
    // `drop_next` is 383.4 ms, and 16 intervals later the drop rate starts from its lowest value.
    for (enters, second) in [(1_877, 2_040), (1_879, 2_084)] {
        let mut bench = after_a_drop_state();
        bench.arrive(ms(enters), 1_000, Ecn::NotEct);
        bench.ask_from(enters + 1, enters + 300);
        assert_eq!(bench.dropped_ms()[4..6], [enters + 105, second]);
    }
}

#[test]
fn a_single_drop_leaves_no_memory() {
    let mut bench = Bench::new(CoDelConfig::default());
    bench.arrive(ms(0), 110, Ecn::NotEct);
    bench.ask_from(1, 109);
    bench.arrive(ms(110), 1_000, Ecn::NotEct);
    bench.ask_from(111, 320);
    assert_eq!(bench.dropped_ms(), [105, 215, 315]);
}

#[test]
fn ecn_marks_at_times_of_drops() {
    let mut bench = Bench::new(CoDelConfig { ecn: true, ..CoDelConfig::default() });
    bench.arrive(ms(0), 1_000, Ecn::Ect0);
    bench.ask_from(1, 500);
    let marked: Vec<_> = bench.marked.iter().map(|at| at / 1_000_000).collect();
    assert_eq!(marked, [105, 205, 276, 334, 384, 429, 469]);
    assert!(bench.dropped.is_empty());

    let mut bench = Bench::new(CoDelConfig { ecn: true, ..CoDelConfig::default() });
    bench.arrive(ms(0), 1_000, Ecn::NotEct);
    bench.ask_from(1, 300);
    assert_eq!((bench.dropped_ms(), bench.marked.len()), (vec![105, 205, 276], 0));
}

#[test]
fn without_ecn_capable_packets_are_dropped() {
    let mut bench = Bench::new(CoDelConfig::default());
    bench.arrive(ms(0), 1_000, Ecn::Ect1);
    bench.ask_from(1, 300);
    assert_eq!((bench.dropped.len(), bench.marked.len()), (3, 0));
}

#[test]
fn empty_queue_and_extreme_settings_are_safe() {
    let mut bench = Bench::new(CoDelConfig { target: ms(0), interval: Duration::MAX, ecn: false });
    assert_eq!(bench.ask(ms(0)), None);
    bench.arrive(ms(0), 3, Ecn::NotEct);
    assert_eq!(bench.ask(ms(7)), Some(ms(7)));
    let mut bench = Bench::new(CoDelConfig { target: ms(0), interval: ms(0), ecn: false });
    bench.arrive(ms(0), 100, Ecn::NotEct);
    bench.ask_from(1, 4);
    // All drops are due at once. They end at a packet with at most one packet behind it.
    assert_eq!(bench.fifo.len(), 0);
}
