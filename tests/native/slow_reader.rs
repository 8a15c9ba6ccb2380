//! An application that reads slowly closes the window and opens it again; that is flow control, and no controller
//! may take it for congestion.

use super::*;

/// A receiver that holds 256 KiB at most.
fn small() -> ReceiverConfig {
    let mut receiver = receiver();
    receiver.stream_window.initial = 64 << 10;
    receiver.stream_window.max = 256 << 10;
    receiver
}

fn run(congestion: Algorithm, reading: Reading) -> Done {
    let run = Run::new(100_000_000, ms(20)).bytes(2_000_000).config(native(congestion));
    let run = Run { reading: Some(reading), receiver: small(), limit: secs(60), ..run };
    let done = run.run();
    let stats = &done.stats;
    eprintln!("{congestion}, {reading:?}: {:?}, {} timeouts", done.took, stats.timeouts);
    assert_eq!((stats.recoveries, stats.ssthresh), (0, None), "{congestion}: {stats:?}");
    assert!(stats.waited.peer_window > secs(4), "{congestion}: {stats:?}");
    done
}

const CONTROLLERS: [Algorithm; 4] =
    [Algorithm::Fixed(400), Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr];

#[test]
fn an_application_that_reads_1_mbps_is_sent_1_mbps() {
    for congestion in CONTROLLERS {
        let done = run(congestion, Reading::AtRate(125_000));
        let rate = done.goodput() / 1e6;
        assert!((0.95..=1.0).contains(&rate), "{congestion}: {rate} Mbps");
        assert_eq!(done.stats.timeouts, 0, "{congestion}: {:?}", done.stats);
    }
}

#[test]
fn news_of_the_window_is_no_duplicate_ack_to_any_rule() {
    let rules = [LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];
    for recovery in rules {
        let config = SenderConfig { recovery, ..native(Algorithm::Fixed(400)) };
        let run = Run::new(100_000_000, ms(20)).bytes(1_000_000).config(config);
        let reading = Some(Reading::AtRate(250_000));
        let done = Run { reading, receiver: small(), limit: secs(60), ..run }.run();
        assert_eq!(done.stats.retransmitted, 0, "{recovery}: {:?}", done.stats);
    }
}

#[test]
fn an_application_that_stalls_for_5_s_gets_the_rest_at_once_afterwards() {
    for congestion in CONTROLLERS {
        let reading = Reading::Stalled { from: ms(100), length: secs(5) };
        let done = run(congestion, reading);
        // Two megabytes at 100 Mbps are 160 ms.
        assert!((ms(5100)..ms(6000)).contains(&done.took), "{congestion}: {:?}", done.took);
    }
}
