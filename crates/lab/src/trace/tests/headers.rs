//! Link types, tunnels and fragments: the same segments inside have the same figures.

use super::*;

const ETHERNET: u32 = 1;

fn ethernet(kind: u16) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes()].concat()
}

/// Puts an outer IPv4 header of this protocol before a payload.
fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).expect("a short packet").to_be_bytes();
    let header = [0x45, 0, length[0], length[1], 0, 9, 0, 0, 64, protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    [&header[..], payload].concat()
}

fn outer_ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("a short packet").to_be_bytes();
    [&[0x60, 0, 0, 0, length[0], length[1], protocol, 64][..], &[0xFD; 32], payload].concat()
}

fn udp(port: u16, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + header.len() + payload.len()).expect("a short packet");
    let ports = [&5000_u16.to_be_bytes()[..], &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0]].concat();
    outer(17, &[&ports, header, payload].concat())
}

fn transfer() -> TestTransfer {
    let mut transfer = TestTransfer::new();
    transfer.data(60, 0).ack(110, 1);
    transfer
}

/// Asserts that the figures of a transfer are those of its packets wrapped by a function.
#[track_caller]
fn equal(name: &str, link: u32, wrap: impl Fn(&[u8]) -> Vec<u8>) {
    for ip in [TestPacket::ipv4, TestPacket::ipv6] {
        let packets: Vec<(u64, Vec<u8>)> =
            transfer().packets.iter().map(|it| (it.at_ms, wrap(&ip(it)))).collect();
        let trace = read_bytes(pcap(link, &packets, usize::MAX));
        let [connection] = &trace.connections[..] else {
            panic!("{name}: {} connections, {:?}", trace.connections.len(), remarks(&trace, name));
        };
        let [a, b] = &connection.directions;
        assert_eq!((a.unique_bytes, a.packets, b.packets, a.sequence.rtt.count), (1000, 3, 2, 2), "{name}");
        let wire: u64 = packets.iter().map(|(_, packet)| packet.len() as u64).sum();
        assert_eq!(a.frame_bytes + b.frame_bytes, wire, "{name}");
        // All prefixes are read without a panic.
        for snap in (0..60).step_by(7) {
            let _ = read_bytes(pcap(link, &packets[..2], snap));
        }
    }
}

/// Ethernet type of the version of an IP packet.
fn kind(ip: &[u8]) -> u16 {
    if ip[0] >> 4 == 4 { 0x0800 } else { 0x86DD }
}

fn frame(ip: &[u8]) -> Vec<u8> {
    [&ethernet(kind(ip)), ip].concat()
}

#[test]
fn headers_of_ethernet_are_skipped() {
    let typed = |before: &[u8], ip: &[u8]| [before, &kind(ip).to_be_bytes(), ip].concat();
    let tag = |kind: u16| [&ethernet(kind)[..], &[0, 7]].concat();
    equal("802.1Q", ETHERNET, |ip| typed(&tag(0x8100), ip));
    equal("QinQ", ETHERNET, |ip| typed(&[tag(0x88A8), vec![0x81, 0, 0, 8]].concat(), ip));
    equal("older QinQ", ETHERNET, |ip| {
        typed(&[tag(0x9100), vec![0x81, 0, 0, 8, 0x81, 0, 0, 9, 0x81, 0, 0, 1]].concat(), ip)
    });
    equal("SNAP", ETHERNET, |ip| typed(&[ethernet(1400), vec![0xAA, 0xAA, 3, 0, 0, 0]].concat(), ip));
    equal("LLC", ETHERNET, |ip| [&ethernet(1400)[..], &[6, 6, 3], ip].concat());
    let ppp = |ip: &[u8]| if kind(ip) == 0x0800 { 0x21 } else { 0x57 };
    equal("PPPoE", ETHERNET, |ip| [&ethernet(0x8864)[..], &[0x11, 0, 0, 1, 0, 0, 0, ppp(ip)], ip].concat());
    let labels = [0, 1, 0, 64, 0, 1, 1, 64];
    equal("MPLS", ETHERNET, |ip| [&ethernet(0x8847)[..], &labels, ip].concat());
    equal("MPLS, Ethernet", ETHERNET, |ip| [&ethernet(0x8847)[..], &labels, &frame(ip)].concat());
    equal("MPLS, control word", ETHERNET, |ip| {
        [&ethernet(0x8847)[..], &labels, &[0; 4], &frame(ip)].concat()
    });
    equal("802.1ah", ETHERNET, |ip| [&ethernet(0x88E7)[..], &[0; 4], &frame(ip)].concat());
    equal("FabricPath", ETHERNET, |ip| [&ethernet(0x8903)[..], &[0; 2], &frame(ip)].concat());
    equal("MACsec", ETHERNET, |ip| typed(&[&ethernet(0x88E5)[..], &[0x20; 14]].concat(), ip));
    equal("NSH", ETHERNET, |ip| [&ethernet(0x894F)[..], &[0, 2, 1, 3, 0, 0, 1, 2], &frame(ip)].concat());
}

