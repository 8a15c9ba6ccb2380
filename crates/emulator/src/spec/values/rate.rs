//! Text form of a rate: `10mbit`, `none`, steps, a trace file (`trace:NAME`), or an 802.11 cell.

use super::{NONE, Value, is_none};
use crate::bitrate::Bitrate;
use crate::schedule::Schedule;
use crate::units::{NotationError, UnitError, ZERO_RATE, parse_bitrate};
use crate::wifi::WifiConfig;

#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum RateSpec {
    /// A rate, or rates that change in steps. A rate of `None` is no limit.
    Steps(Schedule<Option<Bitrate>>),
    /// Name of a trace file in mahimahi's format.
    Trace(String),
    /// An 802.11 cell, whose bit rate can change in steps, and its text as given.
    Wifi(Schedule<WifiConfig>, String),
}

impl Default for RateSpec {
    fn default() -> Self {
        Self::Steps(Schedule::default())
    }
}

const TRACE: &str = "trace:";
const WIFI: &str = "wifi-";

impl Value for RateSpec {
    fn read(text: &str) -> Result<Self, String> {
        if text.to_ascii_lowercase().starts_with(WIFI) {
            let cells = text.parse().map_err(|error: NotationError| error.to_string())?;
            return Ok(Self::Wifi(cells, text.to_owned()));
        }
        let Some(file) = text.strip_prefix(TRACE).map(str::trim) else {
            return Schedule::read(text).map(Self::Steps);
        };
        if file.is_empty() {
            return Err(format!("'{text}' names no file"));
        }
        Ok(Self::Trace(file.to_owned()))
    }

    fn write(&self) -> String {
        match self {
            Self::Steps(steps) => steps.write(),
            Self::Trace(file) => format!("{TRACE}{file}"),
            Self::Wifi(_, words) => words.clone(),
        }
    }
}

impl Value for Option<Bitrate> {
    fn read(text: &str) -> Result<Self, String> {
        if is_none(text) {
            Ok(None)
        } else {
            parse_bitrate(text).map(Some).map_err(|error| match error {
                UnitError::OutOfRange { range: ZERO_RATE, .. } => {
                    "a rate of 0 passes no packet: write none for no limit, or give an outage".to_owned()
                }
                error => error.to_string(),
            })
        }
    }

    fn write(&self) -> String {
        // `10 Mbit/s` becomes `10mbit`.
        let short = |rate: &Bitrate| rate.to_string().replace([' ', '/'], "").to_ascii_lowercase();
        self.as_ref().map_or_else(|| NONE.to_owned(), |rate| short(rate).trim_end_matches('s').to_owned())
    }
}
