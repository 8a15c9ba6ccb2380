//! Reno and Tahoe: recovery by duplicate ACKs alone (RFC 5681), with the windows that follow.

use super::native::{MSS, connected_by, connected_to, leaving, small};
use super::*;
use crate::{LossDetection, LossWindow, SenderConfig};

/// Ten segments of a Reno window of ten were sent at 100 ms; the time is 200 ms.
fn flight(recovery: LossDetection) -> Script {
    let mut script = connected_by(recovery, Algorithm::Reno);
    script.write(40 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 10);
    script.at(200);
    script
}

/// The segments sent in response to an ACK of everything below segment `below`; transmission
/// `packet_number` arrived. The ACK has a SACK block, which these rules must ignore.
fn answer(script: &mut Script, packet_number: u64, below: u64) -> Vec<u64> {
    native::ack(script, packet_number, below, &[(below + 1, below + 2)]);
    leaving(script).into_iter().map(|(segment, ..)| segment).collect()
}

#[test]
fn reno_inflates_window_then_deflates_to_ssthresh() {
    let mut script = flight(LossDetection::Reno);
    // Limited transmit sends two segments. FlightSize without them is ten, so ssthresh is five.
    // With three duplicates the window is eight. It has room when the eighth duplicate makes it
    // thirteen, one more than is outstanding.
    let expected: [&[u64]; 11] = [&[10], &[11], &[0], &[], &[], &[], &[], &[12], &[13], &[14], &[15]];
    for (n, expected) in (1..).zip(expected) {
        assert_eq!(answer(&mut script, n, 0), expected, "duplicate {n}");
    }
    let stats = script.stats();
    assert_eq!((stats.recoveries, stats.ssthresh, stats.cwnd), (1, Some(5 * MSS), 5 * MSS));
    script.at(300);
    answer(&mut script, 12, 12);
    let stats = script.stats();
    assert_eq!((stats.cwnd, stats.ssthresh), (5 * MSS, Some(5 * MSS)), "recovery is over");
    assert_eq!((stats.retransmitted, stats.timeouts, stats.spurious), (1, 0, 0));
}

#[test]
fn partial_ack_ends_reno_recovery() {
    let mut script = flight(LossDetection::Reno);
    // Segment 5 is lost as well.
    for n in (1..=11).filter(|n| *n != 5) {
        answer(&mut script, n, 0);
    }
    script.at(300);
    // NewReno would repeat it now.
    assert_eq!(answer(&mut script, 12, 5), [0; 0]);
    let stats = script.stats();
    assert_eq!((stats.cwnd, stats.retransmitted), (5 * MSS, 1), "ssthresh");
    assert_eq!(stats.in_flight, 10 * MSS, "all that is outstanding, 5 to 14, counts again");
    // Two duplicates are too few, the third repeats the hole and halves the window again.
    assert_eq!((answer(&mut script, 13, 5), answer(&mut script, 14, 5)), (vec![], vec![]));
    assert_eq!(answer(&mut script, 15, 5), [5]);
    let stats = script.stats();
    assert_eq!((stats.recoveries, stats.timeouts), (2, 0));
    assert!(stats.ssthresh < Some(5 * MSS), "{stats:?}");
}

#[test]
fn reno_waits_for_timeout_without_three_duplicates() {
    let mut script = flight(LossDetection::Reno);
    for n in 1..=3 {
        answer(&mut script, n, 0);
    }
    script.at(300);
    answer(&mut script, 12, 5);
    script.expire();
    let sent: Vec<u64> = leaving(&mut script).into_iter().map(|(segment, ..)| segment).collect();
    let stats = script.stats();
    assert_eq!((sent, stats.timeouts, stats.cwnd), (vec![5], 1, MSS));
}

#[test]
fn tahoe_restarts_from_base_in_slow_start() {
    let mut script = flight(LossDetection::Tahoe);
    let expected: [&[u64]; 4] = [&[10], &[11], &[0], &[]];
    for (n, expected) in (1..).zip(expected) {
        assert_eq!(answer(&mut script, n, 0), expected, "duplicate {n}");
    }
    let stats = script.stats();
    assert_eq!((stats.cwnd, stats.ssthresh, stats.in_flight), (MSS, Some(5 * MSS), MSS));
    assert_eq!((stats.recoveries, stats.fast_retransmits, stats.timeouts), (1, 1, 0));
    script.at(300);
    // Segments 0 and 5 were lost. The window doubles each round trip, and goes back to 5 and 6.
    assert_eq!(answer(&mut script, 12, 5), [5, 6]);
    script.at(400);
    assert_eq!(answer(&mut script, 13, 12), [12, 13, 14]);
    let stats = script.stats();
    assert_eq!((stats.cwnd, stats.recoveries, stats.spurious), (3 * MSS, 1, 0));
}

#[test]
fn tahoe_restarts_timer_with_fast_retransmission() {
    let mut script = flight(LossDetection::Tahoe);
    let rto = script.rto();
    for n in 1..=3 {
        answer(&mut script, n, 0);
    }
    assert_eq!(script.timer(), Some(ms(200) + script.rto()));
    assert!(script.rto() <= rto, "no back-off");
}

#[test]
fn late_original_undoes_no_reno_or_tahoe_recovery() {
    for (recovery, cwnd) in [(LossDetection::Reno, 5), (LossDetection::Tahoe, 2)] {
        let mut script = flight(recovery);
        for n in 1..=3 {
            answer(&mut script, n, 0);
        }
        // Transmission 3 is newer than the original and older than the repetition.
        answer(&mut script, 3, 4);
        let stats = script.stats();
        assert_eq!((stats.cwnd, stats.spurious), (cwnd * MSS, 0), "{recovery}");
    }
}

#[test]
fn loss_window_is_one_segment_or_initial_window() {
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        for (loss_window, packets) in [(LossWindow::One, 1), (LossWindow::Initial, 4)] {
            for recovery in [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno] {
                let config = SenderConfig { recovery, congestion, window: 100, ..small() };
                let config = SenderConfig { loss_window, initial_window: 4, ..config };
                let mut script = connected_to(config, Params::default());
                script.write(40 * PAYLOAD);
                assert_eq!(leaving(&mut script).len(), 4);
                while script.stats().timeouts == 0 {
                    script.expire();
                }
                let sent = leaving(&mut script).len() as u64;
                let stats = script.stats();
                let expected = (packets * MSS, packets);
                assert_eq!((stats.cwnd, sent), expected, "{congestion}, {recovery}, {loss_window:?}");
            }
        }
    }
}

#[test]
fn loss_window_needs_reno_or_cubic() {
    let check = |congestion| {
        let config = SenderConfig { loss_window: LossWindow::Initial, ..SenderConfig::native(7) };
        SenderConfig { congestion, window: 10, ..config }.validate().map_err(|error| error.to_string())
    };
    assert_eq!((check(Algorithm::Reno), check(Algorithm::Cubic)), (Ok(()), Ok(())));
    for algorithm in [Algorithm::Bbr, Algorithm::Fixed(10)] {
        let sentence =
            format!("the window after a timeout can be chosen for reno and cubic, not for {algorithm}");
        assert_eq!(check(algorithm), Err(sentence));
    }
}
