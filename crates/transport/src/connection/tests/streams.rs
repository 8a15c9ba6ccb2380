//! Streams both ways, their ends, and the packets that carry them.

use super::*;

const DATA: u8 = PacketKind::Data as u8;
const ACK: u8 = PacketKind::Ack as u8;
const CLOSE: u8 = PacketKind::Close as u8;

use crate::wire::native::LinkRequest;
use crate::{PacketKind, SenderConfig, WindowConfig};

#[test]
fn bytes_arrive_in_both_directions() {
    let mut pair = Pair::new(&config());
    for (from, len) in [(HERE, 300_000), (THERE, 200_000), (HERE, 1), (THERE, 1)] {
        assert_eq!(pair.transfer(from, &bytes(len)), bytes(len));
    }
    assert_eq!(rdt_crypto::reused_nonces(), 0);
}

#[test]
fn lost_and_repeated_packets_do_no_harm() {
    let mut pair = Pair::new(&config());
    let mut count = 0_u32;
    pair.filter = Box::new(move |_, _| {
        count += 1;
        !count.is_multiple_of(7)
    });
    assert_eq!(pair.transfer(HERE, &bytes(400_000)), bytes(400_000));
    assert_eq!(pair.transfer(THERE, &bytes(400_000)), bytes(400_000));
    assert_eq!(rdt_crypto::reused_nonces(), 0);
}

#[test]
fn graceful_end_tells_both_that_all_was_delivered() {
    let mut pair = Pair::new(&config());
    pair.ends[HERE].write(&bytes(5000)).unwrap();
    pair.ends[HERE].finish();
    pair.run(ms(100));
    assert!(!pair.events[HERE].contains(&ConnectionEvent::Delivered { bytes: 5000 }), "nothing was read");
    let is_finished =
        |event: &ConnectionEvent| matches!(event, ConnectionEvent::Finished { bytes: 5000, .. });
    assert!(pair.events[THERE].iter().any(is_finished));
    let mut read = Vec::new();
    pair.read(THERE, &mut read);
    assert!(pair.ends[THERE].is_read_finished());
    pair.run(ms(100));
    assert!(pair.events[HERE].contains(&ConnectionEvent::Delivered { bytes: 5000 }));
    // The other direction is still open.
    assert_eq!(pair.transfer(THERE, &bytes(9000)), bytes(9000));
    pair.ends[THERE].finish();
    pair.run(Duration::from_secs(20));
    for side in [HERE, THERE] {
        assert_eq!(pair.events[side].last(), Some(&ConnectionEvent::Closed(Closed::Finished)), "{side}");
        assert!(pair.ends[side].is_drained(pair.now));
    }
    assert_eq!((read, pair.count(HERE, CLOSE)), (bytes(5000), 0));
}

#[test]
fn lost_fin_acks_are_repeated_after_the_end() {
    let mut pair = Pair::new(&config());
    let mut lost = 0;
    pair.filter = Box::new(move |_, bytes| {
        let is_fin_ack = bytes[1] == PacketKind::FinAck as u8;
        lost += u32::from(is_fin_ack);
        !is_fin_ack || lost > 3
    });
    pair.ends[HERE].finish();
    pair.ends[THERE].finish();
    pair.run(Duration::from_secs(20));
    for side in [HERE, THERE] {
        assert_eq!(pair.ends[side].closed(), Some(&Closed::Finished));
    }
}

#[test]
fn application_confirms_after_storing() {
    let mut pair = Pair::new(&ConnectionConfig { confirm: Confirm::ByApplication, ..config() });
    pair.ends[HERE].write(b"stored").unwrap();
    pair.ends[HERE].finish();
    pair.run(Duration::from_secs(3));
    pair.read(THERE, &mut Vec::new());
    pair.run(Duration::from_secs(3));
    assert!(!pair.events[HERE].contains(&ConnectionEvent::Delivered { bytes: 6 }));
    pair.ends[THERE].confirm();
    pair.run(Duration::from_secs(1));
    assert!(pair.events[HERE].contains(&ConnectionEvent::Delivered { bytes: 6 }));
}

