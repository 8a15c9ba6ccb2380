//! Forged, changed and replayed packets, and key updates.

use std::cell::RefCell;
use std::rc::Rc;

use rdt_crypto::{PacketKey, Space};

use super::*;
use crate::PacketKind;
use crate::connection::keys::{Dropped, Opened, OpeningKeys, RESERVED_PACKETS, SealingKeys};
use crate::connection::streams::MAX_FORGED_PACKETS;
use crate::wire::DataHeader;
use crate::wire::native::CloseReason;
use crate::wire::native::{Close, ControlHeader, PATH_LEN, Probe, encode_path, peek};

fn keys() -> (SealingKeys, OpeningKeys) {
    let [ours, theirs] = secrets();
    let sealing = SealingKeys::new(epoch(), Aead::Aes128Gcm, ours.from_initiator, 7, 1472);
    (sealing, OpeningKeys::new(Aead::Aes128Gcm, theirs.from_initiator))
}

fn packet(sealing: &mut SealingKeys) -> Vec<u8> {
    let mut packet = vec![0; PATH_LEN];
    sealing.seal(&mut packet, |header, out| {
        encode_path(header, &Probe { is_response: false, random: 5 }, out);
    });
    packet
}

fn update(sealing: &mut SealingKeys) {
    sealing.on_path_answer(sealing.phase().into());
    sealing.use_up();
    sealing.update_if_due(epoch(), 0, |_| true);
}

fn open<'a>(opening: &mut OpeningKeys, packet: &'a mut [u8]) -> Result<Opened<'a>, Dropped> {
    let header = peek(packet).ok_or(Dropped::Forged)?;
    opening.open(&header, packet)
}

#[test]
fn flipped_bits_of_any_byte_are_found() {
    let (mut sealing, mut opening) = keys();
    let genuine = packet(&mut sealing);
    for bit in 0..genuine.len() * 8 {
        let mut changed = genuine.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(open(&mut opening, &mut changed).unwrap_err(), Dropped::Forged, "bit {bit}");
    }
    assert!(open(&mut opening, &mut genuine.clone()).is_ok(), "the genuine packet still counts");
    assert_eq!(open(&mut opening, &mut genuine.clone()).unwrap_err(), Dropped::Replayed);
}

#[test]
fn overtaken_packets_open_around_a_key_update() {
    let (mut sealing, mut opening) = keys();
    let early: Vec<_> = (0..3).map(|_| packet(&mut sealing)).collect();
    update(&mut sealing);
    assert_eq!(sealing.phase(), 1);
    let mut late: Vec<_> = (0..3).map(|_| packet(&mut sealing)).collect();
    assert!(open(&mut opening, &mut early[0].clone()).is_ok());
    assert!(open(&mut opening, &mut late[1]).is_ok(), "the next phase");
    assert!(open(&mut opening, &mut early[1].clone()).is_ok(), "the phase before");
    assert!(open(&mut opening, &mut late[0]).is_ok());
    assert_eq!(open(&mut opening, &mut early[0].clone()).unwrap_err(), Dropped::Replayed);
    // Eight more phases, in order.
    for _ in 0..8 {
        update(&mut sealing);
        assert!(open(&mut opening, &mut packet(&mut sealing)).is_ok());
    }
    assert!(open(&mut opening, &mut early[2].clone()).is_err(), "its key is gone");
}

/// RFC 9001, section 6.4: a packet under the old key that is newer than one under the new key.
#[test]
fn old_key_opens_no_number_of_new_phase() {
    let (mut sealing, mut opening) = keys();
    let (mut old, _) = keys();
    let _ = packet(&mut old);
    update(&mut sealing);
    assert!(open(&mut opening, &mut packet(&mut sealing)).is_ok(), "number 0 under the new key");
    assert_eq!(open(&mut opening, &mut packet(&mut old)).unwrap_err(), Dropped::Forged, "number 1");
}

