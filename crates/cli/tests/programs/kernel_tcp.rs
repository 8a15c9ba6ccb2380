//! `--wire tcp`: transfers over TCP of the kernel, in both directions, beside those of rdt.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use rdt_udp::{TcpInfo, clock};

use super::process::{Ended, Program, Receiver, number, rdt_recv, rdt_send, send};

/// Sends to an embedded receiver.
fn local(options: &str) -> Ended {
    send(&format!("local --wire tcp {options}"))
}

#[test]
fn both_sides_count_same_bytes() {
    let receiver = Receiver::start("--wire tcp --json --once");
    let run = send(&receiver.args("--wire tcp --cc reno --bytes 3mb --json")).with_code(0);
    let summary = run.summary();
    assert_eq!((&summary["wire"], &summary["direction"]), (&"tcp".into(), &"send".into()));
    assert_eq!((&summary["bytes"], &summary["congestion"]), (&3_000_000.into(), &"reno".into()));
    assert!(number(&summary, "srtt_ns") > 0.0 && number(&summary, "cwnd_bytes") > 0.0, "{summary}");
    assert_eq!((summary.get("crc32"), summary.get("rtt_p50_ns")), (None, None), "without meaning: {summary}");
    let events = receiver.program.ended().with_code(0).objects();
    let finished = events.iter().find(|event| event["event"] == "finished").unwrap();
    assert_eq!((&finished["bytes"], &finished["wire"]), (&3_000_000.into(), &"tcp".into()));
    let total = events.last().unwrap();
    assert_eq!((&total["finished"], &total["bytes"]), (&1.into(), &3_000_000.into()), "{total}");
}

#[test]
fn status_lines_are_those_of_native_transfers() {
    let run = local("--time 400ms --interval 50ms").with_code(0);
    let line = run.lines().into_iter().find(|line| line.starts_with("[  0] B ")).unwrap().to_owned();
    let is_column = |name: &str| line.split_ascii_whitespace().any(|word| word == name);
    assert!(["B", "N", "T", "F", "W", "S", "Mbps", "RTT"].into_iter().all(is_column), "{line}");
    let last = run.line("Main:\ttransfer finished in ");
    assert!(last.contains(" Kbps, kernel TCP, ") && last.ends_with(" packets retransmitted"), "{last}");
    assert!(run.stderr.contains("limited by "), "{}", run.stderr);
    let last = run.line("Main:\testRTT ");
    assert!(last.contains(", the kernel's smoothed RTT every 100 ms: "), "{last}");
    assert!(last.ends_with(" ms (99 %)"), "{last}");
    let json = local("--time 300ms --interval 50ms --json").with_code(0);
    let quantiles = ["srtt_min_ns", "srtt_p50_ns", "srtt_p90_ns", "srtt_p99_ns"];
    let quantiles = quantiles.map(|key| number(&json.summary(), key));
    assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{quantiles:?}");
    assert!(json.objects().iter().filter(|event| event["event"] == "interval").count() > 2);
}

#[test]
fn file_and_csv_go_with_tcp() {
    let directory = tempfile::tempdir().unwrap();
    let (file, csv) = (directory.path().join("data"), directory.path().join("rows.csv"));
    std::fs::write(&file, vec![7; 777_777]).unwrap();
    let mut command = rdt_send("local --wire tcp --json --csv");
    let run = Program::start(command.arg(&csv).arg("--file").arg(&file)).ended().with_code(0);
    assert_eq!(run.summary()["bytes"], 777_777);
    let rows = std::fs::read_to_string(&csv).unwrap();
    assert!(rows.starts_with("time_ns,elapsed_ns,base_packets,"), "{rows}");
}

#[test]
fn csv_replaces_neither_input_nor_output() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data");
    std::fs::write(&file, vec![7; 777_777]).unwrap();
    for (csv, part) in [(file.as_os_str(), "is what is to be sent"), ("-".as_ref(), "the name of a file")] {
        let mut command = rdt_send("local --wire tcp --quiet --force --file");
        command.current_dir(directory.path()).arg(&file).arg("--csv").arg(csv);
        let run = Program::start(&mut command).ended().with_code(64);
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 777_777);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn interrupt_ends_wait_for_input() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for reads, too, so that the open does not wait for the program.
    let mut input = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    input.write_all(b"data").unwrap();
    let program = Program::start(rdt_send("local --wire tcp --interval 20ms --file").arg(&pipe));
    program.line("connected");
    program.signal("INT");
    program.ended().with_code(130);
}

#[test]
fn omitted_start_and_rate_limit_count() {
    let run = local("--max-rate 8mbit --time 500ms --omit 200ms --json").with_code(0);
    let summary = run.summary();
    assert!(number(&summary, "omitted_bytes") > 0.0, "{summary}");
    // 500 kB, and what was written just before. A busy host sends less in the same time.
    assert!(number(&summary, "bytes") < 700e3 && number(&summary, "goodput_bps") < 9e6, "{summary}");
    assert!(number(&summary, "elapsed_ns") > 0.4e9, "{summary}");
}

