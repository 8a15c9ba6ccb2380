//! The format as a whole: the documented vectors, the rules of each field, and hostile bytes.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rdt_crypto::{Aead, PacketKey, ResetToken};

use super::header::{HEADER, SEALED_MIN};
use super::stream::{FIN_HEADER, encode_fin_header};
use super::*;
use crate::wire::{self, DataHeader, tests};

const CID: u64 = 0x0807_0605_0403_0201;
const RANDOM: u64 = 0x1817_1615_1413_1211;
const OFFSET: u64 = 14_440;
const NOISE: [u8; 8] = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7];
const HEADING: &str = "## N9. Vectors";

const CLEAR: [&str; 10] =
    ["SYN", "SYN+", "SYN++", "RETRY", "SYN-ACK", "AUTH", "REFUSE", "VERSIONS", "RESET", "OPEN"];
const SEALED: [&str; 11] =
    ["DATA", "DATA+", "EMPTY", "ACK", "FIN", "FIN+", "FIN-ACK", "CLOSE", "PATH", "PATH+", "OPEN-ACK"];

fn vector(name: &str) -> Vec<u8> {
    tests::cached(HEADING, name)
}

/// Returns consecutive bytes from `first` on.
fn bytes<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|i| first + u8::try_from(i).unwrap())
}

fn token() -> ResetToken {
    ResetToken::from_wire(bytes(0x40))
}

/// Decodes a packet that is not sealed yet, with its number near `near`.
fn open(packet: &[u8], near: u64) -> Result<(Header, Body<'_>), WireError> {
    let header = peek(packet).ok_or(WireError::Type)?;
    let number = super::super::unwrap_near(header.number, near).ok_or(WireError::Sequence)?;
    let body = Body::decode(&header, number, &packet[HEADER..packet.len() - TAG], near)?;
    Ok((header, body))
}

fn encode_clear(packet: &Clear<'_>) -> Vec<u8> {
    let written = |len: usize, write: &dyn Fn(&mut [u8])| {
        // Old contents of the memory must not appear in the packet.
        let mut out = vec![0xEE; len];
        write(&mut out);
        out
    };
    match packet {
        Clear::Syn(syn) => {
            // A SYN from the network may be longer.
            written(SYN_MIN.max(100 + syn.noise.len()), &|out| encode_syn(CID, syn, out))
        }
        Clear::Retry(cookie) => written(RETRY_LEN, &|out| encode_retry(CID, cookie, out)),
        Clear::SynAck { attempt, noise } => {
            written(syn_ack_len(noise), &|out| encode_syn_ack(CID, *attempt, noise, out))
        }
        Clear::Auth { noise } => encode_auth(CID, noise),
        Clear::Open(open) => encode_open(CID, open),
        Clear::Refuse(reason) => written(REFUSE_LEN, &|out| encode_refuse(CID, *reason, out)),
        Clear::Versions(versions) => written(VERSIONS_LEN, &|out| encode_versions(CID, *versions, out)),
        Clear::Reset(token) => written(RESET_LEN, &|out| encode_reset(CID, token, out)),
    }
}

/// Writes a body with the header's phase and number, and zeros for the tag.
fn encode_sealed(header: &Header, body: &Body<'_>) -> Vec<u8> {
    let (connection_id, phase, number) = (header.connection_id, header.phase(), u64::from(header.number));
    let control = ControlHeader { connection_id, phase, number };
    let mut out = vec![0xEE; 2000];
    let len = match body {
        Body::Data { piece, ack } => {
            let &Piece { seq, ack_now, ack_every, .. } = piece;
            let data = DataHeader { seq, packet_number: number, ack_now, ack_every };
            encode_data_header(connection_id, phase, &data, ack.is_some(), &mut out);
            let end = DATA_HEADER + ack.map_or(0, |ack| put_ack(&ack, &mut out[DATA_HEADER..]));
            out.truncate(end);
            out.extend_from_slice(piece.payload);
            out.len()
        }
        Body::Fin { length, ack } => {
            encode_fin_header(connection_id, phase, number, *length, ack.is_some(), &mut out);
            FIN_HEADER + ack.map_or(0, |ack| put_ack(&ack, &mut out[FIN_HEADER..]))
        }
        Body::Ack(ack) => {
            let (fields, blocks) = fields(ack);
            let mut body = vec![0; ack_body_len(blocks.len())];
            let len = encode_ack_body(&fields, &blocks, &mut body);
            body.truncate(len);
            encode_ack(&control, &body, &mut out);
            ack_len(body.len()) - TAG
        }
        Body::FinAck { length } => {
            encode_fin_ack(&control, *length, &mut out);
            FIN_ACK_LEN - TAG
        }
        Body::Close(close) => {
            encode_close(&control, close, &mut out);
            close_len(close.text) - TAG
        }
        Body::Path(probe) => {
            encode_path(&control, probe, &mut out);
            PATH_LEN - TAG
        }
        Body::OpenAck(token) => {
            encode_open_ack(&control, token, &mut out);
            OPEN_ACK_LEN - TAG
        }
    };
    out.truncate(len);
    out.extend([0; TAG]);
    out
}

