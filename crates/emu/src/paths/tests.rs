use std::time::Duration;

use rdt_emulator::{Bitrate, Discipline, LinkConfig, Loss, Probability, QueueLimit, WifiConfig};
use rdt_udp::clock;

use super::*;

fn lossy() -> PathConfig {
    LinkConfig::new(Bitrate::from_bps(8_000_000), Duration::from_millis(5))
        .loss(Loss::Bernoulli(Probability::new(0.3).unwrap()))
        .into()
}

/// Sends 100 packets of each tag through the paths, one per millisecond. Returns tag, number and
/// time of each delivery.
fn carry(paths: &mut Paths, begin: Instant, tags: &[u32]) -> Vec<(u32, u8, Instant)> {
    for number in 0..100 {
        for (place, tag) in (0..).zip(tags) {
            let at = begin + Duration::from_millis(u64::from(number)) + Duration::from_nanos(place);
            let _ = paths.push(Direction::Forward, at, Packet::from(vec![number]).with_tag(*tag));
        }
    }
    let mut came = Vec::new();
    while let Some(wakeup) = paths.next_wakeup() {
        while let Some(delivery) = paths.pop(Direction::Forward, wakeup) {
            assert_eq!(delivery.due, wakeup);
            came.push((delivery.tag, delivery.packet[0], wakeup));
        }
    }
    came
}

#[test]
fn path_of_a_tag_ignores_other_tags() {
    let begin = clock::now();
    let mut together = Paths::from(PerTag::new(lossy(), 3));
    let both = carry(&mut together, begin, &[7, 8]);
    assert!(both.is_sorted_by_key(|packet| packet.2));
    let of = |tag| both.iter().filter(|packet| packet.0 == tag).copied().collect::<Vec<_>>();
    assert_eq!(of(7), carry(&mut Paths::from(PerTag::new(lossy(), 3)), begin, &[7]));
    let numbers = |tag| of(tag).iter().map(|packet| packet.1).collect::<Vec<_>>();
    assert_ne!(numbers(7), numbers(8));
    let mut alone = Paths::from(Path::new(lossy(), child_seed(3, 7)));
    assert_eq!(of(7), carry(&mut alone, begin, &[7]));
}

#[test]
fn removed_path_discards_and_counts_its_packets() {
    let mut paths = Paths::from(PerTag::new(LinkConfig::default().into(), 3));
    let now = clock::now();
    for tag in [1, 2, 2] {
        for direction in BOTH {
            paths.push(direction, now, Packet::from(vec![0]).with_tag(tag)).unwrap();
        }
    }
    paths.remove(2);
    paths.remove(9);
    for direction in BOTH {
        assert!(paths.pop(direction, now).is_some() && paths.pop(direction, now).is_none());
        let ledger = paths.ledger(direction);
        assert_eq!((ledger.sent, ledger.delivered, ledger.discarded), (3, 1, 2));
        assert!(ledger.balances());
    }
    assert_eq!(paths.next_wakeup(), None);
}

#[test]
fn departure_discipline_does_not_block_other_paths() {
    let codel = LinkConfig::new(Bitrate::from_bps(80_000), Duration::ZERO)
        .discipline(Discipline::DropHead)
        .loss(Loss::None);
    let mut paths = Paths::from(PerTag::new(codel.into(), 3));
    let came = carry(&mut paths, clock::now(), &[1, 2, 3]);
    assert_eq!(came.len(), 300);
    assert!(paths.ledger(Direction::Forward).balances());
}

#[test]
fn coupled_directions_leave_no_stale_wakeups() {
    let cell = LinkConfig::default().wifi(WifiConfig::b()).discipline(Discipline::DropHead);
    let mut paths = Paths::from(PerTag::new(cell.into(), 3));
    let mut now = clock::now();
    for tag in [1, 2] {
        for direction in BOTH.repeat(20) {
            now += Duration::from_micros(100);
            paths.push(direction, now, Packet::from(vec![0; 1_000]).with_tag(tag)).unwrap();
        }
    }
    now += Duration::from_millis(10);
    for direction in BOTH {
        while paths.pop(direction, now).is_some() {}
    }
    paths.remove(1);
    now += Duration::from_secs(1);
    for direction in BOTH {
        while paths.pop(direction, now).is_some_and(|delivery| delivery.tag == 2) {}
    }
    let Paths::PerTag(paths) = paths else { unreachable!() };
    assert_eq!(paths.total[1].delivered + paths.total[1].discarded, 40);
    assert!(paths.wakeups.iter().all(BTreeSet::is_empty));
}