#[test]
fn one_way_connection_needs_one_fin() {
    let mut pair = Pair::new(&ConnectionConfig { one_way: true, ..config() });
    assert_eq!(pair.transfer(HERE, &bytes(100_000)), bytes(100_000));
    pair.ends[HERE].finish();
    pair.run(Duration::from_secs(20));
    for side in [HERE, THERE] {
        assert_eq!(pair.ends[side].closed(), Some(&Closed::Finished), "{side}");
    }
    assert_eq!(pair.count(THERE, DATA), 0, "the responder sends no keep-alive");
}

#[test]
fn write_fails_at_responder_of_one_way_connection() {
    let mut pair = Pair::new(&ConnectionConfig { one_way: true, ..config() });
    assert_eq!(pair.ends[THERE].write(b"x"), Err(Closed::OneWay));
    assert_eq!(pair.transfer(HERE, b"x"), b"x");
}

#[test]
fn answer_carries_the_ack_of_its_question() {
    let mut pair = Pair::new(&config());
    for _ in 0..20 {
        pair.transfer(HERE, b"question");
        pair.transfer(THERE, b"answer");
    }
    let acks = (pair.count(HERE, ACK), pair.count(THERE, ACK));
    let data = (pair.count(HERE, DATA), pair.count(THERE, DATA));
    assert_eq!(data, (20, 20));
    assert!(acks.0 <= 2 && acks.1 <= 2, "{acks:?}");
}

#[test]
fn close_reaches_the_peer_with_code_and_text() {
    let mut pair = Pair::new(&config());
    pair.transfer(HERE, b"x");
    let now = pair.now;
    pair.ends[HERE].close(now, 42, "too busy");
    pair.run(Duration::from_secs(10));
    let reason = CloseReason::Aborted;
    let closed = Closed::Peer { reason, code: 42, text: "too busy".into() };
    assert_eq!(pair.ends[THERE].closed(), Some(&closed));
    assert_eq!(pair.ends[HERE].closed(), Some(&Closed::Local));
    // An ACK of the peer was under way, and is answered.
    assert!(pair.count(HERE, CLOSE) <= 2);
    assert_eq!(pair.ends[HERE].write(b"x"), Err(Closed::Local));
    assert!(pair.ends.iter().all(|end| end.is_drained(pair.now)));
}

#[test]
fn lost_close_is_repeated_while_peer_sends() {
    let mut pair = Pair::new(&config());
    let mut closes = 0;
    pair.filter = Box::new(move |_, bytes| {
        closes += u32::from(bytes[1] == CLOSE);
        bytes[1] != CLOSE || closes > 2
    });
    let now = pair.now;
    pair.ends[HERE].close(now, 1, "");
    pair.ends[THERE].write(&bytes(50_000)).unwrap();
    pair.run(Duration::from_secs(10));
    assert!(matches!(pair.ends[THERE].closed(), Some(Closed::Peer { code: 1, .. })));
}

#[test]
fn silent_peer_ends_the_connection() {
    let mut pair = Pair::new(&ConnectionConfig { idle_timeout: Duration::from_secs(30), ..config() });
    pair.transfer(HERE, b"x");
    pair.run(Duration::from_secs(600));
    assert_eq!(pair.ends[HERE].closed(), None, "keep-alives hold it");
    let before = pair.now;
    pair.filter = Box::new(|_, _| false);
    pair.run(Duration::from_secs(600));
    for end in &pair.ends {
        assert_eq!(end.closed(), Some(&Closed::Idle));
    }
    assert!(pair.now - before < Duration::from_secs(41));
}

