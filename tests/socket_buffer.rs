//! Receivers with a small socket buffer, in virtual time: no overflow on a short path, no small
//! window on a long one. The last link models the buffer: its queue is the buffer's size, its rate
//! that of the reader.

use std::time::Duration;

use rdt::emulator::{Bitrate, Path, PathConfig, QueueLimit};
use rdt::endpoint::truesize;
use rdt::sim::{LinkMode, ServerConfig, Simulation};
use rdt::transport::LinkProperties;
use rdt::{ReceiverConfig, SenderConfig, SenderStats};

/// `SO_RCVBUF` that the kernel grants with the default `net.core.rmem_max` of 212992: twice that,
/// in bytes of kernel accounting.
const GRANTED: usize = 425_984;
/// Datagrams that fit if they are not coalesced: each costs 2304 bytes of truesize.
const ROOM: u64 = GRANTED as u64 / 2304;
const BYTES: u64 = 20_000_000;

/// Transfer to a socket with this buffer, which the server knows or not.
struct Run {
    config: SenderConfig,
    rtt: Duration,
    rate: u64,
    /// Queue of the last link, datagrams.
    queue: u64,
    announced: Option<usize>,
}

impl Run {
    /// Runs it; returns the sender's counters, the drops in the buffer and the duration.
    fn result(self) -> (SenderStats, u64, Duration) {
        let mut path = PathConfig::symmetric(self.rtt, Bitrate::from_bps(self.rate));
        path.forward.queue = QueueLimit::bytes(self.queue * 1500);
        let mut server = ServerConfig::new(ReceiverConfig::reference(), LinkMode::None);
        server.socket_buffer = self.announced.map(truesize::socket_buffer);
        let mut simulation = Simulation::new();
        let server = simulation.add_server(server);
        let wire = simulation.add_wire(Path::new(path, 1));
        let sender = simulation.add_sender(self.config, server, BYTES).unwrap();
        simulation.route(sender, server, wire);
        assert!(simulation.run_senders(Duration::from_secs(600)));
        let stats = simulation.sender(sender).stats();
        (stats, simulation.wire(wire).forward.ledger().dropped_queue, simulation.elapsed())
    }
}

fn senders() -> [SenderConfig; 2] {
    let link =
        LinkProperties { rtt_s: 0.0, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 9000 };
    let native = SenderConfig { pacing: false, ..SenderConfig::native(7) };
    [SenderConfig::new(8192, link), SenderConfig { congestion: "fixed:8192".parse().unwrap(), ..native }]
}

#[test]
fn small_buffer_does_not_overflow_on_short_path() {
    for config in senders() {
        let run = |announced| {
            let rtt = Duration::from_micros(60);
            Run { config: config.clone(), rtt, rate: 1_000_000_000, queue: ROOM, announced }.result()
        };
        let (stats, overflow, _) = run(Some(GRANTED));
        assert_eq!((overflow, stats.retransmitted, stats.timeouts), (0, 0, 0), "{:?}", config.wire);
        assert!(stats.waited.peer_window > Duration::ZERO, "{:?}", config.wire);
        assert!(run(None).1 > 0, "{:?}: without a bound it does", config.wire);
    }
}

#[test]
fn small_buffer_does_not_limit_long_path() {
    for config in senders() {
        let run = |announced| {
            let rtt = Duration::from_millis(50);
            Run { config: config.clone(), rtt, rate: 100_000_000, queue: 1 << 20, announced }.result()
        };
        let (bounded, free) = (run(Some(GRANTED)).2, run(None).2);
        assert!(bounded <= free + Duration::from_millis(200), "{:?}: {bounded:?}, {free:?}", config.wire);
    }
}
