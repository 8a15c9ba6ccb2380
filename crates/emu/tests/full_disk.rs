//! Messages about a full disk, as users see them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcap_file::pcapng::{Block, PcapNgReader};
use rdt_program_testing::closed_pipe;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-emu");
/// Size of a datagram, bytes.
const DATAGRAM: usize = 1000;

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// Returns the exit code and the last line of the standard error.
fn end(output: &Output) -> (i32, String) {
    let said = String::from_utf8_lossy(&output.stderr);
    (
        output.status.code().unwrap_or_else(|| panic!("{output:?}")),
        said.lines().last().unwrap_or_default().to_owned(),
    )
}

/// Runs a proxy through a shell command line, sends `datagrams` datagrams and interrupts the proxy.
/// `arguments` are appended to the line.
fn proxied(line: &str, arguments: &str, datagrams: usize, stdout: impl Into<Stdio>) -> Output {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    let script =
        format!("{line} {PROGRAM} proxy -q {arguments} 127.0.0.1:0 {}", target.local_addr().unwrap());
    let mut child =
        Command::new("sh").args(["-c", &script]).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    let address = first.strip_prefix("rdt-emu: ").and_then(|line| line.split(' ').next()).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..datagrams {
        client.send_to(&[0; DATAGRAM], address).unwrap();
        // Sent one at a time, so that none is lost.
        target.recv(&mut [0; DATAGRAM]).unwrap();
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let mut said = Vec::new();
    stderr.read_to_end(&mut said).unwrap();
    Output { status: child.wait().unwrap(), stdout: Vec::new(), stderr: said }
}

#[test]
fn unwritable_stdout_is_reported_by_each_command() {
    let told =
        (74, "rdt-emu: cannot write the standard output: No space left on device (os error 28)".to_owned());
    assert_eq!(end(&proxied("exec", "--json", 0, full())), told);
    assert_eq!(end(&proxied("exec", "--json-stream=1ms", 9, full())), told);
    for arguments in ["sim -q --cbr 10mbit --for 10ms", "sim -q --json --cbr 10mbit --for 10ms", "run --help"]
    {
        let output = Command::new(PROGRAM).args(arguments.split(' ')).stdout(full()).output().unwrap();
        assert_eq!(end(&output), told, "{arguments}");
    }
}

#[test]
fn closed_stdout_fails_json_alone() {
    let told = (74, "rdt-emu: cannot write the standard output: Broken pipe (os error 32)".to_owned());
    assert_eq!(end(&proxied("exec", "--json", 0, closed_pipe())), told);
    assert_eq!(end(&proxied("exec", "--json-stream=1ms", 9, closed_pipe())), told);
    let sim = |arguments: &str| {
        let arguments = format!("sim -q --cbr 10mbit --for 10ms {arguments}");
        let mut command = Command::new(PROGRAM);
        end(&command.args(arguments.split_ascii_whitespace()).stdout(closed_pipe()).output().unwrap())
    };
    assert_eq!(sim("--json"), told);
    assert_eq!(sim(""), (0, String::new()));
}

#[test]
fn capture_keeps_whole_packets_or_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("capture");
    // `ulimit -f` counts blocks of 512 bytes.
    for (limit, expected) in [(1, 0), (16, 7), (200, 95)] {
        let arguments = format!("--seed 1 --force --pcapng {}", file.display());
        let output = proxied(&format!("ulimit -f {limit}; exec"), &arguments, 100, Stdio::null());
        let (code, said) = end(&output);
        assert_eq!(code, 74, "{said}");
        assert!(
            said.contains(&format!("File too large (os error 27): it has the first {expected} packets")),
            "{said}"
        );
        let Ok(bytes) = fs::read(&file) else {
            assert_eq!(expected, 0);
            continue;
        };
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut packets = 0;
        while let Some(block) = reader.next_block() {
            packets += usize::from(matches!(block.unwrap(), Block::EnhancedPacket(_)));
        }
        assert_eq!(packets, expected);
        assert!(bytes.len() + DATAGRAM + 100 > limit * 512, "one more would have fitted into {limit}");
    }
}
