//! `rdt-send --reverse` over encrypted connections to `rdt-recv --measure`.

use serde_json::Value;

use super::process::{Receiver, send};

fn number(summary: &Value, key: &str) -> f64 {
    summary[key].as_f64().unwrap_or_else(|| panic!("{key} in {summary}"))
}

#[test]
fn receiver_sends_over_encrypted_connection() {
    let receiver = Receiver::start("--measure --json");
    for (options, bytes) in [("--bytes 3mb", Some(3_000_000)), ("--time 300ms --omit 100ms", None)] {
        let run = send(&receiver.args(&format!("--reverse {options} --interval 50ms --json"))).with_code(0);
        let summary = run.summary();
        assert_eq!((&summary["wire"], &summary["direction"]), (&"native 2".into(), &"receive".into()));
        assert!(bytes.is_none_or(|bytes| summary["bytes"] == bytes), "{summary}");
        assert!(number(&summary, "goodput_bps") > 0.0 && number(&summary, "srtt_ns") > 0.0, "{summary}");
    }
    let events = receiver.interrupted().with_code(0).objects();
    let sent: Vec<_> =
        events.iter().filter(|event| event["event"] == "finished" && event["direction"] == "send").collect();
    assert_eq!((sent.len(), &sent[0]["bytes"]), (2, &3_000_000.into()));
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
fn reverse_transfer_needs_permission() {
    let receiver = Receiver::start("--measure --ticket --no-reverse");
    let ticket = receiver.program.line("rdt1");
    let run = send(&receiver.args("--reverse --time 1s")).with_code(77);
    assert!(run.stderr.contains("rdt-send: "), "{}", run.stderr);
    let run = send(&format!("{ticket} --reverse --time 1s --json")).with_code(8);
    assert_eq!(run.summary()["close_reason"], "refused");
    assert!(run.stderr.contains("--no-reverse") && !run.stderr.contains(&ticket), "{}", run.stderr);
}

#[test]
fn other_receivers_do_not_send() {
    let receiver = Receiver::start("--no-link");
    let run = send(&receiver.args("--reverse --time 1s --connect-give-up 2s")).with_code(5);
    assert!(run.stderr.contains("does not measure"), "{}", run.stderr);
}