fn put_ack(ack: &wire::Ack<'_>, out: &mut [u8]) -> usize {
    let (fields, blocks) = fields(ack);
    encode_ack_body(&fields, &blocks, out)
}

/// Returns the fields and blocks that are encoded to this ACK.
fn fields(ack: &wire::Ack<'_>) -> (Ack, Vec<SackBlock>) {
    let (echo, marks) = (ack.echo.unwrap(), ack.marks.unwrap());
    let fields = Ack {
        largest_received: echo.packet_number,
        sent_us: ack.sent_us.unwrap(),
        echo_delay_us: u32::try_from(echo.delay.as_micros()).unwrap(),
        ack: ack.ack,
        window: ack.window,
        packets: marks.packets,
        duplicates: ack.duplicates.unwrap(),
        ce: marks.ce,
        ect: marks.ect,
        overflow: ack.overflow,
    };
    (fields, ack.sack.iter().collect())
}

fn changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = vector(name);
    change(&mut packet);
    correct(&mut packet);
    packet
}

/// Corrects the check of a packet that is not sealed.
fn correct(packet: &mut [u8]) {
    if packet.len() >= HEADER && !matches!(packet[1], 4..=9 | 12 | 13) {
        check::write(packet);
    }
}

fn refused(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> WireError {
    let packet = changed(name, change);
    if CLEAR.contains(&name) { Clear::decode(&packet).unwrap_err() } else { open(&packet, 0).unwrap_err() }
}

fn syn() -> Syn<'static> {
    Syn {
        proof: Proof::None,
        attempt: 1,
        pattern: 3,
        aeads: 0x87,
        versions: Versions::from_bits(0b100).unwrap(),
        secret_id: 0,
        noise: &NOISE,
    }
}

fn full_params() -> Params {
    let link = LinkRequest {
        rtt_us: 100_000,
        rate_bps: 14_000_000,
        loss_forward_ppb: 10_000_000,
        loss_reverse_ppb: 5_000_000,
        queue_bytes: 19_136,
    };
    Params {
        max_datagram: 9000,
        ack_delay_max_us: 10_000,
        ack_every: 8,
        idle_timeout_ms: 25_000,
        ecn: true,
        link: Some(link),
        associations: 0x0403_0201,
        overflow: true,
        wanted_ack_delay_us: 5000,
        wanted_ack_every: 4,
        is_one_way: true,
        aead: 2,
        service: Service::new("rdt-file").unwrap(),
    }
}

#[test]
fn clear_vectors_decode_and_encode() {
    let versions = Versions::from_bits(0b110).unwrap();
    let expected = [
        Clear::Syn(syn()),
        Clear::Syn(Syn {
            proof: Proof::Retry(bytes(0x20)),
            attempt: 2,
            pattern: 0x13,
            aeads: 7,
            versions,
            secret_id: RANDOM,
            noise: &NOISE,
        }),
        Clear::Syn(Syn {
            proof: Proof::Resumption(bytes(0x20)),
            pattern: 1,
            aeads: 0x84,
            noise: &NOISE,
            ..syn()
        }),
        Clear::Retry(bytes(0x20)),
        Clear::SynAck { attempt: 2, noise: &NOISE },
        Clear::Auth { noise: &NOISE },
        Clear::Refuse(9),
        Clear::Versions(Versions::from_bits(0b10100).unwrap()),
        Clear::Reset(token()),
        Clear::Open(Open { association: RANDOM, number: 258, hello: &bytes::<24>(0xa0) }),
    ];
    for (name, packet) in CLEAR.into_iter().zip(expected) {
        let bytes = vector(name);
        assert_eq!(Clear::decode(&bytes), Ok(packet), "{name}");
        assert_eq!(encode_clear(&packet), bytes, "{name}");
        assert!(recognize(&bytes) && connection_id(&bytes) == Some(CID), "{name}");
        assert_eq!(peek(&bytes), None, "{name}");
    }
}

