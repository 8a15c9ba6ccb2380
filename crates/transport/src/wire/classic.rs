//! Classic format: fixed headers, little-endian, 32-bit sequence numbers of packets, cumulative
//! ACKs. `docs/CLASSIC.md` has the byte tables. Lengths are checked once, before any field is
//! read, so no datagram can cause a panic.

use super::{
    Ack, Answer, FromReceiver, FromSender, LinkProperties, Open, Piece, WireError, unwrap_near, wrap,
};

/// Length of a data packet's header, bytes.
pub(crate) const DATA_HEADER: usize = 8;
/// Length of a SYN, bytes.
pub(crate) const SYN_LEN: usize = 28;
/// Length of a FIN, bytes. Longer ones are accepted, because some senders append bytes.
pub(crate) const FIN_LEN: usize = 8;
/// Length of a FIN whose sender accepts ACKs as answers: the first four bytes of one are appended.
pub(super) const ACK_AWARE_FIN_LEN: usize = 12;
/// Length of every packet that a receiver sends, bytes.
pub(crate) const REPLY_LEN: usize = 12;

const MAGIC: u32 = 0x0083_11AA;
const SYN: u8 = 0x20;
const ACK: u8 = 0x40;
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x1F;

/// Decodes a packet of a sender. Numbers are unwrapped around `near`: `rcv_nxt`, or 0.
#[inline]
pub(crate) fn decode_from_sender(datagram: &[u8], near: u64) -> Result<FromSender<'_>, WireError> {
    let (header, payload) = datagram.split_first_chunk::<DATA_HEADER>().ok_or(WireError::Truncated)?;
    let flags = flags(u32_at(header, 0))?;
    let raw = u32_at(header, 4);
    match flags {
        0 => Ok(FromSender::Data(Piece::classic(unwrap(raw, near)?, payload))),
        SYN => decode_syn(raw, datagram).map(FromSender::Syn),
        FIN => Ok(FromSender::Fin {
            seq: unwrap(raw, near)?,
            packet_number: None,
            understands_ack: *payload == flags_word(ACK).to_le_bytes(),
        }),
        _ => Err(WireError::Flags),
    }
}

/// Decodes a packet of a receiver. Sequence numbers are unwrapped around `near`.
pub(crate) fn decode_from_receiver(datagram: &[u8], near: u64) -> Result<FromReceiver<'static>, WireError> {
    let (flags, ack, value) = decode_reply(datagram, near)?;
    if flags == SYN | ACK {
        Ok(FromReceiver::SynAck { ack, window: u64::from(value) })
    } else if flags == ACK {
        Ok(FromReceiver::Ack(Ack::plain(ack, u64::from(value))))
    } else if flags == FIN | ACK {
        Ok(FromReceiver::FinAck { ack, crc: value })
    } else {
        Err(WireError::Flags)
    }
}

/// Decodes cumulative ACK and window of an ACK; `None` for any other packet.
pub(super) fn decode_plain_ack(datagram: &[u8], near: u64) -> Option<(u64, u64)> {
    let (flags, ack, window) = decode_reply(datagram, near).ok()?;
    (flags == ACK).then_some((ack, u64::from(window)))
}

/// Decodes flags, cumulative ACK and window (or checksum) of a packet of a receiver.
fn decode_reply(datagram: &[u8], near: u64) -> Result<(u8, u64, u32), WireError> {
    if datagram.len() < REPLY_LEN {
        return Err(WireError::Truncated);
    }
    let packet: &[u8; REPLY_LEN] = datagram.try_into().map_err(|_| WireError::Length)?;
    let flags = flags(u32_at(packet, 0))?;
    Ok((flags, unwrap(u32_at(packet, 8), near)?, u32_at(packet, 4)))
}

/// Writes a SYN; `out` has [`SYN_LEN`] bytes.
pub(crate) fn encode_syn(seq: u32, link: &LinkProperties, out: &mut [u8]) {
    put(out, 0, flags_word(SYN));
    put(out, 4, seq);
    put(out, 8, link.rtt_s.to_bits());
    put(out, 12, link.speed_bps.to_bits());
    put(out, 16, link.loss_forward.to_bits());
    put(out, 20, link.loss_reverse.to_bits());
    put(out, 24, link.buffer);
}

