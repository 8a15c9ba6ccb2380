//! Memory limits of data beyond holes.

use super::*;

#[test]
fn peer_memory_limit_holds() {
    let mut script = Script::connected(Config { peer_memory_limit: 10_000, ..keeping() }, "ab");
    for seq in 1..50 {
        script.data('a', seq, &[7; 1000]);
    }
    let held = script.set.memory();
    assert!((5_000..=10_000).contains(&held), "{held} bytes");
    let stats = script.stats().receivers;
    assert_eq!(stats.accepted + stats.no_memory, 49);
    assert!(stats.no_memory >= 39);
    assert_eq!(script.replies().len() as u64, stats.accepted, "dropped packets get no ACK");
    script.data('b', 1, &[7; 1000]);
    assert_eq!(script.replies(), [('b', ack(0, 1))], "other peers have limits of their own");
}

#[test]
fn total_memory_limit_holds() {
    let mut script = Script::connected(Config { memory_limit: 10_000, ..keeping() }, "abcd");
    for seq in 1..10 {
        for peer in "abcd".chars() {
            script.data(peer, seq, &[7; 1000]);
            assert!(script.set.memory() <= 10_000);
        }
    }
    let stats = script.stats();
    assert!(stats.receivers.no_memory >= 36 - 10 && stats.receivers.accepted >= 5, "{stats:?}");
    assert_eq!(script.set.stats().max_memory, script.set.memory());
    script.set.close_classic('a');
    let before = script.replies().len();
    script.data('b', 20, &[7; 1000]);
    assert_eq!((before > 0, script.replies()), (true, vec![('b', ack(0, 1))]), "there is room again");
}

#[test]
fn in_order_data_passes_full_memory() {
    let mut script = Script::connected(Config { memory_limit: 3_000, ..reference() }, "ab");
    script
        .data('a', 2, &[7; 1000])
        .data('a', 3, &[7; 1000])
        .data('a', 4, &[7; 1000])
        .data('b', 2, &[7; 1000]);
    assert_eq!(script.replies(), [('a', ack(0, 1)); 2], "two fit");
    script.data('b', 0, &[7; 1000]).data('b', 1, &[7; 1000]).data('b', 2, &[7; 1000]);
    assert_eq!(script.replies(), [('b', ack(1, 1)), ('b', ack(2, 2)), ('b', ack(3, 3))]);
    script.data('a', 0, &[7; 1000]).data('a', 1, &[7; 1000]);
    assert_eq!(script.replies(), [('a', ack(1, 1)), ('a', ack(4, 4))]);
    assert_eq!(script.set.memory(), 0);
    assert_eq!(script.stats().receivers.no_memory, 2);
}
