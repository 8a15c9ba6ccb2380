//! Data that a receiver had no room for: it is retransmitted, and does not count as lost.

use super::native::{MSS, ack, ack_bytes, ack_with_window, connected_by, leaving};
use std::sync::{Arc, Mutex};

use super::*;
use crate::congestion::Cause;
use crate::{LossDetection, Observer};

const RULES: [LossDetection; 6] = [
    LossDetection::Rack,
    LossDetection::Sack,
    LossDetection::NewReno,
    LossDetection::Reno,
    LossDetection::Tahoe,
    LossDetection::BaseOnly,
];
const OPEN: u64 = 1 << 20;

/// Ten segments were delivered, and the receiver has room for no more; the time is 200 ms.
fn filled(rule: LossDetection) -> Script {
    let mut script = connected_by(rule, Algorithm::Reno);
    script.write(10 * PAYLOAD);
    assert_eq!(leaving(&mut script).len(), 10, "{rule}");
    script.at(200);
    ack_with_window(&mut script, 9, 10, &[], 0);
    script
}

#[test]
fn a_probe_that_asked_for_room_repaired_nothing() {
    let mut script = filled(LossDetection::Rack);
    script.write(10 * PAYLOAD);
    assert_eq!(leaving(&mut script), [(10, 10, false)]);
    ack_with_window(&mut script, 10, 10, &[], 0);
    script.expire();
    // A probe that was answered is followed by the next one when the persist timer fires, not by a
    // tail loss probe.
    assert_eq!(leaving(&mut script), [(10, 11, false)]);
    assert_eq!((script.stats().probes, script.stats().timeouts), (0, 1));
    let window = script.stats().cwnd;
    // The window opens before the timer fires.
    ack_with_window(&mut script, 11, 10, &[], OPEN);
    assert_eq!(leaving(&mut script)[0], (10, 12, false));
    ack_with_window(&mut script, 13, 12, &[], OPEN);
    let stats = script.stats();
    assert_eq!((stats.ssthresh, stats.lost), (None, 0));
    assert!(stats.cwnd >= window, "{stats:?}");
}

#[test]
fn zero_window_probe_repairs_no_loss() {
    let mut script = filled(LossDetection::Rack);
    script.write(10 * PAYLOAD);
    assert_eq!(leaving(&mut script), [(10, 10, false)]);
    script.expire();
    assert_eq!(leaving(&mut script), [(10, 11, true)]);
    ack_with_window(&mut script, 11, 11, &[], OPEN);
    assert_eq!((script.stats().ssthresh, script.stats().lost), (None, 0));
}

#[test]
fn partly_taken_segment_leaves_when_window_opens() {
    for rule in RULES {
        let mut script = filled(rule);
        script.write(10 * PAYLOAD);
        assert_eq!(leaving(&mut script), [(10, 10, false)], "{rule}");
        // The ACK that reported the first half is lost; this one reports both.
        ack_bytes(&mut script, 10, 10 * MSS + MSS / 2, OPEN);
        let first = leaving(&mut script)[0];
        assert_eq!((first.0, first.1), (10, 11), "{rule}");
        assert_eq!((script.stats().lost, script.stats().ssthresh), (0, None), "{rule}");
    }
}

#[test]
fn refused_last_segment_leaves_despite_later_fin() {
    for rule in RULES {
        let mut script = filled(rule);
        script.write(PAYLOAD).finish();
        assert_eq!(script.datagrams().len(), 2, "{rule}: the segment and the FIN");
        ack_with_window(&mut script, 11, 10, &[], 0);
        assert_eq!(leaving(&mut script), [], "{rule}");
        script.at(210);
        ack_with_window(&mut script, 11, 10, &[], OPEN);
        let again = leaving(&mut script);
        assert_eq!((again.len(), again[0].0, again[0].1), (1, 10, 12), "{rule}");
        assert_eq!((script.stats().lost, script.stats().ssthresh), (0, None), "{rule}");
    }
}

