//! The engine alone: what a timeout marks lost, when a segment may be retransmitted, and which ACKs
//! restart the timers.

use super::*;
use crate::recovery::{LostTo, RtoPolicy, RttQuality};
use crate::wire::Numbering;
use rdt_testing::{epoch, ms};

/// RTT 100 ms and RTO 300 ms.
fn rtt() -> Rtt {
    let mut rtt = Rtt::new(RtoPolicy::Rfc6298 { min: ms(200), backoff_max: ms(1000) });
    rtt.on_handshake(ms(100), Duration::ZERO, RttQuality::Sampled);
    rtt
}

/// A rule, and six segments of 1000 bytes: three sent at the epoch, three at 250 ms.
struct Case {
    engine: Engine,
    flight: Flight,
    rtt: Rtt,
    epoch: Instant,
}

impl Case {
    fn new(rule: LossDetection) -> Self {
        let epoch = epoch();
        let mut flight = Flight::new(Numbering::Bytes, 0);
        flight.measure_from(epoch);
        let mut case =
            Self { engine: Engine::new(rule, Reordering::UntilLoss, 1), flight, rtt: rtt(), epoch };
        for at in [0, 250] {
            case.flight.push_run(epoch + ms(at), 1000, 3);
            let timing = Timing { rtt: &case.rtt, may_wait: false };
            case.engine.on_sent(epoch + ms(at), &timing);
        }
        case
    }

    fn outcome(&self, at: u64) -> AckOutcome {
        AckOutcome::none(self.epoch + ms(at), 1000, 0, true)
    }

    /// The retransmission timer fires at 300 ms. Returns the offsets of the segments marked lost.
    fn time_out(&mut self) -> Vec<u64> {
        self.engine.probe_at = None;
        self.engine.rto_at = Some(self.epoch + ms(300));
        let no_ack = self.outcome(300);
        let timeout = Timeout { rtt: &self.rtt, no_ack, next_rto: ms(600), lost_to: LostTo::Network };
        let (expired, lost) = self.engine.on_timeout(&timeout, &mut self.flight);
        assert_eq!(expired, Expired::Timeout { episode: true });
        lost.iter().map(|lost| lost.offset).collect()
    }

    fn leave(&self) -> Option<Leave> {
        match self.engine.next(&self.flight.board)? {
            Pending::Repeat(repeat) => Some(repeat.leave),
            Pending::Probe => None,
        }
    }

    /// Retransmits the segment at `offset` at 300 ms.
    fn resend(&mut self, offset: u64) {
        let (now, before) = (self.epoch + ms(300), *self.flight.board.find(offset).unwrap());
        let number = self.flight.next_number();
        self.flight.on_transmitted(now, Some(offset), 1000, 1);
        self.flight.board.resend(now, offset, number);
        let timing = Timing { rtt: &self.rtt, may_wait: false };
        let time_left = Duration::MAX;
        self.engine.on_resent(&Resent { now, timing, has_room: true, time_left, before });
    }
}

#[test]
fn timeout_with_sack_spares_recent_segments() {
    assert_eq!(Case::new(LossDetection::Sack).time_out(), [0, 1000, 2000]);
    assert_eq!(Case::new(LossDetection::NewReno).time_out(), [0, 1000, 2000, 3000, 4000, 5000]);
    let mut recent = Case::new(LossDetection::Sack);
    recent.flight.acknowledge(recent.epoch, 3000, |_| {});
    assert_eq!(recent.time_out(), [3000], "the base is lost however recent it is");
}

#[test]
fn first_retransmission_ignores_the_window() {
    let mut case = Case::new(LossDetection::Sack);
    assert_eq!(case.leave(), None);
    case.time_out();
    assert_eq!(case.leave(), Some(Leave::Forced));
    case.resend(0);
    assert_eq!(case.leave(), Some(Leave::InWindow));
}

#[test]
fn repeated_timeout_waits_for_an_answer() {
    let mut case = Case::new(LossDetection::NewReno);
    case.time_out();
    assert_eq!(case.leave(), Some(Leave::Forced));
    case.resend(0);
    assert_eq!(case.leave(), Some(Leave::AfterAnswer));
}

#[test]
fn sack_restarts_timer_unless_base_was_overtaken() {
    let timer = |largest_acked, moved, resent: bool| {
        let mut case = Case::new(LossDetection::Sack);
        if resent {
            case.resend(0);
        }
        let ack = AckOutcome { largest_acked, moved, bytes: 1000, ..case.outcome(290) };
        let timing = Timing { rtt: &case.rtt, may_wait: false };
        case.engine.rearm(&ack, &timing, &case.flight.board);
        case.engine.rto_at.map(|at| at - case.epoch)
    };
    assert_eq!(timer(Some(4), false, false), Some(ms(300)), "the base is older than what arrived");
    assert_eq!(timer(Some(0), false, false), Some(ms(300)));
    assert_eq!(timer(None, false, false), Some(ms(300)), "no echo proves that the base is newer");
    assert_eq!(timer(Some(4), false, true), Some(ms(590)), "the base was sent again after it");
    assert_eq!(timer(Some(4), true, false), Some(ms(590)), "snd_una advanced");
}

#[test]
fn late_original_shows_reordering_only_while_in_flight() {
    for (lost_again, reorders) in [(false, true), (true, false)] {
        let mut case = Case::new(LossDetection::Rack);
        case.resend(0);
        if lost_again {
            case.flight.board.mark_lost(0);
        }
        let segment = *case.flight.board.find(0).unwrap();
        let ack = AckArrival {
            now: case.epoch + ms(310),
            rtt: &case.rtt,
            largest_acked: Some(5),
            next_number: 7,
            full: false,
        };
        case.engine.on_ack_begins(&ack);
        case.engine.on_delivered(&SegmentRun::single(&segment), &ack);
        assert_eq!(case.engine.reorders(), reorders, "lost again: {lost_again}");
    }
}

#[test]
fn late_rtt_is_of_first_segment_sent_once() {
    for (resent_before, known) in [(false, true), (true, false)] {
        let mut case = Case::new(LossDetection::Sack);
        if resent_before {
            case.resend(0);
        }
        case.time_out();
        case.resend(0);
        case.resend(1000);
        let original = case.engine.episode.and_then(|episode| episode.original);
        assert_eq!(original.is_some_and(|(offset, at)| offset == 0 && at == case.epoch), known);
    }
}
