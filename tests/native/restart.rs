//! Restart of the receiver: its senders get a stateless reset, and no running transfer ends because
//! of one.

use rdt::server::ServerStats;
use rdt::transport::wire::native::{CloseReason, LinkRequest};
use rdt::transport::{Phase, TransferError};

use super::*;

/// RTT 100 ms: the SYN with its cookie arrives at 150 ms, the SYN-ACK at 200 ms.
fn path() -> Run {
    Run::new(10_000_000, ms(100)).queue(100).bytes(2_000_000)
}

/// [`server_config`] with another cookie secret, as after a restart.
fn restarted_config() -> ServerConfig {
    let mut server = server_config(receiver());
    server.listener.secret = Some([2; 32]);
    server
}

/// Restarts the receiver at `at`; returns the outcome of the transfer and its time.
fn restarted(run: &Run, at: Duration) -> (Outcome, Duration) {
    let Running { mut simulation, server, sender, note: _note, .. } = run.start();
    simulation.run_until(at);
    simulation.restart_server(server, restarted_config());
    assert!(simulation.run_senders(run.limit), "restart at {at:?}: not over");
    let node = simulation.sender(sender);
    (node.outcome.clone(), node.ended_at.unwrap() - simulation.epoch())
}

fn forgotten(phase: Phase) -> Outcome {
    Outcome::Failed { phase, error: TransferError::Closed(CloseReason::NoConnection) }
}

fn stats(simulation: &Simulation, server: NodeId) -> ServerStats {
    simulation.server(server).server.stats()
}

#[test]
fn reset_reaches_sender_in_mid_transfer() {
    let base_only = SenderConfig { recovery: LossDetection::BaseOnly, ..native(Algorithm::Fixed(20)) };
    for config in [native(Algorithm::Bbr), native(Algorithm::Cubic), base_only] {
        let (outcome, ended) = restarted(&path().config(config), secs(1));
        assert_eq!(outcome, forgotten(Phase::Send));
        assert!(ended < ms(1250), "{ended:?}");
    }
}

#[test]
fn reset_reaches_sender_on_bad_path() {
    for seed in seed()..seed() + 20 {
        let run = path().bytes(u64::MAX / 2).both_ways(|link| {
            let rare = Probability::new(0.1).unwrap();
            let mut link = link.loss(bernoulli(0.2)).reorder(rare, ms(80));
            link.duplicate = rare;
            link
        });
        // Losses prolonged the handshake by a few timeouts.
        let (outcome, ended) = restarted(&Run { seed, limit: secs(60), ..run }, secs(8));
        assert_eq!(outcome, forgotten(Phase::Send), "seed {seed}");
        assert!(ended < secs(11), "seed {seed}: {ended:?}");
    }
}

#[test]
fn receiver_abort_ends_sender_half_rtt_later() {
    for at in (0..=700).step_by(5) {
        let run = path().bytes(200_000);
        let Running { mut simulation, server, sender, note: _note, .. } = run.start();
        simulation.run_until(ms(at));
        simulation.abort_transfers(server);
        assert!(simulation.run_senders(run.limit), "{at} ms: not over");
        let node = simulation.sender(sender);
        let ended = node.ended_at.unwrap() - simulation.epoch();
        match &node.outcome {
            Outcome::Failed { error, .. } => {
                assert_eq!(*error, TransferError::Closed(CloseReason::Aborted), "{at} ms");
                assert!(ended <= ms(at) + ms(52), "{at} ms: {ended:?}");
            }
            outcome => {
                assert!(matches!(outcome, Outcome::Finished { .. }), "{at} ms: {outcome:?}");
                assert!(at <= 150 || at > 400, "{at} ms: before the SYN, or after the end");
            }
        }
    }
}

#[test]
fn restart_at_any_time_ends_transfer_soon() {
    for at in (0..=700).step_by(5) {
        let (outcome, ended) = restarted(&path().bytes(200_000), ms(at));
        if at <= 150 {
            assert!(matches!(outcome, Outcome::Finished { .. }), "{at} ms: {outcome:?}");
            assert!(ended < secs(5), "{at} ms: {ended:?}, a SYN with the new cookie later");
        } else if !matches!(outcome, Outcome::Finished { .. }) {
            let Outcome::Failed { phase: Phase::Send | Phase::Close, error } = outcome else {
                panic!("{at} ms: {outcome:?}")
            };
            assert_eq!(error, TransferError::Closed(CloseReason::NoConnection), "{at} ms");
            assert!(ended < ms(at) + secs(2), "{at} ms: {ended:?}");
        } else {
            assert!(at > 400, "{at} ms: nothing was stored twice");
        }
    }
}

