//! Transport parameters in SYN and SYN-ACK: a list of identifiers, lengths and values. Unknown
//! identifiers are skipped, so that this version can be extended.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::WireError;
use super::header::{VERSION, put, u32_at, u64_at};
use crate::StreamName;

pub(in super::super) const MAX_DATAGRAM: u16 = 1;
pub(in super::super) const ACK_DELAY_MAX: u16 = 2;
pub(in super::super) const ACK_EVERY: u16 = 3;
// 4 is reserved: the largest window of an early draft.
pub(in super::super) const IDLE_TIMEOUT: u16 = 5;
pub(in super::super) const VERSIONS: u16 = 6;
pub(in super::super) const ECN: u16 = 7;
pub(in super::super) const LINK: u16 = 8;
pub(in super::super) const ATTEMPT: u16 = 9;
pub(in super::super) const OVERFLOW: u16 = 10;
// 11 to 14 are of version 2.
pub(in super::super) const NAME: u16 = 15;

/// Length of an identifier and a length field, bytes.
pub(in super::super) const ENTRY: usize = 4;
/// Length of the parameters that are always written, bytes: values of 2, 4, 2, 4, 2 and 1 bytes.
const LEN: u16 = 6 * 4 + 15;
/// Length of the value of `link`, bytes.
pub(in super::super) const LINK_VALUE: usize = 28;
/// Length of the entry of `link`, bytes.
const LINK_LEN: u16 = 4 + 28;
/// Length of the entry of `attempt`, bytes.
const ATTEMPT_LEN: u16 = 4 + 1;
/// Length of the entry of `overflow`, bytes. It is never written together with `link`.
const OVERFLOW_LEN: u16 = 4 + 1;
/// Length of the longest list that [`Params::encode`] writes, bytes.
pub(super) const LEN_MAX: u16 = LEN + LINK_LEN + ATTEMPT_LEN;

/// Transport parameters of one side. A missing parameter has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// Largest datagram that this side accepts, UDP payload in bytes: 128 to 65527. Default 1472.
    pub max_datagram: u16,
    /// Maximum ACK delay, microseconds: the receiver's, or in a SYN the sender's request, which the
    /// receiver obeys. At most 1,000,000. Default 25,000.
    pub ack_delay_max_us: u32,
    /// Largest number of DATA packets per ACK: the receiver's, or in a SYN the sender's request,
    /// which the receiver obeys. At least 1. Default 2.
    pub ack_every: u16,
    /// Idle timeout of this side, milliseconds: 1000 to 86,400,000. Default
    /// 30,000.
    pub idle_timeout_ms: u32,
    /// Versions that this side supports; always includes the version of the packet. Default: only
    /// that one.
    pub versions: Versions,
    /// True if this side reports CE marks (RFC 3168) in its ACKs. Default: false.
    pub ecn: bool,
    /// Emulated link that the sender requests from the receiver. Default: none.
    pub link: Option<LinkRequest>,
    /// Attempt number among the SYNs with the same cookie or with none; in a SYN-ACK, that of the
    /// SYN that it answers. So the sender gets a valid RTT sample, and learns that earlier SYNs are
    /// lost. 1 to 255, saturating. Default 1.
    pub attempt: u8,
    /// True if the sender requests the count of socket drops in ACKs. Default: false.
    pub overflow: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            max_datagram: 1472,
            ack_delay_max_us: 25_000,
            ack_every: 2,
            idle_timeout_ms: 30_000,
            versions: Versions::OURS,
            ecn: false,
            link: None,
            attempt: 1,
            overflow: false,
        }
    }
}

/// Emulated link, equal in both directions except for the loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRequest {
    /// Round-trip propagation time in microseconds, below 30,000,000.
    pub rtt_us: u32,
    /// Requested rate of each direction in bits per second, 1 to 10^12.
    pub rate_bps: u64,
    /// Probability that a packet towards the receiver is lost, in billionths, below 10^9.
    pub loss_forward_ppb: u32,
    /// Loss probability towards the sender.
    pub loss_reverse_ppb: u32,
    /// Requested queue limit of each direction in bytes, 1 to 10^12.
    pub queue_bytes: u64,
}

/// Set of versions of this format, 1 to 15; bit v stands for version v.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions(u16);

