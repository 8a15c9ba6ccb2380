//! Packets that are nearly valid: generated from the formats' grammar, around the numbers that the
//! state machine expects.

use arbitrary::Arbitrary;

use rdt_testing::packets::{classic, varint};

/// A number of the stream.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Number {
    /// Near the number that the state machine expects.
    Near(i8),
    /// Any number.
    Any(u64),
}

impl Number {
    /// Returns the number. `expected` is the state machine's, and a step is one packet.
    pub fn around(self, expected: u64, step: u64) -> u64 {
        match self {
            Self::Near(n) => expected.wrapping_add_signed(i64::from(n).wrapping_mul(step as i64)),
            Self::Any(n) => n,
        }
    }
}

/// Damage on the path, to one packet in eight.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Damage {
    chance: u8,
    at: u16,
    /// Bits to flip; 0 truncates instead.
    mask: u8,
}

impl Damage {
    pub fn apply(self, packet: &mut Vec<u8>) {
        if self.chance % 8 != 1 || packet.is_empty() {
            return;
        }
        let at = usize::from(self.at) % packet.len();
        if self.mask == 0 { packet.truncate(at) } else { packet[at] ^= self.mask }
    }
}

/// A classic packet that a sender sends.
#[derive(Debug, Clone, Arbitrary)]
pub enum FromSender {
    Syn { seq: u32, rtt: f32, rate: f32, loss: f32, buffer: u32 },
    Data { seq: Number, len: u16 },
    Fin { seq: Number, repeated: bool },
    Raw(Vec<u8>),
}

impl FromSender {
    /// Returns the packet for a receiver that expects packet `expected`.
    pub fn encode(&self, expected: u64) -> Vec<u8> {
        match self {
            Self::Syn { seq, rtt, rate, loss, buffer } => {
                let [rtt, rate, loss] = [rtt, rate, loss].map(|value| value.to_bits());
                classic(0x20, &[*seq, rtt, rate, loss, loss, *buffer], &[])
            }
            Self::Data { seq, len } => {
                classic(0, &[seq.around(expected, 1) as u32], &vec![7; usize::from(*len) % 1500])
            }
            Self::Fin { seq, repeated } => {
                let word: &[u8] = if *repeated { &[0x40, 0xAA, 0x11, 0x83] } else { &[] };
                classic(0x80, &[seq.around(expected, 1) as u32], word)
            }
            Self::Raw(bytes) => bytes.clone(),
        }
    }
}

/// A classic packet that a receiver sends.
#[derive(Debug, Clone, Arbitrary)]
pub enum FromReceiver {
    Reply { flags: u8, window: u32, ack: Number },
    Raw(Vec<u8>),
}

impl FromReceiver {
    /// Returns the packet for a sender whose packet `expected` is the next to be acknowledged.
    pub fn encode(&self, expected: u64) -> Vec<u8> {
        match self {
            Self::Reply { flags, window, ack } => {
                let flags = [0x60, 0x40, 0xC0][usize::from(*flags) % 3];
                classic(flags, &[*window, ack.around(expected, 1) as u32], &[])
            }
            Self::Raw(bytes) => bytes.clone(),
        }
    }
}

/// Fields of a native ACK.
#[derive(Debug, Clone, Arbitrary)]
pub struct Ack {
    largest: Number,
    sent_us: u32,
    delay: u16,
    rcv_nxt: Number,
    window: u64,
    counts: [u8; 4],
    blocks: Vec<(u16, u16)>,
    overflow: Option<u8>,
}

/// Type and body of a native packet that its sender seals.
#[derive(Debug, Clone, Arbitrary)]
pub enum Sealed {
    Data { offset: Number, len: u16, at_once: bool, every: u16, ack: Option<Ack> },
    Ack(Ack),
    Fin { length: Number, ack: Option<Ack> },
    FinAck { length: Number, status: u8 },
    Close { reason: u16, code: u32, text: Vec<u8> },
    Path { is_response: u8, random: u64 },
    OpenAck { token: [u8; 16] },
    Raw { kind: u8, info: u16, body: Vec<u8> },
}

/// What the reader of a native packet has sent and received, as the harness knows it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    /// Bytes that it has received in order.
    pub received: u64,
    /// Bytes that it has sent.
    pub sent: u64,
    /// Number of the next packet of its data space.
    pub number: u64,
}

/// Payload of a full packet, bytes.
const STEP: u64 = 1160;

impl Ack {
    fn encode(&self, expected: &Expected, out: &mut Vec<u8>) {
        let blocks = &self.blocks[..self.blocks.len().min(32)];
        let has_marks = self.counts[2] > 0 || self.counts[3] > 0;
        let info =
            blocks.len() as u16 | u16::from(has_marks) << 14 | u16::from(self.overflow.is_some()) << 15;
        out.extend(info.to_le_bytes());
        out.extend((self.largest.around(expected.number, 1) as u32).to_le_bytes());
        out.extend(self.sent_us.to_le_bytes());
        for value in [u64::from(self.delay), self.rcv_nxt.around(expected.sent, STEP), self.window] {
            varint(value, out);
        }
        let counts = if has_marks { &self.counts[..] } else { &self.counts[..2] };
        counts.iter().for_each(|count| varint(u64::from(*count), out));
        for (gap, len) in blocks {
            varint(u64::from(*gap).max(1) * 4, out);
            varint(u64::from(*len).max(1) * 4, out);
        }
        if let Some(overflow) = self.overflow {
            varint(u64::from(overflow), out);
        }
    }
}

impl Sealed {
    /// Returns type, field at offset 2 without the key phase, and body.
    pub fn encode(&self, expected: &Expected) -> (u8, u16, Vec<u8>) {
        let mut body = Vec::new();
        let mut with_ack = |bytes: u64, ack: &Option<Ack>| {
            body.extend(bytes.to_le_bytes());
            if let Some(ack) = ack {
                ack.encode(expected, &mut body);
            }
            u16::from(ack.is_some()) << 3
        };
        match self {
            Self::Data { offset, len, at_once, every, ack } => {
                let info = with_ack(offset.around(expected.received, STEP), ack);
                body.resize(body.len() + usize::from(*len) % 1500, 7);
                (4, info | u16::from(*at_once) << 2 | every << 4, body)
            }
            Self::Fin { length, ack } => {
                let info = with_ack(length.around(expected.received, STEP), ack);
                (7, info, body)
            }
            Self::Ack(ack) => {
                ack.encode(expected, &mut body);
                (6, 0, body)
            }
            Self::FinAck { length, status } => {
                body.extend(length.around(expected.sent, STEP).to_le_bytes());
                body.push(status % 2);
                (8, 0, body)
            }
            Self::Close { reason, code, text } => {
                body.extend(reason.to_le_bytes());
                body.extend(code.to_le_bytes());
                body.extend(&text[..text.len().min(220)]);
                (9, 0, body)
            }
            Self::Path { is_response, random } => {
                body.push(is_response % 3);
                body.extend(random.to_le_bytes());
                (12, 0, body)
            }
            Self::OpenAck { token } => {
                body.extend(token);
                (5, 0, body)
            }
            Self::Raw { kind, info, body } => {
                ([4, 5, 6, 7, 8, 9, 12][usize::from(*kind) % 7], info & !3, body.clone())
            }
        }
    }
}
