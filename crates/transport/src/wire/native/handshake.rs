//! Packets that are not sealed: the handshake, which has a check, and RESET, which has a token.

use rdt_crypto::{PacketKey, RESUMPTION_COOKIE_BYTES, ResetToken, ResumptionCookie, Space};

use super::super::{PacketKind, WireError};
use super::header::{self, HEADER, SEALED_MIN, TAG, put, u16_at, u64_at};
use super::{Hello, SMALLEST_PATH, VERSION, Versions, check, payload};
use crate::cookie::Cookie;

/// Length of the shortest SYN of any version, bytes. VERSIONS, which answers it, is shorter.
pub(crate) const ANY_SYN: usize = 128;
/// Length of the shortest SYN, bytes. Its answers, SYN-ACK and RETRY, are not longer, so that a
/// forged source address cannot make the responder an amplifier.
pub(crate) const SYN_MIN: usize = 320;
/// Length of a RETRY, bytes.
pub(crate) const RETRY_LEN: usize = HEADER + RETRY_COOKIE;
/// Length of a REFUSE, bytes.
pub(crate) const REFUSE_LEN: usize = HEADER;
/// Length of a VERSIONS packet, bytes.
pub(crate) const VERSIONS_LEN: usize = HEADER;
/// Length of a RESET, bytes.
pub(crate) const RESET_LEN: usize = HEADER + RESET_TOKEN;

const RESET_TOKEN: usize = 16;
const RETRY_COOKIE: usize = size_of::<Cookie>();
/// Index of the cookie in a SYN.
const SYN_COOKIE: usize = 32;
/// Index of the Noise message in a SYN-ACK.
const SYN_ACK_NOISE: usize = 24;
/// Index of the sealed Hello in an OPEN.
const OPEN_HELLO: usize = 32;
/// Length of the prologue of the Noise handshake, bytes.
const PROLOGUE: usize = 28;
/// Length of a public key in a Noise message, bytes.
const KEY: usize = 32;
/// Length of a tag in a Noise message, bytes.
const NOISE_TAG: usize = 16;

/// Longest first message without a name, bytes: ephemeral key, sealed static key, payload of IK.
const FIRST_MAX: usize = KEY + KEY + NOISE_TAG + payload::HELLO_MAX + NOISE_TAG;
/// Length of the longest second message, bytes: ephemeral key, sealed static key and payload of XX.
const SECOND_MAX: usize = KEY + KEY + NOISE_TAG + payload::WELCOME_MAX + NOISE_TAG;

const _: () = assert!(RETRY_LEN <= SYN_MIN && REFUSE_LEN <= SYN_MIN && VERSIONS_LEN <= ANY_SYN);
const _: () = assert!(SYN_COOKIE + RESUMPTION_COOKIE_BYTES + FIRST_MAX + payload::NAME_MAX <= SMALLEST_PATH);
const _: () = assert!(SYN_ACK_NOISE + SECOND_MAX <= SYN_MIN);
// What answers an OPEN before its address is proved.
const _: () = assert!(REFUSE_LEN <= OPEN_HELLO + TAG);
// A RESET is shorter than what it answers, or two hosts could answer each other for ever.
const _: () = assert!(RESET_LEN < SEALED_MIN);

/// SYN: opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syn<'a> {
    /// Proof of the initiator's address.
    pub(crate) proof: Proof,
    /// Attempt number, 1 to 255, saturating.
    pub(crate) attempt: u8,
    /// Number of the Noise pattern.
    pub(crate) pattern: u8,
    /// AEADs that the initiator offers: bits 0 to 3 for AEAD 1 to 4. Bit 7: its CPU has AES.
    pub(crate) aeads: u8,
    /// Versions that the initiator would use; always includes that of the packet.
    pub(crate) versions: Versions,
    /// Identifier of the shared secret that the initiator mixes in; 0 for none.
    pub(crate) secret_id: u64,
    /// First message of the Noise handshake.
    pub(crate) noise: &'a [u8],
}

/// Proof of an address in a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// None. A busy responder answers by a RETRY.
    None,
    /// Cookie of a RETRY.
    Retry(Cookie),
    /// Cookie of an earlier connection.
    Resumption(ResumptionCookie),
}

