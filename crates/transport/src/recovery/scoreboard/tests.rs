//! The scoreboard by itself.

mod model;

use std::time::Duration;

use super::*;
pub(super) use rdt_testing::epoch;

impl Scoreboard {
    /// Sets the number of the next segment.
    pub(crate) fn number_from(&mut self, number: u64) {
        self.snd_una = number;
    }

    /// Records the first transmission of the next segment.
    pub(crate) fn push(&mut self, now: Instant, len: u32, packet_number: u64) {
        self.push_run(now, len, 1, |_| packet_number);
    }
}

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
        board.sack(&(300..520), |run| told.push(run.first.offset)),
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

/// Segments of these lengths in bytes, sent together.
fn lengths(lengths: &[u32]) -> Scoreboard {
    let mut board = Scoreboard::new(Numbering::Bytes);
    for (number, len) in (0..).zip(lengths) {
        board.push(epoch(), *len, number);
    }
    board
}

/// Packet numbers and bytes of the run of the first `count` segments.
fn run(board: &Scoreboard, count: usize) -> Option<(u64, u64, u64)> {
    let run = board.plain_run(count)?;
    assert_eq!(run.count, count as u64);
    Some((*run.packet_numbers().start(), *run.packet_numbers().end(), run.bytes()))
}

#[test]
fn segments_sent_together_form_a_run() {
    let board = board(Numbering::Bytes, epoch(), 5);
    for (count, expected) in
        [(0, None), (1, Some((0, 0, 100))), (3, Some((0, 2, 300))), (5, Some((0, 4, 500))), (6, None)]
    {
        assert_eq!(run(&board, count), expected, "{count}");
    }
    assert_eq!(run(&lengths(&[100, 100, 40]), 3), Some((0, 2, 240)), "the last one may be shorter");
    assert_eq!(run(&lengths(&[100, 40, 100]), 3), None);
}

#[test]
fn resent_sacked_or_lost_segments_form_no_run() {
    let changes: [fn(&mut Scoreboard); 4] = [
        |board| board.resend(epoch(), 100, 1),
        |board| board.resend(epoch(), 400, 5),
        |board| {
            board.mark_lost(100);
        },
        |board| {
            board.sack(&(200..300), |_| {});
        },
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut board = board(Numbering::Bytes, epoch(), 5);
        change(&mut board);
        assert_eq!(run(&board, 5), None, "change {index}");
    }
    let mut gap = board(Numbering::Bytes, epoch(), 2);
    gap.push(epoch(), 100, 7);
    assert_eq!(run(&gap, 3), None, "transmission 2 carried no segment of the run");
}

#[test]
fn run_lists_its_segments() {
    let board = lengths(&[100, 100, 100, 40]);
    let run = board.plain_run(4).unwrap();
    let segments: Vec<_> = run.segments().map(|s| (s.offset, s.packet_number, s.len)).collect();
    assert_eq!(segments, [(0, 0, 100), (100, 1, 100), (200, 2, 100), (300, 3, 40)]);
}

#[test]
fn newest_below_takes_batch_of_first_or_last() {
    let (t0, t3) = (epoch(), epoch() + Duration::from_millis(30));
    let mut board = Scoreboard::new(Numbering::Bytes);
    for (number, at) in [(3, t0), (4, t0), (5, t0), (6, t3)] {
        board.push(at, 100, number);
    }
    let run = board.plain_run(4).unwrap();
    for (below, expected) in
        [(0, None), (3, None), (4, Some((3, t0))), (6, Some((5, t0))), (7, Some((6, t3))), (9, Some((6, t3)))]
    {
        assert_eq!(run.newest_below(below), expected, "{below}");
    }
    board.resend(t3, 0, 7);
    let resent = SegmentRun::single(board.base().unwrap());
    assert_eq!(resent.newest_below(9), None, "a retransmitted segment gives no sample");
}
