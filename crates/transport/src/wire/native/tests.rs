//! The format as a whole: the documented vectors, the rules of each field, and hostile bytes.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::ack::ACK_HEADER;
use super::header::{HEADER, VERSION};
use super::*;
use crate::cookie::Cookie;
use crate::wire::{self, DataHeader, Echo, LinkWanted, Marks, Open, PacketKind, Piece, Seal, Wire, tests};

const DATA: u8 = PacketKind::Data as u8;
const CID: u64 = 0x0807_0605_0403_0201;

/// Returns the bytes that the document gives under this name.
fn vector(name: &str) -> Vec<u8> {
    tests::vector("## N6. Vectors", name)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Packet<'a> {
    Up(FromSender<'a>),
    Down(FromReceiver<'a>),
}

/// Both directions have CLOSE; here it counts as a sender's.
fn decode(datagram: &[u8], near: u64) -> Result<Packet<'_>, WireError> {
    let up = decode_from_sender(datagram, near).map(Packet::Up);
    let down = decode_from_receiver(datagram, near).map(Packet::Down);
    match (up, down) {
        (Ok(Packet::Up(FromSender::Close(a))), Ok(Packet::Down(FromReceiver::Close(b)))) => {
            assert_eq!(a, b);
            up
        }
        (Ok(_), Ok(_)) => panic!("{datagram:02x?} is a packet of both directions"),
        (Err(WireError::Type), other) | (other, _) => other,
    }
}

fn encode(packet: &Packet<'_>) -> Vec<u8> {
    let written = |len: usize, write: &dyn Fn(&mut [u8])| {
        // Old contents of the memory must not appear in the packet.
        let mut out = vec![0xEE; len];
        write(&mut out);
        out
    };
    match packet {
        Packet::Up(FromSender::Syn(open)) => {
            let syn = Syn { cookie: open.cookie, params: open.params.unwrap(), name: open.name };
            written(syn_len(&syn), &|out| encode_syn(open.wire.connection_id().unwrap(), &syn, out))
        }
        Packet::Up(FromSender::Data(data)) => {
            let mut out = vec![0xEE; DATA_HEADER];
            let &Piece { seq, packet_number, ack_now, ack_every, .. } = data;
            let header = DataHeader { seq, packet_number: packet_number.unwrap(), ack_now, ack_every };
            encode_data_header(CID, &header, data.crc.unwrap(), &mut out);
            [&out, data.payload].concat()
        }
        Packet::Up(FromSender::Fin { seq, seal, .. }) => {
            let Seal { crc, packet_number } = seal.unwrap();
            let fin = Fin { packet_number, length: *seq, crc };
            written(FIN_LEN, &|out| encode_fin(CID, &fin, out))
        }
        Packet::Up(FromSender::Close(close)) | Packet::Down(FromReceiver::Close(close)) => {
            written(close_len(close), &|out| encode_close(CID, close, out))
        }
        Packet::Down(FromReceiver::Retry(cookie)) => {
            written(RETRY_LEN, &|out| encode_retry(CID, cookie, out))
        }
        Packet::Down(FromReceiver::SynAck { window, params, .. }) => {
            let syn_ack = SynAck { window: *window, params: params.unwrap() };
            written(syn_ack_len(&syn_ack), &|out| encode_syn_ack(CID, &syn_ack, out))
        }
        Packet::Down(FromReceiver::Ack(ack)) => {
            let blocks: Vec<SackBlock> = ack.sack.iter().collect();
            let mut out = vec![0xEE; ack_len(blocks.len())];
            let len = encode_ack(CID, &fields(ack), &blocks, &mut out);
            out.truncate(len);
            out
        }
        Packet::Down(FromReceiver::FinAck { ack, crc }) => {
            let fin_ack = FinAck { length: *ack, crc: *crc };
            written(FIN_ACK_LEN, &|out| encode_fin_ack(CID, &fin_ack, out))
        }
        Packet::Down(FromReceiver::Versions(versions)) => {
            written(VERSIONS_LEN, &|out| encode_versions(CID, *versions, out))
        }
    }
}

/// Returns the fields that are encoded to this ACK.
pub(in crate::wire) fn fields(ack: &wire::Ack<'_>) -> Ack {
    let (echo, marks) = (ack.echo.unwrap(), ack.marks.unwrap());
    Ack {
        largest_received: echo.packet_number,
        echo_delay_us: u32::try_from(echo.delay.as_micros()).unwrap(),
        ack: ack.ack,
        window: ack.window,
        packets: marks.packets,
        duplicates: ack.duplicates.unwrap(),
        ce: marks.ce,
        ect: marks.ect,
        overflow: ack.overflow,
    }
}

/// Returns the packet of a receiver with these fields.
fn down(fields: Ack, sack: SackBlocks<'_>) -> Packet<'_> {
    let delay = Duration::from_micros(u64::from(fields.echo_delay_us));
    Packet::Down(FromReceiver::Ack(wire::Ack {
        ack: fields.ack,
        window: fields.window,
        sack,
        echo: Some(Echo { packet_number: fields.largest_received, delay }),
        duplicates: Some(fields.duplicates),
        marks: Some(Marks { packets: fields.packets, ce: fields.ce, ect: fields.ect }),
        overflow: fields.overflow,
    }))
}

fn syn(cookie: Option<Cookie>, params: Params, name: Option<&str>) -> Packet<'_> {
    let (wire, link) = (Wire::Native { connection_id: CID }, params.link.map(LinkWanted::Bytes));
    Packet::Up(FromSender::Syn(Open { wire, seq: 0, cookie, link, params: Some(params), name }))
}

fn piece(packet_number: u64, seq: u64, payload: &[u8]) -> Piece<'_> {
    let crc = Some(crc32fast::hash(payload));
    Piece { seq, payload, packet_number: Some(packet_number), crc, ack_now: false, ack_every: 0 }
}

