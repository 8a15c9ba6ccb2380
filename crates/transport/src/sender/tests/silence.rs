//! What is put down to the network, and what to a receiver without room or to a size that was tried.

use super::native::{MSS, ack_with_window, connected_by, connected_to, leaving};
use super::*;
use crate::LossDetection;

const RULES: [LossDetection; 4] =
    [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];

#[test]
fn the_timer_of_the_base_alone_backs_off_and_ends_with_the_patience() {
    let mut script = connected_by(LossDetection::BaseOnly, Algorithm::Fixed(10));
    script.write(PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 1);
    let mut fired = Vec::new();
    while script.timer().is_some() {
        fired.push(script.expire());
        leaving(&mut script);
    }
    // 3 R, doubled up to 6 s each time (RFC 6298, rule 5.5), and 30 s after the packet left.
    assert_eq!(fired[..5], [ms(400), ms(1000), ms(2200), ms(4600), ms(9400)]);
    assert_eq!(fired.last(), Some(&ms(30_100)));
    assert!(matches!(script.events()[..], [SenderEvent::Failed { .. }]));
}

#[test]
fn a_receiver_without_room_is_asked_again_and_nothing_counts_as_lost() {
    for rule in RULES {
        let mut script = connected_by(rule, Algorithm::Reno);
        script.write(20 * PAYLOAD);
        assert_eq!(leaving(&mut script).len(), 10, "{rule}");
        script.at(200);
        ack_with_window(&mut script, 9, 10, &[], 0);
        let window = script.stats().cwnd;
        for refusal in 0..9 {
            for (segment, tx, _) in leaving(&mut script) {
                assert_eq!(segment, 10, "{rule}");
                ack_with_window(&mut script, tx, 10, &[], 0);
            }
            script.expire();
            let stats = script.stats();
            assert_eq!((stats.lost, stats.dup_acks, stats.recoveries), (0, 0, 0), "{rule}, {refusal}");
            assert_eq!((stats.cwnd, stats.ssthresh), (window, None), "{rule}, {refusal}");
        }
        // It opens: what was refused leaves at once, and is waited for anew.
        let (_, tx, _) = leaving(&mut script)[0];
        let timeouts = script.stats().timeouts;
        assert!(timeouts > 4, "{rule}");
        ack_with_window(&mut script, tx, 10, &[], 0);
        let opens = script.timer().unwrap().saturating_sub(ms(1));
        script.at_exactly(opens);
        ack_with_window(&mut script, tx, 10, &[], 1 << 20);
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
fn news_of_the_window_repeats_nothing() {
    for rule in [LossDetection::NewReno, LossDetection::BaseOnly] {
        let mut script = connected_by(rule, Algorithm::Reno);
        script.write(20 * PAYLOAD);
        assert_eq!(leaving(&mut script).len(), 10);
        script.at(200);
        for growth in 1..10 {
            ack_with_window(&mut script, 0, 0, &[], (1 << 20) + growth * MSS);
        }
        assert_eq!((script.stats().dup_acks, leaving(&mut script)), (0, vec![]), "{rule}");
        for _ in 0..3 {
            ack_with_window(&mut script, 0, 0, &[], (1 << 20) + 9 * MSS);
        }
        assert_eq!((script.stats().dup_acks, script.stats().recoveries), (3, 1), "{rule}");
    }
}

#[test]
fn a_size_that_does_not_arrive_is_lost_and_slows_nobody_down() {
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