#[test]
fn blocked_writer_hears_of_room() {
    let mut pair = Pair::new(&config());
    let (mut written, data) = (0, bytes(3_000_000));
    while written < data.len() {
        let n = pair.ends[HERE].write(&data[written..]).unwrap();
        written += n;
        if n == 0 {
            pair.events[HERE].clear();
            while !pair.events[HERE].contains(&ConnectionEvent::Writable) {
                let end = pair.now + Duration::from_secs(1);
                assert!(pair.step(end), "no room after {written} bytes");
                pair.read(THERE, &mut Vec::new());
            }
        }
    }
}

/// A receive window that many connections share holds about a batch. What the application writes
/// for it leaves at once, as one batch.
#[test]
fn small_window_is_written_as_it_opens() {
    let mut reader = config();
    reader.receiver.stream_window = WindowConfig::new(32 * 1432, 1432);
    let mut pair = Pair::of([&config(), &reader]);
    pair.transfer(HERE, &bytes(1_000_000));
    let (mut batches, end) = (0, pair.now + Duration::from_secs(60));
    while batches < 50 {
        let written = pair.ends[HERE].write(&bytes(100_000)).unwrap();
        pair.batch.clear();
        let now = pair.now;
        if written > 0 && pair.ends[HERE].poll_transmit(now, &mut pair.batch) != Output::Nothing {
            assert_eq!(pair.batch.segments() * 1432, written, "batch {batches}");
            batches += 1;
            pair.send_batch(HERE);
        }
        pair.read(THERE, &mut Vec::new());
        assert!(pair.step(end), "{batches} batches");
    }
}

#[test]
fn path_probe_is_answered() {
    let mut pair = Pair::new(&config());
    pair.batch.clear();
    assert!(pair.ends[HERE].poll_path_probe(77, &mut pair.batch));
    let mut probe = pair.batch.datagrams().next().unwrap().to_vec();
    let now = pair.now;
    let arrival = pair.ends[THERE].handle_run(now, Ecn::NotEct, &mut probe, 1500, 1 << 30);
    assert_eq!(arrival.authentic, probe.len());
    pair.batch.clear();
    assert_ne!(pair.ends[THERE].poll_transmit(now, &mut pair.batch), Output::Nothing);
    let mut answers = pair.batch.datagrams().next().unwrap().to_vec();
    let stride = answers.len();
    // The answer to a probe of the quiet path follows in the same coalesced message.
    let mut other = vec![0; native::PATH_LEN];
    pair.ends[THERE].streams_mut().unwrap().sealing.seal(&mut other, |header, packet| {
        native::encode_path(header, &native::Probe { is_response: true, random: 0 }, packet);
    });
    answers.append(&mut other);
    let arrival = pair.ends[HERE].handle_run(now, Ecn::NotEct, &mut answers, stride, 1 << 30);
    assert_eq!((arrival.authentic, arrival.path_answer), (2 * stride, Some(77)));
}

#[test]
fn changed_path_starts_slowly_again() {
    let mut pair = Pair::new(&config());
    pair.transfer(HERE, &bytes(2_000_000));
    let now = pair.now;
    let before = pair.ends[HERE].stats().sender;
    pair.ends[HERE].on_path_changed(now);
    let after = pair.ends[HERE].stats().sender;
    assert!(after.cwnd < before.cwnd && after.packet_size <= 1200, "{} {}", after.cwnd, before.cwnd);
    assert_eq!(pair.transfer(HERE, &bytes(2_000_000)), bytes(2_000_000));
}

#[test]
fn changed_path_forgets_round_trip() {
    let mut pair = Pair::new(&config());
    pair.transfer(HERE, &bytes(100_000));
    pair.run(ms(100));
    assert!(pair.ends[HERE].stats().sender.rto < ms(500));
    pair.ends[HERE].write(b"sent on the old path").unwrap();
    pair.ends[HERE].push();
    pair.flush();
    let now = pair.now;
    pair.ends[HERE].on_path_changed(now);
    // Packets of the new path, which would give samples, are lost.
    pair.filter = Box::new(|from, _| from != HERE);
    pair.run(ms(100));
    pair.filter = Box::new(|_, _| true);
    let after = pair.ends[HERE].stats().sender;
    assert_eq!((after.srtt, after.min_rtt, after.rto), (None, None, Duration::from_secs(1)));
    pair.read(THERE, &mut Vec::new());
    pair.transfer(HERE, &bytes(100_000));
    let after = pair.ends[HERE].stats().sender;
    assert!(after.srtt.is_some_and(|srtt| srtt < ms(40)) && after.rto < ms(500), "{after:?}");
}

