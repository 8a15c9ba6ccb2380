//! Tests of a drop-tail link as a whole. `model` compares it with a naive model.

use std::time::Duration;

use super::*;
use crate::bitrate::Bitrate;
use crate::config::DEFAULT_MEMORY_LIMIT_BYTES;
use crate::probability::Probability;
use crate::queue::{Occupancy, QueueLimit};
use rdt_testing::{Numbers, epoch, ms, ns};

mod changes;
mod departures;
mod disciplines;
mod effects;
mod fragments;
mod model;

const SEED: u64 = 4;

fn link(config: LinkConfig) -> Link {
    Link::new(config, SEED, Direction::Forward)
}

fn rate(bps: u64) -> LinkConfig {
    LinkConfig { rate: Some(Bitrate::from_bps(bps)), ..LinkConfig::default() }
}

fn bernoulli(probability: f64) -> Loss {
    Loss::Bernoulli(Probability::new(probability).unwrap())
}

/// Pushes `count` packets of `len` bytes at `now` and returns the number admitted.
fn burst(link: &mut Link, now: Instant, count: usize, len: usize) -> usize {
    (0..count).filter(|_| link.push(now, vec![0; len]).is_ok()).count()
}

/// Pops all packets, each at its due time.
fn drain(link: &mut Link) -> Vec<Delivery> {
    std::iter::from_fn(|| link.next_wakeup().and_then(|due| link.pop(due))).collect()
}

fn due_times(link: &mut Link, since: Instant) -> Vec<Duration> {
    drain(link).into_iter().map(|delivery| delivery.due - since).collect()
}

#[test]
fn the_default_is_a_perfect_wire() {
    let now = epoch();
    let mut link = link(LinkConfig::default());
    assert_eq!(burst(&mut link, now, 1_000, 1_472), 1_000);
    let delivered = std::iter::from_fn(|| link.pop(now)).count();
    assert_eq!(delivered, 1_000);
}

#[test]
fn first_packet_pays_serialisation_then_delay() {
    let now = epoch();
    let mut link = link(LinkConfig { delay: ms(50), ..rate(1_000_000) });
    link.push(now, vec![0; 1_472]).unwrap();
    assert_eq!(link.next_wakeup(), Some(now + ms(50) + ns(11_776_000)));
}

#[test]
fn back_to_back_packets_are_spaced_by_serialisation() {
    for (bps, len, spacing) in
        [(1_000_000, 1_472, ns(11_776_000)), (1_000_000, 500, ms(4)), (10_000, 12, ns(9_600_000))]
    {
        let now = epoch();
        let mut link = link(LinkConfig { delay: ms(500), ..rate(bps) });
        burst(&mut link, now, 4, len);
        let expected: Vec<_> = (1..=4).map(|n| ms(500) + spacing * n).collect();
        assert_eq!(due_times(&mut link, now), expected, "{len} bytes at {bps} bit/s");
    }
}

#[test]
fn overhead_takes_time_but_is_not_counted() {
    let now = epoch();
    let mut link = link(LinkConfig { overhead: 28, ..rate(1_000_000) });
    link.push(now, vec![0; 1_472]).unwrap();
    let delivery = link.pop(now + ms(12)).unwrap();
    assert_eq!(delivery.due, now + ms(12));
    assert_eq!(delivery.packet.len(), 1_472);
    assert_eq!(link.ledger().delivered_bytes, 1_472);
    assert_eq!(link.ledger().busy, ms(12));
}

#[test]
fn delay_costs_no_throughput() {
    let now = epoch();
    let mut link = link(LinkConfig { delay: ms(1_000), ..rate(1_000_000) });
    burst(&mut link, now, 100, 500);
    assert_eq!(due_times(&mut link, now).last(), Some(&(ms(1_000) + ms(400))));
}

#[test]
fn packet_is_due_at_exact_nanosecond() {
    let now = epoch();
    let mut link = link(LinkConfig { delay: ms(10), ..LinkConfig::default() });
    link.push(now, vec![7]).unwrap();
    assert_eq!(link.pop(now + ns(9_999_999)), None);
    let expected = Delivery {
        due: now + ms(10),
        packet: vec![7],
        tag: 0,
        ecn: Ecn::NotEct,
        is_copy: false,
        is_corrupted: false,
    };
    assert_eq!(link.pop(now + ms(10)), Some(expected));
    assert_eq!(link.next_wakeup(), None);
}

