//! Packets of the handshake that a host on the path changes.

use std::time::Duration;

use super::network::Datagram;
use super::*;
use crate::wire::native::Versions;
use crate::wire::native::{Clear, encode_syn};

/// Packet types.
const SYN: u8 = 1;
const RETRY: u8 = 2;
const SYN_ACK: u8 = 3;
const AUTH: u8 = 11;

/// Puts the right check into a packet that was changed.
fn reseal(bytes: &mut [u8]) {
    bytes[4..8].fill(0);
    let crc = crc32fast::hash(bytes).to_le_bytes();
    bytes[4..8].copy_from_slice(&crc);
}

/// Runs a connection whose packets `change` changes, and returns the network.
fn run_changed(
    seed: u64,
    (pattern, has_secret): (Pattern, bool),
    mut change: impl FnMut(&mut Datagram) + 'static,
) -> Network {
    let mut network = client_and_server(seed);
    network.hosts[SERVER].reply = Some(Vec::new());
    network.rule = Box::new(move |_, datagram| {
        change(datagram);
        Fate::Deliver
    });
    network.connect(CLIENT, SERVER, initiator(pattern, has_secret), b"request");
    network.run(Duration::from_secs(90));
    network
}

fn is_connected(network: &Network, host: usize) -> bool {
    network.hosts[host].streams.values().any(|stream| stream.is_connected)
}

fn is_finished(network: &Network, host: usize) -> bool {
    network.hosts[host].streams.values().any(|stream| stream.closed == Some(Closed::Finished))
}

/// One copy of each packet is changed in one byte, and its check is made right. The peers recover
/// by a repetition.
#[test]
fn changed_byte_only_delays_handshake() {
    for (seed, handshake) in (0..).zip(HANDSHAKES) {
        for kind in [SYN, RETRY, SYN_ACK, AUTH] {
            for at in (1..320).step_by(13).filter(|at| *at != 1 && !(4..8).contains(at)) {
                let mut is_done = false;
                let network = run_changed(seed, handshake, move |datagram| {
                    if datagram.bytes[1] == kind && datagram.bytes.len() > at && !is_done {
                        is_done = true;
                        datagram.bytes[at] ^= 0x20;
                        reseal(&mut datagram.bytes);
                    }
                });
                let ends = [CLIENT, SERVER].map(|host| is_finished(&network, host));
                assert_eq!(ends, [true; 2], "{handshake:?} type {kind} byte {at}");
            }
        }
    }
}

/// A third party that changes a negotiated field of every SYN prevents the connection, and cannot
/// make it weaker.
#[test]
fn changed_clear_fields_prevent_connection() {
    type Change = fn(&mut crate::wire::native::Syn<'_>);
    let changes: [(&str, Change); 4] = [
        ("AEADs", |syn| syn.aeads = 0b100),
        ("AES", |syn| syn.aeads &= 0x7f),
        ("versions", |syn| syn.versions = Versions::from_bits(0b110).unwrap()),
        ("pattern", |syn| syn.pattern = if syn.pattern & 0xf == 1 { syn.pattern } else { 1 }),
    ];
    for handshake in HANDSHAKES {
        for (name, change) in changes {
            if handshake.0 == Pattern::Xx && name == "pattern" {
                continue;
            }
            let network = run_changed(3, handshake, move |datagram| {
                let before = datagram.bytes.clone();
                if let Ok(Clear::Syn(mut syn)) = Clear::decode(&before) {
                    change(&mut syn);
                    let id = u64::from_le_bytes(before[8..16].try_into().unwrap());
                    encode_syn(id, &syn, &mut datagram.bytes);
                }
            });
            let connected = [CLIENT, SERVER].map(|host| is_connected(&network, host));
            assert_eq!(connected, [false; 2], "{handshake:?} {name}");
        }
    }
}

/// A third party that removes the secret from the SYN gets no connection without it.
#[test]
fn removed_secret_prevents_connection() {
    for pattern in [Pattern::Xx, Pattern::Nk, Pattern::Ik] {
        let network = run_changed(4, (pattern, true), |datagram| {
            let before = datagram.bytes.clone();
            if let Ok(Clear::Syn(mut syn)) = Clear::decode(&before) {
                (syn.pattern, syn.secret_id) = (syn.pattern & 0xf, 0);
                let id = u64::from_le_bytes(before[8..16].try_into().unwrap());
                encode_syn(id, &syn, &mut datagram.bytes);
            }
        });
        assert_eq!([CLIENT, SERVER].map(|host| is_connected(&network, host)), [false; 2], "{pattern:?}");
    }
}

/// AUTH is changed four times. The genuine one still completes the handshake.
#[test]
fn forged_auths_do_not_spoil_genuine_one() {
    for copies in 1..=4 {
        let mut left = copies;
        let network = run_changed(5, (Pattern::Xx, true), move |datagram| {
            if datagram.bytes[1] == AUTH && left > 0 {
                left -= 1;
                let last = datagram.bytes.len() - 1;
                datagram.bytes[last] ^= 1;
                reseal(&mut datagram.bytes);
            }
        });
        assert!(is_finished(&network, CLIENT) && is_finished(&network, SERVER), "{copies} copies");
        assert!(network.hosts[SERVER].set.stats().unauthentic >= copies);
    }
}

/// Cut, extended and random datagrams, and changed copies of genuine ones.
#[test]
fn arbitrary_bytes_cause_no_panic() {
    let mut network = client_and_server(6);
    network.hosts[SERVER].reply = Some(vec![5; 3000]);
    for handshake in HANDSHAKES {
        network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), &[4; 3000]);
    }
    network.run(Duration::from_secs(60));
    let genuine = std::mem::take(&mut network.log);
    let mut numbers = rdt_testing::Numbers::new(6);
    let mut below = move |bound: usize| usize::try_from(numbers.below(bound as u64)).unwrap();
    for round in 0..30_000 {
        let mut datagram = genuine[below(genuine.len())].clone();
        let len = datagram.bytes.len();
        match below(4) {
            0 => datagram.bytes.truncate(below(len)),
            1 => datagram.bytes.extend_from_slice(&[9; 77]),
            _ => {
                for _ in 0..=below(3) {
                    let at = below(len);
                    datagram.bytes[at] = below(256).to_le_bytes()[0];
                }
            }
        }
        if datagram.bytes.len() > 8 && below(2) == 0 && !matches!(datagram.bytes[1], 4..=9 | 12 | 13) {
            reseal(&mut datagram.bytes);
        }
        let now = network.now + Duration::from_millis(round);
        let (from, ecn) = (datagram.from, Ecn::NotEct);
        for host in [CLIENT, SERVER] {
            network.hosts[host].set.handle_datagram(now, from, ecn, &mut datagram.bytes.clone());
        }
    }
    assert_eq!(network.hosts[SERVER].set.stats().accepted, HANDSHAKES.len() as u64);
}

