//! Last lines and summary of a measured transfer.

use std::time::Duration;

use rdt_program::json::nanos;
use rdt_program::{Failure, Shown};
use rdt_transport::SenderStats;
use serde_json::{Value, json};

use super::Wire;
use super::connection::LOOK_INTERVAL;
use super::message::least_time;
use super::transfer::MeasuredTransfer;
use crate::lines::Lines;
use crate::output::format::{g, rate_bps};
use crate::output::summary::{
    extend, limit_keys, measured_keys, outcome, protection_keys, quantile_keys, recovery_keys,
};

/// A receiver that sends less than this share of the requested rate is named.
const SLOW_SHARE: f64 = 0.95;

impl MeasuredTransfer<'_> {
    /// Returns the counts of the measured part, as the receiver of the data knows them.
    pub(super) fn counted_by_receiver(&self, lines: &Lines) -> SenderStats {
        let counted = lines.measure.counted(self.stats.clone());
        if self.wire != Wire::Udp {
            return counted;
        }
        let datagrams_sent = self.sent_datagrams.unwrap_or(0);
        let Some(report) = self.report else {
            // What was sent may not have arrived.
            return SenderStats { bytes_acked: 0, lost: 0, datagrams_sent, ..counted };
        };
        // Datagrams may leave the path later than the last one was sent.
        let least = least_time(self.args.max_rate, counted.bytes_acked.max(report.bytes));
        let elapsed = counted.elapsed().max(report.elapsed).max(least);
        SenderStats {
            bytes_acked: report.bytes,
            lost: self.lost().unwrap_or(0),
            datagrams_sent,
            last_ack_at: counted.first_data_at.map(|first| first + elapsed),
            ..counted
        }
    }

    /// Returns the summary: keys of other transfers that have no meaning here are absent.
    pub(super) fn summary_of(
        &self,
        lines: &Lines,
        counted: &SenderStats,
        failure: Option<&Failure>,
    ) -> Value {
        let wire = self.wire;
        let mut value = json!({
            "address": Shown(lines.address).to_string(),
            "wire": wire.name(),
            "direction": if self.args.reverse { "receive" } else { "send" },
        });
        let arrived = (counted.bytes_acked, counted.elapsed());
        extend(&mut value, outcome("summary", &lines.host, arrived, failure));
        extend(&mut value, measured_keys(&lines.measure, counted));
        if wire == Wire::Udp {
            if self.report.is_none() {
                // The side that receives has not counted what arrived.
                value["goodput_bps"] = Value::Null;
            }
            extend(&mut value, self.udp_keys());
            return value;
        }
        value["congestion"] = json!(self.congestion);
        extend(&mut value, recovery_keys(counted));
        if !self.args.reverse {
            value["mss_bytes"] = json!(counted.packet_size);
            extend(&mut value, limit_keys(&self.config, counted, &lines.status));
            extend(&mut value, quantile_keys("srtt", lines.measure.rtt().quantiles()));
        }
        if wire == Wire::Native {
            extend(&mut value, protection_keys(self.protection));
        }
        value
    }

    fn udp_keys(&self) -> Value {
        let report = self.report;
        json!({
            "packet_size_bytes": self.packet_size,
            "sent_packets": self.sent_datagrams,
            "sent_bps": self.sent_bps,
            "packets": report.map(|report| report.datagrams),
            "lost": self.lost(),
            "lost_share": self.lost_share(),
            "reordered": report.map(|report| report.reordered),
            "duplicates": report.map(|report| report.duplicates),
            "jitter_ns": report.map(|report| nanos(report.jitter)),
            "refused_packets": self.refused,
        })
    }

    fn lost(&self) -> Option<u64> {
        Some(self.sent_datagrams?.saturating_sub(self.report?.datagrams))
    }

    /// Returns the share of the datagrams that were lost; `None` without any.
    #[expect(clippy::cast_precision_loss, reason = "a share is printed to four digits")]
    fn lost_share(&self) -> Option<f64> {
        let sent = self.sent_datagrams.filter(|sent| *sent > 0)?;
        Some(self.lost()? as f64 / sent as f64)
    }

    /// Says at which rate the receiver sent, if that is not the rate that was requested.
    fn slow_receiver(&self) -> Option<String> {
        let asked = rate_bps(self.args.max_rate?, Duration::from_secs(1))?;
        let sent = self.sent_bps.filter(|sent| *sent < SLOW_SHARE * asked)?;
        let [sent, asked] = [sent, asked].map(|rate| g(rate / 1e6));
        Some(format!(
            "; the receiver sent {sent} Mbit/s of the {asked} requested: its --max-rate or its host is the limit"
        ))
    }

    /// Returns what follows the rate in the last line but one, and the last line.
    pub(super) fn last_lines(&self, lines: &Lines, counted: &SenderStats) -> (String, String) {
        let report = self.report.unwrap_or_default();
        match self.wire {
            Wire::Tcp | Wire::Native => {
                let srtt = counted.srtt.unwrap_or_default().as_secs_f64();
                let congestion = self.congestion.as_deref().unwrap_or("unknown");
                let is_encrypted = self.protection.is_none_or(|protection| protection.aead.is_encrypted());
                let what = match self.wire {
                    Wire::Tcp => "kernel TCP",
                    _ if is_encrypted => "encrypted",
                    _ => "not encrypted",
                };
                let remark = format!("{what}, {congestion}, {} packets retransmitted", counted.retransmitted);
                let samples = lines.measure.rtt().quantiles().map(|samples| {
                    format!(", the kernel's smoothed RTT every {} ms: {samples}", LOOK_INTERVAL.as_millis())
                });
                (remark, format!("Main:\testRTT {srtt:.3}{}", samples.unwrap_or_default()))
            }
            Wire::Udp => {
                let share = self.lost_share().unwrap_or(0.0) * 100.0;
                let remark = format!(
                    "kernel UDP, {} of {} datagrams lost ({share:.2} %){}",
                    counted.lost,
                    counted.datagrams_sent,
                    self.slow_receiver().unwrap_or_default()
                );
                let line = format!(
                    "Main:\tjitter {:.3} ms, {} reordered, {} duplicated",
                    report.jitter.as_secs_f64() * 1e3,
                    report.reordered,
                    report.duplicates
                );
                (remark, line)
            }
        }
    }
}
