//! Native transfers in virtual time: goodput, behaviour on bad paths, loss recovery, and delivery
//! with every combination of algorithms.
//!
//! A failing test prints its path and seed; `RDT_SEED=<seed> cargo test --test main <name>` repeats
//! it. Longer measurements: `cargo test --release --test main native -- --include-ignored
//! --nocapture`.

mod adverse;
mod associations;
mod asymmetric;
mod bad_paths;
mod duplex;
mod ecn;
mod false_reports;
mod flow_control;
mod goodput;
mod long_path;
mod matrix;
mod max_rate;
mod one_machine;
mod path_mtu;
mod recovery;
mod restart;
mod return_path;
mod sack_and_window;
mod sharing;
mod skipped_numbers;
mod slow_reader;
mod start_under_loss;
mod waiting;

use std::env;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rdt::congestion::Algorithm;
use rdt::emulator::{Bitrate, Ledger, LinkConfig, Loss, Path, PathConfig, Probability, QueueSize};
use rdt::sim::{LinkMode, NodeId, Outcome, ReadPolicy, ServerConfig, Simulation, Transfer, WireId};
use rdt::transport::{LossDetection, Reordering, RtoPolicy};
use rdt::{Observer, ReceiverConfig, Resend, SenderConfig, SenderStats, Trace};

/// Bytes that IP and UDP add to a datagram.
const IP_UDP: u32 = 28;

/// Seed from `RDT_SEED`, or 1.
fn seed() -> u64 {
    env::var("RDT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn bernoulli(share: f64) -> Loss {
    Loss::Bernoulli(Probability::new(share).unwrap())
}

fn native(congestion: Algorithm) -> SenderConfig {
    SenderConfig { congestion, ..SenderConfig::native(7) }
}

/// Receiver whose application checks each byte.
fn receiver() -> ReceiverConfig {
    ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() }
}

fn server_config(receiver: ReceiverConfig) -> ServerConfig {
    ServerConfig::new(receiver, LinkMode::None)
}

/// Prints the scenario if the test panics.
struct PanicNote(String);

impl PanicNote {
    fn new(what: impl Debug, seed: u64) -> Self {
        let test = thread::current().name().unwrap_or("native").to_owned();
        Self(format!("{what:#?}\nagain: RDT_SEED={seed} cargo test --test main {test}"))
    }
}

impl Drop for PanicNote {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Transfer over one wire.
#[derive(Clone)]
struct Run {
    path: PathConfig,
    bytes: u64,
    config: SenderConfig,
    receiver: ReceiverConfig,
    reading: Option<ReadPolicy>,
    /// Virtual time within which it must end.
    limit: Duration,
    seed: u64,
}

impl Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SenderConfig { congestion, recovery, pacing, .. } = &self.config;
        let sender = (congestion, recovery, pacing);
        f.debug_struct("Run")
            .field("path", &self.path)
            .field("bytes", &self.bytes)
            .field("sender", &sender)
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}

/// Result of a run.
struct Done {
    stats: SenderStats,
    /// Time from the first SYN to the end.
    took: Duration,
    forward: Ledger,
    reverse: Ledger,
    received: Transfer,
    hash: u64,
    _note: PanicNote,
}

impl Done {
    /// Payload rate, bits per second, handshakes included.
    fn goodput(&self) -> f64 {
        self.received.bytes as f64 * 8.0 / self.took.as_secs_f64()
    }
}

/// Run in progress.
struct Running {
    simulation: Simulation,
    server: NodeId,
    sender: NodeId,
    wire: WireId,
    note: PanicNote,
}

impl Run {
    /// 10 MB over a lossless symmetric path with queues of one bandwidth-delay product.
    fn new(bps: u64, rtt: Duration) -> Self {
        let path = PathConfig::symmetric(rtt, Bitrate::from_bps(bps))
            .queue_size(QueueSize::BdpMillionths(1_000_000));
        Self {
            path,
            bytes: 10_000_000,
            config: SenderConfig::native(7),
            receiver: receiver(),
            reading: None,
            limit: secs(3600),
            seed: seed(),
        }
    }

    /// Sets the queues of both links, in packets.
    fn queue(mut self, packets: u32) -> Self {
        self.path = self.path.queue_size(QueueSize::Packets(packets));
        self
    }

    /// Changes the forward link.
    fn forward(mut self, change: impl FnOnce(LinkConfig) -> LinkConfig) -> Self {
        self.path.forward = change(self.path.forward);
        self
    }

