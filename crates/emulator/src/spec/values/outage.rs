//! Text form of outages: `10s-12s, 30s-31s`, or `500ms every 10s from 3s`.

use std::time::Duration;

use super::{NONE, Value, is_none};
use crate::outage::Outage;

impl Value for Outage {
    fn read(text: &str) -> Result<Self, String> {
        if is_none(text) {
            return Ok(Self::None);
        }
        if let Some((down, rest)) = text.split_once(" every ") {
            return periodic(text, down, rest);
        }
        let parts = text.split(',').map(|part| interval(part.trim()));
        let intervals = parts.collect::<Result<Vec<_>, _>>()?;
        overlap(&intervals).map_or(Ok(Self::Intervals(intervals)), Err)
    }

    fn write(&self) -> String {
        match self {
            Self::None => NONE.to_owned(),
            Self::Periodic { period, down, offset } => {
                format!("{} every {} from {}", down.write(), period.write(), offset.write())
            }
            Self::Intervals(intervals) => {
                let intervals = intervals.iter().map(|(from, to)| format!("{}-{}", from.write(), to.write()));
                intervals.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

fn periodic(text: &str, down: &str, rest: &str) -> Result<Outage, String> {
    let (period, offset) = rest.split_once(" from ").unwrap_or((rest, "0s"));
    let down = Duration::read(down.trim())?;
    let period = Duration::read(period.trim())?;
    if period.is_zero() || down > period {
        return Err(format!("'{text}' does not fit: the outage is longer than its period"));
    }
    Ok(Outage::Periodic { period, down, offset: Duration::read(offset.trim())? })
}

/// Returns an error sentence if two intervals overlap, which is probably a typing mistake.
fn overlap(intervals: &[(Duration, Duration)]) -> Option<String> {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let both = sorted.windows(2).find(|pair| pair[1].0 < pair[0].1)?;
    let [first, second] = [both[0], both[1]].map(|(from, to)| format!("{}-{}", from.write(), to.write()));
    Some(format!("{first} and {second} overlap"))
}

fn interval(text: &str) -> Result<(Duration, Duration), String> {
    let Some((from, to)) = text.split_once('-') else {
        return Err(format!("'{text}' has no end: write 10s-12s"));
    };
    let (from, to) = (Duration::read(from.trim())?, Duration::read(to.trim())?);
    if from >= to {
        return Err(format!("'{text}' ends before it begins"));
    }
    Ok((from, to))
}