/// The first of ten segments sent is lost and was retransmitted. More data may have left.
fn recovering(script: &mut Script, rule: LossDetection) {
    assert_eq!(leaving(script).len(), 10, "{rule}");
    script.at(200);
    for newest in 1..10 {
        ack(script, newest, 0, &[(1, newest + 1)]);
        leaving(script);
    }
    if rule == LossDetection::Rack {
        // The end of the reordering window.
        script.expire();
        leaving(script);
    }
    assert_eq!((script.stats().recoveries, script.stats().retransmitted > 0), (1, true), "{rule}");
}

/// Acknowledges everything sent so far and closes the window.
fn close_window(script: &mut Script) {
    let flight = &script.sender.flight;
    let (newest, all) = (flight.next_number() - 1, flight.board.next_offset() / MSS);
    ack_with_window(script, newest, all, &[], 0);
}

#[test]
fn late_zero_window_probe_restores_no_older_window() {
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        for rule in RULES {
            let mut script = connected_by(rule, congestion);
            script.write(30 * PAYLOAD);
            recovering(&mut script, rule);
            // The ACK that ends the recovery closes the window.
            script.at(300);
            close_window(&mut script);
            let before = script.stats();
            let [(probed, probe, _)] = leaving(&mut script)[..] else { panic!("{rule}: one probe") };
            while script.stats().timeouts == 0 {
                script.expire();
                assert_eq!(leaving(&mut script)[0].0, probed, "{rule}");
            }
            // The probe was delayed, not lost.
            ack_with_window(&mut script, probe, probed + 1, &[], OPEN);
            let after = script.stats();
            assert_eq!((after.timeouts, after.recoveries), (1, 1), "{congestion}, {rule}");
            assert_eq!((after.cwnd, after.ssthresh), (before.cwnd, before.ssthresh), "{congestion}, {rule}");
        }
    }
}

/// Observer of the recoveries that begin, by their causes, and of those that end (`None`).
#[derive(Clone, Default)]
struct Recoveries(Arc<Mutex<Vec<Option<Cause>>>>);

impl Observer for Recoveries {
    fn on(&mut self, _now: Instant, trace: &Trace) {
        match trace {
            Trace::RecoveryBegan { cause } => self.0.lock().unwrap().push(Some(*cause)),
            Trace::RecoveryEnded { .. } => self.0.lock().unwrap().push(None),
            _ => {}
        }
    }
}

impl Recoveries {
    /// Returns an observer of this sender.
    fn of(script: &mut Script) -> Self {
        let recoveries = Self::default();
        script.sender.observe(Box::new(recoveries.clone()));
        recoveries
    }

    fn seen(&self) -> Vec<Option<Cause>> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn zero_window_probes_are_no_recovery() {
    for rule in RULES {
        let mut script = filled(rule);
        let recoveries = Recoveries::of(&mut script);
        script.write(10 * PAYLOAD);
        for probe in 10..12 {
            assert_eq!(leaving(&mut script).len(), 1, "{rule}, {probe}");
            ack_with_window(&mut script, probe, 10, &[], 0);
            script.expire();
        }
        assert_eq!(leaving(&mut script).len(), 1, "{rule}");
        assert_eq!(script.sender.blocked.reason(), Some(Blocked::PeerWindow), "{rule}");
        ack_with_window(&mut script, 12, 11, &[], OPEN);
        assert_eq!(leaving(&mut script).len(), 9, "{rule}");
        assert_eq!((recoveries.seen(), script.stats().timeouts), (vec![], 2), "{rule}");
    }
}

#[test]
fn zero_window_probes_continue_recovery_from_loss() {
    for rule in RULES {
        let mut script = connected_by(rule, Algorithm::Reno);
        let recoveries = Recoveries::of(&mut script);
        script.write(10 * PAYLOAD);
        recovering(&mut script, rule);
        // The window closes before the retransmission arrives.
        let newest = script.sender.flight.next_number() - 1;
        ack_with_window(&mut script, newest - 1, 0, &[(1, 10)], 0);
        while script.stats().timeouts == 0 {
            script.expire();
            assert_eq!(leaving(&mut script).len(), 1, "{rule}");
        }
        close_window(&mut script);
        assert_eq!(recoveries.seen(), [Some(Cause::Loss), None], "{rule}");
    }
}
