//! `rdt-recv` with an emulated link, with `--no-link` and with `--dummy`.

use super::data::{array, crc_json};
use super::process::{Receiver, rdt_recv, send};
use super::status_lines::read;

/// Arguments for a link on which no transfer would finish.
const HOPELESS: &str = "20 9 0.99/0.99 0.0001";

#[test]
fn no_link_skips_emulation_and_checks_crc() {
    let receiver = Receiver::start("--no-link");
    for (size, bytes) in [(1472, 200_000), (9, 200), (9000, 200_000), (65_507, 1_000_000)] {
        let args = format!("{HOPELESS} --packet-size {size} --bytes {bytes} --debug");
        let run = send(&receiver.args(&args)).with_code(0);
        let window = run.lines().into_iter().find(|line| line.contains("SYN-ACK")).unwrap();
        assert!(window.contains("SYN-ACK 0 window 1;"), "{window}");
        let fin_ack = run.lines().into_iter().find(|line| line.contains("FIN-ACK")).unwrap();
        let crc = super::data::crc32(&array(bytes));
        assert!(fin_ack.ends_with(&format!(" window {crc:X}")), "{fin_ack}");
    }
    assert!(receiver.program.line("connected").contains("active 1"));
    assert!(receiver.program.line("finished: 200000 bytes in").contains("Kbps, checksum "));
}

#[test]
fn dummy_opens_full_window_without_checksum() {
    let receiver = Receiver::start("--dummy");
    for (size, bytes) in [(1472, 200_000), (9, 200), (65_507, 1_000_000)] {
        let args = format!("{HOPELESS} --packet-size {size} --bytes {bytes} --debug");
        let run = send(&receiver.args(&args)).with_code(0);
        assert!(run.lines().iter().any(|line| line.contains("SYN-ACK 0 window 80000;")));
        let fin_ack = run.lines().into_iter().find(|line| line.contains("FIN-ACK")).unwrap();
        assert!(fin_ack.ends_with(" window 0"), "{fin_ack}");
        let crc = format!("checksum {:X}", super::data::crc32(&array(bytes)));
        assert!(run.line("Main:\ttransfer finished").ends_with(&crc), "the sender's own");
    }
    assert!(receiver.program.line("initialized").starts_with("***** DUMMY receiver "));
}

#[cfg(target_os = "linux")]
#[test]
fn default_socket_buffer_does_not_overflow() {
    for sender in ["8192 0 0 10000", "--cc fixed:8192 --pacing off"] {
        // A busy host adds delay, so more packets than the buffer can be in flight.
        let overflows: Vec<_> = (0..5).map(|_| overflow(sender)).take_while(|lost| *lost > 0).collect();
        assert!(overflows.len() < 5, "{sender}: {overflows:?}");
    }
}

/// Returns the number of overflows of a small receive buffer.
#[cfg(target_os = "linux")]
fn overflow(sender: &str) -> u64 {
    let receiver = Receiver::start("--no-link --once --ack-every batch --json --socket-buffer 212992");
    send(&receiver.args(&format!("{sender} --bytes 20000000"))).with_code(0);
    let summary = receiver.program.ended().with_code(0).summary();
    let socket = &summary["socket"];
    assert!(socket["receive_buffer_bytes"].as_u64() <= Some(425_984), "{socket}");
    assert!(summary["socket_limited_round_trips"].is_u64());
    socket["receive_overflow_messages"].as_u64().expect("it is told")
}

#[test]
fn unchecked_checksum_is_reported() {
    let receiver = Receiver::start("--dummy");
    let run = send(&receiver.args(&format!("{HOPELESS} --bytes 5000 --json"))).with_code(0);
    assert!(run.stderr.contains("the receiver did not check the data: it answered checksum 0"));
    let summary = run.summary();
    assert_eq!((&summary["crc32_received"], &summary["checked"]), (&"00000000".into(), &false.into()));
    let run = send(&receiver.args(&format!("{HOPELESS} --bytes 0 --json"))).with_code(0);
    assert_eq!(
        (run.summary()["checked"].as_bool(), &*run.stderr),
        (Some(true), ""),
        "0 is right for nothing"
    );
}

#[cfg(unix)]
#[test]
fn seed_of_links_is_printed() {
    const FORM: &str = "links draw from seed %d";
    let lines = |options| Receiver::start(options).interrupted().with_code(0);
    assert_eq!(lines("--seed 5").lines()[1], "links draw from seed 5");
    let seed: u64 = read(FORM, lines("").lines()[1])[0].parse().unwrap();
    assert!(seed < 1 << 53, "{seed}");
    assert!(!lines("--no-link").lines().iter().any(|line| line.contains("seed")));
}

#[test]
fn each_sender_gets_its_requested_link() {
    let receiver = Receiver::start("--json --seed 9");
    for (args, bytes, rtt_ns, lossy) in [
        ("20 0 0 1000", 50_000, 0, false),
        ("20 0.05 0.3 1000", 40_000, 50_000_000, true),
        ("20 0 0 1000", 50_001, 0, false),
    ] {
        let run = send(&receiver.args(&format!("{args} --bytes {bytes} --json"))).with_code(0);
        assert!(run.summary()["handshake_rtt_ns"].as_u64() >= Some(rtt_ns));
        let finished = receiver.program.line(&format!("\"bytes\":{bytes},"));
        let finished: serde_json::Value = serde_json::from_str(&finished).unwrap();
        assert_eq!(finished["crc32"].as_str(), Some(&*crc_json(&array(bytes))));
        assert_eq!(finished["forward"]["dropped_loss"].as_u64() > Some(0), lossy, "{finished}");
    }
}

