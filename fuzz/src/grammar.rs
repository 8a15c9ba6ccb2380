//! Packets that are nearly valid: generated from the formats' grammar, around the numbers that the
//! state machine expects.

use arbitrary::Arbitrary;

use rdt_testing::packets::{classic, native, varint};

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

/// A packet that a sender sends.
#[derive(Debug, Clone, Arbitrary)]
pub enum FromSender {
    ClassicSyn { seq: u32, rtt: f32, rate: f32, loss: f32, buffer: u32 },
    ClassicData { seq: Number, len: u16 },
    ClassicFin { seq: Number, repeated: bool },
    Syn { cookie: bool, params: Vec<(u8, Vec<u8>)> },
    Data { packet_number: Number, offset: Number, len: u16, flags: u16 },
    Fin { packet_number: Number, length: Number, crc: u32 },
    Close { reason: u16, text: Vec<u8> },
    Raw(Vec<u8>),
}

/// Numbers that a receiver expects, as the harness knows them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    pub connection_id: u64,
    pub seq: u64,
    pub packet_number: u64,
    pub cookie: Option<[u8; 32]>,
}

impl FromSender {
    pub fn encode(&self, expected: &Expected) -> Vec<u8> {
        let id = expected.connection_id;
        match self {
            Self::ClassicSyn { seq, rtt, rate, loss, buffer } => {
                let [rtt, rate, loss] = [rtt, rate, loss].map(|value| value.to_bits());
                classic(0x20, &[*seq, rtt, rate, loss, loss, *buffer], &[])
            }
            Self::ClassicData { seq, len } => {
                classic(0, &[seq.around(expected.seq, 1) as u32], &vec![7; usize::from(*len) % 1500])
            }
            Self::ClassicFin { seq, repeated } => {
                let word: &[u8] = if *repeated { &[0x40, 0xAA, 0x11, 0x83] } else { &[] };
                classic(0x80, &[seq.around(expected.seq, 1) as u32], word)
            }
            Self::Syn { cookie, params } => {
                let mut list = Vec::new();
                for (id, value) in params.iter().take(16) {
                    list.extend(u16::from(*id).to_le_bytes());
                    list.extend((value.len().min(64) as u16).to_le_bytes());
                    list.extend(&value[..value.len().min(64)]);
                }
                let cookie = expected.cookie.filter(|_| *cookie);
                let mut body = vec![if cookie.is_some() { 32 } else { 0 }];
                body.extend(cookie.iter().flatten());
                body.extend(&list);
                body.resize(body.len().max(112), 0);
                native(1, list.len() as u16, id, &body)
            }
            Self::Data { packet_number, offset, len, flags } => {
                let mut body =
                    (packet_number.around(expected.packet_number, 1) as u32).to_le_bytes().to_vec();
                body.extend(offset.around(expected.seq, 1172).to_le_bytes());
                body.resize(body.len() + usize::from(*len) % 1500, 7);
                native(4, *flags, id, &body)
            }
            Self::Fin { packet_number, length, crc } => {
                let mut body =
                    (packet_number.around(expected.packet_number, 1) as u32).to_le_bytes().to_vec();
                body.extend(length.around(expected.seq, 1172).to_le_bytes());
                body.extend(crc.to_le_bytes());
                native(7, 0, id, &body)
            }
            Self::Close { reason, text } => native(9, *reason, id, &text[..text.len().min(220)]),
            Self::Raw(bytes) => bytes.clone(),
        }
    }
}

/// A packet that a receiver sends.
#[derive(Debug, Clone, Arbitrary)]
pub enum FromReceiver {
    ClassicReply {
        flags: u8,
        window: u32,
        ack: Number,
    },
    Retry {
        cookie: u8,
    },
    SynAck {
        window: u64,
        params: Vec<(u8, Vec<u8>)>,
    },
    Ack {
        packet_number: Number,
        delay: u16,
        ack: Number,
        window: u64,
        counts: [u8; 4],
        blocks: Vec<(u16, u16)>,
        overflow: Option<u8>,
    },
    FinAck {
        length: Number,
        crc: u32,
        status: u8,
    },
    Close {
        reason: u16,
        text: Vec<u8>,
    },
    Versions {
        bits: u16,
    },
    Raw(Vec<u8>),
}

impl FromReceiver {
    pub fn encode(&self, expected: &Expected) -> Vec<u8> {
        let id = expected.connection_id;
        match self {
            Self::ClassicReply { flags, window, ack } => {
                let flags = [0x60, 0x40, 0xC0][usize::from(*flags) % 3];
                classic(flags, &[*window, ack.around(expected.seq, 1) as u32], &[])
            }
            Self::Retry { cookie } => native(2, 0, id, &[*cookie; 32]),
            Self::SynAck { window, params } => {
                let mut list = Vec::new();
                for (id, value) in params.iter().take(16) {
                    list.extend(u16::from(*id).to_le_bytes());
                    list.extend((value.len().min(64) as u16).to_le_bytes());
                    list.extend(&value[..value.len().min(64)]);
                }
                let mut body = window.to_le_bytes().to_vec();
                body.extend(&list);
                native(3, list.len() as u16, id, &body)
            }
            Self::Ack { packet_number, delay, ack, window, counts, blocks, overflow } => {
                let blocks = &blocks[..blocks.len().min(32)];
                let mut info = blocks.len() as u16;
                let mut body =
                    (packet_number.around(expected.packet_number, 1) as u32).to_le_bytes().to_vec();
                varint(u64::from(*delay), &mut body);
                varint(ack.around(expected.seq, 1172), &mut body);
                varint(*window, &mut body);
                varint(u64::from(counts[0]), &mut body);
                varint(u64::from(counts[1]), &mut body);
                if counts[2] > 0 || counts[3] > 0 {
                    info |= 1 << 14;
                    varint(u64::from(counts[2]), &mut body);
                    varint(u64::from(counts[3]), &mut body);
                }
                for (gap, len) in blocks {
                    varint(u64::from(*gap).max(1) * 4, &mut body);
                    varint(u64::from(*len).max(1) * 4, &mut body);
                }
                if let Some(overflow) = overflow {
                    info |= 1 << 15;
                    varint(u64::from(*overflow), &mut body);
                }
                native(6, info, id, &body)
            }
            Self::FinAck { length, crc, status } => {
                let mut body = length.around(expected.seq, 1172).to_le_bytes().to_vec();
                body.extend(crc.to_le_bytes());
                body.push(status % 2);
                native(8, 0, id, &body)
            }
            Self::Close { reason, text } => native(9, *reason, id, &text[..text.len().min(220)]),
            Self::Versions { bits } => native(10, *bits, id, &[]),
            Self::Raw(bytes) => bytes.clone(),
        }
    }
}
