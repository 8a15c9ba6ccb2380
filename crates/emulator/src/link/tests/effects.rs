//! Optional effects of a link, each alone. [`model`](super::model) tests them together.

use super::*;
use crate::delay::Jitter;
use crate::loss::GilbertElliott;
use crate::mtu::Mtu;
use crate::outage::Outage;
use crate::queue::{Incapable, Marking};
use crate::rate::Trace;

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

/// Returns a link of 1 Mbit/s and 50 ms, on which the serialisation of 500 bytes takes 4 ms.
fn plain() -> LinkConfig {
    LinkConfig::new(Bitrate::from_bps(1_000_000), ms(50))
}

/// Returns the numbers (tags) of the delivered packets, in the order of delivery.
fn order(link: &mut Link) -> Vec<u32> {
    drain(link).into_iter().map(|delivery| delivery.tag).collect()
}

/// Pushes packets 0 to `count` - 1 of 500 bytes, one every `gap`, tagged with their numbers.
fn numbered(link: &mut Link, start: Instant, count: u32, gap: Duration) {
    for n in 0..count {
        let _ = link.push(start + gap * n, Packet::from(vec![0; 500]).with_tag(n));
    }
}

#[test]
fn outage_drops_arrivals_and_serves_waiting_packets() {
    let start = epoch();
    let mut link = link(plain().outage(Outage::once(ms(5), ms(10))));
    // When the outage begins, two packets are inside the link, and the second still waits.
    numbered(&mut link, start, 6, ms(3));
    let dues: Vec<_> = drain(&mut link).iter().map(|d| (d.tag, d.due - start)).collect();
    assert_eq!(dues, [(0, ms(54)), (1, ms(58)), (4, ms(66)), (5, ms(70))]);
    assert_eq!(link.ledger().dropped(DropCause::Outage), 2);
}

#[test]
fn outage_times_count_from_link_start() {
    let start = epoch();
    let config = plain().outage(Outage::periodic(ms(10), ms(5), ms(5)));
    let taken = |mut link: Link| -> Vec<bool> {
        [7, 12, 16, 21].iter().map(|&at| link.push(start + ms(at), vec![0]).is_ok()).collect()
    };
    let mut started = link(config.clone());
    started.start(start);
    started.start(start + ms(5));
    assert_eq!(taken(started), [false, true, false, true]);
    // Without a start, times count from the first push: 0, 5, 9 and 14 ms after it.
    assert_eq!(taken(link(config.clone())), [true, false, false, true]);
    // A push before the configured start becomes the start.
    let mut later = link(config);
    later.start(start + ms(100));
    assert_eq!(taken(later), [true, false, false, true]);
}

/// Pushes 1,000 packets, one each millisecond, and returns the numbers of the lost packets.
fn lost_of_1000(loss: Loss, len: usize) -> Vec<u32> {
    let start = epoch();
    let mtu = Mtu::new(1_300).oversize(crate::mtu::Oversize::Fragment);
    let mut link = link(LinkConfig::default().mtu(mtu).loss(loss));
    link.start(start);
    (0..1_000).filter(|&n| link.push(start + ms(1) * n, vec![0; len]).is_err()).collect()
}

#[test]
fn loss_steps_count_from_link_start() {
    let steps = [(ms(200), Probability::ONE), (ms(300), probability(0.2))];
    // 3,000 bytes are three fragments, each with a draw of its own.
    for len in [100, 3_000] {
        let lost = lost_of_1000(Loss::steps(Probability::ZERO, steps), len);
        let constant = lost_of_1000(bernoulli(0.2), len);
        let later = constant.into_iter().filter(|&n| n >= 300);
        assert_eq!(lost, (200..300).chain(later).collect::<Vec<_>>(), "{len} bytes");
    }
}

#[test]
fn constant_loss_schedule_equals_constant_loss() {
    for len in [100, 3_000] {
        let schedule = Loss::steps(probability(0.2), [(ms(500), probability(0.2))]);
        assert_eq!(lost_of_1000(schedule, len), lost_of_1000(bernoulli(0.2), len), "{len} bytes");
    }
}

