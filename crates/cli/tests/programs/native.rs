//! Native transfers without tuning, from every source to every output. They are encrypted unless
//! they say `--insecure`.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use rdt_testing::packets;
use rdt_transport::wire::native::CloseReason;
use serde_json::Value;

use super::data::{array, crc_json, random};
use super::json::balances;
use super::process::{Ended, Program, Receiver, rdt_recv, rdt_send, send};

/// Type of REFUSE.
const REFUSE: u8 = 14;

fn run(command: &mut Command) -> Ended {
    Program::start(command).ended()
}

/// Starts a program, and writes `data` to its standard input in pieces.
fn fed(args: &str, data: &[u8]) -> Program {
    let mut sender = Program::start(rdt_send(args).stdin(Stdio::piped()));
    sender.feed(data.to_vec(), &[1, 100_000, 1444, 7]);
    sender
}

#[test]
fn all_sources_arrive_in_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (source, kept) = (directory.path().join("source"), directory.path().join("kept"));
    fs::create_dir(&kept).unwrap();
    let receiver = Receiver::keeping(&kept, "--json --insecure");
    let data = random(300_007, 11);
    fs::write(&source, &data).unwrap();
    let mut file = rdt_send(&receiver.args("--json --file"));
    file.arg(&source);
    let runs = [
        (run(&mut file), data.clone()),
        (fed(&receiver.args("- --json --interval 5ms"), &data).ended(), data.clone()),
        (fed(&receiver.args("--file - --json --interval 5ms"), &data).ended(), data),
        (send(&receiver.args("--bytes 70001 --json")), array(70_001)),
        (send(&receiver.args("--power 3 --json")), array(32)),
        (send(&receiver.args("--bytes 0 --json")), Vec::new()),
        (send(&receiver.args("--bytes 1mb --packet-size 65507 --json")), array(1_000_000)),
        (send(&receiver.args("--bytes 80kb --insecure --json")), array(80_000)),
        (send(&receiver.args("--bytes 9kb --packet-size 128 --json")), array(9000)),
    ];
    let (mut expected, mut unencrypted) = (BTreeSet::new(), 0);
    for (run, data) in runs {
        let summary = run.with_code(0).summary();
        assert_eq!((&summary["wire"], &summary["bytes"]), (&"native".into(), &data.len().into()));
        let rest = ["crc32", "crc32_received", "checked"].map(|key| summary[key].clone());
        assert_eq!(rest, [Value::Null, Value::Null, true.into()]);
        unencrypted += usize::from(summary["cipher"] == "none");
        expected.insert(data);
    }
    let found: Vec<_> = fs::read_dir(&kept).unwrap().map(|e| fs::read(e.unwrap().path()).unwrap()).collect();
    assert_eq!((found.len(), unencrypted), (9, 1));
    assert!(found.into_iter().collect::<BTreeSet<_>>() == expected, "the bytes differ");
    let finished: Value = serde_json::from_str(&receiver.program.line("finished")).unwrap();
    assert_eq!(finished["wire"], "native");
}

#[test]
fn transfer_replaces_file_and_fills_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept");
    fs::write(&path, "old").unwrap();
    let data = random(400_001, 12);
    let to_file = Receiver::keeping(&path, "--once");
    let to_pipe = Receiver::from(&mut rdt_recv("--bind 127.0.0.1:0 --output -"));
    for receiver in [&to_file, &to_pipe] {
        fed(&receiver.args("- --interval 5ms"), &data).ended().with_code(0);
    }
    to_file.program.ended().with_code(0);
    assert!(fs::read(&path).unwrap() == data, "the bytes differ");
    let run = to_pipe.program.ended().with_code(0);
    assert!(run.stdout == data, "the bytes differ");
    assert!(run.stderr.contains(") finished: 400001 bytes in "), "{}", run.stderr);
}