#[test]
fn link_types_are_read() {
    let ppp = |ip: &[u8]| if kind(ip) == 0x0800 { 0x21 } else { 0x57 };
    let typed = |before: &[u8], ip: &[u8]| [before, &kind(ip).to_be_bytes(), ip].concat();
    for link in [12, 14, 101, 228, 229] {
        equal("raw IP", link, <[u8]>::to_vec);
    }
    equal("NULL", 0, |ip| [&[2, 0, 0, 0][..], ip].concat());
    equal("LOOP", 108, |ip| [&[0, 0, 0, 24][..], ip].concat());
    equal("SLL", 113, |ip| typed(&[0; 14], ip));
    equal("SLL, VLAN", 113, |ip| typed(&[&[0; 14][..], &[0x81, 0, 0, 7]].concat(), ip));
    equal("SLL2", 276, |ip| [&kind(ip).to_be_bytes()[..], &[0; 18], ip].concat());
    equal("PPP", 9, |ip| [&[0xFF, 3, 0, ppp(ip)][..], ip].concat());
    equal("PPP without HDLC", 9, |ip| [&[0, ppp(ip)][..], ip].concat());
    equal("PPP, compressed", 50, |ip| [&[ppp(ip)][..], ip].concat());
    equal("PPP over Ethernet", 51, |ip| [&[0x11, 0, 0, 1, 0, 0, 0, ppp(ip)][..], ip].concat());
    equal("PPP of pppd", 166, |ip| [&[1, 3, 0, ppp(ip)][..], ip].concat());
    equal("PPP with direction", 204, |ip| [&[1, 0xFF, 3, 0, ppp(ip)][..], ip].concat());
    equal("Cisco HDLC", 104, |ip| typed(&[0x0F, 0], ip));
    equal("frame relay", 107, |ip| {
        let id = if kind(ip) == 0x0800 { 0xCC } else { 0x8E };
        [&[0x18, 0x41, 3, id][..], ip].concat()
    });
    equal("Cisco frame relay", 107, |ip| typed(&[0x18, 0x41], ip));
    let fields = [10, 0, 1, 0, 1, 2, 3, 4, 5, 6, 0, 0];
    equal("NFLOG", 239, |ip| {
        let length = u16::try_from(4 + ip.len()).expect("a short packet");
        [&[2, 0, 0, 0][..], &fields, &length.to_le_bytes(), &[9, 0], ip].concat()
    });
    equal("NFLOG of a big-endian host", 239, |ip| {
        let length = u16::try_from(4 + ip.len()).expect("a short packet");
        [&[2, 0, 0, 0, 0, 5, 0, 10, 0, 0, 0, 0][..], &length.to_be_bytes(), &[0, 9], ip].concat()
    });
    let llc = |header: &[u8], ip: &[u8]| typed(&[header, &[0xAA, 0xAA, 3, 0, 0, 0]].concat(), ip);
    equal("802.11", 105, |ip| llc(&[&[0x88, 1][..], &[0; 24]].concat(), ip));
    equal("radiotap", 127, |ip| llc(&[&[0, 0, 9, 0][..], &[0; 5], &[8, 1], &[0; 22]].concat(), ip));
    equal("PPI", 192, |ip| [&[0, 0, 8, 0, 1, 0, 0, 0][..], &frame(ip)].concat());
    equal("ATM", 100, |ip| llc(&[], ip));
    equal("FDDI", 10, |ip| llc(&[0; 13], ip));
    equal("token ring", 6, |ip| llc(&[&[0; 8][..], &[0x80, 0, 0, 0, 0, 0, 2, 0]].concat(), ip));
    equal("PF log", 117, |ip| [&[61][..], &[0; 63], ip].concat());
}

