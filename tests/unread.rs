//! Applications that pause reading, in both formats: their transfers wait and complete, other
//! transfers of the same server continue, and memory stays bounded.

use std::time::Duration;

use rdt::emulator::{Bitrate, Path, PathConfig};
use rdt::sim::{LinkMode, NodeId, Outcome, ReadPolicy, ServerConfig, Simulation};
use rdt::transport::wire::native::LinkRequest;
use rdt::transport::{LinkProperties, Wire};
use rdt::{ReceiverConfig, SenderConfig};

/// Longer than the 50 attempts of a classic sender, which take 2 s on these paths.
const PAUSE: Duration = Duration::from_secs(10);
/// Longer than a native sender's `give_up` and the receiver's idle timeout.
const LONG_PAUSE: Duration = Duration::from_secs(100);
const RTT_S: f32 = 0.002;
const RATE_BPS: u64 = 200_000_000;
/// Memory limit of the server, bytes.
const MEMORY: u64 = 32 << 20;
/// Limit of one receiver, bytes.
const OF_ONE: u64 = MEMORY / 8;
/// Above that limit, so that the window closes; and below it, so that only the FIN waits.
const SIZES: [u64; 2] = [3 * OF_ONE, OF_ONE / 4];

fn classic() -> SenderConfig {
    let link = LinkProperties {
        rtt_s: RTT_S,
        speed_bps: RATE_BPS as f32,
        loss_forward: 0.0,
        loss_reverse: 0.0,
        buffer: 600,
    };
    SenderConfig::new(500, link)
}

fn native() -> SenderConfig {
    let link = LinkRequest {
        rtt_us: 2000,
        rate_bps: RATE_BPS,
        loss_forward_ppb: 0,
        loss_reverse_ppb: 0,
        queue_bytes: 600 * 1472,
    };
    SenderConfig { link_request: Some(link), ..SenderConfig::native(7) }
}

fn stalled(length: Duration) -> ReadPolicy {
    ReadPolicy::Stalled { from: Duration::from_millis(30), length }
}

/// Position of the path: in the server, or on the way to it.
#[derive(Debug, Clone, Copy)]
enum Link {
    Server,
    Wire,
}

/// Adds a server, and for each of `transfers` a sender on its own path.
fn simulation(link: Link, transfers: &[(SenderConfig, u64)]) -> (Simulation, NodeId, Vec<NodeId>) {
    let receiver = ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() };
    let mode = match link {
        Link::Server => LinkMode::Emulated { seed: 1 },
        Link::Wire => LinkMode::None,
    };
    let mut config = ServerConfig::new(receiver, mode).with_memory(MEMORY);
    config.receiver.stream_window.max = OF_ONE;
    let mut simulation = Simulation::new();
    let server = simulation.add_server(config);
    let mut senders = Vec::new();
    for (config, bytes) in transfers {
        let sender = simulation.add_sender(config.clone(), server, *bytes).unwrap();
        if let Link::Wire = link {
            let path = PathConfig::symmetric(Duration::from_secs_f32(RTT_S), Bitrate::from_bps(RATE_BPS));
            let wire = simulation.add_wire(Path::new(path, 1));
            simulation.route(sender, server, wire);
        }
        senders.push(sender);
    }
    (simulation, server, senders)
}

/// Asserts that every byte arrived, and in the classic format that both ends have the same
/// checksum.
fn assert_complete(simulation: &Simulation, server: NodeId, sender: NodeId, what: &str) {
    let node = simulation.sender(sender);
    let stats = node.stats();
    let crc = (node.config().wire == Wire::Classic).then_some(stats.crc);
    assert_eq!(node.outcome, Outcome::Finished { crc }, "{what}: {stats:?}");
    let received = &simulation.server(server).transfers[&sender];
    assert!(received.intact, "{what}");
    assert_eq!((received.bytes, received.crc), (stats.bytes_written, crc), "{what}");
}

