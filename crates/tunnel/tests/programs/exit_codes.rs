//! Exit codes and sentences of programs that cannot or may not begin.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Stdio;

use rdt_trust::services::FILES;

use super::process::{Home, Program};
use super::tcp::{count, server};

const UNUSED: &str = "127.0.0.1:9";

fn unused() -> SocketAddr {
    UNUSED.parse().unwrap()
}

#[test]
fn open_address_without_rule_is_refused() {
    let home = Home::new();
    let ended = home.run("server", &format!("serve --to {UNUSED} --listen 0.0.0.0:0 --tickets 0"));
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.errors.contains("can be reached from other hosts"), "{ended:?}");
    assert!(ended.errors.contains("--allow FILE, --secret-file FILE or --tickets N"), "{ended:?}");
}

#[test]
fn ticket_options_without_tickets_are_refused() {
    let home = Home::new();
    for (options, remedy) in [
        ("--tickets 0 --ticket-lifetime 1h", "--tickets N"),
        ("--open --advertise 127.0.0.1:1", "--tickets N"),
        ("--open --tickets 1", "leave out --tickets"),
    ] {
        let ended = home.run("server", &format!("serve --to {UNUSED} --listen 127.0.0.1:0 {options}"));
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.errors.contains(remedy), "{ended:?}");
    }
}

#[test]
fn bad_tickets_are_refused() {
    let home = Home::new();
    let serve = home.serve(unused(), "--tickets 2");
    assert_eq!(serve.tickets.len(), 2);
    let [damaged, good] = [&serve.tickets[0][..60], &serve.tickets[1]];
    let connect = |user: &str, ticket: &str| {
        home.run(user, &format!("connect {ticket} --listen 127.0.0.1:0 --connect-give-up 2s"))
    };
    let ended = connect("anna", damaged);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.errors.contains("was not copied whole"), "{ended:?}");

    let first = home.connect("anna", good, "");
    let ended = connect("bob", good);
    assert_eq!(ended.code, Some(77), "{ended:?}");
    assert!(ended.errors.contains("used by another client"), "{ended:?}");
    drop(first);
    drop(home.connect("anna", good, ""));

    // A ticket of a server that was restarted at the same address, with another secret.
    let old = serve.tickets[0].clone();
    let address = serve.address;
    drop(serve);
    let args = format!("serve --to {UNUSED} --listen {address} --json");
    let restarted = Program::start(&mut home.command("server", &args));
    restarted.event("listening");
    let ended = connect("anna", &old);
    assert_eq!(ended.code, Some(77), "{ended:?}");
}