/// Corrects the check of a packet after a change.
fn reseal(packet: &mut [u8]) {
    let has_payload = matches!(packet.get(1), Some(&DATA));
    let head = if has_payload { DATA_HEADER.min(packet.len()) } else { packet.len() };
    if head >= HEADER {
        let payload_crc = crc32fast::hash(&packet[head..]);
        header::seal(&mut packet[..head], payload_crc);
    }
}

/// Returns a changed vector with a correct check.
fn changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = vector(name);
    change(&mut packet);
    reseal(&mut packet);
    packet
}

fn refused(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> WireError {
    decode(&changed(name, change), 0x0102_0000).unwrap_err()
}

fn cookie() -> Cookie {
    std::array::from_fn(|i| 0x20 + u8::try_from(i).unwrap())
}

fn full_params() -> Params {
    Params {
        max_datagram: 9000,
        ack_delay_max_us: 10_000,
        ack_every: 8,
        idle_timeout_ms: 25_000,
        versions: Versions::from_bits(0b110).unwrap(),
        ecn: true,
        link: Some(LinkRequest {
            rtt_us: 100_000,
            rate_bps: 14_000_000,
            loss_forward_ppb: 10_000_000,
            loss_reverse_ppb: 5_000_000,
            queue_bytes: 19_136,
        }),
        attempt: 2,
        overflow: false,
    }
}

fn ack() -> Ack {
    let (largest_received, ack) = (0x0102_0304, 14_440);
    Ack {
        largest_received,
        echo_delay_us: 250,
        ack,
        window: 1 << 20,
        packets: 12,
        duplicates: 1,
        ce: 2,
        ect: 9,
        overflow: None,
    }
}

fn data(packet_number: u64, offset: u64, ack_now: bool, payload: &[u8]) -> Packet<'_> {
    Packet::Up(FromSender::Data(Piece { ack_now, ..piece(packet_number, offset, payload) }))
}

