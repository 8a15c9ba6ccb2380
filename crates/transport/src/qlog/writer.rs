//! Turns observed events into qlog records.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::QlogConfig;
use super::json::{Json, object};
use crate::congestion::Cause;
use crate::{Blocked, LossTrigger, Metrics, PacketKind, Resend, Timer, Trace};

/// A received packet whose content is not known yet.
#[derive(Debug, Clone, Copy)]
struct Received {
    time_ms: f64,
    kind: PacketKind,
    length: usize,
}

#[derive(Debug)]
pub(super) struct Writer<W> {
    pub(super) out: W,
    /// Current record, so that each is one write.
    line: Vec<u8>,
    pub(super) error: Option<io::Error>,
    epoch: Instant,
    last_ms: f64,
    pending: Option<Received>,
    /// Count of received packets.
    received: u64,
    /// Count of SYNs sent. Attempts restart after a RETRY, but packet numbers must be unique.
    syns: u64,
    /// Transmissions acknowledged by the current ACK, as inclusive ranges.
    acked: Vec<[u64; 2]>,
    /// Cumulative ACK of the last ACK. In classic, which has no packet numbers, the next ACK
    /// acknowledges the packets from here on.
    snd_una: u64,
    window_unit: u64,
    /// Last values written.
    metrics: Metrics,
    state: Option<&'static str>,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W, config: &QlogConfig) -> Self {
        Self {
            out,
            line: Vec::new(),
            error: None,
            epoch: config.epoch,
            last_ms: 0.0,
            pending: None,
            received: 0,
            syns: 0,
            acked: Vec::new(),
            snd_una: 0,
            window_unit: config.window_unit,
            metrics: Metrics::default(),
            state: None,
        }
    }

    /// Writes the file's first record: version, format and time base.
    pub(super) fn header(&mut self, config: &QlogConfig) {
        self.record(&object! {
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": config.title.as_str(),
            "trace": object! {
                "vantage_point": object! { "name": "rdt", "type": "client" },
                "common_fields": object! {
                    "time_format": "relative",
                    "reference_time": config.reference_time_ms,
                    "protocol_type": ["RDT"],
                },
            },
        });
    }

    fn record(&mut self, record: &Json) {
        if self.error.is_some() {
            return;
        }
        self.line.clear();
        self.line.push(0x1e);
        let written = writeln!(self.line, "{record}");
        self.error = written.and_then(|()| self.out.write_all(&self.line)).err();
    }

    fn event(&mut self, time_ms: f64, name: &str, data: Json) {
        self.record(&object! { "time": time_ms, "name": name, "data": data });
    }

    pub(super) fn connection_started(&mut self, config: &QlogConfig) {
        // The schema requires both addresses; the local one is known to the kernel only.
        let any = |peer: SocketAddr| match peer {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let Some(peer) = config.peer else { return };
        let data = object! {
            "ip_version": if peer.is_ipv4() { "v4" } else { "v6" },
            "src_ip": any(peer).to_string().as_str(),
            "dst_ip": peer.ip().to_string().as_str(),
            "dst_port": peer.port(),
            "protocol": "RDT",
        };
        self.event(0.0, "connectivity:connection_started", data);
    }

    pub(super) fn on(&mut self, now: Instant, trace: &Trace) {
        // Clocks of different threads may differ slightly; times of a trace must not decrease.
        let time_ms = millis(now.saturating_duration_since(self.epoch)).max(self.last_ms);
        self.last_ms = time_ms;
        match *trace {
            Trace::PacketReceived { kind, length } => {
                self.flush_received();
                self.pending = Some(Received { time_ms, kind, length });
            }
            Trace::PacketAcked { packet_number: Some(packet_number), .. } => self.on_acked(packet_number),
            Trace::PacketAcked { packet_number: None, .. } => {}
            Trace::AckProcessed { .. } => self.on_ack(trace),
            _ => {
                self.flush_received();
                self.on_other(now, time_ms, trace);
            }
        }
    }

    fn on_other(&mut self, now: Instant, time_ms: f64, trace: &Trace) {
        match *trace {
            Trace::PacketSent { .. } => self.on_sent(time_ms, trace),
            Trace::PacketDropped { length } => {
                let data = object! { "raw": object! { "length": length }, "trigger": "header_parse_error" };
                self.event(time_ms, "transport:packet_dropped", data);
            }
            Trace::PacketLost { packet_number, offset, len, trigger } => {
                let data = object! {
                    "header": header("1RTT", packet_number),
                    "frames": [stream(offset, len, false)],
                    "trigger": lost_because(trigger),
                };
                self.event(time_ms, "recovery:packet_lost", data);
            }
            Trace::MetricsUpdated(metrics) => self.on_metrics(time_ms, &metrics),
            Trace::PhaseChanged { old, new } => {
                let data = object! { "new": new }.with("old", old);
                self.event(time_ms, "recovery:congestion_state_updated", data);
            }
            Trace::TimerSet { timer, at } => {
                let left = millis(at.saturating_duration_since(now));
                self.on_timer(time_ms, timer, "set", Some(left));
            }
            Trace::TimerCancelled { timer } => self.on_timer(time_ms, timer, "cancelled", None),
            Trace::TimerExpired { timer } => self.on_timer(time_ms, timer, "expired", None),
            Trace::RecoveryBegan { cause } => {
                self.event(time_ms, "rdt:recovery_began", object! { "cause": began_because(cause) });
            }
            Trace::RecoveryEnded { spurious } => {
                self.event(time_ms, "rdt:recovery_ended", object! { "spurious": spurious });
            }
            Trace::ProbeRepaired => self.event(time_ms, "rdt:probe_repaired", object! {}),
            Trace::EcnReduced => self.event(time_ms, "rdt:ecn_reduced", object! {}),
            Trace::Blocked { reason } => {
                self.event(time_ms, "rdt:blocked", object! { "reason": blocked_by(reason) });
            }
            Trace::SynAckReceived { .. } => self.enter(time_ms, "handshake_complete"),
            Trace::FinAckReceived { .. } => self.close(time_ms, "remote", "clean"),
            Trace::AttemptsExhausted { .. } => self.close(time_ms, "local", "idle_timeout"),
            // The remaining events repeat the handled ones in the terms of the classic format.
            _ => {}
        }
    }

    fn on_sent(&mut self, time_ms: f64, trace: &Trace) {
        let Trace::PacketSent { kind, mut number, offset, len, length, resend } = *trace else { return };
        let (packet_type, frame) = match kind {
            PacketKind::Syn => {
                self.enter(time_ms, "attempted");
                number = self.syns;
                self.syns += 1;
                ("initial", None)
            }
            PacketKind::KeepAlive => ("1RTT", Some(object! { "frame_type": "ping" })),
            PacketKind::Fin => {
                self.enter(time_ms, "closing");
                ("1RTT", Some(stream(offset, len, true)))
            }
            _ => ("1RTT", Some(stream(offset, len, false))),
        };
        let data = object! {
            "header": header(packet_type, Some(number)),
            "raw": object! { "length": length, "payload_length": len },
        };
        let data = data.with("frames", frame.map(|frame| vec![frame]));
        let data = data.with("trigger", resend.map(resent_because));
        self.event(time_ms, "transport:packet_sent", data);
    }

    fn on_acked(&mut self, packet_number: u64) {
        match self.acked.last_mut() {
            Some([_, last]) if *last + 1 == packet_number => *last = packet_number,
            _ => self.acked.push([packet_number, packet_number]),
        }
    }

    fn on_ack(&mut self, trace: &Trace) {
        let Trace::AckProcessed { ack, window, bytes, blocks, largest_acked, delay, sample } = *trace else {
            return;
        };
        if largest_acked.is_none() && ack > self.snd_una && self.acked.is_empty() {
            self.acked.push([self.snd_una, ack - 1]);
        }
        self.snd_una = ack;
        self.acked.sort_unstable();
        let ranges = (!self.acked.is_empty()).then(|| self.acked.clone());
        self.acked.clear();
        let frame = object! { "frame_type": "ack" }.with("acked_ranges", ranges);
        let frame = frame.with("ack_delay", delay.map(millis));
        let room = object! {
            "frame_type": "max_data",
            "maximum": ack.saturating_add(window).saturating_mul(self.window_unit),
        };
        let ours = object! { "cumulative": ack, "acked_bytes": bytes, "sack_blocks": blocks };
        let ours = ours.with("rtt_sample", sample.map(millis));
        self.write_received(Some((vec![frame, room].into(), ours)));
    }

    /// Writes the pending received packet, without content.
    pub(super) fn flush_received(&mut self) {
        self.write_received(None);
    }

    fn write_received(&mut self, meaning: Option<(Json, Json)>) {
        let Some(Received { time_ms, kind, length }) = self.pending.take() else { return };
        let (packet_type, frames) = match kind {
            PacketKind::SynAck => ("initial", None),
            PacketKind::Retry => ("retry", None),
            PacketKind::FinAck | PacketKind::Close | PacketKind::Versions => (
                "1RTT",
                Some(vec![object! { "frame_type": "connection_close", "error_space": "application" }].into()),
            ),
            _ => ("1RTT", None),
        };
        let number = self.received;
        self.received += 1;
        let (frames, ours) = meaning.map_or((frames, None), |(frames, ours)| (Some(frames), Some(ours)));
        let data =
            object! { "header": header(packet_type, Some(number)), "raw": object! { "length": length } };
        let data = data.with("frames", frames);
        self.event(time_ms, "transport:packet_received", data.with("rdt", ours));
        if matches!(kind, PacketKind::Close | PacketKind::Versions) {
            self.close(time_ms, "remote", "error");
        }
    }

    /// Writes only metrics that changed.
    fn on_metrics(&mut self, time_ms: f64, metrics: &Metrics) {
        let old = std::mem::replace(&mut self.metrics, *metrics);
        let mut data = object! {};
        let mut put = |name: &'static str, old: Option<Json>, new: Option<Json>| {
            if new.is_some() && old != new {
                data.insert(name, new);
            }
        };
        let time = |time: Duration| (!time.is_zero()).then(|| millis(time).into());
        let bits = |rate: Option<u64>| rate.map(|rate| rate.saturating_mul(8).into());
        put("congestion_window", Some(old.cwnd.into()), Some(metrics.cwnd.into()));
        put("bytes_in_flight", Some(old.in_flight.into()), Some(metrics.in_flight.into()));
        put("ssthresh", old.ssthresh.map(Json::from), metrics.ssthresh.map(Json::from));
        put("smoothed_rtt", time(old.srtt), time(metrics.srtt));
        put("rtt_variance", time(old.rttvar), time(metrics.rttvar));
        put("min_rtt", time(old.min_rtt), time(metrics.min_rtt));
        put("latest_rtt", old.latest_rtt.and_then(time), metrics.latest_rtt.and_then(time));
        put("pacing_rate", bits(old.pacing_rate), bits(metrics.pacing_rate));
        put("delivery_rate", bits(old.delivery_rate), bits(metrics.delivery_rate));
        put("snd_wnd", Some(old.snd_wnd.into()), Some(metrics.snd_wnd.into()));
        if !data.is_empty() {
            self.event(time_ms, "recovery:metrics_updated", data);
        }
    }

    fn on_timer(&mut self, time_ms: f64, timer: Timer, event_type: &str, delta: Option<f64>) {
        let (timer_type, name) = match timer {
            Timer::Retransmission => ("pto", "retransmission"),
            Timer::Probe => ("pto", "probe"),
            Timer::Reordering => ("ack", "reordering"),
            Timer::Control => ("pto", "control"),
        };
        let data = object! { "timer_type": timer_type, "rdt_timer": name, "event_type": event_type };
        let data = data.with("delta", delta);
        self.event(time_ms, "recovery:loss_timer_updated", data);
    }

    fn enter(&mut self, time_ms: f64, state: &'static str) {
        if self.state != Some(state) {
            let old = self.state.replace(state);
            let data = object! { "new": state }.with("old", old);
            self.event(time_ms, "connectivity:connection_state_updated", data);
        }
    }

    fn close(&mut self, time_ms: f64, owner: &str, trigger: &str) {
        self.enter(time_ms, "closed");
        let data = object! { "owner": owner, "trigger": trigger };
        self.event(time_ms, "connectivity:connection_closed", data);
    }
}