#[test]
fn old_key_is_dropped_soon_after_update() {
    let mut pair = Pair::new(&config());
    pair.transfer(HERE, b"x");
    pair.run(Duration::from_secs(1));
    let late = Rc::new(RefCell::new(None));
    let slot = Rc::clone(&late);
    // An idle probe or ACK would do as well: the first packet from here on is held back.
    pair.filter = Box::new(move |from, bytes| {
        let is_taken = from == HERE && slot.borrow().is_none();
        if is_taken {
            *slot.borrow_mut() = Some(bytes.clone());
        }
        !is_taken
    });
    pair.transfer(HERE, &bytes(5000));
    pair.run(Duration::from_secs(1));
    pair.ends[HERE].streams_mut().unwrap().sealing.use_up();
    pair.transfer(HERE, &bytes(5000));
    assert_eq!(pair.ends[HERE].streams().unwrap().sealing.phase(), 1);
    let streams = |pair: &Pair| pair.ends.each_ref().map(|end| end.streams().unwrap().opening.deadline());
    assert!(streams(&pair)[THERE].is_some(), "for packets that were overtaken");
    pair.run(Duration::from_secs(5));
    assert_eq!(streams(&pair), [None, None]);
    let (now, mut packet) = (pair.now, late.take().unwrap());
    let arrival = pair.ends[THERE].handle_run(now, Ecn::NotEct, &mut packet, 1500, 1 << 30);
    assert_eq!((arrival.authentic, pair.ends[THERE].stats().unauthentic), (0, 1));
}

#[test]
fn forged_phase_does_not_move_the_keys() {
    let (mut sealing, mut opening) = keys();
    for phase in 1..4 {
        let mut forged = packet(&mut sealing);
        forged[2] = forged[2] & !3 | phase;
        assert_eq!(open(&mut opening, &mut forged).unwrap_err(), Dropped::Forged, "phase {phase}");
    }
    assert!(open(&mut opening, &mut packet(&mut sealing)).is_ok());
}

#[test]
fn skipped_phase_is_not_opened() {
    let (mut sealing, mut opening) = keys();
    update(&mut sealing);
    update(&mut sealing);
    assert_eq!(open(&mut opening, &mut packet(&mut sealing)).unwrap_err(), Dropped::Forged);
}

#[test]
fn update_waits_for_proof_of_present_phase() {
    let (mut sealing, _) = keys();
    sealing.use_up();
    assert!(sealing.update_if_due(epoch(), 3, |_| true), "it waits for a proof");
    sealing.on_ack(2);
    assert!(!sealing.update_if_due(epoch(), 3, |_| false));
    assert_eq!(sealing.phase(), 0, "the stream has packets of two phases in flight");
    sealing.update_if_due(epoch(), 3, |_| true);
    assert_eq!(sealing.phase(), 1);
    sealing.use_up();
    sealing.on_ack(2);
    sealing.on_path_answer(0);
    assert!(sealing.update_if_due(epoch(), 3, |_| true), "the proofs are of the phase before");
    assert_eq!(sealing.phase(), 1);
    sealing.on_ack(3);
    sealing.update_if_due(epoch(), 4, |_| true);
    assert_eq!(sealing.phase(), 2, "by an ACK of the first packet of the phase");
    sealing.use_up();
    assert_eq!(sealing.probe(), Probe { is_response: false, random: 2 });
    sealing.on_path_answer(2);
    sealing.update_if_due(epoch(), 4, |_| true);
    assert_eq!(sealing.phase(), 3, "by the answer to a probe");
}

#[test]
fn key_seals_at_most_2_to_the_24_packets() {
    let (mut sealing, _) = keys();
    sealing.on_ack(0);
    assert!(!sealing.update_if_due(epoch(), (1 << 24) - 1, |_| true));
    assert_eq!(sealing.phase(), 0);
    sealing.update_if_due(epoch(), 1 << 24, |_| true);
    assert_eq!(sealing.phase(), 1);
}

#[test]
fn size_of_packets_limits_their_number() {
    // RFC 9001, appendix B.1.
    for (size, limit, due) in [(1472, 1 << 28, 1 << 24), (1 << 16, 1 << 23, 1 << 22)] {
        let [ours, _] = secrets();
        let mut sealing = SealingKeys::new(epoch(), Aead::Aes128Gcm, ours.from_initiator, 7, size);
        assert!(!sealing.is_used_up(limit - RESERVED_PACKETS - 1), "{size} bytes");
        assert!(sealing.is_used_up(limit - RESERVED_PACKETS), "{size} bytes");
        assert!(!sealing.update_if_due(epoch(), due - 1, |_| true), "{size} bytes");
        assert!(sealing.update_if_due(epoch(), due, |_| true), "{size} bytes");
        sealing.on_ack(0);
        sealing.update_if_due(epoch(), due, |_| true);
        assert!(!sealing.is_used_up(limit), "{size} bytes: the next key has sealed fewer");
    }
}

