//! Forged VERSIONS and REFUSE, which have no proof. An initiator believes them if they are the only
//! answers to two SYNs in a row.

use std::time::Duration;

use super::network::Datagram;
use super::*;
use crate::connection::RefuseReason;
use crate::wire::native::{REFUSE_LEN, VERSIONS_LEN, Versions, encode_refuse, encode_versions};

/// Bits of versions that no initiator speaks: 3 and 5.
const OTHERS: u16 = 1 << 3 | 1 << 5;

/// Packet that a third party sends to the initiator.
#[derive(Debug, Clone, Copy)]
enum Forged {
    /// With these bits.
    Versions(u16),
    /// With this reason.
    Refuse(u16),
}

impl Forged {
    fn bytes(self, id: u64) -> Vec<u8> {
        match self {
            Self::Versions(bits) => {
                let mut bytes = vec![0; VERSIONS_LEN];
                encode_versions(id, Versions::from_bits(bits).unwrap(), &mut bytes);
                bytes
            }
            Self::Refuse(reason) => {
                let mut bytes = vec![0; REFUSE_LEN];
                encode_refuse(id, reason, &mut bytes);
                bytes
            }
        }
    }
}

/// How a forged packet differs from the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    OtherAddress,
    OtherId,
    /// It arrives after the SYN-ACK.
    Late,
}

/// Returns how the initiator's connection ended, after `copies` of a forged packet in answer to its
/// first SYN.
fn end_after(forged: Forged, copies: usize, flaw: Flaw, handshake: (Pattern, bool)) -> Option<Closed> {
    let mut network = client_and_server(1);
    network.require_proofs(SERVER);
    network.hosts[SERVER].reply = Some(b"reply".to_vec());
    let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), b"request");
    let end = network.now + Duration::from_secs(10);
    network.run_until(end, |network| !network.log.is_empty());
    let syn = network.log[0].clone();
    if flaw == Flaw::Late {
        // The SYN-ACK arrives one delay after it was sent.
        network.run_until(end, |network| network.log.iter().any(|d| d.bytes[1] == 3));
    }
    let own = u64::from_le_bytes(syn.bytes[8..16].try_into().unwrap());
    let bytes = forged.bytes(if flaw == Flaw::OtherId { own ^ 1 } else { own });
    let from = if flaw == Flaw::OtherAddress { "203.0.113.1:7".parse().unwrap() } else { syn.to };
    for _ in 0..copies {
        network.inject(Datagram { from, to: syn.from, bytes: bytes.clone() });
    }
    network.run(Duration::from_secs(60));
    network.hosts[CLIENT].streams[&id].closed.clone()
}

/// Returns how and when the connection ended of an initiator whose every SYN gets three copies of a
/// forged packet, and genuine answers if there is a server.
fn end_under(forged: Forged, has_server: bool, handshake: (Pattern, bool)) -> (Option<Closed>, Duration) {
    let mut network = client_and_server(1);
    if !has_server {
        network.hosts[SERVER].set.stop_listening();
    }
    network.hosts[SERVER].reply = Some(b"reply".to_vec());
    let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), b"request");
    let (start, mut answered) = (network.now, 0);
    while network.hosts[CLIENT].streams[&id].closed.is_none() && network.now < start + Duration::from_secs(60)
    {
        let end = network.now + Duration::from_millis(5);
        network.run_until(end, |_| false);
        for syn in network.log.split_off(answered).into_iter().filter(|datagram| datagram.bytes[1] == 1) {
            let bytes = forged.bytes(id.0);
            for _ in 0..3 {
                network.inject(Datagram { from: syn.to, to: syn.from, bytes: bytes.clone() });
            }
        }
        answered = network.log.len();
    }
    (network.hosts[CLIENT].streams[&id].closed.clone(), network.now - start)
}

#[test]
fn refusals_without_proof_end_connection_at_second_syn() {
    let versions = Closed::Version(Versions::from_bits(OTHERS).unwrap());
    let cases = [
        (Forged::Versions(OTHERS), versions.clone()),
        (Forged::Refuse(9), Closed::Refused(RefuseReason::Busy)),
        (Forged::Refuse(12), Closed::Refused(RefuseReason::WrongKey)),
        (Forged::Refuse(77), Closed::Refused(RefuseReason::Other(77))),
    ];
    for handshake in HANDSHAKES {
        for (forged, expected) in &cases {
            let (closed, took) = end_under(*forged, false, handshake);
            assert_eq!(closed.as_ref(), Some(expected), "{handshake:?}");
            assert!((1000..1100).contains(&took.as_millis()), "{handshake:?} {forged:?}: {took:?}");
        }
    }
    let sentence = "the peer speaks version 3 or 5 of the protocol, and this program does not: \
                    update the older of them";
    assert_eq!(versions.to_string(), sentence);
}

/// The forged answers arrive before the genuine ones.
#[test]
fn forged_refusals_change_nothing_beside_genuine_answers() {
    for handshake in HANDSHAKES {
        for forged in [Forged::Versions(OTHERS), Forged::Refuse(9), Forged::Refuse(11), Forged::Refuse(12)] {
            let (closed, took) = end_under(forged, true, handshake);
            assert_eq!(closed, Some(Closed::Finished), "{handshake:?} {forged:?}");
            assert!(took < Duration::from_millis(900), "{handshake:?} {forged:?}: {took:?}");
            assert_eq!(end_after(forged, 5, Flaw::None, handshake), Some(Closed::Finished), "{handshake:?}");
        }
    }
}

/// A list that has the version of the SYN contradicts the reason to send it.
#[test]
fn versions_with_own_version_change_nothing() {
    for handshake in HANDSHAKES {
        let closed = end_after(Forged::Versions(OTHERS | Versions::OURS.bits()), 1, Flaw::None, handshake);
        assert_eq!(closed, Some(Closed::Finished), "{handshake:?}");
    }
}

/// A responder refuses a key with a proof: by message 2, or by CLOSE.
#[test]
fn refuse_of_key_changes_nothing() {
    for handshake in HANDSHAKES {
        let closed = end_after(Forged::Refuse(10), 5, Flaw::None, handshake);
        assert_eq!(closed, Some(Closed::Finished), "{handshake:?}");
    }
}

#[test]
fn misdirected_or_late_forgeries_change_nothing() {
    for handshake in HANDSHAKES {
        for forged in [Forged::Versions(OTHERS), Forged::Refuse(9)] {
            for flaw in [Flaw::OtherAddress, Flaw::OtherId, Flaw::Late] {
                let closed = end_after(forged, 5, flaw, handshake);
                assert_eq!(closed, Some(Closed::Finished), "{handshake:?} {forged:?} {flaw:?}");
            }
        }
    }
}
