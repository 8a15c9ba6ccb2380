//! Text form of an MTU: `1500`, `1500 fragment`, `1500, 10s:1280, 20s:none`.

use super::{Bytes, NONE, Steps, Value, is_none, strip_last};
use crate::mtu::{Mtu, Oversize};

/// MTU with its changes, and the treatment of longer packets.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct MtuSpec {
    pub(in super::super) limit: Steps<Option<Bytes>>,
    pub(in super::super) oversize: Oversize,
}

const FRAGMENT: &str = "fragment";
const DROP: &str = "drop";

/// Smallest MTU that IPv6 allows: RFC 8200, section 5.
const MIN_IPV6_MTU_BYTES: u32 = 1_280;

impl MtuSpec {
    pub(in super::super) fn to_mtu(&self) -> Mtu {
        let first = self.limit.first.map_or(Mtu::unlimited(), |bytes| Mtu::new(bytes.0));
        let changes = self.limit.changes.iter();
        let mtu = changes.fold(first, |mtu, &(at, bytes)| mtu.then(at, bytes.map(|bytes| bytes.0)));
        mtu.oversize(self.oversize)
    }

    fn limits(&self) -> impl Iterator<Item = u32> {
        let later = self.limit.changes.iter().filter_map(|change| change.1);
        self.limit.first.into_iter().chain(later).map(|bytes| bytes.0)
    }
}

impl Value for MtuSpec {
    fn read(text: &str) -> Result<Self, String> {
        if let Some(limit) = strip_last(text, DROP) {
            return Ok(Self { limit: Steps::read(limit)?, oversize: Oversize::Drop });
        }
        let Some(limit) = strip_last(text, FRAGMENT) else {
            return Ok(Self { limit: Steps::read(text)?, oversize: Oversize::Drop });
        };
        let mtu = Self { limit: Steps::read(limit)?, oversize: Oversize::Fragment };
        let too_short = mtu.limits().find(|&limit| limit < MIN_IPV6_MTU_BYTES);
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

impl Value for Option<Bytes> {
    fn read(text: &str) -> Result<Self, String> {
        if is_none(text) {
            return Ok(None);
        }
        match Bytes::read(text)? {
            Bytes(0) => Err(format!("an MTU of 0 bytes passes no packet: write {NONE} for no limit")),
            bytes => Ok(Some(bytes)),
        }
    }

    fn write(&self) -> String {
        self.map_or_else(|| NONE.to_owned(), |bytes| bytes.write())
    }
}