#[test]
fn mtu_counts_overhead_and_changes_in_time() {
    let start = epoch();
    let mut link = link(plain().overhead(28).mtu(Mtu::new(528).then(ms(10), 527)));
    let pushed = |link: &mut Link, at, len| link.push(start + ms(at), vec![0; len]).map_err(|d| d.cause);
    assert_eq!(pushed(&mut link, 0, 501), Err(DropCause::TooLong));
    assert_eq!(pushed(&mut link, 9, 500), Ok(()));
    assert_eq!(pushed(&mut link, 10, 500), Err(DropCause::TooLong));
    assert_eq!(pushed(&mut link, 10, 499), Ok(()));
    assert_eq!(link.ledger().dropped_bytes, 1_001);
}

#[test]
fn arrival_drop_uses_no_link_time() {
    let start = epoch();
    let mut link = link(plain().mtu(Mtu::new(500)));
    assert!(link.push(start, vec![0; 501]).is_err());
    link.push(start, vec![0; 500]).unwrap();
    assert_eq!(due_times(&mut link, start), [ms(54)]);
}

#[test]
fn duplicate_follows_original_with_own_service() {
    let start = epoch();
    let mut link = link(plain().duplicate(Probability::ONE));
    numbered(&mut link, start, 2, Duration::ZERO);
    assert_eq!((link.ledger().sent, link.ledger().duplicated, link.ledger().in_flight), (2, 2, 4));
    let dues: Vec<_> = drain(&mut link).iter().map(|d| (d.tag, d.due - start, d.packet.len())).collect();
    assert_eq!(dues, [(0, ms(54), 500), (0, ms(58), 500), (1, ms(62), 500), (1, ms(66), 500)]);
    assert_eq!(link.ledger().duplicated_bytes, 1_000);
    assert_eq!(link.ledger().delivered, 4);
}

#[test]
fn duplicate_without_room_is_dropped_alone() {
    let now = epoch();
    let mut queue = link(plain().duplicate(Probability::ONE).queue(QueueLimit::packets(0)));
    assert_eq!(burst(&mut queue, now, 1, 500), 1);
    assert_eq!((queue.ledger().duplicated, queue.ledger().dropped_queue), (1, 1));
    let mut memory = link(plain().duplicate(Probability::ONE).memory_limit(999));
    assert_eq!(burst(&mut memory, now, 1, 500), 1);
    assert_eq!((memory.ledger().dropped_memory, memory.held_bytes()), (1, 500));
    assert!(memory.ledger().balances());
}

#[test]
fn delivery_flags_copy_and_corruption() {
    for text in ["drop-tail", "drop-head", "pie"] {
        let half = Probability::new(0.5).unwrap();
        let config = plain().duplicate(Probability::ONE).corrupt(half).discipline(text.parse().unwrap());
        let mut link = link(config);
        for _ in 0..100 {
            link.push(epoch(), vec![0; 10]).unwrap();
        }
        let mut copies = 0;
        while let Some(due) = link.next_wakeup() {
            for delivery in std::iter::from_fn(|| link.pop(due)) {
                copies += u64::from(delivery.is_copy);
                assert_eq!(delivery.is_corrupted, delivery.packet != [0; 10], "{text}");
            }
        }
        assert_eq!((copies, link.ledger().delivered), (100, 200), "{text}");
    }
}

#[test]
fn dropped_packet_is_not_duplicated() {
    let mut link = link(plain().duplicate(Probability::ONE).loss(Loss::every_nth(1)));
    assert_eq!(burst(&mut link, epoch(), 10, 500), 0);
    assert_eq!(link.ledger().duplicated, 0);
}

#[test]
fn corruption_flips_one_bit_and_keeps_length() {
    let now = epoch();
    let mut link = link(plain().corrupt(Probability::ONE).queue(QueueLimit::packets(1)));
    for n in 0..3 {
        match link.push(now, vec![0xff; 500]) {
            Ok(()) => assert!(n < 2),
            Err(dropped) => assert_eq!(dropped.packet, vec![0xff; 500], "what comes back is as it was"),
        }
    }
    let zeros = |packet: &[u8]| -> u32 { packet.iter().map(|byte| byte.count_zeros()).sum() };
    for delivery in drain(&mut link) {
        assert_eq!((delivery.packet.len(), zeros(&delivery.packet)), (500, 1));
    }
    assert_eq!((link.ledger().corrupted, link.ledger().delivered), (2, 2));
}

