//! The controller alone, with made-up ACKs and worked numbers. Ten ACKs are a round, 10 ms apart;
//! each is of a packet sent at the time of the tenth ACK before it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::origin;
use crate::congestion::bbr::math::UNBOUNDED;
use crate::congestion::bbr::{Bbr, BbrConfig, State};
use crate::congestion::{AckEvent, Cause, CongestionEvent, Controller, LostPacket, RateSample};

const MSS: u64 = 1000;
/// Bytes per second, so that 100,000 bytes fill the round trip of 100 ms.
const BW: u64 = 1_000_000;
const RTT: Duration = Duration::from_millis(100);

struct Script {
    bbr: Bbr,
    now: Instant,
    delivered: u64,
    lost: u64,
    in_recovery: bool,
    app_limited: bool,
    /// Delivered and lost after each of the last ten ACKs.
    history: VecDeque<(u64, u64)>,
}

impl Script {
    fn new(config: BbrConfig) -> Self {
        let bbr = Bbr::new(config);
        let history = VecDeque::from([(0, 0); 10]);
        Self { bbr, now: origin(), delivered: 0, lost: 0, in_recovery: false, app_limited: false, history }
    }

    fn letter() -> Self {
        Self::new(BbrConfig::new(MSS, 10 * MSS, 1).without_deviations())
    }

    /// One round at `rate`, with `in_flight` bytes in flight, that loses `losses` packets.
    fn round(&mut self, rate: u64, in_flight: u64, losses: u64) {
        for ack in 0..10 {
            self.now += Duration::from_millis(10);
            let lost = (losses * (ack + 1) / 10 - losses * ack / 10) * MSS;
            let sent = self.history.pop_front().unwrap();
            self.ack(rate, in_flight, lost, sent);
            self.history.push_back((self.delivered, self.lost));
        }
    }

    fn ack(&mut self, rate: u64, in_flight: u64, lost: u64, (prior_delivered, lost_before): (u64, u64)) {
        for _ in 0..lost / MSS {
            self.lost += MSS;
            self.bbr.on_packet_lost(&LostPacket {
                now: self.now,
                bytes: MSS,
                tx_in_flight: in_flight,
                lost_since_sent: self.lost - lost_before,
                app_limited: self.app_limited,
            });
        }
        if lost > 0 && !self.in_recovery {
            self.in_recovery = true;
            self.congestion(Cause::Loss);
        }
        let acked = rate / 100;
        self.delivered += acked;
        let (lost_since_sent, app_limited) = (self.lost - lost_before, self.app_limited);
        self.bbr.on_ack(&AckEvent {
            now: self.now,
            acked,
            lost,
            prior_in_flight: in_flight + acked,
            in_flight,
            cwnd_limited: false,
            episode: self.in_recovery.then_some(Cause::Loss),
            latest_rtt: Some(RTT),
            srtt: RTT,
            min_rtt: RTT,
            delivered: self.delivered,
            rate: Some(RateSample {
                delivery_rate: rate,
                interval: RTT,
                delivered: rate / 10,
                lost: lost_since_sent,
                prior_delivered,
                tx_in_flight: in_flight,
                app_limited,
            }),
        });
    }

    fn congestion(&mut self, cause: Cause) {
        self.bbr.on_congestion(&CongestionEvent { now: self.now, cause, flight_size: 100_000 });
    }

    /// Through `Startup` with its three flat rounds, and on to `Drain`.
    fn fill_pipe(&mut self) {
        for rate in [BW / 4, BW / 2, BW, BW, BW] {
            self.round(rate, 200_000, 0);
        }
        assert_eq!(self.bbr.phase(), "startup");
        self.round(BW, 200_000, 0);
        assert_eq!(self.bbr.phase(), "drain");
    }

    /// On to `ProbeBW_CRUISE`.
    fn cruise(&mut self) {
        self.fill_pipe();
        for _ in 0..2 {
            self.round(BW, 100_000, 0);
        }
        assert_eq!(self.bbr.phase(), "probe_bw_cruise");
    }

    /// On to `ProbeBW_UP`, within the three seconds that a wait takes at most.
    fn probe_up(&mut self) {
        self.cruise();
        for _ in 0..32 {
            if self.bbr.state == State::ProbeBwUp {
                return;
            }
            self.round(BW, 100_000, 0);
        }
        panic!("no probe in {:?}", self.bbr);
    }
}

