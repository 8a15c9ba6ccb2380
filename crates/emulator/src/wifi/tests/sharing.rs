//! Tests of two directions that share one medium.

use std::collections::VecDeque;

use super::*;
use crate::path::{Path, PathConfig};
use crate::queue::QueueLimit;
use crate::time::{nanos, nanos_since};
use rdt_testing::{Numbers, ms};

fn path(cell: &str, queue: u32) -> Path {
    let cell = cell.parse().unwrap();
    let link = LinkConfig::default().overhead(28).wifi(cell).queue(QueueLimit::packets(queue));
    Path::new(link, 1)
}

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

#[test]
fn packet_on_free_medium_departs_at_once() {
    let mut path = path("wifi-b", 9);
    let now = epoch();
    path.push(Direction::Forward, now, vec![0; 1_470]).unwrap();
    // In us: 192 preamble + 8 * (1498 + 36) / 11.
    assert_eq!(path.forward.next_wakeup(), Some(now + us_tenths(13_080)));
    // The next frame starts 10 SIFS + 203 ACK + 50 DIFS + 310 back-off later.
    path.push(Direction::Forward, now, vec![0; 1_470]).unwrap();
    path.forward.pop(now + ms(9)).unwrap();
    assert_eq!(path.forward.next_wakeup(), Some(now + us_tenths(13_080 + 5_730 + 13_080)));
}

#[test]
fn lone_ack_waits_for_current_frame_only() {
    let mut path = path("wifi-b", 1_000);
    let start = epoch();
    for _ in 0..1_000 {
        path.push(Direction::Forward, start, vec![0; 1_470]).unwrap();
    }
    let turn = cost("wifi-b", 1_498);
    let now = start + turn * 10 + turn / 4;
    path.push(Direction::Reverse, now, vec![0; 12]).unwrap();
    let due = path.pop(Direction::Reverse, now + turn * 3).unwrap().due - now;
    assert!(due > turn / 2 && due < turn * 2, "{due:?}");

    // The airtime of one direction delays the next packet of the other direction by the same time.
    let queued = turn * 999;
    let mut last = Duration::ZERO;
    while let Some(delivery) = path.pop(Direction::Forward, start + queued * 2) {
        last = delivery.due - start;
    }
    assert!(last > queued + turn / 2 + cost("wifi-b", 40), "{last:?} after {queued:?}");
}

/// Keeps both queues full for 10 s and returns the number of packets that each direction delivers.
fn both_full(cell: &str, sizes: [usize; 2]) -> [u64; 2] {
    let mut path = path(cell, 20);
    let start = epoch();
    for tick in 0..100_000 {
        let now = start + Duration::from_micros(100) * tick;
        for (direction, size) in BOTH.into_iter().zip(sizes) {
            let _ = path.push(direction, now, vec![0; size]);
            while path.link_mut(direction).pop(now).is_some() {}
        }
    }
    [path.forward.ledger().delivered, path.reverse.ledger().delivered]
}

#[test]
fn two_saturated_directions_halve_airtime() {
    for cell in ["wifi-a", "wifi-b", "wifi-g:slot=short", "wifi-b:stations=4", "wifi-b:backoff=drawn"] {
        let [forward, reverse] = both_full(cell, [1_470, 1_470]);
        let config: WifiConfig = cell.parse().unwrap();
        let turn = Costs::new(config).of(1_498, 2, None).total;
        let expected = 10_000_000_000 / turn;
        // The difference is at most about a queue of 20 packets.
        assert!(forward.abs_diff(reverse) <= 25, "{cell}: {forward} {reverse}");
        assert!(
            (forward + reverse).abs_diff(expected) <= expected / 50,
            "{cell}: {forward} {reverse} {expected}"
        );
    }
}

