//! Payloads of the Noise messages of the handshake.

use rdt_crypto::{Aead, RESUMPTION_COOKIE_BYTES, ResetToken, ResumptionCookie};

use super::super::WireError;
use super::header::{put, u16_at, u32_at, u64_at};
use super::params::{
    ENTRY, INSTEAD, INSTEAD_VALUE, LINK_VALUE, LIST_MAX, LIST_MAX_WITHOUT_LINK, NAME, Params, Versions,
    push_entry,
};
use super::{Service, StreamName};

/// Length of a [`Hello`] without its parameters, bytes.
const HELLO: usize = 26;
/// Length of the longest [`Hello`] without a name, bytes. One with a link has no [`Instead`].
pub(super) const HELLO_MAX: usize = HELLO + LIST_MAX;
/// Length of the longest entry of a name, bytes.
pub(super) const NAME_MAX: usize = ENTRY + StreamName::MAX_LEN;
/// Length of a [`Welcome`] without its parameters and what follows them, bytes.
const WELCOME: usize = 38;
/// Length of the longest [`Welcome`], bytes. A responder asks for no link.
pub(super) const WELCOME_MAX: usize = WELCOME + LIST_MAX_WITHOUT_LINK + 1 + RESUMPTION_COOKIE_BYTES;

const _: () = assert!(INSTEAD_VALUE <= LINK_VALUE);

/// Status of a message 2 that accepts; others are the reason of a refusal.
const ACCEPTED: u8 = 0;
/// Reason of a refusal that the responder's service follows.
const OTHER_SERVICE: u8 = 16;

/// Payload by which the initiator introduces itself: of message 1 (IK, NK) or 3 (XX).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Initial receive window, bytes.
    pub(crate) window: u64,
    /// Token of the RESETs that the initiator would send.
    pub(crate) reset_token: ResetToken,
    /// Transport parameters of the initiator.
    pub(crate) params: Params,
    /// Name that the initiator suggests for its stream.
    pub(crate) name: Option<StreamName>,
    /// OPEN that was refused.
    pub(crate) instead: Option<Instead>,
}

/// Connection of an association that a handshake replaces, because the responder refused its OPEN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instead {
    /// Identifier of the association.
    pub(crate) association: u64,
    /// Number of the connection in it.
    pub(crate) number: u64,
    /// Longest time from the first OPEN to the arrival of this, milliseconds; saturates.
    pub(crate) age_ms: u32,
    /// Number of the responder that made the association (parameter 9).
    pub(crate) scope: u32,
    /// Proof that the initiator has the secret of the association.
    pub(crate) proof: u32,
}

impl Instead {
    fn to_bytes(self) -> [u8; INSTEAD_VALUE] {
        let mut bytes = [0; INSTEAD_VALUE];
        put(&mut bytes, 0, self.association.to_le_bytes());
        put(&mut bytes, 8, self.number.to_le_bytes());
        put(&mut bytes, 16, self.age_ms.to_le_bytes());
        put(&mut bytes, 20, self.scope.to_le_bytes());
        put(&mut bytes, 24, self.proof.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; INSTEAD_VALUE]) -> Self {
        Self {
            association: u64_at(bytes, 0),
            number: u64_at(bytes, 8),
            age_ms: u32_at(bytes, 16),
            scope: u32_at(bytes, 20),
            proof: u32_at(bytes, 24),
        }
    }
}

/// Payload by which the responder accepts or refuses: of message 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The connection is accepted.
    Accepted(Welcome),
    /// The connection is refused, with the code of another reason, at least 1.
    Refused(u8),
    /// The connection is refused because the responder speaks this service.
    OtherService(Service),
}