#[test]
fn the_first_flight_is_paced_by_the_handshake_or_by_a_millisecond() {
    let config = BbrConfig::new(MSS, 10 * MSS, 1);
    assert_eq!(Bbr::new(config).pacing_rate(), Some(27_700_000), "2.77 * 10,000 bytes in 1 ms");
    let known = BbrConfig { initial_rtt: Some(RTT), ..config };
    assert_eq!(Bbr::new(known.without_deviations()).pacing_rate(), Some(277_000));
    assert_eq!(Bbr::new(known).pacing_rate(), Some(554_000), "one for each 50 ms");
    let mut late = Script::letter();
    late.round(1000, 10_000, 0);
    assert_eq!(
        late.bbr.pacing_rate(),
        Some(277_000),
        "from the first ACK; 1000 bytes a second lower nothing"
    );
    assert_eq!((late.bbr.cwnd(), late.bbr.uses_prr()), (10_000 + 100, false));
}

#[test]
fn each_phase_paces_by_its_gain_less_one_percent() {
    let mut script = Script::letter();
    script.round(BW, 10_000, 0);
    assert_eq!(script.bbr.pacing_rate(), Some(2_742_300), "2.77 * 0.99 of 1 MB/s");
    let mut script = Script::letter();
    script.fill_pipe();
    assert_eq!(script.bbr.pacing_rate(), Some(495_000));
    // Two bandwidth-delay products, and 10,000 bytes because that much is acknowledged at once.
    assert_eq!(script.bbr.cwnd(), 210_000);
    // DOWN has nothing to do where the queue is empty already.
    script.ack(BW, 100_000, 0, (script.delivered, 0));
    assert_eq!((script.bbr.phase(), script.bbr.pacing_rate()), ("probe_bw_cruise", Some(990_000)));
    assert_eq!(script.bbr.send_quantum(), 2 * MSS, "a millisecond is worth 990 bytes");

    let mut script = Script::letter();
    script.probe_up();
    assert_eq!(script.bbr.pacing_rate(), Some(1_237_500));
}

#[test]
fn a_brisk_start_paces_by_6_until_a_round_is_flat() {
    let mut script = Script::new(BbrConfig::new(MSS, 10 * MSS, 1));
    script.round(BW, 10_000, 0);
    assert_eq!(script.bbr.pacing_rate(), Some(5_970_000));
    script.round(BW, 10_000, 0);
    assert_eq!((script.bbr.phase(), script.bbr.pacing_rate()), ("startup", Some(2_756_150)));
}

#[test]
fn a_brisk_start_ends_with_a_mark_but_startup_does_not() {
    let mut script = Script::new(BbrConfig::new(MSS, 10 * MSS, 1));
    script.round(BW, 10_000, 0);
    script.congestion(Cause::Ecn);
    script.round(2 * BW, 10_000, 0);
    assert_eq!((script.bbr.phase(), script.bbr.pacing_rate()), ("startup", Some(5_512_300)), "2.77 again");
}

#[test]
fn a_start_that_went_too_far_ends_with_one_ack_and_a_few_losses_do_not() {
    for (lost, goes_on) in [(1, true), (15, true), (16, false)] {
        let mut script = Script::new(BbrConfig::new(MSS, 10 * MSS, 1));
        script.round(BW, 20_000, 0);
        // Flat: the triples part is over.
        script.round(BW, 20_000, 0);
        script.ack(BW, 20_000, lost * MSS, (script.delivered, script.lost));
        assert_eq!(script.bbr.phase() == "startup", goes_on, "{lost} lost");
    }
}

#[test]
fn a_round_that_the_application_limited_does_not_end_a_brisk_start() {
    let mut script = Script::new(BbrConfig::new(MSS, 10 * MSS, 1));
    script.round(BW, 10_000, 0);
    script.app_limited = true;
    script.round(BW, 10_000, 0);
    script.app_limited = false;
    script.ack(2 * BW, 10_000, 0, (script.delivered, 0));
    assert_eq!(script.bbr.pacing_rate(), Some(11_940_000), "6 * 0.995 of 2 MB/s");
}

#[test]
fn drain_is_given_up_after_three_rounds() {
    let mut script = Script::letter();
    script.fill_pipe();
    for _ in 0..3 {
        script.round(BW, 150_000, 0);
    }
    assert_eq!(script.bbr.phase(), "drain");
    script.round(BW, 150_000, 0);
    assert_eq!(script.bbr.phase(), "probe_bw_down");
}

#[test]
fn startup_ends_with_loss_after_a_round_in_recovery_and_resumes_if_it_was_none() {
    let mut script = Script::letter();
    script.round(BW / 2, 150_000, 0);
    script.round(BW, 150_000, 10);
    assert_eq!(script.bbr.phase(), "startup", "recovery began within this round");
    script.round(BW, 150_000, 10);
    script.round(BW, 150_000, 10);
    assert_eq!(script.bbr.phase(), "drain");
    assert_eq!(script.bbr.inflight_longterm(), Some(100_000), "max(bdp, inflight_latest)");
    script.bbr.on_spurious(script.now);
    assert_eq!((script.bbr.phase(), script.bbr.inflight_longterm()), ("startup", None));
}

