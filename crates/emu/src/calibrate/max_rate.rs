//! Search for the highest rate that a path delivers on this host.

use std::time::Duration;

use rdt_emulator::Bitrate;
use rdt_program::json::nanos;
use serde_json::{Value, json};

use super::load_generator::Flood;
use crate::calibration::Bounds;
use crate::proxy::HEADERS_IPV4;

/// RTT of the path: with a one-way delay of 50 ms, packets are in flight inside the relay.
pub(super) const RTT: Duration = Duration::from_millis(100);
pub(super) const COUNT_INTERVAL: Duration = Duration::from_millis(50);
/// Duration of a trial, ms.
const TRIAL_MS: u64 = 1200;
/// Trials of a rate before it counts as failed: other processes may have disturbed the first trial.
const MAX_TRIALS: u32 = 2;
/// Number of candidate rates, so that a binary search needs five of them.
const CANDIDATE_RATES: i32 = 31;
/// Highest candidate, relative to the rate delivered under unlimited load. Above 1, because
/// unlimited load also spends CPU on packets that are dropped.
const HIGHEST_CANDIDATE: f64 = 1.4;
/// Ratio of each candidate to the next higher one; the lowest is about a hundredth of the highest.
const CANDIDATE_RATIO: f64 = 0.85;
/// Share of a rate that must be delivered for the rate to count as sustained.
const MIN_DELIVERED_SHARE: f64 = 0.99;
/// Offered load relative to the rate: above 1, so that the link always has a packet to send.
const OFFERED_SHARE: f64 = 1.03;
const DATAGRAM_BYTES: u16 = 1400;

/// Link rate of a trial, and the load that saturates it.
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
    pub(super) fn new(bps: f64) -> Self {
        let packet = f64::from(u32::from(DATAGRAM_BYTES) + HEADERS_IPV4);
        let pps = (bps * OFFERED_SHARE / packet / 8.0) as u64;
        Self {
            rate: Bitrate::from_bps(bps as u64),
            flood: Flood { size: DATAGRAM_BYTES, pps: Some(pps), ms: TRIAL_MS },
        }
    }
}

/// Output of the link while its queue was not empty, or a sustained rate.
#[derive(Debug)]
pub(super) struct Delivered {
    /// Rate of IP packets, bits per second.
    pub(super) bps: f64,
    pub(super) lateness: Value,
}

impl Delivered {
    pub(super) fn json(&self) -> Value {
        json!({ "rate_bps": self.bps, "rtt_ns": nanos(RTT), "lateness_ns": self.lateness })
    }
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) held: Option<Delivered>,
    pub(super) failed_bps: Option<f64>,
}

impl Found {
    pub(super) fn bounds(&self) -> Bounds {
        Bounds { held_bps: self.held.as_ref().map(|held| held.bps), failed_bps: self.failed_bps }
    }
}

/// Finds the highest sustained rate by binary search, from [`HIGHEST_CANDIDATE`] times
/// `flooded_bps` downwards. `hold` tries a rate, and returns `None` if the host was the bottleneck.
pub(super) fn search<E>(
    flooded_bps: f64,
    mut hold: impl FnMut(Asked) -> Result<Option<Delivered>, E>,
) -> Result<Found, E> {
    let mut found = Found::default();
    // If the unlimited load delivered nothing, there is no rate to try.
    let (mut begin, mut end) = (0, if flooded_bps > 0.0 { CANDIDATE_RATES } else { 0 });
    while begin < end {
        let middle = begin.midpoint(end);
        let bps = short(flooded_bps * HIGHEST_CANDIDATE * CANDIDATE_RATIO.powi(middle));
        if let Some(held) = try_rate(bps, &mut hold)? {
            found.held = Some(held);
            end = middle;
        } else {
            found.failed_bps = Some(bps);
            begin = middle + 1;
        }
    }
    Ok(found)
}

/// Tries a rate, and returns it if the host sustained it.
pub(super) fn try_rate<E>(
    bps: f64,
    hold: &mut impl FnMut(Asked) -> Result<Option<Delivered>, E>,
) -> Result<Option<Delivered>, E> {
    for _ in 0..MAX_TRIALS {
        let delivered = hold(Asked::new(bps))?.filter(|delivered| delivered.bps >= bps * MIN_DELIVERED_SHARE);
        if let Some(delivered) = delivered {
            return Ok(Some(Delivered { bps, ..delivered }));
        }
    }
    Ok(None)
}

