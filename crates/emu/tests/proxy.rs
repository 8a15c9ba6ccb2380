//! Behaviour of `rdt-emu proxy` for users.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-emu");

/// Runs a proxy that fails; returns its exit code and standard error.
fn fails(arguments: &str) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM).arg("proxy").args(arguments.split(' ')).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn bad_arguments_get_one_line_each() {
    let cases = [
        ("127.0.0.1:0", "<TARGET>"),
        ("127.0.0.1 127.0.0.1:9", "LISTEN: '127.0.0.1' has no port"),
        ("127.0.0.1:0 127.0.0.1:x", "TARGET: 'x' is no port: it must be a number from 0 to 65535"),
        ("127.0.0.1:0 127.0.0.1:9 --rate-forward 10", "--rate-forward: '10' has no unit"),
        ("127.0.0.1:0 127.0.0.1:9 --rate", "--rate <RATE>"),
        ("127.0.0.1:0 127.0.0.1:9 --path /there/is/none", "--path /there/is/none: "),
        ("127.0.0.1:0 127.0.0.1:9 --preset fibre", "there is no preset 'fibre'; there are dsl, "),
        ("127.0.0.1:0 127.0.0.1:9 --idle 60", "--idle"),
        ("127.0.0.1:0 127.0.0.1:9 --idle 0s", "--idle: must be at least 10 ms"),
        ("127.0.0.1:0 127.0.0.1:9 --max-clients 0", "--max-clients"),
    ];
    for (arguments, part) in cases {
        let (code, said) = fails(arguments);
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{arguments}: {said}");
    }
}

#[test]
fn start_that_fails_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (capture, missing) = (at("capture"), at("none/json"));
    let (code, said) = fails(&format!("127.0.0.1:0 127.0.0.1:9 --pcapng {capture} --json-to {missing}"));
    assert_eq!(code, Some(73), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = taken.local_addr().unwrap();
    let (code, said) = fails(&format!("127.0.0.1:0 127.0.0.1:9 --pcapng {capture} --metrics {metrics}"));
    assert_eq!(code, Some(69), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn outputs_are_no_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let [toml, trace, other] = ["p.toml", "t.txt", "o"].map(|name| folder.path().join(name));
    std::fs::write(&toml, "rate = \"trace:t.txt\"\n").unwrap();
    std::fs::write(&trace, "1\n2\n").unwrap();
    for (json, pcapng) in [(&toml, &other), (&other, &trace)] {
        let options = format!("--json-to {} --pcapng {}", json.display(), pcapng.display());
        let path = format!("--path {}", toml.display());
        let (code, said) = fails(&format!("127.0.0.1:0 127.0.0.1:9 {path} --force {options}"));
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains("the path is read from this file"), "{said}");
    }
    assert_eq!(std::fs::read(&trace).unwrap(), b"1\n2\n");
    assert!(!other.exists());
}

#[test]
fn outputs_are_different_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let [one, other] = ["file", "sub/../file"].map(|name| folder.path().join(name).display().to_string());
    for other in [&one, &other] {
        let options = format!("--force --json-to {one} --pcapng {other}");
        let (code, said) = fails(&format!("127.0.0.1:0 127.0.0.1:9 {options}"));
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains("--json-to and --pcapng need two files"), "{said}");
    }
    let (code, said) = fails("127.0.0.1:0 127.0.0.1:9 --force");
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("--force replaces the files"), "{said}");
}

#[test]
fn taken_address_and_loop_are_refused() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (code, said) = fails(&format!("{address} 127.0.0.1:9"));
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains(&format!("cannot bind to {address}: ")), "{said}");
    drop(taken);
    let (code, said) = fails(&format!("{address} {address}"));
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("TARGET: equals LISTEN"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn interrupted_proxy_prints_account() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;
    use std::time::Duration;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = echo.local_addr().unwrap();
        let arguments = format!("proxy 127.0.0.1:0 {target} --rtt 2ms --seed 9 --loss-reverse 100%");
        let mut child =
            Command::new(PROGRAM).args(arguments.split(' ')).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.strip_prefix("rdt-emu: ").and_then(|line| line.split(' ').next()).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"hello", address).unwrap();
        echo.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (len, from) = echo.recv_from(&mut [0; 9]).unwrap();
        assert_eq!(len, 5);
        echo.send_to(b"hello", from).unwrap();
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
        assert!(said.starts_with("rdt-emu: forward: 1 arrived, 1 delivered\n"), "{said}");
        assert!(said.contains("rdt-emu: reverse: 1 arrived, 0 delivered, 1 lost on arrival\n"), "{said}");
        assert!(said.contains("rdt-emu: clients: 1\nrdt-emu: seed: 9\n"), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn second_interrupt_ends_proxy_with_blocked_output() {
    use std::process::Stdio;
    use std::thread::sleep;
    use std::time::Duration;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let mut child = Command::new(PROGRAM)
        .args(["proxy", "-q", "127.0.0.1:0", "127.0.0.1:9", "--json-stream=1ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut unread = 0;
    let ended = (0..100).find_map(|_| {
        #[expect(clippy::disallowed_methods, reason = "waits for another process")]
        sleep(Duration::from_millis(100));
        let before = unread;
        unread = rustix::io::ioctl_fionread(child.stdout.as_ref().unwrap()).unwrap();
        // The unread bytes no longer increase, so the pipe is full.
        if unread > 0 && unread == before {
            kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
        }
        child.try_wait().unwrap()
    });
    if ended.is_none() {
        child.kill().unwrap();
    }
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
}

#[cfg(target_os = "linux")]
#[test]
fn unread_stderr_delays_no_packet() {
    use std::fs::File;
    use std::io::{BufRead, BufReader, ErrorKind, Write};
    use std::thread::sleep;
    use std::time::Duration;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use rustix::fs::{OFlags, fcntl_setfl};

    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    target.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (said, stderr) = std::io::pipe().unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["proxy", "127.0.0.1:0", &target.local_addr().unwrap().to_string(), "--max-clients", "1"])
        .stderr(stderr.try_clone().unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, &said).read_line(&mut line).unwrap();
    let address = line.strip_prefix("rdt-emu: ").and_then(|line| line.split(' ').next()).unwrap();
    let mut stderr = File::from(std::os::fd::OwnedFd::from(stderr));
    // `O_NONBLOCK` applies to the open pipe, which the program shares, so it is set only while the
    // test fills the pipe.
    fcntl_setfl(&stderr, OFlags::NONBLOCK).unwrap();
    let full = (0..).find_map(|_| stderr.write(b"x").err()).unwrap();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    fcntl_setfl(&stderr, OFlags::empty()).unwrap();

    let [first, second] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    for client in [&first, &second, &first] {
        client.send_to(b"x", address).unwrap();
    }
    let served = [(); 2].map(|()| target.recv(&mut [0; 9]).is_ok());
    let ended = (0..100).find_map(|_| {
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
        #[expect(clippy::disallowed_methods, reason = "waits for another process")]
        sleep(Duration::from_millis(100));
        child.try_wait().unwrap()
    });
    if ended.is_none() {
        child.kill().unwrap();
    }
    assert_eq!(served, [true; 2], "the first client is served though the second is spoken of");
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
}

#[test]
fn missing_command_prints_help() {
    let output = Command::new(PROGRAM).output().unwrap();
    let help = Command::new(PROGRAM).arg("-h").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&help.stdout));
}
