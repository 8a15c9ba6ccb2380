//! Transport parameters, which travel inside of Noise payloads: a list of identifiers, lengths and
//! values. Unknown identifiers are skipped, so that this version can be extended.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::WireError;
use super::header::{put, u32_at, u64_at};
use super::{Instead, SMALLEST_PATH, Service, StreamName, VERSION};

const MAX_DATAGRAM: u16 = 1;
const ACK_DELAY_MAX: u16 = 2;
const ACK_EVERY: u16 = 3;
const SERVICE: u16 = 4;
// 6 is reserved.
const IDLE_TIMEOUT: u16 = 5;
const ECN: u16 = 7;
const LINK: u16 = 8;
const ASSOCIATIONS: u16 = 9;
const OVERFLOW: u16 = 10;
const WANTED_ACK_DELAY: u16 = 11;
const WANTED_ACK_EVERY: u16 = 12;
const ONE_WAY: u16 = 13;
const AEAD: u16 = 14;
pub(super) const NAME: u16 = 15;
/// OPEN that was refused.
pub(super) const INSTEAD: u16 = 16;

/// Length of an identifier and a length field, bytes.
pub(super) const ENTRY: usize = 4;
/// Length of the value of [`INSTEAD`], bytes.
pub(super) const INSTEAD_VALUE: usize = 28;
/// Length of the value of `link`, bytes.
pub(super) const LINK_VALUE: usize = 28;
/// Length of the parameters that are always written, bytes.
const LIST: usize = 9 * ENTRY + 21;
/// Length of the longest list without a link, bytes.
pub(super) const LIST_MAX_WITHOUT_LINK: usize = LIST + (ENTRY + 1) + (ENTRY + 4) + (ENTRY + Service::MAX_LEN);
/// Length of the longest list, bytes.
pub(super) const LIST_MAX: usize = LIST_MAX_WITHOUT_LINK + ENTRY + LINK_VALUE;

/// Largest number of an AEAD that encrypts.
const AEAD_MAX: u8 = 3;

/// Transport parameters of one side. A missing parameter has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Params {
    /// Largest datagram that this side accepts, UDP payload in bytes: 548 to 65527. Default 1472.
    pub(crate) max_datagram: u16,
    /// Maximum delay of this side's ACKs, microseconds. At most 1,000,000. Default 25,000.
    pub(crate) ack_delay_max_us: u32,
    /// Largest number of DATA packets per ACK of this side. At least 1. Default 2.
    pub(crate) ack_every: u16,
    /// Idle timeout of this side, milliseconds: 1000 to 86,400,000. Default 30,000.
    pub(crate) idle_timeout_ms: u32,
    /// True if this side reports CE marks (RFC 3168) in its ACKs. Default: false.
    pub(crate) ecn: bool,
    /// Emulated link that this side requests. Default: none.
    pub(crate) link: Option<LinkRequest>,
    /// Number by which this side, a responder that takes OPENs, is told from others with its
    /// identity. 0, the default, if it takes none.
    pub(crate) associations: u32,
    /// True if this side requests the count of socket drops in ACKs. Default: false.
    pub(crate) overflow: bool,
    /// Longest ACK delay that this side wants as a sender, microseconds; the peer obeys. At most
    /// 1,000,000. Default 25,000.
    pub(crate) wanted_ack_delay_us: u32,
    /// Largest number of DATA packets per ACK that this side wants as a sender; the peer obeys. At
    /// least 1. Default 2.
    pub(crate) wanted_ack_every: u16,
    /// True if the responder's stream stays empty. Default: false.
    pub(crate) is_one_way: bool,
    /// Number of the AEAD that this side prefers, 1 to 3; 0 for no preference. Default 0.
    pub(crate) aead: u8,
    /// Application protocol that this side speaks. Default: none.
    pub(crate) service: Service,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            max_datagram: 1472,
            ack_delay_max_us: 25_000,
            ack_every: 2,
            idle_timeout_ms: 30_000,
            ecn: false,
            link: None,
            associations: 0,
            overflow: false,
            wanted_ack_delay_us: 25_000,
            wanted_ack_every: 2,
            is_one_way: false,
            aead: 0,
            service: Service::NONE,
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
    /// Only the version of this module.
    pub const OURS: Self = Self(1 << VERSION);

    /// Returns the set with these bits; `None` if it is empty or has bit 0, which is no version.
    pub(crate) fn from_bits(bits: u16) -> Option<Self> {
        (bits != 0 && bits & 1 == 0).then_some(Self(bits))
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// True if the version of this module is in the set.
    pub(crate) fn contains_ours(self) -> bool {
        self.contains(VERSION)
    }

    fn contains(self, version: u8) -> bool {
        self.0 >> version & 1 == 1
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "version ";
        for version in (1..16).filter(|version| self.contains(*version)) {
            write!(f, "{before}{version}")?;
            before = " or ";
        }
        Ok(())
    }
}

