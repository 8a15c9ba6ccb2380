//! Windows of a few packets and delayed ACKs: what a fixed receive window lets through, by the
//! number of packets that one ACK covers. The path has 34 Mbit/s, 10 ms and a deep queue.

use rdt::transport::{AckConfig, WindowConfig};

use super::*;

const RATE: f64 = 34e6;
/// Payload of a full packet of 1472 bytes.
const MSS: u64 = 1432;
/// Time measured, after one second of start.
const SPAN: Duration = secs(10);

/// Mbps at the application in ten seconds, with a fixed window and these ACKs.
fn mbps(bytes: u64, acks: AckConfig, recovery: LossDetection, pacing: bool) -> f64 {
    let config = SenderConfig { recovery, pacing, ..native(Algorithm::Reno) };
    let run = Run::new(34_000_000, ms(10)).queue(1000).config(config);
    let mut run = run.both_ways(|link| link.overhead(IP_UDP));
    // The ACK of a packet leaves before an application can read the packet's bytes. Discarded bytes
    // count as read at once.
    run.receiver.keep_payload = false;
    run.receiver.stream_window = WindowConfig::fixed(bytes, MSS);
    run.receiver.acks = acks;
    let mut running = Run { bytes: u64::MAX / 2, ..run }.start();
    let acked = |running: &Running| running.simulation.sender(running.sender).stats().bytes_acked;
    running.simulation.run_until(secs(1));
    let before = acked(&running);
    running.simulation.run_until(secs(1) + SPAN);
    let bytes = acked(&running) - before;
    bytes as f64 * 8.0 / 1e6 / SPAN.as_secs_f64()
}

/// Time in which the path sends a datagram with `payload` bytes: IP, UDP and the header of data
/// and its tag add 68 bytes.
fn serialization(payload: u64) -> f64 {
    (payload + 68) as f64 * 8.0 / RATE
}

#[test]
fn ack_for_each_packet_fills_fixed_window() {
    // An ACK has about 60 bytes with IP and UDP.
    let rtt = 0.01 + serialization(MSS) + 60.0 * 8.0 / RATE;
    let link = MSS as f64 * 8.0 / serialization(MSS) / 1e6;
    for window in [MSS, 2 * MSS, 5000, 10_000, 16_357, 25_000, 40_000, 50_000, 60_000] {
        let segments = window / MSS;
        let expected = ((segments * MSS) as f64 * 8.0 / rtt / 1e6).min(link);
        for recovery in [LossDetection::Rack, LossDetection::Reno] {
            let measured = mbps(window, AckConfig::exact(1, Duration::ZERO), recovery, false);
            eprintln!("{window}: {segments} segments, {measured:.3} Mbps, {expected:.3} by the window");
            assert!((measured / expected - 1.0).abs() <= 0.01, "{window}: {measured} for {expected}");
        }
    }
}

#[test]
fn ack_for_two_packets_leaves_odd_segment_waiting() {
    for (window, segments, expected) in [
        (5000, 2, 2.23),
        (10_000, 6, 6.46),
        (16_357, 10, 11.13),
        (25_000, 16, 17.80),
        (40_000, 26, 28.91),
        (50_000, 34, 32.68),
        (60_000, 40, 32.68),
    ] {
        let measured = mbps(window, AckConfig::exact(2, ms(25)), LossDetection::Rack, false);
        eprintln!("{window}: {segments} segments, {measured:.3} Mbps, {expected:.3} expected");
        assert!((measured / expected - 1.0).abs() <= 0.02, "{window}: {measured} for {expected}");
    }
}

#[test]
fn exact_acks_ignore_requests_and_reads() {
    // A window of one packet waits for the delay of each ACK; a sender with pacing and SACK would
    // request an ACK for each packet.
    for (every, delay) in [(2, 25), (4, 100)] {
        let acks = AckConfig::exact(every, ms(delay));
        let measured = mbps(MSS, acks, LossDetection::Rack, true);
        let expected = MSS as f64 * 8.0 / 1e6 / (0.01 + delay as f64 / 1e3 + serialization(MSS));
        eprintln!("{every}/{delay}ms: {measured:.3} Mbps, {expected:.3} expected");
        assert!((measured / expected - 1.0).abs() <= 0.01, "{measured} for {expected}");
    }
}

#[test]
fn window_below_packet_limits_packet_size() {
    let mut run = Run::new(34_000_000, ms(10)).bytes(100_000).config(native(Algorithm::Reno));
    run.receiver.keep_payload = false;
    run.receiver.stream_window = WindowConfig::fixed(1000, 1000);
    run.receiver.acks = AckConfig::exact(1, Duration::ZERO);
    let mut running = run.start();
    assert!(running.simulation.run_senders(secs(10)));
    let stats = running.simulation.sender(running.sender).stats();
    assert_eq!((stats.packet_size, stats.timeouts, stats.bytes_acked), (1040, 0, 100_000));
}
