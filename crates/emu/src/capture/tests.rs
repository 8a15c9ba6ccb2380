//! Captures, read back by an independent pcapng reader.

use std::fs;
use std::io::Cursor;
use std::net::SocketAddr;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use rdt_emulator::{DropCause, Dropped, Ecn};

use super::frame::Datagrams;
use super::*;

#[derive(Debug, PartialEq, Eq)]
struct Read {
    interface: u32,
    bytes: Vec<u8>,
    comments: Vec<String>,
}

/// Returns the packets, and the names and descriptions of the interfaces.
fn read(path: &Path) -> (Vec<Read>, Vec<String>) {
    let mut reader = PcapNgReader::new(Cursor::new(fs::read(path).unwrap())).unwrap();
    let (mut packets, mut names) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                assert_eq!(u32::from(interface.linktype), 101);
                for option in interface.options {
                    match option {
                        InterfaceDescriptionOption::IfName(text)
                        | InterfaceDescriptionOption::IfDescription(text) => names.push(text.into_owned()),
                        InterfaceDescriptionOption::IfTsResol(resolution) => assert_eq!(resolution, 9),
                        _ => {}
                    }
                }
            }
            Block::EnhancedPacket(packet) => {
                assert_eq!(packet.original_len as usize, packet.data.len());
                let comments = packet.options.iter().filter_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => Some(text.clone().into_owned()),
                    _ => None,
                });
                let comments = comments.collect();
                packets.push(Read {
                    interface: packet.interface_id,
                    bytes: packet.data.into_owned(),
                    comments,
                });
            }
            other => panic!("{other:?}"),
        }
    }
    (packets, names)
}

/// Frame format that writes packets unchanged, and reports CE as set by the link.
struct AsTheyAre;

impl Frame for AsTheyAre {
    fn write(&self, packet: Carried<'_>, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(packet.bytes);
        packet.ecn == Ecn::Ce
    }
}

fn capture_to(path: &Path) -> Capture<AsTheyAre> {
    Capture::start((path, File::create(path).unwrap()), AsTheyAre, None, "seed 7", &[])
}

fn delivery(packet: Vec<u8>) -> Delivery {
    let due = clock::now();
    Delivery { due, packet, tag: 0, ecn: Ecn::NotEct, is_copy: false, is_corrupted: false }
}

#[test]
fn passed_packets_appear_twice_drops_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut capture = capture_to(&path);
    let now = clock::now();
    // Lengths that need each amount of padding, 0 to 3 bytes.
    for len in 1..=4 {
        capture.on(&Event::Arrival(Direction::Forward, now, &vec![1; len].into()));
        capture.on(&Event::Delivery(Direction::Forward, now, &delivery(vec![1; len])));
    }
    capture.on(&Event::Arrival(Direction::Reverse, now, &vec![2; 5].into()));
    let dropped = Dropped { cause: DropCause::QueueFull, packet: vec![2; 5] };
    capture.on(&Event::Drop(&dropped));
    let late = LateDrop { at: now, cause: DropCause::Aqm, packet: vec![3].into(), is_copy: false };
    capture.on(&Event::LateDrop(Direction::Reverse, &late));
    let changed = Delivery { is_copy: true, is_corrupted: true, ecn: Ecn::Ce, ..delivery(vec![4]) };
    capture.on(&Event::Delivery(Direction::Reverse, now, &changed));
    let captured = capture.finish();
    assert!(!captured.is_incomplete() && captured.warning().is_none());
    assert_eq!(captured.packets, 11);

    let (packets, names) = read(&path);
    assert_eq!(names, ["near", "where the path begins", "far", "where the path ends"]);
    let expected = (1..=4).flat_map(|len| [(0, vec![1; len], vec![]), (1, vec![1; len], vec![])]).chain([
        (1, vec![2; 5], vec!["dropped: queue full"]),
        (1, vec![3], vec!["dropped after it had been let in: queue management"]),
        (0, vec![4], vec!["second copy", "bit flipped", "marked CE"]),
    ]);
    let expected: Vec<_> = expected
        .map(|(interface, bytes, comments)| Read {
            interface,
            bytes,
            comments: comments.into_iter().map(String::from).collect(),
        })
        .collect();
    assert_eq!(packets, expected);
}

#[test]
fn each_path_of_destinations_has_own_interfaces() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let name = |name: &str, to: Option<&str>| DestinationName {
        name: name.into(),
        to: to.map(String::from),
        seed: 1,
    };
    let destinations = [name("other", None), name("web", Some("10.1.0.1/32:443/tcp"))];
    let file = File::create(&path).unwrap();
    let mut capture = Capture::start((&path, file), AsTheyAre, None, "seed 7", &destinations);
    let now = clock::now();
    capture.on(&Event::Arrival(Direction::Forward, now, &Packet::from(vec![1]).with_tag(1)));
    capture.on(&Event::Delivery(Direction::Forward, now, &Delivery { tag: 1, ..delivery(vec![1]) }));
    capture.on(&Event::Arrival(Direction::Reverse, now, &Packet::from(vec![2]).with_tag(1)));
    let late = LateDrop {
        at: now,
        cause: DropCause::Aqm,
        packet: Packet::from(vec![2]).with_tag(1),
        is_copy: false,
    };
    capture.on(&Event::LateDrop(Direction::Reverse, &late));
    capture.on(&Event::Arrival(Direction::Forward, now, &Packet::from(vec![3])));
    capture.finish();
    let (packets, names) = read(&path);
    let expected = [
        "near:other",
        "where the path to all other destinations begins",
        "far:other",
        "where the path to all other destinations ends",
        "near:web",
        "where the path to 10.1.0.1/32:443/tcp begins",
        "far:web",
        "where the path to 10.1.0.1/32:443/tcp ends",
    ];
    assert_eq!(names, expected);
    let interfaces: Vec<_> = packets.iter().map(|packet| (packet.bytes[0], packet.interface)).collect();
    assert_eq!(interfaces, [(1, 2), (1, 3), (2, 3), (2, 3), (3, 0)]);
}

