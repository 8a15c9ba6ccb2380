//! BBR's start on a long path that loses packets at random.

use super::*;

/// Returns the share of the path's rate that arrives in 13 s: 100 Mbit/s, 100 ms, a queue of 0.7
/// bandwidth-delay products.
fn share(loss: f64, seed: u64) -> f64 {
    let mut run = Run::new(100_000_000, ms(100)).queue(584);
    run.path.forward.loss = bernoulli(loss);
    run.path.reverse.loss = bernoulli(0.0);
    let mut simulation = Simulation::new();
    let server = simulation.add_server(server_config(receiver()));
    let wire = simulation.add_wire(Path::new(run.path, seed));
    let config = SenderConfig::native(10 * seed);
    let sender = simulation.add_sender(config, server, u64::MAX / 2).unwrap();
    simulation.route(sender, server, wire);
    simulation.run_until(secs(13));
    simulation.sender(sender).stats().bytes_acked as f64 * 8.0 / 13.0 / 100e6
}

/// Starts that met loss so early that they ended far below the rate of the path.
#[test]
fn early_end_of_start_is_made_good() {
    for seed in [787, 806, 817, 818, 1156] {
        let share = share(0.05, seed);
        eprintln!("seed {seed}: {share:.3}");
        assert!(share > 0.82, "seed {seed}: {share:.3}");
    }
}

/// The path drops the first two SYNs.
#[test]
fn two_lost_syns_cost_two_seconds() {
    let share = share(0.05, 33);
    eprintln!("{share:.3}");
    assert!(share > 0.7, "{share:.3}");
}

/// For `RDT_SEEDS` seeds from `RDT_SEED` on, 200 by default.
#[test]
#[ignore = "prints quantiles, for minutes"]
fn shares_of_many_seeds() {
    let seeds: u64 = env::var("RDT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    for loss in [0.05, 0.02] {
        let mut shares: Vec<_> = (seed()..seed() + seeds).map(|seed| (share(loss, seed), seed)).collect();
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = |percent: usize| shares[(shares.len() - 1) * percent / 100].0;
        eprintln!(
            "loss {loss}: n {}, least {:.3}, p5 {:.3}, median {:.3}, most {:.3}; worst seeds {:?}",
            shares.len(),
            at(0),
            at(5),
            at(50),
            at(100),
            &shares[..6.min(shares.len())]
        );
    }
}