#[test]
fn both_formats_share_one_port() {
    let receiver = Receiver::start("--json --rwnd 256kib --insecure");
    let sizes: Vec<_> = (0..24).map(|n| 100_000 + n).collect();
    let start = |bytes: &usize| {
        let how = match bytes % 4 {
            0 => "30 0.01 0.01 20",
            1 => "30 0.01 0.01 20 --wire native --insecure",
            2 => "--rtt 10ms --rate 20mbit --loss 1%",
            _ => "--rtt 10ms --cc cubic",
        };
        Program::start(&mut rdt_send(&receiver.args(&format!("{how} --bytes {bytes} --json"))))
    };
    let senders: Vec<_> = sizes.iter().map(start).collect();
    for (sender, bytes) in senders.into_iter().zip(&sizes) {
        let summary = sender.ended().with_code(0).summary();
        let wire = ["classic", "native", "native", "native"][bytes % 4];
        assert_eq!((&summary["wire"], &summary["bytes"]), (&wire.into(), &(*bytes).into()));
        let cipher = summary["cipher"].as_str();
        assert_eq!((cipher.is_none(), cipher == Some("none")), (bytes % 4 == 0, bytes % 4 == 1), "{summary}");
        let crc = cipher.is_none().then(|| crc_json(&array(*bytes)));
        assert_eq!(summary["crc32"].as_str(), crc.as_deref());
        let finished: Value =
            serde_json::from_str(&receiver.program.line(&format!("\"bytes\":{bytes},"))).unwrap();
        for key in ["wire", "cipher", "crc32"] {
            assert_eq!(finished[key], summary[key], "{key}");
        }
        balances(&finished["forward"]);
    }
}

#[test]
fn all_controllers_and_loss_detections_deliver() {
    for options in [
        "--cc bbr",
        "--cc bbr --insecure",
        "--cc cubic --pacing off",
        "--cc cubic --pacing off --insecure",
        "--cc reno --sack off",
        "--cc fixed:20 --recovery base-only",
        "--cc cubic --recovery base-only",
        "--cc cubic --recovery sack --initial-window 2",
        "--cc reno --recovery newreno --rwnd 64kib",
    ] {
        let args = format!("local --rtt 5ms --rate 50mbit --loss 1%/0.5% --queue 50p --seed 7 {options}");
        let summary = send(&format!("{args} --bytes 200kb --json")).with_code(0).summary();
        assert_eq!((&summary["bytes"], &summary["checked"]), (&200_000.into(), &true.into()), "{args}");
        let word = |option: &str| {
            let mut words = options.split(' ').skip_while(move |word| *word != option);
            words.nth(1).map(str::to_string)
        };
        assert_eq!(summary["congestion"].as_str().map(str::to_string), word("--cc"), "{options}");
        let recovery = match word("--recovery") {
            Some(name) => name,
            None if options.contains("--sack off") => "newreno".into(),
            None => "rack".into(),
        };
        assert_eq!(summary["recovery"], recovery, "{options}");
    }
}

#[test]
fn link_options_apply_to_file_transfer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let data = random(300_000, 13);
    fs::write(&path, &data).unwrap();
    let args = "local --rtt 20ms --rate 50mbit --loss 1% --seed 5 --json --file";
    let summary = run(rdt_send(args).arg(&path)).with_code(0).summary();
    assert_eq!((&summary["bytes"], &summary["checked"]), (&300_000.into(), &true.into()));
    assert!(summary["min_rtt_ns"].as_u64() >= Some(20_000_000), "the link's own");
    let link = &summary["receiver"];
    assert!(link["forward"]["dropped_loss"].as_u64() > Some(0));
    assert_eq!(link["reverse"]["dropped_loss"], 0, "one probability is that of the forward direction");
    balances(&link["forward"]);
    balances(&link["reverse"]);
}

#[test]
fn positional_link_is_equal_in_all_formats() {
    for (wire, option) in
        [("classic", ""), ("native", "--wire native"), ("native", "--wire native --insecure")]
    {
        let args = format!("local 20 0.02 0.1/0.05 10 --seed 3 {option} --bytes 60kb");
        let summary = send(&format!("{args} --json")).with_code(0).summary();
        assert_eq!((&summary["wire"], &summary["congestion"]), (&wire.into(), &"fixed:20".into()));
        assert!(summary["min_rtt_ns"].as_u64() >= Some(20_000_000));
        let link = &summary["receiver"];
        assert!(["forward", "reverse"].iter().all(|side| link[side]["dropped_loss"].as_u64() > Some(0)));
    }
}