#[test]
fn tunnels_are_read() {
    let ethernet = |ip: &[u8]| frame(ip);
    let kind = |ip: &[u8]| kind(ip).to_be_bytes();
    let tunnel = |name: &str, wrap: &dyn Fn(&[u8]) -> Vec<u8>| equal(name, RAW, wrap);
    tunnel("IP in IP", &|ip| outer(if ip[0] >> 4 == 4 { 4 } else { 41 }, ip));
    tunnel("IP in IPv6", &|ip| outer_ipv6(if ip[0] >> 4 == 4 { 4 } else { 41 }, ip));
    tunnel("GRE", &|ip| outer(47, &[&[0, 0][..], &kind(ip), ip].concat()));
    tunnel("GRE with all fields", &|ip| outer(47, &[&[0xB0, 0][..], &kind(ip), &[0; 12], ip].concat()));
    tunnel("PPTP", &|ip| {
        let ppp = if ip[0] >> 4 == 4 { 0x21 } else { 0x57 };
        outer(47, &[&[0x30, 0x81, 0x88, 0x0B][..], &[0; 12], &[0xFF, 3, 0, ppp], ip].concat())
    });
    tunnel("NVGRE", &|ip| outer(47, &[&[0x20, 0, 0x65, 0x58, 0, 0, 1, 0][..], &ethernet(ip)].concat()));
    tunnel("ERSPAN I", &|ip| outer(47, &[&[0, 0, 0x88, 0xBE][..], &ethernet(ip)].concat()));
    tunnel("ERSPAN II", &|ip| {
        outer(47, &[&[0x10, 0, 0x88, 0xBE, 0, 0, 0, 1][..], &[0x10; 8], &ethernet(ip)].concat())
    });
    for (flag, platform) in [(0, 0), (1, 8)] {
        tunnel("ERSPAN III", &|ip| {
            let header = [&[0x10, 0, 0x22, 0xEB, 0, 0, 0, 1][..], &[0x20; 11], &[flag]].concat();
            outer(47, &[header, vec![0; platform], ethernet(ip)].concat())
        });
    }
    tunnel("EtherIP", &|ip| outer(97, &[&[0x30, 0][..], &ethernet(ip)].concat()));
    tunnel("MPLS in IP", &|ip| outer(137, &[&[0, 1, 1, 64][..], ip].concat()));
    for port in [4789, 8472] {
        tunnel("VXLAN", &|ip| udp(port, &[8, 0, 0, 0, 0, 0, 1, 0], &ethernet(ip)));
    }
    tunnel("VXLAN-GPE", &|ip| udp(4790, &[0x0C, 0, 0, 1, 0, 0, 1, 0], ip));
    tunnel("GENEVE", &|ip| udp(6081, &[0, 0, 0x65, 0x58, 0, 0, 1, 0], &ethernet(ip)));
    tunnel("GENEVE with options", &|ip| udp(6081, &[&[2, 0][..], &kind(ip), &[0; 12]].concat(), ip));
    tunnel("GTP-U", &|ip| udp(2152, &[0x30, 255, 0, 0, 0, 0, 0, 1], ip));
    tunnel("GTP-U with extensions", &|ip| {
        udp(2152, &[0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0x85, 1, 0, 9, 0], ip)
    });
    tunnel("L2TP", &|ip| {
        let ppp = if ip[0] >> 4 == 4 { 0x21 } else { 0x57 };
        udp(1701, &[0x40, 2, 0, 0, 0, 1, 0, 1, 0xFF, 3, 0, ppp], ip)
    });
    tunnel("MPLS in UDP", &|ip| udp(6635, &[0, 1, 1, 64], ip));
    tunnel("GRE in UDP", &|ip| udp(4754, &[&[0, 0][..], &kind(ip)].concat(), ip));
    tunnel("VXLAN in VLAN in GRE", &|ip| {
        let inner = udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0], &ethernet(ip));
        let tagged = [&self::ethernet(0x8100)[..], &[0, 7, 8, 0], &inner].concat();
        outer(47, &[&[0, 0, 0x65, 0x58][..], &tagged].concat())
    });
    let teredo = |ip: &TestPacket| udp(3544, &[0, 0, 1, 2, 3, 4, 5, 6], &ip.ipv6());
    let packets: Vec<_> = transfer().packets.iter().map(|it| (it.at_ms, teredo(it))).collect();
    assert_eq!(read_bytes(pcap(RAW, &packets, usize::MAX)).connections.len(), 1, "Teredo");
}

#[test]
fn packets_without_tcp_are_named() {
    let packets: Vec<(u64, Vec<u8>)> = [
        [&ethernet(0x0806)[..], &[0; 28]].concat(),
        [&ethernet(0x0800)[..], &outer(1, &[0; 8])].concat(),
        [&ethernet(0x0800)[..], &outer(17, &[0; 8])].concat(),
        [&ethernet(0x0800)[..], &outer(17, &[0; 8])].concat(),
        [&ethernet(0x0800)[..], &outer(50, &[0; 8])].concat(),
        [&ethernet(0x0800)[..], &udp(51820, &[4, 0, 0, 0], &[0; 28])].concat(),
        [&ethernet(0x88E5)[..], &[0x0C; 30]].concat(),
        [&ethernet(38)[..], &[0x42; 30]].concat(),
    ]
    .into_iter()
    .map(|packet| (0, packet))
    .collect();
    let sentence = &remarks(&read_bytes(pcap(ETHERNET, &packets, usize::MAX)), "file.pcap")[0];
    let names = "2 UDP, 1 ARP, 1 MACsec, which is encrypted, 1 spanning tree, 1 ICMP, \
                 1 ESP, which is encrypted, 1 other kinds";
    assert_eq!(sentence, &format!("8 packets are not TCP, or not readable: {names}"));
}