#[test]
fn held_back_packet_is_overtaken_within_extra_delay() {
    // A second link finds out which packets get the extra delay: it depends on their numbers only.
    let reorder = |probability| plain().reorder(probability, ms(10));
    let mut probe = link(reorder(probability(0.2)));
    let start = epoch();
    let held_back: Vec<bool> = (0..50)
        .map(|n| {
            let before = probe.ledger().reordered;
            probe.push(start + ms(4 * n), vec![0; 500]).unwrap();
            probe.ledger().reordered > before
        })
        .collect();
    assert!(held_back.contains(&true) && held_back.contains(&false));

    let mut link = link(reorder(probability(0.2)));
    numbered(&mut link, start, 50, ms(4));
    let mut expected: Vec<u32> = (0..50).collect();
    // Packets are due 4 ms apart, those with the extra delay 10 ms later.
    expected.sort_by_key(|&n| 4 * n + if held_back[n as usize] { 10 } else { 0 });
    assert_eq!(order(&mut link), expected);
}

#[test]
fn wakeup_moves_earlier_when_packet_overtakes() {
    let start = epoch();
    let config = LinkConfig::new(None, ms(1)).reorder(probability(0.5), ms(100));
    let mut link = link(config);
    let mut earliest: Option<Instant> = None;
    for n in 0..100 {
        link.push(start + ms(n), vec![0]).unwrap();
        let wakeup = link.next_wakeup().unwrap();
        earliest = Some(earliest.map_or(wakeup, |at| at.min(wakeup)));
        assert_eq!(Some(wakeup), earliest);
    }
    assert!(earliest.unwrap() < start + ms(100));
    let dues = due_times(&mut link, start);
    assert!(dues.is_sorted() && dues.len() == 100);
}

#[test]
fn jitter_reorders_only_when_told_to() {
    let start = epoch();
    for (jitter, is_in_order) in
        [(Jitter::uniform(ms(30)), true), (Jitter::uniform(ms(30)).unordered(), false)]
    {
        let mut link = link(LinkConfig::new(None, ms(5)).jitter(jitter));
        numbered(&mut link, start, 200, ms(1));
        assert_eq!(order(&mut link).is_sorted(), is_in_order);
        assert_eq!(link.ledger().reordered, 0, "no packet was held back on purpose");
    }
}

#[test]
fn path_occupancy_ends_at_due_time_despite_overtaking() {
    let start = epoch();
    let config = LinkConfig::new(None, ms(5))
        .jitter(Jitter::uniform(ms(30)).unordered())
        .queue(QueueLimit::packets(9))
        .occupancy(Occupancy::WaitingAndInFlight);
    let mut link = link(config);
    assert_eq!(burst(&mut link, start, 100, 1), 10);
    for free in 1..=10 {
        let due = link.next_wakeup().unwrap();
        assert_eq!(burst(&mut link, due.checked_sub(ns(1)).unwrap(), 1, 1), 0, "{free}");
        link.pop(due).unwrap();
        // At each due time one packet stops counting, so one packet is admitted.
        assert_eq!(burst(&mut link, due, 2, 1), 1, "{free}");
    }
}

#[test]
fn capable_packets_above_threshold_are_marked() {
    let now = epoch();
    let mut link =
        link(plain().queue(QueueLimit::packets(6)).marking(Marking::above(QueueLimit::packets(2))));
    let sent = [Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::Ect0, Ecn::NotEct, Ecn::Ce, Ecn::Ect1, Ecn::Ect0];
    let taken = sent.map(|ecn| link.push(now, Packet::from(vec![0; 500]).with_ecn(ecn)).is_ok());
    assert_eq!(taken, [true, true, true, true, true, true, true, false], "the queue is full in the end");
    let ecn: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.ecn).collect();
    // The first three packets, one in service and two waiting, are not above the threshold.
    assert_eq!(ecn, [Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::NotEct, Ecn::Ce, Ecn::Ce]);
    assert_eq!(link.ledger().marked, 2, "one was marked already");
}