#[test]
fn packets_are_ect_unless_ecn_off() {
    let ecn =
        |args: &str| send(&format!("local --bytes 60kb --json {args}")).with_code(0).summary()["ecn"].clone();
    assert_eq!(
        [ecn("--ecn off"), ecn("--cc fixed:20"), ecn("20 0 0 100 --wire native")],
        ["off", "off", "off"]
    );
    if ecn("--gso off --gro off --packet-size 1200") == "failed" {
        return rdt_testing::skipped("this system lets no program set codepoints, or see them");
    }
    for args in ["", "--ecn on --cc cubic", "--gso off --cc reno", "--rate 1gbit"] {
        assert_eq!(ecn(args), "on", "{args}");
    }
}

/// Keys of the counters and times in the summary of both formats.
const NUMBERS: [&str; 19] = [
    "bytes",
    "elapsed_ns",
    "retransmitted",
    "retransmitted_bytes",
    "lost",
    "recoveries",
    "spurious",
    "probes",
    "ce_marks",
    "ecn_reductions",
    "timeouts",
    "srtt_ns",
    "min_rtt_ns",
    "rto_ns",
    "cwnd_bytes",
    "waited_cwnd_ns",
    "waited_peer_window_ns",
    "waited_pacing_ns",
    "waited_application_ns",
];

#[test]
fn summary_has_same_keys_in_both_formats() {
    let summary = |args: &str| send(&format!("local {args} --json --bytes 60kb")).with_code(0).summary();
    let classic = summary("10 0.01 0.05 100 --seed 2");
    let native = summary("--rtt 10ms --loss 5% --rate 100mbit --seed 2");
    let reno = summary("--rtt 10ms --loss 5% --rate 100mbit --seed 2 --cc reno");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&classic), keys(&native));
    for summary in [&classic, &native, &reno] {
        for key in NUMBERS {
            assert!(summary[key].is_u64(), "{key} in {summary}");
        }
        assert!(summary["goodput_bps"].as_f64() > Some(0.0));
        assert!(summary["retransmitted_bytes"].as_u64() > Some(0));
        assert_eq!(
            summary["retransmitted"].as_u64() > Some(0),
            summary["retransmitted_bytes"].as_u64() > Some(0)
        );
    }
    assert_eq!((&classic["ecn"], &classic["ecn_failure"]), (&"off".into(), &Value::Null));
    assert_eq!(classic["ssthresh_bytes"], Value::Null);
    assert!(reno["ssthresh_bytes"].is_u64(), "{reno}");
    assert_eq!(
        ["wire", "congestion", "recovery"].map(|key| classic[key].as_str().unwrap()),
        ["classic", "fixed:10", "base-only"]
    );
    assert_eq!(
        ["wire", "congestion", "recovery"].map(|key| native[key].as_str().unwrap()),
        ["native", "bbr", "rack"]
    );
}

#[cfg(unix)]
#[test]
fn vanished_receiver_is_given_up() {
    let senders = ["", "--cc fixed:9 --recovery base-only"].map(|options| {
        let receiver = Receiver::start("--no-link");
        let sender = receiver.args(&format!("- --interval 5ms --give-up 1s {options}"));
        let mut sender = Program::start(rdt_send(&sender).stdin(Stdio::piped()));
        sender.line("connected");
        receiver.program.signal("KILL");
        receiver.program.ended();
        sender.write(b"data");
        (sender, receiver.address)
    });
    for (sender, host) in senders {
        let run = sender.ended().with_code(5);
        assert_eq!(run.lines().last(), Some(&"Main:\tsend failed with status 5"));
        let sentence = run.stderr.lines().last().unwrap();
        let start = format!("rdt-send: the receiver at {host} ({host}) stopped answering: no answer for ");
        assert!(sentence.starts_with(&start), "{sentence}");
        assert!(sentence.contains(" s, 0 bytes were acknowledged"), "{sentence}");
        assert_eq!(sentence.ends_with("; it is gone"), cfg!(target_os = "linux"), "{sentence}");
    }
}

