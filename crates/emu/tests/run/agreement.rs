//! The same path and seed in a namespace, in a proxy and in virtual time: the same packets meet the same fate.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::helpers::{NUMBERED, NUMBERED_BYTES, helper, send_numbers};
use super::running::{PROGRAM, code, host_allows, run_with};

/// What all of them are told.
const PATH: [&str; 5] = ["--rtt=2ms", "--loss=3%/0", "--duplicate=1%", "--corrupt=1%", "--seed=20"];

/// Numbers of packets, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fates {
    arrived: u32,
    lost: Vec<u32>,
    duplicated: Vec<u32>,
    /// With whether it was the second copy.
    corrupted: Vec<(u32, bool)>,
}

impl Fates {
    fn in_order(mut self) -> Self {
        self.lost.sort_unstable();
        self.duplicated.sort_unstable();
        self.corrupted.sort_unstable();
        self
    }
}

#[test]
fn a_namespace_does_to_each_packet_what_the_model_does_in_virtual_time() {
    if !host_allows() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("capture");
    let arguments = [&PATH[..], &["-q", "--pcapng", file.to_str().unwrap()]].concat();
    let command = helper("send_numbered");
    let output = run_with(&arguments, &command.iter().map(String::as_str).collect::<Vec<_>>()).output();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_as_simulated(&file, directory.path());
}

/// With the test above: namespace, proxy and virtual time agree.
#[test]
fn so_does_the_proxy_on_the_same_path() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("capture");
    let [target, client] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let mut proxy = Command::new(PROGRAM)
        .args(["proxy", "127.0.0.1:0", &target.local_addr().unwrap().to_string(), "-q"])
        .args(PATH)
        .arg("--pcapng")
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(proxy.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let listen = line.strip_prefix("rdt-emu: ").and_then(|line| line.split(' ').next()).unwrap();
    send_numbers(&client, listen);
    // It still reads what has come, but does not wait for what is on the way.
    #[expect(clippy::disallowed_methods, reason = "the relay is another process")]
    std::thread::sleep(Duration::from_millis(500));
    kill(Pid::from_raw(i32::try_from(proxy.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(proxy.wait().unwrap().code(), Some(0));
    assert_as_simulated(&file, directory.path());
}

/// What a capture shows is what `sim` says.
fn assert_as_simulated(capture: &Path, directory: &Path) {
    let ran = captured(capture);
    // A busy machine may lose some before they come to the path, where they get their numbers.
    assert!(ran.arrived > NUMBERED / 2, "{ran:?}");
    let simulated = simulated(directory, ran.arrived);
    assert!(
        [simulated.lost.len(), simulated.duplicated.len(), simulated.corrupted.len()]
            .iter()
            .all(|len| *len > 20)
    );
    assert_eq!(ran, simulated);
}

/// What became of the packets that came to the near end.
fn captured(file: &Path) -> Fates {
    let bytes = fs::read(file).unwrap();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut fates = Fates::default();
    let mut numbers = HashMap::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.unwrap() else { continue };
        let comments: Vec<_> = packet
            .options
            .iter()
            .filter_map(|option| match option {
                EnhancedPacketOption::Comment(text) => Some(text.as_ref()),
                _ => None,
            })
            .collect();
        // Nothing else on the path is as long.
        if packet.data.len() != NUMBERED_BYTES {
            continue;
        }
        let said = number(&packet.data);
        if packet.interface_id == 0 {
            let n = fates.arrived;
            numbers.insert(said, n);
            fates.arrived += 1;
            if comments.contains(&"dropped: lost on arrival") {
                fates.lost.push(n);
            }
        } else {
            let n = numbers[&said];
            let is_copy = comments.contains(&"second copy");
            if is_copy {
                fates.duplicated.push(n);
            }
            if comments.contains(&"bit flipped") {
                fates.corrupted.push((n, is_copy));
            }
        }
    }
    fates.in_order()
}

/// The number that most of its copies at the end of the packet say: one of them may have a wrong bit.
fn number(packet: &[u8]) -> u32 {
    let copies: Vec<_> = packet[NUMBERED_BYTES - 12..]
        .chunks(4)
        .map(|copy| u32::from_be_bytes(copy.try_into().unwrap()))
        .collect();
    if copies[0] == copies[1] { copies[0] } else { copies[2] }
}

/// What `sim` says of so many packets.
fn simulated(directory: &Path, count: u32) -> Fates {
    let schedule = directory.join("schedule");
    fs::write(&schedule, format!("0s {NUMBERED_BYTES} {count}/100us\n")).unwrap();
    let output = Command::new(PROGRAM)
        .args(["sim", "-q"])
        .args(PATH)
        .arg(&schedule)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let mut fates = Fates::default();
    for row in String::from_utf8(output.stdout).unwrap().lines().skip(1) {
        let columns: Vec<_> = row.split(',').collect();
        let [n, _, _, _, fate, _, duplicate, corrupted, _] = columns[..] else { panic!("{row}") };
        let (n, is_copy) = (n.parse().unwrap(), duplicate == "1");
        if is_copy {
            fates.duplicated.push(n);
        } else {
            fates.arrived += 1;
        }
        if fate == "loss" {
            fates.lost.push(n);
        }
        if corrupted == "1" {
            fates.corrupted.push((n, is_copy));
        }
    }
    fates.in_order()
}