/// The peer reads and writes, but answers no path probe.
#[test]
fn key_without_update_ends_connection_at_limit() {
    let mut pair = Pair::new(&config());
    pair.filter = Box::new(|from, bytes| from == HERE || bytes[1] != 12);
    let limit = RESERVED_PACKETS + 100;
    let sealing = &mut pair.ends[HERE].streams_mut().unwrap().sealing;
    sealing.limit = limit;
    sealing.use_up();
    for _ in 0..100 {
        // Fails once the connection is closed.
        let _ = pair.ends[THERE].write(&bytes(50_000));
        pair.ends[THERE].push();
        pair.run(ms(100));
        pair.read(HERE, &mut Vec::new());
    }
    let sealed = pair.sent.iter().filter(|(from, _)| *from == HERE).count() as u64;
    assert!((100..=104).contains(&sealed), "{sealed} packets, of which up to 4 are CLOSEs");
    assert_eq!(pair.ends[HERE].streams().unwrap().sealing.phase(), 0);
    assert_eq!(pair.ends[HERE].closed(), Some(&Closed::AeadLimit));
    let Some(Closed::Peer { reason, .. }) = pair.ends[THERE].closed() else { panic!("it is not told") };
    assert_eq!(*reason, CloseReason::Protocol);
}

/// The peer sends packets but gets none of those under the new key. A further update would leave
/// it two phases behind, unable to open anything.
#[test]
fn lost_packets_of_a_phase_delay_the_next() {
    for writer in [HERE, THERE] {
        let mut pair = Pair::new(&config());
        pair.transfer(HERE, &bytes(50_000));
        pair.transfer(THERE, &bytes(50_000));
        pair.run(Duration::from_secs(1));
        pair.filter = Box::new(|from, bytes| from != HERE || bytes[2].is_multiple_of(4));
        let (mut written, mut read) = (0, Vec::new());
        for _ in 0..4 {
            pair.ends[HERE].streams_mut().unwrap().sealing.use_up();
            // Without ACKs, the window has no room for all.
            written += pair.ends[writer].write(&[7; 2000]).unwrap();
            pair.ends[writer].push();
            pair.run(Duration::from_millis(300));
        }
        assert_eq!(pair.ends[HERE].streams().unwrap().sealing.phase(), 1, "writer {writer}");
        pair.filter = Box::new(|_, _| true);
        pair.run(Duration::from_secs(10));
        pair.read(1 - writer, &mut read);
        assert!(written >= 2000 && read == vec![7; written], "writer {writer}: {} bytes", read.len());
        assert!(pair.ends[HERE].streams().unwrap().sealing.phase() >= 2, "writer {writer}");
    }
}

/// A receiver's ACKs are not acknowledged; path probes prove that its peer follows.
#[test]
fn side_without_data_updates_its_key() {
    let mut pair = Pair::new(&config());
    for _ in 0..12 {
        pair.ends[THERE].streams_mut().unwrap().sealing.use_up();
        pair.transfer(HERE, &bytes(200_000));
        // The answer to a probe arrives.
        pair.run(Duration::from_millis(100));
    }
    let phase = usize::from(pair.ends[THERE].streams().unwrap().sealing.phase());
    let probes = pair.count(THERE, 12);
    assert!(phase >= 5 && (phase..=phase + 1).contains(&probes), "{phase} updates, {probes} probes");
}

/// Every tenth packet is lost, so packets of two phases are retransmitted, sealed again.
#[test]
fn streams_go_on_across_key_updates() {
    let mut pair = Pair::new(&config());
    let mut count = 0_u32;
    pair.filter = Box::new(move |_, _| {
        count += 1;
        !count.is_multiple_of(10)
    });
    let data = bytes(3_000_000);
    for piece in data.chunks(300_000) {
        for end in &mut pair.ends {
            end.streams_mut().unwrap().sealing.use_up();
        }
        assert_eq!(pair.transfer(HERE, piece), piece);
        // A lost probe is repeated after a timeout.
        pair.run(Duration::from_secs(1));
    }
    let phases = pair.ends.each_ref().map(|end| end.streams().unwrap().sealing.phase());
    assert!(phases[HERE] >= 5 && phases[THERE] >= 5, "{phases:?}");
    assert_eq!(rdt_crypto::reused_nonces(), 0);
}

