//! Packets that open a transfer: SYN, RETRY, SYN-ACK and VERSIONS. The name of a stream, which a
//! SYN carries.

use std::fmt;
use std::sync::Arc;

use super::super::{PacketKind, WireError};
use super::check;
use super::header::{self, HEADER, exact, info, no_info, put, u64_at};
use super::params::{self, Params, Versions};
use crate::cookie::Cookie;

/// Length of the shortest SYN, bytes. No answer to a SYN is longer, so that a forged source address
/// cannot make the receiver an amplifier.
pub(crate) const SYN_MIN: usize = 128;
/// Limit on early data, which follows a SYN with a cookie before the SYN-ACK: the smallest window
/// that can be configured for a receiver.
pub(crate) const MAX_EARLY_DATA_BYTES: u64 = 65_536;
/// Early data that a receiver accepts even if its window is smaller: ten packets of 1200 bytes.
pub(crate) const MIN_EARLY_DATA_BYTES: u64 = 11_720;
/// Length of a RETRY, bytes.
pub(crate) const RETRY_LEN: usize = HEADER + COOKIE;
/// Length of a VERSIONS packet, bytes.
pub(crate) const VERSIONS_LEN: usize = HEADER;

/// Length of a cookie, bytes.
const COOKIE_LEN: u8 = 32;
const COOKIE: usize = COOKIE_LEN as usize;
/// Index of the cookie in a SYN, after its length byte.
const SYN_COOKIE: usize = HEADER + 1;
/// Index of the parameters in a SYN-ACK, after the window.
const SYN_ACK_PARAMS: usize = HEADER + 8;

const _: () = assert!(COOKIE == size_of::<Cookie>());
const _: () = assert!(RETRY_LEN <= SYN_MIN && SYN_ACK_PARAMS + params::LEN_MAX as usize <= SYN_MIN);

/// SYN: opens a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syn<'a> {
    /// Cookie from the receiver's RETRY; `None` in the first SYN.
    pub cookie: Option<Cookie>,
    /// Transport parameters of the sender.
    pub params: Params,
    /// Name that the sender suggests for the stream.
    pub name: Option<&'a str>,
}

impl Syn<'_> {
    /// Returns the length of the list of parameters, bytes.
    fn list_len(&self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "at most 244")]
        let name = self.name.map_or(0, |name| (params::ENTRY + name.len()) as u16);
        self.params.len() + name
    }
}

/// SYN-ACK: accepts a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SynAck {
    /// Initial receive window, bytes.
    pub window: u64,
    /// Transport parameters of the receiver.
    pub params: Params,
}

/// Name that a sender suggests for its stream, such as that of a file. It travels in the handshake
/// of the native format. The text is the sender's choice, and may contain path separators and
/// control characters.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamName(Arc<str>);

impl StreamName {
    /// Length of the longest name, bytes of UTF-8: a SYN with it fits the smallest path MTU (548
    /// bytes of UDP payload).
    pub const MAX_LEN: usize = 240;

    /// Returns the name; `None` if it is empty or longer than [`Self::MAX_LEN`] bytes.
    pub fn new(text: &str) -> Option<Self> {
        (1..=Self::MAX_LEN).contains(&text.len()).then(|| Self(text.into()))
    }