#[test]
fn sealed_vectors_decode_and_encode() {
    let piece = |packet_number, seq, payload, ack_now, ack_every| Piece {
        seq,
        payload,
        packet_number: Some(packet_number),
        ack_now,
        ack_every,
    };
    let (ack, plain) = (vector("ACK"), vector("FIN+"));
    let Ok((_, Body::Ack(ack))) = open(&ack, 0) else { panic!() };
    let Ok((_, Body::Fin { ack: Some(plain), .. })) = open(&plain, 0) else { panic!() };
    let blocks = [SackBlock { start: 15_884, end: 15_886 }, SackBlock { start: 17_328, end: 18_772 }];
    assert!(ack.sack.iter().eq(blocks) && (ack.ack, ack.window) == (OFFSET, 1 << 20));
    assert_eq!(ack.echo.map(|echo| echo.delay), Some(Duration::from_micros(250)));
    assert_eq!(ack.sent_us, Some(0x0c0b_0a09));
    let expected = [
        (1, Body::Data { piece: piece(0x0102_0304, OFFSET, &[7, 9][..], true, 64), ack: None }),
        (3, Body::Data { piece: piece(5, 1 << 33, &[7], false, 0), ack: Some(ack) }),
        (0, Body::Data { piece: piece(6, OFFSET, &[], true, 0), ack: None }),
        (0, Body::Ack(ack)),
        (1, Body::Fin { length: 65_536, ack: None }),
        (1, Body::Fin { length: 65_536, ack: Some(plain) }),
        (0, Body::FinAck { length: 65_536 }),
        (2, Body::Close(Close { reason: CloseReason::Aborted, code: 42, text: "too busy" })),
        (0, Body::Path(Probe { is_response: false, random: RANDOM })),
        (0, Body::Path(Probe { is_response: true, random: RANDOM })),
        (0, Body::OpenAck(token())),
    ];
    for (name, (phase, body)) in SEALED.into_iter().zip(expected) {
        let bytes = vector(name);
        let (header, decoded) = open(&bytes, 0).unwrap();
        assert_eq!((header.phase(), decoded), (phase, body), "{name}");
        assert_eq!(encode_sealed(&header, &body), bytes, "{name}");
        assert!(recognize(&bytes) && connection_id(&bytes) == Some(CID), "{name}");
        assert!(bytes.len() >= SEALED_MIN && Clear::decode(&bytes) == Err(WireError::Type), "{name}");
    }
}

#[test]
fn sealed_vectors_open_to_their_plaintext() {
    let sealing = PacketKey::new(Aead::Aes128Gcm, &bytes::<16>(0), bytes(0x10));
    let checking = PacketKey::new(Aead::None, &[], bytes(0x10));
    for (name, plain, key) in [
        ("SEALED", "DATA", &sealing),
        ("SEALED+", "PATH", &sealing),
        ("CHECKED", "DATA", &checking),
        ("CHECKED+", "PATH", &checking),
    ] {
        let (mut packet, mut plain) = (vector(name), vector(plain));
        let header = peek(&plain).unwrap();
        let number = u64::from(header.number);
        let body = plain[HEADER..plain.len() - TAG].to_vec();
        assert_eq!(key.open(header.space(), number, &mut packet).unwrap(), body, "{name}");
        key.seal(header.space(), number, &mut plain);
        assert_eq!(plain, vector(name), "{name}");
    }
}