/// Sums the accounts of paths that carried one tag each.
fn merged(alone: &[Paths], direction: Direction) -> (Ledger, DelayHistogram) {
    let mut sum = (Ledger::default(), DelayHistogram::default());
    for paths in alone {
        sum.0.merge(&paths.ledger(direction));
        sum.1.merge(&paths.queue_delays(direction));
    }
    sum
}

#[test]
fn account_is_sum_of_all_paths() {
    for discipline in ["drop-tail", "drop-head", "codel", "pie"] {
        let wire = LinkConfig::new(Bitrate::from_bps(2_000_000), Duration::from_millis(5))
            .loss(Loss::Bernoulli(Probability::new(0.1).unwrap()))
            .duplicate(Probability::new(0.1).unwrap())
            .queue(QueueLimit::packets(20))
            .discipline(discipline.parse().unwrap());
        for link in [wire.clone(), wire.wifi(WifiConfig::b())] {
            carry_together_and_alone(&link);
        }
    }
}

fn carry_together_and_alone(link: &LinkConfig) {
    const TAGS: u32 = 20;
    let mut together = Paths::from(PerTag::new(link.clone().into(), 3));
    together.watch(0);
    let mut alone = Vec::new();
    let begin = clock::now();
    for (number, tag) in (0..4_000_u32).zip((0..TAGS).cycle()) {
        let at = begin + Duration::from_micros(50) * number;
        if number == tag {
            let mut paths = Paths::from(Path::new(link.clone(), child_seed(3, tag.into())));
            paths.start(at);
            paths.watch(0);
            alone.push(paths);
        }
        let direction = BOTH[usize::from((number / TAGS).is_multiple_of(3))];
        let size = 100 + (number as usize * 77) % 1_000;
        for paths in [&mut together, &mut alone[tag as usize]] {
            let _ = paths.push(direction, at, Packet::from(vec![0; size]).with_tag(tag));
        }
        if number % 50 == 0 {
            for paths in iter::once(&mut together).chain(&mut alone) {
                for direction in BOTH {
                    while paths.pop(direction, at).is_some() {}
                }
            }
        }
        if number % 1_000 == 900 {
            assert_sums(&together, &alone);
        }
    }
    for tag in 0..TAGS {
        together.remove(tag);
    }
    for direction in BOTH {
        let (mut sum, _) = merged(&alone, direction);
        sum.abandon();
        assert_eq!(together.ledger(direction), sum, "{link:?}");
    }
}

fn assert_sums(together: &Paths, alone: &[Paths]) {
    for direction in BOTH {
        let (ledger, delays) = merged(alone, direction);
        assert_eq!(together.ledger(direction), ledger);
        assert!(ledger.dropped_loss > 0 && ledger.duplicated > 0 && ledger.in_flight > 0, "{ledger:?}");
        let told = together.queue_delays(direction);
        assert!(delays.count() > 0 && delays.max() > Duration::ZERO);
        for q in [0.1, 0.5, 0.99, 1.0] {
            assert_eq!((told.count(), told.quantile(q)), (delays.count(), delays.quantile(q)));
        }
    }
}

#[test]
fn paths_share_one_memory_limit() {
    let held = LinkConfig::new(None, Duration::from_secs(1)).memory_limit(3_000);
    let mut paths = Paths::from(PerTag::new(held.into(), 3));
    let now = clock::now();
    let push = |paths: &mut Paths, tag| {
        let packet = Packet::from(vec![0; 1_000]).with_tag(tag);
        paths.push(Direction::Forward, now, packet).map_err(|dropped| dropped.cause)
    };
    let full = Err(rdt_emulator::DropCause::Memory);
    assert_eq!([1, 1, 1, 1, 2].map(|tag| push(&mut paths, tag)), [Ok(()), Ok(()), Ok(()), full, full]);
    assert!(paths.push(Direction::Reverse, now, Packet::from(vec![0; 3_000]).with_tag(2)).is_ok());
    let due = paths.next_wakeup().unwrap();
    assert!(paths.pop(Direction::Forward, due).is_some());
    assert_eq!([2, 1].map(|tag| push(&mut paths, tag)), [Ok(()), full]);
    paths.remove(1);
    assert_eq!([2, 2, 2].map(|tag| push(&mut paths, tag)), [Ok(()), Ok(()), full]);
    assert_eq!(paths.ledger(Direction::Forward).dropped_memory, 4);
}
