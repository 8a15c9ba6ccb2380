//! A congestion controller of the user's own (AIMD), beside the built-in ones in virtual time.
//!
//! `cargo run --release --example custom_controller`

use std::sync::Arc;
use std::time::Duration;

use rdt::congestion::{AckEvent, Algorithm, CongestionEvent, Controller, Start};
use rdt::emulator::{Bitrate, Loss, Path, PathConfig, Probability, QueueSize};
use rdt::sim::{LinkMode, ServerConfig, Simulation};
use rdt::{ReceiverConfig, SenderConfig};

const BYTES: u64 = 50_000_000;
const MEGABITS: f64 = 400.0;

/// Congestion controller that adds one segment per round trip, and reduces the window to seven
/// eighths after a loss or an ECN mark.
#[derive(Debug)]
struct Aimd {
    mss: u64,
    cwnd: u64,
}

impl Controller for Aimd {
    fn on_ack(&mut self, ack: &AckEvent) {
        // A window that the application does not fill must not grow (RFC 7661).
        if ack.cwnd_limited && !ack.in_recovery() {
            self.cwnd += (self.mss * ack.acked / self.cwnd).max(1);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.cwnd = (event.flight_size * 7 / 8).max(2 * self.mss);
    }

    fn on_mss(&mut self, mss: u64) {
        self.mss = mss;
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn phase(&self) -> &'static str {
        "congestion_avoidance"
    }
}

/// Returns the goodput in Mbit/s over 50 Mbit/s, 40 ms, a queue of 1 BDP and 0.1 % loss.
fn goodput(config: SenderConfig) -> f64 {
    let mut path = PathConfig::symmetric(Duration::from_millis(40), Bitrate::from_bps(50_000_000))
        .queue_size(QueueSize::Packets(167));
    path.forward = path.forward.loss(Loss::Bernoulli(Probability::new(0.001).expect("from 0 to 1")));
    let mut simulation = Simulation::new();
    let server = simulation.add_server(ServerConfig::new(ReceiverConfig::reference(), LinkMode::None));
    let sender = simulation.add_sender(config, server, BYTES).expect("a valid configuration");
    let wire = simulation.add_wire(Path::new(path, 1));
    simulation.route(sender, server, wire);
    simulation.run_senders(Duration::from_secs(600));
    let node = simulation.sender(sender);
    assert!(node.outcome.is_finished(), "{:?}", node.outcome);
    MEGABITS / node.stats().elapsed().as_secs_f64()
}

fn main() {
    let native = SenderConfig::native(7);
    for congestion in [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr] {
        let rate = goodput(SenderConfig { congestion, ..native.clone() });
        println!("{rate:5.1} Mbit/s  {congestion}");
    }
    let aimd = |start: Start| -> Box<dyn Controller> {
        Box::new(Aimd { mss: start.mss, cwnd: start.mss * u64::from(start.initial_window) })
    };
    let config = SenderConfig { controller_factory: Some(Arc::new(aimd)), ..native };
    println!("{:5.1} Mbit/s  aimd", goodput(config));
}
