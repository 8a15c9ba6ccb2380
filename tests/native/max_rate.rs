//! Limit of the sending rate: exact on a faster path, without effect on a slower one.

use rdt::transport::{LinkProperties, Wire};

use super::*;

/// 50 Mbit/s, in bytes per second.
const CAP: u64 = 6_250_000;

const CONTROLLERS: [Algorithm; 4] =
    [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno, Algorithm::Fixed(2000)];

fn capped(congestion: Algorithm) -> SenderConfig {
    SenderConfig { max_rate: Some(CAP), ..native(congestion) }
}

/// Returns stream bytes per second between the first data packet and the last ACK,
/// retransmissions included.
fn sent_rate(stats: &SenderStats) -> f64 {
    (stats.bytes_acked + stats.retransmitted_bytes) as f64 / stats.elapsed().as_secs_f64()
}

fn assert_at_cap(stats: &SenderStats, case: &str) {
    let share = sent_rate(stats) / CAP as f64;
    assert!((share - 1.0).abs() < 0.01, "{case}: {share:.4} of the limit, {stats:?}");
}

#[test]
fn fast_path_carries_exactly_the_limit() {
    for congestion in CONTROLLERS {
        for pacing in [true, false] {
            let config = SenderConfig { pacing, ..capped(congestion) };
            let run = Run::new(1_000_000_000, ms(20)).config(config);
            assert_at_cap(&run.run_for(secs(30)).stats, &format!("{congestion}, pacing {pacing}"));
        }
    }
}

#[test]
fn limit_holds_in_the_first_second() {
    for congestion in CONTROLLERS {
        let done = Run::new(1_000_000_000, ms(2)).config(capped(congestion)).bytes(CAP).run();
        let time = done.stats.elapsed().as_secs_f64();
        assert!((0.98..1.02).contains(&time), "{congestion}: {time} s for a second of data");
    }
}

#[test]
fn repeated_data_counts_to_the_limit() {
    for congestion in [Algorithm::Bbr, Algorithm::Fixed(2000)] {
        let run = Run::new(1_000_000_000, ms(20)).loss(bernoulli(0.01)).config(capped(congestion));
        let share = sent_rate(&run.run_for(secs(30)).stats) / CAP as f64;
        // BBR slows down for some of the losses.
        assert!((0.97..1.001).contains(&share), "{congestion}: {share:.4} of the limit");
    }
}

#[test]
fn slow_path_is_filled_as_without_limit() {
    for congestion in CONTROLLERS {
        // 40 Mbit/s, below the limit; BBR probes beyond it.
        let run = Run::new(40_000_000, ms(20)).queue(400);
        let goodput = |config| run.clone().config(config).run_for(secs(30)).goodput();
        let (free, limited) = (goodput(native(congestion)), goodput(capped(congestion)));
        // A fixed window loses less of its first burst with the limit.
        assert!(limited / free > 0.99, "{congestion}: {limited} for {free}");
    }
}

#[test]
fn capped_transfer_builds_no_queue() {
    for congestion in CONTROLLERS {
        let done = Run::new(1_000_000_000, ms(20)).config(capped(congestion)).run_for(secs(10));
        let srtt = done.stats.srtt.unwrap();
        assert!(srtt < ms(21), "{congestion}: {srtt:?}");
    }
}

#[test]
fn classic_transfer_keeps_the_limit() {
    let link =
        LinkProperties { rtt_s: 0.02, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };
    let config = SenderConfig { max_rate: Some(CAP), ..SenderConfig::new(500, link) };
    assert_eq!(config.wire, Wire::Classic);
    // The receiver's window grows by a packet for each packet, which takes 0.14 s.
    let mut run = Run::new(1_000_000_000, ms(20)).config(config).bytes(30 * CAP);
    run.path.reverse.rate = None;
    assert_at_cap(&run.run().stats, "classic");
}
