//! Engines of real time: flows over sockets of this host in network namespaces, and programs. Tests
//! with namespaces are skipped, with a word about it, where the host has no namespaces.
#![cfg(target_os = "linux")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdt_emulator::spec::PathSpec;
use rdt_lab::engine::{self, Engine, EngineError, Run, use_program};
use rdt_lab::experiment::Measure;
use rdt_lab::{Cell, EngineKind, Flow, FlowKind, Physics};
use rdt_program::Stop;

/// Repetitions in real time run one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Returns the engine and its turn, or `None` where it cannot run.
fn kernel() -> Option<(&'static dyn Engine, MutexGuard<'static, ()>)> {
    sockets(EngineKind::Kernel)
}

fn sockets(kind: EngineKind) -> Option<(&'static dyn Engine, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    use_program(env!("CARGO_BIN_EXE_rdt-lab").into());
    let engine = engine::engine(kind).expect("an engine of this system");
    match engine.check(&cell(LINK, 100, Vec::new())) {
        Ok(()) => Some((engine, turn)),
        Err(error) => {
            rdt_testing::skipped(error);
            None
        }
    }
}

fn cell(path: &str, millis: u64, flows: Vec<Flow>) -> Cell {
    of_engine(EngineKind::Kernel, vec![PathSpec::from_toml(path).expect("a path")], millis, flows)
}

fn of_engine(engine: EngineKind, links: Vec<PathSpec>, millis: u64, flows: Vec<Flow>) -> Cell {
    let duration = (millis > 0).then(|| Duration::from_millis(millis));
    Cell::new(Vec::new(), Physics { engine, duration, links, flows, engine_words: Vec::new() })
}

fn tcp(name: &str) -> Flow {
    Flow { kind: FlowKind::Tcp, cc: Some("reno".to_owned()), ..Flow::new(name) }
}

