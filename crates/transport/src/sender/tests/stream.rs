//! Division of bytes into packets, and of packets into batches.

use super::*;

/// Runs the whole transfer of `bytes` over a path that loses nothing, and returns the payloads.
fn transfer(config: SenderConfig, bytes: &[u8]) -> Script {
    let window = config.window;
    let mut script = Script::connected(config, 100, window);
    let mut rest = bytes;
    let mut now = 100;
    loop {
        rest = &rest[script.sender.write(rest).unwrap()..];
        if rest.is_empty() {
            script.finish();
        }
        let sent = script.sent();
        if let [Sent::Fin(seq)] = sent[..] {
            script.recv(&fin_ack(seq, crc32fast::hash(&script.payloads.concat())));
            return script;
        }
        assert!(!sent.is_empty(), "stuck at packet {}", script.payloads.len());
        now += 10;
        let all = ack(script.payloads.len() as u64, window);
        script.at(now).recv(&all);
    }
}

fn lengths(script: &Script) -> Vec<usize> {
    script.payloads.iter().map(Vec::len).collect()
}

#[test]
fn stream_is_cut_into_full_packets() {
    let cases: [(usize, &[usize]); 7] = [
        (0, &[]),
        (1, &[1]),
        (99, &[99]),
        (100, &[100]),
        (101, &[100, 1]),
        (300, &[100, 100, 100]),
        (350, &[100, 100, 100, 50]),
    ];
    for (bytes, expected) in cases {
        let script = transfer(config(4), &pattern(0, bytes));
        assert_eq!(lengths(&script), expected, "{bytes} bytes");
    }
}

#[test]
fn dword_arrays_match_course_counts_and_checksums() {
    // Power, packets, bytes in the last one, CRC-32.
    let table = [
        (0, 1, 4, 0x2144_DF1C),
        (1, 1, 8, 0xDD9E_B80C),
        (4, 1, 64, 0xE189_7CC9),
        (8, 1, 1024, 0xF0E3_59BB),
        (9, 2, 584, 0x6FEC_A6E2),
        (10, 3, 1168, 0xF15F_689B),
        (11, 6, 872, 0xAC20_00C7),
        (14, 45, 1120, 0xFC19_A074),
        (15, 90, 776, 0xFC69_4CF3),
        (17, 359, 176, 0xAADE_9921),
        (20, 2865, 1408, 0x05B0_360D),
    ];
    for (power, packets, last, crc) in table {
        let bytes: Vec<u8> = (0..1_u32 << power).flat_map(u32::to_le_bytes).collect();
        let mut script = transfer(SenderConfig::new(100, LINK), &bytes);
        let lengths = lengths(&script);
        assert_eq!((lengths.len(), lengths[lengths.len() - 1]), (packets, last), "2^{power}");
        assert!(lengths[..packets - 1].iter().all(|len| *len == 1464), "2^{power}");
        assert_eq!((script.stats().crc, script.stats().bytes_acked), (crc, bytes.len() as u64), "2^{power}");
        assert_eq!(script.events(), [SenderEvent::Finished { crc }], "2^{power}");
    }
}

#[test]
fn packets_of_every_size_carry_stream() {
    for (packet_size, bytes) in [(9, 1000), (10, 1001), (108, 250_000), (1472, 500_000), (65_507, 500_000)] {
        let written = pattern(0, bytes);
        let script = transfer(SenderConfig { packet_size, ..config(7) }, &written);
        assert!(script.payloads.concat() == written, "packets of {packet_size} bytes");
        assert_eq!(script.payloads.len(), bytes.div_ceil(packet_size - 8));
        assert_eq!(script.stats().crc, crc32fast::hash(&written));
    }
}

#[test]
fn header_is_magic_and_number() {
    let mut script = Script::flowing(3, 2);
    let datagrams = script.datagrams();
    assert_eq!(datagrams[0][..8], [0, 0xaa, 0x11, 0x83, 0, 0, 0, 0]);
    assert_eq!(datagrams[1][..8], [0, 0xaa, 0x11, 0x83, 1, 0, 0, 0]);
    assert_eq!(datagrams[1][8..], pattern(PAYLOAD, PAYLOAD));
}

#[test]
fn partial_packet_waits_for_finish() {
    let mut script = Script::flowing(4, 0);
    script.write(250);
    assert_eq!(script.data(), [0, 1]);
    assert_eq!(script.at(350).data(), []);
    script.finish();
    assert_eq!((script.data(), script.payloads[2].len()), (vec![2], 50));
}

#[test]
fn short_packet_waits_for_earlier_short_packet() {
    let mut script = Script::flowing(4, 0);
    script.write(30);
    assert_eq!(script.data(), []);
    script.sender.push();
    assert_eq!((script.data(), script.payloads[0].len()), (vec![0], 30));
    script.write(20).sender.push();
    assert_eq!(script.data(), [], "packet 0 is short and in flight");
    script.write(20).sender.push();
    script.at(200).recv(&ack(1, 4));
    assert_eq!((script.data(), script.payloads[1].len()), (vec![1], 40), "both pushes in one packet");
}