/// Writes the header of a data packet into the first [`DATA_HEADER`] bytes of `out`.
#[inline]
pub(crate) fn encode_data_header(seq: u64, out: &mut [u8]) {
    put(out, 0, flags_word(0));
    put(out, 4, wrap(seq));
}

/// Writes a FIN; `out` has [`FIN_LEN`] bytes, or 12 if the sender accepts ACKs as answers.
pub(crate) fn encode_fin(seq: u64, out: &mut [u8]) {
    put(out, 0, flags_word(FIN));
    put(out, 4, wrap(seq));
    if out.len() == ACK_AWARE_FIN_LEN {
        put(out, 8, flags_word(ACK));
    }
}

/// Writes a packet of a receiver; `out` has [`REPLY_LEN`] bytes. A window beyond 32 bits saturates.
pub(crate) fn encode_answer(answer: Answer, out: &mut [u8]) {
    let packets = |window: u64| u32::try_from(window).unwrap_or(u32::MAX);
    let (flags, ack, value) = match answer {
        Answer::SynAck { ack, window } => (SYN | ACK, ack, packets(window)),
        Answer::Ack { ack, window } => (ACK, ack, packets(window)),
        Answer::FinAck { ack, crc } => (FIN | ACK, ack, crc),
    };
    put(out, 0, flags_word(flags));
    put(out, 4, value);
    put(out, 8, wrap(ack));
}

fn decode_syn(seq: u32, datagram: &[u8]) -> Result<Open, WireError> {
    let packet: &[u8; SYN_LEN] = datagram.try_into().map_err(|_| WireError::Length)?;
    let link = LinkProperties {
        rtt_s: f32::from_bits(u32_at(packet, 8)),
        speed_bps: f32::from_bits(u32_at(packet, 12)),
        loss_forward: f32::from_bits(u32_at(packet, 16)),
        loss_reverse: f32::from_bits(u32_at(packet, 20)),
        buffer: u32_at(packet, 24),
    };
    link.validate().map_err(|_| WireError::Link)?;
    Ok(Open { seq: u64::from(seq), link })
}

/// Returns the flag byte of a flags word after a check of its magic and reserved bits.
fn flags(word: u32) -> Result<u8, WireError> {
    let [flags, ..] = word.to_le_bytes();
    if word >> 8 != MAGIC {
        Err(WireError::Magic)
    } else if flags & RESERVED != 0 {
        Err(WireError::Reserved)
    } else {
        Ok(flags)
    }
}

fn flags_word(flags: u8) -> u32 {
    MAGIC << 8 | u32::from(flags)
}

fn unwrap(raw: u32, near: u64) -> Result<u64, WireError> {
    unwrap_near(raw, near).ok_or(WireError::Sequence)
}

/// Reads at a constant offset inside an array whose length the caller has checked.
fn u32_at<const N: usize>(packet: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}

