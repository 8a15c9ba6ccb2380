//! `--internet`: programs inside reach servers of these tests, which listen on the loopback device
//! of the host. Skipped for a NAT program that is not installed.

use std::env;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rdt_udp::clock;
use rustix::process::Signal;

use super::helpers::{answer_names, helper, program, said};
use super::running::{PROGRAM, code, host_allows, kill, run, run_with, stdout};

const TOOLS: [(&str, &str); 2] = [("pasta", "passt"), ("slirp4netns", "slirp4netns")];

/// Returns the NAT programs that are installed; prints which are not.
fn tools() -> Vec<&'static str> {
    let there = |(tool, package): &(&str, &str)| {
        let is_there = Command::new(tool).arg("--version").output().is_ok();
        if !is_there {
            eprintln!("skipped: no {tool} (apt-get install {package})");
        }
        is_there && (*tool != "pasta" || is_allowed(tool))
    };
    if !host_allows() {
        return Vec::new();
    }
    TOOLS.iter().filter(|tool| there(tool)).map(|(tool, _)| *tool).collect()
}

/// Returns false if the host forbids the program to work, as a profile of `AppArmor` does.
fn is_allowed(tool: &str) -> bool {
    let output =
        Command::new(PROGRAM).args(["run", "-q", &format!("--internet={tool}"), "--", "true"]).output();
    let output = output.unwrap();
    let is_allowed = output.status.code() != Some(69);
    if !is_allowed {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
    }
    is_allowed
}

/// Starts servers that echo TCP streams and datagrams. Returns their port.
fn echo_servers() -> u16 {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let udp = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            let mut bytes = [0; 6];
            let _ = stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes));
        }
    });
    thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((length, from)) = udp.recv_from(&mut bytes) {
            let _ = udp.send_to(&bytes[..length], from);
        }
    });
    port
}

/// Asks the echo servers of the host; prints what they answer, and after how many milliseconds.
#[test]
#[ignore = "a program for other tests"]
fn ask_host() {
    let host: Ipv4Addr = env::var("RDT_HOST").unwrap().parse().unwrap();
    let port: u16 = env::var("ECHO_PORT").unwrap().parse().unwrap();
    let begin = clock::now();
    let mut stream = TcpStream::connect((host, port)).unwrap();
    println!("\nconnected_ms {}", (clock::now() - begin).as_millis());
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"stream").unwrap();
    let mut bytes = [0; 6];
    stream.read_exact(&mut bytes).unwrap();
    println!("tcp {}", std::str::from_utf8(&bytes).unwrap());
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.connect((host, port)).unwrap();
    socket.send(b"datagram").unwrap();
    let mut bytes = [0; 64];
    let length = socket.recv(&mut bytes).unwrap();
    println!("udp {}", std::str::from_utf8(&bytes[..length]).unwrap());
}

#[test]
fn outside_traffic_crosses_path_both_ways() {
    for tool in tools() {
        let port = echo_servers();
        let script = format!("ECHO_PORT={port} {}", program("internet::ask_host").join(" "));
        let internet = format!("--internet={tool}");
        let run = run_with(&[&internet, "--rtt=200ms", "--json", "-q"], &["sh", "-c", &script]);
        let output = stdout(&run.output());
        assert_eq!((said(&output, "tcp "), said(&output, "udp ")), ("stream", "datagram"), "{tool}");
        let connected: u64 = said(&output, "connected_ms").parse().unwrap();
        assert!(connected >= 200, "{tool}: {output}");
        let end: serde_json::Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
        for direction in ["forward", "reverse"] {
            assert!(end[direction]["delivered"].as_u64().unwrap() >= 5, "{tool}: {end}");
        }
        let lost = run_with(&[&internet, "--loss=0/100%", "-q"], &["sh", "-c", "echo $RDT_HOST"]);
        assert_eq!(stdout(&lost.output()), "198.18.0.2\n");
    }
}

