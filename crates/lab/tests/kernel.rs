//! The engine `kernel`: TCP and UDP of this host in network namespaces. The tests are skipped, with
//! a word about it, where the host has no namespaces.
#![cfg(target_os = "linux")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdt_emulator::spec::PathSpec;
use rdt_lab::engine::{self, Engine, EngineError, Run, use_program};
use rdt_lab::experiment::Measure;
use rdt_lab::{Cell, EngineKind, Flow, FlowKind, Physics};

/// Repetitions in real time run one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Returns the engine, or `None` where it cannot run.
fn kernel() -> Option<(&'static dyn Engine, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    use_program(env!("CARGO_BIN_EXE_rdt-lab").into());
    match engine::engine(EngineKind::Kernel) {
        Ok(engine) => Some((engine, turn)),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn cell(path: &str, millis: u64, flows: Vec<Flow>) -> Cell {
    let physics = Physics {
        engine: EngineKind::Kernel,
        duration: (millis > 0).then(|| Duration::from_millis(millis)),
        links: vec![PathSpec::from_toml(path).expect("a path")],
        flows,
        engine_words: Vec::new(),
    };
    Cell::new(Vec::new(), physics)
}

fn tcp(name: &str) -> Flow {
    Flow { kind: FlowKind::Tcp, cc: Some("reno".to_owned()), ..Flow::new(name) }
}

fn run(engine: &dyn Engine, cell: &Cell) -> Run {
    engine.run(cell, 7, &Measure::default()).expect("a run")
}

const LINK: &str = "rtt = '20ms'\nrate = '4mbit'\nqueue = '50p'";

#[test]
fn transfers_complete_and_their_bins_sum() {
    let Some((engine, _turn)) = kernel() else { return };
    let flow = Flow { bytes: Some(200_000), ..tcp("a") };
    let run = run(engine, &cell(LINK, 0, vec![flow]));
    let time = run.metrics["a.completion"];
    // 200,000 bytes at 4 Mbit/s take 0.41 s with headers.
    assert!(time > 0.41 && time < 5.0, "{time}");
    assert_eq!((run.metrics["a.bytes"], run.metrics["a.failed"]), (200_000.0, 0.0));
    let bits: f64 = run.series.columns["a.goodput"].iter().flatten().map(|bps| bps * run.series.bin_s).sum();
    assert!((bits - 1_600_000.0).abs() < 1.0, "{bits}");
    assert!(run.series.columns["a.cwnd"].iter().flatten().any(|bytes| *bytes >= 14_480.0));
}

#[test]
fn words_reach_the_kernel() {
    let Some((engine, _turn)) = kernel() else { return };
    let flow = Flow {
        bytes: Some(2_000),
        initial_window: Some(3),
        packet: Some(576),
        recovery: Some("newreno".to_owned()),
        ecn: Some(true),
        ..tcp("a")
    };
    let run = run(engine, &cell(LINK, 0, vec![flow]));
    // 576 bytes less 40 of headers and 12 of timestamps.
    assert_eq!(run.metrics.get("a.mss"), Some(&524.0));
    let first = run.series.columns["a.cwnd"].iter().flatten().copied().reduce(f64::min);
    assert_eq!(first, Some(3.0 * 524.0));
}

#[test]
fn small_windows_limit_the_flow() {
    let Some((engine, _turn)) = kernel() else { return };
    let flow = Flow { window: Some(10_000), ..tcp("a") };
    let path = "rtt = '50ms'\nrate = '10mbit'\nqueue = '50p'";
    let run = run(engine, &cell(path, 2_000, vec![flow]));
    // 10,000 bytes in 50 ms are 1.6 Mbit/s.
    assert!(run.metrics["a.goodput"] < 2e6, "{}", run.metrics["a.goodput"]);
    assert!(run.metrics["a.limit.window"] > 0.5, "{}", run.metrics["a.limit.window"]);
}

#[test]
fn datagrams_and_reversed_flows_share_a_clock() {
    let Some((engine, _turn)) = kernel() else { return };
    let udp = Flow { kind: FlowKind::Udp, rate: Some(1_000_000), size: Some(1_000), ..Flow::new("u") };
    let second = Duration::from_millis(500);
    let reversed = Flow { reverse: true, start: (second, second), ..tcp("r") };
    let run = run(engine, &cell(LINK, 2_000, vec![udp, reversed]));
    let sent = run.metrics["u.sent"];
    assert!((200.0..=251.0).contains(&sent), "{sent}");
    assert_eq!(run.metrics.get("u.lost"), Some(&0.0));
    assert!(run.metrics["u.delay-mean"] > 0.01, "{}", run.metrics["u.delay-mean"]);
    assert!(run.metrics["r.bytes"] > 0.0 && run.metrics["link.reverse.delivered"] > 0.0);
    let idle = run.series.columns["r.goodput"].iter().take(5).all(|bps| *bps == Some(0.0));
    assert!(idle, "the reversed flow starts at 0.5 s");
}

#[test]
fn unknown_congestion_controls_are_errors() {
    let Some((engine, _turn)) = kernel() else { return };
    let odd = Flow { cc: Some("nosuch".to_owned()), ..tcp("a") };
    let error = engine.run(&cell(LINK, 100, vec![odd]), 1, &Measure::default());
    assert!(matches!(&error, Err(EngineError::Word(text)) if text.contains("nosuch")), "{error:?}");
}
