//! Text forms of queue size (`auto`, `25p`, `64kb`, `1bdp`), discipline, occupancy, and marking.

use super::{NONE, Value, is_none};
use crate::queue::{Discipline, Incapable, Occupancy, QueueSize};
use crate::units::{NotationError, parse_queue_size};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) enum QueueSpec {
    /// `auto`: one bandwidth-delay product, but at least 64 KiB.
    #[default]
    Auto,
    /// `none`: no limit.
    Unlimited,
    /// A given size.
    Size(QueueSize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct MarkSpec {
    /// Threshold: a packet that would exceed it, if it were the queue limit, is marked.
    pub(in super::super) above: QueueSize,
    pub(in super::super) incapable: Incapable,
}

const AUTO: &str = "auto";
const OR_DROP: &str = " or drop";

impl Value for QueueSpec {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            text if is_none(text) => Ok(Self::Unlimited),
            text if text.eq_ignore_ascii_case(AUTO) => Ok(Self::Auto),
            text => QueueSize::read(text).map(Self::Size),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Auto => AUTO.to_owned(),
            Self::Unlimited => NONE.to_owned(),
            Self::Size(size) => size.write(),
        }
    }
}

impl Value for Option<MarkSpec> {
    fn read(text: &str) -> Result<Self, String> {
        if is_none(text) {
            return Ok(None);
        }
        let (above, incapable) = match text.strip_suffix(OR_DROP) {
            Some(above) => (above, Incapable::Drop),
            None => (text, Incapable::Pass),
        };
        Ok(Some(MarkSpec { above: QueueSize::read(above.trim())?, incapable }))
    }

    fn write(&self) -> String {
        match self {
            None => NONE.to_owned(),
            Some(MarkSpec { above, incapable: Incapable::Pass }) => above.write(),
            Some(MarkSpec { above, incapable: Incapable::Drop }) => format!("{}{OR_DROP}", above.write()),
        }
    }
}

impl Value for QueueSize {
    fn read(text: &str) -> Result<Self, String> {
        parse_queue_size(text).map_err(|error| error.to_string())
    }

    fn write(&self) -> String {
        match self {
            Self::Packets(packets) => format!("{packets}p"),
            Self::Bytes(bytes) => format!("{bytes}b"),
            Self::BdpMillionths(millionths) => {
                let decimal = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
                format!("{}bdp", decimal.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

impl Value for Discipline {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: NotationError| error.to_string())
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

const WAITING: &str = "waiting";
const PATH: &str = "path";

impl Value for Occupancy {
    fn read(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            WAITING => Ok(Self::Waiting),
            PATH => Ok(Self::WaitingAndInFlight),
            _ => Err(format!("'{text}' is not {WAITING} or {PATH}")),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Waiting => WAITING.to_owned(),
            Self::WaitingAndInFlight => PATH.to_owned(),
        }
    }
}