#[test]
fn transfer_completes_after_long_read_pause() {
    for link in [Link::Wire, Link::Server] {
        for (format, config) in [("classic", classic()), ("native", native())] {
            for (bytes, pause) in SIZES.into_iter().zip([PAUSE, LONG_PAUSE]).chain([(SIZES[0], LONG_PAUSE)]) {
                let what = format!("{format}, {bytes} bytes, {link:?}, {pause:?}");
                let (mut simulation, server, senders) = simulation(link, &[(config.clone(), bytes)]);
                simulation.set_read_policy(server, stalled(pause));
                assert!(simulation.run_senders(Duration::from_secs(200)), "{what}: it goes on for ever");
                assert_complete(&simulation, server, senders[0], &what);
                let took = simulation.elapsed();
                // The rest takes half a second at most.
                assert!(took > pause && took < pause + Duration::from_secs(2), "{what}: {took:?}");
                let stats = simulation.server(server).server.stats();
                let held = stats.connections.max_memory;
                assert!(held <= OF_ONE + OF_ONE / 2, "{what}: {held} bytes held");
            }
        }
    }
}

#[test]
fn concurrent_senders_stay_within_memory_limit() {
    /// Senders that together would fill three times the limit.
    const SENDERS: usize = 12;
    /// Reserve of each receiver, whatever the others use, and the rest of a chunk.
    const OF_EACH: u64 = (128 + 64) << 10;
    for (format, config) in [("classic", classic()), ("native", native())] {
        let transfers = vec![(config, 2 * OF_ONE); SENDERS];
        let (mut simulation, server, senders) = simulation(Link::Wire, &transfers);
        // The pause begins after windows have reached their maximum.
        simulation.set_read_policy(server, stalled(PAUSE));
        assert!(simulation.run_senders(Duration::from_secs(200)), "{format}: it goes on for ever");
        for sender in senders {
            assert_complete(&simulation, server, sender, format);
        }
        let stats = simulation.server(server).server.stats();
        let held = stats.connections.max_memory;
        assert!(held <= MEMORY / 2 + SENDERS as u64 * OF_EACH, "{format}: {held} bytes held");
        assert!(held > MEMORY / 4, "{format}: {held} bytes held say nothing");
        let took = simulation.elapsed();
        assert!(took < PAUSE + Duration::from_secs(5), "{format}: {took:?}");
    }
}

#[test]
fn stalled_application_does_not_block_others() {
    for stopped in [classic(), native()] {
        for other in [classic(), native()] {
            let what = format!("{:?} stopped, {:?}", stopped.wire, other.wire);
            let transfers = [(stopped.clone(), 3 * OF_ONE), (other, 3 * OF_ONE)];
            let (mut simulation, server, senders) = simulation(Link::Wire, &transfers);
            simulation.set_peer_read_policy(server, senders[0], stalled(PAUSE));
            simulation.run_until(Duration::from_secs(2));
            assert_complete(&simulation, server, senders[1], &what);
            assert_eq!(simulation.sender(senders[0]).outcome, Outcome::Running, "{what}");
            assert!(simulation.run_senders(Duration::from_secs(60)), "{what}: it goes on for ever");
            assert_complete(&simulation, server, senders[0], &what);
        }
    }
}

#[test]
fn classic_sender_matches_slow_reader() {
    let (mut simulation, server, senders) = simulation(Link::Wire, &[(classic(), 5 * OF_ONE)]);
    simulation.set_read_policy(server, ReadPolicy::AtRate(OF_ONE));
    assert!(simulation.run_senders(Duration::from_secs(60)));
    assert_complete(&simulation, server, senders[0], "classic");
    let took = simulation.elapsed().as_secs_f64();
    assert!((4.8..6.0).contains(&took), "{took} s");
    let stats = simulation.sender(senders[0]).stats();
    // Only zero-window probes repeat data; no earlier packet is sent again.
    assert!(stats.retransmitted < 100, "{stats:?}");
}
