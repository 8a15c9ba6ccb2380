//! Losses attributed to drops in the receiver's socket.

use super::native::{MSS, answer_to, connected_by, leaving, recv_ack};
use super::*;
use crate::LossDetection;
use crate::wire::native::{Ack, SackBlock};

/// Returns a sender that sent ten segments at 100 ms. At 200 ms the receiver has all but two,
/// missing from `first` on. Its socket dropped `overflow` messages.
fn after_a_hole(first: u64, overflow: Option<u32>) -> Script {
    let mut script = connected_by(LossDetection::Rack, Algorithm::Reno);
    script.write(10 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 10);
    script.at(200);
    hear_of(&mut script, first, first + 2..10, 9, overflow);
    script
}

/// Returns the segments sent within 100 ms.
fn leaving_soon(script: &mut Script) -> Vec<u64> {
    let until = script.now + ms(100);
    let mut segments = Vec::new();
    loop {
        segments.extend(leaving(script).iter().map(|(segment, ..)| *segment));
        match script.sender.poll_timeout() {
            Some(due) if due <= until => script.expire(),
            _ => return segments,
        };
    }
}

/// Acknowledges segments below `below`, and `beyond`; packet `packet_number` is the newest.
fn hear_of(
    script: &mut Script,
    below: u64,
    beyond: std::ops::Range<u64>,
    packet_number: u64,
    overflow: Option<u32>,
) {
    let block = SackBlock { start: beyond.start * MSS, end: beyond.end * MSS };
    let ack = Ack { ack: below * MSS, window: 1 << 20, overflow, ..answer_to(packet_number) };
    recv_ack(script, &ack, &[block]);
}

#[test]
fn socket_drops_are_resent_without_slowdown() {
    for (overflow, to_socket, recoveries) in [(Some(1), 2, 0), (Some(0), 0, 1), (None, 0, 1)] {
        let mut script = after_a_hole(3, overflow);
        let again = leaving_soon(&mut script);
        let stats = script.stats();
        assert_eq!((stats.lost_to_socket, stats.recoveries), (to_socket, recoveries), "{overflow:?}");
        if to_socket > 0 {
            assert_eq!((again, stats.lost), (vec![3, 4], 2));
        } else {
            assert_eq!(again[0], 3, "{overflow:?}");
        }
        assert_eq!(stats.cwnd < 10 * MSS, recoveries > 0, "{overflow:?}: {}", stats.cwnd);
    }
}

#[test]
fn overflow_does_not_cover_later_losses() {
    let mut script = after_a_hole(3, Some(1));
    assert_eq!(leaving_soon(&mut script), [3, 4]);
    script.at(300);
    script.write(10 * PAYLOAD);
    let more = leaving(&mut script).len() as u64;
    assert!(more > 4);
    script.at(400);
    // The first two of the next segments are missing, and the count is unchanged.
    hear_of(&mut script, 10, 12..10 + more, 11 + more, Some(1));
    assert!(leaving_soon(&mut script).starts_with(&[10]));
    let stats = script.stats();
    assert_eq!((stats.lost, stats.lost_to_socket, stats.recoveries), (4, 2, 1));
}
