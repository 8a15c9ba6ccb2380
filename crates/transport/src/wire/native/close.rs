//! CLOSE: either side ends the transfer before its time, or will not begin it.

use super::super::WireError;
use super::check;
use super::handshake::SYN_MIN;
use super::header::{self, HEADER, info, kind, put, u32_at};
use super::stream;
use crate::wire::seq;

/// Bytes of the reason in words, at most.
pub(crate) const CLOSE_TEXT: usize = 200;
/// Longest text in an answer to a SYN, bytes: the answer must not be longer than the SYN.
pub(crate) const CLOSE_TEXT_TO_SYN: usize = SYN_MIN - HEADER;

/// Bytes of the number before the text of a CLOSE that has one.
const ANSWERS: usize = 4;

// The shortest packet that is answered with it is an empty one of data.
const _: () = assert!(HEADER + ANSWERS <= stream::DATA_HEADER && stream::DATA_HEADER <= stream::FIN_LEN);

/// Ends a transfer; is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close<'a> {
    /// Why, for programs.
    pub reason: CloseReason,
    /// Number of the transmission that found no connection: there with
    /// [`CloseReason::NoConnection`], and with no other reason.
    pub answers: Option<u64>,
    /// Reason in words, for users; may be empty. It is untrusted input: escape control characters
    /// before printing it.
    pub text: &'a str,
}

/// Why a transfer was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// 1: the receiver takes no (further) transfer.
    Refused,
    /// 2: the two have no version in common, or a VERSIONS packet was forged.
    Version,
    /// 3: the other side broke the protocol.
    Protocol,
    /// 4: the application gave up.
    Aborted,
    /// 5: the receiver could not store what came.
    Storage,
    /// 6: the checksums of the two differ.
    Checksum,
    /// 7: nothing was heard for too long.
    Idle,
    /// 8: the receiver has no such connection; in answer to a packet of one, whose number the CLOSE
    /// has.
    NoConnection,
    /// Any other code.
    Other(u16),
}

impl CloseReason {
    /// Named reasons; the index is the code less 1.
    const NAMED: [Self; 8] = [
        Self::Refused,
        Self::Version,
        Self::Protocol,
        Self::Aborted,
        Self::Storage,
        Self::Checksum,
        Self::Idle,
        Self::NoConnection,
    ];

    /// The number on the wire.
    pub fn code(self) -> u16 {
        match self {
            Self::Refused => 1,
            Self::Version => 2,
            Self::Protocol => 3,
            Self::Aborted => 4,
            Self::Storage => 5,
            Self::Checksum => 6,
            Self::Idle => 7,
            Self::NoConnection => 8,
            Self::Other(code) => code,
        }
    }

    /// The reason with this number.
    pub fn from_code(code: u16) -> Self {
        let named = usize::from(code).checked_sub(1).and_then(|index| Self::NAMED.get(index));
        named.copied().unwrap_or(Self::Other(code))
    }
}

impl<'a> Close<'a> {
    /// For any reason but [`CloseReason::NoConnection`], with as much of `text` as fits.
    pub(crate) fn new(reason: CloseReason, text: &'a str) -> Self {
        Self { reason, answers: None, text: clip(text, CLOSE_TEXT) }
    }

    /// To packet `packet_number` of a connection that is not known; no longer than any packet that
    /// has such a number.
    pub(crate) fn to_unknown(packet_number: u64) -> Self {
        Self { reason: CloseReason::NoConnection, answers: Some(packet_number), text: "" }
    }

    /// With as much of `text` as an answer to a SYN may carry.
    pub fn to_syn(reason: CloseReason, text: &'a str) -> Self {
        Self { reason, answers: None, text: clip(text, CLOSE_TEXT_TO_SYN) }
    }
}

/// Bytes of `close`.
pub fn close_len(close: &Close<'_>) -> usize {
    text_at(close.answers.is_some()) + clip(close.text, CLOSE_TEXT).len()
}

/// Writes a CLOSE; `out` has [`close_len`] bytes. Text that is too long is cut.
pub fn encode_close(connection_id: u64, close: &Close<'_>, out: &mut [u8]) {
    debug_assert_eq!(close.answers.is_some(), close.reason == CloseReason::NoConnection);
    let text = clip(close.text, CLOSE_TEXT).as_bytes();
    let text_at = text_at(close.answers.is_some());
    let packet = &mut out[..text_at + text.len()];
    header::begin(kind::CLOSE, close.reason.code(), connection_id, packet);
    if let Some(packet_number) = close.answers {
        put(packet, HEADER, seq::wrap(packet_number).to_le_bytes());
    }
    packet[text_at..].copy_from_slice(text);
    header::seal(packet, 0);
}

/// Where the text begins.
fn text_at(answers: bool) -> usize {
    HEADER + if answers { ANSWERS } else { 0 }
}

pub(super) fn decode_close(datagram: &[u8], near: u64) -> Result<Close<'_>, WireError> {
    let (head, rest) = datagram.split_first_chunk::<HEADER>().ok_or(WireError::Truncated)?;
    let reason = CloseReason::from_code(info(head));
    let (answers, text) = match (reason, rest.split_first_chunk::<ANSWERS>()) {
        (CloseReason::NoConnection, None) => return Err(WireError::Truncated),
        (CloseReason::NoConnection, Some((answers, text))) => (Some(u32_at(answers, 0)), text),
        _ => (None, rest),
    };
    if text.len() > CLOSE_TEXT {
        return Err(WireError::Length);
    }
    check::verify(datagram, 0)?;
    let text = std::str::from_utf8(text).map_err(|_| WireError::Text)?;
    let answers = answers.map(|low| stream::transmission(low, near)).transpose()?;
    Ok(Close { reason, answers, text })
}

/// The longest beginning of `text` that has at most `max` bytes and ends between characters.
fn clip(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
