//! Packets of the control space: OPEN-ACK, ACK, FIN-ACK, CLOSE and PATH.

use rdt_crypto::ResetToken;

use super::super::{Ack, PacketKind, WireError};
use super::CloseReason;
use super::ack::take_ack;
use super::header::{self, HEADER, SEALED_MIN, TAG, put, u16_at, u32_at};

/// Length of an OPEN-ACK, bytes.
pub(crate) const OPEN_ACK_LEN: usize = HEADER + 16 + TAG;
/// Length of a FIN-ACK, bytes.
pub(crate) const FIN_ACK_LEN: usize = HEADER + 9 + TAG;
/// Length of a PATH packet, bytes.
pub(crate) const PATH_LEN: usize = HEADER + 9 + TAG;
/// Longest text of a CLOSE, bytes.
pub(crate) const CLOSE_TEXT: usize = 200;

/// Length of a CLOSE's reason and code, bytes.
const CLOSE_HEAD: usize = 6;
/// Status of a FIN-ACK; other values are reserved.
const CONFIRMED: u8 = 0;
/// Codes that no CLOSE has. 8 is what a RESET says.
const RESERVED_REASONS: [u16; 2] = [6, 8];

const _: () = assert!(HEADER + CLOSE_HEAD + TAG == SEALED_MIN);

/// Header fields of a packet of the control space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ControlHeader {
    /// Connection ID of the side that receives the packet.
    pub(crate) connection_id: u64,
    /// Key phase; its low two bits are sent.
    pub(crate) phase: u8,
    /// Number in the control space.
    pub(crate) number: u64,
}

impl ControlHeader {
    fn encode(&self, kind: PacketKind, out: &mut [u8]) {
        header::begin_sealed(kind, (self.phase, 0), self.number, self.connection_id, out);
    }
}

/// CLOSE: ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Close<'a> {
    /// Reason of the protocol. Not [`CloseReason::NoConnection`].
    pub(crate) reason: CloseReason,
    /// Code of the application, if it aborted.
    pub(crate) code: u32,
    /// Reason in words; may be empty. Untrusted: escape control characters before printing it.
    pub(crate) text: &'a str,
}

/// PATH: probes the path to an address, or answers a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// True for an answer.
    pub(crate) is_response: bool,
    /// Random number, equal in a probe and its answer.
    pub(crate) random: u64,
}

/// Writes an OPEN-ACK up to its tag; `out` has [`OPEN_ACK_LEN`] bytes.
pub(crate) fn encode_open_ack(header: &ControlHeader, token: &ResetToken, out: &mut [u8]) {
    header.encode(PacketKind::OpenAck, out);
    put(out, HEADER, token.to_wire());
}

/// Returns the length of an ACK packet whose body has `body` bytes.
pub(crate) const fn ack_len(body: usize) -> usize {
    HEADER + body + TAG
}

/// Writes an ACK packet with this body ([`encode_ack_body`](super::encode_ack_body)) up to its tag.
/// `out` has the length of header, body and tag.
pub(crate) fn encode_ack(header: &ControlHeader, body: &[u8], out: &mut [u8]) {
    header.encode(PacketKind::Ack, out);
    out[HEADER..HEADER + body.len()].copy_from_slice(body);
}

/// Writes a FIN-ACK up to its tag; `out` has [`FIN_ACK_LEN`] bytes.
pub(crate) fn encode_fin_ack(header: &ControlHeader, length: u64, out: &mut [u8]) {
    header.encode(PacketKind::FinAck, out);
    put(out, HEADER, length.to_le_bytes());
    put(out, HEADER + 8, [CONFIRMED]);
}

/// Returns the length of a CLOSE with this text, bytes.
pub(crate) fn close_len(text: &str) -> usize {
    SEALED_MIN + clip(text, CLOSE_TEXT).len()
}

/// Writes a CLOSE up to its tag; `out` has [`close_len`] bytes. Truncates a text that is too long.
pub(crate) fn encode_close(header: &ControlHeader, close: &Close<'_>, out: &mut [u8]) {
    debug_assert!(!RESERVED_REASONS.contains(&close.reason.code()));
    let text = clip(close.text, CLOSE_TEXT).as_bytes();
    header.encode(PacketKind::Close, out);
    put(out, HEADER, close.reason.code().to_le_bytes());
    put(out, HEADER + 2, close.code.to_le_bytes());
    out[HEADER + CLOSE_HEAD..][..text.len()].copy_from_slice(text);
}

/// Writes a PATH packet up to its tag; `out` has [`PATH_LEN`] bytes.
pub(crate) fn encode_path(header: &ControlHeader, probe: &Probe, out: &mut [u8]) {
    header.encode(PacketKind::Path, out);
    put(out, HEADER, [u8::from(probe.is_response)]);
    put(out, HEADER + 1, probe.random.to_le_bytes());
}

/// Returns the token of the responder's RESETs.
pub(super) fn decode_open_ack(body: &[u8]) -> Result<ResetToken, WireError> {
    body.try_into().map(ResetToken::from_wire).map_err(|_| WireError::Length)
}

pub(super) fn decode_ack(mut body: &[u8], near: u64) -> Result<Ack<'_>, WireError> {
    let ack = take_ack(&mut body, near)?;
    if body.is_empty() { Ok(ack) } else { Err(WireError::Length) }
}

/// Returns the length of the stream.
pub(super) fn decode_fin_ack(body: &[u8]) -> Result<u64, WireError> {
    match body.split_first_chunk() {
        Some((length, [CONFIRMED])) => Ok(u64::from_le_bytes(*length)),
        Some((_, [_])) => Err(WireError::Reserved),
        _ => Err(WireError::Length),
    }
}

pub(super) fn decode_close(body: &[u8]) -> Result<Close<'_>, WireError> {
    let (head, text) = body.split_first_chunk::<CLOSE_HEAD>().ok_or(WireError::Truncated)?;
    let code = u16_at(head, 0);
    if RESERVED_REASONS.contains(&code) {
        return Err(WireError::Reserved);
    }
    if text.len() > CLOSE_TEXT {
        return Err(WireError::Length);
    }
    let text = std::str::from_utf8(text).map_err(|_| WireError::Text)?;
    Ok(Close { reason: CloseReason::from_code(code), code: u32_at(head, 2), text })
}

pub(super) fn decode_path(body: &[u8]) -> Result<Probe, WireError> {
    let (&kind, random) = body.split_first().ok_or(WireError::Truncated)?;
    let random = random.try_into().map_err(|_| WireError::Length)?;
    let is_response = match kind {
        0 => false,
        1 => true,
        _ => return Err(WireError::Reserved),
    };
    Ok(Probe { is_response, random: u64::from_le_bytes(random) })
}

/// Truncates `text` to at most `max` bytes, between characters.
fn clip(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
