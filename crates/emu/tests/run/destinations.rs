//! `--to`: paths of their own for destinations.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use rdt_program_testing::contract::Contract;
use serde_json::Value;

use super::helpers::{program, said};
use super::running::{PROGRAM, host_allows, run_with, stdout};

/// Server at the addresses of all destinations, which echoes datagrams.
#[test]
#[ignore = "a program for other tests"]
fn echo_everywhere() {
    let names = ["RDT_LOCAL", "RDT_LOCAL6", "RDT_PEER_lossy", "RDT_PEER_2"];
    let addresses: Vec<_> = names.into_iter().filter_map(|name| env::var(name).ok()).collect();
    // Later than the others, so that all listen when the run sees the first port.
    let sockets: Vec<_> =
        addresses.iter().rev().map(|it| UdpSocket::bind((it.as_str(), 4242)).unwrap()).collect();
    let threads = sockets.into_iter().map(|socket| {
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..length], from);
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}

/// Asks a server at each of the addresses in `ASK`; prints `answer ADDRESS` or `silence ADDRESS`.
#[test]
#[ignore = "a program for other tests"]
fn ask_everyone() {
    println!();
    let seconds = Duration::from_secs(30);
    for address in env::var("ASK").unwrap().split_whitespace() {
        let (address, timeout) =
            address.strip_prefix('-').map_or((address, seconds), |it| (it, seconds / 60));
        let socket = client(address);
        socket.set_read_timeout(Some(timeout)).unwrap();
        socket.send(b"hello").unwrap();
        let answered = socket.recv(&mut [0; 64]).is_ok();
        println!("{} {address}", if answered { "answer" } else { "silence" });
    }
}

fn client(address: &str) -> UdpSocket {
    let to = SocketAddr::new(address.parse().unwrap(), 4242);
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
    socket.connect(to).unwrap();
    socket
}

/// Sends numbered datagrams to the echo server of the lossy destination, each after `OTHERS`
/// datagrams to another one. Prints the numbers of those that came back.
#[test]
#[ignore = "a program for other tests"]
fn count_losses() {
    const LAST: u32 = 200;
    let [lossy, other] = ["RDT_PEER_lossy", "RDT_PEER"].map(|name| client(&env::var(name).unwrap()));
    let others: u32 = env::var("OTHERS").unwrap().parse().unwrap();
    for number in 0..LAST {
        for _ in 0..others {
            other.send(b"other").unwrap();
        }
        lossy.send(&number.to_be_bytes()).unwrap();
    }
    // Answers arrive in order, so that of the last number, which is repeated until then, ends them.
    lossy.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&LAST) {
        let mut bytes = [0; 4];
        match lossy.recv(&mut bytes) {
            Ok(_) => seen.push(u32::from_be_bytes(bytes)),
            Err(_) => _ = lossy.send(&LAST.to_be_bytes()).unwrap(),
        }
    }
    println!("\nseen {seen:?}");
}

#[test]
fn same_seed_repeats_losses_of_destination() {
    if !host_allows() {
        return;
    }
    let seen = |seed: &str, others: u32| {
        let server = program("destinations::echo_everywhere").join(" ");
        let script = format!("OTHERS={others} {}", program("destinations::count_losses").join(" "));
        let to = ["--to", "lossy=10.1.0.0/16", "loss=20%; rtt=5ms"];
        let arguments = [&["-q", "--loss=50%", seed, "--server", &server], &to[..]].concat();
        let output = stdout(&run_with(&arguments, &["sh", "-c", &script]).output());
        said(&output, "seen ").to_owned()
    };
    let first = seen("--seed=7", 0);
    assert!((100..170).contains(&first.split(',').count()), "{first}");
    assert_eq!(seen("--seed=7", 0), first);
    assert_eq!(seen("--seed=7", 2), first, "packets to other destinations change nothing");
    assert_ne!(seen("--seed=8", 0), first);
}

#[test]
fn ipv6_destination_has_own_path() {
    if !host_allows() {
        return;
    }
    let server = program("destinations::echo_everywhere").join(" ");
    let script = ask("$RDT_PEER6 -$RDT_PEER_lossy $RDT_PEER_2 $RDT_PEER");
    let to = ["--to", "lossy=fd00:1::/64", "loss-forward=100%", "--to", "2001:db8::7", "rtt=1ms"];
    let arguments = [&["-q", "--json", "--ipv6", "--server", &server], &to[..]].concat();
    let output = stdout(&run_with(&arguments, &["sh", "-c", &script]).output());
    let expected = ["answer fd72:6474::a00:1", "silence fd00:1::1", "answer 2001:db8::7", "answer 10.0.0.1"];
    assert_eq!(answers(&output), expected, "{output}");
    assert_eq!(forward_counts(&output), [("other".into(), 2, 0), ("lossy".into(), 1, 1), ("2".into(), 1, 0)]);
}

