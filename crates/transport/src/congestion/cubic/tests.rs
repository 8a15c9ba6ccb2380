//! Calculated values, in segments of 1000 bytes.

use super::super::tests::{ack, congestion, start};
use super::*;

const MSS: u64 = 1000;
const RTT: Duration = Duration::from_millis(100);

/// RTT so short that the target equals the curve at the current time.
const INSTANTLY: Duration = Duration::ZERO;

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Controller in congestion avoidance with this window and no previous plateau.
fn cubic(packets: u32) -> Cubic {
    let mut cubic = Cubic { hystart: None, ..Cubic::new(MSS, packets, false) };
    cubic.window.ssthresh = Some(1.0);
    cubic
}

/// Returns a controller just reduced from this many segments in flight.
fn after_loss(packets: u32) -> Cubic {
    let mut cubic = cubic(packets);
    cubic.on_congestion(&congestion(start(), Cause::Loss, u64::from(packets) * MSS));
    cubic
}

fn near(got: f64, expected: f64, within: f64, what: &str) {
    assert!((got - expected).abs() <= within, "{what}: {got} instead of {expected}");
}

fn table(text: &str) -> impl Iterator<Item = (Vec<f64>, &str)> {
    text.lines().skip(1).map(|line| {
        let numbers = line.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
        (numbers, line.rsplit(',').next().unwrap())
    })
}

#[test]
fn loss_at_1000_packets_follows_rfc_curve() {
    let mut cubic = after_loss(1000);
    assert_eq!((cubic.cwnd(), cubic.ssthresh()), (700 * MSS, Some(700 * MSS)));
    assert_eq!(cubic.phase(), "recovery");
    let now = start();
    cubic.on_ack(&ack(now, 0));
    assert_eq!((cubic.cwnd(), cubic.phase()), (700 * MSS, "congestion_avoidance"));
    let epoch = cubic.window.epoch.unwrap();
    near(epoch.k, 9.0856, 0.00005, "K = cbrt(300 / 0.4)");
    near(epoch.w_cubic(secs(0.0)), 700.0, 1e-9, "at 0 s");
    // 1000 - 0.4 * 8.0856^3, 1000 - 0.4 * 4.0856^3, 1000 - 0.4 * 0.0856^3.
    near(epoch.w_cubic(secs(1.0)), 788.555, 0.001, "at 1 s");
    near(epoch.w_cubic(secs(5.0)), 972.721, 0.001, "at 5 s");
    near(epoch.w_cubic(secs(9.0)), 999.9997, 0.0001, "at 9 s");
}

#[test]
fn curve_matches_oracle_table() {
    let mut rows = 0;
    for (row, _) in table(include_str!("../../../tests/oracles/cubic-curve.csv")) {
        let [w_max, rtt, k, at, now, ahead] = row[..6] else { panic!("{row:?}") };
        let epoch = Epoch::new(start(), BETA * w_max, Some(w_max));
        near(epoch.k, k, 2e-6, "K");
        near(epoch.w_cubic(secs(at)), now, 1e-3, "W_cubic(t)");
        near(epoch.w_cubic(secs(at + rtt)), ahead, 2e-3, "W_cubic(t + RTT)");
        rows += 1;
    }
    assert_eq!(rows, 126);
}

#[test]
fn loss_sets_k_as_in_table() {
    let mut rows = 0;
    for (line, _) in table(include_str!("../../../tests/oracles/cubic-k.csv")) {
        let converging = rows % 2 == 1;
        let [at_loss, _, w_max, after, k] = line[..5] else { panic!("{line:?}") };
        let mut cubic = cubic(format!("{at_loss}").parse().unwrap());
        // Fast convergence applies if the window was larger before.
        cubic.window.w_max = converging.then_some(at_loss + 1.0);
        cubic.on_congestion(&congestion(start(), Cause::Loss, cubic.cwnd()));
        cubic.on_ack(&ack(start(), 0));
        let epoch = cubic.window.epoch.unwrap();
        near(cubic.window.cwnd, after, 1e-6, "cwnd");
        near(epoch.w_max, w_max, 1e-6, "W_max");
        near(epoch.k, k, 2e-6, "K");
        rows += 1;
    }
    assert_eq!(rows, 12);
}