impl Versions {
    /// Only version 1, that of this module.
    pub const OURS: Self = Self(1 << VERSION);

    /// Only version 2, which is sealed.
    pub const ONLY_SEALED: Self = Self(1 << 2);

    /// Versions 1 and 2.
    pub const BOTH: Self = Self(Self::OURS.0 | Self::ONLY_SEALED.0);

    /// Returns the set with these bits; `None` if it is empty or has bit 0, which is no version.
    pub(crate) fn from_bits(bits: u16) -> Option<Self> {
        (bits != 0 && bits & 1 == 0).then_some(Self(bits))
    }

    /// Returns the bits.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    pub(crate) fn contains(self, version: u8) -> bool {
        version < 16 && self.0 >> version & 1 == 1
    }

    /// True if version 1 is in the set.
    pub(crate) fn contains_ours(self) -> bool {
        self.contains(VERSION)
    }

    /// Returns the highest version in both sets.
    pub(crate) fn highest_common(self, other: Self) -> Option<u8> {
        (self.0 & other.0).checked_ilog2().and_then(|version| u8::try_from(version).ok())
    }

    /// True if both sides speak a higher version than the one that they negotiated. Then a third
    /// party changed the version list (RFC 9368, section 4).
    pub(crate) fn is_downgrade(self, theirs: Self) -> bool {
        self.highest_common(theirs) > Some(VERSION)
    }
}

impl Params {
    /// Range of [`max_datagram`](Self::max_datagram): from the shortest SYN to the largest UDP
    /// payload of IPv6 (RFC 8200: 65535 less UDP's header).
    const DATAGRAM_MIN: u16 = 128;
    const DATAGRAM_MAX: u16 = 65_527;
    /// Range of [`idle_timeout_ms`](Self::idle_timeout_ms).
    const IDLE: RangeInclusive<u32> = 1000..=86_400_000;

    /// Returns the nearest valid datagram size.
    pub(crate) fn clamp_datagram(bytes: usize) -> u16 {
        u16::try_from(bytes).unwrap_or(u16::MAX).clamp(Self::DATAGRAM_MIN, Self::DATAGRAM_MAX)
    }

    /// Returns the nearest valid idle timeout.
    pub(crate) fn clamp_idle(idle: Duration) -> u32 {
        let millis = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
        millis.clamp(*Self::IDLE.start(), *Self::IDLE.end())
    }