#[test]
fn nested_run_has_paths_for_addresses_behind() {
    if !host_allows() {
        return;
    }
    let server = program("destinations::echo_everywhere").join(" ");
    let ask = ask("$RDT_PEER -$RDT_PEER_lossy $RDT_PEER_2");
    let inner = format!("{PROGRAM} run -q --json --to lossy=10.1.0.0/16 loss-forward=100% -- sh -c '{ask}'");
    let arguments = ["-q", "--server", &server, "--to", "lossy=10.1.0.1", "", "--to", "192.0.2.7", ""];
    let output = stdout(&run_with(&arguments, &["sh", "-c", &inner]).output());
    assert_eq!(answers(&output), ["answer 10.0.0.1", "silence 10.1.0.1", "answer 192.0.2.7"], "{output}");
    assert_eq!(forward_counts(&output), [("other".into(), 2, 0), ("lossy".into(), 1, 1)]);
}

/// Returns the lines of [`ask_everyone`].
fn answers(output: &str) -> Vec<&str> {
    let is_answer = |line: &&str| line.starts_with("answer ") || line.starts_with("silence ");
    output.lines().filter(is_answer).collect()
}

/// Returns name, packets and losses of each path, forward, of the account at the end.
fn forward_counts(output: &str) -> Vec<(String, u64, u64)> {
    let end = output.lines().find(|line| line.contains("\"end\"")).unwrap();
    counts(&serde_json::from_str(end).unwrap())
}

fn counts(event: &Value) -> Vec<(String, u64, u64)> {
    let count = |it: &Value| {
        let forward = &it["forward"];
        let counts = [&forward["arrived"], &forward["dropped"]["loss"]].map(|it| it.as_u64().unwrap());
        (it["name"].as_str().unwrap().to_owned(), counts[0], counts[1])
    };
    event["destinations"].as_array().unwrap().iter().map(count).collect()
}

fn ask(addresses: &str) -> String {
    format!("ASK=\"{addresses}\" {}", program("destinations::ask_everyone").join(" "))
}

#[test]
fn each_destination_has_own_path_and_account() {
    if !host_allows() {
        return;
    }
    let server = program("destinations::echo_everywhere").join(" ");
    let script = ask("$RDT_PEER -$RDT_PEER_lossy $RDT_PEER_2 $RDT_PEER_2");
    let arguments = ["-q", "--json", "--seed=5", "--server", &server, "--to", "lossy=10.1.0.0/16"];
    let arguments =
        [&arguments[..], &["loss-forward=100%; seed=9", "--to", "192.0.2.7", "loss-reverse=0%"]].concat();
    let output = stdout(&run_with(&arguments, &["sh", "-c", &script]).output());
    let answers: Vec<_> =
        output.lines().filter(|line| line.contains(" 10.") || line.contains(" 192.")).collect();
    let expected = ["answer 10.0.0.1", "silence 10.1.0.1", "answer 192.0.2.7", "answer 192.0.2.7"];
    assert_eq!(answers, expected, "{output}");
    let end: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    if let Some(contract) = Contract::load("rdt-emu.json") {
        contract.check_event(&end);
    }
    let all = end["destinations"].as_array().unwrap();
    let rows: Vec<_> = all
        .iter()
        .map(|it| {
            let (forward, reverse) = (&it["forward"], &it["reverse"]);
            assert!(forward["balances"] == true && reverse["balances"] == true, "{it}");
            let counts = [&forward["arrived"], &forward["dropped"]["loss"], &reverse["delivered"]];
            (it["name"].as_str().unwrap(), counts.map(|count| count.as_u64().unwrap()))
        })
        .collect();
    assert_eq!(rows, [("other", [1, 0, 1]), ("lossy", [1, 1, 0]), ("2", [2, 0, 2])]);
    assert_eq!((&end["forward"]["arrived"], &end["reverse"]["delivered"]), (&4.into(), &3.into()));
    assert_eq!((&all[0]["seed"], &all[1]["seed"]), (&"5".into(), &"9".into()));
    assert_eq!((&all[0]["to"], &all[2]["to"]), (&Value::Null, &"192.0.2.7/32".into()));
}