/// Returns a packet to [`HERE`] that `key` seals, with values that have an effect.
fn sealed_by(key: &PacketKey, kind: PacketKind, number: u64) -> Vec<u8> {
    let (id, phase) = (0xAAAA_0001, 0);
    let control = ControlHeader { connection_id: id, phase, number };
    let mut packet = vec![0; 200];
    let len = match kind {
        PacketKind::Data => {
            let data = DataHeader { seq: 0, packet_number: number, ack_now: true, ack_every: 0 };
            native::encode_data_header(id, phase, &data, false, &mut packet);
            packet[native::DATA_HEADER..][..4].copy_from_slice(b"evil");
            native::DATA_HEADER + 4 + native::TAG
        }
        PacketKind::Fin => {
            native::encode_fin_header(id, phase, number, 0, false, &mut packet);
            native::FIN_LEN
        }
        PacketKind::Ack => {
            let body = ack_body(0, 9);
            native::encode_ack(&control, &body, &mut packet);
            native::ack_len(body.len())
        }
        PacketKind::FinAck => {
            native::encode_fin_ack(&control, 4, &mut packet);
            native::FIN_ACK_LEN
        }
        PacketKind::Close => {
            let close = Close { reason: CloseReason::Aborted, code: 0, text: "" };
            native::encode_close(&control, &close, &mut packet);
            native::close_len("")
        }
        _ => {
            encode_path(&control, &Probe { is_response: false, random: 5 }, &mut packet);
            PATH_LEN
        }
    };
    packet.truncate(len);
    let is_data = matches!(kind, PacketKind::Data | PacketKind::Fin);
    key.seal(if is_data { Space::Data } else { Space::Control }, number, &mut packet);
    packet
}

/// Delivers a packet to [`HERE`] and returns whether it had an effect.
fn has_effect(pair: &mut Pair, mut packet: Vec<u8>) -> bool {
    let seen = |pair: &mut Pair| {
        pair.flush();
        let (end, events) = (&pair.ends[HERE], pair.events[HERE].len());
        let stats = ConnectionStats { unauthentic: 0, ..end.stats() };
        format!("{stats:?} {:?} {:?} {events} {}", end.closed(), end.data(), pair.sent.len())
    };
    let before = seen(pair);
    let now = pair.now;
    pair.ends[HERE].handle_run(now, Ecn::NotEct, &mut packet, 1500, 1 << 30);
    seen(pair) != before
}

/// A reader on the path knows the IDs and numbers of a connection, and no key.
#[test]
fn forged_packets_of_every_kind_change_nothing() {
    let [ours, theirs] = secrets();
    let genuine = theirs.from_responder.packet_key(Aead::Aes128Gcm);
    let others = [
        ("of the other direction", ours.from_initiator.packet_key(Aead::Aes128Gcm)),
        ("of the next phase", ours.from_responder.next().packet_key(Aead::Aes128Gcm)),
        ("of another AEAD", ours.from_responder.packet_key(Aead::ChaCha20Poly1305)),
        ("of zeros", PacketKey::new(Aead::Aes128Gcm, &[0; 16], [0; 12])),
    ];
    let kinds = [
        PacketKind::Data,
        PacketKind::Ack,
        PacketKind::Fin,
        PacketKind::FinAck,
        PacketKind::Close,
        PacketKind::Path,
    ];
    for (number, kind) in (50..).zip(kinds) {
        let mut pair = Pair::new(&config());
        pair.transfer(HERE, b"text");
        pair.run(Duration::from_secs(1));
        // The FIN is outstanding.
        pair.filter = Box::new(|_, _| false);
        pair.ends[HERE].finish();
        for (name, key) in &others {
            let forged = sealed_by(key, kind, number);
            assert!(!has_effect(&mut pair, forged), "{kind:?} by a key {name}");
        }
        assert_eq!(pair.ends[HERE].stats().unauthentic, others.len() as u64, "{kind:?}");
        assert!(has_effect(&mut pair, sealed_by(&genuine, kind, number)), "{kind:?} by the right key");
    }
}

