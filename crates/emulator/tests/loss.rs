//! Tests of the loss rate over a number of packets that a user could send to check it.

use std::time::Duration;

use rdt_emulator::{Direction, LinkConfig, Loss, Path, Probability};
use rdt_testing::epoch;

/// 0.1 % is 3.2 standard deviations of the losses among 100,000 packets. The chance that one of
/// twenty such counts deviates more is 3 %; the seeds are fixed.
#[test]
fn one_percent_loss_is_exact_to_a_tenth() {
    let loss = Loss::Bernoulli(Probability::new(0.01).expect("a share"));
    for seed in 0..10 {
        let mut path = Path::new(LinkConfig::default().loss(loss.clone()), seed);
        let now = epoch();
        for direction in [Direction::Forward, Direction::Reverse] {
            for n in 0..100_000 {
                let at = now + Duration::from_micros(n);
                let _ = path.push(direction, at, vec![0]);
                while path.pop(direction, at).is_some() {}
            }
            let ledger = path.link_mut(direction).ledger();
            assert_eq!(ledger.dropped_loss + ledger.delivered, 100_000);
            assert!(ledger.dropped_loss.abs_diff(1_000) <= 100, "seed {seed}, {direction:?}: {ledger:?}");
        }
    }
}
