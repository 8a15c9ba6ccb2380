//! Recorded connections of `docs/vectors/native.txt`. Each side alone, with fixed entropy, sends
//! the recorded bytes and accepts those of the other side.
//!
//! After a change of the format: `cargo test -p rdt-transport --lib write_vectors -- --ignored`,
//! then `python3 docs/vectors/derive.py`, which derives the other lines from `docs/PROTOCOL.md`.
//!
//! The cookie of a RETRY covers the address as the standard library hashes it, which differs on
//! systems of 32 bits.
#![cfg(target_pointer_width = "64")]

use std::fmt::Write as _;
use std::time::Duration;

use rdt_crypto::{Aead, aes_hardware};

use super::network::Datagram;
use super::*;

const RECORDED: &str = include_str!("../../../../vectors/native.txt");
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/native.txt");
const SIDES: [&str; 2] = ["initiator", "responder"];

/// Connection that is recorded.
struct Script {
    pattern: Pattern,
    has_secret: bool,
    aead: Aead,
    /// True if the responder asks for a proof of the address.
    is_retried: bool,
}

const SCRIPTS: [Script; 3] = [
    Script { pattern: Pattern::Ik, has_secret: true, aead: Aead::Aes128Gcm, is_retried: true },
    Script { pattern: Pattern::Xx, has_secret: false, aead: Aead::ChaCha20Poly1305, is_retried: false },
    Script { pattern: Pattern::Nk, has_secret: false, aead: Aead::Aes256Gcm, is_retried: false },
];

/// What each side writes, in key phases 0 and 1.
const TEXTS: [[&str; 2]; 2] =
    [["first words of the initiator", "under its next key"], ["answer", "under the next key, too"]];

/// Datagram that a side sent, at a time after the start.
#[derive(Debug, PartialEq, Eq)]
struct Packet {
    at: Duration,
    side: usize,
    bytes: Vec<u8>,
}

/// Plays a connection: with both sides, or with one side against the recorded packets of the other
/// one. Returns what was sent.
fn play(script: &Script, alone: Option<(usize, &[Packet])>) -> (Vec<Packet>, Network) {
    let mut network = Network::new(seed(script));
    network.add_host("192.0.2.1:1000");
    network.add_host("198.51.100.1:2000");
    let (start, addresses) = (network.now, [CLIENT, SERVER].map(|host| network.hosts[host].address));
    let plays = |side| alone.is_none_or(|(only, _)| only == side);
    if plays(SERVER) {
        let mut config = responder();
        config.config.aead = Some(script.aead);
        config.service = service();
        network.hosts[SERVER].set.listen(config);
        if script.is_retried {
            network.require_proofs(SERVER);
        }
    }
    if plays(CLIENT) {
        let keys = InitiatorConfig { service: service(), ..initiator(script.pattern, script.has_secret) };
        let id = network.connect(CLIENT, SERVER, keys, TEXTS[CLIENT][0].as_bytes());
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    }
    if alone.is_some() {
        network.rule = Box::new(|_, _| Fate::Drop);
    }
    let mut others = alone.map_or(&[][..], |(_, packets)| packets).iter().peekable();
    // The responder answers, both update their keys and write, both end their streams.
    for (step, ms) in [150, 250, 350, 650].into_iter().enumerate() {
        let end = start + Duration::from_millis(ms);
        while let Some(packet) = others.next_if(|packet| start + packet.at < end) {
            if !plays(packet.side) {
                network.run_until(start + packet.at, |_| false);
                let [from, to] = [addresses[packet.side], addresses[1 - packet.side]];
                network.inject(Datagram { from, to, bytes: packet.bytes.clone() });
            }
        }
        network.run_until(end, |_| false);
        for side in [CLIENT, SERVER].into_iter().filter(|side| plays(*side)) {
            let host = &mut network.hosts[side];
            let (id, stream) = host.streams.iter_mut().next().expect("the connection is open");
            match step {
                0 if side == SERVER => stream.outgoing.extend_from_slice(TEXTS[side][0].as_bytes()),
                1 => {
                    host.set.with(network.now, *id, Connection::use_up_key);
                    stream.outgoing.extend_from_slice(TEXTS[side][1].as_bytes());
                }
                2 => stream.finish = true,
                _ => {}
            }
        }
    }
    let sent = network.log.iter().zip(&network.sent_at).map(|(datagram, at)| Packet {
        at: *at - start,
        side: usize::from(datagram.from != addresses[CLIENT]),
        bytes: datagram.bytes.clone(),
    });
    (sent.collect(), network)
}

fn service() -> Service {
    Service::new("rdt-file").unwrap()
}

/// Returns the seed of the network, from which each set has its entropy.
fn seed(script: &Script) -> u64 {
    u64::from(script.pattern.number(script.has_secret))
}

/// Returns the name of the Noise protocol.
fn name(script: &Script) -> &'static str {
    script.pattern.name(script.has_secret)
}

