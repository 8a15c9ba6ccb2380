//! The scoreboard by itself.

use std::time::Duration;

use super::*;
pub(super) use rdt_testing::epoch;

/// `n` segments of 100 bytes, 10 ms apart, transmissions numbered from 0.
fn board(numbering: Numbering, t0: Instant, n: u64) -> Scoreboard {
    let mut board = Scoreboard::new(numbering);
    for i in 0..n {
        board.push(t0 + Duration::from_millis(10 * i), 100, i);
    }
    board
}

#[test]
fn segment_record_fits_40_bytes() {
    assert!(size_of::<Segment>() <= 40, "{} bytes", size_of::<Segment>());
}

#[test]
fn karn_sample_needs_base_sent_once() {
    let (t0, ms) = (epoch(), Duration::from_millis);
    let mut board = board(Numbering::Packets, t0, 4);
    let acked = board.acknowledge(2, |_| false, |_| {});
    assert_eq!((acked.karn, acked.bytes, board.una_offset()), (Some(t0 + ms(10)), 200, 200));
    board.resend(t0 + ms(150), 200, 4);
    let acked = board.acknowledge(4, |_| false, |_| {});
    assert_eq!((acked.karn, acked.bytes, board.una_offset()), (None, 200, 400));
    assert_eq!((board.snd_una(), board.snd_nxt(), board.flight_size()), (4, 4, 0));
}

#[test]
fn acks_outside_flight_change_nothing() {
    let mut board = board(Numbering::Packets, epoch(), 1);
    assert!(board.acknowledge(1, |_| false, |_| {}).moved);
    assert!(!board.acknowledge(0, |_| false, |_| {}).moved);
    assert!(!board.acknowledge(1, |_| false, |_| {}).moved);
    assert_eq!((board.snd_una(), board.snd_nxt()), (1, 1));
}

#[test]
fn both_numberings_describe_same_segments() {
    let mut bytes = board(Numbering::Bytes, epoch(), 3);
    assert_eq!((bytes.snd_nxt(), bytes.span(100)), (300, 100));
    assert_eq!(bytes.acknowledge(250, |_| false, |_| {}).bytes, 250, "an edge inside a segment");
    assert_eq!((bytes.snd_una(), bytes.flight_size(), bytes.in_flight()), (250, 50, 50));
    assert_eq!(bytes.base().map(|base| (base.offset, base.len)), Some((250, 50)));
    bytes.mark_lost(250);
    assert_eq!(bytes.acknowledge(260, |_| false, |_| {}).bytes, 10);
    assert_eq!(bytes.first_lost().map(|s| s.offset), Some(260));
    bytes.check();
    let packets = board(Numbering::Packets, epoch(), 3);
    assert_eq!((packets.snd_nxt(), packets.span(100)), (3, 1));
}

#[test]
fn fates_move_between_counts() {
    let mut board = board(Numbering::Bytes, epoch(), 6);
    let mut told = Vec::new();
    assert_eq!(
        board.sack(&(300..520), |run| told.push(run.first().offset)),
        200,
        "a block's last half does not count"
    );
    assert_eq!(told, [300, 400]);
    assert_eq!(board.sack(&(300..500), |_| panic!("told before")), 0);
    assert_eq!((board.mark_lost(0), board.mark_lost(100), board.mark_lost(300)), (100, 100, 0));
    assert_eq!((board.in_flight(), board.sacked(), board.outstanding()), (200, 200, 600));
    assert_eq!(board.first_lost().map(|s| s.offset), Some(0));
    board.resend(epoch(), 0, 9);
    assert_eq!((board.in_flight(), board.first_lost().map(|s| s.offset)), (300, Some(100)));
    let mut delivered = 0;
    assert_eq!(board.acknowledge(600, |_| false, |run| delivered += run.bytes()).bytes, 400);
    assert_eq!((delivered, board.in_flight(), board.sacked(), board.is_empty()), (400, 0, 0, true));
    board.check();
}

#[test]
fn recut_segment_keeps_history() {
    let mut board = board(Numbering::Bytes, epoch(), 2);
    board.mark_lost(0);
    board.recut(0, 40);
    let pieces: Vec<_> = board.segments().map(|s| (s.offset, s.len, s.fate)).collect();
    let lost = Fate::Lost;
    assert_eq!(pieces, [(0, 40, lost), (40, 40, lost), (80, 20, lost), (100, 100, Fate::InFlight)]);
    board.resend(epoch(), 40, 7);
    assert_eq!(board.in_flight(), 140);
    board.check();
}
