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
    let radiotap = read_bytes(pcap(127, &packets, usize::MAX));
    assert_eq!((radiotap.unknown_links, radiotap.others, radiotap.connections.len()), (3, 0, 0));
    let names: Vec<String> = (0..1025).map(|n| format!("eth{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let described = |interface| (interface, 0, packets[0].1.clone(), "");
    let mut bytes = pcapng(&names, &[described(1023), described(1024), described(2000)]);
    bytes.extend(block(3, &[0; 4]));
    let trace = read_bytes(bytes);
    let extent = &trace.extent;
    assert_eq!((extent.interfaces.len(), extent.packets, extent.unplaced), (1024, 4, 3));
    assert_eq!(trace.connections.len(), 1);
    let sentence = "3 packets have no time or no interface, so they are left out";
    assert_eq!(remarks(&trace, "file.pcapng"), [sentence]);
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
    assert_eq!((connection.interface, a.packets, a.retransmitted), (0, 5, 1));
    assert_eq!(a.dropped, 2, "the packet, and the copy of another");
    let far = analyse(Cursor::new(bytes), Some(1)).expect("a capture");
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
    for no_capture in [&b""[..], b"GET / HTTP/1.1", &[0; 4]] {
        assert_eq!(error(no_capture), CaptureError::Format);
    }
}