#[test]
fn incapable_packet_drop_counts_as_congestion() {
    let now = epoch();
    let marking = Marking { threshold: QueueLimit::bytes(500), incapable: Incapable::Drop };
    let mut link = link(plain().marking(marking));
    assert_eq!(burst(&mut link, now, 10, 500), 2);
    assert_eq!(link.ledger().dropped(DropCause::Congestion), 8);
    link.push(now, Packet::from(vec![0; 500]).with_ecn(Ecn::Ect0)).unwrap();
    assert_eq!(link.ledger().marked, 1);
}

#[test]
fn codepoints_and_tags_pass_unchanged() {
    let now = epoch();
    let mut link = link(plain());
    let all = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
    for (ecn, tag) in all.into_iter().zip(7..) {
        link.push(now, Packet { bytes: vec![1, 2], ecn, tag }).unwrap();
    }
    let seen: Vec<_> = drain(&mut link).iter().map(|delivery| (delivery.ecn, delivery.tag)).collect();
    assert_eq!(seen, [(Ecn::NotEct, 7), (Ecn::Ect0, 8), (Ecn::Ect1, 9), (Ecn::Ce, 10)]);
}

#[test]
fn rate_step_is_exact_for_late_caller() {
    let start = epoch();
    let config = plain().rate_steps([(ms(6), Bitrate::from_bps(2_000_000))]);
    let mut link = link(config);
    burst(&mut link, start, 3, 500);
    // The second half of the second packet and the third packet are sent at the new rate.
    assert_eq!(due_times(&mut link, start), [ms(54), ms(57), ms(59)]);
}

#[test]
fn trace_sends_at_opportunities_and_queues_rest() {
    let start = epoch();
    let trace = Trace::parse("3\n5\n5\n10\n").unwrap();
    let config = LinkConfig::new(None, ms(100)).trace(trace).queue(QueueLimit::packets(3));
    let mut link = link(config);
    link.start(start);
    assert_eq!(burst(&mut link, start + ms(4), 5, 1_500), 3);
    assert_eq!(burst(&mut link, start + ms(5), 5, 1_500), 2, "two have gone");
    assert_eq!(due_times(&mut link, start), [ms(105), ms(105), ms(110), ms(113), ms(115)]);
}

#[test]
fn packet_fate_does_not_depend_on_other_effects() {
    let burst_loss = GilbertElliott::all_or_nothing(probability(0.05), probability(0.3));
    let loss = Loss::GilbertElliott(burst_loss);
    let everything = plain()
        .loss(loss.clone())
        .outage(Outage::periodic(ms(90), ms(10), ms(0)))
        .mtu(Mtu::new(900))
        .jitter(Jitter::normal(ms(9)).unordered())
        .reorder(probability(0.2), ms(30))
        .queue(QueueLimit::packets(4))
        .marking(Marking { threshold: QueueLimit::packets(1), incapable: Incapable::Drop });
    let fates = |config: LinkConfig, cause| -> Vec<usize> {
        let mut link = link(config);
        let start = epoch();
        (0..2_000)
            .filter(|&n| {
                link.push(start + ms(2) * u32::try_from(n).unwrap(), vec![0; n % 1_000])
                    .is_err_and(|d| d.cause == cause)
            })
            .collect()
    };
    let lost = fates(LinkConfig::default().loss(loss), DropCause::Loss);
    assert!((100..500).contains(&lost.len()));
    assert_eq!(fates(everything, DropCause::Loss), lost);

    // Each effect applies to the same delivered packets whatever other effects are enabled.
    let met = |config: LinkConfig, met: fn(&Ledger) -> u64| -> Vec<bool> {
        let mut link = link(config.duplicate(probability(0.2)).corrupt(probability(0.3)));
        let start = epoch();
        (0..500)
            .map(|n| {
                let before = met(link.ledger());
                link.push(start + ms(n), vec![0; 9]).unwrap();
                met(link.ledger()) > before
            })
            .collect()
    };
    let rich = || plain().jitter(Jitter::uniform(ms(3))).reorder(probability(0.4), ms(1)).overhead(3);
    assert_eq!(met(plain(), |l| l.duplicated), met(rich(), |l| l.duplicated));
    let corrupted = met(plain().overhead(7), |l| l.corrupted);
    assert_eq!(corrupted, met(rich(), |l| l.corrupted));
    assert!(corrupted.contains(&true));
}