fn no_blocks(ack: u64) -> SackBlocks<'static> {
    let mut datagram = vec![0; ack_len(0)];
    let len = encode_ack(CID, &Ack { ack, ..self::ack() }, &[], &mut datagram);
    datagram.truncate(len);
    match decode_from_receiver(datagram.leak(), 0) {
        Ok(FromReceiver::Ack(ack)) => ack.sack,
        other => panic!("{other:?}"),
    }
}

const NAMES: [&str; 17] = [
    "SYN", "SYN+", "SYN++", "NAMED", "RETRY", "SYN-ACK", "DATA", "DATA+", "EMPTY", "ACK", "ACK+", "ACK-",
    "FIN", "FIN-ACK", "CLOSE", "CLOSE+", "VERSIONS",
];

#[test]
fn documented_vectors_hold_both_ways() {
    let params = Params::default();
    let fin_crc = 0xFC19_A074;
    let expected = [
        syn(None, params, None),
        syn(Some(cookie()), full_params(), None),
        syn(None, Params { overflow: true, ..params }, None),
        syn(Some(cookie()), params, Some("data.bin")),
        Packet::Down(FromReceiver::Retry(cookie())),
        Packet::Down(FromReceiver::SynAck { ack: 0, window: 1 << 20, params: Some(params) }),
        data(0x0102_0304, 14_440, true, &[7, 9]),
        Packet::Up(FromSender::Data(Piece { ack_every: 64, ..piece(0x0102_0304, 14_440, &[7, 9]) })),
        data(5, 1 << 33, true, &[]),
        down(Ack { overflow: Some(3), ..ack() }, no_blocks(14_440)),
        down(
            Ack { largest_received: 9, packets: 10, duplicates: 0, ce: 0, ect: 0, ..ack() },
            no_blocks(14_440),
        ),
        Packet::Up(FromSender::Fin {
            seq: 65_536,
            seal: Some(Seal { crc: fin_crc, packet_number: 7 }),
            understands_ack: true,
        }),
        Packet::Down(FromReceiver::FinAck { ack: 65_536, crc: fin_crc }),
        Packet::Up(FromSender::Close(Close::new(CloseReason::Refused, "too busy"))),
        Packet::Up(FromSender::Close(Close::to_unknown(0x0102_0304))),
        Packet::Down(FromReceiver::Versions(Versions::OURS)),
    ];
    for (name, packet) in NAMES.into_iter().filter(|name| *name != "ACK").zip(expected) {
        let bytes = vector(name);
        assert_eq!(decode(&bytes, 0), Ok(packet), "{name}");
        assert_eq!(encode(&packet), bytes, "{name}");
        assert!(recognize(&bytes) && connection_id(&bytes) == Some(CID), "{name}");
    }

    let bytes = vector("ACK");
    let Ok(FromReceiver::Ack(decoded)) = decode_from_receiver(&bytes, 0) else { panic!() };
    let blocks = [SackBlock { start: 15_884, end: 15_886 }, SackBlock { start: 17_328, end: 18_772 }];
    assert_eq!((fields(&decoded), decoded.sack.iter().collect::<Vec<_>>()), (ack(), blocks.to_vec()));
    assert_eq!(encode(&Packet::Down(FromReceiver::Ack(decoded))), bytes);
}

#[test]
fn check_finds_single_and_adjacent_bit_flips() {
    for name in NAMES {
        let good = vector(name);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            decode(&bad, 0).expect_err(&format!("{name}, bit {bit}"));
            if let Some(byte) = bad.get_mut((bit + 1) / 8) {
                *byte ^= 1 << ((bit + 1) % 8);
                decode(&bad, 0).expect_err(&format!("{name}, bits {bit} and the next"));
            }
        }
    }
}

