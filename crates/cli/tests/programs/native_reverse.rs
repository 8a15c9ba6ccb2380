//! `rdt-send --reverse` over encrypted connections to `rdt-recv --measure`.

use std::net::UdpSocket;

use serde_json::Value;

use super::process::{Program, Receiver, number, rdt_recv, rdt_send, send};

#[test]
fn receiver_sends_over_encrypted_connection() {
    let receiver = Receiver::start("--measure --json");
    for (options, bytes) in [("--bytes 3mb", Some(3_000_000)), ("--time 300ms --omit 100ms", None)] {
        let run = send(&receiver.args(&format!("--reverse {options} --interval 50ms --json"))).with_code(0);
        let summary = run.summary();
        assert_eq!((&summary["wire"], &summary["direction"]), (&"native".into(), &"receive".into()));
        assert!(bytes.is_none_or(|bytes| summary["bytes"] == bytes), "{summary}");
        assert!(number(&summary, "goodput_bps") > 0.0 && number(&summary, "srtt_ns") > 0.0, "{summary}");
    }
    let events = receiver.interrupted().with_code(0).objects();
    let sent: Vec<_> =
        events.iter().filter(|event| event["event"] == "finished" && event["direction"] == "send").collect();
    assert_eq!((sent.len(), &sent[0]["bytes"]), (2, &3_000_000.into()));
}

#[test]
fn summary_names_encryption_and_handshake_rtt() {
    let receiver = Receiver::start("--measure --json");
    let run = send(&receiver.args("--reverse --bytes 100kb --json")).with_code(0);
    let (events, summary) = (run.objects(), run.summary());
    let connected = events.iter().find(|event| event["event"] == "connected").unwrap();
    let initialized = receiver.interrupted().with_code(0).objects().remove(0);
    assert!(initialized["key"].is_string());
    assert_eq!([&connected["receiver_key"], &summary["receiver_key"]], [&initialized["key"]; 2]);
    assert!(summary["cipher"].is_string(), "{summary}");
    assert_eq!(connected["packet_size_bytes"], 1472);
    // The connection took the round trip of the RETRY, too.
    assert!(number(&summary, "handshake_rtt_ns") < number(connected, "connect_ns"), "{summary}");
}

#[test]
fn embedded_receiver_sends_several_streams() {
    let run = send("local --reverse --parallel 2 --bytes 200kb --json").with_code(0);
    let sum = run.objects().pop().unwrap();
    assert_eq!((&sum["transfers"], &sum["bytes"]), (&2.into(), &400_000.into()));
    let slow = send("local --reverse --max-rate 8mbit --time 300ms --json").with_code(0);
    assert!(number(&slow.summary(), "bytes") < 600e3);
    let text = send("local --reverse --bytes 100kb").with_code(0);
    assert!(text.line("Main:\ttransfer finished in ").contains(", encrypted, bbr, "), "{:?}", text.lines());
}

#[test]
fn unencrypted_stream_needs_both_ends() {
    let receiver = Receiver::start("--measure --json --insecure");
    let run = send(&receiver.args("--reverse --insecure --bytes 100kb --json")).with_code(0);
    let summary = run.summary();
    assert_eq!((&summary["cipher"], &summary["receiver_key"]), (&"none".into(), &Value::Null));
    let run = send(&receiver.args("--reverse --bytes 100kb --json")).with_code(0);
    assert_ne!(run.summary()["cipher"], "none");
    let events = receiver.interrupted().with_code(0).objects();
    let ciphers: Vec<_> = events.iter().filter(|event| event["event"] == "finished").collect();
    assert_eq!(ciphers[0]["cipher"], "none");
    assert_eq!(ciphers[1]["cipher"], run.summary()["cipher"]);
    let receiver = Receiver::start("--measure");
    let run = send(&receiver.args("--reverse --insecure --bytes 1kb")).with_code(8);
    assert!(run.stderr.contains("does not allow connections without encryption"), "{}", run.stderr);
    let text = send("local --reverse --insecure --bytes 100kb").with_code(0);
    assert!(
        text.line("Main:\ttransfer finished in ").contains(", not encrypted, bbr, "),
        "{:?}",
        text.lines()
    );
}

