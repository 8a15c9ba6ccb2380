//! Summary of `rdt-send --json`: the last object, whose keys `docs/PROGRAMS.md` describes.

use std::net::SocketAddr;
use std::time::Duration;

use rdt_program::Failure;
use rdt_program::json::{self, nanos};
use rdt_transport::{SenderConfig, SenderStats, Wire};
use rdt_udp::{Connected, Shown};
use serde_json::{Value, json};

use super::counters::{fell_behind, idle_share, socket_json};
use super::format::rate_bps;
use super::limit::Limited;
use super::receiver_report::ReceiverReport;
use super::rtt_histogram::RttQuantiles;
use super::status::Status;
use crate::connection::{Protection, wire_name};
use crate::exit::close_reason;
use crate::measure::Measure;
use crate::resources;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChecksumCheck {
    Agreed,
    /// The FIN-ACK has 0, which receivers send that do not compute a checksum.
    Unchecked,
    Wrong,
}

impl ChecksumCheck {
    pub(crate) fn of(ours: u32, theirs: u32) -> Self {
        match theirs {
            _ if theirs == ours => Self::Agreed,
            0 => Self::Unchecked,
            _ => Self::Wrong,
        }
    }
}

pub(crate) struct Summary<'a> {
    pub(crate) host: &'a str,
    /// `None` if none was found.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) config: &'a SenderConfig,
    pub(crate) stats: &'a SenderStats,
    pub(crate) measure: &'a Measure,
    pub(crate) status: &'a Status,
    /// `None` if the transfer was not opened.
    pub(crate) socket: Option<&'a Connected>,
    pub(crate) failure: Option<&'a Failure>,
    /// CRC-32 in the FIN-ACK; `None` without a FIN-ACK, and of a native transfer.
    pub(crate) crc_received: Option<u32>,
    pub(crate) is_confirmed: bool,
    /// Cipher and key; `None` for a classic transfer, and before the handshake.
    pub(crate) protection: Option<Protection>,
    /// Counters of the embedded receiver; `None` unless HOST is `local`.
    pub(crate) receiver: Option<&'a ReceiverReport>,
}

impl Summary<'_> {
    pub(crate) fn json(&self) -> Value {
        let Self { config, stats, receiver, crc_received, .. } = *self;
        let loaded = self.measure.rtt().quantiles();
        let is_unchecked =
            crc_received.is_some_and(|crc| ChecksumCheck::of(stats.crc, crc) == ChecksumCheck::Unchecked);
        let is_limited = |end: &ReceiverReport| {
            fell_behind(&end.stats) || idle_share(config, stats, &end.stats.forward).is_some()
        };
        let mut value = json!({
            "address": self.address.map(|address| Shown(address).to_string()),
            "wire": wire_name(config.wire),
            "congestion": config.congestion.to_string(),
            "recovery": config.recovery.to_string(),
            "ideal_bps": self.status.ideal_bps(stats),
            "crc32": (config.wire == Wire::Classic).then(|| format!("{:08x}", stats.crc)),
            "crc32_received": crc_received.map(|crc| format!("{crc:08x}")),
            "checked": self.is_confirmed && !is_unchecked,
            "socket": self.socket.map(|socket| socket_json(&socket.io().stats(), socket.io().offload())),
            "seed": receiver.and_then(|end| end.seed).map(json::seed),
            "host_limited": receiver.map(is_limited),
            "receiver": receiver.map(ReceiverReport::json),
        });
        extend(&mut value, outcome("summary", self.host, (stats.bytes_acked, stats.elapsed()), self.failure));
        extend(&mut value, measured_keys(self.measure, stats));
        extend(&mut value, self.sender_counters());
        extend(&mut value, recovery_keys(stats));
        extend(&mut value, limit_keys(config, stats, self.status));
        extend(&mut value, quantile_keys("rtt", loaded));
        extend(&mut value, quantile_keys("rtt_idle", self.measure.idle()));
        extend(&mut value, protection_keys(self.protection));
        value
    }

    fn sender_counters(&self) -> Value {
        let stats = self.stats;
        json!({
            "packet_size_bytes": match stats.packet_size {
                0 => self.config.packet_size,
                found => found,
            },
            "fast_retransmits": stats.fast_retransmits,
            "dup_acks": stats.dup_acks,
            "lost": stats.lost,
            "lost_to_receiver_socket": stats.lost_to_socket,
            "recoveries": stats.recoveries,
            "spurious": stats.spurious,
            "probes": stats.probes,
            "ecn": stats.ecn.name(),
            "ecn_failure": stats.ecn.failure().map(|failure| failure.to_string()),
            "ce_marks": stats.ce_marks,
            "ecn_reductions": stats.ecn_reductions,
            "dropped": {
                "malformed": stats.malformed,
                "stale": stats.stale,
                "acks_beyond": stats.acks_beyond,
                "foreign_messages": self.socket.map_or(0, Connected::foreign_messages),
            },
        })
    }
}

