//! Output of `--json`: one object per line, units in the keys, finite numbers.

use std::net::UdpSocket;

use serde_json::Value;

use super::data::{array, crc_json};
use super::process::{Ended, Program, Receiver, rdt_recv, send};

/// Checks that the packet counts of a link balance.
#[track_caller]
pub(super) fn balances(ledger: &Value) {
    let count = |key: &str| ledger[key].as_u64().unwrap_or_else(|| panic!("no {key} in {ledger}"));
    let ends = ["delivered", "dropped_loss", "dropped_queue", "dropped_memory", "discarded", "in_flight"];
    assert_eq!(count("sent"), ends.iter().map(|key| count(key)).sum::<u64>(), "{ledger}");
}

/// Parts of the keys that name a quantity, and the units with which such keys may end.
const QUANTITIES: [(&str, &[&str]); 14] = [
    ("elapsed", &["_ns"]),
    ("srtt", &["_ns"]),
    ("rto", &["_ns"]),
    ("rtt_", &["_ns"]),
    ("time_", &["_ns"]),
    ("handshake", &["_ns"]),
    ("connect_", &["_ns"]),
    ("busy", &["_ns"]),
    ("lateness", &["_ns"]),
    ("memory", &["_bytes"]),
    ("packet_size", &["_bytes"]),
    ("goodput", &["_bps"]),
    ("ideal", &["_bps"]),
    ("rate", &["_bps"]),
];

fn has_units(value: &Value) {
    let Value::Object(fields) = value else { return };
    for (key, value) in fields {
        for (stem, ends) in QUANTITIES {
            assert!(!key.starts_with(stem) || ends.iter().any(|end| key.ends_with(end)), "{key} has no unit");
        }
        has_units(value);
    }
}

/// Returns the events of a run, after a check of units and numbers.
fn events(run: &Ended) -> Vec<String> {
    for token in ["NaN", "nan", "inf"] {
        assert!(run.lines().iter().all(|line| !line.contains(token)), "{token}");
    }
    let objects = run.objects();
    objects.iter().for_each(has_units);
    objects.iter().map(|o| o["event"].as_str().expect("an event").to_string()).collect()
}

#[test]
fn sender_json_has_connection_intervals_and_summary() {
    let run = send("local 4 0.1 0 100 --power 13 --interval 100ms --json").with_code(0);
    let events = events(&run);
    assert_eq!(events[0], "connected");
    let received = |key| run.summary()["receiver"]["socket"][key].as_u64();
    assert!(received("received") > Some(23), "as many as were sent");
    assert!(received("received_messages") > Some(0) && received("received_messages") <= received("received"));
    assert!(events[1..events.len() - 1].iter().all(|event| event == "interval") && events.len() > 3);
    let summary = run.summary();
    assert_eq!(summary["exit_code"], 0);
    assert_eq!(summary["host"], "local");
    assert_eq!(summary["bytes"], 32_768);
    assert_eq!(summary["crc32"].as_str(), Some(&*crc_json(&array(32_768))));
    assert_eq!((&summary["crc32_received"], &summary["checked"]), (&summary["crc32"], &true.into()));
    for key in ["elapsed_ns", "srtt_ns", "handshake_rtt_ns"] {
        assert!(summary[key].as_u64() >= Some(100_000_000), "{key} is at least a round trip");
    }
    assert!(summary["goodput_bps"].as_f64() > Some(0.0));
    let value = |key: &str| summary[key].as_f64().unwrap();
    let round_trips = ["rtt_min_ns", "rtt_p50_ns", "rtt_p99_ns"].map(value);
    assert!(round_trips[0] >= 100_000_000.0 && round_trips.is_sorted(), "{round_trips:?}");
    let window = value("ideal_bps") * value("srtt_ns") / 8e9;
    assert!((window - 4.0 * 1464.0).abs() < 1.0, "the ideal is W packets of payload a round trip: {window}");
    assert!(summary["retransmitted"].is_u64());
    for direction in ["forward", "reverse"] {
        balances(&summary["receiver"][direction]);
    }
    if cfg!(target_os = "linux") {
        assert!(summary["memory_peak_bytes"].as_u64() > Some(0));
    }
}

#[test]
fn quiet_json_of_sender_is_summary_only() {
    let run = send("local 10 0 0 1000 --bytes 5000 --json --quiet").with_code(0);
    assert_eq!(events(&run), ["summary"]);
    assert_eq!(run.stderr, "");
}

