//! RTT samples, timer, and retransmissions.

use super::*;

#[test]
fn rto_follows_the_samples_of_whole_transfers() {
    // Sample in ms and the RTO in us after it, worked by hand: est first, then dev against the new
    // est, dev counted as 10 ms at least. The first is the handshake.
    let constant = [
        (100, 300_000),
        (100, 250_000),
        (100, 212_500),
        (100, 184_375),
        (100, 163_281),
        (100, 147_461),
        (100, 140_000),
        (100, 140_000),
    ];
    let step = [(100, 300_000), (100, 250_000), (100, 212_500), (100, 184_375), (300, 363_281)];
    let fall = [(300, 900_000), (20, 960_000), (20, 970_000)];
    let tiny = [(1, 3_000), (1, 41_000), (2, 41_125)];
    for table in [&constant[..], &step, &fall, &tiny] {
        let mut now = table[0].0;
        let mut script = Script::connected(config(1), now, 1);
        script.write(table.len() * PAYLOAD);
        for (i, &(sample, expected)) in table.iter().enumerate() {
            if i > 0 {
                script.sent();
                now += sample;
                script.at(now).recv(&ack(i as u64, 1));
            }
            let rto = u64::try_from(script.rto().as_micros()).unwrap();
            assert!(rto.abs_diff(expected) <= 1, "sample {i} of {table:?}: {rto} us");
        }
        assert_eq!(script.stats().timeouts, 0, "{table:?}");
    }
}

#[test]
fn sample_comes_from_last_covered_packet() {
    let mut script = Script::flowing(4, 1);
    script.sent();
    script.at(130).write(PAYLOAD).sent();
    script.at(150).write(PAYLOAD).sent();
    script.at(210).recv(&ack(2, 4));
    // 80 ms, from packet 1 sent at 130.
    assert_eq!(script.stats().srtt, Some(Duration::from_micros(97_500)));
}

#[test]
fn resent_base_gives_no_sample() {
    let mut script = Script::flowing(4, 8);
    assert_eq!(script.data(), [0, 1, 2, 3]);
    assert_eq!(script.expire(), ms(400));
    assert_eq!(script.data(), [0]);
    script.at(410).recv(&ack(3, 4));
    assert_eq!((script.rto(), script.stats().srtt), (ms(300), Some(ms(100))), "Karn");
    assert_eq!(script.timer(), Some(ms(710)), "the base moved");
    assert_eq!(script.data(), [4, 5, 6]);
    // Packet 3 was sent once, at 100, so it gives a sample although its ACK took long.
    script.at(420).recv(&ack(4, 4));
    assert_eq!(script.stats().srtt, Some(Duration::from_micros(127_500)));
}

#[test]
fn no_sample_is_taken_after_a_fast_retransmission() {
    let mut script = Script::flowing(4, 4);
    script.sent();
    script.at(200).recv(&ack(0, 4)).recv(&ack(0, 4)).recv(&ack(0, 4));
    assert_eq!(script.data(), [0]);
    script.at(220).recv(&ack(4, 4));
    assert_eq!((script.rto(), script.stats().srtt), (ms(300), Some(ms(100))));
}

#[test]
fn timer_starts_with_first_packet_in_flight() {
    let mut script = Script::flowing(4, 0);
    assert_eq!(script.timer(), None, "nothing is in flight");
    script.at(5000).write(PAYLOAD).sent();
    assert_eq!(script.timer(), Some(ms(5300)));
    script.at(5050).write(PAYLOAD).sent();
    assert_eq!(script.timer(), Some(ms(5300)), "the window was not empty");
}

#[test]
fn timer_restarts_when_base_moves() {
    let mut script = Script::flowing(4, 3);
    script.sent();
    script.at(200).recv(&ack(1, 4));
    assert_eq!((script.rto(), script.timer()), (ms(250), Some(ms(450))));
    script.at(210).recv(&ack(3, 4));
    assert_eq!(script.timer(), None, "nothing is in flight any more");
    let rto = script.rto();
    script.at(1000).write(PAYLOAD).sent();
    assert_eq!(script.timer(), Some(ms(1000) + rto));
}

#[test]
fn timer_restarts_with_retransmission_not_duplicate_ack() {
    let mut script = Script::flowing(4, 4);
    script.sent();
    script.at(200).recv(&ack(0, 4)).recv(&ack(0, 4)).sent();
    assert_eq!(script.timer(), Some(ms(400)));
    script.at(210).recv(&ack(0, 4)).sent();
    assert_eq!(script.timer(), Some(ms(510)), "fast retransmission");
    script.at(300).recv(&ack(0, 4)).sent();
    assert_eq!(script.timer(), Some(ms(510)));
    script.at(520).sent();
    assert_eq!(script.timer(), Some(ms(820)), "timeout, counted from when the packet left");
}

#[test]
fn timer_does_not_fire_early() {
    let mut script = Script::flowing(4, 4);
    script.sent();
    assert_eq!(script.at(399).sent(), []);
    assert_eq!(script.at(400).sent(), [Sent::Data(0)]);
    assert_eq!(script.at(400).sent(), [], "and only once");
}