fn put(out: &mut [u8], at: usize, value: u32) {
    out[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
    }

    /// A SYN captured from a student's sender: W 10, RTT 0.1 s, 14 Mbps, buffer 13.
    const SYN_VECTOR: &str = "20aa1183 00000000 cdcccc3d 809f554b 00000000 00000000 0d000000";

    const LINK: LinkProperties =
        LinkProperties { rtt_s: 0.1, speed_bps: 14e6, loss_forward: 0.0, loss_reverse: 0.0, buffer: 13 };

    #[test]
    fn syn_matches_the_captured_bytes_both_ways() {
        let mut out = [0; SYN_LEN];
        encode_syn(0, &LINK, &mut out);
        assert_eq!(out.as_slice(), bytes(SYN_VECTOR));
        assert_eq!(
            decode_from_sender(&bytes(SYN_VECTOR), 0),
            Ok(FromSender::Syn(Open { seq: 0, link: LINK }))
        );
    }

    #[test]
    fn data_and_fin_vectors() {
        let mut out = [0; 10];
        out[8..].copy_from_slice(&[7, 9]);
        encode_data_header(0x0102_0304, &mut out);
        assert_eq!(out.as_slice(), bytes("00aa1183 04030201 0709"));
        let data = FromSender::Data(Piece::classic(0x0102_0304, &[7, 9]));
        assert_eq!(decode_from_sender(&out, 0x0102_0000), Ok(data));

        let mut out = [0; FIN_LEN];
        encode_fin(45, &mut out);
        assert_eq!(out.as_slice(), bytes("80aa1183 2d000000"));
        assert_eq!(
            decode_from_sender(&out, 45),
            Ok(FromSender::Fin { seq: 45, packet_number: None, understands_ack: false })
        );
        let mut heeding = [0; ACK_AWARE_FIN_LEN];
        encode_fin(45, &mut heeding);
        assert_eq!(heeding[..], bytes("80aa1183 2d000000 40aa1183")[..]);
        assert_eq!(
            decode_from_sender(&heeding, 45),
            Ok(FromSender::Fin { seq: 45, packet_number: None, understands_ack: true })
        );
        let mut long = out.to_vec();
        long.resize(28, 0x55);
        assert_eq!(
            decode_from_sender(&long, 45),
            Ok(FromSender::Fin { seq: 45, packet_number: None, understands_ack: false }),
            "a FIN of 28 bytes"
        );
    }

    #[test]
    fn replies_carry_the_window_before_the_number() {
        for (answer, hex) in [
            (Answer::SynAck { ack: 0, window: 1 }, "60aa1183 01000000 00000000"),
            (Answer::Ack { ack: 45, window: 10 }, "40aa1183 0a000000 2d000000"),
            (Answer::FinAck { ack: 45, crc: 0xFC19_A074 }, "c0aa1183 74a019fc 2d000000"),
        ] {
            let mut out = [0; REPLY_LEN];
            encode_answer(answer, &mut out);
            assert_eq!(out.as_slice(), bytes(hex));
            let expected = match answer {
                Answer::SynAck { ack, window } => FromReceiver::SynAck { ack, window },
                Answer::Ack { ack, window } => FromReceiver::Ack(Ack::plain(ack, window)),
                Answer::FinAck { ack, crc } => FromReceiver::FinAck { ack, crc },
            };
            assert_eq!(decode_from_receiver(&out, 40), Ok(expected));
        }
    }

    #[test]
    fn every_truncation_is_an_error() {
        let syn = bytes(SYN_VECTOR);
        for len in 0..syn.len() {
            let expected = if len < DATA_HEADER { WireError::Truncated } else { WireError::Length };
            assert_eq!(decode_from_sender(&syn[..len], 0), Err(expected), "{len} bytes");
        }
        let mut long = syn.clone();
        long.push(0);
        assert_eq!(decode_from_sender(&long, 0), Err(WireError::Length), "29 bytes");
        let ack = bytes("40aa1183 0a000000 2d000000");
        for len in 0..ack.len() {
            assert_eq!(decode_from_receiver(&ack[..len], 0), Err(WireError::Truncated));
        }
        assert_eq!(decode_from_receiver(&[&ack[..], &[0]].concat(), 0), Err(WireError::Length));
    }

    #[test]
    fn each_direction_has_exactly_its_three_flag_combinations() {
        for flag in 0..=u8::MAX {
            let mut packet = [0; SYN_LEN];
            encode_syn(0, &LINK, &mut packet);
            packet[0] = flag;
            let to_receiver = decode_from_sender(&packet, 0).map(|_| ());
            let to_sender = decode_from_receiver(&packet[..REPLY_LEN], 0).map(|_| ());
            let expect = |good: &[u8]| match flag {
                _ if good.contains(&flag) => Ok(()),
                _ if flag & RESERVED != 0 => Err(WireError::Reserved),
                _ => Err(WireError::Flags),
            };
            assert_eq!(to_receiver, expect(&[0x00, 0x20, 0x80]), "flag byte {flag:#04x}");
            assert_eq!(to_sender, expect(&[0x40, 0x60, 0xC0]), "flag byte {flag:#04x}");
        }
    }

    #[test]
    fn wrong_magic_and_bad_numbers_are_errors() {
        let mut packet = bytes(SYN_VECTOR);
        for byte in 1..4 {
            packet[byte] ^= 1;
            assert_eq!(decode_from_sender(&packet, 0), Err(WireError::Magic));
            packet[byte] ^= 1;
        }
        put(&mut packet, 8, f32::NAN.to_bits());
        assert_eq!(decode_from_sender(&packet, 0), Err(WireError::Link));
        assert_eq!(decode_from_sender(&bytes("00aa1183 ffffffff"), 3), Err(WireError::Sequence));
    }
}