#[test]
fn oversized_packet_without_answer_is_explained() {
    let receiver = Receiver::start("");
    let run = send(&receiver.args("10 0 0 1000 --packet-size 1473 --bytes 5000")).with_code(5);
    assert!(run.lines().contains(&"Main:\tsend failed with status 5"));
    let sentence = run.stderr.lines().last().unwrap();
    assert!(sentence.contains("1473") && sentence.contains("--no-link"), "{sentence}");
}

#[test]
fn log_has_date_with_zone_and_level() {
    let receiver = Receiver::from(rdt_recv("--bind 127.0.0.1:0").env("TZ", "JST-9"));
    send(&receiver.args("10 0 0 1000 --bytes 5000")).with_code(0);
    for (text, level) in [("connected", "INFO"), ("finished", "INFO")] {
        let line = receiver.program.line(text);
        let fields = read(&format!("%s-%s-%sT%s:%s:%s+09:00  {level} 127.0.0.1:%d {text}%s"), &line);
        assert_eq!(fields[..6].iter().map(String::len).collect::<Vec<_>>(), [4, 2, 2, 2, 2, 6], "{line}");
    }
}

#[test]
fn faithful_log_has_reference_format() {
    let receiver = Receiver::start("--faithful");
    let initialized = receiver.program.line("initialized");
    assert_eq!(read("Receiver v%.1f has initialized on %s", &initialized)[0], "0.1");
    send(&receiver.args("10 0 0 1000 --bytes 5000")).with_code(0);
    let form = "[%s/%s/%s %s:%s:%s] 127.0.0.1:%d connected; RAM %.2f MB active %d";
    read(form, &receiver.program.line("connected"));
    let form = "[%s/%s/%s %s:%s:%s] 127.0.0.1:%d finished: %d bytes in %.3f sec, %.2f Kbps, checksum %X; \
                RAM %.2f MB active %d";
    read(form, &receiver.program.line("finished"));
}

#[test]
fn once_exits_after_first_transfer() {
    let receiver = Receiver::start("--once");
    send(&receiver.args("10 0.01 0 1000 --bytes 5000")).with_code(0);
    let run = receiver.program.ended().with_code(0);
    assert!(run.lines().iter().any(|line| line.contains("1 transfers finished")));
}

#[test]
fn once_waits_for_last_ack_on_long_link() {
    let receiver = Receiver::start("--once");
    send(&receiver.args("10 2.1 0 1000 --bytes 0")).with_code(0);
}

/// Runs a receiver with these options against senders of each format and offload.
#[cfg(unix)]
#[test]
fn file_arrives_with_every_offload_and_ack_policy() {
    for (gro, ack) in [("on", "1"), ("on", "batch"), ("off", "1"), ("off", "batch")] {
        for gso in ["on", "off"] {
            let options = format!("--gso {gso} --gro {gro}");
            let receiver =
                Receiver::start(&format!("--no-link --json --insecure --ack-every {ack} {options}"));
            for wire in ["classic", "native"] {
                let format = match (wire, gso) {
                    ("classic", _) => "1000 0 0 10000",
                    (_, "on") => "--wire native",
                    _ => "--wire native --insecure",
                };
                let args = receiver.args(&format!("{format} --bytes 20000000 --json {options}"));
                let sent = send(&args).with_code(0).summary();
                assert_eq!((&sent["bytes"], &sent["checked"]), (&20_000_000.into(), &true.into()));
                assert!(gso == "on" || sent["socket"]["send_call"] != "gso", "{sent}");
            }
            let received = receiver.interrupted().with_code(0).summary();
            assert_eq!((&received["finished"], &received["bytes"]), (&2.into(), &40_000_000.into()));
            let socket = &received["socket"];
            let (datagrams, messages) = (socket["received"].as_u64(), socket["received_messages"].as_u64());
            assert!(messages > Some(0) && messages <= datagrams, "{socket}");
            assert!(gro == "on" || messages == datagrams, "{socket}");
        }
    }
}

#[test]
fn zero_copy_off_copies_every_batch() {
    // The second name is an earlier one.
    for option in ["--zero-copy", "--by-reference"] {
        let sent = send(&format!("local --bytes 20000000 --json {option} off")).with_code(0).summary();
        let socket = &sent["socket"];
        assert_eq!((&socket["by_reference"], &socket["sent_by_reference"]), (&false.into(), &0.into()));
    }
}

#[cfg(unix)]
#[test]
fn batch_acks_on_emulated_link_warn() {
    for (options, told) in [("", true), ("--no-link", false)] {
        let receiver = Receiver::start(&format!("--ack-every batch {options}"));
        send(&receiver.args("10 0 0 1000 --bytes 1000")).with_code(0);
        let run = receiver.interrupted().with_code(0);
        assert_eq!(run.stderr.contains("--ack-every batch has no effect"), told, "{}", run.stderr);
    }
}
