//! Flows of rdt and sources of datagrams in virtual time.

use std::time::Duration;

use rdt_emulator::{Direction, Path, child_seed};
use rdt_program::Stop;
use rdt_sim::{Simulation, WireId};

use super::flow_metrics::keeps_series;
use super::placed::{Observers, Placed, route};
use super::words::{
    application, check_source, connection_seed, flow_error, is_random, read_policy, sender, server,
    shares_air, source, start,
};
use super::{Engine, EngineError, Run, both_ways, metrics};
use crate::cell::{Cell, EngineKind, Physics};
use crate::experiment::Measure;
use crate::flow::{Flow, FlowKind, UDP_HEADERS};

/// Virtual time after which a repetition without a duration ends, even if flows have not.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

pub(super) struct VirtualTime;

impl Engine for VirtualTime {
    fn run(
        &self,
        cell: &Cell,
        seed: u64,
        measure: &Measure,
        _stop: &Stop,
        _capture: Option<&std::path::Path>,
    ) -> Result<Run, EngineError> {
        let physics = &cell.physics;
        check(physics)?;
        let mut simulation = Simulation::new();
        let wires = wires(physics, seed, &mut simulation)?;
        let mut flows = Vec::new();
        for wire in &wires {
            if keeps_series(measure) {
                simulation.sample_queue(*wire, Direction::Forward, measure.series);
            } else {
                simulation.summarise_queue(*wire, Direction::Forward, measure.series);
            }
        }
        // If nothing is drawn, neither are the packet numbers that connections skip.
        let connections = if is_random(physics) { seed } else { 0 };
        let seeds = (seed, connections);
        let answer = |flow: &Flow| both_ways::answer(&physics.flows, flow);
        for (index, flow) in physics.flows.iter().enumerate().filter(|(_, flow)| flow.answers.is_none()) {
            let index = index as u64;
            match answer(flow) {
                Some(answer) => {
                    let pair = [(flow, index), answer];
                    flows.extend(both_ways::place(pair, seeds, measure, &wires, &mut simulation)?);
                }
                None => flows.push(place(flow, index, seeds, measure, &wires, &mut simulation)?),
            }
        }
        match physics.duration {
            Some(duration) => simulation.run_until(duration),
            None => {
                simulation.run_senders(LIMIT);
            }
        }
        let mut run = metrics::of(&simulation, &flows, &wires, physics, measure);
        metrics::airtime(physics, &mut run.metrics);
        Ok(run)
    }
}

/// Returns an error for the first word or value that the engines of virtual time cannot apply.
pub(super) fn check(physics: &Physics) -> Result<(), EngineError> {
    for flow in &physics.flows {
        both_ways::check(physics, flow)?;
        if flow.kind == FlowKind::Udp {
            check_source(flow)?;
        } else if physics.engine == EngineKind::Packets {
            return Err(flow_error(flow, "the engine 'packets' has no transport: use kind = \"udp\""));
        } else {
            sender(flow, 0)?.validate().map_err(|error| flow_error(flow, error))?;
        }
    }
    for link in &physics.links {
        if let Some(file) = link.trace_files().first() {
            return Err(EngineError::Word(format!(
                "the trace {file} must be part of the experiment: give the rate in steps"
            )));
        }
    }
    Ok(())
}

/// Adds the links. Those that share their air are between the stations 0 and 1, 1 and 2, and so on
/// of one cell. The first has the seed of the repetition, so that packet n has the fate that it
/// has in other programs with this path and seed.
fn wires(physics: &Physics, seed: u64, simulation: &mut Simulation) -> Result<Vec<WireId>, EngineError> {
    let mut wires = Vec::new();
    for (index, link) in physics.links.iter().enumerate() {
        let mut link = link.clone();
        link.assume_headers(UDP_HEADERS);
        let config = link.to_path_config(|file| Err(format!("{file}: traces are not read here")));
        let config = config.map_err(|error| EngineError::Word(error.to_string()))?;
        let seed = if index == 0 { seed } else { child_seed(seed, index as u64) };
        let wire = simulation.add_wire(Path::new(config, seed));
        if physics.links.len() > 1 && shares_air(&link) {
            let shared = simulation.share_air(wire, [index, index + 1]);
            shared.map_err(|error| EngineError::Word(format!("link {}: {error}", index + 1)))?;
        }
        wires.push(wire);
    }
    Ok(wires)
}