#[test]
fn changed_key_has_its_own_code() {
    let home = Home::new();
    let serve = home.serve(unused(), "--open");
    let address = serve.address;
    drop(home.connect("anna", &address.to_string(), ""));
    drop(serve);
    // Another server at the same address.
    std::fs::remove_dir_all(home.path("server")).unwrap();
    let args = format!("serve --to {UNUSED} --listen {address} --open --json");
    let other = Program::start(&mut home.command("server", &args));
    other.event("listening");
    let ended = home.run("anna", &format!("connect {address} --listen 127.0.0.1:0"));
    assert_eq!(ended.code, Some(76), "{ended:?}");
    let known = home.path("anna").join("rdt/known_hosts");
    for part in ["HAS CHANGED", "line 1", "No data was sent", known.to_str().unwrap()] {
        assert!(ended.errors.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn key_is_admitted_once_it_is_listed() {
    let home = Home::new();
    let allow = home.write("allow", "");
    let serve = home.serve(server(count), &format!("--allow {}", allow.display()));
    assert!(serve.tickets.is_empty());
    let args = format!("connect {} --listen 127.0.0.1:0", serve.address);
    let ended = home.run("anna", &args);
    assert_eq!(ended.code, Some(77), "{ended:?}");
    let key = home.run("anna", "key").lines.remove(0);
    assert!(ended.errors.contains(&key), "the sentence has the line to add: {ended:?}");
    home.write("allow", &format!("{key} anna\n"));
    drop(home.connect("anna", &serve.address.to_string(), ""));
}

#[test]
fn secret_file_admits_its_holders() {
    let home = Home::new();
    let secret = home.path("secret");
    let make = format!("secret {}", secret.display());
    assert_eq!(home.run("anna", &make).code, Some(0));
    assert_eq!(home.run("anna", &make).code, Some(73), "it is not overwritten");
    let option = format!("--secret-file {}", secret.display());
    let serve = home.serve(unused(), &option);
    drop(home.connect("anna", &serve.address.to_string(), &option));
    let args = format!("connect {} --listen 127.0.0.1:0 --connect-give-up 2s", serve.address);
    let ended = home.run("anna", &args);
    assert_eq!(ended.code, Some(77), "{ended:?}");
}

#[test]
fn silent_or_unknown_host_has_its_code() {
    let home = Home::new();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let ended = home.run("anna", &format!("connect {address} --listen 127.0.0.1:0 --connect-give-up 1s"));
    assert_eq!(ended.code, Some(5), "{ended:?}");
    let ended = home.run("anna", "stdio no.such.name.invalid");
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(ended.errors, "rdt-tunnel: no such host: no.such.name.invalid:22346\n");
}

#[test]
fn taken_port_is_refused() {
    let home = Home::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap();
    let ended = home.run("anna", &format!("connect 127.0.0.1:1 --listen {taken}"));
    assert_eq!(ended.code, Some(69), "{ended:?}");
}

#[test]
fn stdio_ends_with_code_of_its_reason() {
    let home = Home::new();
    let serve = home.serve(server(count), "--open");
    let stdio = |serve: &super::process::Serve, input: &[u8]| {
        let mut command = home.command("anna", &format!("stdio -q {}", serve.address));
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = stdio(&serve, b"abc");
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"3 294"[..]), "{output:?}");

    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::fs::remove_file(home.path("anna").join("rdt/known_hosts")).unwrap();
    let output = stdio(&home.serve(closed, "--open"), b"abc");
    assert_eq!(output.status.code(), Some(8), "{output:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("the target refused the connection"), "{errors}");
}

/// As a server that says why it hangs up, which ssh reads from its `ProxyCommand`: the reader sees
/// the last words and their end, and ends the input after that.
#[test]
fn last_words_reach_reader_before_input_ends() {
    let home = Home::new();
    let target = server(|mut stream| {
        let mut request = [0; 5];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"one\nlast words").unwrap();
    });
    let serve = home.serve(target, "--open");
    let mut command = home.command("anna", &format!("stdio -q {}", serve.address));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"hello").unwrap();
    let mut words = String::new();
    child.stdout.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(words, "one\nlast words");
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn ticket_of_other_program_is_refused() {
    let home = Home::new();
    let serve = home.serve(unused(), "");
    let ticket: rdt_trust::Ticket = serve.tickets[0].parse().unwrap();
    let entropy = &mut rdt_trust::os_entropy().unwrap();
    let of_recv =
        rdt_trust::Ticket::new(FILES, ticket.addresses(), ticket.key(), false, u64::MAX, entropy).unwrap();
    for args in [format!("stdio {of_recv}"), format!("connect {of_recv} --listen 127.0.0.1:0")] {
        let ended = home.run("anna", &args);
        let sentence = "rdt-tunnel: the ticket was printed by rdt-recv: use rdt-send\n";
        assert_eq!((ended.code, &*ended.errors), (Some(64), sentence));
    }
}

#[test]
fn wrong_arguments_exit_with_64() {
    let home = Home::new();
    for args in ["serve", "serve --to localhost", "connect", "serve --to h:1 --open --allow f", "what"] {
        let ended = home.run("anna", args);
        assert_eq!(ended.code, Some(64), "{args}: {ended:?}");
        assert!(ended.errors.starts_with("rdt-tunnel: "), "{ended:?}");
        assert_eq!(ended.errors.lines().count(), 1, "{ended:?}");
    }
    let bare = home.run("anna", "");
    assert_eq!((bare.code, bare.lines.len()), (Some(64), 0), "{bare:?}");
    assert!(bare.errors.contains("Usage: rdt-tunnel <COMMAND>"), "{bare:?}");
    let help = home.run("anna", "--help");
    assert_eq!(help.code, Some(0));
    assert!(help.lines.iter().any(|line| line.contains("ProxyCommand rdt-tunnel stdio")), "{help:?}");
}