/// Returns the recorded packets of a connection.
fn recorded(script: &Script) -> Vec<Packet> {
    let (_, section) = RECORDED.split_once(&format!("== {}\n", name(script))).unwrap();
    let section = section.split("\n== ").next().unwrap();
    let mut packets: Vec<Packet> = Vec::new();
    let mut is_packet = false;
    for line in section.lines() {
        if let Some(digits) = line.strip_prefix("  ").filter(|_| is_packet) {
            let digits: Vec<_> = digits.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
            let bytes = digits.chunks_exact(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap());
            packets.last_mut().unwrap().bytes.extend(bytes);
            continue;
        }
        let words: Vec<_> = line.split(' ').collect();
        is_packet = words[0] == "packet";
        if is_packet {
            let side = SIDES.iter().position(|side| *side == words[2]).unwrap();
            let at = Duration::from_micros(words[1].parse().unwrap());
            packets.push(Packet { at, side, bytes: Vec::new() });
        }
    }
    packets
}

/// Runs one side against the record and compares its packets and the stream that it received.
fn replay(side: usize) {
    for script in &SCRIPTS {
        let recorded = recorded(script);
        let (sent, network) = play(script, Some((side, &recorded)));
        let expected = recorded.iter().filter(|packet| packet.side == side);
        for (n, (sent, expected)) in sent.iter().zip(expected.clone()).enumerate() {
            assert_eq!(sent, expected, "{}, packet {n} of the {}", name(script), SIDES[side]);
        }
        assert_eq!(sent.len(), expected.count(), "{}", name(script));
        let stream = network.hosts[side].streams.values().next().unwrap();
        assert_eq!(stream.incoming, TEXTS[1 - side].concat().as_bytes(), "{}", name(script));
        assert_eq!(stream.closed, Some(Closed::Finished), "{}", name(script));
    }
}

#[test]
fn initiator_sends_and_accepts_recorded_bytes() {
    // Without instructions for AES, the initiator clears a bit of its SYN.
    if aes_hardware() {
        replay(CLIENT);
    }
}

#[test]
fn responder_sends_and_accepts_recorded_bytes() {
    replay(SERVER);
}

#[test]
fn record_has_both_key_phases() {
    for script in &SCRIPTS {
        let recorded = recorded(script);
        for side in [CLIENT, SERVER] {
            for phase in [0, 1] {
                let is_data = |packet: &&Packet| packet.side == side && packet.bytes[1] == 4;
                let in_phase = recorded.iter().filter(is_data).filter(|data| data.bytes[2] & 3 == phase);
                assert!(in_phase.count() > 0, "{}, {}, phase {phase}", name(script), SIDES[side]);
            }
        }
    }
}

/// Returns the private key of this public key, which a set with this seed drew.
fn ephemeral_key(seed: [u8; 32], public: &[u8]) -> [u8; 32] {
    let mut entropy = Entropy::from_seed(seed);
    for _ in 0..64 {
        let mut block = entropy.array::<32>();
        for _ in 0..3 {
            if StaticKey::from_bytes(block).public().as_bytes() == public {
                return block;
            }
            block = Entropy::from_seed(block).array();
        }
    }
    panic!("the ephemeral key was not found");
}

fn kind(bytes: &[u8]) -> &'static str {
    let names = ["SYN", "RETRY", "SYN-ACK", "DATA", "", "ACK", "FIN", "FIN-ACK", "CLOSE", "", "AUTH", "PATH"];
    names[usize::from(bytes[1]) - 1]
}

#[test]
#[ignore = "writes docs/vectors/native.txt"]
fn write_vectors() {
    let mut text = String::new();
    let mut put = |title: &str, bytes: &[u8]| {
        writeln!(text, "{title}").unwrap();
        for line in bytes.chunks(48) {
            text.push_str("  ");
            for byte in line {
                write!(text, "{byte:02x}").unwrap();
            }
            text.push('\n');
        }
    };
    for script in &SCRIPTS {
        let (packets, _) = play(script, None);
        put(&format!("== {}", name(script)), &[]);
        let message = |side: usize, kind: u8, at: usize| {
            let is_it = |p: &&Packet| p.side == side && p.bytes[1] == kind;
            &packets.iter().find(is_it).unwrap().bytes[at..at + 32]
        };
        let statics = [key(CLIENT_KEY), key(SERVER_KEY)].map(|key| *key.to_bytes());
        let ephemerals = [message(CLIENT, 1, 32), message(SERVER, 3, 24)];
        for (side, name) in SIDES.iter().enumerate() {
            if side == SERVER || script.pattern != Pattern::Nk {
                put(&format!("{name}'s static private key"), &statics[side]);
            }
            let mut host_seed = [0; 32];
            host_seed[..8].copy_from_slice(&seed(script).to_le_bytes());
            host_seed[8] = u8::try_from(side).unwrap();
            put(&format!("{name}'s ephemeral private key"), &ephemeral_key(host_seed, ephemerals[side]));
        }
        if script.has_secret {
            put("shared secret", secret().as_bytes());
        }
        for Packet { at, side, bytes } in &packets {
            put(&format!("packet {} {} {}", at.as_micros(), SIDES[*side], kind(bytes)), bytes);
        }
    }
    std::fs::write(PATH, text).unwrap();
}
