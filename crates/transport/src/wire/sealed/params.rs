//! Transport parameters of version 2, which travel inside of Noise payloads. The list, its entries
//! and most identifiers are those of version 1. A side is sender and receiver at once, so what
//! version 1 says by one identifier in a SYN and in a SYN-ACK has two here.

use super::super::WireError;
use super::super::native::{self, SMALLEST_PATH, params as list};
use crate::StreamName;

const WANTED_ACK_DELAY: u16 = 11;
const WANTED_ACK_EVERY: u16 = 12;
const ONE_WAY: u16 = 13;
const AEAD: u16 = 14;

/// Length of the parameters that are always written, bytes.
const LIST: usize = 9 * list::ENTRY + 21;
/// Length of the longest list without a link, bytes.
pub(super) const LIST_MAX_WITHOUT_LINK: usize = LIST + list::ENTRY + 1;
/// Length of the longest list, bytes.
pub(super) const LIST_MAX: usize = LIST_MAX_WITHOUT_LINK + list::ENTRY + list::LINK_VALUE;

/// Largest number of an AEAD that encrypts.
const AEAD_MAX: u8 = 3;

/// Transport parameters of one side. A missing parameter has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Params {
    /// Parameters that version 1 has, too: of this side as a receiver, and the link that it wants.
    /// `max_datagram` is at least 548. `versions` and `attempt` are not sent.
    pub(crate) basic: native::Params,
    /// Longest ACK delay that this side wants as a sender, microseconds; the peer obeys. At most
    /// 1,000,000. Default 25,000.
    pub(crate) wanted_ack_delay_us: u32,
    /// Largest number of DATA packets per ACK that this side wants as a sender; the peer obeys. At
    /// least 1. Default 2.
    pub(crate) wanted_ack_every: u16,
    /// True if the responder's stream stays empty. Default: false.
    pub(crate) is_one_way: bool,
    /// Number of the AEAD that this side prefers, 1 to 3; 0 for none. Default 0.
    pub(crate) aead: u8,
}

impl Default for Params {
    fn default() -> Self {
        let basic = native::Params::default();
        Self {
            basic,
            wanted_ack_delay_us: basic.ack_delay_max_us,
            wanted_ack_every: basic.ack_every,
            is_one_way: false,
            aead: 0,
        }
    }
}

impl Params {
    /// Checks every value against its range. Encoding expects valid values.
    ///
    /// # Errors
    /// A sentence that names the value and its range.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        if usize::from(self.basic.max_datagram) < SMALLEST_PATH {
            Err("the largest datagram must have at least 548 bytes")
        } else if self.wanted_ack_delay_us > 1_000_000 {
            Err("ACKs must be delayed by at most a second")
        } else if self.wanted_ack_every == 0 {
            Err("an ACK must be given after at least 1 packet")
        } else if self.aead > AEAD_MAX {
            Err("AEADs that encrypt have the numbers 1 to 3")
        } else {
            self.basic.validate()
        }
    }

    /// Writes the list to the start of `out`, at most [`LIST_MAX`] bytes, and returns its length.
    pub(super) fn encode(&self, out: &mut [u8]) -> usize {
        let mut list = list::List::new(out);
        list.entry(list::MAX_DATAGRAM, self.basic.max_datagram.to_le_bytes());
        list.entry(list::ACK_DELAY_MAX, self.basic.ack_delay_max_us.to_le_bytes());
        list.entry(list::ACK_EVERY, self.basic.ack_every.to_le_bytes());
        list.entry(list::IDLE_TIMEOUT, self.basic.idle_timeout_ms.to_le_bytes());
        list.entry(list::ECN, [u8::from(self.basic.ecn)]);
        if let Some(link) = self.basic.link {
            list.entry(list::LINK, link.to_bytes());
        }
        if self.basic.overflow {
            list.entry(list::OVERFLOW, [1]);
        }
        list.entry(WANTED_ACK_DELAY, self.wanted_ack_delay_us.to_le_bytes());
        list.entry(WANTED_ACK_EVERY, self.wanted_ack_every.to_le_bytes());
        list.entry(ONE_WAY, [u8::from(self.is_one_way)]);
        list.entry(AEAD, [self.aead]);
        list.len()
    }

    /// Decodes a list that fills `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut params = Self::default();
        list::decode_list(bytes, |id, value| params.set(id, value))?;
        params.validate().map_err(|_| WireError::Params)?;
        Ok(params)
    }

    /// Decodes the list of an initiator, which fills `bytes`, and the name in it.
    pub(super) fn decode_hello(bytes: &[u8]) -> Result<(Self, Option<StreamName>), WireError> {
        let mut name = None;
        list::decode_list(bytes, |id, value| {
            if id == list::NAME {
                name = Some(StreamName::new(StreamName::text_of(value)?)?);
            }
            Some(())
        })?;
        Ok((Self::decode(bytes)?, name))
    }

    /// Sets one value; `None` if its length is wrong.
    fn set(&mut self, id: u16, value: &[u8]) -> Option<()> {
        match id {
            // The SYN has them in clear.
            list::VERSIONS | list::ATTEMPT => {}
            WANTED_ACK_DELAY => self.wanted_ack_delay_us = u32::from_le_bytes(value.try_into().ok()?),
            WANTED_ACK_EVERY => self.wanted_ack_every = u16::from_le_bytes(value.try_into().ok()?),
            ONE_WAY => self.is_one_way = list::switch(value)?,
            AEAD => self.aead = u8::from_le_bytes(value.try_into().ok()?),
            _ => self.basic.set(id, value)?,
        }
        Some(())
    }
}