/// Cuts the payload of an IPv4 packet into fragments of this many bytes.
fn fragments(packet: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = (packet.len() - 20).div_ceil(size);
    let pieces = packet[20..].chunks(size).enumerate();
    let piece = |(n, piece): (usize, &[u8])| {
        let mut out = [&packet[..20], piece].concat();
        let length = u16::try_from(out.len()).expect("a short packet").to_be_bytes();
        let more = if n + 1 < count { 0x2000 } else { 0 };
        let place = (more | u16::try_from(n * size / 8).expect("an offset")).to_be_bytes();
        out[2..4].copy_from_slice(&length);
        out[6..8].copy_from_slice(&place);
        out
    };
    pieces.map(piece).collect()
}

/// Cuts the payload of an IPv6 packet into two fragments.
fn fragments_of_ipv6(packet: &[u8]) -> Vec<Vec<u8>> {
    let (first, second) = packet[40..].split_at(16);
    let fragment = |place: [u8; 2], piece: &[u8]| {
        let mut out = [&packet[..40], &[6, 0, place[0], place[1], 0, 1, 2, packet[47]], piece].concat();
        let length = u16::try_from(8 + piece.len()).expect("a short packet").to_be_bytes();
        out[4..6].copy_from_slice(&length);
        out[6] = 44;
        out
    };
    vec![fragment([0, 1], first), fragment([0, 16], second)]
}

#[test]
fn fragments_are_put_together() {
    let whole: Vec<_> = transfer().packets;
    let cut = |cut: &dyn Fn(&TestPacket) -> Vec<Vec<u8>>| -> Vec<(u64, Vec<u8>)> {
        whole.iter().flat_map(|it| cut(it).into_iter().map(|packet| (it.at_ms, packet))).collect()
    };
    let forward = cut(&|it| fragments(&it.ipv4(), 8));
    let backward = cut(&|it| fragments(&it.ipv4(), 400).into_iter().rev().collect());
    let mut numbered = 0;
    let ipv6: Vec<(u64, Vec<u8>)> = whole
        .iter()
        .flat_map(|it| fragments_of_ipv6(&it.ipv6()).into_iter().map(|packet| (it.at_ms, packet)))
        .map(|(at_ms, mut packet)| {
            // Both fragments of a packet have its identification.
            packet[47] = numbered / 2;
            numbered += 1;
            (at_ms, packet)
        })
        .collect();
    let tunnel = cut(&|it| fragments(&udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0], &frame(&it.ipv4())), 64));
    for (name, packets) in [("forward", forward), ("backward", backward), ("IPv6", ipv6), ("VXLAN", tunnel)] {
        let trace = read_bytes(pcap(RAW, &packets, usize::MAX));
        let [connection] = &trace.connections[..] else {
            panic!("{name}: {:?}", remarks(&trace, name));
        };
        let [a, b] = &connection.directions;
        assert_eq!((a.unique_bytes, a.packets, b.packets), (1000, 3, 2), "{name}");
        let wire: u64 = packets.iter().map(|(_, packet)| packet.len() as u64).sum();
        assert_eq!(a.frame_bytes + b.frame_bytes, wire, "{name}");
        assert_eq!(trace.fragments, 0, "{name}");
    }
}

#[test]
fn truncated_fragments_keep_their_length() {
    let packets: Vec<_> = transfer()
        .packets
        .iter()
        .flat_map(|it| fragments(&it.ipv4(), 400).into_iter().map(|packet| (it.at_ms, packet)))
        .collect();
    let trace = read_bytes(pcap(RAW, &packets, 80));
    let a = &trace.connections[0].directions[0];
    assert_eq!((a.unique_bytes, a.truncated_bytes), (1000, 960));
}

#[test]
fn waiting_fragments_are_bounded() {
    let first = fragments(&transfer().packets[3].ipv4(), 400)[0].clone();
    let packets: Vec<(u64, Vec<u8>)> = (0..2000_u16)
        .map(|id| {
            let mut packet = first.clone();
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            (0, packet)
        })
        .collect();
    let trace = read_bytes(pcap(RAW, &packets, usize::MAX));
    assert_eq!((trace.fragments, trace.connections.len()), (2000, 0));
    let sentence = "2000 IP fragments are left out, because the rest of their packets is missing";
    assert_eq!(remarks(&trace, "file.pcap"), [sentence]);
}
