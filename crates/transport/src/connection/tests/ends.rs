//! Released connections, readers that pause, and peers that break the rules of ACKs.

use super::*;
use crate::PacketKind;
use crate::wire::DataHeader;
use crate::wire::native::NativeCodec;

const CLOSE: u8 = PacketKind::Close as u8;
const SECOND: Duration = Duration::from_secs(1);

/// Writes until the window of a peer that does not read is full and a packet probes it.
fn write_beyond_window(pair: &mut Pair, side: usize) {
    let mut written = 0;
    while let more @ 1.. = pair.ends[side].write(&bytes(100_000)).unwrap() {
        written += more;
        pair.run(SECOND);
    }
    assert!((20_001..23_000).contains(&written), "{written}");
}

fn release(pair: &mut Pair, side: usize) {
    let now = pair.now;
    pair.ends[side].release(now);
}

/// CLOSE of a peer without code and text.
fn aborted() -> Closed {
    Closed::Peer { reason: CloseReason::Aborted, code: 0, text: String::new() }
}

#[test]
fn writer_fails_soon_after_reader_is_dropped() {
    let mut pair = Pair::new(&config());
    pair.transfer(HERE, b"x");
    release(&mut pair, THERE);
    let end = pair.now + SECOND;
    while let Ok(written) = pair.ends[HERE].write(&[0; 1000]) {
        pair.ends[HERE].push();
        assert!(pair.step(end), "still writable after 1 s, {written}");
    }
    assert_eq!(pair.ends[HERE].closed(), Some(&aborted()));
    pair.run(15 * SECOND);
    assert!(pair.ends[THERE].is_drained(pair.now));
}

#[test]
fn unread_stream_is_not_confirmed() {
    for confirm in [Confirm::OnRead, Confirm::ByApplication] {
        for released_first in [false, true] {
            let mut pair = Pair::new(&ConnectionConfig { confirm, ..config() });
            if released_first {
                release(&mut pair, THERE);
            }
            pair.ends[HERE].write(&bytes(5000)).unwrap();
            pair.ends[HERE].finish();
            pair.run(SECOND);
            if !released_first {
                release(&mut pair, THERE);
            }
            pair.run(20 * SECOND);
            assert!(!pair.events[HERE].contains(&ConnectionEvent::Delivered { bytes: 5000 }));
            assert_eq!(pair.ends[HERE].closed(), Some(&aborted()));
        }
    }
}

#[test]
fn read_stream_ends_gracefully_after_release() {
    for len in [0, 1000] {
        let mut pair = Pair::new(&config());
        pair.transfer(HERE, &bytes(len));
        release(&mut pair, THERE);
        pair.run(SECOND);
        pair.ends[HERE].finish();
        pair.run(20 * SECOND);
        for side in [HERE, THERE] {
            assert_eq!(pair.ends[side].closed(), Some(&Closed::Finished), "{len} bytes, {side}");
        }
    }
}

#[test]
fn unconfirmed_stream_is_aborted_by_release() {
    let mut pair = Pair::new(&ConnectionConfig { confirm: Confirm::ByApplication, ..config() });
    pair.transfer(HERE, b"read, not stored");
    pair.ends[HERE].finish();
    pair.run(SECOND);
    release(&mut pair, THERE);
    pair.run(20 * SECOND);
    assert_eq!(pair.ends[HERE].closed(), Some(&aborted()));
}

#[test]
fn released_stream_arrives_before_abort() {
    let mut pair = Pair::new(&config());
    let mut lost = 0;
    pair.filter = Box::new(move |side, packet| {
        lost += u32::from(side == HERE);
        side == THERE || packet[1] == CLOSE || lost % 3 != 1
    });
    assert_eq!(pair.ends[HERE].write(&bytes(10_000)), Ok(10_000));
    assert_eq!(pair.ends[THERE].write(&bytes(10_000)), Ok(10_000));
    release(&mut pair, HERE);
    pair.run(10 * SECOND);
    let mut read = Vec::new();
    pair.read(THERE, &mut read);
    assert_eq!((read.len(), pair.ends[THERE].is_read_finished()), (10_000, true));
    assert_eq!(pair.ends[THERE].closed(), Some(&aborted()));
}

#[test]
fn released_connection_ends_though_peer_does_not() {
    let mut pair = Pair::new(&config());
    pair.transfer(HERE, b"x");
    release(&mut pair, THERE);
    pair.run(50 * SECOND);
    assert_eq!(pair.ends[THERE].closed(), None);
    pair.run(30 * SECOND);
    assert!(pair.ends[THERE].is_drained(pair.now));
    assert_eq!(pair.ends[HERE].closed(), Some(&aborted()));

    // The peer does not read, and its window holds back the rest.
    let mut small = config();
    small.receiver.stream_window = WindowConfig::new(20_000, 1432);
    let mut pair = Pair::new(&small);
    write_beyond_window(&mut pair, THERE);
    release(&mut pair, THERE);
    pair.run(290 * SECOND);
    assert_eq!(pair.ends[THERE].closed(), None);
    pair.run(30 * SECOND);
    assert_eq!(pair.ends[HERE].closed(), Some(&aborted()));
}