impl Proof {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Retry(cookie) => cookie,
            Self::Resumption(cookie) => cookie,
        }
    }

    /// Decodes the proof of this length at the start of `bytes`.
    fn decode(len: u8, bytes: &[u8]) -> Result<Self, WireError> {
        let proof = match usize::from(len) {
            0 => Some(Self::None),
            RETRY_COOKIE => bytes.first_chunk().copied().map(Self::Retry),
            RESUMPTION_COOKIE_BYTES => bytes.first_chunk().copied().map(Self::Resumption),
            _ => None,
        };
        proof.ok_or(WireError::Length)
    }
}

/// OPEN: opens a connection of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open<'a> {
    /// Identifier of the association.
    pub(crate) association: u64,
    /// Number of the connection in it.
    pub(crate) number: u64,
    /// The initiator's [`Hello`], sealed.
    pub(crate) hello: &'a [u8],
}

impl Open<'_> {
    /// Opens the Hello of an OPEN with this connection ID.
    pub(crate) fn open_hello(&self, connection_id: u64, key: &PacketKey) -> Result<Hello, WireError> {
        let mut packet = vec![0; HEADER + self.hello.len()];
        begin(PacketKind::Open, self.hello.len(), connection_id, &mut packet);
        packet[HEADER..].copy_from_slice(self.hello);
        let hello = key.open(Space::Control, 0, &mut packet).map_err(|_| WireError::Check)?;
        Hello::decode(hello)
    }
}