/// Adds a flow, with the seeds of the repetition and of its connections.
fn place<'a>(
    flow: &'a Flow,
    index: u64,
    (seed, connections): (u64, u64),
    measure: &Measure,
    wires: &[WireId],
    simulation: &mut Simulation,
) -> Result<Placed<'a>, EngineError> {
    let start = start(flow, seed, index);
    let (from, to, is_sender) = if flow.kind == FlowKind::Udp {
        let to = simulation.add_sink();
        let from = simulation.add_source(source(flow, start, child_seed(seed, index))?, to);
        simulation.record_arrivals(to, measure.series);
        (from, to, false)
    } else {
        let config = sender(flow, connection_seed(connections, index))?;
        let to = simulation.add_server(server(flow, &config));
        simulation.record_goodput(to, measure.series);
        if let Some(policy) = read_policy(flow) {
            simulation.set_read_policy(to, policy);
        }
        simulation.set_cipher(flow.cipher);
        let from = simulation.add_application(config, to, application(flow, start));
        let from = from.map_err(|error| EngineError::Word(format!("flow {}: {error}", flow.name)))?;
        (from, to, true)
    };
    route(flow, (from, to), wires, simulation);
    let observers = is_sender.then(|| {
        let limits = simulation.measure_limits(from);
        let observers = Observers::new(simulation, limits, (flow, start), measure);
        simulation.sender_mut(from).observe(observers.attached());
        observers
    });
    Ok(Placed { flow, start, from, to, both_ways: false, observers })
}

#[cfg(test)]
mod tests {
    use rdt_emulator::spec::PathSpec;

    use super::*;
    use crate::experiment::WarmUp;
    use crate::flow::Reads;

    fn cell(path: &str, seconds: u64, flows: Vec<Flow>) -> Cell {
        let links = vec![PathSpec::from_toml(path).expect("a path")];
        let duration = (seconds > 0).then(|| Duration::from_secs(seconds));
        let physics =
            Physics { engine: EngineKind::Virtual, duration, links, flows, engine_words: Vec::new() };
        Cell::new(Vec::new(), physics)
    }

    fn run(cell: &Cell, seed: u64) -> Run {
        let measure = Measure { warm_up: WarmUp::Time(Duration::ZERO), ..Measure::default() };
        VirtualTime.run(cell, seed, &measure, &Stop::default(), None).expect("a cell that runs")
    }

    fn tcp(name: &str) -> Flow {
        Flow { kind: FlowKind::Tcp, cc: Some("reno".to_owned()), ..Flow::new(name) }
    }

    const LOSSY: &str = "rtt = '10ms'\nrate = '8mbit'\nloss = '2.5%/0'\nqueue = '50p'";

    #[test]
    fn equal_seeds_give_equal_runs() {
        let cell = cell(LOSSY, 5, vec![tcp("a")]);
        assert_eq!(run(&cell, 7), run(&cell, 7));
        assert_ne!(run(&cell, 7).hash, run(&cell, 8).hash);
    }

    /// Reno with RACK: the mean of 20 other seeds is 5.61 Mbit/s.
    #[test]
    fn goodput_with_random_loss_is_that_of_other_seeds() {
        let cell = cell(LOSSY, 99, vec![tcp("a")]);
        let goodput: Vec<f64> = (0..5).map(|seed| run(&cell, seed).metrics["a.goodput"]).collect();
        let mean = crate::statistics::mean(&goodput).expect("five runs");
        assert!((mean / 5.61e6 - 1.0).abs() < 0.05, "{goodput:?}");
    }