#[test]
fn lost_packet_uses_no_link_time() {
    let now = epoch();
    let mut link = link(LinkConfig { loss: Loss::script([0, 2]), ..rate(1_000_000) });
    let dropped = link.push(now, vec![9; 500]).unwrap_err();
    assert_eq!(dropped, Dropped { cause: DropCause::Loss, packet: vec![9; 500] });
    assert_eq!(dropped.to_string(), "packet of 500 bytes dropped: lost on arrival");

    assert_eq!(burst(&mut link, now, 3, 500), 2);
    assert_eq!(due_times(&mut link, now), [ms(4), ms(8)]);
}

#[test]
fn each_push_takes_the_next_index() {
    let now = epoch();
    let config =
        LinkConfig { loss: Loss::Script(vec![5, 3]), queue: QueueLimit::packets(0), ..rate(1_000_000) };
    let mut link = link(config);
    let causes: Vec<_> = (0..6).map(|_| link.push(now, vec![0; 500]).err().map(|d| d.cause)).collect();
    let (queue, loss) = (Some(DropCause::QueueFull), Some(DropCause::Loss));
    assert_eq!(causes, [None, queue, queue, loss, queue, loss]);
}

#[test]
fn losses_depend_on_seed_only() {
    let lost = |config: LinkConfig, gap: Duration| -> Vec<usize> {
        let start = epoch();
        let mut link = link(LinkConfig { loss: bernoulli(0.3), ..config });
        let mut now = start;
        let mut lost = Vec::new();
        for n in 0..1_000 {
            if link.push(now, vec![0; n]).is_err_and(|dropped| dropped.cause == DropCause::Loss) {
                lost.push(n);
            }
            now += gap;
        }
        lost
    };
    let expected = lost(LinkConfig::default(), Duration::ZERO);
    assert!((200..400).contains(&expected.len()));
    assert_eq!(lost(LinkConfig::default(), ms(3)), expected);
    assert_eq!(lost(LinkConfig { delay: ms(70), ..rate(10_000) }, ns(1)), expected);
    assert_eq!(lost(LinkConfig { queue: QueueLimit::packets(2), ..rate(1_000_000) }, ms(1)), expected);
    assert_eq!(lost(LinkConfig { memory_limit: 5_000, overhead: 28, ..rate(1) }, ms(1)), expected);
}

#[test]
fn seed_and_direction_choose_the_losses() {
    let lost = |seed, direction| -> Vec<bool> {
        let config = LinkConfig { loss: bernoulli(0.5), ..LinkConfig::default() };
        let mut link = Link::new(config, seed, direction);
        let now = epoch();
        (0..64).map(|_| link.push(now, vec![0; 8]).is_err()).collect()
    };
    assert_eq!(lost(1, Direction::Forward), lost(1, Direction::Forward));
    assert_ne!(lost(1, Direction::Forward), lost(2, Direction::Forward));
    assert_ne!(lost(1, Direction::Forward), lost(1, Direction::Reverse));
}

#[test]
fn late_pops_change_no_due_time() {
    let config = LinkConfig { delay: ms(5), queue: QueueLimit::packets(3), ..rate(3_000_000) };
    for occupancy in [Occupancy::Waiting, Occupancy::WaitingAndInFlight] {
        let start = epoch();
        let mut prompt = link(LinkConfig { occupancy, ..config.clone() });
        let mut late = link(LinkConfig { occupancy, ..config.clone() });
        let mut numbers = Numbers::new(SEED);
        let mut collected = Vec::new();
        let mut now = start;
        for _ in 0..2_000 {
            now += ns(numbers.below(4_000_000));
            while let Some(delivery) = prompt.pop(now) {
                collected.push(delivery);
            }
            assert_eq!(prompt.push(now, vec![0; 900]), late.push(now, vec![0; 900]), "{occupancy:?}");
        }
        collected.extend(drain(&mut prompt));
        let collected_late: Vec<_> = std::iter::from_fn(|| late.pop(now + ms(60_000))).collect();
        assert_eq!(collected, collected_late, "{occupancy:?}");
        assert!(prompt.ledger().dropped_queue > 100, "{occupancy:?}: the queue was put to the test");
        assert_eq!(prompt.ledger(), late.ledger(), "{occupancy:?}");
    }
}