/// A reader on the path sends changed copies of the AUTH, which arrive before the original. Their
/// static key is genuine, so that each spoils the responder's state.
#[test]
fn forged_auths_do_not_stop_handshake() {
    for has_secret in [false, true] {
        let mut network = client_and_server(20);
        network.hosts[SERVER].reply = Some(Vec::new());
        let mut is_first = true;
        network.rule = Box::new(move |_, datagram| {
            let is_late = datagram.bytes[1] == AUTH && std::mem::take(&mut is_first);
            if is_late { Fate::Delay(Duration::from_millis(100)) } else { Fate::Deliver }
        });
        network.connect(CLIENT, SERVER, initiator(Pattern::Xx, has_secret), b"request");
        let is_auth = |datagram: &Datagram| datagram.bytes[1] == AUTH;
        let end = network.now + Duration::from_secs(1);
        assert!(network.run_until(end, |network| network.log.iter().any(is_auth)));
        let genuine = network.log.iter().find(|datagram| is_auth(datagram)).unwrap().clone();
        for _ in 0..100 {
            let mut forged = genuine.clone();
            let last = forged.bytes.len() - 1;
            forged.bytes[last] ^= 1;
            reseal(&mut forged.bytes);
            network.inject(forged);
        }
        network.run(Duration::from_millis(180));
        let stats = network.hosts[SERVER].set.stats();
        assert_eq!((stats.accepted, stats.unauthentic), (1, 100), "secret {has_secret}");
        network.run(Duration::from_secs(20));
        assert!(is_finished(&network, CLIENT));
    }
}

/// Copies of packets with another key phase, also of those sealed before a key update.
#[test]
fn forged_key_phases_change_nothing() {
    let mut network = client_and_server(21);
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), b"request");
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    for round in 0..6_u64 {
        network.hosts[CLIENT].streams.get_mut(&id).unwrap().outgoing.extend_from_slice(&[7; 5000]);
        network.run(Duration::from_secs(1));
        let sent = network.log.iter().rev().find(|sent| sent.to.port() == 2000 && sent.bytes[1] == 4);
        let sent = sent.unwrap().clone();
        for phase in (0..4).filter(|phase| sent.bytes[2] & 3 != *phase) {
            let mut forged = sent.clone();
            forged.bytes[2] = forged.bytes[2] & !3 | phase;
            // A number that has not arrived.
            let number = u32::from_le_bytes(forged.bytes[4..8].try_into().unwrap()) + 50;
            forged.bytes[4..8].copy_from_slice(&number.to_le_bytes());
            network.inject(forged);
        }
        network.run(Duration::from_millis(100));
        assert_eq!(network.hosts[SERVER].set.stats().unauthentic, 3 * (round + 1));
        let now = network.now;
        network.hosts[CLIENT].set.with(now, id, Connection::use_up_key);
    }
    let phases: BTreeSet<_> =
        network.log.iter().filter(|sent| sent.bytes[1] == 4).map(|sent| sent.bytes[2] & 3).collect();
    assert_eq!(phases.len(), 4, "the key was updated");
    let theirs = network.hosts[SERVER].streams.values().next().unwrap();
    assert_eq!((theirs.incoming.len(), &theirs.closed), (7 + 6 * 5000, &None));
}
