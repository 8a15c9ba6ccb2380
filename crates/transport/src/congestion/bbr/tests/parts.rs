//! Controller with scripted ACKs and calculated values. A round has ten ACKs, 10 ms apart. Each
//! covers a packet sent at the tenth ACK before it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::origin;
use crate::congestion::bbr::math::UNBOUNDED;
use crate::congestion::bbr::{Bbr, BbrConfig, State};
use crate::congestion::{AckEvent, Cause, CongestionEvent, Controller, LostPacket, RateSample};

const MSS: u64 = 1000;
/// Bytes per second: the bandwidth-delay product at 100 ms is 100,000 bytes.
const BW: u64 = 1_000_000;
const RTT: Duration = Duration::from_millis(100);

struct Script {
    bbr: Bbr,
    now: Instant,
    delivered: u64,
    lost: u64,
    in_recovery: bool,
    app_limited: bool,
    /// Bytes delivered and lost after each of the last ten ACKs.
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

    /// Runs one round at `rate` with `in_flight` bytes in flight and `losses` lost packets.
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
            way_back: Duration::ZERO,
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

    /// Runs `Startup` including three flat rounds, up to `Drain`.
    fn fill_pipe(&mut self) {
        for rate in [BW / 4, BW / 2, BW, BW, BW] {
            self.round(rate, 200_000, 0);
        }
        assert_eq!(self.bbr.phase(), "startup");
        self.round(BW, 200_000, 0);
        assert_eq!(self.bbr.phase(), "drain");
    }

    /// Runs up to `ProbeBW_CRUISE`.
    fn cruise(&mut self) {
        self.fill_pipe();
        for _ in 0..2 {
            self.round(BW, 100_000, 0);
        }
        assert_eq!(self.bbr.phase(), "probe_bw_cruise");
    }

