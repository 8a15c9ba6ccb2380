//! Every recovery algorithm with every controller: complete at any loss, and equal runs with equal
//! seeds.

use super::*;

pub(super) const RULES: [LossDetection; 6] = [
    LossDetection::Rack,
    LossDetection::Sack,
    LossDetection::NewReno,
    LossDetection::Reno,
    LossDetection::Tahoe,
    LossDetection::BaseOnly,
];
pub(super) const CONTROLLERS: [Algorithm; 4] =
    [Algorithm::Fixed(40), Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr];

#[test]
fn recovery_and_controller_matrix_delivers_every_byte() {
    for recovery in RULES {
        for congestion in CONTROLLERS {
            for loss in [0.0, 0.01, 0.05] {
                let config = SenderConfig { recovery, congestion, ..SenderConfig::native(7) };
                let run = Run::new(20_000_000, ms(20)).bytes(500_000).config(config);
                let run = run.loss_both_ways(&bernoulli(loss));
                let (one, two) = (run.run(), run.run());
                let case = format!("{recovery}, {congestion}, {loss}");
                eprintln!("{case}: {:.2} Mbps", one.goodput() / 1e6);
                assert_eq!((one.hash, one.took), (two.hash, two.took), "{case}");
                if loss > 0.0 {
                    let other = Run { seed: run.seed + 1, ..run }.run();
                    assert_ne!(one.hash, other.hash, "{case}");
                } else if one.forward.dropped_queue == 0 {
                    assert_eq!(one.stats.retransmitted, 0, "{case}");
                }
            }
        }
    }
}
