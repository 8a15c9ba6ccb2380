//! Skipped packet numbers, against receivers that acknowledge early, cost honest transfers nothing.

use super::*;

/// Runs `run` with and without skipped numbers.
fn both(run: &Run) -> [Done; 2] {
    [None, Some(run.seed)].map(|skip_seed| {
        let config = SenderConfig { skip_seed, ..run.config.clone() };
        run.clone().config(config).run()
    })
}

#[test]
fn skipped_numbers_cost_less_than_1_percent() {
    // 0.4 ms: the sender leaves the ACK frequency to the receiver, which acknowledges every second
    // packet.
    for rtt in [Duration::from_micros(400), ms(50)] {
        let [without, with] = both(&Run::new(100_000_000, rtt).queue(5000).bytes(30_000_000));
        let acks = |done: &Done| done.stats.datagrams_received as f64;
        let (more_acks, slower) = (acks(&with) / acks(&without), without.goodput() / with.goodput());
        eprintln!("{rtt:?}: {more_acks:.4} of the ACKs, {slower:.4} of the time");
        assert!(more_acks < 1.01 && slower < 1.01, "{more_acks} {slower}");
        assert_eq!((with.stats.retransmitted, without.stats.retransmitted), (0, 0));
    }
}

#[test]
fn skipped_numbers_repair_losses_as_fast() {
    let mut means = [0.0; 2];
    for seed in seed()..seed() + 20 {
        let run = Run { seed, ..Run::new(20_000_000, ms(40)).loss_both_ways(&bernoulli(0.01)) };
        for (mean, done) in means.iter_mut().zip(both(&run.bytes(3_000_000))) {
            *mean += done.goodput() / 20.0;
        }
    }
    eprintln!("{:.0} bit/s without, {:.0} with", means[0], means[1]);
    assert!((means[1] / means[0] - 1.0).abs() < 0.05, "{means:?}");
}