#[test]
fn short_and_long_frames_get_equal_turns() {
    let [long, short] = both_full("wifi-b", [1_470, 12]);
    assert!(long.abs_diff(short) <= long / 20, "{long} {short}");
    let costs = Costs::new(WifiConfig::b());
    let pair: u64 = [1_498, 40].map(|bytes| costs.of(bytes, 2, None).total).iter().sum();
    assert!(long.abs_diff(10_000_000_000 / pair) <= long / 20, "{long}");
}

/// Returns the delays of two simultaneous bursts of 50 packets, one in each direction.
fn bursts(disciplines: [&str; 2], step: Duration) -> [Vec<Duration>; 2] {
    let [forward, reverse] = disciplines.map(|discipline| {
        LinkConfig::default().wifi(WifiConfig::b()).discipline(discipline.parse().unwrap())
    });
    let mut path = Path::new(PathConfig::asymmetric(forward, reverse), 1);
    let start = epoch();
    for direction in BOTH {
        for _ in 0..50 {
            path.push(direction, start, vec![0; 1_500]).unwrap();
        }
    }
    let (mut now, mut due) = (start, [vec![], vec![]]);
    while path.forward.next_wakeup().or(path.reverse.next_wakeup()).is_some() {
        now += step;
        for direction in BOTH {
            let delivered =
                std::iter::from_fn(|| path.pop(direction, now)).map(|delivery| delivery.due - start);
            due[direction as usize].extend(delivered);
        }
    }
    due
}

#[test]
fn waiting_packets_share_medium_for_late_caller() {
    let turn = Duration::from_nanos(Costs::new(WifiConfig::b()).of(1_500, 2, None).total);
    for discipline in [
        ["drop-head", "drop-head"],
        ["codel", "codel"],
        ["drop-tail", "codel"],
        ["codel", "drop-tail"],
        ["drop-tail", "drop-head"],
    ] {
        let due = bursts(discipline, Duration::from_micros(100));
        assert_eq!(due, bursts(discipline, ms(1_000)), "{discipline:?}");
        let mut all = due.concat();
        all.sort_unstable();
        assert!(all.len() > 95, "{discipline:?}: {}", all.len());
        // The directions alternate, one frame at a time, without unused airtime.
        assert!(all.windows(2).all(|pair| pair[1] >= pair[0] + turn), "{discipline:?}: {all:?}");
        let whole = turn * u32::try_from(all.len()).unwrap();
        assert!(all[all.len() - 1].abs_diff(whole) < turn, "{discipline:?}: {all:?}");
        let lasts = due.map(|direction| direction[direction.len() - 1]);
        assert!(lasts[0].abs_diff(lasts[1]) < turn * 4, "{discipline:?}: {lasts:?}");
    }
}

/// A packet of a random schedule, with times in ns since the start of the schedule.
struct Sent {
    way: usize,
    enters: u64,
    /// Start of the packet's turn, as decided when the packet entered.
    starts: u64,
    takes: u64,
}

/// Returns random bursts in both directions, most of them in the first. The time between packets is
/// up to `gap` microseconds. A packet has 1.35 ms of airtime on average, so a `gap` of 2700
/// saturates the medium.
fn random_schedule(seed: u64, gap: u64) -> Vec<Sent> {
    let mut numbers = Numbers::new(seed);
    let epoch = epoch();
    let mut airs = BOTH.map(|direction| Medium::new(&Schedule::constant(WifiConfig::b()), seed, direction));
    let (mut sent, mut now, mut one_queue) = (Vec::new(), epoch, epoch);
    for _ in 0..300 {
        let burst = 1 + numbers.below(12);
        let way = usize::from(numbers.below(3) == 0);
        let bytes = if numbers.below(2) == 0 { 40 } else { 1_498 };
        for _ in 0..burst {
            let start = airs[way].serve(now, bytes).start;
            let turn = airs[way].take_turn().unwrap();
            airs[1 - way].on_other_turn(turn);
            let [enters, starts] = [now, start].map(|at| nanos_since(epoch, at));
            sent.push(Sent { way, enters, starts, takes: nanos(turn.takes) });
            // Both directions together must use the airtime of one queue of all their packets.
            one_queue = one_queue.max(now) + turn.takes;
            let last = airs.iter().filter_map(|air| air.free_at).max();
            assert_eq!(last, Some(one_queue), "seed {seed}, packet {}", sent.len());
        }
        now += Duration::from_micros(numbers.below(gap * burst));
    }
    sent
}

