//! Opening of a connection within an association: two sides that completed a handshake have a
//! secret, from which both derive the keys of further connections. Such a connection opens with its
//! first data, and falls back to a handshake if the responder refuses it.

use std::time::{Duration, Instant};

use rdt_crypto::{Aead, AssociationSecret, Entropy, PublicKey, ResetToken, StaticKey};

use super::config::{ConnectionConfig, InitiatorConfig};
use super::initiator::{Opened, Opening};
use super::proof::KeyProof;
use super::streams::Established;
use crate::Service;
use crate::wire::native::{Instead, Open, Params, encode_open, seal_hello};

/// Number of the reason with which an OPEN is refused, by REFUSE, and a handshake instead of it if
/// the OPEN may have opened the connection.
pub(crate) const REFUSED_OPEN: u16 = 15;

/// What the initiator keeps of a handshake, to open further connections.
#[derive(Debug)]
pub(crate) struct Associated {
    pub(crate) secret: AssociationSecret,
    pub(crate) aead: Aead,
    /// Initial receive window of the responder, bytes.
    pub(crate) window: u64,
    /// Transport parameters of the responder.
    pub(crate) params: Params,
    /// Static key of the responder.
    pub(crate) peer: PublicKey,
    /// Own static key, if the application gave one.
    pub(crate) own_key: Option<PublicKey>,
    /// Time of the handshake.
    pub(crate) made_at: Instant,
}

/// Next connection of an association.
#[derive(Debug)]
pub(crate) struct Within<'a> {
    pub(crate) association: &'a Associated,
    pub(crate) number: u64,
    /// Initial receive window of this connection, bytes.
    pub(crate) window: u64,
    /// Round trip to the responder, as an earlier connection measured it.
    pub(crate) rtt: Option<Duration>,
}

impl Associated {
    /// Returns what is kept of a handshake. `None` without encryption, or if OPENs are not taken.
    pub(super) fn of(
        now: Instant,
        established: &Established,
        peer: PublicKey,
        own_key: Option<PublicKey>,
    ) -> Option<Self> {
        let Established { secrets, aead, window, params, .. } = established;
        (params.associations != 0 && aead.is_encrypted()).then(|| Self {
            secret: AssociationSecret::of(secrets),
            aead: *aead,
            window: *window,
            params: *params,
            peer,
            own_key,
            made_at: now,
        })
    }

    /// True if a connection with this configuration may belong to the association.
    pub(crate) fn allows(&self, config: &ConnectionConfig, service: Service) -> bool {
        self.params.service == service
            && !config.dangerously_unencrypted
            && config.aead.is_none_or(|aead| !aead.is_encrypted() || aead == self.aead)
            && config.sender.wanted_params().link.is_none()
    }
}

impl Within<'_> {
    /// Completes the keys for the handshake after a refusal: the responder's key is known.
    pub(super) fn complete(&self, keys: InitiatorConfig, entropy: &mut Entropy) -> InitiatorConfig {
        // As in the first handshake: an initiator that did not know the responder's key had one.
        let drawn = keys.remote.is_none().then(|| StaticKey::generate(entropy).into());
        InitiatorConfig { local: keys.local.or(drawn), remote: Some(self.association.peer), ..keys }
    }
}

impl Opening {
    /// Returns an open connection, whose OPEN leaves first. This handshake follows a refusal.
    pub(super) fn open_within(&mut self, now: Instant, within: &Within<'_>, entropy: &mut Entropy) -> Opened {
        let &Within { association, number, window, rtt } = within;
        let Associated { secret, aead, params, peer, .. } = association;
        let id = secret.id();
        let derived = secret.connection(number);
        let hello = self.hello();
        let key = secret.open(number).packet_key(*aead);
        let hello = seal_hello(self.env.local_id, &hello, &key);
        let open = encode_open(self.env.local_id, &Open { association: id, number, hello: &hello });
        let (scope, proof) = (params.associations, secret.give_up_proof(number));
        self.begin_open(now, Instead { association: id, number, age_ms: 0, scope, proof });
        Opened {
            established: Established {
                local_id: self.env.local_id,
                remote_id: derived.responder_id,
                is_initiator: true,
                secrets: derived.secrets,
                aead: *aead,
                window,
                params: *params,
                name: None,
                // A random one, until the OPEN-ACK has that of the responder.
                peer_reset: ResetToken::from_wire(entropy.array()),
                rtt,
                is_remembered: true,
                offered_at: now,
            },
            proof: KeyProof::new(open, None, rtt, self.give_up_at()),
            peer: *peer,
            is_proven: true,
            resumption: None,
        }
    }
}
