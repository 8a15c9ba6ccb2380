//! On the same path with the same seed, `run`, `proxy` and virtual time treat each packet alike.
//!
//! A capture has each packet that entered the path and each that departed, with contents and a
//! timestamp in nanoseconds. A path in virtual time receives the entering packets at these times.
//! It must deliver the packets that departed: in the same order, and with the same bits flipped.
//! Its drops must have the causes recorded in the capture.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path as File;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use rdt_emulator::spec::{PathSpec, Scope};
use rdt_emulator::{Direction, Packet, Path};
use rdt_udp::clock;

use super::helpers::{NUMBERED, program, send_numbers};
use super::running::{PROGRAM, code, host_allows, run_with};

/// Path of all three modes. Packets are sent in bursts, so that some queue for the rate and some
/// are dropped.
const PATH: [(&str, &str); 9] = [
    ("rtt", "2ms"),
    ("rate", "16mbit"),
    ("queue", "8p"),
    ("jitter", "300us unordered"),
    ("reorder", "1% by 2ms"),
    ("loss", "3%/2%"),
    ("duplicate", "1%"),
    ("corrupt", "1%"),
    ("seed", "20"),
];
/// IP and UDP headers in a capture of the proxy, bytes.
const HEADERS: usize = 28;
/// Packets per burst in each attempt, with one burst per millisecond. An attempt fails if a packet
/// does not reach the path.
const BURSTS: [u32; 4] = [15, 12, 12, 12];
const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// Sends the numbered packets in bursts of `RDT_BURST`.
#[test]
#[ignore = "a program for other tests"]
fn send_bursts() {
    let peer: std::net::Ipv4Addr = std::env::var("RDT_PEER").unwrap().parse().unwrap();
    let burst = std::env::var("RDT_BURST").unwrap().parse().unwrap();
    send_numbers(&UdpSocket::bind("0.0.0.0:0").unwrap(), (peer, 9), burst);
    // Wait, because packets on the path at the end of this program are not delivered.
    sleep(Duration::from_millis(500));
}

#[test]
#[ignore = "a program for other tests"]
fn send_back() {
    echo(&UdpSocket::bind((std::env::var("RDT_LOCAL").unwrap(), 9)).unwrap());
}

/// Echoes until two reads in a row time out: the whole host may have been paused during one.
fn echo(socket: &UdpSocket) {
    let mut bytes = [0; 1500];
    let mut waited = 0;
    while waited < 2 {
        waited += 1;
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..len], from);
            waited = 0;
        }
    }
}

#[test]
fn namespace_matches_model_in_virtual_time() {
    if !host_allows() {
        return;
    }
    until_all_came(|burst, file| {
        let options: Vec<_> = PATH.iter().map(|(key, value)| format!("--{key}={value}")).collect();
        let server = format!("--server=exec {}", program("agreement::send_back").join(" "));
        let mut arguments: Vec<_> = options.iter().map(String::as_str).collect();
        arguments.extend(["-q", "--force", &server, "--pcapng", file.to_str().unwrap()]);
        let mut command = vec!["env".to_owned(), format!("RDT_BURST={burst}")];
        command.extend(program("agreement::send_bursts"));
        let output = run_with(&arguments, &command.iter().map(String::as_str).collect::<Vec<_>>()).output();
        assert_eq!(code(&output), 0, "{output:?}");
        0
    });
}

/// Proxy and virtual time agree, as `run` and virtual time do in the test above.
#[test]
fn proxy_matches_model_in_virtual_time() {
    until_all_came(|burst, file| {
        let [target, client] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut proxy = Command::new(PROGRAM)
            .args(["proxy", "127.0.0.1:0", &target.local_addr().unwrap().to_string(), "-q", "--force"])
            .args(PATH.iter().map(|(key, value)| format!("--{key}={value}")))
            .arg("--pcapng")
            .arg(file)
            .env("XDG_STATE_HOME", "/there/is/none")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(proxy.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let listen = line.strip_prefix("rdt-emu: ").and_then(|line| line.split(' ').next()).unwrap();
        target.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let echoing = thread::spawn(move || echo(&target));
        send_numbers(&client, listen, burst);
        // At its end, the proxy reads what has arrived, but does not deliver the packets on the
        // path.
        echoing.join().unwrap();
        kill(Pid::from_raw(i32::try_from(proxy.id()).unwrap()), Signal::SIGTERM).unwrap();
        assert_eq!(proxy.wait().unwrap().code(), Some(0));
        HEADERS
    });
}

/// Repeats until an attempt in which every packet sent reached the path: a busy host may lose some
/// before it. Packets that reached the path must match the model in every attempt. `run` makes an
/// attempt, and returns the header bytes in the capture that the model does not have.
fn until_all_came(run: impl Fn(u32, &File) -> usize) {
    let came: Vec<_> = BURSTS
        .into_iter()
        .map(|burst| {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("capture");
            let headers = run(burst, &file);
            assert_as_modelled(&Capture::read(&file, headers), headers)
        })
        .take_while(|came| *came < NUMBERED as usize)
        .collect();
    assert!(came.len() < BURSTS.len(), "of {NUMBERED} packets came {came:?}");
}

struct Arrival {
    direction: Direction,
    /// Timestamp, ns since 1970.
    at: u64,
    bytes: Vec<u8>,
    /// Cause of the packet's drop; `None` if it was not dropped.
    dropped: Option<String>,
}

#[derive(Default)]
struct Capture {
    arrivals: Vec<Arrival>,
    /// Packets that departed, by direction: bytes, whether a duplicate, whether a bit was flipped.
    left: [Vec<(Vec<u8>, bool, bool)>; 2],
    /// Timestamp of the last packet that entered or departed, ns since 1970.
    end: u64,
}

impl Capture {
    fn read(file: &File, headers: usize) -> Self {
        let bytes = fs::read(file).unwrap();
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut capture = Self::default();
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
            let said = |text: &str| comments.contains(&text);
            // Bits 0 and 1 of `epb_flags`: 1 is into the link, 2 is out of the link.
            let is_arrival = packet.options.iter().any(|option| match option {
                EnhancedPacketOption::Flags(flags) => flags & 3 == 1,
                _ => false,
            });
            let bytes = packet.data[headers..].to_vec();
            let at = u64::try_from(packet.timestamp.as_nanos()).unwrap();
            capture.end = capture.end.max(at);
            let dropped = comments.iter().find_map(|text| text.strip_prefix("dropped: "));
            let late = comments.iter().any(|text| text.contains("dropped") && !text.starts_with("dropped: "));
            if late {
                continue;
            }
            if is_arrival {
                let direction = DIRECTIONS[packet.interface_id as usize];
                capture.arrivals.push(Arrival { direction, at, bytes, dropped: dropped.map(str::to_owned) });
            } else {
                let direction = 1 - packet.interface_id as usize;
                capture.left[direction].push((bytes, said("second copy"), said("bit flipped")));
            }
        }
        capture
    }
}

