//! Limit of the data beyond the base.

use super::native::MSS;
use super::*;
use crate::LossDetection;
use crate::wire::native::Ack as Answer;

#[test]
fn effective_window_is_the_smaller() {
    for (own, offered, expected) in [(1, 1, 1), (10, 1, 1), (10, 10, 10), (3, 80_000, 3), (7, u32::MAX, 7)] {
        let mut script = Script::connected(config(own), 100, offered);
        script.write(50 * PAYLOAD);
        assert_eq!(script.data().len(), expected, "W {own}, offered {offered}");
        assert_eq!(script.stats().window as usize, expected);
    }
}

#[test]
fn next_number_runs_up_to_base_plus_window() {
    let mut script = Script::flowing(5, 50);
    assert_eq!(script.data(), [0, 1, 2, 3, 4]);
    script.recv(&ack(1, 5));
    assert_eq!(script.data(), [5]);
    script.recv(&ack(4, 5));
    assert_eq!(script.data(), [6, 7, 8]);
    let stats = script.stats();
    assert_eq!((stats.snd_una, stats.snd_nxt, stats.window), (4, 9, 5));
}

#[test]
fn growing_window_doubles_flight_each_round() {
    let mut script = Script::connected(config(64), 100, 1);
    script.write(200 * PAYLOAD);
    let (mut now, mut acked, mut flights) = (100, 0_u64, Vec::new());
    for _ in 0..7 {
        let flight = script.data().len() as u64;
        flights.push(flight);
        now += 100;
        script.at(now);
        for _ in 0..flight {
            acked += 1;
            script.recv(&ack(acked, u32::try_from(acked).unwrap()));
        }
    }
    // One packet, then a window of 1 at ACK 1, 2 at ACK 2, n at ACK n.
    assert_eq!(flights, [1, 1, 2, 4, 8, 16, 32]);
    assert_eq!(script.stats().timeouts, 0);
}

#[test]
fn shrunken_window_stops_new_packets_only() {
    let mut script = Script::flowing(100, 300);
    assert_eq!(script.data().len(), 100);
    script.recv(&ack(1, 5));
    assert_eq!((script.sent(), script.stats().window), (vec![], 5));
    for acked in 2..=95 {
        script.recv(&ack(acked, 5));
        assert_eq!(script.sent(), [], "ACK {acked}: {} in flight", 100 - acked);
    }
    script.recv(&ack(96, 5));
    assert_eq!(script.data(), [100]);
    script.recv(&ack(101, 5));
    assert_eq!(script.data(), [101, 102, 103, 104, 105]);
    script.recv(&ack(106, 100));
    assert_eq!(script.data(), (106..206).collect::<Vec<_>>(), "and it opens again");
}

#[test]
fn base_is_resent_beyond_shrunken_window() {
    let mut script = Script::flowing(100, 300);
    script.sent();
    script.at(200).recv(&ack(50, 5)).recv(&ack(50, 5)).recv(&ack(50, 5)).recv(&ack(50, 5));
    assert_eq!(script.data(), [50]);
    script.expire();
    assert_eq!(script.data(), [50]);
}

#[test]
fn zero_window_is_probed_with_one_packet() {
    let mut script = Script::connected(config(8), 100, 0);
    script.write(20 * PAYLOAD);
    assert_eq!(script.data(), [0], "after the handshake");
    assert_eq!(script.timer(), Some(ms(400)));
    script.expire();
    assert_eq!(script.data(), [0], "at the pace of the timer");
    script.at(500).recv(&ack(1, 0));
    assert_eq!(script.data(), [1], "after an ACK");
    script.recv(&ack(1, 4));
    assert_eq!(script.data(), [2, 3, 4], "a window may open without the base moving");
    script.recv(&ack(5, 8));
    assert_eq!(script.data().len(), 8);
}

#[test]
fn answering_receiver_without_room_is_kept() {
    let mut script = Script::connected(config(8), 100, 0);
    script.write(20 * PAYLOAD);
    assert_eq!(script.data(), [0]);
    for _ in 0..500 {
        script.expire();
        assert_eq!(script.data(), [0]);
        script.recv(&ack(0, 0));
        script.data();
    }
    assert_eq!(script.events(), []);
    let silent_from = script.timer();
    while script.timer().is_some() {
        script.expire();
        script.data();
    }
    assert!(silent_from.is_some());
    assert_eq!(script.events(), [timeout(Phase::Send, 0, 50)], "one that does not is");
}