#[test]
fn quiet_json_of_receiver_is_summary_only() {
    // The test chooses the address, because the receiver does not print it.
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let args = format!("--bind {address} --json --quiet --once");
    let receiver = Program::start(&mut rdt_recv(&args));
    send(&format!("{address} 10 0 0 1000 --bytes 5000 --attempts 30/50/50")).with_code(0);
    let run = receiver.ended().with_code(0);
    assert_eq!(events(&run), ["summary"]);
    assert_eq!((&run.summary()["bytes"], &*run.stderr), (&5000.into(), ""));
}

#[test]
fn drawn_seeds_fit_53_bits() {
    let receiver = Receiver::start("--json");
    let initialized: Value = serde_json::from_str(&receiver.program.line("initialized")).unwrap();
    let local = send("local 10 0 0 1000 --bytes 1 --json").with_code(0).summary();
    for seed in [&initialized["seed"], &local["seed"]] {
        let number: u64 = seed.as_str().unwrap().parse().unwrap();
        assert!(number < 1 << 53, "{seed}");
    }
}

#[test]
fn rate_over_zero_time_is_null() {
    let run = send("local 10 0 0 1000 --bytes 0 --json").with_code(0);
    events(&run);
    assert_eq!(run.summary()["goodput_bps"], Value::Null);
}

#[test]
fn failed_transfer_prints_summary() {
    let run = send("127.0.0.1:0 1 0 0 1 --json").with_code(4);
    events(&run);
    let summary = run.summary();
    assert_eq!((&summary["exit_code"], &summary["bytes"]), (&4.into(), &0.into()));
    assert_eq!((&summary["handshake_rtt_ns"], &summary["rtt_p50_ns"]), (&Value::Null, &Value::Null));
    assert_eq!((&summary["crc32_received"], &summary["checked"]), (&Value::Null, &false.into()));
    assert_eq!(run.stderr.lines().count(), 1, "and a sentence");
}

#[test]
fn failure_before_transfer_prints_summary() {
    for (args, code) in [("nosuch.invalid --json", 3), ("nosuch.invalid 1 0 0 1 --json", 3)] {
        let run = send(args).with_code(code);
        assert_eq!(events(&run), ["summary"], "{args}");
        let summary = run.summary();
        assert_eq!((&summary["exit_code"], &summary["address"]), (&code.into(), &Value::Null), "{args}");
        assert_eq!((&summary["host"], &summary["bytes"]), (&"nosuch.invalid".into(), &0.into()), "{args}");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
}

#[cfg(unix)]
#[test]
fn receiver_json_has_connection_end_and_summary() {
    let receiver = Receiver::start("--json --seed 4");
    let sender = send(&receiver.args("20 0.01 0.05/0.05 100 --bytes 60kb --json")).with_code(0);
    let run = receiver.interrupted().with_code(0);
    assert_eq!(events(&run), ["initialized", "connected", "finished", "summary"]);
    let crc = crc_json(&array(60_000));
    let finished = &run.objects()[2];
    assert_eq!((&finished["bytes"], &finished["crc32"]), (&60_000.into(), &Value::from(crc)));
    assert!(finished["rate_bps"].as_f64() > Some(0.0) && finished["elapsed_ns"].as_u64() > Some(0));
    let summary = run.summary();
    assert_eq!((&summary["finished"], &summary["bytes"]), (&1.into(), &60_000.into()));
    assert_eq!(summary["seed"], "4");
    for direction in ["forward", "reverse"] {
        balances(&finished[direction]);
        balances(&summary[direction]);
    }
    let sent = |value: &Value| value["sent"].as_u64().unwrap();
    let all = sent(&sender.summary()["socket"]);
    assert_eq!(sent(&summary["forward"]), all, "every datagram of the sender entered its link");
}

#[test]
fn summary_names_what_limited_transfer() {
    let cases = [
        ("4 0.05 0 100 --bytes 60kb", "window", "limited by its window of 4 packets for "),
        ("--max-rate 0.5mbit --bytes 40kb", "max_rate", "limited by --max-rate 0.5mbit for "),
        ("--rtt 10ms --rate 2mbit --bytes 200kb", "link", "limited by the link for "),
    ];
    for (args, name, sentence) in cases {
        let run = send(&format!("local {args} --json")).with_code(0);
        let summary = run.summary();
        assert_eq!(summary["limited_by"], name, "{summary}");
        let share = summary["limited_share"].as_f64().unwrap();
        assert!((0.2..=1.0).contains(&share), "{summary}");
        let text = send(&format!("local {args}")).with_code(0);
        assert!(text.stderr.contains(sentence), "{}", text.stderr);
    }
}
