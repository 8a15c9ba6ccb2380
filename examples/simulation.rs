//! Two native senders share one bottleneck in virtual time, with the same result on every host.
//!
//! `cargo run --release --example simulation`

use std::time::Duration;

use rdt::congestion::Algorithm;
use rdt::emulator::{Bitrate, Path, PathConfig, QueueSize};
use rdt::sim::{LinkMode, Recorder, ServerConfig, Simulation};
use rdt::{ReceiverConfig, SenderConfig};

/// More bytes than the link transmits in the time below, so that both senders are busy to the end.
const BYTES: u64 = 1_000_000_000;
const SECONDS: u64 = 30;

fn main() {
    let mut simulation = Simulation::new();
    let server = simulation.add_server(ServerConfig::new(ReceiverConfig::reference(), LinkMode::None));

    let path = PathConfig::symmetric(Duration::from_millis(40), Bitrate::from_bps(50_000_000))
        .queue_size(QueueSize::Packets(167));
    let wire = simulation.add_wire(Path::new(path, 1));
    let mut flows = Vec::new();
    for (seed, congestion) in [(7, Algorithm::Cubic), (8, Algorithm::Cubic)] {
        let config = SenderConfig { congestion, ..SenderConfig::native(seed) };
        let id = simulation.add_sender(config, server, BYTES).expect("a valid configuration");
        // Both senders share the path and its queue.
        simulation.route(id, server, wire);
        let recorder = Recorder::new(simulation.epoch(), Duration::from_secs(5));
        simulation.sender_mut(id).observe(Box::new(recorder.clone()));
        flows.push((id, recorder));
    }
    simulation.run_until(Duration::from_secs(SECONDS));

    for (number, (id, recorder)) in flows.iter().enumerate() {
        let stats = simulation.sender(*id).stats();
        let rate = stats.bytes_acked * 8 / 1000 / SECONDS;
        println!("flow {number}: {rate} kbit/s, {} packets lost, {} timeouts", stats.lost, stats.timeouts);
        let series = recorder.series();
        for (time, cwnd) in series.time_s.iter().zip(&series.cwnd) {
            println!("  {time:4.0} s  cwnd {cwnd} bytes");
        }
    }
    println!("{} datagrams in {:?} of virtual time", simulation.datagrams(), simulation.elapsed());
}
