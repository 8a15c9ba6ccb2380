//! Formats, link types, truncated and torn files.

use super::super::capture::Torn;
use super::*;

#[test]
fn truncated_packets_keep_their_length() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).sack(110, 1, &[(2, 3)]);
    let packets = transfer.ipv4();
    let trace = read_bytes(pcap(RAW, &packets, 60));
    let [a, b] = &trace.connections[0].directions;
    assert_eq!((a.unique_bytes, a.truncated, a.truncated_bytes), (1000, 1, 980));
    assert_eq!((b.sacks, a.frame_bytes), (1, 60 + 40 + 1040));
    // 30 bytes are less than both headers.
    assert_eq!(read_bytes(pcap(RAW, &packets, 30)).short, 5);
}

#[test]
fn link_types_have_equal_results() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    let before = |header: &[u8], ip: fn(&TestPacket) -> Vec<u8>| -> Vec<(u64, Vec<u8>)> {
        let packet = |it: &TestPacket| (it.at_ms, [header, &ip(it)].concat());
        transfer.packets.iter().map(packet).collect()
    };
    let ethernet = |kind: &[u8]| [&[0; 12], kind].concat();
    let cooked = [vec![0; 14], vec![0x08, 0]].concat();
    let cooked_2 = [vec![0x86, 0xDD], vec![0; 18]].concat();
    for (link, packets) in [
        (1, before(&ethernet(&[0x08, 0]), TestPacket::ipv4)),
        (1, before(&ethernet(&[0x86, 0xDD]), TestPacket::ipv6)),
        (1, before(&ethernet(&[0x81, 0, 0, 7, 0x08, 0]), TestPacket::ipv4)),
        (12, before(&[], TestPacket::ipv4)),
        (101, before(&[], TestPacket::ipv6)),
        (113, before(&cooked, TestPacket::ipv4)),
        (276, before(&cooked_2, TestPacket::ipv6)),
        (0, before(&[2, 0, 0, 0], TestPacket::ipv4)),
    ] {
        let trace = read_bytes(pcap(link, &packets, usize::MAX));
        let a = &trace.connections[0].directions[0];
        assert_eq!((a.unique_bytes, a.packets, a.sequence.rtt.count), (1000, 3, 2), "link type {link}");
    }
}

#[test]
fn packets_that_cannot_be_read_are_counted() {
    let packets = TestTransfer::new().ipv4();
    let unknown = read_bytes(pcap(147, &packets, usize::MAX));
    let sentence = "3 packets are not TCP, or not readable: 3 for private use (link type 147)";
    assert_eq!(remarks(&unknown, "file.pcap"), [sentence]);
    assert_eq!(nothing(&unknown).as_deref(), Some("none of its 3 packets is of a TCP connection"));
    let names: Vec<String> = (0..1025).map(|n| format!("eth{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let described = |interface| (interface, 0, packets[0].1.clone(), "");
    let mut bytes = pcapng(&names, &[described(1023), described(1024), described(2000)]);
    let length = u32::try_from(packets[1].1.len()).expect("a length").to_le_bytes();
    bytes.extend(block(3, &[&length[..], &packets[1].1].concat()));
    let trace = read_bytes(bytes);
    let extent = &trace.extent;
    assert_eq!((extent.interfaces.len(), extent.packets, extent.unplaced), (1024, 4, 2));
    let connection = &trace.connections[0];
    assert_eq!((trace.connections.len(), &connection.interfaces), (1, &vec![1023, 0]));
    assert_eq!(connection.directions[1].last_ns, Some(0), "the time of the packet before it");
    let sentences = [
        "2 packets have no interface, so they are left out",
        "1 packets have no time, so they count at the time of the packet before them",
    ];
    assert_eq!(remarks(&trace, "file.pcapng"), sentences);
}

#[test]
fn packet_on_two_interfaces_counts_once() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1).data(120, 1).data(320, 1).ack(370, 2);
    let mut packets = Vec::new();
    for it in &transfer.packets {
        let at_ns = it.at_ms * 1_000_000;
        let is_dropped = it.at_ms == 120;
        // Interface 0 is at the end that begins, and the path takes 25 ms.
        let (near, far) =
            if it.from == 0 { (at_ns, at_ns + 25_000_000) } else { (at_ns, at_ns - 25_000_000) };
        packets.push((0, near, it.ipv4(), if is_dropped { "dropped: loss" } else { "" }));
        if !is_dropped {
            packets.push((1, far, it.ipv4(), ""));
        }
        if it.at_ms == 60 {
            packets.push((0, near, it.ipv4(), "second copy dropped: queue"));
        }
    }
    let bytes = pcapng(&["near", "far"], &packets);
    let trace = read_bytes(bytes.clone());
    assert_eq!((trace.connections.len(), trace.hidden), (1, 1));
    assert_eq!(trace.extent.interfaces, ["near", "far"]);
    let connection = &trace.connections[0];
    let a = &connection.directions[0];
    assert_eq!((&connection.interfaces[..], a.packets, a.retransmitted), (&[0][..], 5, 1));
    assert_eq!(a.dropped, 2, "the packet, and the copy of another");
    let far = analyse(Cursor::new(bytes), Some("far")).expect("a capture");
    let a = &far.connections[0].directions[0];
    assert_eq!((a.packets, a.retransmitted, a.dropped), (4, 0, 0));
}