#[test]
fn timeout_resends_the_base_only() {
    let mut script = Script::flowing(10, 30);
    assert_eq!(script.data().len(), 10);
    for n in 1..=5 {
        script.expire();
        assert_eq!(script.data(), [0]);
        assert_eq!((script.stats().timeouts, script.stats().fast_retransmits), (n, 0));
    }
    script.recv(&ack(7, 10));
    assert_eq!(script.data(), (10..17).collect::<Vec<_>>(), "what was sent before is not sent again");
    script.expire();
    assert_eq!(script.data(), [7]);
}

#[test]
fn fast_retransmission_comes_with_exactly_the_third_duplicate() {
    let mut script = Script::flowing(8, 20);
    script.sent();
    script.at(200).recv(&ack(2, 8)).sent();
    for n in 1..=6_u64 {
        script.at(200 + n).recv(&ack(2, 8));
        let expected: &[u64] = if n == 3 { &[2] } else { &[] };
        assert_eq!(script.data(), expected, "duplicate {n}");
    }
    assert_eq!((script.stats().fast_retransmits, script.stats().dup_acks), (1, 6));
}

#[test]
fn ninety_nine_duplicates_give_one_fast_retransmission() {
    let mut script = Script::flowing(100, 100);
    script.sent();
    script.at(200);
    let mut resent = Vec::new();
    for _ in 0..99 {
        script.recv(&ack(0, 100));
        resent.extend(script.data());
    }
    assert_eq!(resent, [0]);
    assert_eq!((script.stats().fast_retransmits, script.stats().timeouts), (1, 0));
}

#[test]
fn duplicates_that_arrive_in_one_turn_count_too() {
    let mut script = Script::flowing(100, 100);
    script.sent();
    script.at(200);
    for _ in 0..99 {
        script.recv(&ack(0, 100));
    }
    assert_eq!(script.data(), [0]);
}

#[test]
fn each_base_has_its_own_count_of_duplicates() {
    let mut script = Script::flowing(8, 20);
    script.sent();
    script.at(200).recv(&ack(0, 8)).recv(&ack(0, 8)).recv(&ack(1, 8)).recv(&ack(1, 8)).recv(&ack(1, 8));
    assert_eq!(script.data(), [8], "two and two are not three");
    script.recv(&ack(1, 8));
    assert_eq!(script.data(), [1]);
    script.recv(&ack(5, 8)).sent();
    script.recv(&ack(5, 8)).recv(&ack(5, 8)).recv(&ack(5, 8));
    assert_eq!(script.data(), [5]);
    assert_eq!(script.stats().fast_retransmits, 2);
}

#[test]
fn repeated_acks_with_nothing_outstanding_are_no_duplicates() {
    let mut script = Script::flowing(8, 2);
    script.sent();
    script.at(200).recv(&ack(2, 8));
    for _ in 0..5 {
        script.recv(&ack(2, 8));
    }
    assert_eq!(script.stats().dup_acks, 0);
    script.write(PAYLOAD).sent();
    script.recv(&ack(2, 8)).recv(&ack(2, 8));
    assert_eq!(script.sent(), []);
    script.recv(&ack(2, 8));
    assert_eq!(script.data(), [2]);
}

#[test]
fn packet_times_out_after_fifty_attempts() {
    let mut script = Script::flowing(4, 4);
    assert_eq!(script.data(), [0, 1, 2, 3]);
    script.at(200).recv(&ack(0, 4)).recv(&ack(0, 4)).recv(&ack(0, 4));
    assert_eq!(script.data(), [0]);
    let mut resent_at = vec![ms(200)];
    loop {
        let time = script.expire();
        if script.data() != [0] {
            break;
        }
        resent_at.push(time);
    }
    assert_eq!(resent_at.len(), 49);
    assert!(resent_at.is_sorted_by(|a, b| *b == *a + ms(300)), "{resent_at:?}");
    assert_eq!((script.stats().fast_retransmits, script.stats().timeouts), (1, 48));
    assert_eq!(script.events(), [timeout(Phase::Send, 0, 50)]);
    assert_eq!(script.now - script.epoch, ms(200 + 49 * 300));
    script.recv(&ack(4, 4));
    assert_eq!((script.sent(), script.timer(), script.events()), (vec![], None, vec![]), "it is over");
}

#[test]
fn duplicates_respect_attempt_limit() {
    let attempts = Attempts { data: 2, ..Attempts::default() };
    let mut script = Script::connected(SenderConfig { attempts, ..config(4) }, 100, 4);
    script.write(4 * PAYLOAD).sent();
    script.expire();
    assert_eq!(script.data(), [0]);
    script.recv(&ack(0, 4)).recv(&ack(0, 4)).recv(&ack(0, 4));
    assert_eq!(script.data(), []);
    script.expire();
    assert_eq!(script.events(), [timeout(Phase::Send, 0, 2)]);
}

