use std::collections::BTreeSet;

use super::*;
use rdt_testing::ms;

const BASIC: [DropCause; 3] = [DropCause::Loss, DropCause::QueueFull, DropCause::Memory];

/// Returns the counters of five packets, of 1, 2, 4, 8 and 16 bytes: three dropped, one delivered
/// and one in flight.
fn one_of_each() -> Ledger {
    let mut ledger = Ledger::default();
    for (cause, bytes) in BASIC.into_iter().zip([1, 2, 4]) {
        ledger.on_sent(bytes);
        ledger.on_dropped(cause, bytes);
    }
    for bytes in [8, 16] {
        ledger.on_sent(bytes);
        ledger.on_admitted(bytes, ms(3), 2);
    }
    ledger.on_delivered(8);
    ledger
}

#[test]
fn each_packet_counts_under_one_fate() {
    let ledger = one_of_each();
    assert!(ledger.balances());
    assert_eq!((ledger.sent, ledger.sent_bytes), (5, 31));
    assert_eq!(BASIC.map(|cause| ledger.dropped(cause)), [1, 1, 1]);
    assert_eq!(ledger.dropped_bytes, 1 + 2 + 4);
    assert_eq!((ledger.delivered, ledger.delivered_bytes), (1, 8));
    assert_eq!((ledger.in_flight, ledger.in_flight_bytes), (1, 16));
    assert_eq!((ledger.busy, ledger.max_occupancy), (ms(6), 2));
}

#[test]
fn a_missing_packet_or_byte_shows() {
    let mut ledger = one_of_each();
    ledger.delivered -= 1;
    assert!(!ledger.balances());
    let mut ledger = one_of_each();
    ledger.dropped_bytes += 1;
    assert!(!ledger.balances());
}

#[test]
fn abandoning_names_what_was_inside() {
    let mut ledger = one_of_each();
    ledger.abandon();
    assert!(ledger.balances());
    assert_eq!((ledger.in_flight, ledger.in_flight_bytes), (0, 0));
    assert_eq!((ledger.discarded, ledger.discarded_bytes), (1, 16));
}

#[test]
fn merge_adds_counts_and_keeps_max_occupancy() {
    let mut total = one_of_each();
    total.abandon();
    let mut other = one_of_each();
    other.max_occupancy = 9;
    total.merge(&other);

    assert!(total.balances());
    let expected = Ledger {
        sent: 10,
        sent_bytes: 62,
        delivered: 2,
        delivered_bytes: 16,
        dropped_loss: 2,
        dropped_queue: 2,
        dropped_memory: 2,
        dropped_bytes: 14,
        discarded: 1,
        discarded_bytes: 16,
        in_flight: 1,
        in_flight_bytes: 16,
        max_occupancy: 9,
        busy: ms(12),
        ..Ledger::default()
    };
    assert_eq!(total, expected);
}

#[test]
fn replace_updates_one_part_of_sum() {
    let other = one_of_each();
    let (mut link, mut sum) = (one_of_each(), other);
    sum.merge(&link);
    let before = link;
    link.on_delivered(16);
    link.on_sent(32);
    link.on_admitted(32, ms(1), 5);
    sum.replace(&before, &link);
    let mut merged = other;
    merged.merge(&link);
    assert_eq!(sum, merged);
    assert_eq!((sum.in_flight, sum.delivered, sum.max_occupancy, sum.busy), (2, 3, 5, ms(13)));
}

#[test]
fn causes_read_as_words() {
    assert_eq!(
        BASIC.map(|cause| cause.to_string()),
        ["lost on arrival", "queue full", "memory limit reached"]
    );
    let words: BTreeSet<_> = DropCause::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), DropCause::ALL.len(), "each has words of its own: {words:?}");
}

#[test]
fn each_drop_cause_has_its_counter() {
    for cause in DropCause::ALL {
        let mut ledger = Ledger::default();
        ledger.on_sent(7);
        assert!(!ledger.balances(), "a packet without a fate");
        ledger.on_dropped(cause, 7);
        assert!(ledger.balances(), "{cause}");
        for other in DropCause::ALL {
            assert_eq!(ledger.dropped(other), u64::from(other == cause), "{cause}, {other}");
        }

        let mut total = ledger;
        total.merge(&ledger);
        assert_eq!((total.dropped(cause), total.dropped_bytes), (2, 14));
        assert!(total.balances());
    }
}

#[test]
fn duplicate_counts_as_one_more_packet() {
    let mut ledger = one_of_each();
    ledger.on_duplicated(16);
    assert!(!ledger.balances(), "a copy without a fate");
    ledger.on_admitted(16, ms(3), 2);
    assert!(ledger.balances());
    ledger.on_duplicated(16);
    ledger.on_dropped(DropCause::QueueFull, 16);
    assert!(ledger.balances());
    ledger.duplicated_bytes -= 1;
    assert!(!ledger.balances());
}

#[test]
fn merge_adds_effect_counters() {
    let one = Ledger {
        duplicated: 1,
        duplicated_bytes: 2,
        corrupted: 3,
        reordered: 4,
        marked: 5,
        fragmented: 6,
        fragments: 13,
        ..Ledger::default()
    };
    let mut total = one;
    total.merge(&one);
    let two = Ledger {
        duplicated: 2,
        duplicated_bytes: 4,
        corrupted: 6,
        reordered: 8,
        marked: 10,
        fragmented: 12,
        fragments: 26,
        ..Ledger::default()
    };
    assert_eq!(total, two);
}
