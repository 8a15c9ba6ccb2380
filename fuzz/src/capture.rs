//! Captures: pcap and pcapng files with any bytes, and their analysis.

use std::io::Cursor;

use rdt_lab::trace::{Limit, View, analyse, fields, remarks, scenes, timeline};

/// Returns a pcapng file whose interfaces have all kinds of links, with packets in tunnels and
/// fragments: the seed from which random changes reach these headers.
pub fn tunnels() -> Vec<u8> {
    const LINKS: [u16; 16] = [1, 0, 9, 50, 51, 100, 101, 104, 105, 107, 113, 117, 127, 192, 239, 276];
    let tcp = [&[0x9C, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0][..], &[7; 12]];
    let segment = ip(6, 0, &tcp.concat());
    let frame = [&[2; 12][..], &[8, 0], &segment].concat();
    let udp = |port: u16, header: &[u8], inner: &[u8]| {
        let ports = [&[0x13, 0x88][..], &port.to_be_bytes(), &[0, 60, 0, 0]].concat();
        ip(17, 0, &[&ports, header, inner].concat())
    };
    let payloads = [
        segment.clone(),
        udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0], &frame),
        udp(6081, &[1, 0, 0x65, 0x58, 0, 0, 1, 0, 0, 0, 0, 0], &frame),
        udp(2152, &[0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0], &segment),
        udp(1701, &[0x42, 2, 0, 0, 0, 1, 0, 1, 0, 0, 0xFF, 3, 0, 0x21], &segment),
        ip(47, 0, &[&[0xB0, 0, 0x22, 0xEB, 0, 0, 0, 0][..], &[2; 20], &frame].concat()),
        ip(4, 0, &segment),
        ip(6, 0x2000, &tcp[0][..16]),
        ip(6, 2, &[tcp[0][16..].to_vec(), tcp[1].to_vec()].concat()),
    ];
    let mut out =
        block(0x0A0D_0D0A, &[&0x1A2B_3C4D_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xFF; 8]].concat());
    for link in LINKS {
        out.extend(block(1, &[&link.to_le_bytes()[..], &[0; 6]].concat()));
    }
    for (n, payload) in (0_u32..).zip(&payloads) {
        let interface = n % u32::try_from(LINKS.len()).expect("few links");
        let length = u32::try_from(payload.len()).expect("a short packet");
        // Raw IP, and Ethernet.
        for (interface, before) in [(6, &[][..]), (0, &frame[..14]), (interface, &[][..])] {
            let length = length + u32::try_from(before.len()).expect("a short header");
            let words = [interface, 0, n, length, length].map(u32::to_le_bytes).concat();
            out.extend(block(6, &[&words, before, &payload[..]].concat()));
        }
    }
    out
}

fn ip(protocol: u8, place: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).expect("a short packet").to_be_bytes();
    let [high, low] = place.to_be_bytes();
    let header =
        [0x45, 0, length[0], length[1], 0, 9, high, low, 64, protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    [&header[..], payload].concat()
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(12 + body.len().next_multiple_of(4)).expect("a short block").to_le_bytes();
    let mut out = [&kind.to_le_bytes()[..], &length, body].concat();
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(length);
    out
}

pub fn run(data: &[u8]) {
    let Ok(trace) = analyse(Cursor::new(data.to_vec()), None) else { return };
    assert!(trace.connections.len() as u64 + trace.hidden <= trace.extent.packets);
    for remark in remarks(&trace, "file") {
        assert!(remark.len() < 1000, "{remark}");
    }
    for connection in &trace.connections {
        for field in fields(connection) {
            let numbers = [field.number(0), field.number(1)];
            assert!(
                numbers.into_iter().flatten().all(|number| number.is_finite() && number >= 0.0),
                "{field:?}"
            );
        }
        for sender in [0, 1] {
            let it = &connection.directions[sender];
            assert!(it.unique_bytes <= it.data_bytes, "unique bytes are some of all");
            let timeline = timeline(connection, sender);
            let whole: f64 = Limit::ALL.iter().map(|limit| timeline.share(*limit)).sum();
            assert!(whole == 0.0 || (whole - 1.0).abs() < 1e-6, "shares sum to {whole}");
            let _ = scenes(&View { connection, sender, id: "f", between: (0.0, 1.0) });
        }
    }
}