    #[test]
    fn bins_sum_to_the_bytes_delivered() {
        let cell = cell(LOSSY, 10, vec![tcp("a")]);
        let run = run(&cell, 3);
        let bins: f64 =
            run.series.columns["a.goodput"].iter().flatten().map(|bps| bps * run.series.bin_s / 8.0).sum();
        assert!((bins - run.metrics["a.bytes"]).abs() < 1.0, "{bins} of {}", run.metrics["a.bytes"]);
    }

    /// The probes of a closed window back off by two (RFC 9293, section 3.8.6.1).
    #[test]
    fn stalled_readers_are_probed_with_back_off() {
        let stalled = Flow {
            window: Some(65_536),
            min_rto: Some(Duration::from_millis(200)),
            reads: Reads::Stalled(Duration::from_secs(1), Duration::from_secs(8)),
            ..tcp("a")
        };
        let run = run(&cell("rtt = '20ms'\nrate = '10mbit'\nqueue = '100p'", 12, vec![stalled]), 1);
        let at = |n: u32| run.metrics[&format!("a.timeout-{n}")];
        for n in 1..3 {
            let ratio = (at(n + 2) - at(n + 1)) / (at(n + 1) - at(n));
            assert!((ratio / 2.0 - 1.0).abs() < 0.05, "probe {n}: {ratio}");
        }
        // The reader pauses for 7 of 12 s. A probe is no recovery from loss.
        let (window, recovery) = (run.metrics["a.limit.window"], run.metrics["a.limit.recovery"]);
        assert!(window > 7.0 / 12.0 && recovery < 0.01, "{window}, {recovery}");
        let pause = run.metrics["a.longest-pause"];
        assert!((7.9..8.6).contains(&pause), "{pause} s without a byte read");
        assert!(run.metrics["a.rwnd-min"] < 1432.0, "{}", run.metrics["a.rwnd-min"]);
    }

    #[test]
    fn transfers_end_and_have_a_completion_time() {
        let flow = Flow { bytes: Some(1_000_000), ..tcp("a") };
        let run = run(&cell("rtt = '100ms'\nrate = '10mbit'\nqueue = '1000p'", 0, vec![flow]), 1);
        let time = run.metrics["a.completion"];
        assert!((0.9..1.6).contains(&time), "{time}");
        assert!((run.metrics["a.goodput"] * time / 8e6 - 1.0).abs() < 1e-6);
    }

    /// The other flow fills the link, so the small window gets a share in proportion to it.
    #[test]
    fn small_window_limits_a_flow_beside_another() {
        let of = |window: u64| {
            let small = Flow { window: Some(window), ..tcp("small") };
            let cell = cell("rtt = '20ms'\nrate = '20mbit'\nqueue = '200p'", 10, vec![small, tcp("large")]);
            run(&cell, 1).metrics
        };
        let (one, two) = (of(16_384), of(32_768));
        let ratio = two["small.goodput"] / one["small.goodput"];
        assert!((1.7..2.5).contains(&ratio), "{ratio}");
        for metrics in [one, two] {
            assert!(metrics["small.limit.window"] > 0.8, "{}", metrics["small.limit.window"]);
            assert!(metrics["large.limit.window"] < 0.01 && metrics["large.limit.link"] > 0.5);
        }
        let alone = Flow { window: Some(1 << 20), ..tcp("a") };
        let alone = run(&cell("rtt = '20ms'\nrate = '20mbit'\nqueue = '2000p'", 10, vec![alone]), 1);
        assert!(alone.metrics["a.limit.link"] > 0.9, "its own queue: {}", alone.metrics["a.limit.link"]);
    }