impl Params {
    /// Range of [`max_datagram`](Self::max_datagram): from the smallest path MTU to the largest UDP
    /// payload of IPv6 (RFC 8200: 65535 less UDP's header).
    #[expect(clippy::cast_possible_truncation, reason = "548")]
    const DATAGRAM: RangeInclusive<u16> = SMALLEST_PATH as u16..=65_527;
    /// Range of [`idle_timeout_ms`](Self::idle_timeout_ms).
    const IDLE: RangeInclusive<u32> = 1000..=86_400_000;
    /// Largest delay of ACKs, microseconds.
    const ACK_DELAY_LIMIT: u32 = 1_000_000;

    pub(crate) fn clamp_datagram(bytes: usize) -> u16 {
        u16::try_from(bytes).unwrap_or(u16::MAX).clamp(*Self::DATAGRAM.start(), *Self::DATAGRAM.end())
    }

    pub(crate) fn clamp_idle(idle: Duration) -> u32 {
        let millis = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
        millis.clamp(*Self::IDLE.start(), *Self::IDLE.end())
    }

    /// True if every value is in its range. Encoding expects valid values.
    pub(crate) fn is_valid(&self) -> bool {
        Self::DATAGRAM.contains(&self.max_datagram)
            && self.ack_delay_max_us.max(self.wanted_ack_delay_us) <= Self::ACK_DELAY_LIMIT
            && self.ack_every.min(self.wanted_ack_every) > 0
            && Self::IDLE.contains(&self.idle_timeout_ms)
            && self.aead <= AEAD_MAX
            && self.link.is_none_or(|link| link.validate().is_ok())
    }

    /// Returns the list with ascending identifiers, at most [`LIST_MAX`] bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut list = Vec::with_capacity(LIST_MAX);
        let mut entry = |id, value: &[u8]| push_entry(&mut list, id, value);
        entry(MAX_DATAGRAM, &self.max_datagram.to_le_bytes());
        entry(ACK_DELAY_MAX, &self.ack_delay_max_us.to_le_bytes());
        entry(ACK_EVERY, &self.ack_every.to_le_bytes());
        if self.service != Service::NONE {
            entry(SERVICE, self.service.as_bytes());
        }
        entry(IDLE_TIMEOUT, &self.idle_timeout_ms.to_le_bytes());
        entry(ECN, &[u8::from(self.ecn)]);
        if let Some(link) = self.link {
            entry(LINK, &link.to_bytes());
        }
        if self.associations != 0 {
            entry(ASSOCIATIONS, &self.associations.to_le_bytes());
        }
        if self.overflow {
            entry(OVERFLOW, &[1]);
        }
        entry(WANTED_ACK_DELAY, &self.wanted_ack_delay_us.to_le_bytes());
        entry(WANTED_ACK_EVERY, &self.wanted_ack_every.to_le_bytes());
        entry(ONE_WAY, &[u8::from(self.is_one_way)]);
        entry(AEAD, &[self.aead]);
        list
    }

    /// Decodes a list that fills `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut params = Self::default();
        decode_list(bytes, |id, value| params.set(id, value))?;
        if params.is_valid() { Ok(params) } else { Err(WireError::Params) }
    }

    /// Decodes an initiator's parameters, and among them the stream name and the OPEN that was
    /// refused. The list must fill `bytes`.
    pub(super) fn decode_hello(
        bytes: &[u8],
    ) -> Result<(Self, Option<StreamName>, Option<Instead>), WireError> {
        let (mut name, mut instead) = (None, None);
        decode_list(bytes, |id, value| {
            if id == NAME {
                name = Some(StreamName::decode(value)?);
            } else if id == INSTEAD {
                instead = Some(Instead::from_bytes(value.try_into().ok()?));
            }
            Some(())
        })?;
        Ok((Self::decode(bytes)?, name, instead))
    }

    /// Sets one value; `None` if its length is wrong. `is_valid` checks ranges later.
    fn set(&mut self, id: u16, value: &[u8]) -> Option<()> {
        match id {
            MAX_DATAGRAM => self.max_datagram = u16::from_le_bytes(value.try_into().ok()?),
            ACK_DELAY_MAX => self.ack_delay_max_us = u32::from_le_bytes(value.try_into().ok()?),
            ACK_EVERY => self.ack_every = u16::from_le_bytes(value.try_into().ok()?),
            IDLE_TIMEOUT => self.idle_timeout_ms = u32::from_le_bytes(value.try_into().ok()?),
            ECN => self.ecn = switch(value)?,
            LINK => self.link = Some(LinkRequest::from_bytes(value.try_into().ok()?)),
            ASSOCIATIONS => self.associations = u32::from_le_bytes(value.try_into().ok()?),
            OVERFLOW => self.overflow = switch(value)?,
            WANTED_ACK_DELAY => self.wanted_ack_delay_us = u32::from_le_bytes(value.try_into().ok()?),
            WANTED_ACK_EVERY => self.wanted_ack_every = u16::from_le_bytes(value.try_into().ok()?),
            ONE_WAY => self.is_one_way = switch(value)?,
            AEAD => self.aead = u8::from_le_bytes(value.try_into().ok()?),
            SERVICE => self.service = Service::decode(value).ok()?,
            _ => {}
        }
        Some(())
    }
}

