//! Start on a path that an earlier connection measured.

use super::native::{MSS, ack, connected_on, leaving, small};
use super::*;
use crate::sender::KnownPath;

/// Returns a paced sender whose handshake took 20 ms.
fn connected(congestion: Algorithm, pacing: bool, known: Option<KnownPath>) -> Script {
    let config = SenderConfig { congestion, pacing, window: 1000, ..small() };
    connected_on(rdt_testing::epoch(), 20, config, Params { ecn: true, ..Params::default() }, known)
}

fn known(window: u64) -> KnownPath {
    let rtt = Duration::from_millis(20);
    KnownPath { rtt, window, packet_size: 0, refuses_ecn: true, has_lost: false }
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
    assert_eq!((path.has_lost, path.refuses_ecn), (false, false));
}
