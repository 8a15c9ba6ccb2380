//! Random loss at full speed: `cargo bench --bench loss` (`-- --rounds N --bytes N`: 5,
//! 4000000000).
//!
//! 0.1 % loss in forward direction, RTT 0, a window of 8192 packets of 1472 bytes, a link of 10
//! Gbit/s, `rdt-send local`. Each round has its own seed, and the variants alternate. Each variant
//! is compared with the same transfers in virtual time (equal losses, hosts that need no time), and
//! with a model of its loss recovery.
//!
//! Two rates. The steady rate excludes the time in which the window opens, and the last window. In
//! the last window no new packets follow a hole, so each of its eight or so holes waits for the
//! timer if only the base (the oldest unacknowledged packet) is retransmitted. The total rate is
//! that of the whole transfer. "Link busy" is the share of the total time in which the link
//! transmitted packets. If it equals that in virtual time, the host has no effect.
//!
//! Native has no cipher here, as in the simulator. Model of native, which retransmits only lost
//! packets: the link is always busy. Packets are lost before the link transmits them
//! (`emulator/link.rs`), so a loss costs no link time, and the rate is that of the link without
//! headers.
//!
//! Model of classic. Let p be the loss probability and s the transmission time of a packet.
//! - A single loss is repaired while the link is busy. The third packet after the hole causes the
//!   third duplicate ACK, and the base is retransmitted while the link transmits the rest of the
//!   window. Then the base advances to the next hole. Until then 1/p new packets are sent on
//!   average, far more than the three needed to detect the next hole.
//! - The timer must fire if the base can be retransmitted only once and that fails. Either the
//!   distance to the hole before is 1 or 2 (probability 2 p), so that fewer than three packets
//!   follow, or the retransmission is lost too (probability p). Then the link transmits for at most
//!   W s, and is idle until RTO = srtt + 4 max(rttvar, 10 ms).
//! - So a packet takes s + 3 p^2 I, where the idle time of a timeout is I = RTO:
//!   goodput = 8 * 1464 / (s + 3 p^2 I). The srtt is that of a queue of 1/p packets: the queue is
//!   empty when a hole is repaired, and the advance of the base fills it again.

mod common;

use std::time::Duration;

use common::{Program, Surroundings, argument, assert_arrived, median, number, rounds, table};
use rdt_sim::{Scenario, Simulation};
use rdt_transport::congestion::Algorithm;
use rdt_transport::wire::native::LinkRequest;
use rdt_transport::{SenderConfig, Wire};

const WINDOW: u32 = 8192;
const LOSS: f32 = 0.001;
const RATE_BPS: f64 = 1e10;
const PACKET: f64 = 1472.0;
/// Payload of a full packet in each format, bytes.
const CLASSIC_PAYLOAD: f64 = 1464.0;
const NATIVE_PAYLOAD: f64 = 1432.0;
/// Router buffer of the link, packets.
const QUEUE: u32 = WINDOW + 50;

/// Format and recovery of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Classic,
    Fixed,
    Unpaced,
    Untuned,
}

const WAYS: [Way; 4] = [Way::Classic, Way::Fixed, Way::Unpaced, Way::Untuned];

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(5), argument("--bytes", 4_000_000_000));
    println!(
        "Loss {LOSS}, W {WINDOW}, RTT 0, 10 Gbit/s, {bytes} bytes; medians of {rounds} interleaved rounds.\n"
    );
    let (mut real, mut virtual_time) = (WAYS.map(|_| Vec::new()), WAYS.map(|_| Vec::new()));
    for seed in 1..=rounds as u64 {
        for (runs, way) in real.iter_mut().zip(WAYS) {
            runs.push(way.real(seed, bytes));
        }
        for (runs, way) in virtual_time.iter_mut().zip(WAYS) {
            runs.push(way.simulated(seed, bytes));
        }
    }
    table(&[
        "way",
        "where",
        "steady Gbit/s",
        "whole Gbit/s",
        "model",
        "steady of it",
        "whole of it",
        "link busy",
        "packets lost",
        "sent again",
        "timeouts",
        "host told as the limit",
    ]);
    for ((way, real), virtual_time) in WAYS.iter().zip(&real).zip(&virtual_time) {
        println!("| {} | this host | {} |", way.name(), cells(*way, real));
        println!("| {} | virtual time | {} |", way.name(), cells(*way, virtual_time));
    }
    surroundings.report();
}

fn cells(way: Way, runs: &[Run]) -> String {
    let of = |value: fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
    let (steady, whole, model) = (of(|run| run.steady), of(|run| run.whole), way.model());
    format!(
        "{steady:.3} | {whole:.3} | {model:.3} | {:.3} | {:.3} | {:.3} | {} | {} | {} | {} of {}",
        steady / model,
        whole / model,
        of(|run| run.busy),
        of(|run| run.lost),
        of(|run| run.retransmitted),
        of(|run| run.timeouts),
        runs.iter().filter(|run| run.host_limited).count(),
        runs.len(),
    )
}