#[test]
fn startup_does_not_end_with_loss_that_few_packets_or_little_of_them_met() {
    for losses in [2, 5] {
        let mut script = Script::letter();
        // 2 of 100 are not above 2 %; five events are not six. Growth keeps the plateau out of it.
        for step in 0..6 {
            script.round(BW << step, 100_000 << step, losses);
        }
        assert_eq!(script.bbr.phase(), "startup", "{losses} losses a round");
    }
}

#[test]
fn loss_while_the_rate_grows_ends_startup_only_by_the_letter() {
    let mut letter = Script::letter();
    let config = BbrConfig { fast_startup: false, ..BbrConfig::new(MSS, 10 * MSS, 1) };
    let mut ours = Script::new(config);
    for script in [&mut letter, &mut ours] {
        for step in 0..5 {
            script.round(BW << step, 200_000, 10);
        }
    }
    assert_eq!((letter.bbr.state == State::Startup, ours.bbr.phase()), (false, "startup"));
    // 10 lost beside 1000, 2000 and 4000 delivered: a round is confirmed by the one after it.
    assert!(ours.bbr.base_loss_ppm() > 0);
    for _ in 0..3 {
        ours.round(BW << 4, 200_000, 60);
    }
    assert_ne!(ours.bbr.phase(), "startup", "no growth any more, and 30 % lost");
}

#[test]
fn a_round_with_loss_outside_probes_lowers_the_short_term_bounds() {
    let mut script = Script::letter();
    script.cruise();
    let cwnd = script.bbr.cwnd();
    script.round(BW / 2, 100_000, 1);
    script.round(BW / 2, 100_000, 0);
    script.round(BW / 2, 100_000, 0);
    assert_eq!(script.bbr.bounds.bw_shortterm, BW * 7 / 10, "by 30 % at most");
    assert_eq!(script.bbr.bounds.inflight_shortterm, cwnd * 7 / 10);
    assert_eq!(script.bbr.pacing_rate(), Some(693_000));
    script.bbr.on_spurious(script.now);
    assert_eq!(script.bbr.bounds.bw_shortterm, UNBOUNDED);
}

#[test]
fn a_round_as_fast_as_the_pace_does_not_lower_the_bandwidth_but_by_the_letter() {
    for (own, expected) in [(true, BW), (false, BW * 98 / 100)] {
        for (delivered, expected) in [(BW * 98 / 100, expected), (BW * 97 / 100, BW * 97 / 100)] {
            let config = BbrConfig::new(MSS, 10 * MSS, 1).without_deviations();
            let mut script = Script::new(BbrConfig { skip_pacing_limited: own, ..config });
            script.cruise();
            assert_eq!(script.bbr.pacing_rate(), Some(990_000), "and 2 % less are 970,200");
            let cwnd = script.bbr.cwnd();
            script.round(delivered, 90_000, 1);
            script.round(delivered, 90_000, 0);
            script.round(delivered, 90_000, 0);
            let bounds = script.bbr.bounds;
            assert_eq!(bounds.bw_shortterm, expected, "{own}, {delivered}");
            assert!(bounds.inflight_shortterm < cwnd, "{bounds:?}");
        }
    }
}

#[test]
fn loss_that_the_base_explains_lowers_nothing_but_a_mark_does() {
    let mut script = Script::new(BbrConfig::new(MSS, 10 * MSS, 1));
    script.cruise();
    for _ in 0..3 {
        script.round(BW, 100_000, 0);
    }
    for _ in 0..10 {
        script.round(BW, 100_000, 1);
    }
    assert!((1000..10_000).contains(&script.bbr.base_loss_ppm()), "{}", script.bbr.base_loss_ppm());
    script.bbr.bounds.reset_short_term();
    script.round(BW, 100_000, 1);
    script.round(BW, 100_000, 0);
    assert_eq!(script.bbr.bounds.bw_shortterm, UNBOUNDED);
    script.congestion(Cause::Ecn);
    script.round(BW / 2, 100_000, 0);
    script.round(BW / 2, 100_000, 0);
    assert_eq!(script.bbr.bounds.bw_shortterm, BW, "the best of that round; it had hardly begun");
}

#[test]
fn a_mark_ends_a_probe_where_it_is() {
    let mut script = Script::letter();
    script.probe_up();
    script.congestion(Cause::Ecn);
    assert_eq!((script.bbr.phase(), script.bbr.inflight_longterm()), ("probe_bw_down", Some(100_000)));
    script.round(BW, 84_000, 0);
    assert_eq!((script.bbr.phase(), script.bbr.cwnd()), ("probe_bw_cruise", 85_000), "headroom of 15 %");
}