#[test]
fn longest_wait_names_limit() {
    let summary = local("--max-rate 8mbit --time 2s --json").with_code(0).summary();
    assert_eq!(summary["limited_by"], "max_rate", "{summary}");
    assert!(number(&summary, "waited_pacing_ns") > 1e9, "{summary}");
    let text = local("--max-rate 8mbit --time 2s").with_code(0);
    assert!(text.stderr.contains("limited by --max-rate 8mbit for "), "{}", text.stderr);
}

/// Starts a receiver that accepts a transfer, whose connection `then` gets. Returns its address and
/// its thread.
fn receiver_that(then: impl FnOnce(TcpStream) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let run = move || {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; 64]).unwrap();
        stream.write_all(b"rdt-msr1\0\0\0\0\0\0\0\0").unwrap();
        then(stream);
    };
    (address, std::thread::spawn(run))
}

/// Starts a receiver that reads nothing. Its thread ends with the connection.
fn blocked_receiver() -> (SocketAddr, JoinHandle<()>) {
    receiver_that(|stream| {
        let is_open = || TcpInfo::of(&stream).is_ok_and(|info| info.state == 1);
        while is_open() {
            clock::sleep_until(clock::now() + Duration::from_millis(20));
        }
    })
}

#[test]
fn broken_transfer_counts_until_its_end() {
    let options = "--wire tcp --time 3600s --interval 3600s --json";
    let (address, receiver) = receiver_that(|mut stream| stream.read_exact(&mut vec![0; 1_000_000]).unwrap());
    let summary = send(&format!("{address} {options}")).with_code(5).summary();
    assert!(number(&summary, "bytes") > 0.0 && number(&summary, "goodput_bps") > 0.0, "{summary}");
    receiver.join().unwrap();
    let (address, sender) = receiver_that(|mut stream| stream.write_all(&vec![0; 1_000_000]).unwrap());
    let summary = send(&format!("{address} --reverse {options}")).with_code(5).summary();
    // The end is kept back, because it may be the report.
    assert_eq!(summary["bytes"], 999_880);
    sender.join().unwrap();
}

#[test]
fn receiver_without_room_is_waited_for() {
    let (address, receiver) = blocked_receiver();
    let begun_at = clock::now();
    let run = send(&format!("{address} --wire tcp --time 60s --give-up 1s --no-progress 4s --json"));
    assert!(run.with_code(5).stderr.contains("(--no-progress)"));
    let took = clock::now().saturating_duration_since(begun_at);
    assert!(took > Duration::from_secs(3), "{took:?}");
    receiver.join().unwrap();
}

#[test]
fn interrupted_receiver_counts_open_transfer() {
    let receiver = Receiver::start("--wire tcp --json");
    let sender = Program::start(&mut rdt_send(&receiver.args("--wire tcp --time 60s --json")));
    sender.line("connected");
    let total = receiver.interrupted().with_code(130).summary();
    assert_eq!((&total["unfinished"], &total["finished"]), (&1.into(), &0.into()), "{total}");
    sender.ended().with_code(5);
}

#[test]
fn receiver_sends_in_reverse_transfer() {
    let receiver = Receiver::start("--wire tcp --json");
    for (options, bytes) in [("--bytes 1mb", Some(1_000_000)), ("--time 300ms --omit 100ms --cc reno", None)]
    {
        let run = send(&receiver.args(&format!("--wire tcp --reverse {options} --interval 50ms --json")));
        let summary = run.with_code(0).summary();
        assert_eq!(summary["direction"], "receive");
        assert!(number(&summary, "bytes") > 0.0 && number(&summary, "retransmitted") >= 0.0, "{summary}");
        assert!(bytes.is_none_or(|bytes| summary["bytes"] == bytes), "{summary}");
    }
    let slow = send(&receiver.args("--wire tcp --reverse --max-rate 8mbit --time 300ms --json"));
    assert!(number(&slow.with_code(0).summary(), "bytes") < 600e3);
    let events = receiver.interrupted().with_code(0).objects();
    let sent: Vec<_> = events.iter().filter(|event| event["event"] == "finished").collect();
    assert_eq!((sent.len(), &sent[0]["bytes"]), (3, &1_000_000.into()));
    assert!(sent.iter().all(|event| event["direction"] == "send"), "{sent:?}");
    let text = local("--reverse --time 300ms --interval 50ms").with_code(0);
    let line = text.lines().into_iter().find(|line| line.starts_with("[  0] B ")).unwrap().to_owned();
    assert!(line.contains(" S ") && !line.contains(" RTT "), "{line}");
}

