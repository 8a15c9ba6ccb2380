//! Tests of links with queue disciplines: first what all have in common, then each discipline.

use super::*;
use crate::delay::{Jitter, Reorder};
use crate::queue::{CoDelConfig, Discipline, PieConfig, RedConfig};
use crate::rate::Trace;

const MBIT: u64 = 1_000_000;

/// Text forms of all disciplines, with and without ECN.
const ALL: [&str; 8] = [
    "drop-tail",
    "drop-head",
    "codel:target=2ms,interval=20ms",
    "codel:target=2ms,interval=20ms,ecn",
    "red:min=3kb,max=9kb",
    "red:min=3kb,max=9kb,weight=0.1,gentle=no,ecn",
    "pie:target=5ms,burst=20ms",
    "pie:target=5ms,burst=20ms,ecn",
];

fn discipline(text: &str) -> Discipline {
    text.parse().unwrap()
}

/// Returns a link of 10 Mbit/s and 20 ms, on which the serialisation of 1250 bytes takes 1 ms.
fn plain() -> LinkConfig {
    LinkConfig::new(Bitrate::from_bps(10 * MBIT), ms(20))
}

/// Pushes packets of 1250 bytes for `millis` ms, one every `gap`, and returns the deliveries.
fn load(link: &mut Link, start: Instant, millis: u64, gap: Duration, ecn: Ecn) -> Vec<Delivery> {
    let mut now = start;
    let mut tag = 0;
    let mut delivered = Vec::new();
    while now < start + ms(millis) {
        delivered.extend(std::iter::from_fn(|| link.pop(now)));
        let _ = link.push(now, Packet { bytes: vec![0; 1_250], ecn, tag });
        tag += 1;
        now += gap;
    }
    delivered.extend(drain_all(link));
    delivered
}

/// Pops all packets at the link's wake-ups. Some wake-ups deliver no packet.
fn drain_all(link: &mut Link) -> Vec<Delivery> {
    let mut delivered = Vec::new();
    while let Some(at) = link.next_wakeup() {
        delivered.extend(std::iter::from_fn(|| link.pop(at)));
        assert!(link.next_wakeup().is_none_or(|next| next > at), "no use in waiting");
    }
    delivered
}

#[test]
fn late_pops_change_no_discipline_outcome() {
    for text in ALL {
        for jitter in [None, Some(Jitter::uniform(ms(3))), Some(Jitter::normal(ms(3)).unordered())] {
            let config = LinkConfig { jitter, ..plain() }
                .queue(QueueLimit::packets(30))
                .discipline(discipline(text))
                .duplicate(Probability::new(0.1).unwrap());
            let start = epoch();
            let (mut prompt, mut late) = (link(config.clone()), link(config));
            let mut numbers = Numbers::new(SEED);
            let mut collected = Vec::new();
            let mut now = start;
            for n in 0..3_000 {
                now += ns(numbers.below(1_800_000));
                collected.extend(std::iter::from_fn(|| prompt.pop(now)));
                let packet = || Packet::from(vec![0; 900]).with_ecn(Ecn::Ect0).with_tag(n);
                assert_eq!(prompt.push(now, packet()), late.push(now, packet()), "{text}");
            }
            collected.extend(drain_all(&mut prompt));
            let collected_late: Vec<_> = std::iter::from_fn(|| late.pop(now + ms(60_000))).collect();
            assert_eq!(collected, collected_late, "{text} {jitter:?}");
            assert!(collected.is_sorted_by_key(|delivery| delivery.due));
            assert_eq!(prompt.ledger(), late.ledger(), "{text} {jitter:?}");
        }
    }
}

#[test]
fn pushes_within_delay_of_pops_are_not_late() {
    for text in ALL {
        let config = plain().queue(QueueLimit::packets(30)).discipline(discipline(text));
        let start = epoch();
        let (mut punctual, mut behind) = (link(config.clone()), link(config));
        let (mut expected, mut actual) = (Vec::new(), Vec::new());
        for n in 0..3_000 {
            let now = start + ns(700_000) * n;
            expected.extend(std::iter::from_fn(|| punctual.pop(now)));
            actual.extend(std::iter::from_fn(|| behind.pop(now + ms(19))));
            assert_eq!(punctual.push(now, vec![0; 1_000]), behind.push(now, vec![0; 1_000]), "{text}, {n}");
        }
        expected.extend(drain_all(&mut punctual));
        actual.extend(drain_all(&mut behind));
        assert_eq!(actual, expected, "{text}");
    }
}