    #[test]
    fn loss_of_all_packets_limits_by_recovery() {
        for loss in ["100%/0", "0/100%", "100%"] {
            let path = format!("rtt = '10ms'\nrate = '8mbit'\nloss = '{loss}'");
            let metrics = run(&cell(&path, 60, vec![tcp("a")]), 1).metrics;
            assert!(metrics["a.limit.recovery"] > 0.9, "{loss}: {metrics:?}");
        }
    }

    #[test]
    fn failed_transfers_have_no_completion_time() {
        let flow = Flow { bytes: Some(1_000_000), ..tcp("a") };
        let run = run(&cell("rtt = '10ms'\nloss = '100%'", 0, vec![flow]), 1);
        assert_eq!((run.metrics["a.failed"], run.metrics.get("a.completion")), (1.0, None));
    }

    /// 1, 1, 2, 4, 8, 10, 10 and 9 packets in eight round trips after that of the handshake. The
    /// FIN, which tells the receiver the end, takes half of one.
    #[test]
    fn classic_window_is_the_number_of_the_ack() {
        let flow = Flow {
            kind: FlowKind::Classic,
            cc: Some("fixed:10".to_owned()),
            bytes: Some(45 * 1464),
            ..Flow::new("a")
        };
        let run = run(&cell("rtt = '100ms'\nrate = '1gbit'\nqueue = 'none'", 0, vec![flow]), 1);
        assert_eq!((run.metrics["a.ack-window-error"], run.metrics["a.retransmitted"]), (0.0, 0.0));
        let time = run.metrics["a.completion"];
        assert!((time / 0.95 - 1.0).abs() < 0.01, "{time}");
    }

    /// UDP at 10 Mbit/s through 8 Mbit/s: 8 * 1472 / 1500 arrives, the rest is lost in the queue.
    #[test]
    fn datagrams_beyond_the_rate_are_lost_in_the_queue() {
        let udp = Flow { kind: FlowKind::Udp, rate: Some(10_000_000), ..Flow::new("u") };
        let run = run(&cell("rtt = '10ms'\nrate = '8mbit'\nqueue = '50p'", 20, vec![udp]), 1);
        let goodput = run.metrics["u.goodput"];
        assert!((goodput / (8e6 * 1472.0 / 1500.0) - 1.0).abs() < 0.005, "{goodput}");
        assert!(run.metrics["u.lost-queue"] > 0.0);
    }

    /// Everything is lost in the third and fourth of six seconds.
    #[test]
    fn loss_steps_count_from_the_start() {
        let udp = Flow { kind: FlowKind::Udp, rate: Some(2_000_000), ..Flow::new("u") };
        let path = "rtt = '10ms'\nrate = '8mbit'\nqueue = '50p'\nloss = '0s:0%, 2s:100%, 4s:0%/0'";
        let run = run(&cell(path, 6, vec![udp]), 1);
        let share = run.metrics["u.lost-loss"] / run.metrics["u.sent"];
        assert!((share - 1.0 / 3.0).abs() < 0.01, "{share}");
    }

    /// A saturated cell at 54 Mbit/s for half of the time, and at 6 Mbit/s for the other half.
    #[test]
    fn cell_follows_steps_of_its_bit_rate() {
        let udp = Flow { kind: FlowKind::Udp, rate: Some(40_000_000), ..Flow::new("u") };
        let goodput = |rate: &str| {
            let path = format!("rtt = '2ms'\nqueue = '50p'\nrate = '{rate}'");
            run(&cell(&path, 8, vec![udp.clone()]), 1).metrics["u.goodput"]
        };
        let mean = f64::midpoint(goodput("wifi-a"), goodput("wifi-a:rate=6mbit"));
        let steps = goodput("wifi-a:rate=0s:54mbit+4s:6mbit");
        assert!((steps / mean - 1.0).abs() < 0.01, "{steps} of {mean}");
    }