#[test]
fn payload_vectors_decode_and_encode() {
    let hello =
        Hello { window: 1 << 20, reset_token: token(), params: Params::default(), name: None, instead: None };
    let named = Hello { name: StreamName::new("data.bin"), ..hello.clone() };
    let full = Hello { params: full_params(), ..hello.clone() };
    let instead = Some(Instead {
        association: RANDOM,
        number: 258,
        age_ms: 250,
        scope: 0x0403_0201,
        proof: 0x0807_0605,
    });
    let replacing = Hello { instead, ..named.clone() };
    for (name, hello) in [("HELLO", hello), ("HELLO+", full), ("HELLO++", named), ("HELLO+++", replacing)] {
        assert_eq!(hello.encode(), vector(name), "{name}");
        assert_eq!(Hello::decode(&vector(name)), Ok(hello), "{name}");
    }
    let welcome = Welcome {
        aead: 1,
        versions: Versions::from_bits(0b100).unwrap(),
        connection_id: RANDOM,
        reset_token: token(),
        window: 1 << 20,
        params: Params::default(),
        resumption: None,
    };
    let versions = Versions::from_bits(0b110).unwrap();
    let service = full_params().service;
    let params = Params { service, ..Params::default() };
    let with_cookie = Welcome { aead: 3, versions, params, resumption: Some(bytes(0x20)), ..welcome };
    let accepted = [Reply::Accepted(welcome), Reply::Accepted(with_cookie)];
    let replies = accepted.into_iter().chain([Reply::Refused(10), Reply::OtherService(service)]);
    for (name, reply) in ["WELCOME", "WELCOME+", "REFUSED", "REFUSED+"].into_iter().zip(replies) {
        assert_eq!(Reply::decode(&vector(name)), Ok(reply), "{name}");
        assert_eq!(reply.encode(), vector(name), "{name}");
    }
}

#[test]
fn cut_and_extended_packets_are_refused() {
    for name in CLEAR {
        let mut packet = vector(name);
        for len in 0..packet.len() {
            Clear::decode(&packet[..len]).expect_err(&format!("{name}, {len} bytes"));
        }
        packet.push(0);
        Clear::decode(&packet).expect_err(name);
    }
    for name in ["ACK", "FIN", "FIN+", "FIN-ACK", "PATH"] {
        for len in 0..vector(name).len() {
            open(&vector(name)[..len], 0).expect_err(&format!("{name}, {len} bytes"));
        }
        let mut packet = vector(name);
        packet.push(0);
        open(&packet, 0).expect_err(name);
    }
    for name in ["HELLO", "HELLO+", "WELCOME", "WELCOME+", "REFUSED"] {
        let decodes = |payload: &[u8]| {
            if name.starts_with("HELLO") {
                Hello::decode(payload).is_ok()
            } else {
                Reply::decode(payload).is_ok()
            }
        };
        let mut payload = vector(name);
        assert!(!(0..payload.len()).any(|len| decodes(&payload[..len])), "{name}");
        payload.push(0);
        assert!(decodes(&vector(name)) && !decodes(&payload), "{name}");
    }
}

#[test]
fn check_finds_flipped_bits() {
    for name in CLEAR.into_iter().filter(|name| *name != "RESET") {
        let good = vector(name);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            Clear::decode(&bad).expect_err(&format!("{name}, bit {bit}"));
        }
    }
}

#[test]
fn reserved_bits_and_values_are_refused() {
    for name in ["ACK", "FIN-ACK", "CLOSE", "PATH"] {
        for bit in 2..16 {
            let refusal = refused(name, |p| p[2 + bit / 8] ^= 1 << (bit % 8));
            assert_eq!(refusal, WireError::Reserved, "{name}, bit {bit}");
        }
    }
    for bit in [2].into_iter().chain(4..16) {
        assert_eq!(refused("FIN", |p| p[2 + bit / 8] ^= 1 << (bit % 8)), WireError::Reserved, "bit {bit}");
    }
    assert_eq!(refused("FIN-ACK", |p| p[24] = 1), WireError::Reserved);
    assert_eq!(refused("PATH", |p| p[16] = 2), WireError::Reserved);
    for reason in [6, 8] {
        assert_eq!(refused("CLOSE", |p| p[16] = reason), WireError::Reserved, "reason {reason}");
    }
    assert_eq!(refused("CLOSE", |p| p[22] = 0xC3), WireError::Text);
    assert_eq!(refused("DATA", |p| p[16..24].fill(0xFF)), WireError::Sequence);
    assert_eq!(refused("RETRY", |p| p[2] = 1), WireError::Reserved);
    assert_eq!(refused("SYN-ACK", |p| p[17] = 1), WireError::Reserved);
    assert_eq!(refused("SYN-ACK", |p| p[16] = 0), WireError::Params);
    assert_eq!(refused("RESET", |p| p[4] = 1), WireError::Reserved);
}

