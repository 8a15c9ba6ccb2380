//! `--wire udp`: datagrams at a constant rate, counted by the receiver, in both directions.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rdt_udp::clock;
use serde_json::Value;

use super::process::{Ended, Program, Receiver, number, rdt_recv, rdt_send, send};

/// Sends to an embedded receiver.
fn local(options: &str) -> Ended {
    send(&format!("local --wire udp {options}"))
}

#[test]
fn summary_has_counts_of_receiver() {
    let receiver = Receiver::start("--wire udp --json --once");
    let run = send(&receiver.args("--wire udp --max-rate 20mbit --bytes 200kb --json")).with_code(0);
    let summary = run.summary();
    assert_eq!((&summary["wire"], &summary["direction"]), (&"udp".into(), &"send".into()));
    assert_eq!((&summary["bytes"], &summary["sent_packets"]), (&200_000.into(), &136.into()), "{summary}");
    assert_eq!((&summary["packets"], &summary["lost"]), (&136.into(), &0.into()), "{summary}");
    assert_eq!((&summary["duplicates"], &summary["lost_share"]), (&0.into(), &0.0.into()), "{summary}");
    // 136 datagrams at 20 Mbit/s take 79 ms; a busy host takes longer.
    assert!(number(&summary, "elapsed_ns") > 70e6 && number(&summary, "goodput_bps") < 23e6, "{summary}");
    assert_eq!(summary.get("cwnd_bytes"), None, "a key without meaning: {summary}");
    let events = receiver.program.ended().with_code(0).objects();
    let finished = events.iter().find(|event| event["event"] == "finished").unwrap();
    assert_eq!((&finished["bytes"], &finished["packets"]), (&200_000.into(), &136.into()), "{finished}");
}

#[test]
fn time_and_omitted_start_bound_datagrams() {
    let run = local("--max-rate 8mbit --packet-size 1000 --time 400ms --omit 100ms --interval 50ms --json");
    let events = run.with_code(0).objects();
    let summary = events.last().unwrap();
    // 1000 datagrams a second; a busy host sends less in the same time.
    let packets = number(summary, "packets");
    assert!((1.0..=420.0).contains(&packets), "{summary}");
    assert!(number(summary, "omitted_bytes") > 0.0, "{summary}");
    let interval = events.iter().find(|event| event["event"] == "interval").unwrap();
    assert!(interval["next_packets"].is_u64() && interval.get("base_packets").is_none(), "{interval}");
}

#[test]
fn few_datagrams_have_no_higher_rate() {
    let receiver = Receiver::start("--wire udp --json");
    for (packets, reverse) in [(1, ""), (2, ""), (1, "--reverse"), (2, "--reverse")] {
        let bytes = packets * 1472;
        let options = format!("--wire udp --max-rate 1mbit --bytes {bytes} --json {reverse}");
        let summary = send(&receiver.args(&options)).with_code(0).summary();
        assert_eq!(summary["bytes"], bytes);
        assert!(number(&summary, "goodput_bps") < 1.01e6, "{summary}");
        let finished = receiver.program.line(&format!("\"bytes\":{bytes},"));
        let finished: Value = serde_json::from_str(&finished).unwrap();
        assert!(number(&finished, "rate_bps") < 1.01e6, "{finished}");
    }
}

#[test]
fn ended_transfer_frees_its_place() {
    let receiver = Receiver::start("--wire udp --max-peers 1 --json");
    for reverse in ["", "--reverse", "", "--reverse", ""] {
        let options = format!("--wire udp --max-rate 8mbit --bytes 10kb --json {reverse}");
        send(&receiver.args(&options)).with_code(0);
    }
    let total = receiver.interrupted().with_code(0).summary();
    assert_eq!((&total["refused"], &total["finished"]), (&0.into(), &5.into()), "{total}");
}

#[test]
fn peer_is_logged_as_gone_without_its_place() {
    for reverse in ["", "--reverse"] {
        let receiver = Receiver::start("--wire udp --json");
        send(&receiver.args(&format!("--wire udp --max-rate 8mbit --bytes 10kb {reverse}"))).with_code(0);
        let gone: Value = serde_json::from_str(&receiver.program.line("cleaned_up")).unwrap();
        assert_eq!((&gone["active"], &gone["unfinished"]), (&0.into(), &false.into()), "{gone}");
    }
}

#[test]
fn last_lines_name_loss_and_jitter() {
    let run = local("--max-rate 8mbit --time 300ms --interval 50ms").with_code(0);
    let last = run.line("Main:\ttransfer finished in ");
    assert!(last.contains(", kernel UDP, ") && last.contains(" datagrams lost ("), "{last}");
    assert!(run.line("Main:\tjitter ").ends_with(" duplicated"), "{:?}", run.lines());
    let line = run.lines().into_iter().find(|line| line.starts_with("[  0] N ")).unwrap().to_owned();
    assert!(line.contains(" S ") && !line.contains(" RTT "), "{line}");
}