#[test]
fn limit_keeps_lengths_and_first_bytes() {
    let (mut whole, mut cut) = (Vec::new(), Vec::new());
    let about = About { interface: 0, time_ns: 0, way: Way::In };
    let write = |out: &mut Vec<u8>| out.extend(1..=9);
    block::packet(&mut whole, about, Some(9), write);
    block::packet(&mut cut, about, Some(6), write);
    // Lengths kept and sent, the bytes and their padding.
    assert_eq!(whole[20..40], [9, 0, 0, 0, 9, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0]);
    assert_eq!(cut[20..36], [6, 0, 0, 0, 9, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0]);
}

#[test]
fn unreported_late_drops_count_as_missing() {
    let directory = tempfile::tempdir().unwrap();
    let mut capture = capture_to(&directory.path().join("file"));
    capture.on(&Event::Arrival(Direction::Forward, clock::now(), &vec![0; 40].into()));
    capture.on(&Event::FreedDrops(3));
    let captured = capture.finish();
    assert_eq!((captured.packets, captured.missed), (1, 3));
    assert!(captured.is_incomplete());
}

#[test]
fn timestamps_are_wall_clock_nanoseconds() {
    let clocks = Clocks { now: clock::now(), system: Duration::from_secs(1_000_000_000) };
    let apart = Duration::from_nanos(1_234_567_891);
    assert_eq!(clocks.time_ns(clocks.now + apart), 1_000_000_001_234_567_891);
    assert_eq!(clocks.time_ns(clocks.now.checked_sub(apart).unwrap()), 999_999_998_765_432_109);
    let mut bytes = Vec::new();
    let about = About { interface: 0, time_ns: 0x0102_0304_0506_0708, way: Way::In };
    block::packet(&mut bytes, about, None, |_| ());
    assert_eq!(bytes[12..20], [4, 3, 2, 1, 8, 7, 6, 5], "the upper half comes first");
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_ends_only_the_capture() {
    let mut capture = capture_to(Path::new("/dev/full"));
    for _ in 0..200 {
        capture.on(&Event::Arrival(Direction::Forward, clock::now(), &vec![0; 1400].into()));
    }
    let captured = capture.finish();
    assert_eq!((captured.packets, captured.missed), (0, 200));
    let warning = captured.warning().unwrap();
    assert!(warning.starts_with("/dev/full: ") && warning.contains("200 are missing"), "{warning}");
}

#[test]
fn partial_block_is_detected() {
    let about = About { interface: 0, time_ns: 0, way: Way::In };
    let (mut bytes, mut ends) = (Vec::new(), vec![0]);
    block::section(&mut bytes, "", "");
    ends.push(bytes.len());
    for len in 0..3 {
        block::packet(&mut bytes, about, None, |out| out.resize(out.len() + len, 0));
        ends.push(bytes.len());
    }
    for len in 0..=bytes.len() {
        let blocks = ends.iter().filter(|end| (1..=len).contains(*end)).count();
        // The first block is the section header, not a packet.
        assert_eq!(block::whole(&bytes[..len]), (ends[blocks], blocks.saturating_sub(1) as u64));
    }
}

#[test]
fn datagram_gets_ip_and_udp_headers() {
    let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let frame = |ends: [SocketAddr; 2], bytes: &[u8]| {
        let mut out = Vec::new();
        let carried = Carried { direction: Direction::Forward, bytes, ecn: Ecn::Ect0, tag: 3 };
        let asked = move |direction, tag| {
            assert_eq!((direction, tag), (Direction::Forward, 3));
            ends
        };
        assert!(!Datagrams(asked).write(carried, &mut out));
        out
    };
    let v4 = frame([address("192.0.2.1:4660"), address("198.51.100.2:80")], b"abc");
    // Both checksums (RFC 1071) were computed by another program.
    let expected = [
        0x45, 2, 0, 31, 0, 0, 0x40, 0, 64, 17, 0x4e, 0x95, 192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x34, 0, 80,
        0, 11, 0x3c, 0xba, b'a', b'b', b'c',
    ];
    assert_eq!(v4, expected);
    let v6 = frame([address("[2001:db8::1]:4660"), address("[2001:db8::2]:80")], b"abcd");
    assert_eq!(v6[..8], [0x60, 0x20, 0, 0, 0, 12, 17, 64]);
    assert_eq!(v6[44..48], [0, 12, 0xcd, 0x16]);
    assert_eq!(v6.len(), 52);
}