#[test]
fn requested_link_makes_handshake_rtt_provisional() {
    let link = LinkRequest {
        rtt_us: 300_000,
        rate_bps: 1_000_000,
        loss_forward_ppb: 0,
        loss_reverse_ppb: 0,
        queue_bytes: 20_000,
    };
    let plain = config();
    let asking = ConnectionConfig {
        sender: SenderConfig { link_request: Some(link), ..plain.sender.clone() },
        ..config()
    };
    let mut pair = Pair::of([&asking, &plain]);
    let stats = |pair: &Pair| pair.ends[HERE].stats().sender;
    assert_eq!((stats(&pair).srtt, stats(&pair).handshake_rtt), (None, Some(2 * DELAY)));
    assert!(stats(&pair).rto >= 3 * ms(310), "{:?}", stats(&pair).rto);
    pair.transfer(HERE, &bytes(1000));
    assert!(pair.ends[HERE].stats().sender.srtt.is_none_or(|srtt| srtt < 3 * DELAY));
}

#[test]
fn peer_that_never_reads_ends_connection() {
    let mut reader = config();
    reader.receiver.stream_window = WindowConfig::new(20_000, 1432);
    let mut writer = config();
    writer.sender.no_progress = Duration::from_secs(5);
    let mut pair = Pair::of([&writer, &reader]);
    let end = pair.now + Duration::from_secs(4);
    pair.ends[HERE].write(&bytes(100_000)).unwrap();
    while pair.step(end) {
        pair.ends[HERE].write(&bytes(100_000)).unwrap();
    }
    pair.run(Duration::from_secs(20));
    assert_eq!(pair.ends[HERE].closed(), Some(&Closed::NoProgress(Duration::from_secs(5))));
}

/// Returns the newest number of a DATA packet that `pair.ends[HERE]` sent.
fn newest_data(pair: &Pair) -> Option<u64> {
    let headers =
        pair.sent.iter().rev().filter(|(from, _)| *from == HERE).filter_map(|(_, bytes)| peek(bytes));
    headers.filter(|header| header.kind == PacketKind::Data).map(|header| header.number.into()).next()
}

/// A receiver that acknowledges packets before they arrive does not know which numbers are skipped
/// (RFC 9000, section 21.4).
#[test]
fn ack_of_skipped_number_ends_connection() {
    let mut pair = Pair::new(&config());
    let (data, mut written) = (bytes(2_000_000), 0);
    let end = pair.now + Duration::from_secs(60);
    let (skipped, una) = loop {
        written += pair.ends[HERE].write(&data[written..]).unwrap();
        pair.flush();
        let sender = &pair.ends[HERE].streams().unwrap().sender;
        // The batch before the skipped number is in flight.
        if newest_data(&pair).is_some_and(|newest| newest + 2 == sender.next_number()) {
            break (sender.next_number() - 1, sender.stats().snd_una);
        }
        pair.read(THERE, &mut Vec::new());
        assert!(pair.step(end), "no number of {written} bytes is skipped");
    };
    let mut packet = pair.forged_ack(THERE, skipped, una);
    let now = pair.now;
    let arrival = pair.ends[HERE].handle_run(now, Ecn::NotEct, &mut packet, 1500, 0);
    assert_eq!(arrival.authentic, packet.len());
    assert_eq!(pair.ends[HERE].closed(), Some(&Closed::InvalidAcks));
    pair.run(Duration::from_secs(1));
    let closed = pair.ends[THERE].closed();
    assert!(matches!(closed, Some(Closed::Peer { reason: CloseReason::Protocol, .. })), "{closed:?}");
}