    /// Changes both links.
    fn both_ways(mut self, change: impl Fn(LinkConfig) -> LinkConfig) -> Self {
        self.path.reverse = change(self.path.reverse);
        self.forward(change)
    }

    /// Sets the loss of the forward link.
    fn loss(self, loss: Loss) -> Self {
        self.forward(|link| link.loss(loss))
    }

    /// Sets the loss of both links.
    fn loss_both_ways(self, loss: &Loss) -> Self {
        self.both_ways(|link| link.loss(loss.clone()))
    }

    /// Drops the replies with these numbers.
    fn replies_lost(mut self, lost: &[u64]) -> Self {
        self.path.reverse = self.path.reverse.loss(Loss::script(lost.iter().copied()));
        self
    }

    fn bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    fn config(self, config: SenderConfig) -> Self {
        Self { config, ..self }
    }

    fn start(&self) -> Running {
        let mut simulation = Simulation::new();
        let server = simulation.add_server(server_config(self.receiver));
        let wire = simulation.add_wire(Path::new(self.path.clone(), self.seed));
        let sender = simulation.add_sender(self.config.clone(), server, self.bytes).unwrap();
        simulation.route(sender, server, wire);
        if let Some(reading) = self.reading {
            simulation.set_read_policy(server, reading);
        }
        Running { simulation, server, sender, wire, note: PanicNote::new(self, self.seed) }
    }

    /// Runs it to its end, which must be a success.
    fn run(&self) -> Done {
        self.run_observed(None)
    }

    fn run_observed(&self, observer: Option<Box<dyn Observer>>) -> Done {
        let mut running = self.start();
        if let Some(observer) = observer {
            running.simulation.sender_mut(running.sender).observe(observer);
        }
        let ended = running.simulation.run_senders(self.limit);
        let done = running.done();
        let outcome = &done.1;
        assert!(ended, "not over after {:?}: {:?}", self.limit, done.0.stats);
        assert!(outcome.is_finished(), "{outcome:?}: {:?}", done.0.stats);
        assert!(done.0.received.completed_at.is_some(), "{:?}", done.0.received);
        assert_eq!(done.0.received.bytes, self.bytes);
        done.0
    }

    /// Runs it for `time`, in which it must not end.
    fn run_for(&self, time: Duration) -> Done {
        let mut running = Self { bytes: u64::MAX / 2, ..self.clone() }.start();
        running.simulation.run_until(time);
        let (done, outcome) = running.done();
        assert_eq!(outcome, Outcome::Running, "{:?}", done.stats);
        done
    }
}

impl Running {
    fn done(self) -> (Done, Outcome) {
        let Self { simulation, server, sender, wire, note } = self;
        let node = simulation.sender(sender);
        let received = simulation.server(server).transfers.get(&sender).cloned().unwrap_or_default();
        assert!(received.intact, "a byte is wrong, missing or twice");
        let path = simulation.wire(wire);
        let (forward, reverse) = (*path.forward.ledger(), *path.reverse.ledger());
        assert!(forward.balances() && reverse.balances());
        let done = Done {
            stats: node.stats(),
            took: simulation.elapsed(),
            forward,
            reverse,
            received,
            hash: simulation.hash(),
            _note: note,
        };
        (done, node.outcome.clone())
    }
}

/// Log of a sender's datagrams; index n is packet n of its link.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Leaving>>>);

/// Datagram of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leaving {
    at: Instant,
    /// Sequence number of the data, in the wire's units.
    data: Option<u64>,
    resend: Option<Resend>,
}

impl Log {
    fn observer(&self) -> Box<dyn Observer> {
        Box::new(self.clone())
    }

    fn sent(&self) -> Vec<Leaving> {
        self.0.lock().unwrap().clone()
    }

    /// Sequence numbers of retransmitted data.
    fn resent(&self) -> Vec<u64> {
        let sent = self.sent();
        let again = sent.iter().zip(0..).filter(|(leaving, _)| leaving.resend.is_some());
        again.map(|(_, index)| index).collect()
    }
}

impl Observer for Log {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let (data, resend) = match trace {
            Trace::DataSent { seq, resend, .. } => (Some(*seq), *resend),
            // A PATH probe, which proves the keys, follows the SYN-ACK.
            Trace::SynSent { .. } | Trace::SynAckReceived { .. } | Trace::FinSent { .. } => (None, None),
            _ => return,
        };
        self.0.lock().unwrap().push(Leaving { at: now, data, resend });
    }
}
