//! Accepted sequence numbers, reordering, and the replies.

use crate::array::array;
use crate::mode::{MODES, Mode};
use crate::raw::Raw;
use crate::wire::{MAX_WINDOW, data, fin, syn};

#[test]
fn reversed_burst_beyond_window_is_kept() {
    let bytes = array(12);
    let pieces: Vec<_> = (0..).zip(bytes.chunks(20)).collect();
    let count = u32::try_from(pieces.len()).expect("few pieces");
    assert!(count > 800, "the window stays 1 until the last piece comes");
    for mode in MODES {
        let recv = mode.start();
        let mut raw = mode.raw(&recv);
        raw.ask(&syn(0), &mode.syn_ack(0));
        for burst in pieces[1..].rchunks(100) {
            for (seq, piece) in burst.iter().rev() {
                raw.send(&data(*seq, piece));
            }
            for _ in burst {
                raw.expect(&mode.ack(0));
            }
        }
        raw.ask(&data(0, pieces[0].1), &mode.ack(count));
        raw.ask(&fin(count), &mode.fin_ack(count, &bytes));
    }
}

#[test]
fn filled_hole_advances_past_held_packets() {
    // Number of the arriving packet, and the number acknowledged by the reply.
    let script = [(0, 1), (2, 1), (4, 1), (5, 1), (1, 3), (8, 3), (3, 6), (7, 6), (6, 9), (9, 10)];
    for mode in MODES {
        let recv = mode.start();
        let mut raw = mode.raw(&recv);
        raw.ask(&syn(0), &mode.syn_ack(0));
        for (seq, expected) in script {
            raw.ask(&data(seq, &[u8::try_from(seq).expect("a digit"); 3]), &mode.ack(expected));
        }
        let payload: Vec<u8> = (0..10).flat_map(|digit| [digit; 3]).collect();
        raw.ask(&fin(10), &mode.fin_ack(10, &payload));
    }
}

#[test]
fn duplicates_are_answered_and_counted_once() {
    for mode in MODES {
        let recv = mode.start();
        let mut raw = mode.raw(&recv);
        raw.ask(&syn(0), &mode.syn_ack(0));
        for (seq, payload, expected) in [
            (0, b"one", 1),
            (0, b"one", 1),
            (0, b"ONE", 1),
            (2, b"tri", 1),
            (2, b"tri", 1),
            (2, b"TRI", 1),
            (1, b"two", 3),
            (0, b"one", 3),
            (2, b"tri", 3),
            (1, b"two", 3),
        ] {
            raw.ask(&data(seq, payload), &mode.ack(expected));
        }
        raw.ask(&fin(3), &mode.fin_ack(3, b"onetwotri"));
    }
}

#[test]
fn accepts_numbers_80000_ahead_and_behind() {
    const FIRST: u32 = 100_000;
    for mode in MODES {
        let recv = mode.start();
        let mut raw = mode.raw(&recv);
        raw.ask(&syn(FIRST), &mode.syn_ack(FIRST));
        let mut next = FIRST;
        let mut proof = |raw: &mut Raw| {
            raw.ask(&data(next, b"next"), &mode.ack(next + 1));
            next += 1;
            next
        };
        // Offset from the expected number, and whether such a packet is answered or dropped.
        let mut expected = proof(&mut raw);
        for beyond in [MAX_WINDOW, MAX_WINDOW + 1, 200_000, 1 << 31, u32::MAX - 200_000] {
            raw.send(&data(expected + beyond, b"too far ahead"));
            expected = proof(&mut raw);
        }
        for behind in [MAX_WINDOW + 1, FIRST] {
            raw.send(&data(expected - behind, b"too far behind"));
            expected = proof(&mut raw);
        }
        for behind in [1, 2, 1000, MAX_WINDOW - 1, MAX_WINDOW] {
            raw.ask(&data(expected - behind, b"old"), &mode.ack(expected));
        }
        for ahead in [MAX_WINDOW - 1, 1000, 1] {
            raw.ask(&data(expected + ahead, b"ahead"), &mode.ack(expected));
        }
        raw.ask(&data(expected, b"hole"), &mode.ack(expected + 2));
    }
}

#[test]
fn number_below_zero_is_far_ahead() {
    for mode in MODES {
        let recv = mode.start();
        let mut raw = mode.raw(&recv);
        raw.ask(&syn(7), &mode.syn_ack(7));
        raw.ask(&data(0, b"old"), &mode.ack(7));
        raw.send(&data(u32::MAX, b"far ahead"));
        raw.ask(&data(7, b"next"), &mode.ack(8));
    }
}

#[test]
fn farthest_packet_is_held_until_holes_fill() {
    let mode = Mode::NoLink;
    let recv = mode.start();
    let mut raw = mode.raw(&recv);
    let last = MAX_WINDOW - 1;
    let payload: Vec<u8> = (0..MAX_WINDOW).map(|seq| seq.to_le_bytes()[0]).collect();
    raw.ask(&syn(0), &mode.syn_ack(0));
    raw.ask(&data(last, &payload[79_999..]), &mode.ack(0));
    for first in (0..last).step_by(100) {
        let burst = first..last.min(first + 100);
        for seq in burst.clone() {
            raw.send(&data(seq, &seq.to_le_bytes()[..1]));
        }
        for seq in burst {
            let expected = if seq + 1 == last { MAX_WINDOW } else { seq + 1 };
            raw.expect(&mode.ack(expected));
        }
    }
    raw.ask(&fin(MAX_WINDOW), &mode.fin_ack(MAX_WINDOW, &payload));
}