#[test]
fn receiver_that_sends_less_than_requested_is_named() {
    let receiver = Receiver::start("--wire udp --max-rate 2mbit");
    let options = "--wire udp --reverse --max-rate 20mbit --bytes 150kb";
    let run = send(&receiver.args(options)).with_code(0);
    let line = run.line("Main:\ttransfer finished");
    assert!(line.contains("Mbit/s of the 20 requested: its --max-rate or its host is the limit"), "{line}");
    let summary = send(&receiver.args(&format!("{options} --json"))).with_code(0).summary();
    assert!((1e6..2.1e6).contains(&number(&summary, "sent_bps")), "{summary}");
    assert_eq!(summary["lost"], 0, "{summary}");
}

#[test]
fn receiver_sends_in_reverse_transfer() {
    let receiver = Receiver::start("--wire udp --json");
    for (options, packets) in [("--bytes 100kb", Some(68)), ("--time 300ms --omit 100ms", None)] {
        let options = format!("--wire udp --reverse --max-rate 8mbit {options} --json");
        let summary = send(&receiver.args(&options)).with_code(0).summary();
        assert_eq!(summary["direction"], "receive");
        assert_eq!(
            (&summary["lost"], &summary["packets"]),
            (&0.into(), &summary["sent_packets"]),
            "{summary}"
        );
        assert!(number(&summary, "packets") > 0.0 && number(&summary, "bytes") <= 400e3, "{summary}");
        let is_exact = |packets| summary["packets"] == packets && summary["bytes"] == 100_000;
        assert!(packets.is_none_or(is_exact), "{summary}");
    }
    let events = receiver.interrupted().with_code(0).objects();
    let is_sent = |event: &&Value| event["event"] == "finished" && event["direction"] == "send";
    assert_eq!(events.iter().filter(is_sent).count(), 2);
    let refusing = Receiver::start("--wire udp --no-reverse");
    let run = send(&refusing.args("--wire udp --reverse --max-rate 8mbit --time 1s")).with_code(8);
    assert!(run.stderr.contains("--no-reverse"), "{}", run.stderr);
    let limited = Receiver::start("--wire udp --max-rate 800kbit");
    let run = send(&limited.args("--wire udp --reverse --max-rate 80mbit --time 400ms --json")).with_code(0);
    assert!(number(&run.summary(), "bytes") < 80e3);
}

#[test]
fn parallel_sources_are_added_up() {
    let run = local("--parallel 3 --max-rate 8mbit --bytes 50kb --json").with_code(0);
    let mut events = run.objects();
    let sum = events.pop().unwrap();
    assert_eq!((&sum["wire"], &sum["transfers"], &sum["bytes"]), (&"udp".into(), &3.into(), &150_000.into()));
    assert!(sum.get("timeouts").is_none() && sum["lost"] == 0, "{sum}");
    local("--parallel 2 --reverse --max-rate 8mbit --bytes 50kb").with_code(0);
}

#[test]
fn missing_receiver_is_named() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let run = send(&format!("{address} --wire udp --max-rate 1mbit --bytes 1kb")).with_code(5);
    assert!(run.stderr.contains("nothing listens on UDP port"), "{}", run.stderr);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let args = format!(
        "{} --wire udp --max-rate 1mbit --bytes 1kb --connect-give-up 1s",
        silent.local_addr().unwrap()
    );
    let run = send(&args).with_code(5);
    assert!(run.stderr.contains("no answer from UDP port"), "{}", run.stderr);
}

#[test]
fn vanished_receiver_is_not_full_delivery() {
    let receiver = Receiver::start("--wire udp");
    let options = "--wire udp --max-rate 8mbit --time 3600s --json";
    let sender = Program::start(&mut rdt_send(&receiver.args(options)));
    let both = Program::start(&mut rdt_send(&receiver.args(&format!("{options} --parallel 2"))));
    sender.line("connected");
    for _ in 0..3 {
        receiver.program.line("connected");
    }
    receiver.program.signal("KILL");
    let run = sender.ended().with_code(5);
    assert!(run.stderr.contains("nothing listens on UDP port"), "{}", run.stderr);
    let summary = run.summary();
    assert!(number(&summary, "sent_packets") > 0.0 && summary["bytes"] == 0, "{summary}");
    for key in ["goodput_bps", "packets", "lost", "lost_share", "reordered", "duplicates", "jitter_ns"] {
        assert!(summary[key].is_null(), "{key}: {summary}");
    }
    let sum = both.ended().with_code(5).objects().pop().unwrap();
    assert_eq!((&sum["bytes"], &sum["lost"]), (&0.into(), &0.into()), "{sum}");
}

