//! Measured rates against the models of a university course, in virtual time.

use std::time::Duration;

use rdt::sim::{Outcome, Scenario};

/// Payload of a full packet, and the wire size of the packet and its ACK, bits.
const PAYLOAD_BITS: f64 = 1464.0 * 8.0;
const WIRE_BITS: f64 = (1472.0 + 12.0) * 8.0;

/// Rate from `settle` to `end`, after the window has opened, bits per second.
fn steady_rate(scenario: &Scenario, settle: Duration, end: Duration) -> f64 {
    let scenario = Scenario { bytes: u64::MAX / 2, check_bytes: false, ..scenario.clone() };
    let (mut simulation, sender, _) = scenario.prepare();
    simulation.run_until(settle);
    let before = simulation.sender(sender).stats();
    simulation.run_until(end);
    let after = simulation.sender(sender).stats();
    assert_eq!(after.timeouts + after.fast_retransmits, 0, "a lossless link needs no retransmission");
    assert_eq!(after.window, scenario.window, "the window has opened");
    // The cumulative ACK advances only when an ACK arrives, so a rate is exact only between two
    // arrivals: the last ones before `settle` and `end`.
    let time = after.last_ack_at.unwrap() - before.last_ack_at.unwrap();
    (after.snd_una - before.snd_una) as f64 * PAYLOAD_BITS / time.as_secs_f64()
}

fn assert_within(measured: f64, model: f64, tolerance: f64, what: &str) {
    let ratio = measured / model;
    assert!(
        (ratio - 1.0).abs() <= tolerance,
        "{what}: measured {measured:.0}, model {model:.0}, ratio {ratio:.5}"
    );
}

#[test]
fn rate_is_proportional_to_window() {
    let (rtt, speed) = (0.5, 1e9);
    for power in 0..=10 {
        let window = 1_u32 << power;
        let scenario =
            Scenario { window, rtt_s: 0.5, speed_bps: 1e9, buffer: window + 50, ..Scenario::default() };
        // Slow start takes log2(W) RTTs and the handshake one; whole RTTs follow.
        let measured = steady_rate(&scenario, Duration::from_secs_f64(10.0), Duration::from_secs_f64(60.0));
        let round_trip = rtt + WIRE_BITS / speed;
        assert_within(measured, f64::from(window) * PAYLOAD_BITS / round_trip, 0.01, &format!("W {window}"));
    }
}

#[test]
fn rate_is_inverse_to_rtt() {
    let speed = 1e9;
    for rtt in [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0] {
        #[allow(clippy::cast_possible_truncation, reason = "the wire carries 32-bit floats")]
        let scenario =
            Scenario { window: 30, rtt_s: rtt as f32, speed_bps: 1e9, buffer: 80, ..Scenario::default() };
        let measured =
            steady_rate(&scenario, Duration::from_secs_f64(12.0 * rtt), Duration::from_secs_f64(112.0 * rtt));
        let round_trip = rtt + WIRE_BITS / speed;
        assert_within(measured, 30.0 * PAYLOAD_BITS / round_trip, 0.01, &format!("RTT {rtt}"));
    }
}

/// Exercise of the course: 2^23 words, W 300, RTT 0.2 s, 10 Mbps. The payload's share of the link
/// is 1464 / 1472. In the steady state each packet waits for a whole window on the link.
fn link_limited(loss_reverse: f32) -> (f64, f64, u64) {
    let scenario = Scenario {
        window: 300,
        rtt_s: 0.2,
        speed_bps: 10e6,
        loss_reverse,
        buffer: 350,
        bytes: 4 << 23,
        check_bytes: false,
        ..Scenario::default()
    };
    let (mut simulation, sender, _) = scenario.prepare();
    simulation.run_until(Duration::from_secs(4));
    let before = simulation.sender(sender).stats();
    simulation.run_until(Duration::from_secs(28));
    let after = simulation.sender(sender).stats();
    assert!(simulation.run_senders(Duration::from_secs(100)));
    assert_eq!(simulation.sender(sender).outcome, Outcome::Finished { crc: Some(0xD700_96AB) });
    let time = after.last_ack_at.unwrap() - before.last_ack_at.unwrap();
    let rate = (after.snd_una - before.snd_una) as f64 * PAYLOAD_BITS / time.as_secs_f64();
    (rate, after.srtt.unwrap().as_secs_f64(), simulation.sender(sender).stats().timeouts)
}

#[test]
fn link_limited_rate_survives_lost_acks() {
    let (clean, srtt_clean, timeouts_clean) = link_limited(0.0);
    let (lossy, srtt_lossy, timeouts_lossy) = link_limited(0.1);
    assert_within(clean, 9.94e6, 0.005, "no loss");
    assert_within(lossy, 9.94e6, 0.005, "10 % reverse loss");
    assert_within(lossy, clean, 0.005, "reverse loss against none");
    // 0.3533 is W * 1472 * 8 / 10 Mbps, which the course's programs print as 0.353.
    for srtt in [srtt_clean, srtt_lossy] {
        assert!((0.347..0.3535).contains(&srtt), "estRTT {srtt}");
    }
    assert_eq!(timeouts_clean, 0);
    assert!(timeouts_lossy <= 1, "T {timeouts_lossy}");
}