#[test]
fn fields_of_a_syn_are_checked() {
    assert_eq!(refused("SYN", |p| p[16] = 31), WireError::Length);
    assert_eq!(refused("SYN", |p| p.truncate(SYN_MIN - 1)), WireError::Truncated);
    assert_eq!(refused("SYN", |p| p[17] = 0), WireError::Params, "no attempt");
    assert_eq!(refused("SYN", |p| p[20] = 0b10), WireError::Params, "without the version of the packet");
    assert_eq!(refused("SYN", |p| p[22] = 1), WireError::Reserved);
    assert_eq!(refused("SYN+", |p| p[2..4].fill(1)), WireError::Length, "a message beyond the end");
    assert!(Clear::decode(&changed("SYN", |p| p.resize(1472, 0x77))).is_ok(), "padded further");
}

#[test]
fn values_out_of_range_are_refused() {
    let accepts = |change: &dyn Fn(&mut Params)| {
        let mut params = Params::default();
        change(&mut params);
        Hello::decode(&Hello { window: 0, reset_token: token(), params, name: None, instead: None }.encode())
            .is_ok()
    };
    for (good, bad) in [(548, 547), (65_527, 65_528)] {
        assert!(accepts(&|p| p.max_datagram = good) && !accepts(&|p| p.max_datagram = bad));
    }
    assert!(accepts(&|p| p.wanted_ack_delay_us = 1_000_000));
    assert!(!accepts(&|p| p.wanted_ack_delay_us = 1_000_001));
    assert!(!accepts(&|p| p.wanted_ack_every = 0) && !accepts(&|p| p.ack_every = 0));
    assert!(accepts(&|p| p.aead = 3) && !accepts(&|p| p.aead = 4));
    for aead in [0, 5] {
        let mut payload = vector("WELCOME");
        payload[1] = aead;
        assert_eq!(Reply::decode(&payload), Err(WireError::Params), "AEAD {aead}");
    }
    let mut payload = vector("WELCOME");
    payload[2] = 0b10;
    assert_eq!(Reply::decode(&payload), Err(WireError::Params), "without the version of the packet");
}

#[test]
fn missing_parameters_have_defaults() {
    let hello = |list: &[u8]| {
        let len = u16::try_from(list.len()).unwrap().to_le_bytes();
        Hello::decode(&[&len[..], &[0; 24], list].concat()).map(|hello| hello.params)
    };
    assert_eq!(hello(&[]), Ok(Params::default()));
    // A reserved and an unknown one are skipped.
    assert_eq!(hello(&[6, 0, 1, 0, 0, 99, 0, 0, 0]), Ok(Params::default()));
    let one_way = Params { is_one_way: true, ..Params::default() };
    assert_eq!(hello(&[13, 0, 1, 0, 1]), Ok(one_way));
    assert_eq!(hello(&[13, 0, 1, 0, 2]), Err(WireError::Params));
}

#[test]
fn prologue_has_what_negotiates() {
    let syn: [u8; SYN_MIN] = std::array::from_fn(|i| i.to_le_bytes()[0]);
    let fields = [&b"rdt2"[..], &syn[..2], &syn[8..16], &syn[18..32]].concat();
    assert_eq!(prologue(&syn)[..], fields);
    let [once, again] = [1, 2].map(|attempt| {
        let packet = encode_clear(&Clear::Syn(Syn { attempt, ..self::syn() }));
        prologue(packet.first_chunk().unwrap())
    });
    assert_eq!(once, again, "a repeated SYN belongs to the same handshake");
}

#[test]
fn no_ack_is_longer_than_said() {
    let most = Ack {
        largest_received: 0x0102_0304,
        sent_us: u32::MAX,
        echo_delay_us: u32::MAX,
        ack: u64::MAX - 100,
        window: 100,
        packets: 0x0102_0306,
        duplicates: u32::MAX,
        ce: u32::MAX,
        ect: 0x0102_0308,
        overflow: Some(u32::MAX),
    };
    let mut out = vec![0; ack_body_len(0)];
    // A window of 64 bits and a cumulative ACK of 64 bits together exceed the range of offsets.
    assert_eq!(encode_ack_body(&most, &[], &mut out), ack_body_len(0) - 9);
    assert_eq!(ack_len(5), DATA_HEADER - 8 + 5 + TAG);
}

#[test]
fn close_cuts_text_between_characters() {
    let long = "é".repeat(150);
    let header = peek(&vector("CLOSE")).unwrap();
    let close = Close { reason: CloseReason::Storage, code: 0, text: &long };
    let packet = encode_sealed(&header, &Body::Close(close));
    assert_eq!(packet.len(), close_len(&long));
    assert_eq!(open(&packet, 0).unwrap().1, Body::Close(Close { text: &long[..200], ..close }));
    assert_eq!(close_len(&format!("a{long}")), SEALED_MIN + 199);
    assert_eq!(refused("CLOSE", |p| p.resize(SEALED_MIN + 201, b'x')), WireError::Length);
}

