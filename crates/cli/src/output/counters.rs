//! Counters of a server, its links and its sockets, as lines and as JSON.

use std::time::Duration;

use rdt_emulator::Ledger;
use rdt_program::json::nanos;
use rdt_server::ServerStats;
use rdt_transport::{SenderConfig, SenderStats, Wire};
use rdt_udp::{Offload, UdpStats};
use serde_json::{Map, Value, json};

/// Limit on the 99th percentile of lateness; above it, the host counts as slower than the link.
const MAX_LATENESS_P99: Duration = Duration::from_millis(1);

/// Idle time of a link is reported if it is at least this share of the transfer and [`MIN_IDLE`].
const MIN_IDLE_SHARE: f64 = 0.05;
const MIN_IDLE: Duration = Duration::from_millis(50);

pub(crate) fn link_lines(stats: &ServerStats) -> Vec<String> {
    let mut lines = vec![ledger_line("forward", &stats.forward), ledger_line("reverse", &stats.reverse)];
    let late = &stats.lateness;
    if late.count() > 0 {
        let us = |q: f64| late.quantile(q).as_secs_f64() * 1e6;
        lines.push(format!(
            "lateness of the link: p50 {:.0} us, p99 {:.0} us, max {:.0} us over {} packets",
            us(0.5),
            us(0.99),
            late.max().as_secs_f64() * 1e6,
            late.count(),
        ));
    }
    if fell_behind(stats) {
        lines.push(
            "this host did not keep up with the link: packets left it over 1 ms late; measured times are too long"
                .into(),
        );
    }
    lines
}

/// Returns the share of a transfer in which the link was idle because of this host. The time in
/// which the window grows does not count. `None` if the share is small, if the window was too small
/// to fill the link, or if packets were retransmitted.
pub(crate) fn idle_share(config: &SenderConfig, stats: &SenderStats, forward: &Ledger) -> Option<f64> {
    if config.wire != Wire::Classic {
        // Congestion control leaves the link idle at times.
        return None;
    }
    let link = &config.link;
    let (rate, rtt) = (f64::from(link.speed_bps), f64::from(link.rtt_s));
    #[expect(clippy::cast_precision_loss, reason = "a datagram has at most 65,507 bytes")]
    let packet_bits = config.packet_size as f64 * 8.0;
    // Bandwidth-delay product in packets, plus a packet in transmission at each end.
    let product = rate * rtt / packet_bits + 2.0;
    if f64::from(config.window) < product || stats.timeouts + stats.fast_retransmits > 0 {
        return None;
    }
    // The receiver's window doubles in each round trip. The first packet and the last ACK take one
    // round trip more each.
    let opening = rtt * (product.log2().ceil() + 2.0);
    let elapsed = stats.elapsed().as_secs_f64();
    let idle = elapsed - forward.busy.as_secs_f64() - opening;
    let share = idle / elapsed;
    (share > MIN_IDLE_SHARE && idle > MIN_IDLE.as_secs_f64()).then_some(share)
}

pub(crate) fn idle_line(share: f64) -> String {
    format!(
        "the link stood idle for {:.0} % of the transfer though the window would have filled it: this host, or where the data came from, was the limit and not the link",
        share * 100.0
    )
}

pub(crate) fn fell_behind(stats: &ServerStats) -> bool {
    stats.lateness.quantile(0.99) > MAX_LATENESS_P99 || stats.outgoing_dropped > 0
}

fn ledger_line(direction: &str, ledger: &Ledger) -> String {
    format!(
        "{direction} link: {} sent = {} delivered + {} lost + {} dropped (queue full) + {} dropped (memory) + {} discarded + {} in flight",
        ledger.sent,
        ledger.delivered,
        ledger.dropped_loss,
        ledger.dropped_queue,
        ledger.dropped_memory,
        ledger.discarded,
        ledger.in_flight,
    )
}

pub(crate) fn stats_json(stats: &ServerStats) -> Value {
    let (classic, receivers) = (&stats.classic, &stats.receivers);
    let connections = &stats.connections;
    let late = &stats.lateness;
    let causes: Map<_, _> =
        dropped(stats).into_iter().map(|(cause, count)| (cause.to_owned(), count.into())).collect();
    json!({
        "senders": stats.senders(),
        "max_active": stats.max_active,
        "memory_held_max_bytes": stats.max_memory(),
        "datagrams_received": classic.received + connections.received,
        "dropped": causes,
        "retry_periods": connections.retry_periods,
        "opened_in_association": connections.opened,
        "refused_in_association": connections.opens_refused,
        "data_packets": receivers.data,
        "ce_marks": receivers.ce,
        "duplicates": receivers.duplicates,
        "out_of_order": receivers.out_of_order,
        "socket_limited_round_trips": receivers.socket_limited,
        "forward": ledger_json(&stats.forward),
        "reverse": ledger_json(&stats.reverse),
        "lateness_p50_ns": nanos(late.quantile(0.5)),
        "lateness_p99_ns": nanos(late.quantile(0.99)),
        "lateness_max_ns": nanos(late.max()),
        "fell_behind": fell_behind(stats),
    })
}

