//! Causes of a timeout: the network, a closed window, or an unconfirmed datagram size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::native::{
    MSS, ack_bytes, ack_with_window, answer_to, connected_by, connected_to, leaving, recv_ack, small,
};
use super::*;
use crate::LossDetection;
use crate::congestion::{AckEvent, CongestionEvent, Controller, Start};
use crate::wire::native::{self, SackBlock};

const RULES: [LossDetection; 4] =
    [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];

#[test]
fn base_only_timer_backs_off_until_give_up() {
    let mut script = connected_by(LossDetection::BaseOnly, Algorithm::Fixed(10));
    script.write(PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 1);
    let mut fired = Vec::new();
    while script.timer().is_some() {
        fired.push(script.expire());
        leaving(&mut script);
    }
    // 3 R, doubled up to 1 s each time (RFC 6298, rule 5.5), and 100 s after the packet left.
    assert_eq!(fired[..5], [ms(400), ms(1000), ms(2000), ms(3000), ms(4000)]);
    assert_eq!(fired.last(), Some(&ms(100_100)));
    assert!(matches!(script.events()[..], [SenderEvent::Failed { .. }]));
}

#[test]
fn zero_window_probe_is_no_loss() {
    for rule in RULES {
        let mut script = connected_by(rule, Algorithm::Reno);
        script.write(20 * PAYLOAD);
        assert_eq!(leaving(&mut script).len(), 10, "{rule}");
        script.at(200);
        ack_with_window(&mut script, 9, 10, &[], 0);
        let window = script.stats().cwnd;
        for refusal in 0..9 {
            for (segment, packet_number, _) in leaving(&mut script) {
                assert_eq!(segment, 10, "{rule}");
                ack_with_window(&mut script, packet_number, 10, &[], 0);
            }
            script.expire();
            let stats = script.stats();
            assert_eq!((stats.lost, stats.dup_acks, stats.recoveries), (0, 0, 0), "{rule}, {refusal}");
            assert_eq!((stats.cwnd, stats.ssthresh), (window, None), "{rule}, {refusal}");
        }
        // The window opens: the refused segment is retransmitted at once, and its timer starts
        // again.
        let (_, packet_number, _) = leaving(&mut script)[0];
        let timeouts = script.stats().timeouts;
        assert!(timeouts > 4, "{rule}");
        ack_with_window(&mut script, packet_number, 10, &[], 0);
        let opens = script.timer().unwrap().saturating_sub(ms(1));
        script.at_exactly(opens);
        ack_with_window(&mut script, packet_number, 10, &[], 1 << 20);
        let again: Vec<u64> = leaving(&mut script).into_iter().map(|(segment, ..)| segment).collect();
        assert_eq!(again[..2], [10, 11], "{rule}");
        // RACK probes after two round trips, the other rules have the retransmission timer alone.
        let waits = if rule == LossDetection::Rack { 2 * script.stats().srtt.unwrap() } else { ms(100) };
        assert!(script.timer().unwrap() >= opens + waits, "{rule}");
        let stats = script.stats();
        assert_eq!((stats.lost, stats.timeouts, stats.ssthresh), (0, timeouts, None), "{rule}");
    }
}

#[test]
fn zero_window_probes_back_off_to_forty_seconds() {
    for rule in RULES {
        let mut script = without_room(rule);
        let mut waited = Vec::new();
        for _ in 0..11 {
            let [(10, packet_number, _)] = leaving(&mut script)[..] else { panic!("{rule}: one probe") };
            let answered = script.now;
            // The second answer to the same probe has no effect.
            ack_with_window(&mut script, packet_number, 10, &[], 0);
            ack_with_window(&mut script, packet_number, 10, &[], 0);
            script.expire();
            waited.push((script.now - answered).as_millis());
        }
        // Twice as long each time (RFC 9293, section 3.8.6.1), of a timeout that shrinks a little
        // with each answer, and at most a third of the receiver's idle timeout, 120 s.
        assert_eq!(waited[0], 300, "{rule}");
        assert_eq!(waited[8..], [40_000; 3], "{rule}");
        let doubles = |pair: &[u128]| pair[1] * 10 > pair[0] * 17 && pair[1] < pair[0] * 11 / 5;
        assert!(waited[..8].windows(2).all(doubles), "{rule}: {waited:?}");
    }
}

#[test]
fn unanswered_zero_window_probe_is_repeated_like_data() {
    for rule in RULES {
        let mut script = without_room(rule);
        for _ in 0..9 {
            let (_, packet_number, _) = leaving(&mut script)[0];
            ack_with_window(&mut script, packet_number, 10, &[], 0);
            script.expire();
        }
        let last_answer = script.now;
        let mut before = script.now;
        leaving(&mut script);
        while script.timer().is_some() {
            script.expire();
            leaving(&mut script);
            assert!(script.now - before <= Duration::from_secs(1), "{rule}");
            before = script.now;
        }
        // The give-up time begins with the probe that got no answer, not with the answer before it.
        assert_eq!(script.now - last_answer, script.sender.config().give_up, "{rule}");
        assert!(matches!(script.events()[..], [SenderEvent::Failed { .. }]), "{rule}");
    }
}

