//! Small captures, built packet by packet, and the rules that they test.

use std::io::Cursor;

use super::*;

mod counts;
mod files;
mod headers;
mod interfaces;
mod limits;

const SYN: u8 = 2;
const FIN: u8 = 1;
const ACK: u8 = 16;
const PSH: u8 = 8;
/// Payload of a full segment, bytes.
const FULL: usize = 1000;
/// Link type of packets that begin with the IP header.
const RAW: u32 = 101;

/// TCP packet of a capture.
struct TestPacket {
    at_ms: u64,
    /// Sender: end 0 or 1.
    from: usize,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    data: usize,
    options: Vec<u8>,
    id: u16,
}

impl TestPacket {
    fn tcp(&self) -> Vec<u8> {
        let (source, target): (u16, u16) = if self.from == 0 { (40_000, 80) } else { (80, 40_000) };
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 1);
        let mut out = Vec::new();
        out.extend(source.to_be_bytes());
        out.extend(target.to_be_bytes());
        out.extend(self.seq.to_be_bytes());
        out.extend(self.ack.to_be_bytes());
        out.push(u8::try_from((20 + options.len()) / 4).expect("a header") << 4);
        out.push(self.flags);
        out.extend(self.window.to_be_bytes());
        out.extend([0; 4]);
        out.extend(options);
        out.resize(out.len() + self.data, 0x78);
        out
    }

    fn ipv4(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let length = u16::try_from(20 + tcp.len()).expect("a short packet").to_be_bytes();
        let id = self.id.to_be_bytes();
        let mut out = vec![0x45, 0, length[0], length[1], id[0], id[1], 0x40, 0, 64, 6, 0, 0];
        let ends = if self.from == 0 { [1, 2] } else { [2, 1] };
        for end in ends {
            out.extend([10, 0, 0, end]);
        }
        out.extend(tcp);
        out
    }

    fn ipv6(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let length = u16::try_from(tcp.len()).expect("a short packet").to_be_bytes();
        let mut out = vec![0x60, 0, 0, 0, length[0], length[1], 6, 64];
        let ends = if self.from == 0 { [1, 2] } else { [2, 1] };
        for end in ends {
            out.extend([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
        }
        out.extend(tcp);
        out
    }
}

/// Transfer from end 0 to end 1. Methods take sequence numbers from the SYN of both ends on, which
/// is 0, or numbers of full segments.
pub(super) struct TestTransfer {
    packets: Vec<TestPacket>,
    /// Sequence number of both SYN.
    base: u32,
}

impl TestTransfer {
    /// Begins with a handshake at 0, 50 and 50 ms.
    pub(super) fn new() -> Self {
        Self::at(1_000_000)
    }

    fn at(base: u32) -> Self {
        let mut transfer = Self { packets: Vec::new(), base };
        transfer.handshake();
        transfer
    }

    fn handshake(&mut self) {
        self.push(0, 0, 0, None, SYN, 0, syn_options());
        self.push(50, 1, 0, Some(1), SYN, 0, syn_options());
        self.push(50, 0, 1, Some(1), 0, 0, Vec::new());
    }

    #[expect(clippy::too_many_arguments, reason = "fields of a packet")]
    fn push(
        &mut self,
        at_ms: u64,
        from: usize,
        seq: u32,
        ack: Option<u32>,
        flags: u8,
        data: usize,
        options: Vec<u8>,
    ) {
        let id = u16::try_from(self.packets.len() + 1).expect("few packets");
        self.packets.push(TestPacket {
            at_ms,
            from,
            seq: seq.wrapping_add(self.base),
            ack: ack.map_or(0, |ack| ack.wrapping_add(self.base)),
            flags: flags | if ack.is_some() { ACK } else { 0 },
            window: 60_000,
            data,
            options,
            id,
        });
    }

    /// Sends full segment `n`, from 0.
    pub(super) fn data(&mut self, at_ms: u64, n: u32) -> &mut Self {
        self.push(at_ms, 0, 1 + n * 1000, Some(1), PSH, FULL, Vec::new());
        self
    }

    /// Acknowledges the first `n` segments.
    pub(super) fn ack(&mut self, at_ms: u64, n: u32) -> &mut Self {
        self.push(at_ms, 1, 1, Some(1 + n * 1000), 0, 0, Vec::new());
        self
    }

    /// Acknowledges the first `n` segments, and selectively the segments of each block `[a, b)`.
    pub(super) fn sack(&mut self, at_ms: u64, n: u32, blocks: &[(u32, u32)]) -> &mut Self {
        let mut options = vec![5, u8::try_from(2 + blocks.len() * 8).expect("few blocks")];
        for edge in blocks.iter().flat_map(|(a, b)| [*a, *b]) {
            options.extend((1 + edge * 1000).wrapping_add(self.base).to_be_bytes());
        }
        self.push(at_ms, 1, 1, Some(1 + n * 1000), 0, 0, options);
        self
    }

    /// Sets the window of the last packet.
    pub(super) fn window(&mut self, window: u16) -> &mut Self {
        self.packets.last_mut().expect("a packet").window = window;
        self
    }

    /// Returns the IPv4 packets with their times in milliseconds.
    fn ipv4(&self) -> Vec<(u64, Vec<u8>)> {
        self.packets.iter().map(|it| (it.at_ms, it.ipv4())).collect()
    }

    pub(super) fn trace(&self) -> Trace {
        read_bytes(pcap(RAW, &self.ipv4(), usize::MAX))
    }

    fn connection(&self) -> Connection {
        let mut trace = self.trace();
        assert_eq!(trace.connections.len(), 1);
        trace.connections.remove(0)
    }
}

fn syn_options() -> Vec<u8> {
    // MSS 1460, SACK permitted, timestamp, window scale 0.
    let mut options = vec![2, 4, 5, 180, 4, 2, 8, 10];
    options.extend([0; 8]);
    options.extend([3, 3, 0]);
    options
}

/// Returns a pcap file with times in milliseconds and packets of at most `snap` bytes.
fn pcap(link: u32, packets: &[(u64, Vec<u8>)], snap: usize) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(0xA1B2_C3D4_u32.to_le_bytes());
    out.extend([2, 0, 4, 0]);
    out.extend([0; 8]);
    out.extend(65_535_u32.to_le_bytes());
    out.extend(link.to_le_bytes());
    for (at_ms, packet) in packets {
        let words = [
            u32::try_from(at_ms / 1000 + 1000).expect("a time"),
            u32::try_from(at_ms % 1000 * 1000).expect("a time"),
            u32::try_from(packet.len().min(snap)).expect("a length"),
            u32::try_from(packet.len()).expect("a length"),
        ];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(&packet[..packet.len().min(snap)]);
    }
    out
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(12 + body.len().next_multiple_of(4)).expect("a length").to_le_bytes();
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(length);
    out.extend(body);
    out.resize(8 + body.len().next_multiple_of(4), 0);
    out.extend(length);
    out
}

