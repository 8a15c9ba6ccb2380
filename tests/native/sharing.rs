//! Shares of two transfers on one wire.

use super::*;

/// Share of the first of two senders in their total goodput after the start.
fn share(run: &Run, first: Algorithm, second: Algorithm) -> f64 {
    let mut simulation = Simulation::new();
    let server = simulation.add_server(server_config(receiver()));
    let wire = simulation.add_wire(Path::new(run.path.clone(), run.seed));
    let senders = [(1, first), (2, second)].map(|(id, congestion)| {
        let config = SenderConfig { congestion, ..SenderConfig::native(run.seed * 10 + id) };
        let sender = simulation.add_sender(config, server, u64::MAX / 2).unwrap();
        simulation.route(sender, server, wire);
        sender
    });
    let acked = |simulation: &Simulation| senders.map(|id| simulation.sender(id).stats().bytes_acked as f64);
    simulation.run_until(secs(5));
    let before = acked(&simulation);
    simulation.run_until(secs(65));
    let after = acked(&simulation);
    let got = [after[0] - before[0], after[1] - before[1]];
    let sum = got[0] + got[1];
    eprintln!(
        "seed {}: {first} {:.2} Mbps, {second} {:.2} Mbps",
        run.seed,
        got[0] * 8.0 / 60e6,
        got[1] * 8.0 / 60e6
    );
    assert!(sum * 8.0 / 60.0 > 9e6, "the wire is used");
    got[0] / sum
}

#[test]
fn bbr_and_cubic_share_fairly() {
    // The share of one seed has a standard deviation of 0.02.
    let seeds = seed()..seed() + 12;
    let mut sum = 0.0;
    for seed in seeds.clone() {
        let run = Run { seed, ..Run::new(10_000_000, ms(30)).queue(25) };
        let _note = PanicNote::new(&run, seed);
        let share = share(&run, Algorithm::Bbr, Algorithm::Cubic);
        assert!((0.3..=0.7).contains(&share), "seed {seed}: {share}");
        sum += share;
    }
    let mean = sum / seeds.count() as f64;
    assert!((0.35..=0.65).contains(&mean), "{mean}");
}