#[test]
fn reader_may_pause_for_an_hour() {
    let mut small = config();
    small.receiver.stream_window = WindowConfig::new(20_000, 1432);
    let mut pair = Pair::new(&small);
    write_beyond_window(&mut pair, HERE);
    pair.ends[HERE].finish();
    pair.run(3600 * SECOND);
    for end in &pair.ends {
        assert_eq!(end.closed(), None);
    }
    let mut read = Vec::new();
    let end = pair.now + 120 * SECOND;
    while !pair.ends[THERE].is_read_finished() {
        pair.read(THERE, &mut read);
        assert!(pair.step(end), "{} bytes", read.len());
    }
    assert!(read.len() > 15_000, "{}", read.len());
}

#[test]
fn lack_of_progress_is_told_to_both_sides() {
    let mut hasty = config();
    hasty.sender.no_progress = 60 * SECOND;
    hasty.receiver.stream_window = WindowConfig::new(20_000, 1432);
    let mut pair = Pair::new(&hasty);
    write_beyond_window(&mut pair, HERE);
    pair.run(300 * SECOND);
    assert_eq!(pair.ends[HERE].closed(), Some(&Closed::NoProgress(60 * SECOND)));
    assert_eq!(pair.ends[THERE].closed(), Some(&aborted()));
}

#[test]
fn invalid_acks_break_the_protocol() {
    let mut pair = Pair::new(&config());
    pair.transfer(HERE, b"x");
    for _ in 0..100 {
        let mut packet = pair.forged_ack(THERE, 1000, 1);
        let now = pair.now;
        pair.ends[HERE].handle_run(now, Ecn::NotEct, &mut packet, 1500, 1 << 30);
    }
    assert_eq!(pair.ends[HERE].closed(), Some(&Closed::InvalidAcks));
    pair.run(SECOND);
    assert!(pair.count(HERE, CLOSE) >= 1);
    let closed = Closed::Peer { reason: CloseReason::Protocol, code: 0, text: String::new() };
    assert_eq!(pair.ends[THERE].closed(), Some(&closed));
}

/// Returns a packet that `side` would not send, sealed with its keys. `seal` gets its number.
fn forged(pair: &Pair, side: usize, len: usize, seal: impl FnOnce(&NativeCodec, u64, &mut [u8])) -> Vec<u8> {
    let streams = pair.ends[side].streams().unwrap();
    let mut packet = vec![0; len];
    seal(&streams.sealing.codec(), streams.sender.next_number() + 10, &mut packet);
    packet
}

/// Delivers a forged packet to the other side, and returns how its connection ended.
fn end_after(pair: &mut Pair, to: usize, mut packet: Vec<u8>) -> Option<Closed> {
    let now = pair.now;
    let arrival = pair.ends[to].handle_run(now, Ecn::NotEct, &mut packet, 1500, 1 << 30);
    assert_eq!(arrival.authentic, packet.len());
    pair.ends[to].closed().cloned()
}

#[test]
fn second_fin_with_other_length_ends_connection() {
    for (length, is_broken) in [(100, false), (101, true)] {
        let mut pair = Pair::new(&config());
        pair.ends[THERE].write(&bytes(100)).unwrap();
        pair.ends[THERE].finish();
        pair.run(SECOND);
        assert_eq!(pair.ends[HERE].closed(), None);
        let fin = forged(&pair, THERE, native::FIN_LEN, |codec, number, out| {
            codec.seal_fin(number, length, out);
        });
        let closed = end_after(&mut pair, HERE, fin);
        assert_eq!(matches!(closed, Some(Closed::ProtocolBroken(_))), is_broken, "{length}: {closed:?}");
    }
}

/// Data makes a run, an empty packet does not.
#[test]
fn data_of_absent_stream_ends_connection() {
    for payload in [0, 10] {
        let mut pair = Pair::new(&ConnectionConfig { one_way: true, ..config() });
        pair.transfer(HERE, b"x");
        let len = native::DATA_HEADER + payload + native::TAG;
        let data = forged(&pair, THERE, len, |codec, packet_number, out| {
            let data = DataHeader { seq: 0, packet_number, ack_now: false, ack_every: 0 };
            codec.seal_data(&data, out);
        });
        let closed = end_after(&mut pair, HERE, data);
        assert!(matches!(closed, Some(Closed::ProtocolBroken(_))), "{payload} bytes: {closed:?}");
    }
}
