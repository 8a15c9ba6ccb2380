//! Text form of an MTU: `1500`, `1500 fragment`, `1500, 10s:1280, 20s:none`.

use super::{NONE, Value, is_none, strip_last};
use crate::mtu::{Mtu, Oversize};
use crate::schedule::Schedule;

const FRAGMENT: &str = "fragment";
const DROP: &str = "drop";

/// Smallest MTU that IPv6 allows: RFC 8200, section 5.
const MIN_IPV6_MTU_BYTES: u32 = 1_280;

impl Value for Mtu {
    fn read(text: &str) -> Result<Self, String> {
        let Some(limit) = strip_last(text, FRAGMENT) else {
            let limit = Schedule::read(strip_last(text, DROP).unwrap_or(text))?;
            return Ok(Self { limit, oversize: Oversize::Drop });
        };
        let mtu = Self { limit: Schedule::read(limit)?, oversize: Oversize::Fragment };
        let too_short = mtu.limit.values().flatten().find(|&limit| limit < MIN_IPV6_MTU_BYTES);
        match too_short {
            Some(limit) => {
                Err(format!("{limit} is too short to fragment: IPv6 requires at least {MIN_IPV6_MTU_BYTES}"))
            }
            None => Ok(mtu),
        }
    }

    fn write(&self) -> String {
        match self.oversize {
            Oversize::Drop => self.limit.write(),
            Oversize::Fragment => format!("{} {FRAGMENT}", self.limit.write()),
        }
    }
}

/// Limit of an MTU, in bytes.
impl Value for Option<u32> {
    fn read(text: &str) -> Result<Self, String> {
        if is_none(text) {
            return Ok(None);
        }
        match u32::read(text)? {
            0 => Err(format!("an MTU of 0 bytes passes no packet: write {NONE} for no limit")),
            bytes => Ok(Some(bytes)),
        }
    }

    fn write(&self) -> String {
        self.map_or_else(|| NONE.to_owned(), |bytes| bytes.write())
    }
}