#[test]
fn ack_frequency_saturates_in_header() {
    let mut out = [0; SEALED_MIN + 2];
    for (asked, said) in [(MAX_ACK_EVERY, MAX_ACK_EVERY), (u16::MAX, MAX_ACK_EVERY)] {
        let data = DataHeader { seq: 0, packet_number: 0, ack_now: false, ack_every: asked };
        encode_data_header(CID, 2, &data, false, &mut out);
        let Ok((header, Body::Data { piece, ack: None })) = open(&out, 0) else { panic!() };
        assert_eq!((header.phase(), piece.ack_now, piece.ack_every), (2, false, said));
    }
}

#[test]
fn versions_and_kinds_are_told_apart() {
    assert!(!recognize(&[]) && !recognize(&[0xD2]) && !recognize(&[0xC2, 1]) && !recognize(&[0xD2, 0xAA]));
    assert!(!recognize(&[0x20, 0xAA]) && recognize(&[0xD1, 1]) && recognize(&[0xDF, 0]));
    for kind in 0..=u8::MAX {
        let is_known = matches!(kind, 1..=9 | 11..=15);
        let packet = changed("DATA", |p| p[1] = kind);
        assert_eq!(connection_id(&packet).is_some(), is_known, "type {kind}");
        assert_eq!(peek(&packet).is_some(), matches!(kind, 4..=9 | 12), "type {kind}");
        let versions = changed("DATA", |p| p[..2].copy_from_slice(&[0xD0, kind]));
        assert_eq!(connection_id(&versions).is_some(), kind == 10, "type {kind}");
        assert_eq!(peek(&versions), None, "type {kind}");
    }
    assert_eq!(refused("SYN", |p| p[0] = 0xD1), WireError::Version);
    assert_eq!(refused("SYN", |p| p[0] = 0xD3), WireError::Version);
}

#[test]
fn versions_answers_only_full_foreign_syn() {
    for name in ["SYN", "SYN+"] {
        for version in 0..16 {
            let foreign = changed(name, |p| p[0] = 0xD0 | version);
            let expected = (version != 0 && version != VERSION).then_some(CID);
            assert_eq!(other_version(&foreign), expected, "version {version}");
            let mut damaged = foreign.clone();
            damaged[20] ^= 1;
            assert_eq!(other_version(&damaged), None, "version {version}, its check wrong");
        }
    }
    let short = changed("SYN", |p| {
        p[0] = 0xD3;
        p.truncate(ANY_SYN - 1);
    });
    assert_eq!(other_version(&short), None);
    assert_eq!(other_version(&changed("SYN", |p| p[..2].copy_from_slice(&[0xD3, 4]))), None);
    assert_eq!((other_version(&[]), other_version(&[0xD3])), (None, None));
    for bits in [0, 1, 3] {
        assert_eq!(refused("VERSIONS", |p| p[2] = bits), WireError::Params);
    }
}

/// Changes valid packets at random and corrects their check, so that every later rule is reached.
#[test]
fn accepted_random_bytes_encode_to_equal_packets() {
    let seed = 0x5EED_0004;
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut accepted, rounds) = ([0; 2], 100_000);
    for round in 0..rounds {
        let is_clear = round % 2 == 0;
        let names = if is_clear { &CLEAR[..] } else { &SEALED };
        let name = names[rng.random_range(0..names.len())];
        let mut packet = vector(name);
        tests::damage(&mut packet, &mut rng);
        correct(&mut packet);
        let what = format!("seed {seed:#x}, round {round}, {name}: {packet:02x?}");
        if let Ok(decoded) = Clear::decode(&packet) {
            assert_eq!(Clear::decode(&encode_clear(&decoded)), Ok(decoded), "{what}");
            accepted[0] += 1;
        }
        if let Ok((header, body)) = open(&packet, 1 << 20) {
            let again = encode_sealed(&header, &body);
            assert_eq!(open(&again, 1 << 20), Ok((header, body)), "{what}");
            if let Body::Data { piece, .. } = body {
                assert!(piece.seq.checked_add(piece.payload.len() as u64).is_some(), "{what}");
            }
            accepted[1] += 1;
        }
    }
    assert!(accepted.iter().all(|count| *count > rounds / 20), "{accepted:?} of {rounds} were accepted");
}