    /// Returns the text of a name in a packet; `None` if it breaks the format.
    pub(crate) fn text_of(bytes: &[u8]) -> Option<&str> {
        if (1..=Self::MAX_LEN).contains(&bytes.len()) { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the length of `syn` with its padding, bytes.
pub(crate) fn syn_len(syn: &Syn<'_>) -> usize {
    let cookie = syn.cookie.map_or(0, |_| COOKIE);
    SYN_MIN.max(SYN_COOKIE + cookie + usize::from(syn.list_len()))
}

/// Returns the length of `syn_ack`, at most `SYN_MIN` bytes.
pub(crate) fn syn_ack_len(syn_ack: &SynAck) -> usize {
    SYN_ACK_PARAMS + usize::from(syn_ack.params.len())
}

/// Writes a SYN; `out` has [`syn_len`] bytes, or more to pad it further.
pub(crate) fn encode_syn(connection_id: u64, syn: &Syn<'_>, out: &mut [u8]) {
    out.fill(0);
    header::begin(PacketKind::Syn, syn.list_len(), connection_id, out);
    let mut list = SYN_COOKIE;
    if let Some(cookie) = syn.cookie {
        out[HEADER] = COOKIE_LEN;
        put(out, SYN_COOKIE, cookie);
        list += COOKIE;
    }
    syn.params.encode(&mut out[list..]);
    if let Some(name) = syn.name {
        let end = list + usize::from(syn.params.len());
        params::List::new(&mut out[end..]).slice(params::NAME, name.as_bytes());
    }
    header::seal(out, 0);
}

/// Writes a RETRY; `out` has [`RETRY_LEN`] bytes.
pub(crate) fn encode_retry(connection_id: u64, cookie: &Cookie, out: &mut [u8]) {
    header::begin(PacketKind::Retry, 0, connection_id, out);
    put(out, HEADER, *cookie);
    header::seal(&mut out[..RETRY_LEN], 0);
}

/// Writes a SYN-ACK; `out` has [`syn_ack_len`] bytes.
pub(crate) fn encode_syn_ack(connection_id: u64, syn_ack: &SynAck, out: &mut [u8]) {
    header::begin(PacketKind::SynAck, syn_ack.params.len(), connection_id, out);
    put(out, HEADER, syn_ack.window.to_le_bytes());
    syn_ack.params.encode(&mut out[SYN_ACK_PARAMS..]);
    header::seal(&mut out[..syn_ack_len(syn_ack)], 0);
}

/// Writes the answer to a SYN of another version; `out` has [`VERSIONS_LEN`] bytes.
pub(crate) fn encode_versions(connection_id: u64, versions: Versions, out: &mut [u8]) {
    header::begin(PacketKind::Versions, versions.bits(), connection_id, out);
    header::seal(&mut out[..VERSIONS_LEN], 0);
}

/// Returns the connection ID of a valid SYN of a version outside of `versions`, to be answered by
/// `encode_versions`. SYNs of all versions have the same length limit and check, so invalid
/// datagrams get no answer.
pub(crate) fn other_version(versions: Versions, datagram: &[u8]) -> Option<u64> {
    let is_other = |version: &u8| !versions.contains(*version) && datagram.len() >= SYN_MIN;
    header::version_of_syn(datagram).filter(is_other)?;
    check::verify(datagram, 0).ok()?;
    header::connection_id(datagram)
}

pub(in super::super) fn decode_syn(datagram: &[u8]) -> Result<Syn<'_>, WireError> {
    let packet = datagram.first_chunk::<SYN_MIN>().ok_or(WireError::Truncated)?;
    check::verify(datagram, 0)?;
    let (cookie, start) = match usize::from(packet[HEADER]) {
        0 => (None, SYN_COOKIE),
        COOKIE => (packet[SYN_COOKIE..].first_chunk::<COOKIE>().copied(), SYN_COOKIE + COOKIE),
        _ => return Err(WireError::Length),
    };
    let params = datagram[start..].get(..usize::from(info(packet))).ok_or(WireError::Params)?;
    let (params, name) = Params::decode_syn(params)?;
    Ok(Syn { cookie, params, name })
}

pub(in super::super) fn decode_retry(datagram: &[u8]) -> Result<Cookie, WireError> {
    let packet = exact::<RETRY_LEN>(datagram)?;
    no_info(packet)?;
    let (_, cookie) = packet.split_last_chunk::<COOKIE>().ok_or(WireError::Truncated)?;
    Ok(*cookie)
}

pub(in super::super) fn decode_syn_ack(datagram: &[u8]) -> Result<SynAck, WireError> {
    let (packet, params) = datagram.split_first_chunk::<SYN_ACK_PARAMS>().ok_or(WireError::Truncated)?;
    check::verify(datagram, 0)?;
    if params.len() != usize::from(info(packet)) {
        return Err(WireError::Length);
    }
    Ok(SynAck { window: u64_at(packet, HEADER), params: Params::decode(params)? })
}

pub(in super::super) fn decode_versions(datagram: &[u8]) -> Result<Versions, WireError> {
    let packet = exact::<VERSIONS_LEN>(datagram)?;
    Versions::from_bits(info(packet)).ok_or(WireError::Params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_1_to_240_bytes_of_utf_8() {
        for (text, is_name) in
            [("", false), ("a", true), (&*"b".repeat(240), true), (&*"c".repeat(241), false)]
        {
            assert_eq!(StreamName::new(text).is_some(), is_name, "{text}");
            assert_eq!(StreamName::text_of(text.as_bytes()).is_some(), is_name, "{text}");
        }
        assert_eq!(StreamName::text_of(&[b'a', 0xFF]), None);
    }
}