#[test]
fn pushed_bytes_leave_despite_later_writes() {
    let mut script = Script::flowing(4, 0);
    script.write(30).sender.push();
    script.write(5);
    assert_eq!(script.data(), [0]);
    assert!(script.payloads[0].len() >= 30);
}

#[test]
fn short_packet_follows_full_packets_at_once() {
    let mut script = Script::flowing(8, 0);
    script.write(230).sender.push();
    assert_eq!((script.data(), script.payloads[2].len()), (vec![0, 1, 2], 30));
    script.write(210).sender.push();
    assert_eq!(script.data(), [3, 4], "10 bytes wait for packet 2");
    script.at(200).recv(&ack(2, 8));
    assert_eq!(script.data(), [], "packet 2 is not acknowledged yet");
    script.at(250).recv(&ack(3, 8));
    assert_eq!((script.data(), script.payloads[5].len()), (vec![5], 10), "despite packets 3 and 4");
    script.at(300).recv(&ack(6, 8)).sender.push();
    assert_eq!(script.data(), [], "there is nothing to push");
}

#[test]
fn wants_data_while_only_bytes_are_missing() {
    let mut script = Script::new(config(2));
    assert!(!script.sender.wants_data(), "while opening");
    script.sent();
    script.at(100).recv(&syn_ack(2));
    assert!(script.sender.wants_data());
    script.write(PAYLOAD);
    assert!(!script.sender.wants_data(), "a packet is ready");
    script.sent();
    assert!(script.sender.wants_data());
    script.write(PAYLOAD).sent();
    assert!(!script.sender.wants_data(), "the window is full");
    script.recv(&ack(1, 2));
    assert!(script.sender.wants_data());
    script.finish();
    assert!(!script.sender.wants_data(), "no more will come");
}

#[test]
fn write_stops_at_lookahead_until_packets_leave() {
    let mut script = Script::flowing(4, 0);
    let taken = script.sender.write(&vec![7; 10_000_000]).unwrap();
    assert!((2 * PAYLOAD..1_000_000).contains(&taken), "{taken} bytes");
    assert_eq!(script.sender.write(b"x"), Ok(0));
    assert!(script.sender.spare().unwrap().is_empty());
    let (mut sent, mut acked) = (taken, 0);
    while sent == taken {
        acked += script.data().len() as u64;
        assert!(acked < 10_000, "the buffer stays full");
        script.recv(&ack(acked, 4));
        sent += script.sender.write(b"x").unwrap();
    }
    assert_eq!(script.stats().bytes_written, taken as u64 + 1);
}

#[test]
fn spare_and_advance_equal_write() {
    let mut script = Script::flowing(4, 0);
    let written = pattern(0, 300);
    let mut rest = &written[..];
    while !rest.is_empty() {
        let n = script.sender.spare().unwrap().copy_from(&rest[..rest.len().min(77)]);
        script.sender.advance(n);
        rest = &rest[n..];
    }
    assert_eq!(script.data(), [0, 1, 2]);
    assert_eq!(script.payloads.concat(), written);
}

#[test]
fn nothing_can_be_written_after_finish() {
    let mut script = Script::flowing(4, 1);
    script.finish();
    assert_eq!(script.sender.write(b"more"), Ok(0));
    assert_eq!(script.data(), [0]);
    script.recv(&ack(1, 4));
    assert_eq!(script.sent(), [Sent::Fin(1)]);
}

#[test]
fn batch_has_equal_datagrams() {
    let mut script = Script::flowing(40, 30);
    script.write(60).finish();
    assert_eq!(script.sender.poll_transmit(script.now, &mut script.batch), Some(()));
    let lengths: Vec<_> = script.batch.datagrams().map(<[u8]>::len).collect();
    assert_eq!(lengths, [vec![108; 30], vec![68]].concat());
    script.batch.clear();
    assert_eq!(script.sender.poll_transmit(script.now, &mut script.batch), None);
    assert!(script.batch.is_empty());
}

#[test]
fn full_batch_leaves_rest_for_next() {
    let mut script = Script::flowing(40, 10);
    script.batch.set_max_segments(4);
    let mut sizes = Vec::new();
    loop {
        script.batch.clear();
        if script.sender.poll_transmit(script.now, &mut script.batch).is_none() {
            break;
        }
        sizes.push(script.batch.segments());
    }
    assert_eq!(sizes, [4, 4, 2]);
    assert_eq!((script.stats().snd_nxt, script.stats().datagrams_sent), (10, 11));
}

#[test]
fn a_batch_without_room_loses_nothing() {
    let mut script = Script::flowing(4, 2);
    script.batch.set_max_segments(1);
    script.batch.slot(5).unwrap();
    assert_eq!(script.sender.poll_transmit(script.now, &mut script.batch), None);
    assert_eq!((script.batch.segments(), script.stats().snd_nxt, script.timer()), (1, 0, None));
    assert_eq!(script.data(), [0, 1]);
}