    /// Runs up to `ProbeBW_UP`, within the largest wait of 3 s.
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
fn first_flight_is_paced_by_handshake_rtt() {
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
fn phases_pace_by_gain_minus_margin() {
    let mut script = Script::letter();
    script.round(BW, 10_000, 0);
    assert_eq!(script.bbr.pacing_rate(), Some(2_742_300), "2.77 * 0.99 of 1 MB/s");
    let mut script = Script::letter();
    script.fill_pipe();
    assert_eq!(script.bbr.pacing_rate(), Some(495_000));
    // Two bandwidth-delay products, and 10,000 bytes of ACK aggregation.
    assert_eq!(script.bbr.cwnd(), 210_000);
    // DOWN ends at once, as the queue is empty already.
    script.ack(BW, 100_000, 0, (script.delivered, 0));
    assert_eq!((script.bbr.phase(), script.bbr.pacing_rate()), ("probe_bw_cruise", Some(990_000)));
    assert_eq!(script.bbr.send_quantum(), 2 * MSS, "a millisecond is worth 990 bytes");

    let mut script = Script::letter();
    script.probe_up();
    assert_eq!(script.bbr.pacing_rate(), Some(1_237_500));
}

#[test]
fn tripling_ends_after_flat_round() {
    let mut script = Script::new(BbrConfig::new(MSS, 10 * MSS, 1));
    script.round(BW, 10_000, 0);
    assert_eq!(script.bbr.pacing_rate(), Some(5_970_000));
    script.round(BW, 10_000, 0);
    assert_eq!((script.bbr.phase(), script.bbr.pacing_rate()), ("startup", Some(2_756_150)));
}

#[test]
fn ce_mark_ends_tripling_but_not_startup() {
    let mut script = Script::new(BbrConfig::new(MSS, 10 * MSS, 1));
    script.round(BW, 10_000, 0);
    script.congestion(Cause::Ecn);
    script.round(2 * BW, 10_000, 0);
    assert_eq!((script.bbr.phase(), script.bbr.pacing_rate()), ("startup", Some(5_512_300)), "2.77 again");
}

#[test]
fn one_ack_of_heavy_loss_ends_startup() {
    for (lost, goes_on) in [(1, true), (15, true), (16, false)] {
        let mut script = Script::new(BbrConfig::new(MSS, 10 * MSS, 1));
        script.round(BW, 20_000, 0);
        // Flat: tripling is over.
        script.round(BW, 20_000, 0);
        script.ack(BW, 20_000, lost * MSS, (script.delivered, script.lost));
        assert_eq!(script.bbr.phase() == "startup", goes_on, "{lost} lost");
    }
}

#[test]
fn app_limited_round_does_not_end_tripling() {
    let mut script = Script::new(BbrConfig::new(MSS, 10 * MSS, 1));
    script.round(BW, 10_000, 0);
    script.app_limited = true;
    script.round(BW, 10_000, 0);
    script.app_limited = false;
    script.ack(2 * BW, 10_000, 0, (script.delivered, 0));
    assert_eq!(script.bbr.pacing_rate(), Some(11_940_000), "6 * 0.995 of 2 MB/s");
}

#[test]
fn drain_ends_after_three_rounds() {
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
fn spurious_loss_resumes_startup() {
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
fn startup_ignores_few_or_small_losses() {
    for losses in [2, 5] {
        let mut script = Script::letter();
        // 2 of 100 do not exceed 2 %; five events are below six. Growth avoids the plateau exit.
        for step in 0..6 {
            script.round(BW << step, 100_000 << step, losses);
        }
        assert_eq!(script.bbr.phase(), "startup", "{losses} losses a round");
    }
}

#[test]
fn loss_during_growth_ends_startup_only_without_deviations() {
    let mut letter = Script::letter();
    let config = BbrConfig { fast_startup: false, ..BbrConfig::new(MSS, 10 * MSS, 1) };
    let mut ours = Script::new(config);
    for script in [&mut letter, &mut ours] {
        for step in 0..5 {
            script.round(BW << step, 200_000, 10);
        }
    }
    assert_eq!((letter.bbr.state == State::Startup, ours.bbr.phase()), (false, "startup"));
    // 10 lost besides 1000, 2000 and 4000 delivered: the next round confirms each round.
    assert!(ours.bbr.base_loss_ppm() > 0);
    for _ in 0..3 {
        ours.round(BW << 4, 200_000, 60);
    }
    assert_ne!(ours.bbr.phase(), "startup", "no growth any more, and 30 % lost");
}

#[test]
fn loss_outside_probes_lowers_short_term_bounds() {
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
fn pacing_limited_round_keeps_bandwidth_unless_disabled() {
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
fn lossy_down_round_lowers_bandwidth_by_loss() {
    for (discounts, expected) in [(true, BW * 95 / 100), (false, BW * 855 / 1000)] {
        let config = BbrConfig::new(MSS, 10 * MSS, 1).without_deviations();
        let mut script = Script::new(BbrConfig { discount_down_gain: discounts, ..config });
        script.probe_up();
        script.congestion(Cause::Ecn);
        assert_eq!(script.bbr.phase(), "probe_bw_down");
        // More in flight than the bandwidth-delay product, so that DOWN goes on.
        // Of 0.9 of the bandwidth, 95 % arrives.
        for losses in [0, 0, 1, 0, 0] {
            script.round(BW * 855 / 1000, 110_000, losses);
        }
        assert_eq!(script.bbr.phase(), "probe_bw_down");
        assert_eq!(script.bbr.bounds.bw_shortterm, expected, "{discounts}");
    }
}

#[test]
fn base_loss_lowers_no_bound_but_mark_does() {
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
fn ce_mark_ends_probe_at_current_inflight() {
    let mut script = Script::letter();
    script.probe_up();
    script.congestion(Cause::Ecn);
    assert_eq!((script.bbr.phase(), script.bbr.inflight_longterm()), ("probe_bw_down", Some(100_000)));
    script.round(BW, 84_000, 0);
    assert_eq!((script.bbr.phase(), script.bbr.cwnd()), ("probe_bw_cruise", 85_000), "headroom of 15 %");
}

#[test]
fn excess_probe_loss_sets_long_term_bound() {
    let mut script = Script::letter();
    script.probe_up();
    // The third loss of 100 packets is too many: 2 % of the 99,000 bytes before it are 1980, less
    // than the 2000 bytes lost before.
    script.round(BW, 100_000, 3);
    assert_eq!(script.bbr.inflight_longterm(), Some(99_000));
    assert_eq!(script.bbr.phase(), "probe_bw_down");
    script.round(BW, 84_000, 0);
    assert_eq!((script.bbr.phase(), script.bbr.cwnd()), ("probe_bw_cruise", 84_150), "headroom of 15 %");
    script.bbr.on_spurious(script.now);
    assert_eq!((script.bbr.phase(), script.bbr.inflight_longterm()), ("probe_bw_refill", None));
}

#[test]
fn refill_loss_ends_probe_only_without_deviation() {
    for (skips, phase) in [(true, "probe_bw_up"), (false, "probe_bw_down")] {
        let config = BbrConfig::new(MSS, 10 * MSS, 1).without_deviations();
        let mut script = Script::new(BbrConfig { skip_refill_loss: skips, ..config });
        script.probe_up();
        // Packets sent before UP: the third loss of 100 is too many.
        script.ack(BW, 100_000, 3 * MSS, (0, script.lost));
        assert_eq!(script.bbr.phase(), phase, "{skips}");
        if skips {
            assert_eq!(script.bbr.inflight_longterm(), None);
            script.round(BW, 100_000, 0);
            script.round(BW, 100_000, 3);
            assert_eq!(script.bbr.phase(), "probe_bw_down", "packets sent in UP");
        }
    }
}

#[test]
fn inflight_at_loss_lies_within_lost_packet() {
    let script = Script::letter();
    let lost = LostPacket {
        now: script.now,
        bytes: 10_000,
        tx_in_flight: 100_000,
        lost_since_sent: 11_000,
        app_limited: false,
    };
    // 90,000 bytes before it, 1000 of them lost: the prefix is (1800 - 1000) / 0.98 more.
    assert_eq!(script.bbr.inflight_at_loss(&lost), 90_000 + 816);
}

#[test]
fn timeout_window_is_restored_after_one_round() {
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
fn app_limited_rounds_do_not_change_model() {
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
fn idle_period_replaces_probe_rtt() {
    for (paused, phase) in [(false, "probe_rtt"), (true, "probe_bw_cruise")] {
        let mut script = Script::letter();
        script.cruise();
        script.now += Duration::from_secs(6);
        if paused {
            script.bbr.on_sent(script.now, MSS, MSS, true);
            assert_eq!(script.bbr.pacing_rate(), Some(990_000));
        }
        // The ACK covers a packet sent before the wait, so that no bandwidth probe begins instead.
        script.bbr.cycle.delay(script.now);
        script.ack(BW, 100_000, 0, (0, 0));
        assert_eq!(script.bbr.phase(), phase, "paused: {paused}");
    }
}

#[test]
fn probe_rtt_halves_window_for_200_ms() {
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