/// Acknowledges whole windows, one ACK per segment, for `length` after `from`.
fn run(cubic: &mut Cubic, from: Instant, rtt: Duration, length: Duration) -> Instant {
    let mut now = from;
    while now < from + length {
        let segments = cubic.cwnd() / MSS;
        for _ in 0..segments {
            now += rtt / u32::try_from(segments).unwrap();
            cubic.on_ack(&AckEvent { srtt: rtt, ..ack(now, MSS) });
        }
    }
    now
}

#[test]
fn window_follows_concave_and_convex_curve() {
    // `W_cubic` of the table at 1000 segments and 100 ms; there it exceeds Reno's estimate.
    let mut cubic = after_loss(1000);
    let epoch = start();
    cubic.on_ack(&ack(epoch, 0));
    let mut now = epoch;
    let mut worst: f64 = 0.0;
    for _ in 0..170 {
        now = run(&mut cubic, now, RTT, RTT);
        let t = now.duration_since(epoch).as_secs_f64();
        let curve = 0.4 * (t - 750_f64.cbrt()).powi(3) + 1000.0;
        worst = worst.max((cubic.window.cwnd / curve - 1.0).abs());
    }
    assert!(worst < 0.005, "{worst}");
    assert!(cubic.window.cwnd > 1190.0);
}

#[test]
fn window_of_acks_reaches_next_rtt_target() {
    let mut cubic = after_loss(1000);
    let now = start();
    cubic.on_ack(&ack(now, 0));
    cubic.on_ack(&ack(now + RTT, 700 * MSS));
    // W_cubic(0.2) = 1000 - 0.4 * 8.8856^3.
    near(cubic.window.cwnd, 719.379, 0.001, "cwnd");
}

#[test]
fn target_is_between_1_and_1_5_windows() {
    let mut cubic = after_loss(1000);
    let now = start();
    cubic.on_ack(&ack(now, 0));
    // Far out, the curve is at 0.4 * (100 - 9.0856)^3 + 1000 = 301 572 segments.
    cubic.accounted = Some(now + secs(100.0));
    cubic.on_ack(&ack(now + secs(100.0), 700 * MSS));
    near(cubic.window.cwnd, 1050.0, 1e-9, "cwnd");
    // Earlier in the epoch the curve is below the window: no change.
    cubic.on_ack(&ack(now + secs(1.0), 700 * MSS));
    near(cubic.window.cwnd, 1050.0, 1e-9, "cwnd");
}

#[test]
fn reno_friendly_region_uses_reno_estimate() {
    // alpha per window: 3 * 0.3 / 1.7 = 0.529412 up to the previous window, then 1.
    near(ALPHA, 0.529_412, 1e-6, "alpha");
    let mut cubic = after_loss(10);
    let now = start();
    let mut expected = 7.0;
    for round in 0..12 {
        // All at the same time, so that the curve stays at 7.
        cubic.on_ack(&AckEvent { srtt: INSTANTLY, ..ack(now, cubic.cwnd()) });
        expected += if expected >= 10.0 { 1.0 } else { 0.529_412 };
        near(cubic.window.cwnd, expected, 0.001, &format!("round {round}"));
    }
    // 10.18 after six rounds, 16.18 after twelve.
    near(cubic.window.cwnd, 16.176, 0.01, "at last");
}

#[test]
fn fast_convergence_lowers_plateau_after_fall() {
    let mut cubic = after_loss(100);
    assert_eq!(cubic.window.w_max, Some(100.0));
    cubic.on_congestion(&congestion(start(), Cause::Loss, 70 * MSS));
    // 70 < 100: W_max = 70 * 1.7 / 2.
    near(cubic.window.w_max.unwrap(), 59.5, 1e-9, "W_max");
    near(cubic.window.cwnd, 49.0, 1e-9, "cwnd");
    cubic.window.cwnd = 80.0;
    cubic.on_congestion(&congestion(start(), Cause::Loss, 80 * MSS));
    near(cubic.window.w_max.unwrap(), 80.0, 1e-9, "W_max");
}

#[test]
fn ssthresh_is_at_least_two_segments() {
    for (flight, ssthresh) in [(1, 2000), (2, 2000), (3, 2100), (10, 7000)] {
        for cause in [Cause::Loss, Cause::Ecn, Cause::Timeout] {
            let mut cubic = cubic(10);
            cubic.on_congestion(&congestion(start(), cause, flight * MSS));
            assert_eq!(cubic.ssthresh(), Some(ssthresh), "{cause:?}, {flight} in flight");
        }
    }
}