#[test]
fn resent_short_base_ends_its_batch() {
    let mut script = Script::flowing(4, 0);
    script.write(30).sender.push();
    assert_eq!(script.data(), [0]);
    script.at(400).write(2 * PAYLOAD);
    assert_eq!(script.data(), [0, 1, 2]);
    assert_eq!(script.payloads[1].len(), PAYLOAD);
}

#[test]
fn elapsed_spans_first_data_to_last_ack() {
    let mut script = Script::flowing(2, 0);
    assert_eq!(script.stats().elapsed(), ms(0));
    script.at(1000).write(3 * PAYLOAD).finish().sent();
    assert_eq!(script.stats().elapsed(), ms(0), "no ACK yet");
    script.at(1100).recv(&ack(2, 2)).sent();
    script.at(1150).recv(&ack(2, 2));
    assert_eq!(script.stats().elapsed(), ms(100));
    script.at(1200).recv(&ack(3, 2)).sent();
    script.at(1300).recv(&fin_ack(3, 0));
    assert_eq!(script.stats().elapsed(), ms(200), "no SYN, no FIN");
}

#[test]
fn losses_do_not_change_the_stream() {
    let written = pattern(0, 20_050);
    let mut script = Script::connected(config(16), 100, 16);
    assert_eq!(script.sender.write(&written), Ok(written.len()));
    script.finish();
    let mut arrived = vec![false; 201];
    let mut transmissions = 0;
    'transfer: loop {
        let sent = script.sent();
        if sent.is_empty() {
            script.expire();
        }
        for sent in sent {
            transmissions += 1;
            match sent {
                Sent::Data(seq) if transmissions % 3 != 0 => {
                    arrived[usize::try_from(seq).unwrap()] = true;
                    let next = arrived.iter().position(|a| !a).unwrap_or(arrived.len());
                    if transmissions % 5 != 0 {
                        script.recv(&ack(next as u64, 16));
                    }
                }
                Sent::Fin(seq) => break 'transfer assert_eq!(seq, 201),
                _ => {}
            }
        }
    }
    assert!(script.payloads.concat() == written);
    assert_eq!(script.stats().bytes_acked, 20_050);
    assert!(script.stats().timeouts > 0 && script.stats().fast_retransmits > 0);
}

#[test]
fn spare_now_is_limited_by_windows_and_batches() {
    let room = |script: &mut Script, batches| script.sender.spare_now(batches).unwrap().len();
    let mut script = Script::connected(config(10), 100, 10);
    assert_eq!(room(&mut script, 4), 10 * PAYLOAD);
    script.write(10 * PAYLOAD);
    assert_eq!(room(&mut script, 4), 0, "it was written and not yet sent");
    assert_eq!(script.sent().len(), 10);
    assert_eq!(room(&mut script, 4), 0, "the windows are full");
    script.at(150).recv(&ack(7, 10));
    assert_eq!(room(&mut script, 4), 7 * PAYLOAD, "whole packets");
    script.write(250);
    assert_eq!(room(&mut script, 4), 7 * PAYLOAD - 250, "less what is waiting");
}

#[test]
fn unknown_batch_size_leaves_no_partial_packet() {
    let mut script = Script::connected(config(10_000), 100, 10_000);
    let room = script.sender.spare_now(1).unwrap().len();
    assert!(room > PAYLOAD && room.is_multiple_of(PAYLOAD), "{room} bytes");
}

#[test]
fn spare_now_is_empty_unless_open() {
    let mut script = Script::idle(config(10));
    assert_eq!(script.sender.spare_now(1), Err(TransferError::NotConnected));
    let mut script = Script::connected(config(10), 100, 10);
    script.sender.finish().unwrap();
    assert!(script.sender.spare_now(1).unwrap().is_empty());
}

/// Nine packets and a part of one, behind a packet in flight, as they are sent: in place, or copied
/// behind another datagram.
fn nine_packets(script: &mut Script, copied: bool) -> Vec<Vec<u8>> {
    let mss = script.sender.path.mss;
    script.write(mss).datagrams();
    script.write(9 * mss + 7);
    let mut batch = TransmitBuf::new(64);
    if copied {
        batch.slot(script.sender.config().wire.overhead() + mss).unwrap().fill(0);
    }
    script.sender.poll_transmit(script.now, &mut batch).unwrap();
    batch.datagrams().skip(usize::from(copied)).map(<[u8]>::to_vec).collect()
}

#[test]
fn zero_copy_packets_equal_copies() {
    let classic = || Script::connected(config(1000), 100, 1000);
    let native = || {
        // No larger datagram is probed.
        let config = SenderConfig { pacing: false, packet_size: 1200, ..SenderConfig::native(7) };
        native::connected_to(SenderConfig { congestion: Algorithm::Fixed(100), ..config }, Params::default())
    };
    for open in [classic as fn() -> Script, native] {
        let datagrams = [false, true].map(|copied| nine_packets(&mut open(), copied));
        assert_eq!(datagrams[0].len(), 9);
        assert_eq!(datagrams[0], datagrams[1]);
    }
}