#[test]
fn reset_bypasses_emulated_link() {
    let mut simulation = Simulation::new();
    let config = |secret| {
        let mut server = ServerConfig::new(receiver(), LinkMode::Emulated { seed: 1 });
        server.listener.secret = Some([secret; 32]);
        server
    };
    let server = simulation.add_server(config(1));
    let link = LinkRequest {
        rtt_us: 100_000,
        rate_bps: 10_000_000,
        loss_forward_ppb: 0,
        loss_reverse_ppb: 0,
        queue_bytes: 100_000,
    };
    let asking = SenderConfig { link_request: Some(link), ..SenderConfig::native(7) };
    let sender = simulation.add_sender(asking, server, 2_000_000).unwrap();
    simulation.run_until(secs(1));
    simulation.restart_server(server, config(2));
    assert!(simulation.run_senders(secs(30)));
    assert_eq!(simulation.sender(sender).outcome, forgotten(Phase::Send));
    assert!(simulation.elapsed() < ms(1500), "{:?}", simulation.elapsed());
}

#[test]
fn reset_reaches_sender_waiting_for_fin_ack() {
    let Running { mut simulation, server, sender, note: _note, .. } = path().bytes(100_000).start();
    simulation.stall_server(server, secs(60));
    simulation.run_until(secs(5));
    simulation.restart_server(server, restarted_config());
    assert!(simulation.run_senders(secs(60)));
    let node = simulation.sender(sender);
    assert_eq!(node.outcome, forgotten(Phase::Close));
    assert_eq!(node.sender.stats().bytes_acked, 100_000, "all that is known");
    assert!(simulation.elapsed() < secs(10), "{:?}", simulation.elapsed());
}

#[test]
fn resets_reach_maximum_number_of_senders() {
    let mut simulation = Simulation::new();
    let server = simulation.add_server(server_config(receiver()));
    let senders: Vec<NodeId> = (0..1000)
        .map(|id| {
            let path = PathConfig::symmetric(ms(20), Bitrate::from_bps(1_000_000));
            let wire = simulation.add_wire(Path::new(path, id));
            let config = SenderConfig { congestion: Algorithm::Fixed(4), ..SenderConfig::native(id) };
            let sender = simulation.add_sender(config, server, 100_000_000).unwrap();
            simulation.route(sender, server, wire);
            sender
        })
        .collect();
    simulation.run_until(secs(2));
    assert_eq!(simulation.server(server).server.listener().active(), 1000);
    simulation.restart_server(server, restarted_config());
    assert!(simulation.run_senders(secs(20)), "{:?}", stats(&simulation, server).listener);
    assert!(senders.iter().all(|id| simulation.sender(*id).outcome == forgotten(Phase::Send)));
    eprintln!("the last one heard of it at {:?}", simulation.elapsed());
}

/// Fifty small transfers start at once on a wire that loses, duplicates and reorders. Data
/// overtakes its SYN, and replies arrive in any order; no reset may end a transfer.
#[test]
fn data_before_its_syn_ends_no_transfer() {
    let mut resets = 0;
    for seed in seed()..seed() + 20 {
        let rare = Probability::new(0.3).unwrap();
        let run = Run { seed, ..Run::new(10_000_000, ms(60)) }.both_ways(|link| {
            let mut link = link.loss(Loss::bounded(rare, 3)).reorder(rare, ms(150));
            link.duplicate = rare;
            link
        });
        let _note = PanicNote::new(&run, seed);
        let mut simulation = Simulation::new();
        // Eight consecutive tries may be lost, which exceeds an idle timeout of 25 s: a reset would
        // be correct then.
        let mut config = server_config(receiver());
        config.listener.idle = secs(600);
        let server = simulation.add_server(config);
        let wire = simulation.add_wire(Path::new(run.path.clone(), seed));
        let senders: Vec<NodeId> = (0..50)
            .map(|index| {
                let config = SenderConfig { give_up: secs(600), ..SenderConfig::native(seed * 1000 + index) };
                let sender = simulation.add_sender(config, server, 1024 * (1 + index)).unwrap();
                simulation.route(sender, server, wire);
                sender
            })
            .collect();
        simulation.run_senders(secs(600));
        for id in senders {
            let node = simulation.sender(id);
            let crc = node.sender.stats().crc;
            let closed = matches!(node.outcome, Outcome::Failed { error: TransferError::Closed(_), .. });
            assert!(!closed, "seed {seed}: {:?}", node.outcome);
            let lost = matches!(node.outcome, Outcome::Failed { phase: Phase::Connect | Phase::Close, .. });
            assert!(lost || node.outcome == Outcome::Finished { crc }, "seed {seed}: {:?}", node.outcome);
        }
        resets += stats(&simulation, server).listener.resets;
    }
    assert!(resets > 500, "data came before its SYN {resets} times");
}
