//! Ctrl-C and termination.

use std::net::UdpSocket;
use std::process::Stdio;

use super::printf::values;
use super::process::{Program, Receiver, rdt_recv_after, rdt_send, send};
use super::status_lines::{STATUS, read};

/// Starts a transfer whose first bytes are acknowledged, and which waits for more input.
fn under_way(args: &str) -> Program {
    let mut sender = Program::start(rdt_send(args).stdin(Stdio::piped()));
    sender.write(&b"7".repeat(30_000));
    sender
}

#[test]
fn interrupted_sender_prints_summary() {
    for signal in ["INT", "TERM"] {
        let sender = under_way("local 10 0 0 1000 - --interval 10ms");
        sender.line_where("B above 0", |line| values(STATUS, line).is_some_and(|values| values[1] != "0"));
        sender.signal(signal);
        let run = sender.ended().with_code(130);
        let [.., status, interrupted] = run.lines()[..] else { panic!("too few lines") };
        read(STATUS, status);
        let form = "Main:\tinterrupted after %.3f sec, %d bytes acknowledged, %.2f Kbps";
        assert_ne!(read(form, interrupted)[1], "0");
        assert!(!run.stderr.contains("rdt-send:"), "the user knows why it ended");
    }
}

#[test]
fn interrupted_quiet_sender_prints_one_line() {
    let receiver = Receiver::start("--no-link");
    let sender = under_way(&receiver.args("10 0 0 1000 - --quiet"));
    receiver.program.line("connected");
    sender.signal("INT");
    let run = sender.ended().with_code(130);
    assert_eq!(run.lines().len(), 1);
    assert!(run.lines()[0].starts_with("Main:\tinterrupted after "));
}

#[test]
fn interrupted_sender_prints_json_summary() {
    let sender = under_way("local 10 0 0 1000 - --interval 10ms --json");
    sender.line_where("base above 0", |line| {
        line.contains("interval") && !line.contains("\"base_packets\":0,")
    });
    sender.signal("INT");
    let run = sender.ended().with_code(130);
    let summary = run.summary();
    assert_eq!(summary["exit_code"], 130);
    assert!(summary["bytes"].as_u64() > Some(0));
    super::json::balances(&summary["receiver"]["forward"]);
}

#[test]
fn handshake_can_be_interrupted() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let sender = Program::start(&mut rdt_send(&format!("{address} 10 5 0 1000 --debug")));
    sender.line("--> SYN 0 (attempt 1 of 30, RTO 10.000)");
    sender.signal("INT");
    let run = sender.ended().with_code(130);
    assert!(
        run.lines().last().unwrap().contains("interrupted after 0.000 sec, 0 bytes acknowledged, 0.00 Kbps")
    );
}

#[test]
fn interrupted_idle_receiver_exits_with_0() {
    for signal in ["INT", "TERM"] {
        let receiver = Receiver::start("");
        receiver.program.signal(signal);
        let run = receiver.program.ended().with_code(0);
        assert!(run.lines().iter().any(|line| line.starts_with("0 senders, 0 transfers finished, 0.00 MB")));
    }
}

#[test]
fn interrupted_receiver_after_transfers_exits_with_0() {
    let receiver = Receiver::start("");
    send(&receiver.args("10 0 0 1000 --bytes 5000")).with_code(0);
    let run = receiver.interrupted().with_code(0);
    assert!(run.lines().iter().any(|line| line.starts_with("1 senders, 1 transfers finished, 0.01 MB")));
    assert!(run.lines().iter().any(|line| line.starts_with("forward link: ")));
}

#[test]
fn interrupted_receiver_during_transfer_exits_with_130() {
    let receiver = Receiver::start("--no-link");
    let _sender = under_way(&receiver.args("10 0 0 1000 -"));
    receiver.program.line("connected");
    let run = receiver.interrupted().with_code(130);
    assert!(run.lines().iter().any(|line| line.starts_with("1 senders, 0 transfers finished")));
    assert_eq!(run.remarks(), Vec::<&str>::new());
}

#[test]
fn interrupted_receiver_closes_all_native_senders() {
    for (signal, options) in [("INT", "--no-link --threads 3"), ("TERM", "")] {
        let receiver = Receiver::start(&format!("--json {options}"));
        // On such slow links a CLOSE sent through the link would arrive too late.
        let args = receiver.args("--rtt 200ms - --json --interval 10ms --give-up 1000s");
        let senders = [0; 5].map(|_| under_way(&args));
        let host = receiver.address;
        for sender in &senders {
            sender.line("\"event\":\"connected\"");
        }
        receiver.program.signal(signal);
        let run = receiver.program.ended().with_code(130);
        assert_eq!((&run.summary()["senders"], run.stderr.as_str()), (&5.into(), ""));
        for sender in senders {
            let run = sender.ended().with_code(8);
            let summary = run.summary();
            let expected = (&8.into(), &"aborted".into());
            assert_eq!((&summary["exit_code"], &summary["close_reason"]), expected);
            let sentence = run.stderr.lines().last().unwrap();
            let start = format!(
                "rdt-send: the receiver at {host} ({host}) closed the transfer: its application gave up: it was stopped, or had to end; "
            );
            let end =
                format!("{} bytes had arrived, which are not all: send everything again", summary["bytes"]);
            assert_eq!(sentence, start + &end);
        }
    }
}

#[test]
fn failing_receiver_closes_unfinished_native_senders() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().to_str().unwrap();
    let args = ["--bind", "127.0.0.1:0", "--no-link", "--once", "--output", output];
    let receiver = Receiver::from(&mut rdt_recv_after("ulimit -f 64", &args));
    let other = under_way(&receiver.args("- --json --give-up 1000s"));
    other.line("\"event\":\"connected\"");
    let reason = |run: super::process::Ended| run.summary()["close_reason"].clone();
    assert_eq!(reason(send(&receiver.args("--bytes 1mb --json")).with_code(8)), "storage");
    assert_eq!(reason(other.ended().with_code(8)), "aborted");
    receiver.program.ended().with_code(74);
}

#[test]
fn interrupted_native_sender_is_removed_at_once() {
    let receiver = Receiver::start("--no-link --json");
    let sender = under_way(&receiver.args("- --json"));
    sender.line("\"event\":\"connected\"");
    sender.signal("INT");
    sender.ended().with_code(130);
    let line = receiver.program.line("\"event\":\"cleaned_up\"");
    assert!(line.contains("\"unfinished\":true") && line.contains("\"active\":0"), "{line}");
    receiver.interrupted().with_code(0);
}
