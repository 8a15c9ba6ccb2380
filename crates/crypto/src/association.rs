//! Secret of an association: two sides that completed a handshake derive the keys of further
//! connections from it, which so need no handshake of their own.
//!
//! With H(key, text) = HMAC-SHA-256 and n the number of a connection, 8 bytes, little-endian:
//!
//! | value | derived as |
//! |---|---|
//! | secret | H(secret 0 of the initiator, "rdt2 association" and secret 0 of the responder) |
//! | its identifier | H(secret, "rdt2 name"), the first 8 bytes |
//! | secret that protects the Hello in OPEN | H(secret, "rdt2 open" and n) |
//! | secret 0 of the initiator's packets | H(secret, "rdt2 initiator" and n) |
//! | secret 0 of the responder's packets | H(secret, "rdt2 responder" and n) |
//! | connection ID of the responder | H(secret, "rdt2 id" and n), the first 8 bytes |
//! | hash of the handshake | H(secret, "rdt2 hash" and n) |
//! | proof of a handshake instead of n | H(secret, "rdt2 instead" and n), the first 4 bytes |
//!
//! All connections of an association have the forward secrecy of its handshake: who learns the
//! secret can decrypt them. So it is kept in memory only, and replaced after a while.

use std::fmt;

use zeroize::Zeroizing;

use crate::schedule::prf;
use crate::{Secrets, TrafficSecret};

/// Secret from which an association's connections are derived. Erased from memory when dropped.
#[derive(Clone)]
pub struct AssociationSecret(Zeroizing<[u8; 32]>);

/// Keys and names of one connection of an association, equal on both sides.
#[derive(Debug)]
pub struct AssociatedSecrets {
    /// Connection ID of the responder.
    pub responder_id: u64,
    /// Secrets of both directions.
    pub secrets: Secrets,
}

impl AssociationSecret {
    /// Derives the secret of the association that a handshake with these secrets makes.
    pub fn of(secrets: &Secrets) -> Self {
        let parts: [&[u8]; 2] = [b"rdt2 association", secrets.from_responder.bytes()];
        Self(prf(secrets.from_initiator.bytes(), &parts))
    }

    /// Returns the identifier of the association, which is no secret.
    pub fn id(&self) -> u64 {
        first_number(&prf(&*self.0, &[b"rdt2 name"]))
    }

    /// Derives the secret that protects the Hello in the OPEN of the connection with this number.
    pub fn open(&self, number: u64) -> TrafficSecret {
        TrafficSecret::new(*self.derive(b"rdt2 open", number))
    }

    /// Derives the connection with this number. A number must open one connection only.
    pub fn connection(&self, number: u64) -> AssociatedSecrets {
        AssociatedSecrets {
            responder_id: first_number(&self.derive(b"rdt2 id", number)),
            secrets: Secrets {
                from_initiator: TrafficSecret::new(*self.derive(b"rdt2 initiator", number)),
                from_responder: TrafficSecret::new(*self.derive(b"rdt2 responder", number)),
                handshake_hash: *self.derive(b"rdt2 hash", number),
            },
        }
    }

    /// Derives the proof that a handshake's initiator may give up the connection with this number.
    pub fn give_up_proof(&self, number: u64) -> u32 {
        let proof = self.derive(b"rdt2 instead", number);
        u32::from_le_bytes([proof[0], proof[1], proof[2], proof[3]])
    }

    fn derive(&self, label: &[u8], number: u64) -> Zeroizing<[u8; 32]> {
        prf(&*self.0, &[label, &number.to_le_bytes()])
    }
}

impl fmt::Debug for AssociationSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssociationSecret").finish_non_exhaustive()
    }
}

fn first_number(bytes: &[u8; 32]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    fn secret(initiator: u8, responder: u8) -> AssociationSecret {
        AssociationSecret::of(&Secrets {
            from_initiator: TrafficSecret::new([initiator; 32]),
            from_responder: TrafficSecret::new([responder; 32]),
            handshake_hash: [0; 32],
        })
    }

    /// Computed with Python's `hmac`.
    #[test]
    fn derivation_meets_its_vector() {
        let secret = secret(1, 2);
        assert_eq!(*secret.0, hex::array("c398c6a39c416a046d70cf29b99f5f6bca88983405a31c0a6c039a26bf006f9c"));
        assert_eq!(secret.id(), 0xd9df_0981_6714_8ffb);
        let connection = secret.connection(258);
        assert_eq!(
            *secret.open(258).bytes(),
            hex::array("4a153aa8571d32388e03d02ba601a0598a291ddced1b9aa8baff3831a06c2544")
        );
        assert_eq!(connection.responder_id, 0x73cb_4f2f_759e_dcbf);
        assert_eq!(
            *connection.secrets.from_initiator.bytes(),
            hex::array("72425fef7d25d14bb43ff6812fb60d3141e56d2749d8a18350da4731ae414b71")
        );
        assert_eq!(
            *connection.secrets.from_responder.bytes(),
            hex::array("c589387f61ac40180089acdccb31cb4e649392b9dda28fe50c1088de8dc0affe")
        );
        assert_eq!(
            connection.secrets.handshake_hash,
            hex::array("b7f60f02e74e119d9d7f003422e13470a6d0231ac3bc58c8f920c92e0c2ccaa2")
        );
    }

    #[test]
    fn every_handshake_and_number_has_its_own_keys() {
        let mut seen = std::collections::BTreeSet::new();
        for (initiator, responder) in [(1, 2), (2, 1), (1, 1)] {
            for number in 0..4 {
                let association = secret(initiator, responder);
                let secrets = association.connection(number).secrets;
                for secret in [&association.open(number), &secrets.from_initiator, &secrets.from_responder] {
                    assert!(seen.insert(*secret.bytes()), "{initiator} {responder} {number}");
                }
            }
        }
    }
}