/// Servers at two ports of the far end, which answer datagrams of any length with as many bytes.
#[test]
#[ignore = "a program for other tests"]
fn echo_at_two_ports() {
    let address = env::var("RDT_LOCAL").unwrap();
    let sockets = [4243, 4242].map(|port| UdpSocket::bind((address.as_str(), port)).unwrap());
    let threads = sockets.map(|socket| {
        std::thread::spawn(move || {
            let mut bytes = [0; 9000];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..length], from);
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Sends datagrams of several fragments to both ports, and one to a closed port.
#[test]
#[ignore = "a program for other tests"]
fn ask_two_ports() {
    let peer = env::var("RDT_PEER").unwrap();
    for port in [4242, 4243] {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((peer.as_str(), port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.send(&[0; 4000]).unwrap();
        assert_eq!(socket.recv(&mut [0; 9000]).unwrap(), 4000);
    }
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((peer.as_str(), 4250)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.send(b"closed").unwrap();
    let error = socket.recv(&mut [0; 64]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// Options with a description file that has two ports of the far end, each with its path.
fn two_ports(folder: &std::path::Path) -> [String; 2] {
    let file = folder.join("ports.toml");
    let text = "[to.fast]\ndestination = '10.0.0.1:4242/udp'\n[to.slow]\ndestination = '10.0.0.1:4243-4250'\nrtt = '60ms'\n";
    fs::write(&file, text).unwrap();
    ["--path".into(), file.display().to_string()]
}

#[test]
fn ports_of_one_host_have_paths_of_file() {
    if !host_allows() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [option, file] = two_ports(folder.path());
    let capture = folder.path().join("capture.pcapng").display().to_string();
    let server = program("destinations::echo_at_two_ports").join(" ");
    let ask = program("destinations::ask_two_ports");
    let ask: Vec<_> = ask.iter().map(String::as_str).collect();
    let arguments = ["-q", "--json", "--server", &server, &option, &file, "--pcapng", &capture];
    let output = stdout(&run_with(&arguments, &ask).output());
    let end = output.lines().find(|line| line.contains("\"end\"")).unwrap();
    let end: Value = serde_json::from_str(end).unwrap();
    // Three fragments each way; to the closed port a datagram, and the ICMP error back.
    let rows = end["destinations"].as_array().unwrap().iter().map(|it| {
        let delivered = ["forward", "reverse"].map(|direction| it[direction]["delivered"].as_u64().unwrap());
        (it["name"].as_str().unwrap(), it["to"].as_str(), delivered)
    });
    let expected = [
        ("other", None, [0, 0]),
        ("fast", Some("10.0.0.1/32:4242/udp"), [3, 3]),
        ("slow", Some("10.0.0.1/32:4243-4250"), [4, 4]),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected, "{end}");
    let Some(interfaces) = interfaces(&capture) else { return };
    let expected = [("far:fast", 6), ("far:slow", 8), ("near:fast", 6), ("near:slow", 8)]
        .map(|(name, n)| (name.into(), n));
    assert_eq!(interfaces, expected);
}

/// Returns the names of interfaces that tshark shows for packets, each with their number; `None`
/// without that program.
fn interfaces(file: &str) -> Option<Vec<(String, usize)>> {
    let mut tshark = Command::new("tshark");
    let Ok(output) = tshark.args(["-n", "-r", file, "-T", "fields", "-e", "frame.interface_name"]).output()
    else {
        rdt_testing::skipped("no tshark (apt-get install tshark)");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    let mut counts = std::collections::BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    Some(counts.into_iter().collect())
}

#[test]
fn check_prints_paths_that_set_shows() {
    let folder = tempfile::tempdir().unwrap();
    let [option, file] = two_ports(folder.path());
    let arguments = [&option, &file, "--preset", "lte", "--to", "v6=[fd00:1::/64]:443/tcp", "loss=1%"];
    let output = Command::new(PROGRAM).arg("check").args(arguments).output().unwrap();
    let checked = stdout(&output);
    let expected = "\n[to.slow]\ndestination = \"10.0.0.1/32:4243-4250\"\ndelay = \"30ms\"\n\n[to.v6]\ndestination = \"[fd00:1::/64]:443/tcp\"\nloss = \"0.01\"\n";
    assert!(checked.starts_with("rate = \"12mbit\"\n") && checked.ends_with(expected), "{checked}");
    // The text describes the same paths.
    fs::write(&file, &checked).unwrap();
    let again = Command::new(PROGRAM).args(["check", "--path", &file]).output().unwrap();
    assert_eq!(stdout(&again), checked);
    if host_allows() {
        let socket = folder.path().join("link").display().to_string();
        let arguments = ["-q", "--ipv6", "--control", &socket, "--path", &file];
        let shown = run_with(&arguments, &[PROGRAM, "set", &socket]).output();
        assert_eq!(stdout(&shown), checked);
    }
    fs::write(&file, "[to.web]\ndestination = '10.1.0.1:443'\nlatency = '5ms'\n").unwrap();
    let bad = Command::new(PROGRAM).args(["check", "--path", &file]).output().unwrap();
    let told = String::from_utf8(bad.stderr).unwrap();
    assert_eq!(bad.status.code(), Some(64));
    assert_eq!(
        told,
        format!(
            "rdt-emu: --path {file}: line 3, column 1: there is no key 'latency'; did you mean 'delay'?\n"
        )
    );
}

#[test]
fn json_stream_names_paths_of_destinations() {
    if !host_allows() {
        return;
    }
    let server = program("destinations::echo_everywhere").join(" ");
    let script = format!("{}; sleep 0.1", ask("-$RDT_PEER_lossy"));
    let to = ["--to", "lossy=10.1.0.0/16", "loss-forward=100%"];
    let arguments = [&["-q", "--json-stream=10ms", "--server", &server], &to[..]].concat();
    let output = stdout(&run_with(&arguments, &["sh", "-c", &script]).output());
    let progress = output.lines().rfind(|line| line.contains("\"progress\"")).unwrap();
    let progress: Value = serde_json::from_str(progress).unwrap();
    if let Some(contract) = Contract::load("rdt-emu.json") {
        contract.check_event(&progress);
    }
    assert_eq!(counts(&progress), [("other".into(), 0, 0), ("lossy".into(), 1, 1)]);
}

#[test]
fn set_changes_path_of_one_destination() {
    if !host_allows() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("link").display().to_string();
    let errors = folder.path().join("errors").display().to_string();
    let server = program("destinations::echo_everywhere").join(" ");
    let script = format!(
        "{PROGRAM} set {socket} --to lossy --loss-forward 0% && {} && {PROGRAM} set {socket} --to lossi; {PROGRAM} set {socket} --to lossi 2>{errors}",
        ask("$RDT_PEER_lossy"),
    );
    let script = format!("{script}; exit 0");
    let arguments = ["-q", "--json", "--control", &socket, "--server", &server];
    let to = ["--to", "lossy=10.1.0.0/16", "loss-forward=100%", "--to", "10.2.0.1", ""];
    let run = run_with(&[&arguments[..], &to[..]].concat(), &["sh", "-c", &script]);
    let output = stdout(&run.output());
    assert_eq!(said(&output, "answer "), "10.1.0.1");
    let change = output.lines().find(|line| line.contains("\"change\"")).unwrap();
    let change: Value = serde_json::from_str(change).unwrap();
    assert_eq!(change["destination"], "lossy");
    if let Some(contract) = Contract::load("rdt-emu.json") {
        contract.check_event(&change);
    }
    let told = fs::read_to_string(errors).unwrap();
    assert_eq!(told, "rdt-emu: --to: there is no path 'lossi'; did you mean 'lossy'?\n");
}

#[test]
fn bad_destinations_are_refused_in_one_line() {
    let cases = [
        (["10.1.0.7/16", "rtt=1ms"], "did you mean 10.1.0.0/16?"),
        (["10.1.0.1", "bandwidth=1mbit"], "did you mean 'rate'?"),
        (["fd00::1", "rtt=1ms"], "needs --ipv6"),
    ];
    for (to, part) in cases {
        let output =
            Command::new(PROGRAM).args(["run", "--to"]).args(to).args(["--", "true"]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{told}");
        assert!(told.contains(part) && told.lines().count() == 1, "{told}");
    }
    if host_allows() {
        let output = run_with(&["--to", "10.0.0.2", ""], &["true"]).output();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(64) && told.contains("that of CMD"), "{told}");
    }
}