/// An exclusive or of two CRCs would not detect this: the same change at the same distance from the
/// end of the header and of the payload.
#[test]
fn check_finds_header_and_payload_flips() {
    let good = encode(&data(9, 1 << 20, false, &[0x55; 64]));
    for first in 0..DATA_HEADER * 8 {
        for second in DATA_HEADER * 8..good.len() * 8 {
            let mut bad = good.clone();
            bad[first / 8] ^= 1 << (first % 8);
            bad[second / 8] ^= 1 << (second % 8);
            assert!(decode(&bad, 0).is_err(), "bits {first} and {second}");
        }
    }
}

#[test]
fn truncated_and_extended_packets_are_refused() {
    for name in NAMES {
        let mut packet = vector(name);
        for len in 0..packet.len() {
            decode(&packet[..len], 0).expect_err(&format!("{name}, {len} bytes"));
        }
        for tail in [0, 0xFF] {
            packet.push(tail);
            decode(&packet, 0).expect_err(&format!("{name} and {tail:#04x}"));
            packet.pop();
        }
    }
}

/// Changes valid packets at random and corrects their check, so that every later rule is reached.
#[test]
fn accepted_random_bytes_encode_to_equal_packets() {
    let seed = 0x5EED_0003;
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut accepted, rounds) = (0_u32, 200_000);
    for round in 0..rounds {
        let name = NAMES[rng.random_range(0..NAMES.len())];
        let mut packet = tests::cached("## N6. Vectors", name);
        tests::damage(&mut packet, &mut rng);
        reseal(&mut packet);
        let near = if rng.random_bool(0.5) { 0 } else { rng.random() };
        let Ok(decoded) = decode(&packet, near) else { continue };
        accepted += 1;
        if let Packet::Down(FromReceiver::Ack(ack)) = decoded {
            assert!(ack.ack.checked_add(ack.window).is_some() && ack.sack.iter().len() <= MAX_SACK_BLOCKS);
            assert!(ack.sack.iter().all(|block| ack.ack < block.start && block.start < block.end));
        }
        let again = encode(&decoded);
        let what = format!("seed {seed:#x}, round {round}, {name}: {packet:02x?}");
        assert_eq!(decode(&again, near), Ok(decoded), "{what}");
        assert!(recognize(&packet) && connection_id(&packet).is_some(), "{what}");
    }
    assert!(accepted > rounds / 20 && accepted < rounds, "{accepted} of {rounds} were accepted");
}

#[test]
fn transmission_numbers_unwrap_to_nonnegative() {
    let near = (7 << 32) - 2;
    for packet_number in near - 1000..near + 1000 {
        let FromSender::Fin { seal: Some(fin), .. } =
            decode_from_sender(&encode(&fin(packet_number)), near).unwrap()
        else {
            panic!()
        };
        assert_eq!(fin.packet_number, packet_number);
        let bytes = encode(&data(packet_number, 0, false, b"x"));
        let FromSender::Data(data) = decode_from_sender(&bytes, near).unwrap() else { panic!() };
        assert_eq!(data.packet_number, Some(packet_number));
    }
    for packet in [fin(u64::MAX), data(u64::MAX, 0, false, &[])] {
        assert_eq!(decode(&encode(&packet), 3), Err(WireError::Sequence));
    }
    let before = Ack { largest_received: u64::MAX, ..ack() };
    let packet = down(before, no_blocks(14_440));
    assert_eq!(decode(&encode(&packet), 3), Err(WireError::Sequence));
}

fn fin(packet_number: u64) -> Packet<'static> {
    let seal = Some(Seal { crc: 0, packet_number });
    Packet::Up(FromSender::Fin { seq: 0, seal, understands_ack: true })
}