#[test]
fn packet_fate_does_not_depend_on_discipline() {
    let half = Probability::new(0.5).unwrap();
    let fates = |text: &str| {
        let config = plain().loss(bernoulli(0.3)).duplicate(half).corrupt(half).discipline(discipline(text));
        let mut link = link(config);
        let start = epoch();
        // At this load only the loss model drops packets.
        for n in 0..500 {
            let _ = link.push(start + ms(5) * n, Packet::from(vec![0; 10]).with_tag(n));
        }
        let is_whole = |packet: &[u8]| packet.iter().all(|&byte| byte == 0);
        drain(&mut link).iter().map(|d| (d.tag, is_whole(&d.packet))).collect::<Vec<_>>()
    };
    let expected = fates("drop-tail");
    for text in ALL {
        assert!(fates(text) == expected, "{text}");
    }
    // The loss model drops the same packets if the queue drops packets too.
    let lost = |text: &str| -> Vec<u32> {
        let mut link =
            link(plain().loss(bernoulli(0.3)).queue(QueueLimit::packets(9)).discipline(discipline(text)));
        let start = epoch();
        let lost = |n: &u32| {
            let result = link.push(start + ns(200_000) * *n, vec![0; 1_250]);
            result.is_err_and(|dropped| dropped.cause == DropCause::Loss)
        };
        (0..2_000).filter(lost).collect()
    };
    for text in ALL {
        assert_eq!(lost(text), lost("drop-tail"), "{text}");
    }
}

#[test]
fn same_seed_drops_same_packets() {
    for text in ALL {
        let run = |seed| {
            let config = plain().queue(QueueLimit::packets(100)).discipline(discipline(text));
            let mut link = Link::new(config, seed, Direction::Forward);
            load(&mut link, epoch(), 2_000, ns(500_000), Ecn::NotEct)
                .iter()
                .map(|d| d.tag)
                .collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1), "{text}");
        let is_random = text.starts_with("red") || text.starts_with("pie");
        assert_eq!(run(1) != run(2), is_random, "{text}");
    }
}

#[test]
fn load_below_rate_causes_no_drop_or_wait() {
    for text in ALL {
        let mut link = link(plain().discipline(discipline(text)));
        link.measure_queue_delays();
        let delivered = load(&mut link, epoch(), 2_000, ms(1), Ecn::NotEct);
        assert_eq!(delivered.len(), 2_000, "{text}");
        assert_eq!(link.queue_delays().unwrap().max(), Duration::ZERO, "{text}");
    }
}

