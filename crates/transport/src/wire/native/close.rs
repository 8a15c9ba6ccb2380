//! CLOSE: either side aborts or refuses a transfer.

use super::super::{PacketKind, WireError, wrap};
use super::check;
use super::header::{self, HEADER, info, put, u32_at};
use super::stream;

/// Longest text, bytes.
pub(crate) const CLOSE_TEXT: usize = 200;

/// Length of the field before the text in a stateless reset, bytes.
const ANSWERS: usize = 4;

// A stateless reset must not exceed the shortest packet that it answers, a DATA packet without
// payload.
const _: () = assert!(HEADER + ANSWERS <= stream::DATA_HEADER && stream::DATA_HEADER <= stream::FIN_LEN);

/// CLOSE packet. It is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close<'a> {
    /// Reason as a code.
    pub reason: CloseReason,
    /// Packet number that a stateless reset answers: present only with
    /// [`CloseReason::NoConnection`].
    pub answers: Option<u64>,
    /// Reason in words, for users; may be empty. It is untrusted input: escape control characters
    /// before printing it.
    pub text: &'a str,
}

/// Reason of a CLOSE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// 1: the receiver accepts no (further) transfer.
    Refused,
    /// 2: no common version, or a VERSIONS packet was forged.
    Version,
    /// 3: the other side broke the protocol.
    Protocol,
    /// 4: the application aborted the transfer.
    Aborted,
    /// 5: the receiver could not store the data.
    Storage,
    /// 6: the checksums of sender and receiver differ.
    Checksum,
    /// 7: idle timeout.
    Idle,
    /// 8: stateless reset: the receiver does not know the connection.
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

    /// Returns the code.
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

    /// Returns the reason with this code.
    pub fn from_code(code: u16) -> Self {
        let named = usize::from(code).checked_sub(1).and_then(|index| Self::NAMED.get(index));
        named.copied().unwrap_or(Self::Other(code))
    }
}

impl<'a> Close<'a> {
    /// Returns a CLOSE with as much of `text` as fits, for any reason but
    /// [`CloseReason::NoConnection`].
    pub(crate) fn new(reason: CloseReason, text: &'a str) -> Self {
        Self { reason, answers: None, text: clip(text, CLOSE_TEXT) }
    }

    /// Returns a stateless reset that answers transmission `packet_number`. It is no longer than
    /// any numbered packet.
    pub(crate) fn to_unknown(packet_number: u64) -> Self {
        Self { reason: CloseReason::NoConnection, answers: Some(packet_number), text: "" }
    }
}

/// Returns the length of `close`, bytes.
pub(crate) fn close_len(close: &Close<'_>) -> usize {
    text_at(close.answers.is_some()) + clip(close.text, CLOSE_TEXT).len()
}

/// Writes a CLOSE; `out` has [`close_len`] bytes. Truncates a text that is too long.
pub(crate) fn encode_close(connection_id: u64, close: &Close<'_>, out: &mut [u8]) {
    debug_assert_eq!(close.answers.is_some(), close.reason == CloseReason::NoConnection);
    let text = clip(close.text, CLOSE_TEXT).as_bytes();
    let text_at = text_at(close.answers.is_some());
    let packet = &mut out[..text_at + text.len()];
    header::begin(PacketKind::Close, close.reason.code(), connection_id, packet);
    if let Some(packet_number) = close.answers {
        put(packet, HEADER, wrap(packet_number).to_le_bytes());
    }
    packet[text_at..].copy_from_slice(text);
    header::seal(packet, 0);
}

/// Returns the index of the text.
fn text_at(answers: bool) -> usize {
    HEADER + if answers { ANSWERS } else { 0 }
}

pub(in super::super) fn decode_close(datagram: &[u8], near: u64) -> Result<Close<'_>, WireError> {
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

/// Truncates `text` to at most `max` bytes, between characters.
pub(in super::super) fn clip(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
