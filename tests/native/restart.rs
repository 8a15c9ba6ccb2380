//! Restart of the receiver: its senders get a stateless reset, and no running transfer ends because
//! of one.

use rdt::transport::wire::native::{CloseReason, LinkRequest};
use rdt::{Closed, Phase};

use super::*;

/// RTT 100 ms: the SYN with its cookie arrives at 150 ms, the SYN-ACK at 200 ms, the first data,
/// which opens the connection at the receiver, at 250 ms.
fn path() -> Run {
    Run::new(10_000_000, ms(100)).queue(100).bytes(2_000_000)
}

/// Restarts the receiver at `at`; returns the outcome of the transfer and its time.
fn restarted(run: &Run, at: Duration) -> (Outcome, Duration) {
    let Running { mut simulation, server, sender, note: _note, .. } = run.start();
    simulation.run_until(at);
    simulation.restart_server(server, server_config(receiver()));
    assert!(simulation.run_senders(run.limit), "restart at {at:?}: not over");
    let node = simulation.sender(sender);
    (node.outcome.clone(), node.ended_at.unwrap() - simulation.epoch())
}

const FORGOTTEN: Outcome = Outcome::Closed(Closed::Reset);

#[test]
fn reset_reaches_sender_in_mid_transfer() {
    let base_only = SenderConfig { recovery: LossDetection::BaseOnly, ..native(Algorithm::Fixed(20)) };
    for config in [native(Algorithm::Bbr), native(Algorithm::Cubic), base_only] {
        let (outcome, ended) = restarted(&path().config(config), secs(1));
        assert_eq!(outcome, FORGOTTEN);
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
        assert_eq!(outcome, FORGOTTEN, "seed {seed}");
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
            Outcome::Closed(Closed::Peer { reason, .. }) => {
                assert_eq!(*reason, CloseReason::Aborted, "{at} ms");
                assert!(ended <= ms(at) + ms(52), "{at} ms: {ended:?}");
            }
            outcome => {
                assert!(outcome.is_finished(), "{at} ms: {outcome:?}");
                assert!(at <= 150 || at > 400, "{at} ms: before the first data, or after the end");
            }
        }
    }
}

#[test]
fn restart_at_any_time_ends_transfer_soon() {
    for at in (0..=700).step_by(5) {
        let (outcome, ended) = restarted(&path().bytes(200_000), ms(at));
        if at <= 50 {
            assert!(outcome.is_finished(), "{at} ms: {outcome:?}");
            assert!(ended < secs(5), "{at} ms: {ended:?}, a SYN later");
        } else if !outcome.is_finished() {
            assert_eq!(outcome, FORGOTTEN, "{at} ms");
            assert!(ended < ms(at) + secs(2), "{at} ms: {ended:?}");
        } else {
            assert!(at > 400, "{at} ms: nothing was stored twice");
        }
    }
}

#[test]
fn reset_bypasses_emulated_link() {
    let mut simulation = Simulation::new();
    let config = ServerConfig::new(receiver(), LinkMode::Emulated { seed: 1 });
    let server = simulation.add_server(config);
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
    simulation.restart_server(server, config);
    assert!(simulation.run_senders(secs(30)));
    assert_eq!(simulation.sender(sender).outcome, FORGOTTEN);
    assert!(simulation.elapsed() < ms(1500), "{:?}", simulation.elapsed());
}

#[test]
fn reset_reaches_sender_waiting_for_fin_ack() {
    let Running { mut simulation, server, sender, note: _note, .. } = path().bytes(100_000).start();
    simulation.stall(server, secs(60));
    simulation.run_until(secs(5));
    simulation.restart_server(server, server_config(receiver()));
    assert!(simulation.run_senders(secs(60)));
    let node = simulation.sender(sender);
    assert_eq!(node.outcome, FORGOTTEN);
    assert_eq!(node.stats().bytes_acked, 100_000, "all that is known");
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
    assert_eq!(simulation.server(server).server.active(), 1000);
    simulation.restart_server(server, server_config(receiver()));
    assert!(simulation.run_senders(secs(20)), "{:?}", simulation.server(server).server.stats());
    assert!(senders.iter().all(|id| simulation.sender(*id).outcome == FORGOTTEN));
    eprintln!("the last one heard of it at {:?}", simulation.elapsed());
}

/// Fifty small transfers start at once on a wire that loses, duplicates and reorders. Data
/// overtakes what opens its connection, and replies arrive in any order; no reset may end a
/// transfer.
#[test]
fn disordered_handshakes_end_no_transfer() {
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
        config.native_idle = secs(600);
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
            let outcome = &simulation.sender(id).outcome;
            let lost = matches!(outcome, Outcome::Closed(Closed::TimedOut(Phase::Connect | Phase::Close)));
            assert!(lost || outcome.is_finished(), "seed {seed}: {outcome:?}");
        }
    }
}