#[test]
fn drop_head_keeps_newest_and_signals_sooner() {
    let now = epoch();
    let config = plain().queue(QueueLimit::packets(3)).discipline(Discipline::DropHead);
    let mut link = link(config);
    link.keep_dropped(10);
    let taken = (0..8).filter(|&n| link.push(now, Packet::from(vec![0; 1_250]).with_tag(n)).is_ok()).count();
    assert_eq!(taken, 8);
    let gone: Vec<_> = std::iter::from_fn(|| link.pop_dropped()).collect();
    assert!(gone.iter().all(|drop| (drop.at, drop.cause) == (now, DropCause::Head)));
    assert_eq!(gone.iter().map(|drop| drop.packet.tag).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let out: Vec<_> = drain(&mut link).iter().map(|d| (d.tag, d.due - now)).collect();
    assert_eq!(out, [(0, ms(21)), (5, ms(22)), (6, ms(23)), (7, ms(24))]);
    let ledger = link.ledger();
    assert_eq!((ledger.dropped_head, ledger.dropped_bytes, ledger.dropped_queue), (4, 5_000, 0));
    assert_eq!((ledger.max_occupancy, ledger.busy), (3, ms(4)));
}

#[test]
fn drop_head_drops_only_if_room_results() {
    let now = epoch();
    let mut link = link(plain().queue(QueueLimit::bytes(3_000)).discipline(Discipline::DropHead));
    assert_eq!(burst(&mut link, now, 4, 1_000), 4);
    assert_eq!(link.push(now, vec![0; 3_001]).unwrap_err().cause, DropCause::QueueFull);
    assert_eq!(link.ledger().dropped_head, 0);
    link.push(now, vec![0; 1_500]).unwrap();
    assert_eq!((link.ledger().dropped_head, link.ledger().in_flight), (2, 3));

    // With a limit of 0 an arriving packet is dropped unless the serialiser is idle.
    let mut none = self::link(plain().queue(QueueLimit::packets(0)).discipline(Discipline::DropHead));
    assert_eq!(burst(&mut none, now, 3, 1_000), 1);
    assert_eq!(none.ledger().dropped_queue, 2);
}

#[test]
fn codel_follows_control_law_at_double_load() {
    let start = epoch();
    let config = CoDelConfig::default();
    let mut link = link(plain().discipline(Discipline::CoDel(config)));
    link.keep_dropped(100);
    let mut dropped = Vec::new();
    for n in 0..1_000 {
        link.push(start + ns(500_000) * n, vec![0; 1_250]).unwrap();
        dropped.extend(std::iter::from_fn(|| link.pop_dropped()).map(|drop| (drop.at - start).as_millis()));
    }
    // Packet n arrives at n/2 ms and departs at n ms, so the queueing delay reaches 5 ms when
    // packet 10 departs. After each drop later packets depart 1 ms earlier, still at whole
    // milliseconds.
    assert_eq!(dropped, [110, 210, 281, 339, 389, 434, 474]);
    assert_eq!(link.ledger().dropped_aqm, 7);
}

#[test]
fn codel_with_ecn_marks_instead_of_dropping() {
    let start = epoch();
    let mut link = link(plain().discipline(discipline("codel:ecn")));
    let delivered = load(&mut link, start, 500, ns(500_000), Ecn::Ect0);
    let marked = delivered.iter().filter(|delivery| delivery.ecn == Ecn::Ce);
    // A packet departs 21 ms before it is due: 1 ms of serialisation and 20 ms of delay.
    let times: Vec<_> = marked.map(|delivery| (delivery.due - start).as_millis() - 21).collect();
    assert_eq!(times[..7], [110, 210, 281, 339, 389, 434, 474]);
    assert_eq!((link.ledger().marked, link.ledger().dropped_aqm), (times.len() as u64, 0));
}

#[test]
fn pie_keeps_delay_at_target() {
    let start = epoch();
    let mut link = link(plain().discipline(Discipline::Pie(PieConfig::default())));
    // 20 s until the drop probability is stable, then 40 s of measurement. The load is 1.25 times
    // the rate, so a fifth must be dropped.
    load(&mut link, start, 20_000, ns(800_000), Ecn::NotEct);
    let before = *link.ledger();
    link.measure_queue_delays();
    load(&mut link, start + ms(20_000), 40_000, ns(800_000), Ecn::NotEct);
    let sent = link.ledger().sent - before.sent;
    let dropped = link.ledger().dropped_aqm - before.dropped_aqm;
    let permille = dropped * 1_000 / sent;
    assert!((190..=210).contains(&permille), "{dropped} of {sent}");
    let median = link.queue_delays().unwrap().quantile(0.5);
    assert!((ms(10)..=ms(20)).contains(&median), "{:?}", link.queue_delays());
    assert_eq!(link.ledger().dropped_queue, 0);
}

#[test]
fn red_settles_where_drops_match_excess() {
    let start = epoch();
    // The load is 5 % above the rate, so 5 % must be dropped. RED drops about twice its probability
    // `p_b`, which is 2.5 % a quarter of the way from `min` to `max`.
    let config = RedConfig { min: 10_000, max: 50_000, ..RedConfig::default() };
    let mut link = link(plain().discipline(Discipline::Red(config)));
    load(&mut link, start, 20_000, ns(950_000), Ecn::NotEct);
    link.measure_queue_delays();
    let before = *link.ledger();
    load(&mut link, start + ms(20_000), 100_000, ns(950_000), Ecn::NotEct);
    let sent = link.ledger().sent - before.sent;
    let dropped = link.ledger().dropped_aqm - before.dropped_aqm;
    assert!((45..=55).contains(&(dropped * 1_000 / sent)), "{dropped} of {sent}");
    // A quarter of the way from 10,000 to 50,000 bytes is 20,000 bytes, which is a delay of 16 ms.
    let median = link.queue_delays().unwrap().quantile(0.5);
    assert!((ms(12)..=ms(20)).contains(&median), "{:?}", link.queue_delays());
}

#[test]
fn packets_on_wire_are_no_backlog_for_aqm() {
    for text in ["red:min=3kb,max=9kb,weight=1", "pie:target=1ms,burst=0ms"] {
        for occupancy in [Occupancy::Waiting, Occupancy::WaitingAndInFlight] {
            let mut link = link(plain().discipline(discipline(text)).occupancy(occupancy));
            // The load equals the rate, so that 20 packets are on the wire and no packet waits.
            load(&mut link, epoch(), 1_000, ms(1), Ecn::NotEct);
            assert_eq!(link.ledger().delivered, 1_000, "{text}, {occupancy:?}");
        }
    }
}

#[test]
fn red_samples_full_queue_too() {
    // Of a burst of 40 packets 11 are admitted. Each of the others finds 10 packets waiting.
    let red = discipline("red:min=8kb,max=12kb,weight=0.1,gentle=no");
    let mut link = link(plain().queue(QueueLimit::packets(10)).discipline(red));
    let start = epoch();
    let mut push = |at| link.push(start + ms(at), vec![0; 1_250]).map_err(|dropped| dropped.cause);
    let full = (0..40).filter(|_| push(0) == Err(DropCause::QueueFull)).count();
    assert_eq!(full, 29);
    // The dropped packets raised the average, from less than half of `max` to above `max`.
    assert_eq!(push(1), Err(DropCause::Aqm));
}

#[test]
fn red_and_pie_mark_instead_of_dropping() {
    for text in ["red:min=10kb,max=100kb,ecn", "pie:ecn"] {
        let run = |ecn| {
            let mut link = link(plain().discipline(discipline(text)));
            load(&mut link, epoch(), 3_000, ns(990_000), ecn);
            *link.ledger()
        };
        let (capable, other) = (run(Ecn::Ect0), run(Ecn::NotEct));
        assert!(capable.marked > 0 && capable.dropped_aqm == 0, "{text}: {capable:?}");
        assert!(other.marked == 0 && other.dropped_aqm > 0, "{text}: {other:?}");
    }
}

#[test]
fn waiting_packets_count_against_memory() {
    let now = epoch();
    for text in ["drop-head", "codel"] {
        let mut link = link(plain().memory_limit(5_000).discipline(discipline(text)));
        assert_eq!(burst(&mut link, now, 10, 1_000), 5, "{text}");
        assert_eq!((link.held_bytes(), link.ledger().dropped_memory), (5_000, 5));
        link.pop(now + ms(21)).unwrap();
        assert_eq!((link.held_bytes(), link.ledger().in_flight), (4_000, 4));
        let ledger = link.into_ledger();
        assert!(ledger.balances() && ledger.discarded == 4, "{ledger:?}");
    }
}

#[test]
fn trace_serves_waiting_and_arriving_alike() {
    let trace = || Trace::parse("3\n5\n5\n10\n").unwrap();
    let start = epoch();
    let run = |text: &str| {
        let mut link = link(LinkConfig::new(None, ms(7)).trace(trace()).discipline(discipline(text)));
        link.start(start);
        let mut out = Vec::new();
        let mut numbers = Numbers::new(3);
        let mut now = start;
        for _ in 0..500 {
            now += ns(numbers.below(5_000_000));
            link.push(now, vec![0; usize::try_from(numbers.below(1_500)).unwrap()]).unwrap();
            out.extend(std::iter::from_fn(|| link.pop(now)));
        }
        out.extend(drain_all(&mut link));
        out.iter().map(|delivery| (delivery.packet.len(), delivery.due - start)).collect::<Vec<_>>()
    };
    // With neither discipline a packet is dropped, so the results are equal.
    assert_eq!(run("drop-head"), run("drop-tail"));
    assert_eq!(run("codel:interval=1min"), run("drop-tail"));
}

#[test]
fn newest_drops_are_kept_up_to_limit() {
    let now = epoch();
    let mut link = link(plain().queue(QueueLimit::packets(1)).discipline(Discipline::DropHead));
    let push = |link: &mut Link, tags: std::ops::Range<u32>| {
        tags.for_each(|n| link.push(now, Packet::from(vec![0; 1_250]).with_tag(n)).unwrap());
    };
    let kept = |link: &mut Link| -> Vec<u32> {
        std::iter::from_fn(|| link.pop_dropped()).map(|drop| drop.packet.tag).collect()
    };
    push(&mut link, 0..5);
    assert_eq!(kept(&mut link), [], "not enabled");
    link.keep_dropped(3);
    push(&mut link, 5..10);
    assert_eq!(kept(&mut link), [6, 7, 8]);
    assert_eq!(link.freed_drops(), 2);
    push(&mut link, 10..13);
    link.keep_dropped(1);
    assert_eq!(kept(&mut link), [11]);
    assert_eq!(link.freed_drops(), 4);
    assert_eq!(link.ledger().dropped_head, 11);
}

#[test]
fn dropped_second_copy_is_kept() {
    let now = epoch();
    let mut link = link(plain().duplicate(Probability::ONE).queue(QueueLimit::packets(0)));
    link.keep_dropped(3);
    link.push(now, Packet::from(vec![7; 10]).with_ecn(Ecn::Ect1).with_tag(5)).unwrap();
    let packet = Packet { bytes: vec![7; 10], ecn: Ecn::Ect1, tag: 5 };
    assert_eq!(
        link.pop_dropped(),
        Some(LateDrop { at: now, cause: DropCause::QueueFull, packet, is_copy: true })
    );
}

#[test]
fn queue_delay_excludes_service_time() {
    let now = epoch();
    for text in ["drop-tail", "drop-head", "codel", "red:min=1mb,max=2mb", "pie"] {
        let mut link = link(plain().discipline(discipline(text)));
        assert!(link.queue_delays().is_none());
        link.measure_queue_delays();
        burst(&mut link, now, 11, 1_250);
        drain(&mut link);
        let delays = link.queue_delays().unwrap();
        assert_eq!(delays.count(), 11, "{text}");
        let near = |actual: Duration, expected| actual.abs_diff(expected) <= expected / 100;
        assert!(near(delays.quantile(0.5), ms(5)) && near(delays.max(), ms(10)), "{text}: {delays:?}");
    }
}

#[test]
fn extremes_saturate_whatever_the_discipline() {
    for text in ALL {
        for delay in [Duration::ZERO, Duration::from_nanos(u64::MAX), Duration::MAX] {
            for rate in [None, Some(Bitrate::from_bps(0)), Some(Bitrate::from_bps(u64::MAX))] {
                let reorder = Some(Reorder { probability: Probability::ONE, extra: Duration::MAX });
                let config = LinkConfig { rate, delay, reorder, ..LinkConfig::default() };
                let mut link = link(config.overhead(u32::MAX).discipline(discipline(text)));
                let now = epoch();
                for n in 0..100 {
                    let _ = link.push(now + ns(n), vec![0; 65_535]);
                }
                // A pop at a wake-up may return no packet, but must then set a later wake-up.
                let mut last = None;
                while let Some(at) = link.next_wakeup() {
                    let before = link.ledger().in_flight;
                    while link.pop(at).is_some() {}
                    assert!(last < Some(at) || link.ledger().in_flight < before, "{text} {delay:?} {rate:?}");
                    last = Some(at);
                }
                assert!(link.ledger().balances() && link.ledger().in_flight == 0, "{text}");
            }
        }
    }
}
