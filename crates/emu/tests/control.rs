//! `--control` and `rdt-emu set`: changes of a path while packets pass.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rdt_program_testing::contract::Contract;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-emu");

/// Proxy in front of a socket of this test.
struct Proxy {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    client: UdpSocket,
    target: UdpSocket,
    folder: tempfile::TempDir,
}

impl Proxy {
    fn start(options: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [client, target] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        target.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut child = Command::new(PROGRAM)
            .args(["proxy", "127.0.0.1:0", &target.local_addr().unwrap().to_string(), "--json"])
            .arg("--control")
            .arg(folder.path().join("link"))
            .args(options.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.strip_prefix("rdt-emu: ").and_then(|line| line.split(' ').next());
        client.connect(address.unwrap_or_else(|| panic!("{line}"))).unwrap();
        Self { child, stderr, client, target, folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("link")
    }

    fn set(&self, arguments: &str) -> Output {
        set(&self.socket(), arguments)
    }

    /// Sends a datagram of one byte, and returns the first byte that arrives.
    fn arrives(&self, byte: u8) -> u8 {
        self.client.send(&[byte]).unwrap();
        let mut got = [0];
        self.target.recv(&mut got).unwrap();
        got[0]
    }

    /// Ends the proxy. Returns its JSON events and its standard error.
    fn end(mut self) -> (Vec<Value>, String) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(!self.folder.path().join("link").exists(), "the socket is removed at the end");
        let text = String::from_utf8(output.stdout).unwrap();
        let events: Vec<_> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if let Some(contract) = Contract::load("rdt-emu.json") {
            for event in &events {
                contract.check_event(event);
            }
        }
        (events, said)
    }
}

fn set(socket: &Path, arguments: &str) -> Output {
    Command::new(PROGRAM).arg("set").arg(socket).args(arguments.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn set_changes_loss_of_running_proxy() {
    for options in ["", "--per-client"] {
        let proxy = Proxy::start(options);
        assert_eq!(proxy.arrives(1), 1);
        let changed = proxy.set("--loss-forward 100% --rtt 2ms");
        assert_eq!(changed.status.code(), Some(0), "{changed:?}");
        proxy.client.send(&[2]).unwrap();
        // The path without settings is that of the start, so the former change is in force.
        let shown = proxy.set("");
        assert_eq!((shown.status.code(), &shown.stdout), (Some(0), &changed.stdout), "{shown:?}");
        assert!(text(&shown.stdout).contains("loss = 1"), "{shown:?}");
        assert_eq!(proxy.set("--loss none").status.code(), Some(0));
        assert_eq!(proxy.arrives(3), 3, "packet 2 was lost");
        let (events, said) = proxy.end();
        assert!(said.contains("rdt-emu: the path is now: "), "{said}");
        let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, ["change", "change", "end"]);
        assert!(events[0]["path"].as_str().unwrap().contains("loss = 1"), "{events:?}");
        let forward = &events[2]["forward"];
        assert_eq!((&forward["arrived"], &forward["dropped"]["loss"]), (&3.into(), &1.into()));
    }
}

#[test]
fn impossible_changes_are_refused_in_one_line() {
    let proxy = Proxy::start("--rate 10mbit");
    let cases = [
        ("--discipline codel", "the queue discipline cannot change"),
        ("--rate wifi-g", "802.11 cell"),
        ("--occupancy path", "what counts against the queue"),
        ("--rate 10", "'10' has no unit"),
        ("--rat 10mbit", "is it --rate?"),
        ("--path link.toml", "set takes flags alone"),
        ("--seed 3", "--seed"),
    ];
    for (arguments, part) in cases {
        let output = proxy.set(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{arguments}: {said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{arguments}: {said}");
    }
    assert_eq!(proxy.arrives(1), 1);
    assert_eq!(proxy.end().0.len(), 1, "no event of a change");
}

#[test]
fn long_description_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("path.toml");
    let steps: Vec<_> = (0..8000).map(|second| format!("{second}s:{}kbit", 1000 + second)).collect();
    std::fs::write(&file, format!("rate = '{}'", steps.join(","))).unwrap();
    let mut proxy = Proxy::start(&format!("--path {}", file.display()));
    let changed = proxy.set("--loss-reverse 1%");
    assert_eq!(changed.status.code(), Some(0), "{}", text(&changed.stderr));
    assert!(changed.stdout.len() > 1 << 16 && text(&changed.stdout).contains("loss"));
    // Not ended: its standard output, which has the event of the change, is longer than a pipe.
    proxy.child.kill().unwrap();
    proxy.child.wait().unwrap();
}

#[test]
fn trace_is_found_beside_the_caller() {
    let proxy = Proxy::start("");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cell.down"), "1\n2\n").unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("set").arg(proxy.socket()).args(["--rate", "trace:cell.down"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(proxy.arrives(1), 1);
    proxy.end();
}

#[test]
fn control_socket_is_private_and_not_replaced() {
    let proxy = Proxy::start("");
    let mode = std::fs::metadata(proxy.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let control = proxy.socket();
    let plain = proxy.folder.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    for (file, reason) in
        [(&control, "a program listens at it"), (&plain, "it exists already, and is no socket")]
    {
        let second = Command::new(PROGRAM)
            .args(["proxy", "127.0.0.1:0", "127.0.0.1:9", "--control"])
            .arg(file)
            .output()
            .unwrap();
        let told = format!("rdt-emu: cannot create {}: {reason}\n", file.display());
        assert_eq!((second.status.code(), text(&second.stderr)), (Some(73), told));
    }
    assert_eq!(std::fs::read_to_string(&plain).unwrap(), "text");
    assert_eq!(proxy.arrives(1), 1);
    proxy.end();
    let missing = set(&control, "--loss 1%");
    assert_eq!(missing.status.code(), Some(66), "{missing:?}");
    assert!(text(&missing.stderr).contains("no rdt-emu listens at"), "{missing:?}");
}

#[test]
fn damaged_requests_change_nothing() {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    let proxy = Proxy::start("");
    for request in
        ["", "\n", "{}\n", "{\"settings\":[[\"both\"]]}\n", "{\"settings\":[[\"up\",\"rate\",\"1bit\"]]}\n"]
    {
        let mut peer = UnixStream::connect(proxy.socket()).unwrap();
        peer.write_all(request.as_bytes()).unwrap();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("\"the request is damaged\""), "{request}: {answer}");
    }
    assert_eq!(proxy.end().0.len(), 1);
}