#[test]
fn recorded_packets_have_no_effect_later() {
    let mut pair = Pair::new(&config());
    pair.transfer(HERE, &bytes(50_000));
    // The last ACK arrives.
    pair.run(Duration::from_secs(1));
    let recorded: Vec<_> = pair.sent.clone();
    let now = pair.now + Duration::from_secs(5);
    for (from, mut bytes) in recorded {
        let arrival = pair.ends[1 - from].handle_run(now, Ecn::NotEct, &mut bytes, 1500, 1 << 30);
        assert_eq!(arrival.authentic, 0);
    }
    // Packets that come back to their sender.
    for (from, mut bytes) in pair.sent.clone() {
        let arrival = pair.ends[from].handle_run(now, Ecn::NotEct, &mut bytes, 1500, 1 << 30);
        assert_eq!(arrival.authentic, 0);
    }
    assert!(pair.ends[THERE].data().is_empty());
    assert_eq!(pair.transfer(THERE, b"alive"), b"alive");
}

#[test]
fn reset_needs_the_token_of_the_peer() {
    let mut pair = Pair::new(&config());
    let token = |seed, id| ResetKey::generate(&mut entropy(seed)).token(id);
    for (seed, id, ends) in [(9, 0xAAAA_0001, false), (8, 0xBBBB_0002, false), (9, 0xBBBB_0002, true)] {
        let mut reset = [0; native::RESET_LEN];
        native::encode_reset(0xAAAA_0001, &token(seed, id), &mut reset);
        let now = pair.now;
        pair.ends[HERE].handle_clear(now, &reset);
        assert_eq!(pair.ends[HERE].closed().is_some(), ends);
    }
    assert_eq!(pair.ends[HERE].closed(), Some(&Closed::Reset));
}

#[test]
fn idle_timeout_is_checked() {
    let keys = InitiatorConfig::default();
    for secs in [0, 86_401] {
        let config = ConnectionConfig { idle_timeout: Duration::from_secs(secs), ..config() };
        let reset = ResetKey::generate(&mut entropy(8)).token(1);
        let memory = Memory::default();
        let env = ConnectionEnv { local_id: 1, reset, share: None, memory, known: None, skip_seed: 5 };
        let result = Connection::initiate(epoch(), config, keys.clone(), env, entropy(3), None);
        assert_eq!(result.unwrap_err(), ConfigError::IdleTimeout);
    }
}

#[test]
fn too_many_forged_packets_end_connection() {
    let mut pair = Pair::new(&config());
    pair.ends[HERE].write(b"text").unwrap();
    pair.ends[HERE].push();
    let now = pair.now;
    assert_ne!(pair.ends[HERE].poll_transmit(now, &mut pair.batch), Output::Nothing);
    let packet = pair.batch.datagrams().next().unwrap().to_vec();
    for (left, closed) in [(2, None), (1, Some(&Closed::AeadLimit))] {
        pair.ends[THERE].streams_mut().unwrap().dropped.unauthentic = MAX_FORGED_PACKETS - left;
        let mut forged = packet.clone();
        *forged.last_mut().unwrap() ^= 1;
        pair.ends[THERE].handle_run(now, Ecn::NotEct, &mut forged, 1500, 1 << 30);
        assert_eq!(pair.ends[THERE].closed(), closed);
    }
}

/// The least window, 1024 numbers, would take it for a replay.
#[test]
fn packet_of_large_flight_may_be_late() {
    let mut pair = Pair::new(&config());
    // The window grows with the packets that have arrived.
    pair.transfer(HERE, &bytes(8_000_000));
    let late = Rc::new(RefCell::new(None));
    let slot = Rc::clone(&late);
    pair.filter = Box::new(move |from, bytes| {
        let is_taken = from == HERE && bytes.len() > 1000 && slot.borrow().is_none();
        if is_taken {
            *slot.borrow_mut() = Some(bytes.clone());
        }
        !is_taken
    });
    pair.transfer(HERE, &bytes(4_000_000));
    let mut packet = late.take().unwrap();
    let number = peek(&packet).unwrap().number;
    assert!(pair.ends[HERE].streams().unwrap().sender.next_number() > u64::from(number) + 2000);
    let now = pair.now;
    let arrival = pair.ends[THERE].handle_run(now, Ecn::NotEct, &mut packet, 1500, 1 << 30);
    assert_eq!((arrival.authentic, arrival.unauthentic), (packet.len(), 0));
}