#[test]
fn opening_window_ends_probe_back_off() {
    let mut script = without_room(LossDetection::Rack);
    for _ in 0..6 {
        let (_, packet_number, _) = leaving(&mut script)[0];
        ack_with_window(&mut script, packet_number, 10, &[], 0);
        script.expire();
    }
    let (_, packet_number, _) = leaving(&mut script)[0];
    ack_with_window(&mut script, packet_number, 11, &[], MSS);
    let (_, packet_number, _) = leaving(&mut script)[0];
    ack_with_window(&mut script, packet_number, 12, &[], 0);
    let (_, packet_number, _) = leaving(&mut script)[0];
    ack_with_window(&mut script, packet_number, 12, &[], 0);
    let shut = script.now;
    script.expire();
    assert!(script.now - shut < Duration::from_millis(500));
}

/// Returns a sender of 20 segments whose receiver accepted ten and has room for no more.
fn without_room(rule: LossDetection) -> Script {
    let params = Params { idle_timeout_ms: 120_000, ..Params::default() };
    let config = SenderConfig { recovery: rule, congestion: Algorithm::Reno, window: 10, ..small() };
    let mut script = connected_to(config, params);
    script.write(20 * PAYLOAD);
    let (_, packet_number, _) = *leaving(&mut script).last().unwrap();
    script.at(200);
    ack_with_window(&mut script, packet_number, 10, &[], 0);
    script
}

#[test]
fn window_updates_are_no_duplicate_acks() {
    for rule in [LossDetection::NewReno, LossDetection::BaseOnly] {
        let mut script = connected_by(rule, Algorithm::Reno);
        script.write(20 * PAYLOAD);
        assert_eq!(leaving(&mut script).len(), 10);
        script.at(200);
        ack_with_window(&mut script, 0, 0, &[], 1 << 20);
        let limited_transmit = leaving(&mut script).len();
        for growth in 1..10 {
            ack_with_window(&mut script, 0, 0, &[], (1 << 20) + growth * MSS);
        }
        assert_eq!((script.stats().dup_acks, leaving(&mut script)), (1, vec![]), "{rule}");
        assert!(limited_transmit <= 1, "{rule}");
        for packet_number in 1..=2 {
            ack_with_window(&mut script, packet_number, 0, &[], (1 << 20) + 9 * MSS);
        }
        assert_eq!((script.stats().dup_acks, script.stats().recoveries), (3, 1), "{rule}");
    }
}

#[test]
fn lost_mtu_probe_does_not_slow_down() {
    let config = SenderConfig { pacing: false, congestion: Algorithm::Reno, ..SenderConfig::native(7) };
    for rule in [LossDetection::Sack, LossDetection::BaseOnly] {
        let config = SenderConfig { recovery: rule, ..config.clone() };
        let mut script = connected_to(config, Params::default());
        let (payload, window) = (script.sender.config.payload_size(), script.stats().cwnd);
        script.write(payload);
        assert_eq!(script.datagrams()[0].len(), 1472, "{rule}");
        script.expire();
        let stats = script.stats();
        assert_eq!((stats.lost, stats.cwnd, stats.ssthresh), (1, window, None), "{rule}");
        assert_eq!(script.datagrams()[0].len(), 1200, "{rule}");
        script.expire();
        assert!(script.stats().ssthresh.is_some(), "{rule}: that was no matter of its size");
    }
}

#[test]
fn delayed_mtu_probe_restores_no_older_window() {
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        for recovery in [LossDetection::Rack, LossDetection::Sack] {
            let base = SenderConfig { pacing: false, congestion, recovery, ..SenderConfig::native(7) };
            let mut script = connected_to(base, Params::default());
            // The first packet probes the path MTU. It and the next one are lost.
            let (probe, segment) = (script.sender.config.payload_size(), 1160);
            script.write(probe + 8 * segment);
            script.sender.push();
            assert_eq!(script.datagrams().len(), 9);
            script.at(200);
            let (start, end) = (probe + segment, probe + 8 * segment);
            let window = 1 << 20;
            let block = SackBlock { start: start as u64, end: end as u64 };
            recv_ack(&mut script, &native::Ack { window, ..answer_to(8) }, &[block]);
            script.datagrams();
            // RACK waits for the end of its reordering window.
            while script.stats().recoveries == 0 {
                script.expire();
                script.datagrams();
            }
            script.at(300);
            let newest = script.sender.flight.next_number() - 1;
            ack_bytes(&mut script, newest, end as u64, window);
            let before = script.stats();
            assert_eq!((before.recoveries, before.spurious), (1, 0), "{congestion}, {recovery}");

            delay_mtu_probe(&mut script, end);
            let after = script.stats();
            assert_eq!(after.spurious, 1, "{congestion}, {recovery}");
            assert_eq!(
                (after.cwnd, after.ssthresh),
                (before.cwnd, before.ssthresh),
                "{congestion}, {recovery}"
            );
        }
    }
}