#[test]
fn mark_reduces_as_loss_and_is_final() {
    let (mut lost, mut marked) = (cubic(100), cubic(100));
    lost.on_congestion(&congestion(start(), Cause::Loss, 100 * MSS));
    marked.on_congestion(&congestion(start(), Cause::Ecn, 100 * MSS));
    assert_eq!((marked.cwnd(), marked.ssthresh()), (lost.cwnd(), lost.ssthresh()));
    assert_eq!(marked.window.w_max, lost.window.w_max);
    assert_eq!(marked.phase(), "congestion_avoidance");
    marked.on_spurious(start());
    assert_eq!(marked.cwnd(), 70 * MSS);
}

#[test]
fn recovery_holds_window() {
    let mut cubic = after_loss(100);
    let now = start();
    for i in 0..200 {
        cubic.on_ack(&AckEvent { episode: Some(Cause::Loss), ..ack(now + RTT * i, MSS) });
    }
    assert_eq!((cubic.cwnd(), cubic.window.epoch.is_none()), (70 * MSS, true));
}

#[test]
fn unused_window_time_pauses_curve() {
    let mut cubic = after_loss(1000);
    let begin = start();
    cubic.on_ack(&ack(begin, 0));
    let now = run(&mut cubic, begin, RTT, secs(2.0));
    let used = cubic.window.cwnd;
    // 30 s app-limited, with an ACK every 100 ms.
    let unused = now + secs(30.0);
    for i in 1..=300 {
        cubic.on_ack(&AckEvent { cwnd_limited: false, ..ack(now + RTT * i, MSS) });
    }
    near(cubic.window.cwnd, used, 1e-9, "unused");
    // 10 s idle.
    let idle_until = unused + secs(10.0);
    cubic.on_sent(idle_until, MSS, MSS, false);
    cubic.on_sent(idle_until, MSS, 2 * MSS, false);
    let curve_at = idle_until.duration_since(cubic.window.epoch.unwrap().start);
    near(curve_at.as_secs_f64(), now.duration_since(begin).as_secs_f64(), 1e-6, "time on the curve");
    run(&mut cubic, idle_until, RTT, RTT);
    // W_cubic(2.2) is 869.3: the curve continues from 2 s, not from 42 s.
    near(cubic.window.cwnd, 869.0, 8.0, "used again");
}

#[test]
fn timeout_restarts_from_threshold() {
    let mut cubic = cubic(100);
    cubic.window.w_max = Some(1000.0);
    cubic.on_congestion(&congestion(start(), Cause::Timeout, 100 * MSS));
    assert_eq!((cubic.cwnd(), cubic.ssthresh()), (MSS, Some(70 * MSS)));
    // Slow start: one segment per ACK during recovery, two afterwards.
    cubic.on_ack(&AckEvent { episode: Some(Cause::Timeout), ..ack(start(), 2 * MSS) });
    assert_eq!((cubic.cwnd(), cubic.phase()), (2 * MSS, "slow_start"));
    for _ in 0..40 {
        cubic.on_ack(&ack(start(), 2 * MSS));
    }
    assert_eq!((cubic.cwnd() / MSS, cubic.phase()), (70, "congestion_avoidance"));
    // Section 4.8: K = 0; W_max and W_est equal the window at the start of avoidance.
    let epoch = cubic.window.epoch.unwrap();
    assert_eq!((epoch.k, epoch.w_max), (0.0, 70.0));
    // 0.4 * 3^3 + 70.
    near(epoch.w_cubic(secs(3.0)), 80.8, 1e-9, "at 3 s");
}

#[test]
fn repeated_timeout_keeps_threshold_until_ack() {
    let mut cubic = cubic(100);
    for flight in [100, 1, 1] {
        cubic.on_congestion(&congestion(start(), Cause::Timeout, flight * MSS));
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (MSS, Some(70 * MSS)));
    }
    cubic.on_ack(&AckEvent { episode: Some(Cause::Timeout), ..ack(start(), MSS) });
    cubic.on_congestion(&congestion(start(), Cause::Timeout, 20 * MSS));
    assert_eq!(cubic.ssthresh(), Some(14 * MSS));
}