/// Packet that is not sealed. [`connection_id`](super::connection_id) has its connection ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clear<'a> {
    /// Opens a connection.
    Syn(Syn<'a>),
    /// Opens a connection of an association.
    Open(Open<'a>),
    /// Requests the SYN again, with this cookie.
    Retry(Cookie),
    /// Answers a SYN.
    SynAck {
        /// Attempt number of the SYN that it answers.
        attempt: u8,
        /// Second message of the Noise handshake.
        noise: &'a [u8],
    },
    /// Completes the handshake.
    Auth {
        /// Third message of the Noise handshake.
        noise: &'a [u8],
    },
    /// Refuses a connection, with the code of the reason. Not authenticated.
    Refuse(u16),
    /// The responder does not speak the SYN's version, but these. Not authenticated.
    Versions(Versions),
    /// Ends a connection that its receiver does not know.
    Reset(ResetToken),
}

impl<'a> Clear<'a> {
    /// Decodes a packet that is not sealed.
    pub(crate) fn decode(datagram: &'a [u8]) -> Result<Self, WireError> {
        let kind = header::clear_kind(datagram)?;
        let (header, rest) = datagram.split_first_chunk::<HEADER>().ok_or(WireError::Truncated)?;
        let info = u16_at(header, 2);
        if kind == PacketKind::Reset {
            return decode_reset(header, rest);
        }
        check::verify(datagram)?;
        match kind {
            PacketKind::Syn => decode_syn(datagram, usize::from(info)).map(Self::Syn),
            PacketKind::Open => decode_open(rest, usize::from(info)).map(Self::Open),
            PacketKind::Retry if info != 0 => Err(WireError::Reserved),
            PacketKind::Retry => rest.try_into().map(Self::Retry).map_err(|_| WireError::Length),
            PacketKind::SynAck => decode_syn_ack(rest, usize::from(info)),
            PacketKind::Auth if rest.len() != usize::from(info) => Err(WireError::Length),
            PacketKind::Auth => Ok(Self::Auth { noise: rest }),
            PacketKind::Refuse | PacketKind::Versions if !rest.is_empty() => Err(WireError::Length),
            PacketKind::Refuse => Ok(Self::Refuse(info)),
            PacketKind::Versions => Versions::from_bits(info).map(Self::Versions).ok_or(WireError::Params),
            _ => Err(WireError::Type),
        }
    }
}

/// Returns the prologue of the Noise handshake: the clear fields of a SYN that negotiate. With
/// another prologue at either side the handshake fails, so none of them can be changed unseen.
/// Length, check, attempt and proof are left out, because they change from SYN to SYN.
pub(crate) fn prologue(syn: &[u8; SYN_MIN]) -> [u8; PROLOGUE] {
    let mut prologue = [0; PROLOGUE];
    prologue[..4].copy_from_slice(b"rdt2");
    prologue[4..6].copy_from_slice(&syn[..2]);
    prologue[6..14].copy_from_slice(&syn[8..16]);
    prologue[14..].copy_from_slice(&syn[18..SYN_COOKIE]);
    prologue
}

/// Returns the length of a SYN with its padding, bytes.
pub(crate) fn syn_len(syn: &Syn<'_>) -> usize {
    SYN_MIN.max(SYN_COOKIE + syn.proof.bytes().len() + syn.noise.len())
}

/// Writes a SYN; `out` has [`syn_len`] bytes, or more to pad it further.
pub(crate) fn encode_syn(connection_id: u64, syn: &Syn<'_>, out: &mut [u8]) {
    let proof = syn.proof.bytes();
    out.fill(0);
    begin(PacketKind::Syn, syn.noise.len(), connection_id, out);
    #[expect(clippy::cast_possible_truncation, reason = "at most 48")]
    let proof_len = proof.len() as u8;
    put(out, 16, [proof_len, syn.attempt, syn.pattern, syn.aeads]);
    put(out, 20, syn.versions.bits().to_le_bytes());
    put(out, 24, syn.secret_id.to_le_bytes());
    let (cookie, noise) = out[SYN_COOKIE..].split_at_mut(proof.len());
    cookie.copy_from_slice(proof);
    noise[..syn.noise.len()].copy_from_slice(syn.noise);
    check::write(out);
}

/// Returns the sealed Hello of an OPEN with this connection ID. The key must seal nothing else.
pub(crate) fn seal_hello(connection_id: u64, hello: &Hello, key: &PacketKey) -> Vec<u8> {
    let mut packet = vec![0; HEADER];
    packet.extend(hello.encode());
    packet.resize(packet.len() + TAG, 0);
    let len = packet.len() - HEADER;
    begin(PacketKind::Open, len, connection_id, &mut packet);
    key.seal(Space::Control, 0, &mut packet);
    packet.split_off(HEADER)
}

pub(crate) fn encode_open(connection_id: u64, open: &Open<'_>) -> Vec<u8> {
    let mut out = vec![0; OPEN_HELLO + open.hello.len()];
    begin(PacketKind::Open, open.hello.len(), connection_id, &mut out);
    put(&mut out, HEADER, open.association.to_le_bytes());
    put(&mut out, HEADER + 8, open.number.to_le_bytes());
    out[OPEN_HELLO..].copy_from_slice(open.hello);
    check::write(&mut out);
    out
}

/// Writes a RETRY; `out` has [`RETRY_LEN`] bytes.
pub(crate) fn encode_retry(connection_id: u64, cookie: &Cookie, out: &mut [u8]) {
    begin(PacketKind::Retry, 0, connection_id, out);
    put(out, HEADER, *cookie);
    check::write(&mut out[..RETRY_LEN]);
}

/// Returns the length of a SYN-ACK with this Noise message, bytes.
pub(crate) fn syn_ack_len(noise: &[u8]) -> usize {
    SYN_ACK_NOISE + noise.len()
}

/// Writes a SYN-ACK that answers the SYN with this attempt number; `out` has [`syn_ack_len`] bytes.
pub(crate) fn encode_syn_ack(connection_id: u64, attempt: u8, noise: &[u8], out: &mut [u8]) {
    let out = &mut out[..syn_ack_len(noise)];
    begin(PacketKind::SynAck, noise.len(), connection_id, out);
    put(out, HEADER, [attempt, 0, 0, 0, 0, 0, 0, 0]);
    out[SYN_ACK_NOISE..].copy_from_slice(noise);
    check::write(out);
}

pub(crate) fn encode_auth(connection_id: u64, noise: &[u8]) -> Vec<u8> {
    let mut out = vec![0; HEADER + noise.len()];
    begin(PacketKind::Auth, noise.len(), connection_id, &mut out);
    out[HEADER..].copy_from_slice(noise);
    check::write(&mut out);
    out
}

/// Writes a REFUSE with the code of its reason; `out` has [`REFUSE_LEN`] bytes.
pub(crate) fn encode_refuse(connection_id: u64, reason: u16, out: &mut [u8]) {
    header::begin(PacketKind::Refuse, reason, 0, connection_id, out);
    check::write(&mut out[..REFUSE_LEN]);
}

/// Writes the answer to a SYN of another version; `out` has [`VERSIONS_LEN`] bytes.
pub(crate) fn encode_versions(connection_id: u64, versions: Versions, out: &mut [u8]) {
    header::begin(PacketKind::Versions, versions.bits(), 0, connection_id, out);
    check::write(&mut out[..VERSIONS_LEN]);
}

/// Returns the connection ID of a valid SYN of another version, to be answered by VERSIONS. SYNs of
/// all versions have the same length limit and check, so invalid datagrams get no answer.
pub(crate) fn other_version(datagram: &[u8]) -> Option<u64> {
    let (version, connection_id) = header::peek_syn(datagram)?;
    let is_valid = version != VERSION && datagram.len() >= ANY_SYN && check::verify(datagram).is_ok();
    is_valid.then_some(connection_id)
}

/// Writes the RESET of an unknown `connection_id`; `out` has [`RESET_LEN`] bytes.
pub(crate) fn encode_reset(connection_id: u64, token: &ResetToken, out: &mut [u8]) {
    header::begin(PacketKind::Reset, 0, 0, connection_id, out);
    put(out, HEADER, token.to_wire());
}

/// Writes the header of a packet with a message of `len` bytes.
fn begin(kind: PacketKind, len: usize, connection_id: u64, out: &mut [u8]) {
    #[expect(clippy::cast_possible_truncation, reason = "messages have at most 65,535 bytes")]
    header::begin(kind, len as u16, 0, connection_id, out);
}

fn decode_syn(datagram: &[u8], noise: usize) -> Result<Syn<'_>, WireError> {
    let packet = datagram.first_chunk::<SYN_MIN>().ok_or(WireError::Truncated)?;
    let [len, attempt, pattern, aeads] = [16, 17, 18, 19].map(|at| packet[at]);
    let proof = Proof::decode(len, &packet[SYN_COOKIE..])?;
    if u16_at(packet, 22) != 0 {
        return Err(WireError::Reserved);
    }
    if attempt == 0 {
        return Err(WireError::Params);
    }
    let versions = Versions::from_bits(u16_at(packet, 20)).filter(|versions| versions.contains_ours());
    let noise = datagram[SYN_COOKIE + usize::from(len)..].get(..noise).ok_or(WireError::Length)?;
    Ok(Syn {
        proof,
        attempt,
        pattern,
        aeads,
        versions: versions.ok_or(WireError::Params)?,
        secret_id: u64_at(packet, 24),
        noise,
    })
}

