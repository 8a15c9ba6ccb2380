//! Random sequences of events: the window stays within its bounds.

use std::time::Duration;

use super::super::{Algorithm, Start};
use super::*;

const MSS: u64 = 1460;

fn run(algorithm: Algorithm, seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut below = |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % end
    };
    let mut controller = algorithm.build(Start {
        mss: MSS,
        initial_window: 10,
        loss_window: 1,
        paced: below(2) == 0,
        rtt: None,
        known_window: 0,
        seed,
    });
    let mut now = start();
    let mut delivered = 0;
    for step in 0..2000 {
        let what = format!("{algorithm}, seed {seed}, step {step}");
        now += Duration::from_micros(below(1 << (1 + step % 24)));
        let before = controller.cwnd();
        let mut largest = before;
        match below(20) {
            0 => {
                let cause = [Cause::Loss, Cause::Ecn, Cause::Timeout][usize::try_from(below(3)).unwrap()];
                controller.on_congestion(&congestion(now, cause, below(2 * before + 1)));
                assert!(controller.cwnd() <= before, "{what}: {cause:?} opened the window");
            }
            1 if below(4) == 0 => {
                controller.on_spurious(now);
                largest = u64::MAX;
            }
            2 => controller.on_sent(now, MSS, MSS * (1 + below(3)), below(2) == 0),
            _ => {
                let acked = below(before.min(1 << 27) + 1);
                delivered += acked;
                let cwnd_limited = below(4) > 0;
                controller.on_ack(&AckEvent {
                    delivered,
                    in_flight: below(before + 1),
                    cwnd_limited,
                    episode: [Some(Cause::Loss), Some(Cause::Timeout), None]
                        [usize::try_from(below(8).min(2)).unwrap()],
                    latest_rtt: Some(Duration::from_micros(below(1_000_000))),
                    srtt: Duration::from_micros(below(1_000_000)),
                    ..ack(now, acked)
                });
                assert!(cwnd_limited || controller.cwnd() == before, "{what}: grew unused");
                // Slow start at most doubles the window, other phases are slower; 1 byte for
                // rounding.
                largest = before + acked.max(MSS) + 1;
            }
        }
        let cwnd = controller.cwnd();
        assert!((MSS..=largest).contains(&cwnd), "{what}: {before} became {cwnd}, with {largest} allowed");
        assert!(controller.ssthresh().is_none_or(|ssthresh| ssthresh >= MSS), "{what}");
    }
}

#[test]
fn random_events_keep_window_bounded() {
    for algorithm in [Algorithm::Fixed(64), Algorithm::Reno, Algorithm::Cubic] {
        for seed in 1..=200 {
            run(algorithm, seed);
        }
    }
}
