//! JSON of `rdt-emu` beside `schemas/` and `docs/EMULATOR.md`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use rdt_program_testing::contract::Contract;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-emu");

/// First seed that a reader with doubles rounds: 2^53 + 1.
const LARGE_SEED: &str = "9007199254740993";

/// Returns the output of `sim` for packets of which a tenth is lost.
fn sim(seed: &str) -> String {
    let path = ["sim", "--json", "--quiet", "--rtt=20ms", "--loss=10%", "--duplicate=5%", "--seed", seed];
    let load = ["--cbr=1mbit", "--for=1s"];
    let output = Command::new(PROGRAM).args(path).args(load).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn documents_name_every_key() {
    if let Some(contract) = Contract::load("rdt-emu.json") {
        let parts: (_, &[&str]) = (&contract, &["## set", "## The account", "## sim", "## calibrate"]);
        let keys_of_calibration_file = ["version", "measured", "host"];
        Contract::check_document("docs/EMULATOR.md", &[parts], &keys_of_calibration_file);
    }
}

#[test]
fn simulated_fates_fit_schema() {
    let Some(contract) = Contract::load("rdt-emu.json") else { return };
    let text = sim("3");
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (end, packets) = objects.split_last().unwrap();
    for packet in packets {
        contract.check("packet", packet);
    }
    contract.check("sim_end", end);
    assert!(packets.iter().any(|packet| packet["due_ns"].is_null()) && packets.len() > 100);
}

#[test]
fn large_seed_repeats_simulation_after_reader_with_doubles() {
    let first = sim(LARGE_SEED);
    // As jq reads it: all numbers become doubles. The seed is none.
    let end: Value = serde_json::from_str(first.lines().last().unwrap()).unwrap();
    let seed = match &end["seed"] {
        Value::Number(number) => format!("{:.0}", number.as_f64().unwrap()),
        other => other.as_str().unwrap().to_owned(),
    };
    assert_eq!(seed, LARGE_SEED);
    assert_eq!(sim(&seed), first);
    assert_ne!(sim("9007199254740992"), first, "what a double would say");
}

#[cfg(target_os = "linux")]
#[test]
fn proxy_has_metrics_and_stream_that_fit() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::net::UdpSocket;
    use std::process::Stdio;
    use std::time::Duration;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use rdt_program_testing::{names, scrape_until, value};

    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    target.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("c.pcapng");
    let to = target.local_addr().unwrap().to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["proxy", "127.0.0.1:0", &to, "--metrics=0", "--json-stream=10ms", "--seed", LARGE_SEED]);
    command.arg("--pcapng").arg(&capture).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let listen = said.next().unwrap();
    let listen = listen.strip_prefix("rdt-emu: ").and_then(|line| line.split(' ').next()).unwrap().to_owned();
    let metrics = said.next().unwrap();
    let metrics =
        metrics.strip_prefix("rdt-emu: metrics at http://").and_then(|line| line.strip_suffix("/metrics"));
    let metrics = metrics.unwrap().parse().unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..3 {
        client.send_to(b"hello", &listen).unwrap();
        target.recv_from(&mut [0; 9]).unwrap();
    }
    let name = "rdt_emu_delivered_packets_total{direction=\"forward\"}";
    let text = scrape_until(metrics, name, 3.0);
    assert!((value(&text, "rdt_emu_dropped_packets_total")).abs() < 0.5, "{text}");
    rdt_program_testing::contract::check_named("docs/PROGRAMS.md", "## Metrics", &names(&text));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{:?}", said.collect::<Vec<_>>());
    let Some(contract) = Contract::load("rdt-emu.json") else { return };
    let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in &objects {
        contract.check_event(event);
    }
    let end = objects.last().unwrap();
    assert_eq!((&end["seed"], objects.len() > 2), (&LARGE_SEED.into(), true));
    assert!(objects[0]["started_at"].is_string() && objects[1].get("started_at").is_none());
    assert_eq!(end["started_at"], objects[0]["started_at"]);
}
