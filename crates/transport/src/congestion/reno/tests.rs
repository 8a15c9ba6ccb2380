//! Calculated values, in segments of 1000 bytes.

use super::super::tests::{ack, congestion, start};
use super::*;

const MSS: u64 = 1000;

fn reno(packets: u32) -> Reno {
    Reno::new(MSS, packets)
}

/// Controller in congestion avoidance with a window of `packets` segments.
fn avoiding(packets: u64) -> Reno {
    let mut reno = Reno::new(MSS, u32::try_from(2 * packets).unwrap());
    reno.on_congestion(&congestion(start(), Cause::Ecn, 2 * packets * MSS));
    assert_eq!((reno.cwnd(), reno.phase()), (packets * MSS, "congestion_avoidance"));
    reno
}

fn acks(reno: &mut Reno, count: u64, bytes: u64) {
    for _ in 0..count {
        reno.on_ack(&ack(start(), bytes));
    }
}

#[test]
fn slow_start_counts_two_segments_per_ack() {
    const TABLE: &str = include_str!("../../../tests/oracles/ack-growth.csv");
    let mut rows = 0;
    for line in TABLE.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let words: Vec<&str> = cells[0].split(' ').collect();
        let (count, each): (u64, u64) = (words[0].parse().unwrap(), words[3].parse().unwrap());
        let mut reno = reno(10);
        acks(&mut reno, count, each * MSS);
        let expected = (cells[3].parse::<f64>().unwrap() * 1000.0).round();
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let cwnd = reno.cwnd() as f64;
        assert!((cwnd - expected).abs() < 0.5, "{line}: got {cwnd}");
        rows += 1;
    }
    assert_eq!(rows, 4);
}

#[test]
fn paced_slow_start_counts_all_bytes() {
    let mut reno = Reno { paced: true, ..reno(10) };
    acks(&mut reno, 1, 7 * MSS);
    assert_eq!(reno.cwnd(), 17 * MSS);
    reno.on_congestion(&congestion(start(), Cause::Timeout, 16 * MSS));
    reno.on_ack(&AckEvent { episode: Some(Cause::Timeout), ..ack(start(), 7 * MSS) });
    assert_eq!(reno.cwnd(), 8 * MSS);
}

#[test]
fn slow_start_stops_at_ssthresh() {
    let mut reno = reno(16);
    reno.on_congestion(&congestion(start(), Cause::Timeout, 9 * MSS));
    acks(&mut reno, 3, MSS);
    assert_eq!((reno.cwnd(), reno.phase()), (4 * MSS, "slow_start"));
    acks(&mut reno, 1, MSS);
    assert_eq!((reno.cwnd(), reno.ssthresh()), (4500, Some(4500)));
    assert_eq!(reno.phase(), "congestion_avoidance");
}

#[test]
fn avoidance_adds_one_segment_per_window() {
    // Two windows of bytes: 10 000, then 11 000.
    for each in [500, MSS, 3000, 7000, 21_000] {
        let mut reno = avoiding(10);
        acks(&mut reno, 21_000 / each, each);
        assert_eq!(reno.cwnd(), 12 * MSS, "ACKs of {each} bytes");
    }
    let mut reno = avoiding(10);
    acks(&mut reno, 9, MSS);
    assert_eq!(reno.cwnd(), 10 * MSS);
}

#[test]
fn unused_window_does_not_grow() {
    let unused = AckEvent { cwnd_limited: false, ..ack(start(), MSS) };
    let mut in_slow_start = reno(10);
    let mut in_avoidance = avoiding(10);
    for _ in 0..100 {
        in_slow_start.on_ack(&unused);
        in_avoidance.on_ack(&unused);
    }
    assert_eq!((in_slow_start.cwnd(), in_avoidance.cwnd()), (10 * MSS, 10 * MSS));
}

#[test]
fn congestion_halves_flight_to_two_segments_minimum() {
    // Flight and ssthresh in bytes: half, at least 2 * 1000.
    for (flight, ssthresh) in [(20_000, 10_000), (9000, 4500), (4000, 2000), (3000, 2000), (1000, 2000)] {
        for cause in [Cause::Loss, Cause::Ecn] {
            let mut reno = reno(20);
            reno.on_congestion(&congestion(start(), cause, flight));
            assert_eq!((reno.cwnd(), reno.ssthresh()), (ssthresh, Some(ssthresh)), "{cause:?} {flight}");
        }
    }
}