fn decode_open(rest: &[u8], len: usize) -> Result<Open<'_>, WireError> {
    let (head, hello) = rest.split_first_chunk::<{ OPEN_HELLO - HEADER }>().ok_or(WireError::Truncated)?;
    if hello.len() != len || len < TAG {
        return Err(WireError::Length);
    }
    Ok(Open { association: u64_at(head, 0), number: u64_at(head, 8), hello })
}

fn decode_syn_ack(rest: &[u8], len: usize) -> Result<Clear<'_>, WireError> {
    let (head, noise) = rest.split_first_chunk::<{ SYN_ACK_NOISE - HEADER }>().ok_or(WireError::Truncated)?;
    let [attempt, zeros @ ..] = *head;
    if noise.len() != len {
        Err(WireError::Length)
    } else if zeros != [0; 7] {
        Err(WireError::Reserved)
    } else if attempt == 0 {
        Err(WireError::Params)
    } else {
        Ok(Clear::SynAck { attempt, noise })
    }
}

/// A RESET has no check: a wrong token has no effect.
fn decode_reset<'a>(header: &[u8; HEADER], rest: &[u8]) -> Result<Clear<'a>, WireError> {
    if header[2..8] != [0; 6] {
        return Err(WireError::Reserved);
    }
    let token = rest.try_into().map_err(|_| WireError::Length)?;
    Ok(Clear::Reset(ResetToken::from_wire(token)))
}