#[test]
fn burst_into_idle_link_keeps_limit_plus_one() {
    for (limit, kept) in [(0, 1), (1, 2), (10, 11)] {
        for bps in [300, 1_000_000, 10_000_000_000] {
            let mut link = link(LinkConfig { delay: ms(50), queue: QueueLimit::packets(limit), ..rate(bps) });
            assert_eq!(burst(&mut link, epoch(), 1_000, 500), kept, "limit {limit} at {bps} bit/s");
            assert_eq!(link.ledger().max_occupancy, u64::from(limit));
        }
    }
}

#[test]
fn burst_into_empty_path_keeps_limit_plus_one() {
    let rates = [Some(300), Some(1_000_000), Some(10_000_000_000), None];
    for (limit, kept) in [(1, 2), (10, 11)] {
        for bps in rates {
            let mut link = link(LinkConfig {
                rate: bps.map(Bitrate::from_bps),
                delay: ms(50),
                queue: QueueLimit::packets(limit),
                occupancy: Occupancy::WaitingAndInFlight,
                ..LinkConfig::default()
            });
            let now = epoch();
            assert_eq!(burst(&mut link, now, 1_000, 500), kept, "limit {limit} at {bps:?} bit/s");
            assert_eq!(link.ledger().max_occupancy, kept as u64);

            // A packet stops counting towards the limit at its due time, even if it is not popped.
            let due = link.next_wakeup().unwrap();
            let just_before = due.checked_sub(ns(1)).unwrap();
            assert_eq!(burst(&mut link, just_before, 1, 500), 0);
            assert_eq!(burst(&mut link, due, 1, 500), 1);
        }
    }
}

#[test]
fn packets_on_wire_do_not_count_as_waiting() {
    // A bandwidth-delay product of 250 packets is on the wire; the queue's limit is one packet.
    let mut link = link(LinkConfig { delay: ms(1_000), queue: QueueLimit::packets(1), ..rate(1_000_000) });
    let start = epoch();
    for n in 0..250 {
        link.push(start + ms(4) * n, vec![0; 500]).unwrap();
    }
    assert_eq!(link.ledger().in_flight, 250);
    assert_eq!(link.ledger().max_occupancy, 0);
}

#[test]
fn queue_counts_bytes_on_wire() {
    let config = LinkConfig { queue: QueueLimit::bytes(1_000), ..rate(1_000_000) };
    let mut bare = link(config.clone());
    assert_eq!(burst(&mut bare, epoch(), 10, 500), 3);
    let mut framed = link(LinkConfig { overhead: 1, ..config });
    assert_eq!(burst(&mut framed, epoch(), 10, 500), 2);
}

#[test]
fn without_a_rate_nothing_ever_waits() {
    let mut link = link(LinkConfig { queue: QueueLimit::packets(0), delay: ms(9), ..LinkConfig::default() });
    let now = epoch();
    assert_eq!(burst(&mut link, now, 1_000, 65_535), 1_000);
    assert!(due_times(&mut link, now).into_iter().all(|due| due == ms(9)));
    assert_eq!(link.ledger().busy, Duration::ZERO);
}

#[test]
fn only_long_busy_periods_are_recorded() {
    let now = epoch();
    let periods = |least| {
        let mut link = link(rate(1_000_000));
        link.record_busy_periods(least);
        // Packets of 1 ms.
        for (at, packets) in [(0, 1), (10, 3), (20, 2), (30, 1)] {
            burst(&mut link, now + ms(at), packets, 125);
        }
        let periods = link.busy_periods().iter();
        periods.map(|it| (it.from - now, it.to - now)).collect::<Vec<_>>()
    };
    let all = [(ms(0), ms(1)), (ms(10), ms(13)), (ms(20), ms(22)), (ms(30), ms(31))];
    assert_eq!(periods(Duration::ZERO), all);
    assert_eq!(periods(ms(2)), all[1..], "the last one may become longer");
}

#[test]
fn memory_limit_counts_packets_until_popped() {
    let now = epoch();
    let mut link = link(LinkConfig { memory_limit: 3_000, delay: ms(1), ..LinkConfig::default() });
    assert_eq!(burst(&mut link, now, 3, 1_000), 3);
    assert_eq!(link.held_bytes(), 3_000);
    let dropped = link.push(now, vec![0; 1_000]).unwrap_err();
    assert_eq!((dropped.cause, dropped.packet.len()), (DropCause::Memory, 1_000));

    // The first packet is due but not popped, so it still counts towards the memory limit.
    assert!(link.push(now + ms(2), vec![0; 1_000]).is_err());
    link.pop(now + ms(2)).unwrap();
    assert_eq!(link.held_bytes(), 2_000);
    assert!(link.push(now + ms(2), vec![0; 1_000]).is_ok());
    assert_eq!(link.ledger().dropped(DropCause::Memory), 2);
}