#[cfg(unix)]
#[test]
fn restarted_receiver_sends_stateless_reset() {
    for (threads, options) in
        [(1, ""), (1, "--insecure"), (4, "--insecure --cc fixed:9 --recovery base-only")]
    {
        let receiver = Receiver::start(&format!("--no-link --insecure --threads {threads}"));
        let mut sender = rdt_send(&receiver.args(&format!("- --interval 5ms --json {options}")));
        let mut sender = Program::start(sender.stdin(Stdio::piped()));
        sender.write(&b"7".repeat(30_000));
        sender.line("\"base_packets\":21,");
        let address = receiver.address;
        receiver.program.signal("KILL");
        receiver.program.ended();
        let restarted =
            Receiver::from(&mut rdt_recv(&format!("--bind {address} --json --insecure --threads {threads}")));
        sender.write(b"more");
        let run = sender.ended().with_code(8);
        let start = format!(
            "rdt-send: the receiver at {address} ({address}) no longer knows this transfer: it was restarted"
        );
        let summary = run.summary();
        let sentence = run.stderr.lines().last().unwrap();
        let known =
            format!("{} bytes had arrived, which are not all: send everything again", summary["bytes"]);
        assert!(sentence.starts_with(&start) && sentence.ends_with(&known), "{sentence}");
        assert_eq!((&summary["exit_code"], &summary["close_reason"]), (&8.into(), &"no_connection".into()));
        assert!(summary["bytes"].as_u64() > Some(28_000), "{summary}");
        if options.is_empty() {
            continue;
        }
        let dropped = restarted.interrupted().with_code(0).summary()["dropped"].clone();
        assert!(dropped["no_connection_told"].as_u64() > Some(0), "{dropped}");
        assert!(dropped["no_connection"].as_u64() >= dropped["no_connection_told"].as_u64(), "{dropped}");
    }
}

#[test]
fn timeout_hints_at_classic_receiver() {
    // A socket that never answers, like a receiver that drops native packets.
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap();
    let run = send(&format!("{address} --give-up 1s")).with_code(5);
    assert_eq!(run.lines().last(), Some(&"Main:\tconnect failed with status 5"));
    assert!(run.stderr.contains("after 1 attempts: is rdt-recv running there"), "{}", run.stderr);
    assert!(run.stderr.trim_end().ends_with("wants --wire classic"), "{}", run.stderr);
    let mut syn = [0; 2048];
    let (len, _) = mute.recv_from(&mut syn).unwrap();
    assert!(len >= 128 && syn[..2] == [0xd2, 1], "it was a SYN");
}

#[test]
fn refusing_receiver_gives_reason() {
    for (reason, sentence) in [
        (CloseReason::Refused, "it takes no further transfer: try again later"),
        (CloseReason::Other(77), "for reason 77"),
    ] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let address = socket.local_addr().unwrap();
        let sender = Program::start(&mut rdt_send(&address.to_string()));
        // One such answer may be forged.
        for _ in 0..2 {
            let mut syn = [0; 2048];
            let (len, from) = socket.recv_from(&mut syn).unwrap();
            let id = packets::connection_id(&syn[..len]).unwrap();
            let answer = packets::native(REFUSE, reason.code(), id, &[]);
            socket.send_to(&answer, from).unwrap();
        }
        let run = sender.ended().with_code(8);
        assert_eq!(run.lines().last(), Some(&"Main:\tconnect failed with status 8"));
        let start =
            format!("rdt-send: the receiver at {address} ({address}) closed the transfer: {sentence}");
        assert!(run.stderr.contains(&start), "{}", run.stderr);
    }
}

#[test]
fn rwnd_limits_receive_window() {
    let receiver = Receiver::start("--rwnd 64kib");
    // The window limits the rate to 64 KiB per 50 ms.
    let run = send(&receiver.args("--rtt 50ms --bytes 600kb --json --interval 20ms")).with_code(0);
    let windows = run.objects().into_iter().filter_map(|object| object["window_packets"].as_u64());
    assert!(windows.max() <= Some(65_536 / 1432), "in packets");
    let summary = run.summary();
    assert!(summary["elapsed_ns"].as_u64() >= Some(8 * 50_000_000), "{summary}");
    assert!(summary["waited_peer_window_ns"].as_u64() > Some(100_000_000), "{summary}");
}
