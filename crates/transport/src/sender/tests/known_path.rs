//! Start on a path that an earlier connection measured.

use super::native::{MSS, ack, connected_on, leaving, small};
use super::*;
use crate::congestion::{Cause, CongestionEvent};
use crate::sender::KnownPath;

/// Returns a paced sender whose handshake took 20 ms.
fn connected(congestion: Algorithm, pacing: bool, known: Option<KnownPath>) -> Script {
    let config = SenderConfig { congestion, pacing, window: 1000, ..small() };
    connected_on(rdt_testing::epoch(), 20, config, Params { ecn: true, ..Params::default() }, known)
}

fn known(window: u64) -> KnownPath {
    let rtt = Duration::from_millis(20);
    KnownPath { rtt, window, early: window, packet_size: 0, refuses_ecn: true, loss: 0 }
}

#[test]
fn known_window_is_first_window() {
    for congestion in [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr] {
        for (window, packets) in [(0, 10), (5 * MSS, 10), (60 * MSS, 60)] {
            let script = connected(congestion, true, Some(known(window)));
            assert_eq!(script.stats().cwnd / MSS, packets, "{congestion}");
            assert_eq!(script.stats().ecn, EcnState::Off);
        }
    }
}

#[test]
fn known_window_needs_pacing() {
    assert_eq!(connected(Algorithm::Cubic, false, Some(known(60 * MSS))).stats().cwnd / MSS, 10);
}

#[test]
fn sender_knows_what_was_delivered_in_round_trip() {
    let mut script = connected(Algorithm::Cubic, false, None);
    script.write(8 * usize::try_from(MSS).unwrap());
    let sent = leaving(&mut script).len() as u64;
    script.at(40);
    ack(&mut script, sent - 1, sent, &[]);
    let path = script.sender.known_path().unwrap();
    assert!(path.window > 0 && path.window <= script.stats().cwnd, "{path:?}");
    assert_eq!((path.loss, path.refuses_ecn), (0, false));
}

#[test]
fn idle_sender_leaves_rate_once() {
    let mut script = connected(Algorithm::Cubic, false, None);
    script.write(28 * usize::try_from(MSS).unwrap());
    let mut sent = 0;
    for round in 1..=2 {
        sent += leaving(&mut script).len() as u64;
        assert_eq!(script.sender.leave_rate(), None, "data is in flight");
        script.at(20 + 20 * round);
        ack(&mut script, sent - 1, sent, &[]);
    }
    assert_eq!(sent, 28);
    assert_eq!(script.sender.leave_rate(), Some(18 * MSS * 50), "the newest round trip");
    assert_eq!(script.sender.leave_rate(), None);
}

#[test]
fn sender_takes_over_rate_after_slow_start() {
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        let mut script = connected(congestion, true, None);
        script.sender.take_over(script.now, 50 * MSS);
        assert_eq!(script.stats().cwnd, 10 * MSS, "{congestion}: slow start");
        script.sender.congestion.controller.on_congestion(&CongestionEvent {
            now: script.now,
            cause: Cause::Ecn,
            flight_size: 10 * MSS,
        });
        let cwnd = script.sender.congestion.controller.cwnd();
        script.sender.take_over(script.now, 50 * MSS);
        assert_eq!(script.stats().cwnd, cwnd + MSS, "{congestion}: 50 packets a second for 20 ms");
    }
}