/// Result of one transfer; rates in Gbit/s of payload.
struct Run {
    steady: f64,
    whole: f64,
    /// Time in which the link was busy, as a share of the total time.
    busy: f64,
    lost: f64,
    retransmitted: f64,
    timeouts: f64,
    host_limited: bool,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Fixed => "native, fixed window",
            Self::Unpaced => "native, fixed window, no pacing",
            Self::Untuned => "native, BBR, nothing told",
        }
    }

    fn payload(self) -> f64 {
        if self == Self::Classic { CLASSIC_PAYLOAD } else { NATIVE_PAYLOAD }
    }

    /// Returns the goodput of the model, Gbit/s.
    fn model(self) -> f64 {
        let p = f64::from(LOSS);
        let service = PACKET * 8.0 / RATE_BPS;
        let bits = self.payload() * 8.0;
        match self {
            Self::Classic => {
                let rto = service / p + 0.04;
                bits / (service + 3.0 * p * p * rto) / 1e9
            }
            Self::Fixed | Self::Unpaced | Self::Untuned => bits / service / 1e9,
        }
    }

    fn real(self, seed: u64, bytes: u64) -> Run {
        let link = match self {
            Self::Classic => format!("{WINDOW} 0 {LOSS} 10000"),
            Self::Fixed => format!("{WINDOW} 0 {LOSS} 10000 --wire native --insecure"),
            Self::Unpaced => format!("{WINDOW} 0 {LOSS} 10000 --wire native --insecure --pacing off"),
            Self::Untuned => format!("--insecure --rtt 0s --rate 10gbit --loss {LOSS} --queue {QUEUE}p"),
        };
        let args = format!("local {link} --bytes {bytes} --seed {seed} --interval 50ms");
        let mut lines = Program::sender(&args).lines();
        let summary = lines.pop().unwrap_or_default();
        assert_arrived(&summary);
        let intervals = lines.iter().filter(|line| line["event"] == "interval");
        let marks = intervals.map(|line| (number(line, "elapsed_ns") / 1e9, number(line, "base_packets")));
        let forward = &summary["receiver"]["forward"];
        Run {
            steady: self.steady(marks, number(&summary, "packets")),
            whole: number(&summary, "goodput_bps") / 1e9,
            busy: number(forward, "busy_ns") / number(&summary, "elapsed_ns"),
            lost: number(forward, "dropped_loss"),
            retransmitted: number(&summary, "retransmitted"),
            timeouts: number(&summary, "timeouts"),
            host_limited: summary["host_limited"] == true,
        }
    }

    /// Returns the configuration whose link is that of the positional arguments.
    fn config(self, scenario: &Scenario) -> SenderConfig {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers")]
        let request = LinkRequest {
            rtt_us: 0,
            rate_bps: RATE_BPS as u64,
            loss_forward_ppb: (LOSS * 1e9).round() as u32,
            loss_reverse_ppb: 0,
            queue_bytes: u64::from(QUEUE) * PACKET as u64,
        };
        let native = SenderConfig { link_request: Some(request), ..SenderConfig::native(1) };
        match self {
            Self::Classic => scenario.sender_config(),
            Self::Untuned => native,
            Self::Fixed | Self::Unpaced => SenderConfig {
                congestion: Algorithm::Fixed(WINDOW),
                window: WINDOW,
                pacing: self == Self::Fixed,
                ..native
            },
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts and rates to three decimals")]
    fn simulated(self, seed: u64, bytes: u64) -> Run {
        let scenario = Scenario {
            window: WINDOW,
            rtt_s: 0.0,
            #[expect(clippy::cast_possible_truncation, reason = "the SYN carries an f32")]
            speed_bps: RATE_BPS as f32,
            loss_forward: LOSS,
            buffer: QUEUE,
            bytes,
            seed,
            check_bytes: false,
            ..Scenario::default()
        };
        let mut simulation = Simulation::new();
        let server = simulation.add_server(scenario.server_config());
        let config = self.config(&scenario);
        // Sequence numbers are bytes in native, packets in classic.
        let unit = if config.wire == Wire::Classic { 1.0 } else { self.payload() };
        let sender = simulation.add_sender(config, server, bytes).expect("a valid configuration");
        let mut marks = Vec::new();
        let stats = loop {
            simulation.run_until(simulation.elapsed() + Duration::from_millis(50));
            let stats = simulation.sender(sender).stats();
            marks.push((simulation.elapsed().as_secs_f64(), stats.snd_una as f64 / unit));
            let outcome = &simulation.sender(sender).outcome;
            assert!(marks.len() < 20 * 600, "{self:?} was not over in 600 s: {outcome:?}, {stats:?}");
            if stats.bytes_acked == bytes {
                break stats;
            }
        };
        let forward = simulation.server(server).server.stats().forward;
        let elapsed = stats.elapsed().as_secs_f64();
        Run {
            steady: self.steady(marks.into_iter(), stats.snd_una as f64 / unit),
            whole: bytes as f64 * 8.0 / elapsed / 1e9,
            busy: forward.busy.as_secs_f64() / elapsed,
            lost: forward.dropped_loss as f64,
            retransmitted: stats.retransmitted as f64,
            timeouts: stats.timeouts as f64,
            host_limited: false,
        }
    }

    /// Returns the payload rate between the first and the last sample (time, base in packets) in
    /// which the window is open and is not the last one, Gbit/s.
    fn steady(self, marks: impl Iterator<Item = (f64, f64)>, packets: f64) -> f64 {
        let window = f64::from(WINDOW);
        let marks: Vec<_> =
            marks.filter(|(_, base)| (2.0 * window..packets - window).contains(base)).collect();
        let (Some((begin, first)), Some((end, last))) = (marks.first(), marks.last()) else {
            return f64::NAN;
        };
        (last - first) * self.payload() * 8.0 / (end - begin) / 1e9
    }
}
