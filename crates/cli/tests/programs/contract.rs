//! JSON and CSV of both programs beside `schemas/` and `docs/PROGRAMS.md`. Every test that reads
//! JSON of a program validates it (`process.rs`).

use std::fs;

use rdt_program_testing::contract::{Contract, check_named};
use rdt_program_testing::{names, scrape_until, value};
use serde_json::Value;

use super::process::{Program, Receiver, rdt_recv, rdt_send, send};

/// First seed that a reader with doubles rounds: 2^53 + 1.
const LARGE_SEED: &str = "9007199254740993";

#[test]
fn documents_name_every_key() {
    let load = |file| Contract::load(file);
    let (Some(send), Some(recv), Some(tunnel)) =
        (load("rdt-send.json"), load("rdt-recv.json"), load("rdt-tunnel.json"))
    else {
        return;
    };
    let parts: [(_, &[&str]); 3] =
        [(&send, &["## JSON"]), (&recv, &["## JSON"]), (&tunnel, &["## JSON", "### JSON of rdt-tunnel"])];
    Contract::check_document("docs/PROGRAMS.md", &parts, &[]);
}

#[test]
fn events_have_increasing_times_since_start() {
    let receiver = Receiver::start("--json --once");
    let sender = send(&receiver.args("4 0.1 0 100 --power 13 --interval 50ms --json")).with_code(0);
    for objects in [sender.objects(), receiver.program.ended().with_code(0).objects()] {
        let times: Vec<_> = objects.iter().map(|event| event["time_ns"].as_u64().unwrap()).collect();
        assert!(times.len() > 3 && times.is_sorted(), "{times:?}");
        let starts: Vec<_> = objects.iter().map(|event| event["started_at"].as_str()).collect();
        assert_eq!(starts.iter().flatten().count(), 2, "{starts:?}");
        assert!(starts[0].is_some() && starts[0] == starts[starts.len() - 1], "{starts:?}");
    }
}

/// Prints all numbers of JSON as a reader with doubles sees them.
fn through_doubles(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(values) => values.iter().map(through_doubles).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), through_doubles(value))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn large_seed_survives_reader_with_doubles() {
    let run = |seed: &str| {
        let summary =
            send(&format!("local 10 0 0.1 100 --bytes 90kb --json --seed {seed}")).with_code(0).summary();
        through_doubles(&summary)["seed"].as_str().unwrap().to_owned()
    };
    assert_eq!(run(&run(LARGE_SEED)), LARGE_SEED);
    let receiver = Receiver::start(&format!("--json --seed {LARGE_SEED}"));
    let initialized: Value = serde_json::from_str(&receiver.program.line("initialized")).unwrap();
    assert_eq!(through_doubles(&initialized)["seed"], LARGE_SEED);
}

#[test]
fn csv_has_row_for_each_interval_and_end() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv");
    let write = |options: &str| {
        let mut command = rdt_send(&format!("local 4 0.1 0 100 --power 13 --interval 50ms {options} --csv"));
        Program::start(command.arg(&file)).ended()
    };
    let run = write("--json").with_code(0);
    let text = fs::read_to_string(&file).unwrap();
    let (head, rows) = text.split_once('\n').unwrap();
    let columns: Vec<_> = head.split(',').collect();
    let rows: Vec<Vec<_>> = rows.lines().map(|row| row.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == columns.len()), "{text}");
    let at =
        |row: &[&str], key: &str| row[columns.iter().position(|column| *column == key).unwrap()].to_owned();
    let intervals: Vec<_> = run.objects().into_iter().filter(|event| event["event"] == "interval").collect();
    assert!(intervals.len() > 2, "{intervals:?}");
    for (event, row) in intervals.iter().zip(&rows) {
        for key in &columns {
            // Readers of JSON may round the last digit of a rate.
            let [printed, value] = [at(row, key).parse::<f64>().ok(), event[*key].as_f64()];
            let is_equal = match (printed, value) {
                (Some(printed), Some(value)) => (printed - value).abs() <= value * 1e-12,
                (printed, value) => printed == value,
            };
            assert!(is_equal, "{key}: {row:?} {event}");
        }
    }
    let last = rows.last().unwrap();
    assert_eq!(at(last, "base_packets"), run.summary()["packets"].to_string(), "{text}");
    let refused = write("").with_code(74);
    assert!(refused.stderr.ends_with("it exists already: --force replaces it\n"), "{}", refused.stderr);
    write("--force --quiet").with_code(0);
}

#[cfg(target_os = "linux")]
#[test]
fn csv_write_error_is_reported_after_transfer() {
    let run = send("local 10 0 0 1000 --bytes 5000 --csv /dev/full").with_code(74);
    let sentence = run.stderr.lines().last().unwrap();
    assert!(sentence.starts_with("rdt-send: cannot write /dev/full: "), "{sentence}");
    let run = send("local 10 0 0 1000 --bytes 5000 --csv -").with_code(64);
    assert!(run.stderr.contains("--csv needs the name of a file"), "{}", run.stderr);
}

#[cfg(unix)]
#[test]
fn metrics_count_transfers_while_receiver_runs() {
    let receiver = Receiver::start("--json --metrics 0 --seed 3");
    let initialized: Value = serde_json::from_str(&receiver.program.line("initialized")).unwrap();
    let address = initialized["metrics"].as_str().unwrap().parse().unwrap();
    scrape_until(address, "rdt_recv_senders_total", 0.0);
    send(&receiver.args("20 0.01 0.05/0.05 100 --bytes 60kb")).with_code(0);
    let metrics = scrape_until(address, "rdt_recv_finished_transfers_total", 1.0);
    assert!(value(&metrics, "rdt_recv_received_bytes_total") >= 60_000.0, "{metrics}");
    assert!(value(&metrics, "rdt_recv_finished_bytes_total") >= 60_000.0, "{metrics}");
    assert!(metrics.contains("rdt_recv_dropped_datagrams_total{cause=\"malformed\"} 0\n"), "{metrics}");
    let fate = "rdt_recv_link_packets_total{direction=\"forward\",fate=\"delivered\"}";
    assert!(value(&metrics, fate) >= 41.0, "{metrics}");
    check_named("docs/PROGRAMS.md", "## Metrics", &names(&metrics));
    receiver.interrupted().with_code(0);
}

#[test]
fn metrics_address_in_use_exits_with_69() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let args = format!("--bind 127.0.0.1:0 --metrics {address}");
    let run = Program::start(&mut rdt_recv(&args)).ended().with_code(69);
    assert!(run.stderr.contains(&format!("cannot bind to {address}: ")), "{}", run.stderr);
}