fn path(headers: usize) -> Path {
    let mut described = PathSpec::default();
    for (key, value) in PATH {
        described.set(Scope::Both, key, value).unwrap();
    }
    described.assume_headers(headers.try_into().unwrap());
    let config = described.to_path_config(|_| unreachable!()).unwrap();
    Path::new(config, described.seed().unwrap())
}

/// Compares a capture with the model. Returns the number of packets that entered in forward
/// direction.
fn assert_as_modelled(capture: &Capture, headers: usize) -> usize {
    let mut path = path(headers);
    let (begin, first) = (clock::now(), capture.arrivals.first().map_or(0, |arrival| arrival.at));
    let time = |at: u64| begin + Duration::from_nanos(at - first);
    let mut came = [0, 0];
    let mut dropped = [0, 0];
    for Arrival { direction, at, bytes, dropped: why } in &capture.arrivals {
        let n = came[*direction as usize];
        came[*direction as usize] += 1;
        let result = path.push(*direction, time(*at), Packet::from(bytes.clone()));
        let cause = result.err().map(|dropped| dropped.cause.to_string());
        assert_eq!(cause, *why, "{direction:?} packet {n}");
        dropped[*direction as usize] += usize::from(cause.is_some());
    }
    for direction in DIRECTIONS {
        let left = capture.left[direction as usize].clone();
        if headers > 0 {
            assert_all_left(&mut path, direction, left);
        } else {
            assert_left(&mut path, direction, &left, time(capture.end));
        }
        let ledger = path.link_mut(direction).ledger();
        let all = [ledger.dropped_loss, ledger.duplicated, ledger.corrupted, ledger.reordered];
        assert!(all.iter().all(|count| *count > 20), "too few to tell: {ledger:?}");
    }
    assert!(path.forward.ledger().dropped_queue > 20, "{:?}", path.forward.ledger());
    came[0]
}

/// Compares the model's deliveries with the packets that departed, in any order. Timestamps of a
/// proxy are the kernel's arrival times: if the proxy reads a packet late, a packet that is due
/// later may depart first.
fn assert_all_left(path: &mut Path, direction: Direction, mut left: Vec<(Vec<u8>, bool, bool)>) {
    let end = clock::now() + Duration::from_secs(3600);
    let delivered = std::iter::from_fn(|| path.pop(direction, end));
    let mut expected: Vec<_> = delivered.map(|it| (it.packet, it.is_copy, it.is_corrupted)).collect();
    for packets in [&mut left, &mut expected] {
        packets.sort_unstable();
    }
    assert_eq!(left.len(), expected.len(), "{direction:?}");
    let different = left.iter().zip(&expected).find(|(left, expected)| left != expected);
    assert_eq!(different, None, "{direction:?}");
}

/// Compares the model's deliveries with the packets that departed, in order. Packets on the path at
/// the end of the run may be missing.
fn assert_left(path: &mut Path, direction: Direction, left: &[(Vec<u8>, bool, bool)], end: Instant) {
    let mut number = 0;
    while let Some(delivery) = path.pop(direction, end + Duration::from_secs(60)) {
        let Some(seen) = left.get(number) else {
            assert!(delivery.due + Duration::from_millis(100) > end, "{direction:?}: {number} is missing");
            return;
        };
        let expected = (delivery.packet, delivery.is_copy, delivery.is_corrupted);
        assert_eq!(*seen, expected, "{direction:?}: {number}");
        number += 1;
    }
    assert_eq!(number, left.len(), "{direction:?}");
}

#[expect(clippy::disallowed_methods, reason = "the relay is another process")]
fn sleep(time: Duration) {
    thread::sleep(time);
}