#[test]
fn receiver_may_refuse_to_send_or_limit_it() {
    let receiver = Receiver::start("--wire tcp --no-reverse");
    let run = send(&receiver.args("--wire tcp --reverse --time 1s --json")).with_code(8);
    assert_eq!(run.summary()["close_reason"], "refused");
    assert!(run.stderr.contains("--no-reverse"), "{}", run.stderr);
    send(&receiver.args("--wire tcp --bytes 10kb")).with_code(0);
    let limited = Receiver::start("--wire tcp --max-rate 8mbit");
    let run = send(&limited.args("--wire tcp --reverse --time 300ms --json")).with_code(0);
    assert!(number(&run.summary(), "bytes") < 600e3);
}

#[test]
fn parallel_connections_are_added_up() {
    let run = local("--parallel 3 --bytes 200kb --json").with_code(0);
    let mut events = run.objects();
    let sum = events.pop().unwrap();
    assert_eq!((&sum["event"], &sum["wire"]), (&"parallel_summary".into(), &"tcp".into()));
    assert_eq!((&sum["transfers"], &sum["bytes"], events.len()), (&3.into(), &600_000.into(), 3));
    let reverse = local("--parallel 2 --reverse --bytes 100kb").with_code(0);
    assert!(reverse.line("Main:\t2 transfers in ").contains(" Kbps, fairness "), "{:?}", reverse.lines());
    assert!(reverse.lines().iter().all(|line| !line.contains(" of 0 packets")), "{:?}", reverse.lines());
}

#[test]
fn summaries_of_wires_can_be_compared() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = rdt_send("compare --threshold 100%");
    for (name, options) in [("tcp", "--wire tcp"), ("native", "")] {
        let run = send(&format!("local {options} --bytes 1mb --json")).with_code(0);
        let file = directory.path().join(name);
        std::fs::write(&file, &run.stdout).unwrap();
        command.arg(file);
    }
    let run = Program::start(&mut command).ended().with_code(0);
    assert!(run.line("goodput_bps").ends_with("ok"), "{:?}", run.lines());
    assert!(!run.line("retransmitted_bytes").is_empty());
}

#[test]
fn missing_receiver_is_named() {
    let run = send("127.0.0.1:1 --wire tcp --bytes 1kb --json").with_code(5);
    assert!(run.stderr.contains("nothing listens on TCP port 127.0.0.1:1"), "{}", run.stderr);
    assert_eq!(run.summary()["exit_code"], 5);
}

#[test]
fn unknown_host_has_summary() {
    for options in ["--wire tcp", "--wire udp --max-rate 1mbit", "--reverse"] {
        let run = send(&format!("no-such-host.invalid {options} --bytes 1kb --json")).with_code(3);
        let summary = run.summary();
        assert_eq!((&summary["exit_code"], &summary["bytes"]), (&3.into(), &0.into()), "{summary}");
        assert!(summary["address"].is_null() && summary["goodput_bps"].is_null(), "{summary}");
    }
}

#[test]
fn unknown_programs_get_no_answer() {
    let receiver = Receiver::start("--wire tcp --max-peers 1");
    let mut unknown = TcpStream::connect(receiver.address).unwrap();
    unknown.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    unknown.write_all(&[b'x'; 64]).unwrap();
    let mut answer = Vec::new();
    // The end of the connection, or a reset.
    let _ = unknown.read_to_end(&mut answer);
    assert_eq!(answer, b"");
    // The place is free again.
    send(&receiver.args("--wire tcp --bytes 10kb")).with_code(0);
}

#[test]
fn connections_beyond_limit_are_refused() {
    let receiver = Receiver::start("--wire tcp --max-peers 1 --json");
    let first = Program::start(&mut rdt_send(&receiver.args("--wire tcp --time 60s --json")));
    first.line("connected");
    let second = send(&receiver.args("--wire tcp --bytes 1kb --json")).with_code(8);
    assert!(second.stderr.contains("the receiver has too many peers"), "{}", second.stderr);
    assert_eq!(second.summary()["close_reason"], "refused");
    first.signal("INT");
    first.ended().with_code(130);
    receiver.program.line("\"unfinished\":true");
    let total = receiver.interrupted().with_code(0).summary();
    assert_eq!(
        (&total["refused"], &total["unfinished"], &total["finished"]),
        (&1.into(), &1.into(), &0.into())
    );
}

#[test]
fn options_without_meaning_are_refused() {
    for (args, part) in [
        ("--wire tcp --output d", "stores nothing"),
        ("--wire tcp --no-link", "--no-link does not go with --wire tcp"),
        ("--wire tcp --ticket", "--ticket does not go"),
        ("--no-reverse", "--measure, --wire tcp and --wire udp alone"),
        ("--max-rate 1mbit", "--measure, --wire tcp and --wire udp alone"),
    ] {
        let run = Program::start(&mut rdt_recv(args)).ended().with_code(64);
        assert!(run.stderr.contains(part), "{args}: {}", run.stderr);
    }
    for (args, part) in [
        ("local --wire tcp --rtt 20ms", "rdt-emu run"),
        ("local 1 0 0 1 --reverse", "receivers that store transfers"),
    ] {
        let run = send(args).with_code(64);
        assert!(run.stderr.contains(part), "{args}: {}", run.stderr);
    }
}
