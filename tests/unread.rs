//! Applications that stop reading for a while, in both formats: their transfers wait and complete, the others of the
//! same server go on, and memory stays bounded.

use std::time::Duration;

use rdt::emulator::{Bitrate, Path, PathConfig};
use rdt::server::{LinkMode, ServerConfig};
use rdt::sim::{NodeId, Outcome, ReadPolicy, Simulation};
use rdt::transport::wire::native::LinkRequest;
use rdt::transport::{LinkProperties, ReceiverConfig, SenderConfig};

/// Longer than the 50 attempts of a classic sender take on these paths, 2 s.
const PAUSE: Duration = Duration::from_secs(10);
/// Longer than a native sender waits for an answer, and than a receiver remembers a silent peer.
const LONG_PAUSE: Duration = Duration::from_secs(100);
const RTT_S: f32 = 0.002;
const RATE_BPS: u64 = 200_000_000;
/// Of the server, bytes.
const MEMORY: u64 = 32 << 20;
/// Of that, what one receiver may hold.
const OF_ONE: u64 = MEMORY / 8;
/// More than is held, so that the window closes; and less, so that only the FIN waits.
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

/// Where the path is: in the server, or on the way to it.
#[derive(Debug, Clone, Copy)]
enum Link {
    Server,
    Wire,
}

/// A server and a sender of so many bytes for each of `transfers`, each behind a path of its own.
fn simulation(link: Link, transfers: &[(SenderConfig, u64)]) -> (Simulation, NodeId, Vec<NodeId>) {
    let receiver = ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() };
    let mode = match link {
        Link::Server => LinkMode::Emulated { seed: 1 },
        Link::Wire => LinkMode::None,
    };
    let mut config = ServerConfig::new(receiver, mode).with_memory(MEMORY);
    config.listener.secret = Some([1; 32]);
    config.listener.receiver.stream_window.max = OF_ONE;
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

/// Every byte arrived, and both ends have the same checksum.
fn assert_complete(simulation: &Simulation, server: NodeId, sender: NodeId, what: &str) {
    let node = simulation.sender(sender);
    let stats = node.sender.stats();
    assert_eq!(node.outcome, Outcome::Finished { crc: stats.crc }, "{what}: {stats:?}");
    let received = &simulation.server(server).transfers[&sender];
    assert!(received.intact, "{what}");
    assert_eq!((received.bytes, received.crc), (stats.bytes_written, Some(stats.crc)), "{what}");
}

#[test]
fn an_application_that_takes_nothing_for_long_gets_everything_afterwards() {
    for link in [Link::Wire, Link::Server] {
        for (format, config) in [("classic", classic()), ("native", native())] {
            for (bytes, pause) in SIZES.into_iter().zip([PAUSE, LONG_PAUSE]).chain([(SIZES[0], LONG_PAUSE)]) {
                let what = format!("{format}, {bytes} bytes, {link:?}, {pause:?}");
                let (mut simulation, server, senders) = simulation(link, &[(config.clone(), bytes)]);
                simulation.set_read_policy(server, stalled(pause));
                assert!(simulation.run_senders(Duration::from_secs(200)), "{what}: it goes on for ever");
                assert_complete(&simulation, server, senders[0], &what);
                let took = simulation.elapsed();
                // What was not sent yet takes half a second at most.
                assert!(took > pause && took < pause + Duration::from_secs(2), "{what}: {took:?}");
                let stats = simulation.server(server).server.stats();
                let held = stats.listener.max_memory;
                assert!(held <= OF_ONE + OF_ONE / 2, "{what}: {held} bytes held");
            }
        }
    }
}

#[test]
fn all_senders_together_fill_no_more_memory_than_there_is() {
    /// So many would fill three times what all may.
    const SENDERS: usize = 12;
    /// And so much of each is held whatever the others leave, and the rest of a piece of memory.
    const OF_EACH: u64 = (128 + 64) << 10;
    for (format, config) in [("classic", classic()), ("native", native())] {
        let transfers = vec![(config, 2 * OF_ONE); SENDERS];
        let (mut simulation, server, senders) = simulation(Link::Wire, &transfers);
        // Once their windows are as large as they get.
        simulation.set_read_policy(server, stalled(PAUSE));
        assert!(simulation.run_senders(Duration::from_secs(200)), "{format}: it goes on for ever");
        for sender in senders {
            assert_complete(&simulation, server, sender, format);
        }
        let held = simulation.server(server).server.stats().listener.max_memory;
        assert!(held <= MEMORY / 2 + SENDERS as u64 * OF_EACH, "{format}: {held} bytes held");
        assert!(held > MEMORY / 4, "{format}: {held} bytes held say nothing");
        let took = simulation.elapsed();
        assert!(took < PAUSE + Duration::from_secs(5), "{format}: {took:?}");
    }
}

#[test]
fn the_others_go_on_while_one_application_is_stopped() {
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
fn an_application_that_reads_slowly_is_sent_no_more_than_it_reads_in_the_classic_format() {
    let (mut simulation, server, senders) = simulation(Link::Wire, &[(classic(), 5 * OF_ONE)]);
    simulation.set_read_policy(server, ReadPolicy::AtRate(OF_ONE));
    assert!(simulation.run_senders(Duration::from_secs(60)));
    assert_complete(&simulation, server, senders[0], "classic");
    let took = simulation.elapsed().as_secs_f64();
    assert!((4.8..6.0).contains(&took), "{took} s");
    let stats = simulation.sender(senders[0]).sender.stats();
    // Only the base is repeated while there is no room, and nothing that left before has to be.
    assert!(stats.retransmitted < 100, "{stats:?}");
}