/// Returns a pcapng file with interfaces of these names. A packet has its interface, its time in
/// nanoseconds, and a comment.
fn pcapng(names: &[&str], packets: &[(u32, u64, Vec<u8>, &str)]) -> Vec<u8> {
    let mut section = 0x1A2B_3C4D_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xFF; 8]);
    let mut out = block(0x0A0D_0D0A, &section);
    let option = |code: u16, value: &[u8]| {
        let mut out = code.to_le_bytes().to_vec();
        out.extend(u16::try_from(value.len()).expect("a length").to_le_bytes());
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    };
    for name in names {
        let mut body = 101_u16.to_le_bytes().to_vec();
        body.extend([0; 6]);
        body.extend(option(2, name.as_bytes()));
        body.extend(option(9, &[9]));
        body.extend(option(0, &[]));
        out.extend(block(1, &body));
    }
    for (interface, at_ns, packet, comment) in packets {
        let mut body = interface.to_le_bytes().to_vec();
        let high = u32::try_from(at_ns >> 32).expect("a time");
        let low = u32::try_from(at_ns & 0xFFFF_FFFF).expect("a time");
        body.extend(high.to_le_bytes());
        body.extend(low.to_le_bytes());
        let length = u32::try_from(packet.len()).expect("a length").to_le_bytes();
        body.extend([length, length].concat());
        body.extend(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        if !comment.is_empty() {
            body.extend(option(1, comment.as_bytes()));
            body.extend(option(0, &[]));
        }
        out.extend(block(6, &body));
    }
    out
}

fn read_bytes(bytes: Vec<u8>) -> Trace {
    analyse(Cursor::new(bytes), None).expect("a capture")
}