#[test]
fn recovery_holds_window_until_avoidance() {
    let mut reno = reno(20);
    reno.on_congestion(&congestion(start(), Cause::Loss, 20 * MSS));
    let during = AckEvent { episode: Some(Cause::Loss), ..ack(start(), MSS) };
    for _ in 0..40 {
        reno.on_ack(&during);
    }
    assert_eq!((reno.cwnd(), reno.phase()), (10 * MSS, "recovery"));
    acks(&mut reno, 10, MSS);
    assert_eq!((reno.cwnd(), reno.phase()), (11 * MSS, "congestion_avoidance"));
}

#[test]
fn timeout_restarts_from_one_segment() {
    let mut reno = reno(20);
    reno.on_congestion(&congestion(start(), Cause::Timeout, 20 * MSS));
    assert_eq!((reno.cwnd(), reno.ssthresh()), (MSS, Some(10 * MSS)));
    // Recovery from a timeout does not hold the window: one segment per ACK, not two.
    let during = AckEvent { episode: Some(Cause::Timeout), ..ack(start(), 2 * MSS) };
    reno.on_ack(&during);
    reno.on_ack(&during);
    assert_eq!(reno.cwnd(), 3 * MSS);
    acks(&mut reno, 1, 2 * MSS);
    assert_eq!(reno.cwnd(), 5 * MSS);
}

#[test]
fn repeated_timeout_keeps_threshold_until_ack() {
    let mut reno = reno(20);
    for flight in [20 * MSS, MSS, MSS] {
        reno.on_congestion(&congestion(start(), Cause::Timeout, flight));
        assert_eq!((reno.cwnd(), reno.ssthresh()), (MSS, Some(10 * MSS)));
    }
    reno.on_ack(&AckEvent { episode: Some(Cause::Timeout), ..ack(start(), MSS) });
    reno.on_congestion(&congestion(start(), Cause::Timeout, 8 * MSS));
    assert_eq!((reno.cwnd(), reno.ssthresh()), (MSS, Some(4 * MSS)));
}

#[test]
fn spurious_episode_is_undone_once() {
    let mut reno = avoiding(10);
    reno.on_congestion(&congestion(start(), Cause::Loss, 10 * MSS));
    assert_eq!(reno.cwnd(), 5 * MSS);
    reno.on_spurious(start());
    assert_eq!((reno.cwnd(), reno.ssthresh()), (10 * MSS, Some(10 * MSS)));
    reno.on_spurious(start());
    assert_eq!(reno.cwnd(), 10 * MSS);
}

#[test]
fn recovered_episode_is_never_undone() {
    for cause in [Cause::Loss, Cause::Timeout] {
        let mut reno = reno(20);
        reno.on_congestion(&congestion(start(), cause, 20 * MSS));
        reno.on_ack(&AckEvent { episode: Some(cause), ..ack(start(), MSS) });
        // The first ACK after the end of the recovery.
        acks(&mut reno, 1, MSS);
        let window = reno.cwnd();
        reno.on_spurious(start());
        assert_eq!((reno.cwnd(), reno.ssthresh()), (window, Some(10 * MSS)), "{cause:?}");
    }
}

#[test]
fn spurious_timeout_is_undone_after_backoffs() {
    let mut reno = reno(20);
    reno.on_congestion(&congestion(start(), Cause::Timeout, 20 * MSS));
    reno.on_congestion(&congestion(start(), Cause::Timeout, 20 * MSS));
    reno.on_spurious(start());
    assert_eq!((reno.cwnd(), reno.ssthresh(), reno.phase()), (20 * MSS, None, "slow_start"));
}

#[test]
fn ce_mark_is_never_undone() {
    let mut reno = reno(20);
    reno.on_congestion(&congestion(start(), Cause::Loss, 20 * MSS));
    reno.on_congestion(&congestion(start(), Cause::Ecn, 10 * MSS));
    reno.on_spurious(start());
    assert_eq!(reno.cwnd(), 5 * MSS);
}

#[test]
fn congestion_never_grows_window() {
    // After a timeout the flight may still be much larger than the window.
    let mut reno = reno(20);
    reno.on_congestion(&congestion(start(), Cause::Timeout, 20 * MSS));
    reno.on_congestion(&congestion(start(), Cause::Loss, 20 * MSS));
    assert_eq!((reno.cwnd(), reno.ssthresh()), (MSS, Some(10 * MSS)));
}

#[test]
fn window_is_at_least_one_segment() {
    let mut reno = reno(1);
    reno.on_mss(1400);
    assert_eq!(reno.cwnd(), 1400);
}