#[test]
fn late_ack_does_not_change_window() {
    let mut script = Script::flowing(8, 40);
    script.sent();
    script.recv(&ack(4, 4));
    assert_eq!((script.sent(), script.stats().window), (vec![], 4));
    script.recv(&ack(3, 8));
    assert_eq!((script.sent(), script.stats().window), (vec![], 4));
}

/// A native transfer with a hole at segment 4, in which only echoes distinguish two ACKs.
fn with_a_hole(rule: LossDetection) -> Script {
    let mut script = native::connected_by(rule, Algorithm::Fixed(10));
    script.write(40 * PAYLOAD);
    assert_eq!(native::leaving(&mut script).len(), 10);
    script.at(200);
    native::ack_with_window(&mut script, 3, 4, &[], 8 * MSS);
    script
}

#[test]
fn overtaken_ack_does_not_change_window() {
    for rule in [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly] {
        let mut script = with_a_hole(rule);
        native::ack_with_window(&mut script, 6, 4, &[(5, 7)], 6 * MSS);
        assert_eq!(script.stats().window, 6, "{rule}");
        for (late, window) in [(5, 1), (5, 9)] {
            native::ack_with_window(&mut script, late, 4, &[(5, 6)], window * MSS);
            assert_eq!(script.stats().window, 6, "{rule}");
        }
        native::ack_with_window(&mut script, 7, 4, &[(5, 8)], 5 * MSS);
        assert_eq!(script.stats().window, 5, "{rule}: a newer one may take back what was offered");
        native::ack_with_window(&mut script, 5, 5, &[], 7 * MSS);
        assert_eq!(script.stats().window, 7, "{rule}: nothing is newer than one that moves the edge");
    }
}

#[test]
fn longer_echo_delay_means_newer_ack() {
    let mut script = with_a_hole(LossDetection::Rack);
    let mut tell = |echo_delay_us, packets: u64| {
        let ack = Answer { ack: 4 * MSS, window: packets * MSS, echo_delay_us, ..native::answer_to(3) };
        native::recv_ack(&mut script, &ack, &[]);
        script.stats().window
    };
    // The application reads, and the window opens without another packet.
    assert_eq!((tell(9000, 9), tell(5000, 2), tell(9000, 3), tell(u32::MAX, 8)), (9, 9, 3, 8));
}

#[test]
fn ack_of_unsent_does_not_change_window() {
    let mut script = with_a_hole(LossDetection::Rack);
    native::ack_with_window(&mut script, 1000, 4, &[], 2 * MSS);
    assert_eq!(script.stats().window, 8);
    native::ack_with_window(&mut script, 4, 4, &[], 3 * MSS);
    assert_eq!(script.stats().window, 3);
}

#[test]
fn what_is_written_ahead_fills_whole_batches() {
    let mut script = Script::connected(config(8192), 100, 80_000);
    // After the first batch, the sender knows how much fits one.
    for round in 0..3 {
        loop {
            let spare = script.sender.spare().unwrap().len();
            if spare == 0 {
                break;
            }
            script.sender.advance(spare);
        }
        let mut batch = TransmitBuf::new(64);
        let mut sizes = Vec::new();
        while script.sender.poll_transmit(script.now, &mut batch).is_some() {
            sizes.push(batch.segments());
            batch.clear();
        }
        let (last, full) = sizes.split_last().unwrap();
        assert!(full.iter().all(|segments| *segments == 64), "round {round}: {sizes:?}");
        assert!(round == 0 || *last == 64, "round {round}: {sizes:?}");
    }
}

#[test]
fn small_segments_respect_memory_limit() {
    let config = SenderConfig { pacing: false, memory_limit: 1 << 20, ..SenderConfig::native(7) };
    let config = SenderConfig { window: config.largest_window(), ..config };
    let congestion = Algorithm::Fixed(u32::MAX);
    let params = Params { max_datagram: 548, ..Params::default() };
    let script = native::connected_to(SenderConfig { congestion, ..config }, params);
    let (cwnd, mss) = (script.sender.congestion.cwnd, script.sender.path.mss);
    let record = size_of::<Segment>() as u64;
    let records = cwnd / mss as u64 * record;
    assert!(cwnd + records <= 1 << 20 && cwnd + records > 1_000_000, "{cwnd} bytes, {records} of records");
}