/// Decodes a list that fills `bytes`: `set` takes an identifier and its value, and returns `None`
/// for a value of a wrong length. Identifiers must ascend, which excludes repeated ones at no cost.
fn decode_list<'a>(
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
fn switch(value: &[u8]) -> Option<bool> {
    match value {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

/// Appends an entry to a list. Identifiers must ascend.
pub(super) fn push_entry(list: &mut Vec<u8>, id: u16, value: &[u8]) {
    #[expect(clippy::cast_possible_truncation, reason = "values have at most 240 bytes")]
    let len = value.len() as u16;
    list.extend(id.to_le_bytes());
    list.extend(len.to_le_bytes());
    list.extend(value);
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

    fn to_bytes(self) -> [u8; LINK_VALUE] {
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
        // 6 has no meaning.
        let some = list(&[(0, b"?"), (3, &[9, 0]), (6, &[0; 8]), (99, &[]), (u16::MAX, &[1; 300])]);
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
        let service = Service::new(&"s".repeat(Service::MAX_LEN)).unwrap();
        let full =
            Params { link: Some(LINK_OK), associations: 7, overflow: true, service, ..Params::default() };
        let bytes = full.encode();
        assert_eq!(bytes.len(), LIST_MAX);
        let ends: Vec<usize> =
            (0..bytes.len()).filter(|&len| Params::decode(&bytes[..len]).is_ok()).collect();
        assert_eq!(ends, [0, 6, 14, 20, 56, 64, 69, 101, 109, 114, 122, 128, 133], "only between entries");
        let lens = [
            (1, 2),
            (2, 4),
            (3, 2),
            (5, 4),
            (7, 1),
            (8, 28),
            (9, 4),
            (10, 1),
            (11, 4),
            (12, 2),
            (13, 1),
            (14, 1),
        ];
        for (id, len) in lens {
            for wrong in [len - 1, len + 1] {
                let value = vec![1; wrong];
                assert_eq!(Params::decode(&list(&[(id, &value)])), Err(WireError::Params), "id {id}");
            }
        }
    }

    const LINK_OK: LinkRequest =
        LinkRequest { rtt_us: 0, rate_bps: 1, loss_forward_ppb: 0, loss_reverse_ppb: 0, queue_bytes: 1 };

    /// Encodes and decodes the defaults with this change. Returns true if the result is equal, and
    /// false if it is refused.
    fn accepts(change: impl FnOnce(&mut Params)) -> bool {
        let mut params = Params { link: Some(LINK_OK), ..Params::default() };
        change(&mut params);
        let decoded = Params::decode(&params.encode());
        assert_eq!(decoded.is_ok(), params.is_valid());
        assert!(decoded.is_err() || decoded == Ok(params));
        decoded.is_ok()
    }

    #[test]
    fn ranges_of_the_parameters() {
        assert!(accepts(|_| ()) && accepts(|p| p.link = None) && accepts(|p| p.ecn = true));
        assert!(accepts(|p| p.max_datagram = 548) && accepts(|p| p.max_datagram = 65_527));
        assert!(!accepts(|p| p.max_datagram = 547) && !accepts(|p| p.max_datagram = 65_528));
        assert!(accepts(|p| p.ack_delay_max_us = 0) && accepts(|p| p.ack_delay_max_us = 1_000_000));
        assert!(!accepts(|p| p.ack_delay_max_us = 1_000_001) && !accepts(|p| p.ack_every = 0));
        assert!(accepts(|p| p.wanted_ack_delay_us = 1_000_000) && !accepts(|p| p.wanted_ack_every = 0));
        assert!(!accepts(|p| p.wanted_ack_delay_us = 1_000_001));
        assert!(accepts(|p| p.idle_timeout_ms = 1000) && !accepts(|p| p.idle_timeout_ms = 999));
        assert!(accepts(|p| p.idle_timeout_ms = 86_400_000) && !accepts(|p| p.idle_timeout_ms = 86_400_001));
        assert!(accepts(|p| p.aead = AEAD_MAX) && !accepts(|p| p.aead = AEAD_MAX + 1));
        assert_eq!(Params::decode(&list(&[(7, &[2])])), Err(WireError::Params));
    }

    #[test]
    fn versions_are_1_to_15() {
        assert_eq!((Versions::from_bits(0), Versions::from_bits(3)), (None, None));
        let some = Versions::from_bits(1 << 3 | 1 << 15).unwrap();
        assert_eq!((some.contains_ours(), some.to_string()), (false, "version 3 or 15".into()));
        assert!(Versions::OURS.contains_ours());
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
}
