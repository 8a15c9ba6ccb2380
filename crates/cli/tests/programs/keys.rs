//! Keys of encrypted transfers: known hosts, secrets, tickets, and receivers of one version.

use std::fs;
use std::path::Path;
use std::thread;

use rdt_crypto::StaticKey;
use rdt_driver::{UdpIo, UdpOptions, receive_one};
use rdt_identity::{create_secret, os_entropy};

use super::process::{Ended, Program, Receiver, rdt_send, send};

/// Runs `rdt-send` as a user whose files are in `folder`.
fn send_as(folder: &Path, args: &str) -> Ended {
    Program::start(rdt_send(args).env("XDG_CONFIG_HOME", folder)).ended()
}

#[test]
fn new_key_is_kept_and_changed_one_refused() {
    let receiver = Receiver::start("--no-link");
    let folder = tempfile::tempdir().unwrap();
    let send = || send_as(folder.path(), &receiver.args("--bytes 1000 --json"));
    let first = send().with_code(0);
    assert!(first.stderr.contains(", new, added to "), "{}", first.stderr);
    let key = first.summary()["receiver_key"].as_str().unwrap().to_string();
    let again = send().with_code(0);
    assert!(!again.stderr.contains("new"), "{}", again.stderr);
    let known = folder.path().join("rdt/known_hosts");
    let line = fs::read_to_string(&known).unwrap();
    let other = StaticKey::from_bytes([9; 32]).public().to_string();
    assert!(line.contains(&key), "{line}");
    fs::write(&known, line.replace(&key, &other)).unwrap();
    let run = send().with_code(76);
    assert!(run.stderr.contains("HAS CHANGED"), "{}", run.stderr);
    assert_eq!((&run.summary()["exit_code"], &run.summary()["bytes"]), (&76.into(), &0.into()));
    assert_eq!(fs::read_to_string(&known).unwrap(), line.replace(&key, &other));
}

#[test]
fn wrong_or_missing_secret_exits_with_77() {
    let folder = tempfile::tempdir().unwrap();
    let [right, wrong] = ["right", "wrong"].map(|name| {
        let path = folder.path().join(name);
        create_secret(&path, &mut os_entropy().unwrap()).unwrap();
        path.display().to_string()
    });
    let receiver = Receiver::start(&format!("--no-link --secret-file {right}"));
    let send = |options: &str| send(&receiver.args(&format!("--bytes 1000 {options}")));
    send(&format!("--secret-file {right}")).with_code(0);
    for options in [format!("--secret-file {wrong}"), String::new()] {
        let run = send(&options).with_code(77);
        assert_eq!(run.lines().last(), Some(&"Main:\tconnect failed with status 77"));
        let start = format!("rdt-send: {} does not ", receiver.address);
        assert!(run.stderr.lines().any(|line| line.starts_with(&start)), "{}", run.stderr);
    }
}

#[test]
fn receiver_of_version_1_needs_insecure() {
    let io = UdpIo::bind("127.0.0.1:0".parse().unwrap(), UdpOptions::default()).unwrap();
    let address = io.local_addr().unwrap();
    thread::spawn(move || receive_one(io, &mut std::io::sink()));
    let run = send(&format!("{address} --bytes 1000")).with_code(8);
    for part in
        ["takes version 1 of the native format, which is not encrypted", "--insecure sends in the clear"]
    {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    send(&format!("{address} --bytes 1000 --insecure")).with_code(0);
}

#[test]
fn damaged_ticket_is_refused() {
    let key = StaticKey::from_bytes([1; 32]).public();
    let address = "127.0.0.1:9".parse().unwrap();
    let ticket = rdt_identity::Ticket::new(&[address], key, false, 60, &mut os_entropy().unwrap()).unwrap();
    let ticket = ticket.to_string();
    for (args, code, part) in [
        (ticket.clone(), 77, "the ticket has expired"),
        (ticket[..60].to_string(), 64, "not copied whole"),
        (format!("{ticket} --insecure"), 64, "leave out --insecure"),
        (format!("{ticket} 1 0 0 1"), 64, "--wire native"),
        ("@/nowhere/ticket".to_string(), 66, "cannot read the ticket"),
    ] {
        let run = send(&args).with_code(code);
        assert!(run.stderr.contains(part) && !run.stderr.contains(&ticket), "{args}: {}", run.stderr);
    }
}