    /// Checks every value against its range. Encoding expects valid values.
    ///
    /// # Errors
    /// A sentence that names the value and its range.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        if !(Self::DATAGRAM_MIN..=Self::DATAGRAM_MAX).contains(&self.max_datagram) {
            Err("the largest datagram must be from 128 to 65527 bytes")
        } else if self.ack_delay_max_us > 1_000_000 {
            Err("ACKs must be delayed by at most a second")
        } else if self.ack_every == 0 {
            Err("an ACK must be given after at least 1 packet")
        } else if !Self::IDLE.contains(&self.idle_timeout_ms) {
            Err("the idle timeout must be from a second to a day")
        } else if !self.versions.contains(VERSION) {
            Err("the versions must include that of the packet")
        } else if self.attempt == 0 {
            Err("SYNs are counted from 1")
        } else {
            self.link.map_or(Ok(()), |link| link.validate())
        }
    }

    /// Returns the length that [`encode`](Self::encode) writes, bytes.
    pub(super) fn len(&self) -> u16 {
        let link = self.link.map_or(0, |_| LINK_LEN);
        let attempt = if self.is_repeated() { ATTEMPT_LEN } else { 0 };
        let overflow = if self.overflow { OVERFLOW_LEN } else { 0 };
        LEN + link + attempt + overflow
    }

    /// True if `attempt` must be written: not for the first SYN.
    fn is_repeated(&self) -> bool {
        self.attempt > 1
    }

    /// Writes the list with ascending identifiers to the start of `out`.
    pub(super) fn encode(&self, out: &mut [u8]) {
        let mut list = List::new(out);
        list.entry(MAX_DATAGRAM, self.max_datagram.to_le_bytes());
        list.entry(ACK_DELAY_MAX, self.ack_delay_max_us.to_le_bytes());
        list.entry(ACK_EVERY, self.ack_every.to_le_bytes());
        list.entry(IDLE_TIMEOUT, self.idle_timeout_ms.to_le_bytes());
        list.entry(VERSIONS, self.versions.0.to_le_bytes());
        list.entry(ECN, [u8::from(self.ecn)]);
        if let Some(link) = self.link {
            list.entry(LINK, link.to_bytes());
        }
        if self.is_repeated() {
            list.entry(ATTEMPT, [self.attempt]);
        }
        if self.overflow {
            list.entry(OVERFLOW, [1]);
        }
    }

    /// Decodes the list of a SYN, which fills `bytes`, and the name in it.
    pub(super) fn decode_syn(bytes: &[u8]) -> Result<(Self, Option<&str>), WireError> {
        let (mut params, mut name) = (Self::default(), None);
        decode_list(bytes, |id, value| {
            if id == NAME {
                name = Some(StreamName::text_of(value)?);
            }
            params.set(id, value)
        })?;
        params.validate().map_err(|_| WireError::Params)?;
        Ok((params, name))
    }

    /// Decodes a list that fills `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut params = Self::default();
        decode_list(bytes, |id, value| params.set(id, value))?;
        params.validate().map_err(|_| WireError::Params)?;
        Ok(params)
    }

    /// Sets one value; `None` if its length is wrong. Ranges are checked later, by
    /// [`validate`](Self::validate).
    pub(in super::super) fn set(&mut self, id: u16, value: &[u8]) -> Option<()> {
        match id {
            MAX_DATAGRAM => self.max_datagram = u16::from_le_bytes(value.try_into().ok()?),
            ACK_DELAY_MAX => self.ack_delay_max_us = u32::from_le_bytes(value.try_into().ok()?),
            ACK_EVERY => self.ack_every = u16::from_le_bytes(value.try_into().ok()?),
            IDLE_TIMEOUT => self.idle_timeout_ms = u32::from_le_bytes(value.try_into().ok()?),
            VERSIONS => self.versions = Versions::from_bits(u16::from_le_bytes(value.try_into().ok()?))?,
            ECN => self.ecn = switch(value)?,
            OVERFLOW => self.overflow = switch(value)?,
            LINK => self.link = Some(LinkRequest::from_bytes(value.try_into().ok()?)),
            ATTEMPT => self.attempt = u8::from_le_bytes(value.try_into().ok()?),
            _ => {}
        }
        Some(())
    }
}

/// Decodes a list that fills `bytes`: `set` takes an identifier and its value, and returns `None`
/// for a value of a wrong length. Identifiers must ascend, which excludes repeated ones at no cost.
pub(in super::super) fn decode_list<'a>(
    bytes: &'a [u8],
    mut set: impl FnMut(u16, &'a [u8]) -> Option<()>,
) -> Result<(), WireError> {
    let mut rest = bytes;
    let mut least = 0;
    while let Some((&[id0, id1, len0, len1], after)) = rest.split_first_chunk() {
        let id = u16::from_le_bytes([id0, id1]);
        let len = usize::from(u16::from_le_bytes([len0, len1]));
        let (value, after) = after.split_at_checked(len).ok_or(WireError::Params)?;
        if u32::from(id) < least {
            return Err(WireError::Params);
        }
        set(id, value).ok_or(WireError::Params)?;
        least = u32::from(id) + 1;
        rest = after;
    }
    if rest.is_empty() { Ok(()) } else { Err(WireError::Params) }
}