/// Sends the next path MTU probe alone, after `sent` bytes, and delivers it after its timeout.
fn delay_mtu_probe(script: &mut Script, sent: usize) {
    let (payload, number) = (script.sender.config.payload_size(), script.sender.flight.next_number());
    script.write(payload);
    assert_eq!(script.datagrams()[0].len(), 1472);
    while script.stats().timeouts == 0 {
        script.expire();
    }
    assert_eq!(script.datagrams()[0].len(), 1200);
    ack_bytes(script, number, (sent + payload) as u64, 1 << 20);
}

/// Controller with a constant window, which counts the recoveries undone.
#[derive(Debug, Default)]
struct Undone(Arc<AtomicU32>);

impl Controller for Undone {
    fn on_ack(&mut self, _ack: &AckEvent) {}

    fn on_congestion(&mut self, event: &CongestionEvent) {
        panic!("{event:?}");
    }

    fn on_spurious(&mut self, _now: Instant) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn on_mss(&mut self, _mss: u64) {}

    fn cwnd(&self) -> u64 {
        20_000
    }

    fn phase(&self) -> &'static str {
        "constant"
    }
}

/// BBR, for example, would drop all its bounds.
#[test]
fn recovery_without_response_is_not_undone() {
    for recovery in [LossDetection::Rack, LossDetection::Sack] {
        let undone = Arc::new(AtomicU32::new(0));
        let counter = undone.clone();
        let build = move |_: Start| Box::new(Undone(counter.clone())) as Box<dyn Controller>;
        let base = SenderConfig { pacing: false, recovery, ..SenderConfig::native(7) };
        let config = SenderConfig { controller_factory: Some(Arc::new(build)), ..base };
        let mut script = connected_to(config, Params::default());
        delay_mtu_probe(&mut script, 0);
        assert_eq!(script.stats().spurious, 1, "{recovery}");
        assert_eq!(undone.load(Ordering::Relaxed), 0, "{recovery}");
    }
}

#[test]
fn second_timeout_in_a_row_sends_one_segment() {
    for rule in [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno] {
        let mut script = connected_by(rule, Algorithm::Fixed(10));
        script.write(10 * PAYLOAD);
        assert_eq!(leaving(&mut script).len(), 10, "{rule}");
        for timeout in 0..20 {
            while script.stats().timeouts == timeout {
                script.expire();
                if script.stats().timeouts == timeout {
                    leaving(&mut script);
                }
            }
            let sent = leaving(&mut script);
            // With NewReno, the window is not known to be empty after the first timeout either.
            let first = timeout == 0 && rule != LossDetection::NewReno;
            assert_eq!(sent.len(), if first { 10 } else { 1 }, "{rule}, timeout {timeout}");
            assert_eq!(sent[0].0, 0, "{rule}");
        }
        // An ACK allows as many segments as slow start does.
        let newest = script.sender.flight.next_number() - 1;
        ack_with_window(&mut script, newest, 1, &[], 1 << 20);
        assert_eq!(leaving(&mut script).len(), 2, "{rule}");
    }
}

#[test]
fn base_only_sends_pieces_without_further_timeouts() {
    let config = SenderConfig {
        recovery: LossDetection::BaseOnly,
        pacing: false,
        congestion: Algorithm::Fixed(10),
        packet_size: 1200,
        ..SenderConfig::native(7)
    };
    let mut script = connected_to(config, Params::default());
    script.write(2 * 1160);
    script.sender.push();
    assert_eq!(script.datagrams().len(), 2);
    let mut sizes = Vec::new();
    while sizes.last() != Some(&548) {
        script.expire();
        sizes.extend(script.datagrams().iter().map(Vec::len));
    }
    // Two pieces of 508 bytes and one of 144 were one segment; the next segment was not divided.
    for acked in [508, 1016] {
        let newest = script.sender.flight.next_number() - 1;
        ack_bytes(&mut script, newest, acked, 1 << 20);
        let sent: Vec<usize> = script.datagrams().iter().map(Vec::len).collect();
        assert_eq!(sent, [if acked == 508 { 548 } else { 40 + 144 }], "{acked}");
    }
    let newest = script.sender.flight.next_number() - 1;
    ack_bytes(&mut script, newest, 1160, 1 << 20);
    assert_eq!(script.datagrams().len(), 0, "the next one is not known to be lost");
}

#[test]
fn timeout_spares_segments_younger_than_newest_rtt() {
    let mut script = connected_by(LossDetection::Rack, Algorithm::Fixed(10));
    script.write(5 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 5);
    script.at(250).write(5 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 5);
    // The probe, which moves the timer to 700 ms.
    script.at(400);
    assert_eq!(leaving(&mut script).len(), 1);
    // A queue grows: the newest round trip is 590 ms, srtt 161 ms. All that is in flight may be in
    // that queue (RFC 8985, section 6.3).
    script.at(690);
    ack_with_window(&mut script, 1, 0, &[(1, 2)], 1 << 20);
    assert_eq!((leaving(&mut script), script.expire()), (vec![], ms(700)));
    assert_eq!((script.stats().timeouts, script.stats().lost), (1, 1));
    let again: Vec<u64> = leaving(&mut script).into_iter().map(|(segment, ..)| segment).collect();
    assert_eq!(again, [0]);
}
