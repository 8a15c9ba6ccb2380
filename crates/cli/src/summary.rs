//! The last object of `rdt-send --json`. `docs/PROGRAMS.md` says what each key means.

use rdt_transport::SenderStats;
use serde_json::{Value, json};

use crate::Failure;
use crate::figures::{fell_behind, socket_json, stats_json, wire_name};
use crate::format::rate_bps;
use crate::local::LocalEnd;
use crate::memory;
use crate::status::micros;
use crate::transfer::{Transfer, Verdict};

impl Transfer {
    /// Everything that there is to say of a transfer that ended so; `received` is the receiver's checksum.
    pub(crate) fn summary(
        &self,
        stats: &SenderStats,
        failure: Option<&Failure>,
        received: Option<u32>,
        receiver: Option<&LocalEnd>,
    ) -> Value {
        let mut value = self.outcome(stats, failure);
        let parts = [self.of_sender(stats), self.of_time(stats)];
        for (key, part) in parts.into_iter().filter_map(into_fields).flatten() {
            value[key] = part;
        }
        value["crc32_received"] = json!(received.map(|crc| format!("{crc:08x}")));
        let checked = received.is_some_and(|crc| Verdict::of(stats.crc, crc) != Verdict::Unchecked);
        value["checked"] = json!(checked);
        value["seed"] = json!(receiver.and_then(|end| end.seed));
        value["host_limited"] =
            json!(receiver.map(|end| fell_behind(&end.stats) || self.idle_share(stats, receiver).is_some()));
        value["receiver"] = json!(receiver.map(receiver_json));
        value
    }

    /// What was to be done, and what came of it.
    fn outcome(&self, stats: &SenderStats, failure: Option<&Failure>) -> Value {
        let config = self.sender.config();
        let elapsed = stats.elapsed();
        json!({
            "event": "summary",
            "exit_code": failure.map_or(0, Failure::code),
            "close_reason": failure.and_then(Failure::close_reason),
            "host": self.host,
            "address": self.address.to_string(),
            "wire": wire_name(config.wire),
            "congestion": config.congestion.to_string(),
            "recovery": config.recovery.to_string(),
            "bytes": stats.bytes_acked,
            "elapsed_us": micros(elapsed),
            "goodput_bps": rate_bps(stats.bytes_acked, elapsed),
            "ideal_bps": self.sending.status.ideal_bps(stats),
            "crc32": format!("{:08x}", stats.crc),
            "memory_peak_bytes": memory::read().peak,
            "processor_us": memory::processor_time().map(micros),
            "socket": socket_json(&self.socket.io().stats(), self.socket.io().offload()),
        })
    }

    /// What the sender counted.
    fn of_sender(&self, stats: &SenderStats) -> Value {
        json!({
            "packet_size_bytes": match stats.packet_size {
                0 => self.sender.config().packet_size,
                found => found,
            },
            "packets": self.sending.status.packets(stats.snd_una),
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
                "strangers": self.socket.strangers(),
            },
        })
    }

    /// Times, and what they were spent on.
    fn of_time(&self, stats: &SenderStats) -> Value {
        let rtt = |q: f64| self.round_trips.as_ref().and_then(|trips| trips.quantile_us(q));
        json!({
            "srtt_us": stats.srtt.map(micros),
            "min_rtt_us": stats.min_rtt.map(micros),
            "rtt_min_us": rtt(0.0),
            "rtt_p50_us": rtt(0.5),
            "rtt_p99_us": rtt(0.99),
            "rto_us": micros(stats.rto),
            "handshake_rtt_us": stats.handshake_rtt.map(micros),
            "waited_cwnd_us": micros(stats.waited.cwnd),
            "waited_peer_window_us": micros(stats.waited.peer_window),
            "waited_pacing_us": micros(stats.waited.pacing),
            "waited_application_us": micros(stats.waited.application),
        })
    }
}

fn into_fields(value: Value) -> Option<serde_json::Map<String, Value>> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// Everything that the embedded receiver counted.
pub(crate) fn receiver_json(end: &LocalEnd) -> Value {
    let mut value = stats_json(&end.stats);
    if end.seed.is_none() {
        // Nothing passed a link.
        value["forward"] = Value::Null;
        value["reverse"] = Value::Null;
    }
    value["socket"] = socket_json(&end.socket, end.offload);
    value
}
