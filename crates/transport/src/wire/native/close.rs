//! CLOSE: either side ends the transfer before its time, or will not begin it.

use super::super::WireError;
use super::check;
use super::handshake::SYN_MIN;
use super::header::{self, HEADER, info, kind};

/// Bytes of the reason in words, at most.
pub const CLOSE_TEXT: usize = 200;
/// The same in an answer to a SYN, which must not be longer than the SYN.
pub const CLOSE_TEXT_TO_SYN: usize = SYN_MIN - HEADER;

/// Ends a transfer; is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close<'a> {
    /// Why, for programs.
    pub reason: CloseReason,
    /// Why, for people; may be empty. Comes from a stranger: whoever prints it escapes control characters.
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
    /// Any other code.
    Other(u16),
}

impl CloseReason {
    /// Those with a name, at the index that is their code less 1.
    const NAMED: [Self; 7] = [
        Self::Refused,
        Self::Version,
        Self::Protocol,
        Self::Aborted,
        Self::Storage,
        Self::Checksum,
        Self::Idle,
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
    /// With as much of `text` as fits.
    pub fn new(reason: CloseReason, text: &'a str) -> Self {
        Self { reason, text: clip(text, CLOSE_TEXT) }
    }

    /// With as much of `text` as an answer to a SYN may carry.
    pub fn to_syn(reason: CloseReason, text: &'a str) -> Self {
        Self { reason, text: clip(text, CLOSE_TEXT_TO_SYN) }
    }
}

/// Bytes of `close`.
pub fn close_len(close: &Close<'_>) -> usize {
    HEADER + clip(close.text, CLOSE_TEXT).len()
}

/// Writes a CLOSE; `out` has [`close_len`] bytes. Text that is too long is cut.
pub fn encode_close(connection_id: u64, close: &Close<'_>, out: &mut [u8]) {
    let text = clip(close.text, CLOSE_TEXT).as_bytes();
    let packet = &mut out[..HEADER + text.len()];
    header::begin(kind::CLOSE, close.reason.code(), connection_id, packet);
    packet[HEADER..].copy_from_slice(text);
    header::seal(packet, 0);
}

pub(super) fn decode_close(datagram: &[u8]) -> Result<Close<'_>, WireError> {
    let (head, text) = datagram.split_first_chunk::<HEADER>().ok_or(WireError::Truncated)?;
    if text.len() > CLOSE_TEXT {
        return Err(WireError::Length);
    }
    check::verify(datagram, 0)?;
    let text = std::str::from_utf8(text).map_err(|_| WireError::Text)?;
    Ok(Close { reason: CloseReason::from_code(info(head)), text })
}

/// The longest beginning of `text` that has at most `max` bytes and ends between characters.
fn clip(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