#[test]
fn spurious_episode_restores_curve() {
    for cause in [Cause::Loss, Cause::Timeout] {
        let mut cubic = after_loss(1000);
        let now = run(&mut cubic, start(), RTT, secs(3.0));
        let before = cubic.window;
        cubic.on_congestion(&congestion(now, cause, cubic.cwnd()));
        assert!(cubic.window.cwnd < before.cwnd);
        cubic.on_spurious(now);
        let after = cubic.window;
        assert_eq!((after.cwnd, after.ssthresh), (before.cwnd, before.ssthresh), "{cause:?}");
        assert_eq!((after.cwnd_prior, after.w_max), (before.cwnd_prior, before.w_max), "{cause:?}");
        let (after, before) = (after.epoch.unwrap(), before.epoch.unwrap());
        assert_eq!((after.start, after.k, after.w_est), (before.start, before.k, before.w_est), "{cause:?}");
        cubic.window.cwnd = 5.0;
        cubic.on_spurious(now);
        assert_eq!(cubic.cwnd(), 5 * MSS, "{cause:?}: only once");
    }
}

#[test]
fn recovered_episode_is_never_undone() {
    for cause in [Cause::Loss, Cause::Timeout] {
        let mut cubic = cubic(100);
        let now = start();
        cubic.on_congestion(&congestion(now, cause, 100 * MSS));
        cubic.on_ack(&AckEvent { episode: Some(cause), ..ack(now, 70 * MSS) });
        // The first ACK after the end of the recovery.
        cubic.on_ack(&ack(now, MSS));
        let window = cubic.cwnd();
        cubic.on_spurious(now);
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (window, Some(70 * MSS)), "{cause:?}");
    }
}

#[test]
fn hystart_exit_begins_curve_without_loss() {
    let mut cubic = Cubic::new(MSS, 10, false);
    let mut now = start();
    let mut delivered = 0;
    let mut phases = vec![cubic.phase()];
    // Link with 100 ms RTT and 10 packets/ms: a queue builds beyond 1000 packets.
    for _ in 0..20 {
        let flight = cubic.cwnd() / MSS;
        let rtt = RTT.max(Duration::from_micros(100 * flight));
        for i in 0..flight {
            delivered += MSS;
            let in_flight = if i + 1 == flight { cubic.cwnd() } else { (flight - i - 1) * MSS };
            now += rtt / u32::try_from(flight).unwrap();
            cubic.on_ack(&AckEvent { delivered, in_flight, latest_rtt: Some(rtt), ..ack(now, MSS) });
            if phases.last() != Some(&cubic.phase()) {
                phases.push(cubic.phase());
            }
        }
    }
    assert_eq!(phases, ["slow_start", "conservative_slow_start", "congestion_avoidance"]);
    let epoch = cubic.window.epoch.unwrap();
    assert_eq!((epoch.k, Some(epoch.w_max)), (0.0, cubic.window.ssthresh));
    assert_eq!(Some(cubic.window.cwnd_prior), cubic.window.ssthresh);
    // 10 doubles to 1280, where the queue raises the RTT. Then five rounds of at most 25 %: 1280 *
    // 2 * 1.25^5.
    let ssthresh = epoch.w_max;
    assert!((1280.0..7900.0).contains(&ssthresh), "{ssthresh}");
}

#[test]
fn later_slow_starts_ignore_rtt_rise() {
    let mut cubic = Cubic::new(MSS, 10, true);
    cubic.on_congestion(&congestion(start(), Cause::Timeout, 10_000 * MSS));
    let mut delivered = 0;
    for round in 0..12 {
        let flight = 1 << round;
        for i in 0..flight {
            delivered += MSS;
            // At the last ACK of a round, the next round is in flight.
            let in_flight = if i + 1 == flight { 2 * flight } else { flight - i - 1 } * MSS;
            let latest_rtt = Some(RTT * (1 + round));
            cubic.on_ack(&AckEvent { in_flight, latest_rtt, delivered, ..ack(start(), MSS) });
        }
        assert_eq!((cubic.cwnd(), cubic.phase()), (2 * flight * MSS, "slow_start"), "round {round}");
    }
}

#[test]
fn new_mss_keeps_window_in_bytes() {
    let mut cubic = after_loss(100);
    cubic.on_ack(&ack(start(), 0));
    cubic.on_mss(500);
    assert_eq!((cubic.cwnd(), cubic.ssthresh()), (70_000, Some(70_000)));
    assert_eq!(cubic.window.w_max, Some(200.0));
    cubic.on_mss(1_000_000);
    assert_eq!(cubic.cwnd(), 1_000_000);
}