/// Returns the datagrams not used, by cause. `no_connection_told` is part of `no_connection`.
pub(crate) fn dropped(stats: &ServerStats) -> [(&'static str, u64); 15] {
    let (classic, receivers) = (&stats.classic, &stats.receivers);
    let connections = &stats.connections;
    [
        ("malformed", classic.malformed + connections.malformed),
        ("too_long", classic.too_long),
        ("no_connection", classic.no_connection + connections.unknown),
        ("no_connection_told", connections.resets_sent),
        ("refused", classic.refused + connections.refused + connections.source_limited),
        ("unencrypted", stats.classic_dropped + connections.unencrypted),
        ("unproven", connections.retries),
        ("not_answered", connections.answers_dropped),
        ("half_open", classic.half_open_dropped + connections.half_open_dropped),
        ("replayed", connections.replayed),
        ("unauthentic", connections.unauthentic),
        ("out_of_range", receivers.out_of_range),
        ("no_memory", receivers.no_memory),
        ("unexpected", receivers.unexpected),
        ("outgoing", stats.outgoing_dropped),
    ]
}

pub(crate) fn socket_json(stats: &UdpStats, offload: Offload) -> Value {
    json!({
        "sent": stats.sent,
        "sent_by_reference": stats.sent_by_reference,
        "send_calls": stats.send_calls,
        "received": stats.received,
        "received_messages": stats.received_messages,
        "receive_calls": stats.receive_calls,
        "blocked": stats.blocked,
        "lost_no_buffers": stats.lost_no_buffers,
        "lost_too_big": stats.lost_too_big,
        "lost_other": stats.lost_other,
        "unreachable": stats.unreachable,
        "receive_overflow_messages": stats.receive_overflow,
        "receive_buffer_bytes": stats.receive_buffer,
        "send_buffer_bytes": stats.send_buffer,
        "send_call": offload.send_call.name(),
        "send_segments": offload.send_segments,
        "by_reference": offload.by_reference,
        "receive_segments": offload.receive_segments,
    })
}

pub(crate) fn ledger_json(ledger: &Ledger) -> Value {
    json!({
        "sent": ledger.sent,
        "delivered": ledger.delivered,
        "dropped_loss": ledger.dropped_loss,
        "dropped_queue": ledger.dropped_queue,
        "dropped_memory": ledger.dropped_memory,
        "discarded": ledger.discarded,
        "in_flight": ledger.in_flight,
        "delivered_bytes": ledger.delivered_bytes,
        "busy_ns": nanos(ledger.busy),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rdt_transport::LinkProperties;

    use super::*;

    fn config(window: u32, rtt_s: f32) -> SenderConfig {
        let link =
            LinkProperties { rtt_s, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: window };
        SenderConfig::new(window, link)
    }

    /// Returns the idle share of a transfer of 2 s in which the link was busy for `busy` seconds.
    fn share(config: &SenderConfig, busy: f64, timeouts: u64) -> Option<f64> {
        let start: Instant = rdt_udp::clock::now();
        let stats = SenderStats {
            first_data_at: Some(start),
            last_ack_at: Some(start + Duration::from_secs(2)),
            timeouts,
            ..SenderStats::default()
        };
        let forward = Ledger { busy: Duration::from_secs_f64(busy), ..Ledger::default() };
        idle_share(config, &stats, &forward)
    }

    #[test]
    fn idle_link_with_sufficient_window_blames_host() {
        let wide = config(3000, 0.02);
        assert_eq!(share(&wide, 1.5, 0).map(|share| (share * 100.0).round()), Some(12.0));
        assert_eq!(share(&wide, 1.95, 0), None, "no more than an accident");
        assert_eq!(share(&wide, 1.7, 0), None, "the window took 13 round trips to open");
        assert_eq!(share(&wide, 1.5, 1), None, "something was sent again, which takes time");
        assert_eq!(share(&config(1500, 0.02), 1.5, 0), None, "the window does not fill the link");
        assert!(share(&config(64, 0.0), 1.5, 0).is_some());
        assert_eq!(share(&config(1, 0.0), 0.1, 0), None, "one packet at a time leaves the link idle");
    }
}