/// Fields of a message 2 that accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Welcome {
    /// Number of the AEAD of both directions, 1 to 4.
    pub(crate) aead: u8,
    /// Versions that the responder speaks; always includes the version of the packet.
    pub(crate) versions: Versions,
    /// Connection ID of the responder.
    pub(crate) connection_id: u64,
    /// Token of the RESETs that the responder would send.
    pub(crate) reset_token: ResetToken,
    /// Initial receive window, bytes.
    pub(crate) window: u64,
    /// Transport parameters of the responder.
    pub(crate) params: Params,
    /// Cookie for a later connection.
    pub(crate) resumption: Option<ResumptionCookie>,
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut list = self.params.encode();
        if let Some(name) = &self.name {
            push_entry(&mut list, NAME, name.as_str().as_bytes());
        }
        if let Some(instead) = &self.instead {
            push_entry(&mut list, INSTEAD, &instead.to_bytes());
        }
        let (window, token) = (self.window.to_le_bytes(), self.reset_token.to_wire());
        [&length(&list)[..], &window, &token, &list].concat()
    }

    /// Decodes a payload.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let (head, list) = payload.split_first_chunk::<HELLO>().ok_or(WireError::Truncated)?;
        if list.len() != usize::from(u16_at(head, 0)) {
            return Err(WireError::Length);
        }
        let (_, reset_token) = head.split_last_chunk().ok_or(WireError::Truncated)?;
        let (params, name, instead) = Params::decode_hello(list)?;
        let reset_token = ResetToken::from_wire(*reset_token);
        Ok(Self { window: u64_at(head, 2), reset_token, params, name, instead })
    }
}

impl Reply {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Refused(reason) => vec![*reason],
            Self::OtherService(service) => [&[OTHER_SERVICE], service.as_bytes()].concat(),
            Self::Accepted(welcome) => welcome.encode(),
        }
    }

    /// Decodes a payload.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, WireError> {
        match payload {
            [ACCEPTED, ..] => Welcome::decode(payload).map(Self::Accepted),
            [OTHER_SERVICE, service @ ..] => Service::decode(service).map(Self::OtherService),
            [reason] => Ok(Self::Refused(*reason)),
            [] => Err(WireError::Truncated),
            _ => Err(WireError::Length),
        }
    }
}

impl Welcome {
    fn encode(&self) -> Vec<u8> {
        let list = self.params.encode();
        let cookie = self.resumption.as_ref().map_or(&[][..], |cookie| cookie);
        #[expect(clippy::cast_possible_truncation, reason = "0 or 48")]
        let cookie_len = cookie.len() as u8;
        [
            &[ACCEPTED, self.aead][..],
            &self.versions.bits().to_le_bytes(),
            &self.connection_id.to_le_bytes(),
            &self.reset_token.to_wire(),
            &self.window.to_le_bytes(),
            &length(&list),
            &list,
            &[cookie_len],
            cookie,
        ]
        .concat()
    }

    fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let (head, rest) = payload.split_first_chunk::<WELCOME>().ok_or(WireError::Truncated)?;
        let (list, rest) = rest.split_at_checked(usize::from(u16_at(head, 36))).ok_or(WireError::Length)?;
        let resumption = match rest.split_first() {
            Some((0, [])) => None,
            Some((&len, cookie)) if usize::from(len) == RESUMPTION_COOKIE_BYTES => {
                Some(cookie.try_into().map_err(|_| WireError::Length)?)
            }
            _ => return Err(WireError::Length),
        };
        let aead = head[1];
        let versions = Versions::from_bits(u16_at(head, 2)).filter(|versions| versions.contains_ours());
        if Aead::from_number(aead).is_none() {
            return Err(WireError::Params);
        }
        let reset_token = head[12..].first_chunk().ok_or(WireError::Truncated)?;
        Ok(Self {
            aead,
            versions: versions.ok_or(WireError::Params)?,
            connection_id: u64_at(head, 4),
            reset_token: ResetToken::from_wire(*reset_token),
            window: u64_at(head, 28),
            params: Params::decode(list)?,
            resumption,
        })
    }
}

/// Returns the field that precedes a list: its length.
fn length(list: &[u8]) -> [u8; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "a list has at most 373 bytes")]
    let len = list.len() as u16;
    len.to_le_bytes()
}
