//! Cost of a whole transfer over a lossy path in virtual time. Counted by `.ci/instructions`.
//! `cargo run --bin transfer -- native` (or `classic`).
//!
//! Packets are small, so that the cost per packet dominates the cost per byte.

use std::env;
use std::time::Duration;

use rdt::emulator::{Bitrate, Loss, Path, PathConfig, Probability, QueueSize};
use rdt::server::{LinkMode, ServerConfig};
use rdt::sim::Simulation;
use rdt::transport::{LinkProperties, ReceiverConfig, SenderConfig};

/// Bytes of the transfer, and payload bytes of each packet.
const BYTES: u64 = 2 << 20;
const PAYLOAD: usize = 100;
/// Link that the SYN requests; the path below is used instead.
const NO_LINK: LinkProperties =
    LinkProperties { rtt_s: 0.0, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };

fn main() {
    let format = env::args().nth(1).unwrap_or_else(|| "native".into());
    let mut config = match format.as_str() {
        "classic" => SenderConfig::new(256, NO_LINK),
        "native" => SenderConfig::native(7),
        other => panic!("there is no format {other}: classic or native"),
    };
    config.packet_size = config.packet_size - config.payload_size() + PAYLOAD;

    let share = |share| Loss::Bernoulli(Probability::new(share).expect("from 0 to 1"));
    let mut path = PathConfig::symmetric(Duration::from_millis(50), Bitrate::from_bps(20_000_000))
        .queue_size(QueueSize::Packets(1000));
    path.forward = path.forward.loss(share(0.001));
    path.reverse = path.reverse.loss(share(0.01));

    let mut simulation = Simulation::new();
    let server = simulation.add_server(ServerConfig::new(ReceiverConfig::reference(), LinkMode::None));
    let wire = simulation.add_wire(Path::new(path, 1));
    let sender = simulation.add_sender(config, server, BYTES).expect("a valid configuration");
    simulation.route(sender, server, wire);
    simulation.run_senders(Duration::from_secs(1000));

    let node = simulation.sender(sender);
    let stats = node.stats();
    assert!(node.outcome.is_finished(), "{:?}", node.outcome);
    println!(
        "{format}: {} packets of data, {} of them again, and {} answers in {:?} of virtual time, {}",
        BYTES.div_ceil(PAYLOAD as u64) + stats.retransmitted,
        stats.retransmitted,
        stats.datagrams_received,
        simulation.elapsed(),
        simulation.hash()
    );
}