    /// From a station to the access point and on to another station: each packet is sent twice, in
    /// one cell or in two.
    #[test]
    fn links_of_one_cell_share_their_air() {
        let udp = Flow { kind: FlowKind::Udp, rate: Some(40_000_000), ..Flow::new("u") };
        let goodput = |rate: &str| {
            let path = format!("rtt = '1ms'\nqueue = '50p'\nrate = '{rate}'");
            let mut cell = cell(&path, 4, vec![udp.clone()]);
            cell.physics.links.push(cell.physics.links[0].clone());
            run(&cell, 1).metrics["u.goodput"]
        };
        let share = goodput("wifi-a:shared") / goodput("wifi-a");
        assert!((share - 0.513).abs() < 0.01, "{share}");
    }

    /// If this fails because results changed on purpose, raise `PHYSICS_VERSION` and record its
    /// new hash, so that results of both versions are never mixed.
    #[test]
    fn results_change_only_with_the_number_of_physics() {
        let flows = ["reno", "cubic", "bbr"].map(|cc| Flow { cc: Some(cc.to_owned()), ..tcp("a") });
        let udp = Flow { kind: FlowKind::Udp, rate: Some(10_000_000), ..Flow::new("u") };
        let wifi = "rate = 'wifi-a'\nqueue = '50p'";
        let hashes = flows.into_iter().chain([udp]).flat_map(|flow| {
            [LOSSY, wifi].map(|path| run(&cell(path, 3, vec![flow.clone()]), 5).hash.unwrap_or(0))
        });
        let all = hashes.fold(0_u64, |all, hash| all.rotate_left(7) ^ hash);
        assert_eq!((crate::cell::PHYSICS_VERSION, all), (10, RECORDED), "{all:#x}");
    }
    const RECORDED: u64 = 0x4C0A_189A_019C_2846;

    /// Data resumes at the first timeout after the outage. With back-off it is at most as late as
    /// the outage was long.
    #[test]
    fn goodput_follows_rate_steps_and_outages() {
        let path = "rtt = '20ms'\nqueue = '50p'\nrate = '0s:10mbit, 4s:20mbit'\noutage = '8s-10s'";
        let run = run(&cell(path, 14, vec![tcp("a")]), 1);
        let (lag, resumed) = (run.metrics["a.step-lag"], run.metrics["a.resumed"]);
        assert!((0.5..1.5).contains(&lag), "{lag}");
        assert!((0.1..2.4).contains(&resumed), "{resumed}");
        assert!(run.metrics["a.longest-pause"] - resumed < 2.2, "{:?}", run.metrics);
    }

    #[test]
    fn throughput_with_a_late_step_is_not_stationary() {
        let measure = Measure { warm_up: WarmUp::Auto, ..Measure::default() };
        let late = |rate: &str| {
            let cell = cell(&format!("rtt = '20ms'\nqueue = '50p'\nrate = '{rate}'"), 20, vec![tcp("a")]);
            let run = VirtualTime.run(&cell, 1, &measure, &Stop::default(), None).expect("a cell that runs");
            run.metrics.get("a.not-stationary").copied()
        };
        assert_eq!(late("0s:20mbit, 15s:2mbit"), Some(1.0));
        assert_eq!(late("0s:20mbit, 4s:2mbit"), None);
    }

    #[test]
    fn rtt_quantiles_ascend_from_the_minimum() {
        let run = run(&cell(LOSSY, 60, vec![tcp("a")]), 3);
        let times = ["rtt-min", "rtt-p50", "rtt-p90", "rtt-p99"].map(|it| run.metrics[&format!("a.{it}")]);
        assert!(times.is_sorted() && times[3] < 0.2, "{times:?}");
    }