#[test]
fn formats_versions_and_directions_are_told_apart() {
    assert!(!recognize(&[]) && !recognize(&[0xD1]) && !recognize(&[0xD1, 0xAA, 0x11, 0x83]));
    assert!(!recognize(&[0x20, 0xAA]) && !recognize(&[0xC1, 1]) && recognize(&[0xDF, 0]));
    assert_eq!(connection_id(&vector("SYN")[..HEADER - 1]), None);
    assert_eq!(refused("SYN", |p| p[0] = 0x11), WireError::Magic);
    assert_eq!(refused("SYN", |p| p[1] = 0xAA), WireError::Magic);
    assert_eq!(refused("SYN", |p| p[0] = 0xD2), WireError::Version);
    assert_eq!(refused("VERSIONS", |p| p[0] = 0xD1), WireError::Version);
    for kind in (0..=u8::MAX).filter(|kind| (!(1..=10).contains(kind) || *kind == 5) && *kind != 0xAA) {
        assert_eq!(refused("SYN", |p| p[1] = kind), WireError::Type, "type {kind}");
    }
    for name in ["SYN", "DATA", "FIN"] {
        assert_eq!(decode_from_receiver(&vector(name), 0), Err(WireError::Type), "{name}");
    }
    for name in ["RETRY", "SYN-ACK", "ACK", "FIN-ACK", "VERSIONS"] {
        assert_eq!(decode_from_sender(&vector(name), 0), Err(WireError::Type), "{name}");
    }
}

#[test]
fn versions_answers_only_full_foreign_syn() {
    let mut syn = vector("SYN");
    for version in 0..16 {
        syn[0] = 0xD0 | version;
        assert_eq!(other_version(Versions::OURS, &syn), None, "version {version}, its check wrong");
        header::seal(&mut syn, 0);
        let expected = (version != 0 && version != VERSION).then_some(CID);
        assert_eq!(other_version(Versions::OURS, &syn), expected, "version {version}");
    }
    assert_eq!(other_version(Versions::OURS, &syn[..SYN_MIN - 1]), None);
    syn[1] = DATA;
    header::seal(&mut syn, 0);
    assert_eq!(other_version(Versions::OURS, &syn), None);
    assert_eq!(other_version(Versions::OURS, &[]), None);
    assert_eq!(other_version(Versions::OURS, &[0xD2]), None);
}

#[test]
fn reserved_bits_and_fields_are_refused() {
    for name in ["RETRY", "FIN", "FIN-ACK"] {
        for byte in 2..4 {
            assert_eq!(refused(name, |p| p[byte] = 1), WireError::Reserved, "{name}");
        }
    }
    for bit in 6..14 {
        assert_eq!(refused("ACK", |p| p[2 + bit / 8] ^= 1 << (bit % 8)), WireError::Reserved, "bit {bit}");
    }
    assert_eq!(refused("FIN-ACK", |p| p[28] = 1), WireError::Reserved);
    for bits in [0, 1, 3] {
        assert_eq!(refused("VERSIONS", |p| p[2] = bits), WireError::Params);
    }
}

#[test]
fn lengths_are_exact_where_the_type_has_one() {
    for (name, len) in [("RETRY", RETRY_LEN), ("FIN", FIN_LEN), ("FIN-ACK", FIN_ACK_LEN), ("VERSIONS", 16)] {
        assert_eq!(vector(name).len(), len);
        assert_eq!(refused(name, |p| p.push(0)), WireError::Length, "{name}");
        assert_eq!(refused(name, |p| p.truncate(len - 1)), WireError::Truncated, "{name}");
    }
    assert_eq!(refused("SYN", |p| p.truncate(SYN_MIN - 1)), WireError::Truncated);
    assert_eq!(refused("SYN-ACK", |p| p.push(0)), WireError::Length);
    assert_eq!(refused("ACK", |p| p.push(0)), WireError::Length);
    assert_eq!(refused("ACK", |p| p[2] = 1), WireError::Length);
    assert_eq!(refused("ACK+", |p| p.truncate(34)), WireError::Length, "the count that it promises");
    assert_eq!(refused("ACK+", |p| p[3] = 0x40), WireError::Length, "a count that nothing announces");
    assert_eq!(refused("ACK-", |p| p[3] = 0x40), WireError::Length, "no counts of codepoints");
    assert_eq!(refused("ACK-", |p| p.truncate(ACK_HEADER - 1)), WireError::Truncated);
    assert_eq!(refused("DATA", |p| p.truncate(DATA_HEADER - 1)), WireError::Truncated);
    assert!(decode(&changed("SYN", |p| p.resize(1472, 0x77)), 0).is_ok(), "a SYN may be padded further");
    for len in [1, 31, 33, 255] {
        assert_eq!(refused("SYN+", |p| p[16] = len), WireError::Length, "a cookie of {len} bytes");
    }
}