fn run(engine: &dyn Engine, cell: &Cell) -> Run {
    engine.run(cell, 7, &Measure::default(), &Stop::default(), None).expect("a run")
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

/// All are sent before the first arrives.
#[test]
fn datagrams_on_a_long_path_are_awaited() {
    let Some((engine, _turn)) = kernel() else { return };
    let udp = Flow {
        kind: FlowKind::Udp,
        bytes: Some(3_000),
        rate: Some(10_000_000),
        size: Some(1_000),
        ..Flow::new("u")
    };
    let run = run(engine, &cell("rtt = '1600ms'", 0, vec![udp]));
    assert_eq!((run.metrics["u.sent"], run.metrics["u.delivered"], run.metrics["u.lost"]), (3.0, 3.0, 0.0));
}

#[test]
fn links_in_series_are_nested_runs() {
    let Some((engine, _turn)) = kernel() else { return };
    let links = ["rtt = '10ms'\nrate = '8mbit'", "rtt = '20ms'\nrate = '4mbit'\nloss = '50%/0'"];
    let links = links.map(|link| PathSpec::from_toml(link).expect("a link")).to_vec();
    let udp = Flow { kind: FlowKind::Udp, rate: Some(1_000_000), size: Some(1_000), ..Flow::new("u") };
    let run = run(engine, &of_engine(EngineKind::Kernel, links, 1_000, vec![udp]));
    assert!(run.metrics["u.delay-mean"] >= 0.015, "half the round trips of both: {:?}", run.metrics);
    let lost = run.metrics["link2.forward.dropped-loss"];
    assert!(lost > 10.0 && run.metrics["u.lost"] <= lost, "{:?}", run.metrics);
    assert!(run.metrics["link1.forward.dropped-loss"] < 0.5, "{:?}", run.metrics);
}

/// Returns a cell whose flows use IPv6.
fn over_ipv6(links: &[&str], flows: Vec<Flow>) -> Cell {
    let links = links.iter().map(|link| PathSpec::from_toml(link).expect("a link")).collect();
    let mut cell = of_engine(EngineKind::Kernel, links, 1_000, flows);
    cell.physics.engine_words.push(("ipv6".to_owned(), "on".to_owned()));
    cell
}

#[test]
fn all_kinds_of_flows_use_ipv6() {
    let Some((engine, _turn)) = kernel() else { return };
    let udp = Flow { kind: FlowKind::Udp, rate: Some(400_000), size: Some(1_000), ..Flow::new("u") };
    let rdt = Flow { cc: Some("fixed:2".to_owned()), ..Flow::new("r") };
    let flows = vec![udp, Flow { packet: Some(1_300), initial_window: Some(3), ..tcp("t") }, rdt];
    let run = run(engine, &over_ipv6(&[LINK], flows));
    // 1300 bytes less 60 of headers and 12 of timestamps.
    assert_eq!(run.metrics.get("t.mss"), Some(&1_228.0));
    for flow in ["u", "t", "r"] {
        assert!(run.metrics[&format!("{flow}.bytes")] > 0.0, "{flow}: {:?}", run.metrics);
    }
    assert_eq!(run.metrics.get("link.forward.dropped-mtu"), None);
}

/// The datagrams fit the first link. The kernel between the links answers the first with
/// "packet too big" of `ICMPv6`, and the sender makes fragments of all others.
#[test]
fn too_big_packets_of_ipv6_become_fragments() {
    let Some((engine, _turn)) = kernel() else { return };
    let udp = Flow { kind: FlowKind::Udp, rate: Some(1_000_000), size: Some(1_710), ..Flow::new("u") };
    let links = ["rtt = '10ms'\nheaders = 48\nmtu = 2274", "rtt = '10ms'\nheaders = 48\nmtu = 1500"];
    let run = run(engine, &over_ipv6(&links, vec![udp]));
    let metric = |name: &str| run.metrics[name];
    assert!(metric("link1.reverse.delivered") >= 1.0, "{:?}", run.metrics);
    assert!(metric("u.delivered") > 0.9 * metric("u.sent"), "{:?}", run.metrics);
    // Beside the fragments of all datagrams the kernel between the links reports the multicast
    // groups of a router.
    let packets = 2.0 * metric("u.delivered")..=2.0 * metric("u.sent") + 4.0;
    assert!(packets.contains(&metric("link2.forward.sent")), "{:?}", run.metrics);
}

#[test]
fn rates_of_paths_are_tried_before_repetitions() {
    let Some((_, _turn)) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("slow.toml");
    let text = "schema = 1\nname = \"slow\"\ntitle = \"Slow\"\nengine = \"kernel\"\nfor = \"0.2s\"\n\
                [path]\nrate = \"1mbit\"\n[[flow]]\nname = \"u\"\nkind = \"udp\"\nrate = \"100kbit\"\n\
                [repeats]\nleast = 1\nmost = 1\n";
    std::fs::write(&file, text).expect("a file");
    let mut lab = std::process::Command::new(env!("CARGO_BIN_EXE_rdt-lab"));
    // Fails on a host that is busy, after it has recorded the repetition.
    lab.arg("run").arg(&file).arg("-o").arg(folder.path()).status().expect("the program");
    let journal = std::fs::read_dir(folder.path().join("slow/journal")).expect("a journal");
    let lines = journal.map(|it| std::fs::read_to_string(it.expect("a file").path()).expect("text"));
    assert_eq!(lines.collect::<String>().matches("\"rate-held\":").count(), 1);
}

#[test]
fn unknown_congestion_controls_are_errors() {
    let Some((engine, _turn)) = kernel() else { return };
    let odd = Flow { cc: Some("nosuch".to_owned()), ..tcp("a") };
    let error = engine.run(&cell(LINK, 100, vec![odd]), 1, &Measure::default(), &Stop::default(), None);
    assert!(matches!(&error, Err(EngineError::Word(text)) if text.contains("nosuch")), "{error:?}");
}

#[test]
fn flows_of_rdt_cross_the_path() {
    let Some((engine, _turn)) = sockets(EngineKind::Real) else { return };
    let flow =
        Flow { bytes: Some(200_000), cc: Some("fixed:10".to_owned()), pacing: Some(false), ..Flow::new("a") };
    let links = vec![PathSpec::from_toml("rtt = '50ms'\nrate = '20mbit'\nloss = '2%/0'").expect("a path")];
    let run = run(engine, &of_engine(EngineKind::Real, links, 0, vec![flow]));
    // Ten packets of 1432 bytes for each round trip, less what the losses cost.
    let goodput = run.metrics["a.goodput"];
    assert!(goodput < 2.4e6 && goodput > 1e5, "{goodput}");
    assert_eq!((run.metrics["a.bytes"], run.metrics["a.failed"]), (200_000.0, 0.0));
    assert!(run.metrics["a.rtt-min"] >= 0.05 && run.metrics["a.cwnd-max"] >= 14_320.0);
    // Repetitions of the handshake and tail probes may be among the lost packets.
    assert!(run.metrics["link.forward.dropped-loss"] <= run.metrics["a.retransmitted"] + 3.0);
    assert!(run.metrics["a.limit.cwnd"] > 0.3, "{:?}", run.metrics);
}

#[test]
fn flows_of_rdt_need_no_path() {
    use_program(env!("CARGO_BIN_EXE_rdt-lab").into());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = engine::engine(EngineKind::Real).expect("an engine of this system");
    let flow = Flow { bytes: Some(1_000_000), packet: Some(9_000), ..Flow::new("a") };
    let run = run(engine, &of_engine(EngineKind::Real, Vec::new(), 0, vec![flow]));
    assert_eq!((run.metrics["a.bytes"], run.metrics.get("link.forward.sent")), (1_000_000.0, None));
    assert!(run.metrics["processor"] > 0.0, "{:?}", run.metrics);
}

/// Runs programs with the engine `command`, behind a path or without one.
fn command(path: Option<&str>, words: &[(&str, &str)], stop: &Stop) -> Result<Run, EngineError> {
    use_program(env!("CARGO_BIN_EXE_rdt-lab").into());
    let engine = engine::engine(EngineKind::Command).expect("an engine of this system");
    let links = path.map(|path| PathSpec::from_toml(path).expect("a path")).into_iter().collect();
    let mut cell = of_engine(EngineKind::Command, links, 0, Vec::new());
    cell.physics.engine_words =
        words.iter().map(|(word, value)| ((*word).to_owned(), (*value).to_owned())).collect();
    engine.run(&cell, 7, &Measure::default(), stop, None)
}

/// Returns the failure of a program without path.
fn failure(words: &[(&str, &str)]) -> String {
    match command(None, words, &Stop::default()) {
        Err(EngineError::Failed(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn output_of_programs_becomes_metrics() {
    let words = [
        ("program", "sleep 0.1; echo '{\"end\": {\"bps\": {bps}}}'"),
        ("bps", "125"),
        ("metrics.goodput", "/end/bps"),
    ];
    let run = command(None, &words, &Stop::default()).expect("a run");
    assert_eq!(run.metrics.get("goodput"), Some(&125.0));
    assert!((0.1..10.0).contains(&run.metrics["run-time"]), "{:?}", run.metrics);
}

#[test]
fn failed_programs_are_explained() {
    let text = failure(&[("program", "echo no route >&2; echo to it >&2; exit 3")]);
    assert_eq!(text, "the program ended with code 3: no route / to it");
    let text = failure(&[("program", "sleep 60"), ("time-limit", "0.2s")]);
    assert!(text.contains("did not end within 0.2 s"), "{text}");
    let text = failure(&[("program", "true"), ("server", "echo occupied >&2; exit 1")]);
    assert!(text.ends_with("before the program started: occupied"), "{text}");
}

/// The processes note their numbers, because they are no children of this one.
#[test]
fn no_process_outlives_its_repetition() {
    let folder = tempfile::tempdir().expect("a folder");
    let note = |name: &str| folder.path().join(name);
    let line = |name: &str, end: &str| {
        // The processes in the background ignore the signals of a terminal.
        format!("trap '' INT TERM HUP; sleep 60 & echo $! > {}; {end}", note(name).display())
    };
    let stop = Stop::default();
    let server = line("server", "wait");
    for (name, end) in [("ends", "true"), ("late", "wait"), ("stopped", "wait")] {
        let program = line(name, end);
        let mut words = vec![("program", &*program), ("time-limit", "0.3s")];
        // Waits for the port of the server, which has none, take 2 s.
        words.extend((name == "ends").then_some(("server", &*server)));
        if name == "stopped" {
            stop.set();
        }
        assert_eq!(command(None, &words, &stop).is_ok(), name == "ends", "{name}");
        for noted in [name, "server"] {
            let Ok(process) = std::fs::read_to_string(note(noted)) else { continue };
            // A busy system takes its time to end a killed process.
            let is_gone = (0..100).any(|_| {
                let status = std::fs::read_to_string(format!("/proc/{}/status", process.trim()));
                let is_gone = status.map_or(true, |it| it.contains("State:\tZ"));
                if !is_gone {
                    rdt_program_testing::programs::pause();
                }
                is_gone
            });
            assert!(is_gone, "{noted} of {name} runs on");
        }
    }
}

#[test]
fn programs_run_behind_the_path() {
    let Some((_, _turn)) = kernel() else { return };
    let words = [
        ("program", "test -n {host} && cat /proc/net/route | grep -c rdt0"),
        ("server", "echo ready"),
        ("metrics.routes", ""),
    ];
    let run = command(Some("rtt = '20ms'"), &words, &Stop::default()).expect("a run");
    assert!(run.metrics["routes"] >= 1.0 && run.metrics.contains_key("link.forward.sent"), "{run:?}");
    let failed = command(Some("rtt = '20ms'"), &[("program", "echo bad >&2; exit 69")], &Stop::default());
    assert_eq!(failed, Err(EngineError::Failed("the program ended with code 69: bad".to_owned())));
}