/// Converts to milliseconds, exact to the nanosecond for 100 days.
#[expect(clippy::cast_precision_loss, reason = "no trace lasts for 100 days")]
fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

fn header(packet_type: &str, number: Option<u64>) -> Json {
    object! { "packet_type": packet_type }.with("packet_number", number)
}

fn stream(offset: u64, len: u32, fin: bool) -> Json {
    let fin = fin.then_some(true);
    object! { "frame_type": "stream", "stream_id": 0_u32, "offset": offset, "length": len }.with("fin", fin)
}

fn resent_because(resend: Resend) -> &'static str {
    match resend {
        Resend::Timeout => "retransmit_timeout",
        Resend::DupAcks | Resend::Lost => "retransmit_reordered",
        Resend::Probe => "pto_probe",
    }
}

fn lost_because(trigger: LossTrigger) -> &'static str {
    match trigger {
        LossTrigger::TimeThreshold => "time_threshold",
        LossTrigger::SackThreshold | LossTrigger::DupAcks => "reordering_threshold",
        LossTrigger::Timeout => "pto_expired",
    }
}

fn began_because(cause: Cause) -> &'static str {
    match cause {
        Cause::Loss => "loss",
        Cause::Ecn => "ecn",
        Cause::Timeout => "timeout",
    }
}

fn blocked_by(reason: Blocked) -> &'static str {
    match reason {
        Blocked::Cwnd => "congestion_window",
        Blocked::PeerWindow => "receiver_window",
        Blocked::Pacing(_) => "pacing",
        Blocked::NoData => "no_data",
    }
}
