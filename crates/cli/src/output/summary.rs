//! Summary of `rdt-send --json`: the last object, whose keys `docs/PROGRAMS.md` describes.

use std::net::SocketAddr;

use rdt_program::json::{self, nanos};
use rdt_transport::{SenderConfig, SenderStats};
use rdt_udp::Connected;
use serde_json::{Value, json};

use super::counters::{fell_behind, idle_share, socket_json};
use super::format::rate_bps;
use super::limit::Limited;
use super::receiver_report::ReceiverReport;
use super::status::Status;
use crate::args::Format;
use crate::connection::Protection;
use crate::exit::close_reason;
use crate::measure::Measure;
use crate::{Failure, resources};

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
    /// True if the receiver has confirmed the transfer.
    pub(crate) is_confirmed: bool,
    /// Cipher and key; `None` for a classic transfer, and before the handshake.
    pub(crate) protection: Option<Protection>,
    pub(crate) format: Format,
    /// Counters of the embedded receiver; `None` unless HOST is `local`.
    pub(crate) receiver: Option<&'a ReceiverReport>,
}

impl Summary<'_> {
    pub(crate) fn json(&self) -> Value {
        let Self { stats, receiver, crc_received, .. } = *self;
        let mut value = self.outcome();
        let parts = [self.sender_counters(), self.times(), protection_keys(self.protection)];
        for (key, part) in parts.into_iter().filter_map(into_fields).flatten() {
            value[key] = part;
        }
        value["crc32_received"] = json!(crc_received.map(|crc| format!("{crc:08x}")));
        let is_unchecked =
            crc_received.is_some_and(|crc| ChecksumCheck::of(stats.crc, crc) == ChecksumCheck::Unchecked);
        value["checked"] = json!(self.is_confirmed && !is_unchecked);
        value["seed"] = json!(receiver.and_then(|end| end.seed).map(json::seed));
        value["host_limited"] = json!(receiver.map(|end| {
            fell_behind(&end.stats) || idle_share(self.config, stats, &end.stats.forward).is_some()
        }));
        value["receiver"] = json!(receiver.map(ReceiverReport::json));
        value
    }

    fn outcome(&self) -> Value {
        let Self { config, stats, failure, .. } = *self;
        let elapsed = stats.elapsed();
        json!({
            "event": "summary",
            "exit_code": failure.map_or(0, Failure::code),
            "close_reason": failure.and_then(close_reason),
            "host": self.host,
            "address": self.address.map(|address| address.to_string()),
            "wire": self.format.name(),
            "congestion": config.congestion.to_string(),
            "recovery": config.recovery.to_string(),
            "bytes": stats.bytes_acked,
            "elapsed_ns": nanos(elapsed),
            "goodput_bps": rate_bps(stats.bytes_acked, elapsed),
            "ideal_bps": self.status.ideal_bps(stats),
            "crc32": (self.format == Format::Classic).then(|| format!("{:08x}", stats.crc)),
            "memory_peak_bytes": resources::memory().peak,
            "processor_ns": resources::processor_time().map(nanos),
            "socket": self.socket.map(|socket| socket_json(&socket.io().stats(), socket.io().offload())),
        })
    }

    fn sender_counters(&self) -> Value {
        let stats = self.stats;
        json!({
            "packet_size_bytes": match stats.packet_size {
                0 => self.config.packet_size,
                found => found,
            },
            "packets": self.status.packets(stats.snd_una),
            "retransmitted": stats.retransmitted,
            "retransmitted_bytes": stats.retransmitted_bytes,
            "timeouts": stats.timeouts,
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
            "cwnd_bytes": stats.cwnd,
            "ssthresh_bytes": stats.ssthresh,
            "dropped": {
                "malformed": stats.malformed,
                "stale": stats.stale,
                "acks_beyond": stats.acks_beyond,
                "foreign_messages": self.socket.map_or(0, Connected::foreign_messages),
            },
        })
    }

    fn times(&self) -> Value {
        let stats = self.stats;
        let limited = Limited::of(self.config, stats);
        let idle = self.measure.idle();
        let loaded = self.measure.rtt().quantiles();
        json!({
            "srtt_ns": stats.srtt.map(nanos),
            "min_rtt_ns": stats.min_rtt.map(nanos),
            "rtt_min_ns": loaded.map(|loaded| loaded.min),
            "rtt_p50_ns": loaded.map(|loaded| loaded.p50),
            "rtt_p90_ns": loaded.map(|loaded| loaded.p90),
            "rtt_p99_ns": loaded.map(|loaded| loaded.p99),
            "rtt_idle_min_ns": idle.map(|idle| idle.min),
            "rtt_idle_p50_ns": idle.map(|idle| idle.p50),
            "rtt_idle_p90_ns": idle.map(|idle| idle.p90),
            "rtt_idle_p99_ns": idle.map(|idle| idle.p99),
            "omitted_bytes": self.measure.omitted_bytes(),
            "rto_ns": nanos(stats.rto),
            "handshake_rtt_ns": stats.handshake_rtt.map(nanos),
            "waited_cwnd_ns": nanos(stats.waited.cwnd),
            "waited_peer_window_ns": nanos(stats.waited.peer_window),
            "waited_pacing_ns": nanos(stats.waited.pacing),
            "waited_application_ns": nanos(stats.waited.application),
            "limited_by": limited.map(|limited| limited.name()),
            "limited_share": limited.map(|limited| limited.share),
        })
    }
}

fn into_fields(value: Value) -> Option<serde_json::Map<String, Value>> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
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
