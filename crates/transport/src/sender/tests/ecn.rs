//! ECN: which packets have a codepoint, and how often reports of marks reduce the window.

use super::native::{answer_to, connected_to, recv_ack, small};
use super::*;
use crate::wire::native::{self, Params};
use crate::{EcnFailure, EcnState, SenderConfig};

/// Returns a sender with Reno, a window of 10 packets and an RTT of 100 ms, and a receiver that
/// counts marks or not.
fn connected(counts: bool) -> Script {
    let config = SenderConfig { congestion: Algorithm::Reno, ..small() };
    connected_to(config, Params { ecn: counts, ..Params::default() })
}

/// Returns the number of datagrams sent now, and their codepoint.
fn leaving(script: &mut Script) -> (usize, Ecn) {
    let (mut sent, mut codepoints) = (0, Vec::new());
    let mut out = TransmitBuf::new(64);
    while script.sender.poll_transmit(script.now, &mut out).is_some() {
        sent += out.segments();
        codepoints.push(out.ecn());
        out.clear();
    }
    codepoints.dedup();
    assert!(codepoints.len() <= 1, "{codepoints:?}");
    (sent, codepoints.first().copied().unwrap_or_default())
}

/// Acknowledges the first `arrived` packets, `ce` of them marked.
fn ack(script: &mut Script, arrived: u32, ce: u32, ect: u32) {
    let (number, ack) = (u64::from(arrived) - 1, u64::from(arrived) * PAYLOAD as u64);
    let ack = native::Ack { ack, window: 1 << 20, packets: arrived, ce, ect, ..answer_to(number) };
    recv_ack(script, &ack, &[]);
}

fn window(script: &Script) -> u64 {
    script.stats().cwnd / PAYLOAD as u64
}

#[test]
fn marks_reduce_window_once_per_round_trip() {
    let mut script = connected(true);
    script.write(100 * PAYLOAD);
    assert_eq!(leaving(&mut script), (10, Ecn::Ect0));
    script.at(200);
    ack(&mut script, 1, 1, 0);
    assert_eq!((window(&script), script.stats().ecn_reductions), (5, 1), "half of what was outstanding");
    for arrived in 2..=10 {
        ack(&mut script, arrived, arrived, 0);
    }
    assert_eq!(script.stats().ecn_reductions, 1, "they left before the answer");
    let (sent, codepoint) = leaving(&mut script);
    assert!((5..=7).contains(&sent) && codepoint == Ecn::Ect0, "{sent} {codepoint:?}");
    script.at(300);
    ack(&mut script, 11, 10, 1);
    assert_eq!(script.stats().ecn_reductions, 1, "no news");
    ack(&mut script, 12, 11, 1);
    assert_eq!((script.stats().ecn_reductions, script.stats().ce_marks), (2, 11));
    assert_eq!(script.stats().ecn, EcnState::On);
    assert_eq!((script.stats().lost, script.stats().recoveries), (0, 0));
}

#[test]
fn receiver_without_ecn_gets_no_codepoints() {
    let mut script = connected(false);
    script.write(20 * PAYLOAD);
    assert_eq!(leaving(&mut script), (10, Ecn::NotEct));
    ack(&mut script, 3, 2, 1);
    assert_eq!((script.stats().ecn, script.stats().ecn_reductions), (EcnState::Off, 0));
}

#[test]
fn bleaching_path_gets_no_codepoints() {
    let mut script = connected(true);
    script.write(20 * PAYLOAD);
    assert_eq!(leaving(&mut script), (10, Ecn::Ect0));
    script.at(200);
    ack(&mut script, 2, 0, 0);
    assert_eq!(script.stats().ecn, EcnState::Failed(EcnFailure::Bleached));
    assert_eq!(leaving(&mut script).1, Ecn::NotEct);
}

#[test]
fn new_path_gets_codepoints_again() {
    let mut script = connected(true);
    script.write(40 * PAYLOAD);
    leaving(&mut script);
    script.at(200);
    ack(&mut script, 2, 0, 0);
    assert_eq!(leaving(&mut script).1, Ecn::NotEct);
    script.sender.on_path_changed(script.now);
    let (sent, codepoint) = leaving(&mut script);
    assert!(sent > 0 && codepoint == Ecn::Ect0, "{sent} {codepoint:?}");
    assert_eq!(script.stats().ecn, EcnState::Testing);
}