#[test]
fn memory_drop_uses_no_link_time() {
    let now = epoch();
    let mut link = link(LinkConfig { memory_limit: 1_000, ..rate(1_000_000) });
    assert_eq!(burst(&mut link, now, 3, 500), 2);
    link.set_memory_limit(2_000);
    link.push(now, vec![0; 500]).unwrap();
    assert_eq!(due_times(&mut link, now), [ms(4), ms(8), ms(12)]);
}

#[test]
fn the_queue_is_asked_before_memory() {
    let mut link = link(LinkConfig { memory_limit: 500, queue: QueueLimit::packets(0), ..rate(1) });
    let now = epoch();
    link.push(now, vec![0; 500]).unwrap();
    assert_eq!(link.push(now, vec![0; 500]).unwrap_err().cause, DropCause::QueueFull);
}

#[test]
fn lowering_memory_limit_keeps_packets_inside() {
    let now = epoch();
    let mut link = link(LinkConfig { delay: ms(1), ..LinkConfig::default() });
    burst(&mut link, now, 3, 1_000);
    link.set_memory_limit(0);
    assert!(link.push(now, Vec::new()).is_err());
    assert_eq!(drain(&mut link).len(), 3);
    assert_eq!(link.held_bytes(), 0);
}

#[test]
fn tiny_packets_are_charged_minimum() {
    let mut link = link(LinkConfig {
        memory_limit: 10 * MIN_PACKET_CHARGE_BYTES,
        delay: ms(1),
        ..LinkConfig::default()
    });
    let now = epoch();
    assert_eq!(burst(&mut link, now, 1_000, 0), 10);
    assert_eq!(link.held_bytes(), 640);
    assert_eq!(link.ledger().in_flight_bytes, 0, "the ledger counts payload");
}

#[test]
fn tearing_down_discards_what_is_inside() {
    let now = epoch();
    let mut link = link(LinkConfig { delay: ms(1), ..LinkConfig::default() });
    burst(&mut link, now, 5, 100);
    link.pop(now + ms(1)).unwrap();
    let ledger = link.into_ledger();
    assert!(ledger.balances());
    assert_eq!((ledger.delivered, ledger.discarded, ledger.in_flight), (1, 4, 0));
}

#[test]
fn late_push_enters_at_last_push_time() {
    let now = epoch();
    let mut link = link(LinkConfig { delay: ms(1), ..LinkConfig::default() });
    link.push(now + ms(5), vec![0]).unwrap();
    link.push(now, vec![1]).unwrap();
    assert_eq!(due_times(&mut link, now), [ms(6), ms(6)]);
}

#[test]
fn buffers_return_unchanged() {
    let mut packet = Vec::with_capacity(2_048);
    packet.extend_from_slice(b"the same allocation");
    let address = packet.as_ptr();
    let now = epoch();
    let mut link = link(LinkConfig::default());
    link.push(now, packet).unwrap();
    let delivery = link.pop(now).unwrap();
    assert_eq!(delivery.packet.as_ptr(), address);
    assert_eq!(delivery.packet, b"the same allocation");
}

#[test]
fn extreme_times_saturate_in_order() {
    let delays = [Duration::from_nanos(u64::MAX), Duration::MAX];
    let rates = [None, Some(Bitrate::from_bps(0)), Some(Bitrate::from_bps(u64::MAX))];
    for delay in delays {
        for rate in rates {
            for occupancy in [Occupancy::Waiting, Occupancy::WaitingAndInFlight] {
                let config =
                    LinkConfig { delay, rate, occupancy, overhead: u32::MAX, ..LinkConfig::default() };
                let mut link = link(config);
                let now = epoch();
                for n in 0..1_000 {
                    link.push(now + ns(n), vec![0; 65_535]).unwrap();
                }
                let dues: Vec<_> = drain(&mut link).into_iter().map(|delivery| delivery.due).collect();
                assert_eq!(dues.len(), 1_000);
                assert!(dues.is_sorted() && dues[0] > now, "{delay:?} {rate:?}");
            }
        }
    }
}
