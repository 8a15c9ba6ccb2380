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
    let sockets = ["RDT_LOCAL", "RDT_PEER_lossy", "RDT_PEER_2"];
    let threads = sockets.map(|name| {
        let socket = UdpSocket::bind((env::var(name).unwrap(), 4242)).unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..length], from);
            }
        })
    });
    for thread in threads {
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
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(timeout)).unwrap();
        socket.connect(SocketAddr::new(address.parse().unwrap(), 4242)).unwrap();
        socket.send(b"hello").unwrap();
        let answered = socket.recv(&mut [0; 64]).is_ok();
        println!("{} {address}", if answered { "answer" } else { "silence" });
    }
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