#[test]
fn torn_file_is_read_to_its_end() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    let packets = transfer.ipv4();
    let whole = pcap(RAW, &packets, usize::MAX);
    for cut in [1, 20, 40] {
        let trace = read_bytes(whole[..whole.len() - cut].to_vec());
        assert_eq!(trace.extent.packets, 4, "{cut}");
        let torn = Some(Torn { offset: whole.len() - 56, ends: true });
        assert_eq!(trace.extent.torn, torn, "{cut}");
        let sentence = &remarks(&trace, "file.pcap")[0];
        let end = "it ends within a packet or block at byte 1288; the 4 packets before it are analysed";
        assert_eq!(sentence, &format!("file.pcap is not whole: {end}"));
    }
    assert_eq!(read_bytes(whole).extent.torn, None);
}

#[test]
fn huge_blocks_are_damage() {
    let mut bytes = pcapng(&["near"], &[]);
    let good = bytes.len();
    bytes.extend(6_u32.to_le_bytes());
    bytes.extend(0xFFFF_FFF0_u32.to_le_bytes());
    bytes.extend([0; 100]);
    let trace = read_bytes(bytes);
    assert_eq!(trace.extent.torn.map(|torn| torn.offset), Some(good));
    let error = |bytes: &[u8]| analyse(Cursor::new(bytes.to_vec()), None).expect_err("no capture");
    assert_eq!(error(b""), CaptureError::Empty);
    assert_eq!(error(&[0x28, 0xB5, 0x2F, 0xFD, 0]), CaptureError::Compressed("zstd"));
    for no_capture in [&b"G"[..], b"GET / HTTP/1.1", &[0; 4]] {
        assert_eq!(error(no_capture), CaptureError::Format);
    }
}

/// A big-endian file has the types and words of its blocks in that order.
fn big_endian(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(12 + body.len()).expect("a length").to_be_bytes();
    [&kind.to_be_bytes()[..], &length, body, &length].concat()
}

#[test]
fn obsolete_packet_blocks_are_read() {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    let mut little = pcapng(&["near"], &[]);
    let mut big =
        big_endian(0x0A0D_0D0A, &[&0x1A2B_3C4D_u32.to_be_bytes()[..], &[0, 1, 0, 0], &[0xFF; 8]].concat());
    big.extend(big_endian(1, &[0, 101, 0, 0, 0, 0, 0, 0]));
    for (at_ms, mut packet) in transfer.ipv4() {
        let length = u32::try_from(packet.len()).expect("a length");
        packet.resize(packet.len().next_multiple_of(4), 0);
        let time = u32::try_from(at_ms * 1000).expect("a time");
        // Interface 0 of 16 bits, 5 drops.
        let words = |bytes: fn(u32) -> [u8; 4]| [0, time, length, length].map(bytes).concat();
        little.extend(block(2, &[&[0, 0, 5, 0][..], &words(u32::to_le_bytes), &packet].concat()));
        big.extend(big_endian(2, &[&[0, 0, 0, 5][..], &words(u32::to_be_bytes), &packet].concat()));
    }
    for bytes in [little, big] {
        let trace = read_bytes(bytes);
        let a = &trace.connections[0].directions[0];
        assert_eq!((trace.extent.packets, a.unique_bytes, a.packets), (5, 1000, 3));
    }
}

#[test]
fn length_of_frame_check_is_no_link_type() {
    let packets = TestTransfer::new().ipv4();
    for bits in [0x1400_0000, 0x2400_0000, 0x0400_0000] {
        assert_eq!(read_bytes(pcap(RAW | bits, &packets, usize::MAX)).connections.len(), 1, "{bits:#x}");
    }
}

#[test]
fn compressed_file_is_read() {
    use std::io::Write as _;
    let whole = pcap(RAW, &TestTransfer::new().ipv4(), usize::MAX);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&whole).expect("memory");
    let bytes = gzip.finish().expect("memory");
    assert_eq!(read_bytes(bytes.clone()).extent, read_bytes(whole).extent);
    let torn = read_bytes(bytes[..bytes.len() - 4].to_vec());
    assert_eq!(torn.connections.len(), 1, "without its checksum");
}

/// A pipe returns a few bytes at a time.
#[test]
fn short_reads_change_nothing() {
    struct Slow(Cursor<Vec<u8>>);
    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let room = buffer.len().min(3);
            self.0.read(&mut buffer[..room])
        }
    }
    let packets = TestTransfer::new().ipv4();
    let placed: Vec<_> = packets.iter().map(|(at_ms, it)| (0, at_ms * 1_000_000, it.clone(), "")).collect();
    for bytes in [pcap(RAW, &packets, usize::MAX), pcapng(&["near"], &placed)] {
        let slow = analyse(Slow(Cursor::new(bytes)), None).expect("a capture");
        assert_eq!((slow.extent.packets, slow.connections.len()), (3, 1));
    }
}

#[test]
fn capture_without_packets_says_so() {
    let empty = read_bytes(pcap(RAW, &[], usize::MAX));
    assert_eq!(nothing(&empty).as_deref(), Some("it has no packets"));
    assert_eq!(nothing(&TestTransfer::new().trace()), None);
}
