//! The highest rate that a path is asked for and delivers.

use std::time::Duration;

use rdt_emulator::Bitrate;
use serde_json::{Value, json};

use super::flood::Flood;

/// The path's round trip: so much of the rate is always on its way.
pub(super) const RTT: Duration = Duration::from_millis(100);
/// How often it is looked what has been delivered.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// How long each rate is tried, ms.
const TRIAL: u64 = 1200;
/// Rates tried at most.
const TRIALS: u32 = 10;
/// The first, of what a flood brings through: it may be more than that, because a flood also costs the host what is
/// thrown away.
const FIRST: f64 = 1.4;
/// Each is so much lower than the one before.
const STEP: f64 = 0.85;
/// A rate is held if so much of it is delivered.
const HELD: f64 = 0.99;
/// Offered, of the rate: so that the link always has a packet to send.
const OFFERED: f64 = 1.03;
/// Bytes of each datagram.
const SIZE: u16 = 1400;

/// A rate, and the flood that fills it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) rate: Bitrate,
    pub(super) flood: Flood,
}

impl Asked {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate that a host can carry is far below 2^53, and positive"
    )]
    fn new(bps: f64) -> Self {
        let pps = (bps * OFFERED / f64::from(SIZE) / 8.0) as u64;
        Self { rate: Bitrate::from_bps(bps as u64), flood: Flood { size: SIZE, pps: Some(pps), ms: TRIAL } }
    }
}

/// What came out of the link while it was full.
#[derive(Debug)]
pub(super) struct Delivered {
    bps: f64,
    lateness: Value,
}

/// A rate that was held, in bits per second, and how late packets were.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bps: f64,
    pub(super) lateness: Value,
}

impl Held {
    pub(super) fn json(&self) -> Value {
        json!({ "rate_bps": self.bps, "rtt_us": RTT.as_micros(), "lateness_us": self.lateness })
    }
}

/// Tries rates from above what a flood brings through, until one is held.
pub(super) fn search<E>(
    flooded_bps: f64,
    mut hold: impl FnMut(Asked) -> Result<Option<Delivered>, E>,
) -> Result<Option<Held>, E> {
    let mut bps = flooded_bps * FIRST;
    for _ in 0..TRIALS {
        if let Some(delivered) = hold(Asked::new(bps))?
            && delivered.bps >= bps * HELD
        {
            return Ok(Some(Held { bps, lateness: delivered.lateness }));
        }
        bps *= STEP;
    }
    Ok(None)
}

/// What the lines of `--json-stream` say was delivered forward from the second one with a delivery to the last.
pub(super) fn delivered(lines: &str) -> Option<Delivered> {
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut looks = lines
        .filter(|line| line["event"] == "progress" && line["forward"]["delivered_bytes"].as_u64() > Some(0))
        .skip(1);
    let first = looks.next()?;
    let last = looks.last()?;
    let value =
        |line: &Value| Some((line["forward"]["delivered_bytes"].as_f64()?, line["elapsed_us"].as_f64()?));
    let ((bytes, us), (first_bytes, first_us)) = (value(&last)?, value(&first)?);
    let bps = (bytes - first_bytes) * 8e6 / (us - first_us);
    Some(Delivered { bps, lateness: last["forward"]["lateness_us"].clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rate_is_found_of_which_a_hundredth_at_most_is_missing() {
        let capacity = 1.1e9;
        let mut tried = 0;
        let held = search(1e9, |asked| {
            tried += 1;
            let bps = asked.rate.as_bps_f64().min(capacity);
            Ok::<_, ()>(Some(Delivered { bps, lateness: Value::Null }))
        });
        assert_eq!((held.unwrap().unwrap().bps, tried), (1.4e9 * STEP * STEP, 3));
    }

    #[test]
    fn a_host_that_holds_nothing_is_asked_no_more_at_last() {
        assert!(search(1e9, |_| Ok::<_, ()>(None)).unwrap().is_none());
        assert!(search(1e9, |_| Err(())).is_err());
    }

    #[test]
    fn what_was_delivered_counts_from_the_second_look_that_sees_something() {
        let line = |us: u32, bytes: u32| {
            json!({ "event": "progress", "elapsed_us": us, "forward": { "delivered_bytes": bytes, "lateness_us": us } })
                .to_string()
        };
        let lines =
            [line(50, 0), line(100, 7), line(150, 100), line(200, 150), line(250, 300), "{}".to_owned()];
        let told = delivered(&lines.join("\n")).unwrap();
        assert_eq!((told.bps, told.lateness), (200.0 * 8e6 / 100.0, json!(250)));
        assert!(delivered(&lines[..3].join("\n")).is_none(), "one look is no rate");
    }
}