/// Adds the keys of `part` to `value`; both are objects.
pub(crate) fn extend(value: &mut Value, part: Value) {
    if let (Value::Object(all), Value::Object(part)) = (value, part) {
        all.extend(part);
    }
}

/// Returns the keys of every transfer and of several: what arrived, and how it ended.
pub(crate) fn outcome(
    event: &str,
    host: &str,
    (bytes, elapsed): (u64, Duration),
    failure: Option<&Failure>,
) -> Value {
    json!({
        "event": event,
        "exit_code": failure.map_or(0, Failure::code),
        "close_reason": failure.and_then(close_reason),
        "host": host,
        "bytes": bytes,
        "elapsed_ns": nanos(elapsed),
        "goodput_bps": rate_bps(bytes, elapsed),
        "memory_peak_bytes": resources::memory().peak,
        "processor_ns": resources::processor_time().map(nanos),
    })
}

/// Returns the keys of every transfer about its start.
pub(crate) fn measured_keys(measure: &Measure, stats: &SenderStats) -> Value {
    json!({
        "omitted_bytes": measure.omitted_bytes(),
        "handshake_rtt_ns": stats.handshake_rtt.map(nanos),
    })
}

/// Returns the keys of transfers with congestion control, at either side.
pub(crate) fn recovery_keys(stats: &SenderStats) -> Value {
    json!({
        "retransmitted": stats.retransmitted,
        "retransmitted_bytes": stats.retransmitted_bytes,
        "timeouts": stats.timeouts,
        "cwnd_bytes": stats.cwnd,
        "srtt_ns": stats.srtt.map(nanos),
        "min_rtt_ns": stats.min_rtt.map(nanos),
    })
}

/// Returns the keys of senders with congestion control.
pub(crate) fn limit_keys(config: &SenderConfig, stats: &SenderStats, status: &Status) -> Value {
    let limited = Limited::of(config, stats);
    json!({
        "packets": status.packets(stats.snd_una),
        "ssthresh_bytes": stats.ssthresh,
        "rto_ns": nanos(stats.rto),
        "waited_cwnd_ns": nanos(stats.waited.cwnd),
        "waited_peer_window_ns": nanos(stats.waited.peer_window),
        "waited_pacing_ns": nanos(stats.waited.pacing),
        "waited_application_ns": nanos(stats.waited.application),
        "limited_by": limited.map(|limited| limited.name()),
        "limited_share": limited.map(|limited| limited.share),
    })
}

/// Returns the keys of round trips, whose names begin with `name`.
pub(crate) fn quantile_keys(name: &str, trips: Option<RttQuantiles>) -> Value {
    let quantiles = [
        ("min", trips.map(|trips| trips.min)),
        ("p50", trips.map(|trips| trips.p50)),
        ("p90", trips.map(|trips| trips.p90)),
        ("p99", trips.map(|trips| trips.p99)),
    ];
    quantiles.into_iter().map(|(quantile, ns)| (format!("{name}_{quantile}_ns"), json!(ns))).collect()
}

/// Returns the keys about the cipher and the receiver of a native transfer.
pub(crate) fn protection_keys(protection: Option<Protection>) -> Value {
    let receiver = protection.and_then(|protection| protection.receiver);
    json!({
        "cipher": protection.map(|protection| protection.aead.name()),
        "receiver_key": receiver.map(|key| key.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_0_means_unchecked() {
        assert_eq!(ChecksumCheck::of(5, 5), ChecksumCheck::Agreed);
        assert_eq!(ChecksumCheck::of(0, 0), ChecksumCheck::Agreed);
        assert_eq!(ChecksumCheck::of(5, 0), ChecksumCheck::Unchecked);
        assert_eq!(ChecksumCheck::of(0, 5), ChecksumCheck::Wrong);
    }
}
