//! Native flows are connections: their applications, readers, counts, restarts and moves.

use std::time::Duration;

use rdt_crypto::Aead;
use rdt_emulator::{Bitrate, Path, PathConfig};
use rdt_server::{LinkMode, ServerConfig};
use rdt_sim::{Application, NodeId, Outcome, ReadPolicy, Simulation, WireId};
use rdt_testing::ms;
use rdt_transport::{ReceiverConfig, SenderConfig};

struct World {
    simulation: Simulation,
    server: NodeId,
    wire: WireId,
}

impl World {
    /// Server behind a path of 10 Mbit/s and 40 ms.
    fn new(keep_payload: bool) -> Self {
        let mut simulation = Simulation::new();
        let receiver = ReceiverConfig { keep_payload, ..ReceiverConfig::reference() };
        let server = simulation.add_server(ServerConfig::new(receiver, LinkMode::None));
        simulation.record_goodput(server, ms(100));
        let path = PathConfig::symmetric(ms(40), Bitrate::from_bps(10_000_000));
        let wire = simulation.add_wire(Path::new(path, 1));
        Self { simulation, server, wire }
    }

    fn add(&mut self, application: Application) -> NodeId {
        let config = SenderConfig::native(7);
        let sender = self.simulation.add_application(config, self.server, application).expect("valid");
        self.simulation.route(sender, self.server, self.wire);
        sender
    }

    fn run(&mut self) {
        assert!(self.simulation.run_senders(Duration::from_secs(60)));
    }

    fn received(&self, sender: NodeId) -> &rdt_sim::Transfer {
        &self.simulation.server(self.server).transfers[&sender]
    }
}

#[test]
fn bytes_are_counted_with_and_without_payload() {
    for (keep_payload, cipher) in [(true, Aead::None), (false, Aead::Aes128Gcm)] {
        let mut world = World::new(keep_payload);
        world.simulation.set_cipher(cipher);
        let sender = world.add(Application { start: ms(50), ..Application::transfer(1_000_000) });
        world.run();
        let node = world.simulation.sender(sender);
        assert_eq!(node.outcome, Outcome::Finished { crc: None });
        assert_eq!(node.opened_at, Some(world.simulation.epoch() + ms(50)));
        assert_eq!(node.connection().aead, Some(cipher));
        assert_eq!((node.written(), node.stats().bytes_acked), (1_000_000, 1_000_000));
        let transfer = world.received(sender);
        assert_eq!((transfer.bytes, transfer.intact, transfer.starts), (1_000_000, true, 1));
        assert_eq!(transfer.goodput.as_ref().map(rdt_sim::Bins::total), Some(1_000_000));
        // A round trip for the handshake, and half of one for the first byte.
        let first = transfer.first_byte_at.expect("a byte");
        assert!((ms(110)..ms(115)).contains(&first), "{first:?}");
    }
}

#[test]
fn restarted_sender_has_new_connection_under_its_node() {
    let mut world = World::new(true);
    let sender = world.add(Application::transfer(u64::MAX / 2));
    world.simulation.run_until(ms(1000));
    assert!(world.received(sender).bytes > 100_000);
    world.simulation.restart_sender(sender, SenderConfig::native(7), 300_000).expect("valid");
    world.run();
    let transfer = world.received(sender);
    assert_eq!((transfer.bytes, transfer.intact, transfer.starts), (300_000, true, 2));
    assert!(transfer.completed_at.is_some());
    // The old connection ends at its idle timeout.
    world.simulation.run_until(Duration::from_secs(200));
    assert_eq!(world.received(sender).closed, Some(false));
}

#[test]
fn moved_sender_keeps_its_transfer() {
    let mut world = World::new(true);
    let sender = world.add(Application::transfer(2_000_000));
    world.simulation.run_until(ms(500));
    let moved = world.simulation.move_node(sender);
    world.simulation.route(moved, world.server, world.wire);
    world.run();
    assert!(world.simulation.sender(moved).outcome.is_finished());
    assert_eq!(world.received(sender).bytes, 2_000_000);
    assert_eq!(world.simulation.server(world.server).transfers.len(), 1);
}

#[test]
fn stalled_reader_gets_rest_when_it_reads() {
    let mut world = World::new(true);
    let sender = world.add(Application::transfer(500_000));
    let policy = ReadPolicy::Stalled { from: ms(200), length: ms(3000) };
    world.simulation.set_read_policy(world.server, policy);
    world.run();
    assert_eq!(world.received(sender).completed_at, Some(ms(3200)));
}
