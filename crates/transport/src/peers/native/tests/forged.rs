//! Forged VERSIONS and REFUSE, which have no proof. Before its SYN-ACK an initiator believes them,
//! if they have its connection ID and come from the responder's address.

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

/// Returns how the initiator's connection ended, after `copies` of a forged packet.
fn end_after(forged: Forged, copies: usize, flaw: Flaw, handshake: (Pattern, bool)) -> Option<Closed> {
    let mut network = client_and_server(1);
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

#[test]
fn forged_versions_end_opening_connection() {
    for handshake in HANDSHAKES {
        let closed = end_after(Forged::Versions(OTHERS), 1, Flaw::None, handshake);
        assert_eq!(closed, Some(Closed::Version(Versions::from_bits(OTHERS).unwrap())), "{handshake:?}");
    }
    let sentence = "the peer speaks version 3 or 5 of the protocol, and this program does not: \
                    update the older of them";
    let closed = Closed::Version(Versions::from_bits(OTHERS).unwrap());
    assert_eq!(closed.to_string(), sentence);
}

/// A list that has the version of the SYN contradicts the reason to send it.
#[test]
fn versions_with_own_version_change_nothing() {
    for handshake in HANDSHAKES {
        let closed = end_after(Forged::Versions(OTHERS | Versions::OURS.bits()), 1, Flaw::None, handshake);
        assert_eq!(closed, Some(Closed::Finished), "{handshake:?}");
    }
}

#[test]
fn forged_refuse_ends_opening_connection() {
    for handshake in HANDSHAKES {
        for (code, reason) in [(9, RefuseReason::Busy), (77, RefuseReason::Other(77))] {
            let closed = end_after(Forged::Refuse(code), 1, Flaw::None, handshake);
            assert_eq!(closed, Some(Closed::Refused(reason)), "{handshake:?}");
        }
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

/// A host on the path that changes one SYN makes the responder send reason 12.
#[test]
fn third_wrong_key_refuse_is_believed() {
    for handshake in HANDSHAKES {
        let end = |copies| end_after(Forged::Refuse(12), copies, Flaw::None, handshake);
        assert_eq!([end(1), end(2)], [Some(Closed::Finished), Some(Closed::Finished)], "{handshake:?}");
        assert_eq!(end(3), Some(Closed::Refused(RefuseReason::WrongKey)), "{handshake:?}");
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