#[test]
fn offsets_windows_and_blocks_stay_countable() {
    assert_eq!(refused("DATA", |p| p[20..28].fill(0xFF)), WireError::Sequence);
    assert!(decode(&changed("EMPTY", |p| p[20..28].fill(0xFF)), 0).is_ok());
    let numbers = |ack: u64, window: u64, steps: &[u64], blocks: u8| {
        changed("ACK-", |p| {
            p[2] = blocks;
            p.truncate(ACK_HEADER);
            for number in [250, ack, window, 0, 0].iter().chain(steps) {
                let mut varint = [0; 10];
                let len = varint::put_varint(*number, &mut varint);
                p.extend(&varint[..len]);
            }
        })
    };
    let read = |ack, window, steps: &[u64]| {
        let blocks = u8::try_from(steps.len() / 2).unwrap();
        decode(&numbers(ack, window, steps, blocks), 0).map(|_| ())
    };
    assert_eq!(read(14_440, u64::MAX - 14_440, &[]), Ok(()));
    assert_eq!(read(14_440, u64::MAX - 14_439, &[]), Err(WireError::Window));
    assert_eq!(read(10, 1, &[1, 1, 1, u64::MAX - 13]), Ok(()), "up to the last offset");
    for bad in [[0, 1], [1, 0], [1, u64::MAX - 10], [u64::MAX, 1]] {
        assert_eq!(read(10, 1, &bad), Err(WireError::Sack), "{bad:?}");
    }
    assert_eq!(read(10, 1, &[1; 64]), Ok(()));
    assert_eq!(read(10, 1, &[1; 66]), Err(WireError::Sack), "33 blocks");
    assert_eq!(decode(&numbers(10, 1, &[1; 3], 2), 0), Err(WireError::Length));
    let blocks: Vec<_> = (1..=33).map(|n| SackBlock { start: 20_000 * n, end: 20_000 * n + 1 }).collect();
    let mut out = vec![0; ack_len(33)];
    let len = encode_ack(CID, &ack(), &blocks, &mut out);
    let Ok(FromReceiver::Ack(wire::Ack { sack, .. })) = decode_from_receiver(&out[..len], 0) else {
        panic!()
    };
    assert!(sack.iter().eq(blocks[..32].iter().copied()), "the 33rd is left off");
}

#[test]
fn no_ack_is_longer_than_said() {
    let most = Ack {
        echo_delay_us: u32::MAX,
        ack: u64::MAX - 100,
        window: 100,
        packets: 0x0102_0306,
        duplicates: u32::MAX,
        ce: u32::MAX,
        ect: 0x0102_0308,
        overflow: Some(u32::MAX),
        ..ack()
    };
    let mut out = vec![0; ack_len(0)];
    // A window of 64 bits and a cumulative ACK of 64 bits together exceed the range of offsets.
    assert_eq!(encode_ack(CID, &most, &[], &mut out), ack_len(0) - 9);
    assert_eq!((ack_len(33), most_blocks(ack_len(7)), most_blocks(ack_len(7) - 1)), (ack_len(32), 7, 6));
}