#[test]
fn excess_loss_in_a_probe_sets_the_long_term_bound_where_it_passed_2_percent() {
    let mut script = Script::letter();
    script.probe_up();
    // Of 100 packets the third that is lost is too many: 2 % of the 99,000 before it are 1980,
    // which are short of the 2000 lost by then.
    script.round(BW, 100_000, 3);
    assert_eq!(script.bbr.inflight_longterm(), Some(99_000));
    assert_eq!(script.bbr.phase(), "probe_bw_down");
    script.round(BW, 84_000, 0);
    assert_eq!((script.bbr.phase(), script.bbr.cwnd()), ("probe_bw_cruise", 84_150), "headroom of 15 %");
    script.bbr.on_spurious(script.now);
    assert_eq!((script.bbr.phase(), script.bbr.inflight_longterm()), ("probe_bw_refill", None));
}

#[test]
fn the_volume_at_loss_lies_within_the_packet_that_passed_the_threshold() {
    let script = Script::letter();
    let lost = LostPacket {
        now: script.now,
        bytes: 10_000,
        tx_in_flight: 100_000,
        lost_since_sent: 11_000,
        app_limited: false,
    };
    // 90,000 before it, 1000 of them lost: (1800 - 1000) / 0.98 more are the prefix.
    assert_eq!(script.bbr.inflight_at_loss(&lost), 90_000 + 816);
}

#[test]
fn a_timeout_leaves_one_segment_and_a_round_gives_the_window_back() {
    let mut script = Script::letter();
    script.cruise();
    let before = script.bbr.cwnd();
    script.congestion(Cause::Timeout);
    assert_eq!(script.bbr.cwnd(), MSS);
    script.in_recovery = true;
    let sent_before = script.delivered - 1;
    script.ack(MSS * 100, 0, 0, (sent_before, script.lost));
    assert_eq!(script.bbr.cwnd(), 4 * MSS, "grows by what is acknowledged, from four segments");
    script.ack(MSS * 100, 0, 0, (sent_before, script.lost));
    assert_eq!(script.bbr.cwnd(), 5 * MSS);
    script.in_recovery = false;
    let now = script.delivered;
    script.ack(MSS * 100, 0, 0, (now, script.lost));
    script.ack(MSS * 100, 0, 0, (now, script.lost));
    assert_eq!(script.bbr.cwnd(), before + MSS, "restored, and grown by what that ACK acknowledged");
}

#[test]
fn rounds_that_the_application_limits_do_not_fill_the_pipe_nor_lower_the_estimate() {
    let mut script = Script::letter();
    script.round(BW, 50_000, 0);
    script.app_limited = true;
    for _ in 0..10 {
        script.round(BW / 5, 20_000, 0);
    }
    assert_eq!((script.bbr.phase(), script.bbr.max_bw()), ("startup", BW));
    script.round(BW * 2, 20_000, 0);
    assert_eq!(script.bbr.max_bw(), BW * 2, "limited, and yet above what was thought possible");
}

#[test]
fn a_pause_stands_in_for_probe_rtt() {
    for (paused, phase) in [(false, "probe_rtt"), (true, "probe_bw_cruise")] {
        let mut script = Script::letter();
        script.cruise();
        script.now += Duration::from_secs(6);
        if paused {
            script.bbr.on_sent(script.now, MSS, MSS, true);
            assert_eq!(script.bbr.pacing_rate(), Some(990_000));
        }
        // Of a packet sent before the wait, so that no probe of bandwidth begins in its place.
        script.bbr.cycle.delay(script.now);
        script.ack(BW, 100_000, 0, (0, 0));
        assert_eq!(script.bbr.phase(), phase, "paused: {paused}");
    }
}

#[test]
fn probe_rtt_halves_the_window_for_200_ms_and_a_round() {
    let mut script = Script::letter();
    script.cruise();
    script.now += Duration::from_secs(6);
    script.bbr.cycle.delay(script.now);
    script.ack(BW, 100_000, 0, (0, 0));
    assert_eq!((script.bbr.phase(), script.bbr.cwnd()), ("probe_rtt", 50_000));
    script.round(BW / 2, 50_000, 0);
    script.round(BW / 2, 50_000, 0);
    assert_eq!(script.bbr.phase(), "probe_rtt", "200 ms since in flight came down are not over");
    script.round(BW / 2, 50_000, 0);
    assert_eq!(script.bbr.phase(), "probe_bw_cruise");
    assert_eq!(script.bbr.max_bw(), BW, "half a window proves nothing");
    assert_eq!(script.bbr.cwnd(), 210_000);
}
