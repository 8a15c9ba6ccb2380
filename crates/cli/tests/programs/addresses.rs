//! Addresses, ports and concurrent senders.

use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::process::Stdio;

use serde_json::Value;

use super::data::{array, crc_json};
use super::process::{Program, Receiver, rdt_recv, rdt_send, send};

#[cfg(unix)]
#[test]
fn sixty_four_concurrent_senders_finish() {
    const SENDERS: usize = 64;
    let receiver = Receiver::start("--json --seed 1");
    // Each transfer has one byte more than the one before, so that all checksums differ.
    let sizes: Vec<_> = (0..SENDERS).map(|n| 200_000 + n).collect();
    let start = |bytes: &usize| {
        let args = receiver.args(&format!("30 0.02 0.002/0.01 20 --bytes {bytes} --json --quiet"));
        Program::start(&mut rdt_send(&args))
    };
    let senders: Vec<_> = sizes.iter().map(start).collect();
    for (sender, bytes) in senders.into_iter().zip(&sizes) {
        let crc = crc_json(&array(*bytes));
        let run = sender.ended().with_code(0);
        assert_eq!(run.summary()["crc32"], crc);
        let finished = receiver.program.line(&format!("\"bytes\":{bytes},"));
        let finished: Value = serde_json::from_str(&finished).unwrap();
        assert_eq!(finished["crc32"], crc);
    }
    let summary = receiver.interrupted().with_code(0).summary();
    assert_eq!((&summary["finished"], &summary["max_active"]), (&SENDERS.into(), &SENDERS.into()));
    assert_eq!(summary["bytes"], sizes.iter().sum::<usize>());
    assert!(summary["memory_held_max_bytes"].as_u64() > Some(0));
    if cfg!(target_os = "linux") {
        assert!(summary["memory_peak_bytes"].as_u64() > summary["memory_held_max_bytes"].as_u64());
    }
    for direction in ["forward", "reverse"] {
        super::json::balances(&summary[direction]);
    }
}

/// Returns true if this host has IPv6; prints a note if not.
fn has_ipv6() -> bool {
    let bound = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0));
    if let Err(error) = &bound {
        eprintln!("this host has no ::1, so IPv6 is not tested: {error}");
    }
    bound.is_ok()
}

#[test]
fn ipv6_works_end_to_end() {
    if !has_ipv6() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command = rdt_recv("--bind [::1]:0 --no-link --output");
    let receiver = Receiver::from(command.arg(directory.path()));
    assert!(receiver.address.is_ipv6());
    let run = send(&receiver.args("20 0 0 1000 --bytes 50kb --debug")).with_code(0);
    assert!(run.lines().iter().any(|line| line.contains("--> SYN 0 (attempt 1 of 30, RTO 1.000) to ::1")));
    let connected = run.line("Main:\tconnected to ").to_string();
    assert!(connected.contains(&format!("connected to {} in", receiver.address)), "as typed: {connected}");
    assert!(receiver.program.line("connected").contains(" INFO [::1]:"));
    let [file] = std::fs::read_dir(directory.path()).unwrap().collect::<Vec<_>>().try_into().unwrap();
    let file = file.unwrap();
    assert!(file.file_name().to_str().unwrap().starts_with("__1-"), "no colons in names");
    assert!(std::fs::read(file.path()).unwrap() == array(50_000), "the bytes differ");
}

#[test]
fn default_bind_serves_ipv4_and_ipv6() {
    if !has_ipv6() {
        return;
    }
    let receiver = Receiver::from(&mut rdt_recv("--bind [::]:0"));
    let port = receiver.address.port();
    for host in ["127.0.0.1", "[::1]", "localhost"] {
        send(&format!("{host}:{port} 10 0 0 1000 --bytes 3000")).with_code(0);
    }
    assert!(receiver.program.line(" INFO 127.0.0.1:").contains("connected"), "IPv4 without its IPv6 clothes");
    receiver.program.line(" INFO [::1]:");
}

#[test]
fn second_address_of_host_is_tried() {
    let addresses: Vec<_> = ("localhost", 1).to_socket_addrs().unwrap().collect();
    let has_both = addresses.iter().any(SocketAddr::is_ipv4) && addresses.iter().any(SocketAddr::is_ipv6);
    if !has_ipv6() || !has_both {
        eprintln!("localhost has one address here, so a second one is not tried");
        return;
    }
    let receiver = Receiver::from(&mut rdt_recv("--bind [::1]:0 --no-link"));
    send(&format!("localhost:{} --bytes 3000", receiver.address.port())).with_code(0);
    assert!(receiver.program.line("connected").contains(" INFO [::1]:"));
}

