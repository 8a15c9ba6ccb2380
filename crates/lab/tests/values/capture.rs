//! Captures that tests build packet by packet: TCP over IPv4 from 10.0.0.1:40000 to 10.0.0.2:80.

use std::io::Cursor;

use rdt_lab::trace::{Connection, Trace, analyse, fields};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;
/// Link types: Ethernet, and packets that begin with IP.
pub(crate) const ETHERNET: u32 = 1;
pub(crate) const RAW: u32 = 101;
/// Sequence number of both SYN.
pub(crate) const BASE: u32 = 1_000_000;

/// A packet. Sequence and acknowledgement number count from the SYN of their ends.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) at_us: u64,
    pub(crate) from: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) data: usize,
    pub(crate) options: Vec<u8>,
    pub(crate) id: u16,
}

impl Sent {
    pub(crate) fn tcp(&self, base: u32) -> Vec<u8> {
        let ports: [u16; 2] = if self.from == 0 { [40_000, 80] } else { [80, 40_000] };
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 1);
        let mut out: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        out.extend(self.seq.wrapping_add(base).to_be_bytes());
        let ack = if self.flags & ACK == 0 { 0 } else { self.ack.wrapping_add(base) };
        out.extend(ack.to_be_bytes());
        out.push(u8::try_from(5 + options.len() / 4).expect("a header") << 4);
        out.push(self.flags);
        out.extend(self.window.to_be_bytes());
        out.extend([0; 4]);
        out.extend(options);
        out.resize(out.len() + self.data, b'x');
        out
    }

    /// Returns the IPv4 packet, with some bytes of IP options.
    pub(crate) fn ipv4(&self, base: u32, ip_options: &[u8]) -> Vec<u8> {
        let tcp = self.tcp(base);
        let header = 20 + ip_options.len();
        let mut out = vec![0x40 + u8::try_from(header / 4).expect("a header"), 0];
        out.extend(u16::try_from(header + tcp.len()).expect("a short packet").to_be_bytes());
        out.extend(self.id.to_be_bytes());
        out.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1 + self.from, 10, 0, 0, 2 - self.from]);
        out.extend(ip_options);
        out.extend(tcp);
        out
    }
}

/// Packets in the order of a capture, after a handshake at 0, 40 and 40 ms.
#[derive(Debug, Clone)]
pub(crate) struct Capture {
    pub(crate) packets: Vec<Sent>,
    pub(crate) base: u32,
}

impl Capture {
    pub(crate) fn new() -> Self {
        Self::with_options(&[2, 4, 5, 180], &[2, 4, 5, 180])
    }

    /// Begins with SYN that have these options.
    pub(crate) fn with_options(mine: &[u8], peers: &[u8]) -> Self {
        let mut capture = Self { packets: Vec::new(), base: BASE };
        capture.add(0, 0, 0, 0, SYN, 0);
        capture.last().options = mine.to_vec();
        capture.add(40, 1, 0, 1, SYN | ACK, 0);
        capture.last().options = peers.to_vec();
        capture.add(40, 0, 1, 1, ACK, 0);
        capture
    }

    pub(crate) fn add(&mut self, at_ms: u64, from: u8, seq: u32, ack: u32, flags: u8, data: usize) {
        let id = u16::try_from(self.packets.len() + 1).expect("few packets");
        let (at_us, window, options) = (at_ms * 1000, 60_000, Vec::new());
        self.packets.push(Sent { at_us, from, seq, ack, flags, window, data, options, id });
    }

    pub(crate) fn last(&mut self) -> &mut Sent {
        self.packets.last_mut().expect("a packet")
    }

    /// Sends segment `n` of 1,000 bytes, from 0.
    pub(crate) fn data(&mut self, at_ms: u64, n: u32) {
        self.add(at_ms, 0, 1 + n * 1000, 1, ACK | PSH, 1000);
    }

    /// Acknowledges the first `n` segments.
    pub(crate) fn ack(&mut self, at_ms: u64, n: u32) {
        self.add(at_ms, 1, 1, 1 + n * 1000, ACK, 0);
    }

    /// Closes both directions after `bytes` of data, with a round trip of 40 ms.
    pub(crate) fn close(&mut self, at_ms: u64, bytes: u32) {
        self.add(at_ms, 0, 1 + bytes, 1, FIN | ACK, 0);
        self.add(at_ms + 40, 1, 1, 2 + bytes, FIN | ACK, 0);
        self.add(at_ms + 40, 0, 2 + bytes, 2, ACK, 0);
    }

    /// Returns the IPv4 packets with their times.
    pub(crate) fn ip(&self) -> Vec<(u64, Vec<u8>)> {
        self.packets.iter().map(|it| (it.at_us, it.ipv4(self.base, &[]))).collect()
    }

    pub(crate) fn connection(&self) -> Connection {
        only(pcap(RAW, &self.ip()))
    }
}

/// Returns a pcap file of little-endian words with times in microseconds.
pub(crate) fn pcap(link: u32, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    pcap_with(0xA1B2_C3D4, 1, u32::to_le_bytes, link, packets)
}

/// Returns a pcap file with this magic number, units of time in a microsecond, and order of bytes.
pub(crate) fn pcap_with(
    magic: u32,
    units: u64,
    bytes: fn(u32) -> [u8; 4],
    link: u32,
    packets: &[(u64, Vec<u8>)],
) -> Vec<u8> {
    let [a, b, c, d] = bytes(0x0002_0004);
    // The version is two words of 16 bits.
    let version = if bytes(1) == [0, 0, 0, 1] { [a, b, c, d] } else { [c, d, a, b] };
    let mut out = [bytes(magic), version, [0; 4], [0; 4], bytes(65_535), bytes(link)].concat();
    for (at_us, packet) in packets {
        let part = (at_us % 1_000_000) * units;
        let length = u32::try_from(packet.len()).expect("a length");
        let seconds = u32::try_from(at_us / 1_000_000 + 1_000).expect("a time");
        for word in [seconds, u32::try_from(part).expect("a time"), length, length] {
            out.extend(bytes(word));
        }
        out.extend(packet);
    }
    out
}

pub(crate) fn read(bytes: Vec<u8>) -> Trace {
    analyse(Cursor::new(bytes), None).expect("a capture")
}

pub(crate) fn only(bytes: Vec<u8>) -> Connection {
    let mut trace = read(bytes);
    assert_eq!(trace.connections.len(), 1, "{:?}", trace.extent);
    trace.connections.remove(0)
}

/// Returns a figure of an end in base units.
#[track_caller]
pub(crate) fn figure(connection: &Connection, end: usize, name: &str) -> f64 {
    let fields = fields(connection);
    let field = fields.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("no figure {name}"));
    field.number(end).unwrap_or_else(|| panic!("{name} has no number"))
}

/// Asserts figures of an end. Times are seconds, rates are bits per second.
#[track_caller]
pub(crate) fn figures(connection: &Connection, end: usize, expected: &[(&str, f64)]) {
    for (name, value) in expected {
        let ours = figure(connection, end, name);
        let distance = (ours - value).abs();
        assert!(distance <= 1e-9 * value.abs().max(1e-3), "{name} of end {end}: {ours} for {value}");
    }
}