#[test]
fn interrupted_receiver_counts_open_transfer() {
    let receiver = Receiver::start("--wire udp --json");
    let sender =
        Program::start(&mut rdt_send(&receiver.args("--wire udp --max-rate 8mbit --time 60s --json")));
    sender.line("connected");
    let total = receiver.interrupted().with_code(130).summary();
    assert_eq!((&total["unfinished"], &total["finished"]), (&1.into(), &0.into()), "{total}");
    sender.ended().with_code(5);
}

#[test]
fn answers_come_from_requested_address() {
    for any in ["0.0.0.0:0", "[::]:0"] {
        let receiver = Receiver::from(&mut rdt_recv(&format!("--wire udp --bind {any} --json")));
        for reverse in ["", "--reverse"] {
            let port = receiver.address.port();
            let options = "--wire udp --max-rate 8mbit --bytes 10kb --connect-give-up 20s --json";
            let run = send(&format!("127.0.0.2:{port} {options} {reverse}")).with_code(0);
            assert_eq!(run.summary()["bytes"], 10_000, "{any} {reverse}");
        }
        receiver.interrupted().with_code(0);
    }
}

/// Returns a request of a reverse transfer as a client sends it first, taken from one.
fn first_request() -> Vec<u8> {
    let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
    let args = format!("{} --wire udp --reverse --max-rate 1mbit --time 60s", listener.local_addr().unwrap());
    let client = Program::start(&mut rdt_send(&args));
    let mut hello = vec![0; 2000];
    let length = listener.recv(&mut hello).unwrap();
    client.signal("KILL");
    hello.truncate(length);
    hello
}

#[test]
fn sender_without_proof_gets_little() {
    let receiver = Receiver::start("--wire udp --json");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(receiver.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut hello = first_request();
    let mut answer = [0; 2000];
    socket.send(&hello).unwrap();
    assert_eq!(socket.recv(&mut answer).unwrap(), 40);
    hello[24..40].copy_from_slice(&answer[24..40]);
    socket.send(&hello).unwrap();
    assert_eq!(socket.recv(&mut answer).unwrap(), 40, "the answer");
    assert!(socket.recv(&mut answer).is_err(), "no data before the first sign of life");
    // Signs of life without the marks of the datagrams, as a host elsewhere could send them.
    let mut alive = [0; 24];
    alive[..8].copy_from_slice(&hello[..8]);
    alive[8] = 7;
    alive[16..24].copy_from_slice(&hello[16..24]);
    let stop = Arc::new(AtomicBool::new(false));
    let spoofing = Arc::clone(&stop);
    let source = socket.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        while !spoofing.load(Ordering::Relaxed) {
            // Fails if the receiver has ended.
            let _ = source.send(&alive);
            clock::sleep_until(clock::now() + Duration::from_millis(100));
        }
    });
    receiver.program.line("cleaned_up");
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    receiver.interrupted().with_code(0);
}

#[test]
fn slow_source_is_no_silence() {
    // A datagram each 12 s: longer than the receiver may be silent.
    let receiver = Receiver::start("--wire udp --max-rate 1kbit --json");
    for reverse in ["", "--reverse"] {
        let options = "--wire udp --max-rate 1kbit --packet-size 1472 --bytes 2kb --json";
        let summary = send(&receiver.args(&format!("{options} {reverse}"))).with_code(0).summary();
        assert_eq!((&summary["packets"], &summary["bytes"]), (&2.into(), &2000.into()), "{summary}");
    }
}

#[test]
fn datagrams_beyond_path_mtu_are_named() {
    if UdpSocket::bind("[::1]:0").is_err() {
        return rdt_testing::skipped("this host has no IPv6");
    }
    // The MTU of the loopback is 65,536 bytes, and the headers take 48.
    let receiver = Receiver::from(&mut rdt_recv("--wire udp --bind [::1]:0"));
    for (direction, code) in [("", 4), ("--reverse", 8)] {
        let options = format!("--wire udp --max-rate 80mbit --bytes 1mb --packet-size 65507 {direction}");
        let run = send(&receiver.args(&options)).with_code(code);
        assert!(run.stderr.contains("larger than the path MTU"), "{}", run.stderr);
    }
    let run = send(&receiver.args("--wire udp --max-rate 80mbit --bytes 20kb --json")).with_code(0);
    assert_eq!(run.summary()["packet_size_bytes"], 1452);
    let run = send(&receiver.args("--wire udp --max-rate 80mbit --bytes 39")).with_code(64);
    assert!(run.stderr.contains("at least 40 bytes"), "{}", run.stderr);
}