#[test]
fn close_carries_200_bytes_and_every_code() {
    let long = "é".repeat(150);
    let close = Close { reason: CloseReason::Storage, answers: None, text: &long };
    let bytes = encode(&Packet::Up(FromSender::Close(close)));
    assert_eq!(bytes.len(), 216);
    let cut = Close { text: &long[..200], ..close };
    assert_eq!(decode(&bytes, 0), Ok(Packet::Up(FromSender::Close(cut))));
    assert_eq!(Close::new(CloseReason::Storage, &long), cut);
    assert_eq!(Close::new(CloseReason::Storage, &format!("a{long}")).text.len(), 199, "no half character");
    assert_eq!(refused("CLOSE", |p| p.resize(217, b'x')), WireError::Length);
    assert_eq!(refused("CLOSE", |p| p.push(0xC3)), WireError::Text);
    for code in 0..=u16::MAX {
        assert_eq!(CloseReason::from_code(code).code(), code);
    }
}

#[test]
fn reset_names_packet_and_is_shorter() {
    let near = (7 << 32) - 2;
    for packet_number in near - 1000..near + 1000 {
        let bytes = encode(&Packet::Down(FromReceiver::Close(Close::to_unknown(packet_number))));
        assert_eq!(decode(&bytes, near), Ok(Packet::Up(FromSender::Close(Close::to_unknown(packet_number)))));
        assert!(bytes.len() < DATA_HEADER.min(FIN_LEN));
    }
    assert_eq!(refused("CLOSE+", |p| p.truncate(19)), WireError::Truncated, "no number");
    let words = Close { text: "who are you?", ..Close::to_unknown(3) };
    assert_eq!(
        decode(&encode(&Packet::Up(FromSender::Close(words))), 0),
        Ok(Packet::Up(FromSender::Close(words)))
    );
    let before = Packet::Up(FromSender::Close(Close::to_unknown(u64::MAX)));
    assert_eq!(decode(&encode(&before), 3), Err(WireError::Sequence));
}

#[test]
fn longest_name_fits_smallest_path() {
    let name = "n".repeat(StreamName::MAX_LEN);
    let bytes = encode(&syn(Some(cookie()), full_params(), Some(&name)));
    assert!(bytes.len() <= SMALLEST_PATH, "{}", bytes.len());
    assert_eq!(decode(&bytes, 0), Ok(syn(Some(cookie()), full_params(), Some(&name))));
}

#[test]
fn empty_long_or_damaged_names_are_refused() {
    let list = |name: &[u8]| {
        let len = u16::try_from(name.len()).unwrap();
        [&params::NAME.to_le_bytes()[..], &len.to_le_bytes(), name].concat()
    };
    let (longest, longer) = ([b'n'; 240], [b'n'; 241]);
    let hostile = list(b"../etc/\x00passwd");
    assert_eq!(Params::decode_syn(&hostile).map(|(_, name)| name), Ok(Some("../etc/\0passwd")));
    assert!(Params::decode_syn(&list(&longest)).is_ok());
    for name in [&[][..], &longer, b"\xFF", b"ab\xC3"] {
        assert_eq!(Params::decode_syn(&list(name)), Err(WireError::Params), "{name:?}");
    }
    assert_eq!(Params::decode(&list(&longer)), Ok(Params::default()), "no meaning in a SYN-ACK");
}

#[test]
fn syn_answers_fit_the_shortest_syn() {
    let syn_ack = SynAck { window: u64::MAX, params: full_params() };
    assert!(syn_ack_len(&syn_ack) <= SYN_MIN);
    assert_eq!(syn_len(&Syn { cookie: None, params: Params::default(), name: None }), SYN_MIN);
    assert_eq!(syn_len(&Syn { cookie: Some(cookie()), params: full_params(), name: None }), SYN_MIN);
    let telling = Params { link: None, overflow: true, ..full_params() };
    assert_eq!(syn_len(&Syn { cookie: Some(cookie()), params: telling, name: None }), SYN_MIN);
}