/// Returns the total wait of each direction if the next sender is decided when the medium becomes
/// free. The directions alternate while both have packets.
fn waits_turn_by_turn(sent: &[Sent]) -> [u64; 2] {
    let mut queues = [0, 1].map(|way| sent.iter().filter(|sent| sent.way == way).collect::<VecDeque<_>>());
    let (mut free, mut last, mut waits) = (0, 0, [0; 2]);
    while let Some(first) = queues.iter().filter_map(|queue| Some(queue.front()?.enters)).min() {
        let starts = first.max(free);
        let has_one = |queue: &VecDeque<&Sent>| queue.front().is_some_and(|sent| sent.enters <= starts);
        last = if has_one(&queues[1 - last]) { 1 - last } else { last };
        let sent = queues[last].pop_front().unwrap();
        waits[last] += starts - sent.enters;
        free = starts + sent.takes;
    }
    waits
}

#[test]
fn directions_together_use_all_airtime() {
    for seed in 0..100 {
        random_schedule(seed, 500 + seed * 50);
    }
}

#[test]
fn settled_turns_wait_nearly_as_exact_ones() {
    let mut relative = Vec::new();
    for seed in 0..100 {
        let sent = random_schedule(seed, 3_000 + seed * 30);
        for (way, exact) in waits_turn_by_turn(&sent).into_iter().enumerate() {
            let wait: u64 = sent.iter().filter(|s| s.way == way).map(|s| s.starts - s.enters).sum();
            relative.push((wait * 100 / exact, seed, way));
        }
    }
    relative.sort_unstable();
    let percent = |share: usize| relative[(relative.len() - 1) * share / 100];
    assert!(percent(0).0 >= 79 && percent(50).0 >= 94 && percent(100).0 < 110, "{relative:?}");
}

/// Runs a random schedule without drops. Returns the due time in ns and direction of each packet.
fn dues(seed: u64, disciplines: [&str; 2]) -> Vec<(u64, Direction)> {
    let [forward, reverse] = disciplines.map(|discipline| {
        LinkConfig::default().wifi(WifiConfig::b()).discipline(discipline.parse().unwrap())
    });
    let mut path = Path::new(PathConfig::asymmetric(forward, reverse), seed);
    let (epoch, mut numbers, mut due) = (epoch(), Numbers::new(seed), Vec::new());
    let mut collect = |path: &mut Path, now| {
        for direction in BOTH {
            let delivered = std::iter::from_fn(|| path.pop(direction, now));
            due.extend(delivered.map(|delivery| (nanos_since(epoch, delivery.due), direction)));
        }
    };
    let mut now = epoch;
    for _ in 0..500 {
        now += Duration::from_micros(numbers.below(2_700));
        let bytes = if numbers.below(2) == 0 { 40 } else { 1_498 };
        path.push(BOTH[usize::from(numbers.below(3) == 0)], now, vec![0; bytes]).unwrap();
        if numbers.below(10) == 0 {
            collect(&mut path, now);
        }
    }
    collect(&mut path, now + ms(10_000));
    assert_eq!(due.len(), 500);
    due
}

#[test]
fn drop_tail_takes_exact_turns() {
    for seed in 0..50 {
        let expected = dues(seed, ["drop-head", "drop-head"]);
        for disciplines in [["drop-tail"; 2], ["drop-tail", "drop-head"], ["drop-head", "drop-tail"]] {
            assert!(dues(seed, disciplines) == expected, "seed {seed}, {disciplines:?}");
        }
    }
}