#[test]
fn far_end_server_and_host_are_both_reached() {
    for tool in tools() {
        let port = echo_servers();
        let ask_host = format!("ECHO_PORT={port} {}", program("internet::ask_host").join(" "));
        let script = format!("{}; {ask_host}", helper("ask").join(" "));
        let server = helper("echo").join(" ");
        let options = ["-q", &format!("--internet={tool}"), "--server", &server];
        let output = stdout(&run_with(&options, &["sh", "-c", &script]).output());
        assert_eq!((said(&output, "echo"), said(&output, "tcp ")), ("hello", "stream"), "{tool}");
    }
}

#[test]
fn names_are_looked_up_by_host() {
    let tools = tools();
    // As systemd-resolved: only a program in the network of the host can ask it.
    let Ok(socket) = UdpSocket::bind("127.0.0.53:53") else {
        eprintln!("skipped: port 53 of 127.0.0.53 cannot be had");
        return;
    };
    thread::spawn(move || answer_names(&socket));
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let file = folder.path().join("resolv.conf");
    std::fs::write(&file, "nameserver 127.0.0.53\n").unwrap();
    let look_up = program("helpers::look_up").join(" ");
    for tool in tools {
        let script = format!(
            "mount --bind {} /etc/resolv.conf || exit 99; exec {PROGRAM} run -q --internet={tool} --rtt 20ms -- {look_up}",
            file.display()
        );
        let Ok(output) = Command::new("unshare").args(["-m", "sh", "-c", &script]).output() else {
            eprintln!("skipped: there is no `unshare`");
            return;
        };
        if code(&output) == 99 {
            eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        assert_eq!(said(&stdout(&output), "found "), "Some(192.0.2.7:1)", "{tool}: {output:?}");
    }
}

#[test]
fn nat_ends_with_killed_run() {
    for tool in tools() {
        let internet = format!("-q --internet={tool}");
        let running = run(&internet, &["sh", "-c", "echo up; exec sleep 1000"]).start();
        assert_eq!(running.line, "up");
        // The mark of the test is in its environment too.
        running.process("tap0");
        kill(running.child.id(), Signal::KILL);
        assert_eq!(running.end().0, 137, "{tool}");
    }
}

#[test]
fn end_of_nat_is_reported_and_command_continues() {
    for tool in tools() {
        let internet = format!("-q --internet={tool}");
        let running = run(&internet, &["sh", "-c", "echo up; sleep 1; exit 3"]).start();
        kill(running.process("tap0"), Signal::KILL);
        let (code, told) = running.end();
        assert_eq!((code, told.as_str()), (3, "rdt-emu: the program of --internet ended with code 137\n"));
    }
}

#[test]
fn internet_without_program_names_package() {
    if !host_allows() {
        return;
    }
    for (option, package) in [
        ("--internet", "slirp4netns or passt"),
        ("--internet=pasta", "passt"),
        ("--internet=slirp4netns", "slirp4netns"),
    ] {
        let mut command = Command::new(PROGRAM);
        command.args(["run", option, "--", "true"]).env("PATH", "/no/such/folder");
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{told}");
        assert!(told.ends_with(&format!("install the package {package}\n")), "{told}");
    }
}

#[test]
fn failed_nat_is_described() {
    if !host_allows() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pasta");
    std::fs::write(&file, "#!/bin/sh\necho first; echo 'no route to anywhere' >&2; exit 1\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(PROGRAM);
    let path = format!("{}:{}", folder.path().display(), env::var("PATH").unwrap());
    let output = command.args(["run", "--internet=pasta", "--", "true"]).env("PATH", path).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{told}");
    assert!(told.contains("pasta does not connect the far end: no route to anywhere\n"), "{told}");
}

#[test]
fn internet_is_for_outermost_run() {
    let Some(tool) = tools().first().copied() else { return };
    let internet = format!("-q --internet={tool}");
    let output = run(&internet, &[PROGRAM, "run", "-q", "--internet", "--", "true"]).output();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code(&output) == 64 && told.contains("outermost of nested runs"), "{told}");
    // The far end of an inner run is that of the outer one, and so is what lies beyond it.
    let port = echo_servers();
    let script = format!(
        "ECHO_PORT={port} exec {PROGRAM} run -q --rtt 50ms -- {}",
        program("internet::ask_host").join(" ")
    );
    let output = stdout(&run(&internet, &["sh", "-c", &script]).output());
    assert_eq!(said(&output, "tcp "), "stream");
}