/// Rounds a rate down to three significant digits, for display.
fn short(bps: f64) -> f64 {
    let unit = 10_f64.powf(bps.log10().floor() - 2.0).max(1.0);
    (bps / unit).floor() * unit
}

/// Computes the forward delivery rate from the output of `--json-stream`, between the second line
/// that counts deliveries and the last. Adds `headers` bytes to each packet.
pub(super) fn delivered(lines: &str, headers: u32) -> Option<Delivered> {
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut looks = lines
        .filter(|line| line["event"] == "progress" && line["forward"]["delivered_bytes"].as_u64() > Some(0))
        .skip(1);
    let first = looks.next()?;
    let last = looks.last()?;
    let value = |line: &Value| {
        let forward = &line["forward"];
        let headers = forward["delivered"].as_f64()? * f64::from(headers);
        Some((forward["delivered_bytes"].as_f64()? + headers, line["time_ns"].as_f64()?))
    };
    let ((bytes, ns), (first_bytes, first_ns)) = (value(&last)?, value(&first)?);
    let bps = (bytes - first_bytes) * 8e9 / (ns - first_ns);
    Some(Delivered { bps, lateness: last["forward"]["lateness_ns"].clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test double of a host that carries `capacity` bits per second.
    fn carries(capacity: f64) -> impl Fn(Asked) -> Result<Option<Delivered>, ()> {
        move |asked| Ok(Some(Delivered { bps: asked.rate.as_bps_f64().min(capacity), lateness: Value::Null }))
    }

    #[test]
    fn search_finds_adjacent_held_and_failed_rates() {
        for (capacity, held_bps, failed_bps) in
            [(1.1e9, Some(1.01e9), Some(1.19e9)), (2e7, Some(1.73e7), Some(2.04e7)), (9e9, Some(1.4e9), None)]
        {
            let bounds = search(1e9, carries(capacity)).unwrap().bounds();
            assert_eq!(bounds, Bounds { held_bps, failed_bps });
        }
    }

    #[test]
    fn failed_rate_is_retried_before_it_counts() {
        let mut tried = Vec::new();
        let found = search(1e9, |asked| {
            tried.push(asked.rate.as_bps_f64());
            let fails = tried.len() % 2 == 1 || asked.rate.as_bps_f64() > 5e8;
            if fails { Ok(None) } else { carries(f64::MAX)(asked) }
        });
        let Bounds { held_bps: Some(held), failed_bps: Some(failed) } = found.unwrap().bounds() else {
            panic!("{tried:?}")
        };
        assert!(held <= 5e8 && failed > 5e8 && held / failed > 0.84, "{held} {failed}");
        assert_eq!(tried.len(), 10);
    }

    #[test]
    fn failing_host_reports_lowest_failed_rate() {
        let found = search(1e9, |_| Ok::<_, ()>(None)).unwrap();
        assert_eq!(found.bounds(), Bounds { held_bps: None, failed_bps: Some(1.06e7) });
        assert!(search(1e9, |_| Err(())).is_err());
        assert_eq!(search(0.0, |_| Err(())).unwrap().bounds(), Bounds::default(), "nothing to ask for");
    }

    #[test]
    fn deliveries_count_from_second_report() {
        let line = |ns: u32, bytes: u32| {
            let forward = json!({ "delivered": bytes / 10, "delivered_bytes": bytes, "lateness_ns": ns });
            json!({ "event": "progress", "time_ns": ns, "forward": forward }).to_string()
        };
        let lines =
            [line(50, 0), line(100, 10), line(150, 100), line(200, 150), line(250, 300), "{}".to_owned()];
        let told = delivered(&lines.join("\n"), 0).unwrap();
        assert_eq!((told.bps, told.lateness), (200.0 * 8e9 / 100.0, json!(250)));
        let packets = delivered(&lines.join("\n"), 28).unwrap();
        assert_eq!((packets.bps, packets.lateness), ((200.0 + 20.0 * 28.0) * 8e9 / 100.0, json!(250)));
        assert!(delivered(&lines[..3].join("\n"), 0).is_none(), "one look is no rate");
    }
}