/// Decodes a flag: a byte that is 0 or 1.
pub(in super::super) fn switch(value: &[u8]) -> Option<bool> {
    match value {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

/// Writer of a list.
pub(in super::super) struct List<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> List<'a> {
    /// Returns the writer of a list at the start of `out`.
    pub(in super::super) fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    /// Returns the length written so far, bytes.
    pub(in super::super) fn len(&self) -> usize {
        self.len
    }

    /// Appends an entry. Identifiers must ascend.
    pub(in super::super) fn entry<const N: usize>(&mut self, id: u16, value: [u8; N]) {
        self.slice(id, &value);
    }

    /// Appends an entry of variable length.
    pub(in super::super) fn slice(&mut self, id: u16, value: &[u8]) {
        #[expect(clippy::cast_possible_truncation, reason = "values have at most 240 bytes")]
        let len = value.len() as u16;
        put(self.out, self.len, id.to_le_bytes());
        put(self.out, self.len + 2, len.to_le_bytes());
        self.out[self.len + ENTRY..][..value.len()].copy_from_slice(value);
        self.len += ENTRY + value.len();
    }
}

impl LinkRequest {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// A sentence that names the value and its range.
    pub fn validate(&self) -> Result<(), &'static str> {
        const AMOUNT: RangeInclusive<u64> = 1..=1_000_000_000_000;
        if self.rtt_us >= 30_000_000 {
            Err("the RTT must be below 30 s")
        } else if !AMOUNT.contains(&self.rate_bps) {
            Err("the link rate must be from 1 bit/s to 1000 Gbit/s")
        } else if self.loss_forward_ppb >= 1_000_000_000 || self.loss_reverse_ppb >= 1_000_000_000 {
            Err("a loss must be below 10^9 billionths")
        } else if !AMOUNT.contains(&self.queue_bytes) {
            Err("the router buffer must be from 1 to 10^12 bytes")
        } else {
            Ok(())
        }
    }

    pub(in super::super) fn to_bytes(self) -> [u8; LINK_VALUE] {
        let mut bytes = [0; LINK_VALUE];
        put(&mut bytes, 0, self.rtt_us.to_le_bytes());
        put(&mut bytes, 4, self.rate_bps.to_le_bytes());
        put(&mut bytes, 12, self.loss_forward_ppb.to_le_bytes());
        put(&mut bytes, 16, self.loss_reverse_ppb.to_le_bytes());
        put(&mut bytes, 20, self.queue_bytes.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; LINK_VALUE]) -> Self {
        Self {
            rtt_us: u32_at(bytes, 0),
            rate_bps: u64_at(bytes, 4),
            loss_forward_ppb: u32_at(bytes, 12),
            loss_reverse_ppb: u32_at(bytes, 16),
            queue_bytes: u64_at(bytes, 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, &[u8])]) -> Vec<u8> {
        let entry = |(id, value): &(u16, &[u8])| {
            let len = u16::try_from(value.len()).unwrap();
            [&id.to_le_bytes(), &len.to_le_bytes(), *value].concat()
        };
        entries.iter().flat_map(entry).collect()
    }

    #[test]
    fn missing_ids_default_and_unknown_are_skipped() {
        assert_eq!(Params::decode(&[]), Ok(Params::default()));
        let some = list(&[(0, b"?"), (3, &[9, 0]), (4, &[0; 8]), (99, &[]), (u16::MAX, &[1; 300])]);
        assert_eq!(Params::decode(&some), Ok(Params { ack_every: 9, ..Params::default() }));
    }

    #[test]
    fn malformed_parameter_lists_are_refused() {
        let every = |value: &[u8]| Params::decode(&list(&[(3, value)]));
        assert!(every(&[9, 0]).is_ok());
        for value in [&[][..], &[9], &[9, 0, 0]] {
            assert_eq!(every(value), Err(WireError::Params), "{value:?}");
        }
        for ids in [[3, 3], [99, 99], [5, 3], [u16::MAX, u16::MAX], [u16::MAX, 0]] {
            let value = |id| if id == 5 { &[0x88, 0x13, 0, 0][..] } else { &[9, 0][..] };
            let twice = list(&[(ids[0], value(ids[0])), (ids[1], value(ids[1]))]);
            assert_eq!(Params::decode(&twice), Err(WireError::Params), "{ids:?}");
        }
        let mut bytes = [0; LEN_MAX as usize];
        Params { link: Some(LINK_OK), attempt: 2, ..Params::default() }.encode(&mut bytes);
        let ends: Vec<usize> =
            (0..bytes.len()).filter(|&len| Params::decode(&bytes[..len]).is_ok()).collect();
        assert_eq!(ends, [0, 6, 14, 20, 28, 34, 39, 71], "only between entries");
        for (id, len) in [(1, 2), (2, 4), (3, 2), (5, 4), (6, 2), (7, 1), (8, 28), (9, 1)] {
            for wrong in [len - 1, len + 1] {
                let value = vec![1; wrong];
                assert_eq!(Params::decode(&list(&[(id, &value)])), Err(WireError::Params), "id {id}");
            }
        }
    }

    fn list_is_good(entries: &[(u16, &[u8])]) -> bool {
        Params::decode(&list(entries)).is_ok()
    }

    const LINK_OK: LinkRequest =
        LinkRequest { rtt_us: 0, rate_bps: 1, loss_forward_ppb: 0, loss_reverse_ppb: 0, queue_bytes: 1 };

    /// Encodes and decodes the defaults with this change. Returns true if the result is equal, and
    /// false if it is refused.
    fn accepts(change: impl FnOnce(&mut Params)) -> bool {
        let mut params = Params { link: Some(LINK_OK), ..Params::default() };
        change(&mut params);
        let mut bytes = vec![0; usize::from(params.len())];
        params.encode(&mut bytes);
        let decoded = Params::decode(&bytes);
        assert_eq!(decoded.is_ok(), params.validate().is_ok());
        assert!(decoded.is_err() || decoded == Ok(params));
        decoded.is_ok()
    }

    #[test]
    fn ranges_of_the_parameters() {
        assert!(accepts(|_| ()) && accepts(|p| p.link = None) && accepts(|p| p.ecn = true));
        assert!(accepts(|p| p.attempt = 2) && accepts(|p| p.attempt = 255) && !list_is_good(&[(9, &[0])]));
        assert!(accepts(|p| p.max_datagram = 128) && accepts(|p| p.max_datagram = 65_527));
        assert!(!accepts(|p| p.max_datagram = 127) && !accepts(|p| p.max_datagram = 65_528));
        assert!(accepts(|p| p.ack_delay_max_us = 0) && accepts(|p| p.ack_delay_max_us = 1_000_000));
        assert!(!accepts(|p| p.ack_delay_max_us = 1_000_001) && !accepts(|p| p.ack_every = 0));
        assert!(accepts(|p| p.idle_timeout_ms = 1000) && !accepts(|p| p.idle_timeout_ms = 999));
        assert!(accepts(|p| p.idle_timeout_ms = 86_400_000) && !accepts(|p| p.idle_timeout_ms = 86_400_001));
        for bits in 0..=u16::MAX {
            let good = bits & 0b11 == 0b10;
            let decoded = Params::decode(&list(&[(6, &bits.to_le_bytes())]));
            assert_eq!(decoded.map(|p| p.versions), good.then_some(Versions(bits)).ok_or(WireError::Params));
        }
        assert_eq!(Params::decode(&list(&[(7, &[2])])), Err(WireError::Params));
    }

    #[test]
    fn ranges_of_the_link() {
        let with = |change: fn(&mut LinkRequest)| {
            let mut link = LINK_OK;
            change(&mut link);
            accepts(|p| p.link = Some(link))
        };
        assert!(with(|l| l.rtt_us = 29_999_999) && !with(|l| l.rtt_us = 30_000_000));
        assert!(with(|l| l.rate_bps = 1_000_000_000_000) && !with(|l| l.rate_bps = 1_000_000_000_001));
        assert!(!with(|l| l.rate_bps = 0) && !with(|l| l.queue_bytes = 0));
        assert!(with(|l| l.loss_forward_ppb = 999_999_999) && !with(|l| l.loss_forward_ppb = 1_000_000_000));
        assert!(with(|l| l.loss_reverse_ppb = 999_999_999) && !with(|l| l.loss_reverse_ppb = 1_000_000_000));
        assert!(with(|l| l.queue_bytes = 1_000_000_000_000) && !with(|l| l.queue_bytes = u64::MAX));
    }

    #[test]
    fn the_highest_common_version_is_chosen() {
        let set = |bits| Versions::from_bits(bits).unwrap();
        assert_eq!(set(0b1110).highest_common(set(0b0110)), Some(2));
        assert_eq!(set(0b1000).highest_common(set(0b0110)), None);
        assert_eq!(set(0xFFFE).highest_common(set(0xFFFE)), Some(15));
        assert!(set(0b10).contains(1) && !set(0b10).contains(2) && !set(0xFFFE).contains(16));
        assert_eq!((Versions::from_bits(0), Versions::from_bits(3)), (None, None));
        assert!(set(0b110).is_downgrade(set(0b110)) && !set(0b110).is_downgrade(set(0b1010)));
        assert!(!Versions::OURS.is_downgrade(set(0xFFFE)));
    }
}
