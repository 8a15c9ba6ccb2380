//! Log of a receiver: one line for each event of a peer, in the format of the reference receiver or
//! as JSON.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rdt_driver::Remote;
use rdt_program::{Console, talk};
use rdt_server::Server;
use rdt_transport::Wire;
use serde_json::{Value, json};

use super::counters::{ledger_json, wire_name};
use super::format::{megabytes, micros, rate_bps};
use crate::resources;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogStyle {
    Quiet,
    Text,
    /// Text on the standard error, because the standard output carries the received data.
    Talk,
    /// One JSON object per line; with `quiet` only the summary.
    Json {
        quiet: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct EventLog {
    pub(crate) style: LogStyle,
    pub(crate) console: Console,
}

impl EventLog {
    pub(crate) fn quiet() -> Self {
        Self { style: LogStyle::Quiet, console: Console::default() }
    }

    pub(crate) fn line(&self, line: &str) {
        match self.style {
            LogStyle::Text => self.console.line(line),
            LogStyle::Talk => talk(line),
            LogStyle::Quiet | LogStyle::Json { .. } => {}
        }
    }

    pub(crate) fn aside(&self, line: &str) {
        if matches!(self.style, LogStyle::Text | LogStyle::Talk) {
            talk(line);
        }
    }

    pub(crate) fn json(&self, value: &Value) {
        if self.style == (LogStyle::Json { quiet: false }) {
            self.console.line(&value.to_string());
        }
    }

    pub(crate) fn summary(&self, value: &Value) {
        if let LogStyle::Json { .. } = self.style {
            self.console.line(&value.to_string());
        }
    }
}

/// Transfer whose FIN and data arrived.
pub(crate) struct Finished {
    /// Wire format of the transfer; `None` if the peer was already removed.
    pub(crate) wire: Option<Wire>,
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
    pub(crate) elapsed: Duration,
}

pub(crate) struct PeerLog {
    log: EventLog,
    wires: BTreeMap<Remote, Wire>,
}

impl PeerLog {
    pub(crate) fn new(log: EventLog) -> Self {
        Self { log, wires: BTreeMap::new() }
    }

    /// Records the wire format of an accepted SYN. It may differ from that of the peer's last
    /// transfer.
    pub(crate) fn note_wire(&mut self, peer: Remote, wire: Option<Wire>) {
        if let Some(wire) = wire {
            self.wires.insert(peer, wire);
        }
    }

    pub(crate) fn wire(&self, peer: Remote) -> Option<Wire> {
        self.wires.get(&peer).copied()
    }

    pub(crate) fn connected(&self, peer: Remote, active: usize) {
        self.line(peer, self.wire(peer), "connected", active);
        self.json_peer(peer, "connected", true, active);
    }

    pub(crate) fn cleaned_up(&mut self, peer: Remote, unfinished: bool, active: usize) {
        let what = if unfinished { "cleaned up (unfinished)" } else { "cleaned up" };
        self.line(peer, self.wire(peer), what, active);
        self.json_peer(peer, "cleaned_up", unfinished, active);
        self.wires.remove(&peer);
    }

    /// Logs a stored transfer and its file. The peer may have been removed already.
    pub(crate) fn finished(
        &self,
        server: &Server<Remote>,
        peer: Remote,
        end: &Finished,
        path: Option<&Path>,
    ) {
        let path = path.map(|path| path.display().to_string());
        let bps = rate_bps(end.bytes, end.elapsed);
        let kept = path.as_deref().map(|p| format!(", kept in {p}")).unwrap_or_default();
        let what = format!(
            "finished: {} bytes in {:.3} sec, {:.2} Kbps, checksum {:X}{kept}",
            end.bytes,
            end.elapsed.as_secs_f64(),
            bps.unwrap_or(0.0) / 1e3,
            end.crc,
        );
        self.line(peer, end.wire, &what, server.listener().active());
        let ledgers = server.path_ledgers(peer);
        self.log.json(&json!({
            "event": "finished",
            "peer": name(peer),
            "wire": end.wire.map(wire_name),
            "bytes": end.bytes,
            "elapsed_us": micros(end.elapsed),
            "rate_bps": bps,
            "crc32": format!("{:08x}", end.crc),
            "path": path,
            "forward": ledgers.map(|(forward, _)| ledger_json(forward)),
            "reverse": ledgers.map(|(_, reverse)| ledger_json(reverse)),
        }));
    }

    pub(crate) fn lost(&self, peer: Remote, error: &io::Error) {
        talk(&format!("rdt-recv: cannot store the transfer of {}: {error}", name(peer)));
        self.json_failure(peer, error, &Value::Null);
    }

    pub(crate) fn not_synced(&self, peer: Remote, path: Option<&Path>, error: &io::Error) {
        let path = path.map(|path| path.display().to_string());
        talk(&format!(
            "rdt-recv: the transfer of {} is kept in {}, but its name may not outlive a loss of power, and its sender is not told that it is stored: cannot write the folder to the disk: {error}",
            name(peer),
            path.as_deref().unwrap_or_default(),
        ));
        self.json_failure(peer, error, &json!(path));
    }

    fn json_failure(&self, peer: Remote, error: &io::Error, path: &Value) {
        self.log.json(&json!({
            "event": "store_failed", "peer": name(peer), "error": error.to_string(), "path": path,
        }));
    }

    /// Prints a line in the format of the reference receiver's log.
    fn line(&self, peer: Remote, wire: Option<Wire>, what: &str, active: usize) {
        let ram = resources::memory().now.unwrap_or(0);
        let time = jiff::Zoned::now().strftime("%m/%d/%y %H:%M:%S");
        // Lines about classic peers must be exactly as in the reference.
        let wire = match wire {
            Some(Wire::Native { .. }) => " (native)",
            _ => "",
        };
        self.log.line(&format!(
            "[{time}] {}{wire} {what}; RAM {:.2} MB active {active}",
            name(peer),
            megabytes(ram)
        ));
    }

    fn json_peer(&self, peer: Remote, event: &str, unfinished: bool, active: usize) {
        self.log.json(&json!({
            "event": event,
            "peer": name(peer),
            "wire": self.wire(peer).map(wire_name),
            "unfinished": unfinished,
            "memory_bytes": resources::memory().now,
            "active": active,
        }));
    }
}

/// Formats the address of a peer; an IPv4-mapped address as plain IPv4.
pub(crate) fn name(peer: Remote) -> String {
    SocketAddr::new(peer.addr.ip().to_canonical(), peer.addr.port()).to_string()
}
