//! Packets of the classic protocol, byte by byte. All numbers are little-endian.

use std::fmt::Write as _;

/// Flags in the first byte of a packet.
pub(crate) const SYN: u8 = 0x20;
pub(crate) const ACK: u8 = 0x40;
pub(crate) const FIN: u8 = 0x80;
/// Bytes 1 to 3 of every packet.
pub(crate) const MAGIC: [u8; 3] = [0xAA, 0x11, 0x83];
/// Payload of a full datagram of 1472 bytes.
pub(crate) const PIECE: usize = 1464;
/// Largest window, packets. Also how far a number may be from the expected one, in both directions,
/// to be accepted.
pub(crate) const MAX_WINDOW: u32 = 80_000;

/// Captured SYN of the reference sender for W 10, RTT 0.1 s, 14 Mbps and a buffer of 13 packets.
pub(crate) const CAPTURED_SYN: [u8; 28] = [
    0x20, 0xaa, 0x11, 0x83, 0, 0, 0, 0, 0xcd, 0xcc, 0xcc, 0x3d, 0x80, 0x9f, 0x55, 0x4b, 0, 0, 0, 0, 0, 0, 0,
    0, 13, 0, 0, 0,
];

/// Link requested by a SYN.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// RTT, seconds.
    pub(crate) rtt: f32,
    /// Rate, bits per second.
    pub(crate) speed: f32,
    /// Loss probabilities, forward and reverse.
    pub(crate) loss: [f32; 2],
    /// Buffer, packets.
    pub(crate) buffer: u32,
}

impl Link {
    /// Least restrictive link: no delay, 10 Gbit/s, no loss, a buffer of a million packets.
    pub(crate) const CLEAR: Self = Self { rtt: 0.0, speed: 1e10, loss: [0.0, 0.0], buffer: 1_000_000 };

    pub(crate) fn syn(self, seq: u32) -> Vec<u8> {
        let mut bytes = header(SYN, seq);
        for value in [self.rtt, self.speed, self.loss[0], self.loss[1]] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(self.buffer.to_le_bytes());
        bytes
    }
}

/// Returns the header of a packet: flags and a number.
pub(crate) fn header(flags: u8, number: u32) -> Vec<u8> {
    let mut bytes = vec![flags, MAGIC[0], MAGIC[1], MAGIC[2]];
    bytes.extend(number.to_le_bytes());
    bytes
}

/// Returns a SYN that requests [`Link::CLEAR`].
pub(crate) fn syn(seq: u32) -> Vec<u8> {
    Link::CLEAR.syn(seq)
}

pub(crate) fn data(seq: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(0, seq);
    bytes.extend(payload);
    bytes
}

pub(crate) fn fin(seq: u32) -> Vec<u8> {
    header(FIN, seq)
}

/// Returns a packet of a receiver, in which the window precedes the number.
pub(crate) fn reply(flags: u8, window: u32, ack: u32) -> Vec<u8> {
    let mut bytes = header(flags, window);
    bytes.extend(ack.to_le_bytes());
    bytes
}

pub(crate) fn syn_ack(window: u32, ack: u32) -> Vec<u8> {
    reply(SYN | ACK, window, ack)
}

pub(crate) fn ack(window: u32, ack: u32) -> Vec<u8> {
    reply(ACK, window, ack)
}

pub(crate) fn fin_ack(checksum: u32, ack: u32) -> Vec<u8> {
    reply(FIN | ACK, checksum, ack)
}

/// Returns true if `answer`, a SYN-ACK or ACK, differs from `wanted` only by a smaller window above
/// 0.
pub(crate) fn is_narrower(answer: &[u8], wanted: &[u8]) -> bool {
    let window = |bytes: &[u8]| u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
    answer.len() == wanted.len()
        && answer[0] & FIN == 0
        && (&answer[..4], &answer[8..]) == (&wanted[..4], &wanted[8..])
        && (1..window(wanted)).contains(&window(answer))
}

pub(crate) fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