#[test]
fn attempts_are_counted_for_each_packet_alone() {
    let attempts = Attempts { data: 2, ..Attempts::default() };
    let mut script = Script::connected(SenderConfig { attempts, ..config(4) }, 100, 4);
    script.write(4 * PAYLOAD).sent();
    for seq in 0..4 {
        script.expire();
        assert_eq!(script.data(), [seq]);
        script.recv(&ack(seq + 1, 4));
    }
    assert_eq!((script.events(), script.stats().timeouts), (vec![], 4));
}

#[test]
fn an_ack_below_the_base_is_ignored() {
    let mut script = Script::flowing(4, 20);
    script.sent();
    script.at(200).recv(&ack(3, 4));
    assert_eq!(script.data(), [4, 5, 6]);
    let (timer, rto) = (script.timer(), script.rto());
    script.at(210);
    for old in [0, 1, 2, 2, 2] {
        script.recv(&ack(old, 1));
    }
    assert_eq!((script.sent(), script.timer(), script.rto()), (vec![], timer, rto));
    let stats = script.stats();
    assert_eq!((stats.snd_una, stats.window, stats.dup_acks, stats.stale), (3, 4, 0, 5));
}

#[test]
fn ack_beyond_snd_nxt_is_dropped() {
    let mut script = Script::flowing(4, 20);
    script.sent();
    script.at(200).recv(&ack(5, 1)).recv(&ack(80_000, 1)).recv(&ack((1 << 31) - 1, 1));
    let stats = script.stats();
    assert_eq!((stats.acks_beyond, stats.snd_una, stats.snd_nxt, stats.window), (3, 0, 4, 4));
    assert_eq!((script.sent(), script.timer(), script.rto()), (vec![], Some(ms(400)), ms(300)));
    script.recv(&ack(4, 4));
    assert_eq!(script.stats().snd_una, 4, "the last packet sent may be acknowledged");
}

#[test]
fn ack_after_timeout_cancels_retransmission() {
    let mut script = Script::flowing(4, 20);
    script.sent();
    script.at(400).recv(&ack(1, 4));
    assert_eq!((script.data(), script.stats().timeouts), (vec![4], 0));
    // 300 ms as a sample: est .125, dev .03750 + .04375.
    assert_eq!((script.rto(), script.timer()), (ms(450), Some(ms(850))));
}

#[test]
fn one_hole_is_repaired_for_each_timeout() {
    let mut script = Script::flowing(8, 8);
    script.sent();
    // Packets 0, 3 and 6 were lost.
    for (base, next) in [(0, 3), (3, 6), (6, 8)] {
        script.expire();
        assert_eq!(script.data(), [base]);
        script.recv(&ack(next, 8));
    }
    assert_eq!((script.stats().timeouts, script.stats().snd_una), (3, 8));
}

#[test]
fn malformed_replies_are_counted_and_dropped() {
    let mut script = Script::flowing(4, 20);
    script.sent();
    let good = [0x40, 0xaa, 0x11, 0x83, 4, 0, 0, 0, 4, 0, 0, 0];
    let with = |at: usize, value: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = value;
        bytes
    };
    let bad = [
        Vec::new(),
        good[..11].to_vec(),
        [&good[..], &[0]].concat(),
        vec![0xff; 1472],
        with(0, 0x00),
        with(0, 0x20),
        with(0, 0x41),
        with(0, 0x80),
        with(0, 0xe0),
        with(1, 0xab),
        with(2, 0x10),
        with(3, 0x84),
    ];
    for (i, bytes) in bad.iter().enumerate() {
        script.recv_bytes(bytes);
        assert_eq!(script.stats().malformed, i as u64 + 1, "{bytes:02x?}");
    }
    assert_eq!((script.sent(), script.stats().snd_una), (vec![], 0));
    script.recv_bytes(&good);
    assert_eq!(script.stats().snd_una, 4);
    assert_eq!(script.stats().datagrams_received, 1 + 12 + 1);
}

#[test]
fn classic_newreno_restores_window_after_spurious_recovery() {
    let config =
        SenderConfig { recovery: crate::LossDetection::NewReno, congestion: Algorithm::Reno, ..config(10) };
    let mut script = Script::connected(config, 100, 10);
    script.write(10 * PAYLOAD);
    assert_eq!(script.data().len(), 10);
    script.at(200);
    for _ in 0..3 {
        script.recv(&ack(0, 10));
    }
    assert_eq!((script.stats().recoveries, script.stats().window), (1, 4));
    // All packets had arrived before the retransmission was sent.
    script.recv(&ack(10, 10));
    assert_eq!((script.stats().spurious, script.stats().window), (1, 10));
}

#[test]
fn resent_bytes_are_counted() {
    let mut script = Script::flowing(4, 2);
    script.sent();
    script.expire();
    script.sent();
    script.expire();
    assert_eq!(script.data(), [0]);
    assert_eq!((script.stats().retransmitted, script.stats().retransmitted_bytes), (2, 2 * PAYLOAD as u64));
}