#[test]
fn default_port_is_22345() {
    let receiver = Program::start(&mut rdt_recv("--once"));
    let Some(line) = receiver.line_or_end("initialized on") else {
        // Another program uses the port, so the error shows that this port was requested.
        assert!(receiver.ended().with_code(69).stderr.contains(":22345: "));
        return;
    };
    assert!(line.ends_with(":22345"), "{line}");
    send("127.0.0.1 10 0 0 1000 --bytes 3000").with_code(0);
}

#[cfg(target_os = "linux")]
#[test]
fn host_may_have_zone() {
    let receiver = Receiver::from(&mut rdt_recv("--bind [::1%lo]:0"));
    for zone in ["lo", "25lo", "1"] {
        send(&format!("[::1%{zone}]:{} --bytes 1000", receiver.address.port())).with_code(0);
    }
    let run = send(&format!("[::1%nope]:{} --bytes 1000", receiver.address.port())).with_code(3);
    assert!(run.stderr.contains("no such host: ::1%nope"), "{}", run.stderr);
}

#[test]
fn port_in_use_exits_with_69() {
    let receiver = Receiver::start("");
    let address = receiver.address.to_string();
    let run = Program::start(&mut rdt_recv(&format!("--bind {address}"))).ended().with_code(69);
    assert_eq!((run.stderr.lines().count(), &*run.stdout), (1, &b""[..]));
    let sentence = "another program uses it; choose another port, or 0 for a free one";
    assert_eq!(run.stderr, format!("rdt-recv: cannot bind to {address}: {sentence}\n"));
    let run = Program::start(&mut rdt_recv(&format!("--measure --bind {address}"))).ended().with_code(69);
    assert_eq!(run.stderr, format!("rdt-recv: cannot bind to {address}: {sentence}\n"));
}

#[cfg(unix)]
#[test]
fn port_in_use_with_threads_exits_with_69() {
    let receiver = Receiver::start("--threads 2");
    let address = receiver.address.to_string();
    for threads in [1, 2] {
        let args = format!("--bind {address} --threads {threads}");
        let run = Program::start(&mut rdt_recv(&args)).ended().with_code(69);
        assert!(run.stderr.starts_with(&format!("rdt-recv: cannot bind to {address}: ")), "{}", run.stderr);
    }
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Receiver::from(&mut rdt_recv(&format!("--bind {free} --threads 2")));
}

#[cfg(unix)]
#[test]
fn lost_receiver_is_reported_as_such() {
    for (signal, gone) in [("KILL", cfg!(target_os = "linux")), ("STOP", false)] {
        let receiver = Receiver::start("--no-link");
        let args = receiver.args("10 0 0 1000 - --interval 5ms --attempts 3/9/9");
        let mut sender = Program::start(rdt_send(&args).stdin(Stdio::piped()));
        sender.line("connected");
        receiver.program.signal(signal);
        let host = receiver.address;
        // A killed receiver is reaped; a stopped receiver is kept until the end of the round.
        let _stopped = if signal == "KILL" {
            receiver.program.ended();
            None
        } else {
            Some(receiver)
        };
        sender.write(b"data");
        let run = sender.ended().with_code(5);
        let wanted = format!(
            "rdt-send: the receiver at {host} ({host}) stopped answering: no answer to packet 0 after 9 attempts"
        );
        let sentence = run.stderr.lines().last().unwrap();
        assert!(sentence.starts_with(&wanted), "{sentence}");
        assert_eq!(sentence.ends_with("; it is gone"), gone, "{sentence}");
    }
}

#[test]
fn missing_answer_is_explained() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let full = Receiver::start("--max-peers 1");
    send(&full.args("10 0 0 1000 --bytes 3000")).with_code(0);
    let mute = silent.local_addr().unwrap();
    let cases = [
        (closed, format!("no program listens at {closed} ({closed}): start rdt-recv there")),
        (mute, format!("no answer from {mute} ({mute}) after 3 attempts: is rdt-recv running")),
        (full.address, "no answer from".into()),
    ]
    .map(|(address, wanted)| {
        (Program::start(&mut rdt_send(&format!("{address} 10 0 0 1000 --debug --attempts 3/50/50"))), wanted)
    });
    for (sender, wanted) in cases {
        let run = sender.ended().with_code(5);
        assert_eq!(run.lines().last(), Some(&"Main:\tconnect failed with status 5"));
        assert_eq!(run.lines().iter().filter(|line| line.contains("--> SYN 0")).count(), 3);
        let (waiting, rest): (Vec<_>, Vec<_>) =
            run.stderr.lines().partition(|line| line.starts_with("rdt-send: waiting for a receiver at "));
        // A closed port is known at once, a silent one after more than a second.
        assert!(waiting.len() <= 1, "{waiting:?}");
        assert!(rest.len() == 1 && rest[0].contains(&wanted), "{wanted}: {rest:?}");
    }
}