#[test]
fn silent_address_costs_seconds() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses = format!("--advertise {} --advertise {free}", silent.local_addr().unwrap());
    let receiver = Receiver::from(&mut rdt_recv(&format!("--measure --bind {free} --ticket {addresses}")));
    let ticket = receiver.program.line("rdt1");
    send(&format!("{ticket} --reverse --bytes 1kb --connect-give-up 3600s")).with_code(0);
}

#[test]
fn refusal_of_other_host_is_not_final() {
    let other = Receiver::start("--measure --ticket");
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses = format!("--advertise {} --advertise {free}", other.address);
    let receiver = Receiver::from(&mut rdt_recv(&format!("--measure --bind {free} --ticket {addresses}")));
    let ticket = receiver.program.line("rdt1");
    let run = send(&format!("{ticket} --reverse --bytes 1kb --json")).with_code(0);
    assert_eq!(run.summary()["address"], free.to_string());
}

#[test]
fn reverse_transfer_needs_permission() {
    let receiver = Receiver::start("--measure --ticket --no-reverse");
    let ticket = receiver.program.line("rdt1");
    let run = send(&receiver.args("--reverse --time 1s")).with_code(77);
    assert!(run.stderr.contains("does not admit this key"), "{}", run.stderr);
    let run = send(&format!("{ticket} --reverse --time 1s --json")).with_code(8);
    assert_eq!(run.summary()["close_reason"], "refused");
    assert!(run.stderr.contains("--no-reverse") && !run.stderr.contains(&ticket), "{}", run.stderr);
}

#[test]
fn other_receivers_do_not_send() {
    let folder = tempfile::tempdir().unwrap();
    let [file, next] = ["kept", "next"].map(|name| folder.path().join(name));
    std::fs::write(&file, "kept").unwrap();
    std::fs::write(&next, "next").unwrap();
    let receiver = Receiver::keeping(&file, "");
    let run = send(&receiver.args("--reverse --time 1s --connect-give-up 2s")).with_code(5);
    assert!(run.stderr.contains("does not measure"), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    send(&receiver.args(&format!("--file {}", next.display()))).with_code(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "next");
}

#[test]
fn measuring_receiver_confirms_no_forward_transfer() {
    let receiver = Receiver::start("--measure");
    for bytes in [0, 40, 64, 1_000_000] {
        let run = send(&receiver.args(&format!("--bytes {bytes}"))).with_code(8);
        assert!(run.stderr.contains("this rdt-recv only measures"), "{bytes}: {}", run.stderr);
    }
}

#[test]
fn peer_beyond_limit_is_refused() {
    let receiver = Receiver::start("--measure --max-per-source 1 --json");
    let first = receiver.args("--reverse --time 60s --max-rate 1mbit --json");
    let first = Program::start(&mut rdt_send(&first));
    first.line("connected");
    let run = send(&receiver.args("--reverse --time 1s --json")).with_code(8);
    assert_eq!(run.summary()["close_reason"], "refused");
    assert!(run.stderr.contains("too many peers"), "{}", run.stderr);
    first.signal("INT");
    first.ended().with_code(130);
    receiver.program.line("cleaned_up");
    send(&receiver.args("--reverse --bytes 1kb")).with_code(0);
    let summary = receiver.interrupted().with_code(0).summary();
    assert_eq!((&summary["refused"], &summary["max_active"]), (&1.into(), &1.into()));
}

#[test]
fn interrupt_ends_wait_for_receiver() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let line = format!("{} --reverse --time 1s", silent.local_addr().unwrap());
    let program = Program::start(&mut rdt_send(&line));
    program.error_line("waiting for a receiver at 127.0.0.1:");
    program.signal("INT");
    program.ended().with_code(130);
}

#[test]
fn measuring_receiver_takes_no_other_wire() {
    for wire in ["tcp", "udp", "native"] {
        let run = Program::start(&mut rdt_recv(&format!("--measure --wire {wire}"))).ended().with_code(64);
        assert!(run.stderr.contains("--measure"), "{}", run.stderr);
    }
}