    /// Half of the flight after a fast recovery, one segment after a timeout (RFC 5681, section 3).
    #[test]
    fn reno_window_after_losses_is_that_of_rfc_5681() {
        let ack = Some((1, Duration::from_millis(25)));
        let newreno = Flow { recovery: Some("newreno".to_owned()), ack, ..tcp("a") };
        let run = run(&cell(LOSSY, 60, vec![newreno]), 2);
        let metric = |name: &str| run.metrics[&format!("a.{name}")];
        assert!(metric("cwnd-after-timeout") <= 1432.0, "{:?}", run.metrics);
        assert!(
            metric("halving-error") <= 1432.0 && metric("recovered-error") <= 1432.0,
            "{:?}",
            run.metrics
        );
        let growth = metric("growth-per-rtt") / 1432.0;
        // The bytes acknowledged in a round trip are the previous window, a segment of 7 smaller.
        assert!((0.8..1.0).contains(&growth), "{growth} segments");
    }

    #[test]
    fn reversed_flows_use_the_reverse_link() {
        let path = "rtt = '20ms'\nrate = '10mbit'\nqueue = '100p'\n[reverse]\nrate = '2mbit'";
        let reversed = Flow { reverse: true, ..tcp("b") };
        let run = run(&cell(path, 20, vec![tcp("a"), reversed]), 1);
        let (a, b) = (run.metrics["a.goodput"], run.metrics["b.goodput"]);
        // The ACKs of the first flow wait in the queue of the second.
        assert!((3e6..9.8e6).contains(&a) && (1.5e6..2e6).contains(&b), "{a} and {b}");
        assert!(run.metrics["jain"] < 0.9 && (run.metrics["sum"] / (a + b) - 1.0).abs() < 0.1);
    }

    #[test]
    fn answer_is_the_other_direction_of_one_connection() {
        let path = "rtt = '20ms'\nrate = '10mbit'\nqueue = '100p'\n[reverse]\nrate = '2mbit'";
        let rdt = |name: &str, cc: &str| Flow { cc: Some(cc.to_owned()), ..Flow::new(name) };
        let back = Flow { reverse: true, answers: Some("a".to_owned()), ..rdt("b", "cubic") };
        let both = run(&cell(path, 20, vec![rdt("a", "reno"), back.clone()]), 1);
        let (a, b) = (both.metrics["a.goodput"], both.metrics["b.goodput"]);
        assert!((8e6..9.8e6).contains(&a) && (1.4e6..2e6).contains(&b), "{a} and {b}");
        assert!(both.metrics["a.packets-sent"] > 14_000.0 && both.metrics["b.rtt-mean"] > 0.02);
        let alone = Flow { answers: None, ..back.clone() };
        assert_ne!(both.hash, run(&cell(path, 20, vec![rdt("a", "reno"), alone]), 1).hash);
        for odd in [
            Flow { reverse: false, ..back.clone() },
            Flow { answers: Some("c".to_owned()), ..back.clone() },
            Flow { answers: Some("b".to_owned()), ..back },
        ] {
            let cell = cell(path, 1, vec![rdt("a", "reno"), odd]);
            assert!(VirtualTime.run(&cell, 1, &Measure::default(), &Stop::default(), None).is_err());
        }
    }

    #[test]
    fn starts_are_drawn_between_their_bounds() {
        let flow = Flow { start: (Duration::ZERO, Duration::from_millis(100)), ..tcp("a") };
        let starts: Vec<Duration> = (0..50).map(|seed| start(&flow, seed, 0)).collect();
        assert!(starts.iter().all(|it| *it < Duration::from_millis(100)));
        assert!(starts.iter().any(|it| *it < Duration::from_millis(20)));
        assert!(starts.iter().any(|it| *it > Duration::from_millis(80)));
    }

    #[test]
    fn words_that_the_engine_lacks_are_errors() {
        let odd = Flow { cc: Some("vegas".to_owned()), ..tcp("a") };
        let cell = cell(LOSSY, 1, vec![odd]);
        let error = VirtualTime.run(&cell, 1, &Measure::default(), &Stop::default(), None);
        assert!(matches!(&error, Err(EngineError::Word(text)) if text.contains("flow a")), "{error:?}");
    }
}
