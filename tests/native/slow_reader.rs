//! Slow application: it closes the window and opens it again. That is flow control, which no
//! controller may take for congestion.

use super::*;

/// Receiver with at most 256 KiB of buffer.
fn small() -> ReceiverConfig {
    let mut receiver = receiver();
    receiver.stream_window.initial = 64 << 10;
    receiver.stream_window.max = 256 << 10;
    receiver
}

fn run(congestion: Algorithm, recovery: LossDetection, reading: ReadPolicy) -> Done {
    let config = SenderConfig { recovery, ..native(congestion) };
    let run = Run::new(100_000_000, ms(20)).bytes(2_000_000).config(config);
    let run = Run { reading: Some(reading), receiver: small(), limit: secs(60), ..run };
    let done = run.run();
    let stats = &done.stats;
    eprintln!("{congestion}, {recovery}, {reading:?}: {:?}, {} timeouts", done.took, stats.timeouts);
    assert_eq!((stats.recoveries, stats.ssthresh), (0, None), "{congestion}, {recovery}: {stats:?}");
    assert_eq!(stats.lost, 0, "{congestion}, {recovery}: {stats:?}");
    assert_eq!(stats.packet_size, 1472, "{congestion}, {recovery}: a full receiver is no smaller path");
    assert!(stats.waited.peer_window > secs(4), "{congestion}, {recovery}: {stats:?}");
    done
}

/// Every controller with RACK, and Reno with every recovery algorithm.
const PAIRS: [(Algorithm, LossDetection); 7] = [
    (Algorithm::Fixed(400), LossDetection::Rack),
    (Algorithm::Reno, LossDetection::Rack),
    (Algorithm::Reno, LossDetection::Sack),
    (Algorithm::Reno, LossDetection::NewReno),
    (Algorithm::Reno, LossDetection::BaseOnly),
    (Algorithm::Cubic, LossDetection::Rack),
    (Algorithm::Bbr, LossDetection::Rack),
];

#[test]
fn sender_matches_reader_at_1_mbps() {
    for (congestion, recovery) in PAIRS {
        let done = run(congestion, recovery, ReadPolicy::AtRate(125_000));
        let rate = done.goodput() / 1e6;
        assert!((0.95..=1.0).contains(&rate), "{congestion}, {recovery}: {rate} Mbps");
        assert_eq!(done.stats.timeouts, 0, "{congestion}, {recovery}: {:?}", done.stats);
    }
}

#[test]
fn window_update_is_not_duplicate_ack() {
    let rules = [LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];
    for recovery in rules {
        let config = SenderConfig { recovery, ..native(Algorithm::Fixed(400)) };
        let run = Run::new(100_000_000, ms(20)).bytes(1_000_000).config(config);
        let reading = Some(ReadPolicy::AtRate(250_000));
        let done = Run { reading, receiver: small(), limit: secs(60), ..run }.run();
        assert_eq!(done.stats.retransmitted, 0, "{recovery}: {:?}", done.stats);
    }
}

#[test]
fn stalled_reader_gets_rest_at_once() {
    for (congestion, recovery) in PAIRS {
        let reading = ReadPolicy::Stalled { from: ms(100), length: secs(5) };
        let done = run(congestion, recovery, reading);
        // 2 MB at 100 Mbps are 160 ms.
        assert!((ms(5100)..ms(6000)).contains(&done.took), "{congestion}, {recovery}: {:?}", done.took);
    }
}

#[test]
fn receiver_limited_cwnd_does_not_grow() {
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        let mut run = Run::new(1_000_000_000, ms(20)).bytes(100_000_000).config(native(congestion));
        // A tenth of the bandwidth-delay product.
        run.receiver.stream_window.max = 256 << 10;
        let done = run.run();
        let cwnd = done.stats.cwnd;
        eprintln!("{congestion}: {cwnd} bytes");
        assert!(
            cwnd <= 2 * (256 << 10) + 20_000,
            "{congestion}: {cwnd} bytes of window, a quarter MiB in flight"
        );
    }
}