#[test]
fn answers_are_shorter_than_questions() {
    let receiver = Receiver::start("--wire udp");
    let unknown = UdpSocket::bind("127.0.0.1:0").unwrap();
    unknown.connect(receiver.address).unwrap();
    unknown.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let hello = first_request();
    let mut answer = [0; 2000];
    unknown.send(&hello).unwrap();
    let got = unknown.recv(&mut answer).unwrap();
    assert!(got < hello.len(), "{got} of {}", hello.len());
    // No more than the cookie, although the request was for data.
    assert!(unknown.recv(&mut answer).is_err());
    for bytes in [&hello[..hello.len() - 1], &[0; 200], b"x"] {
        unknown.send(bytes).unwrap();
        assert!(unknown.recv(&mut answer).is_err());
    }
    receiver.interrupted().with_code(0);
}

#[test]
fn vanished_receiver_of_reverse_transfer_stops_it() {
    let receiver = Receiver::start("--wire udp --json");
    let args = receiver.args("--wire udp --reverse --max-rate 8mbit --time 3600s --json");
    let client = Program::start(&mut rdt_send(&args));
    client.line("connected");
    client.signal("KILL");
    receiver.program.line("cleaned_up");
    let total = receiver.interrupted().with_code(0).summary();
    assert_eq!((&total["unfinished"], &total["finished"]), (&1.into(), &0.into()), "{total}");
}

/// Starts a relay between a client and `receiver`. It forwards a packet if `passes` allows its kind
/// and whether it is of the receiver.
fn relay(receiver: SocketAddr, mut passes: impl FnMut(u8, bool) -> bool + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut bytes, mut client) = ([0; 2000], receiver);
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let is_answer = from == receiver;
            if !is_answer {
                client = from;
            }
            if passes(bytes[8], is_answer) {
                let to = if is_answer { client } else { receiver };
                socket.send_to(&bytes[..length], to).unwrap();
            }
        }
    });
    address
}

#[test]
fn both_sides_count_late_datagrams() {
    let receiver = Receiver::start("--wire udp --json");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (address, to) = (socket.local_addr().unwrap(), receiver.address);
    // Holds back the fifth datagram until the first report has passed, and loses the sixth.
    let run = move || {
        let (mut bytes, mut client, mut count, mut late) = ([0; 2000], to, 0, Vec::new());
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let packet = &bytes[..length];
            count += u32::from(packet[8] == 4);
            if from == to {
                socket.send_to(packet, client).unwrap();
                if packet[8] == 6 && !late.is_empty() {
                    socket.send_to(&std::mem::take(&mut late), to).unwrap();
                }
                continue;
            }
            client = from;
            match (packet[8], count) {
                (4, 5) => late = packet.to_vec(),
                (4, 6) => {}
                _ => drop(socket.send_to(packet, to).unwrap()),
            }
        }
    };
    std::thread::spawn(run);
    let run = send(&format!("{address} --wire udp --max-rate 8mbit --bytes 14720 --json"));
    let summary = run.with_code(0).summary();
    assert_eq!((&summary["packets"], &summary["lost"]), (&9.into(), &1.into()), "{summary}");
    let finished: Value = serde_json::from_str(&receiver.program.line("\"finished\"")).unwrap();
    assert_eq!([&finished["packets"], &finished["bytes"]], [&summary["packets"], &summary["bytes"]]);
    let total = receiver.interrupted().with_code(0).summary();
    assert_eq!((&total["bytes"], &total["finished"]), (&summary["bytes"], &1.into()), "{total}");
}

#[test]
fn lost_confirmation_of_end_is_repeated() {
    let receiver = Receiver::start("--wire udp --json");
    let answers = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&answers);
    let (mut ends, mut confirmations) = (0, 0);
    let address = relay(receiver.address, move |kind, is_answer| match (kind, is_answer) {
        (5, _) => {
            ends += 1;
            ends == 1
        }
        (8, false) => {
            confirmations += 1;
            confirmations > 6
        }
        (8, true) => counted.fetch_add(1, Ordering::Relaxed) > 0,
        _ => true,
    });
    let run = send(&format!("{address} --wire udp --reverse --max-rate 8mbit --bytes 20kb --json"));
    assert_eq!(run.with_code(0).summary()["bytes"], 20_000);
    assert!(answers.load(Ordering::Relaxed) > 1, "the client ended by itself");
    receiver.program.line("cleaned_up");
    let total = receiver.interrupted().with_code(0).summary();
    assert_eq!((&total["unfinished"], &total["finished"]), (&0.into(), &1.into()), "{total}");
}
