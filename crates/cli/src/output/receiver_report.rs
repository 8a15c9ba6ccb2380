//! Counters of the receiver embedded by HOST `local`, as lines and as JSON.

use rdt_server::ServerStats;
use rdt_udp::{Offload, UdpStats};
use serde_json::Value;

use super::counters::{link_lines, socket_json, stats_json};
use super::sockets::{overflow_line, received_line};

pub(crate) struct ReceiverReport {
    /// Seed of the emulated link; `None` without a link.
    pub(crate) seed: Option<u64>,
    pub(crate) stats: ServerStats,
    pub(crate) socket: UdpStats,
    pub(crate) offload: Offload,
}

impl ReceiverReport {
    /// Returns lines about packets dropped by the link or by this host, with a remedy for each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (forward, reverse) = (&self.stats.forward, &self.stats.reverse);
        let mut lines = if self.seed.is_some() { link_lines(&self.stats) } else { Vec::new() };
        lines.extend(overflow_line("receiver's socket", &self.socket));
        let no_memory = forward.dropped_memory + reverse.dropped_memory;
        if no_memory > 0 {
            lines.push(format!(
                "{no_memory} packets found the link's memory full: a larger --memory holds more"
            ));
        }
        lines.extend(received_line(&self.socket, &self.offload));
        if let Some(seed) = self.seed.filter(|_| forward.dropped_loss + reverse.dropped_loss > 0) {
            lines.push(format!("the same losses again: --seed {seed}"));
        }
        lines
    }

    pub(crate) fn json(&self) -> Value {
        let mut value = stats_json(&self.stats);
        if self.seed.is_none() {
            // Without a link there are no link counters.
            value["forward"] = Value::Null;
            value["reverse"] = Value::Null;
        }
        value["socket"] = socket_json(&self.socket, self.offload);
        value
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use rdt_server::{Server, ServerConfig};
    use rdt_udp::{GivenUp, SendCall};

    use super::*;

    #[test]
    fn local_drops_are_reported_with_remedy() {
        let offload = Offload {
            send_call: SendCall::Single,
            send_segments: 1,
            by_reference: false,
            receive_segments: 1,
            given_up: GivenUp::default(),
        };
        let stats = Server::<SocketAddr>::new(ServerConfig::reference(1)).stats();
        let mut end = ReceiverReport { seed: Some(1), stats, socket: UdpStats::default(), offload };
        let with = |end: &ReceiverReport, word: &str| end.lines().iter().any(|line| line.contains(word));
        assert!(!with(&end, "--memory") && !with(&end, "sysctl"));
        end.stats.reverse.dropped_memory = 1;
        end.socket.receive_overflow = Some(7);
        assert!(with(&end, "--memory"));
        assert!(with(&end, "7 messages (up to 64 datagrams each) found the receiver's socket buffer"));
        assert_eq!(end.json()["socket"]["receive_overflow_messages"], 7);
        assert!(with(&end, "forward link") && end.json()["forward"].is_object());
        end.seed = None;
        assert!(!with(&end, "forward link") && end.json()["forward"].is_null());
    }
}
