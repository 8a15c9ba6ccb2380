//! Reply scheduling and batches.

use super::*;

#[test]
fn replies_of_one_peer_share_a_batch() {
    let mut script = Script::connected(reference(), "abc");
    for seq in 0..10 {
        script.data('c', seq, b"x").data('a', seq, b"y");
    }
    let batches: Vec<_> = script.batches().into_iter().map(|(peer, replies)| (peer, replies.len())).collect();
    assert_eq!(batches, [('c', 10), ('a', 10)]);
}

#[test]
fn full_batch_leaves_rest_for_next() {
    let mut script = Script::connected(reference(), "a");
    script.batch.set_max_segments(4);
    for seq in 0..10 {
        script.data('a', seq, b"x");
    }
    let sizes: Vec<_> = script.batches().into_iter().map(|(_, replies)| replies.len()).collect();
    assert_eq!(sizes, [4, 4, 2]);
}

#[test]
fn full_batch_loses_no_reply() {
    let mut script = Script::connected(reference(), "a");
    script.data('a', 0, b"x");
    script.batch.clear();
    script.batch.set_max_segments(1);
    script.batch.slot(REPLY_LEN).unwrap();
    assert_eq!(script.set.poll_transmit(script.now, &mut script.batch), None);
    assert_eq!(script.batch.segments(), 1);
    assert_eq!(script.replies(), [('a', ack(1, 1))]);
}

#[test]
fn batches_alternate_between_peers() {
    let mut script = Script::connected(reference(), "abc");
    script.batch.set_max_segments(2);
    for seq in 0..6 {
        script.data('a', seq, b"x");
    }
    script.data('b', 0, b"x").data('c', 0, b"x");
    let order: String = script.batches().iter().map(|(peer, _)| *peer).collect();
    assert_eq!(order, "abcaa");
}

#[test]
fn single_replies_alternate_between_peers() {
    let mut script = Script::connected(reference(), "abc");
    for seq in 0..3 {
        script.data('a', seq, b"x");
    }
    script.data('b', 0, b"x").data('b', 1, b"x").data('c', 0, b"x");
    script.batch.set_max_segments(1);
    let order: String = script.replies().iter().map(|(peer, _)| *peer).collect();
    assert_eq!(order, "abcaba");
    assert_eq!(script.replies(), []);
    script.data('c', 1, b"x");
    assert_eq!(script.replies(), [('c', ack(2, 2))], "again after a pause");
}
