//! What is said of each peer: lines in the format of the reference receiver's log, and the same as JSON. Owns what has to
//! be remembered for that.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use rdt_driver::Remote;
use rdt_server::Server;
use rdt_transport::Wire;
use serde_json::{Value, json};

use super::End;
use crate::console::talk;
use crate::figures::{self, ledger_json};
use crate::format::{megabytes, rate_bps};
use crate::logbook::Logbook;
use crate::memory;
use crate::status::micros;

pub(super) struct Journal {
    logbook: Logbook,
    /// The format that each peer uses.
    wires: BTreeMap<Remote, Wire>,
}

impl Journal {
    pub(super) fn new(logbook: Logbook) -> Self {
        Self { logbook, wires: BTreeMap::new() }
    }

    /// A SYN of `peer` was taken, which may be of another format than the one before.
    pub(super) fn note_wire(&mut self, peer: Remote, wire: Option<Wire>) {
        if let Some(wire) = wire {
            self.wires.insert(peer, wire);
        }
    }

    pub(super) fn wire(&self, peer: Remote) -> Option<Wire> {
        self.wires.get(&peer).copied()
    }

    pub(super) fn connected(&self, peer: Remote, active: usize) {
        self.line(peer, self.wire(peer), "connected", active);
        self.json_peer(peer, "connected", true, active);
    }

    pub(super) fn cleaned_up(&mut self, peer: Remote, unfinished: bool, active: usize) {
        let what = if unfinished { "cleaned up (unfinished)" } else { "cleaned up" };
        self.line(peer, self.wire(peer), what, active);
        self.json_peer(peer, "cleaned_up", unfinished, active);
        self.wires.remove(&peer);
    }

    /// A transfer is stored, in this file if in one; its peer may be gone.
    pub(super) fn finished(&self, server: &Server<Remote>, peer: Remote, end: &End, path: Option<&Path>) {
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
        self.logbook.json(&json!({
            "event": "finished",
            "peer": name(peer),
            "wire": end.wire.map(figures::wire_name),
            "bytes": end.bytes,
            "elapsed_us": micros(end.elapsed),
            "rate_bps": bps,
            "crc32": format!("{:08x}", end.crc),
            "path": path,
            "forward": ledgers.map(|(forward, _)| ledger_json(forward)),
            "reverse": ledgers.map(|(_, reverse)| ledger_json(reverse)),
        }));
    }

    /// A transfer is not stored.
    pub(super) fn lost(&self, peer: Remote, error: &io::Error) {
        talk(&format!("rdt-recv: cannot store the transfer of {}: {error}", name(peer)));
        self.json_failure(peer, error, &Value::Null);
    }

    /// A transfer is stored, but not as it was to be.
    pub(super) fn not_synced(&self, peer: Remote, path: Option<&Path>, error: &io::Error) {
        let path = path.map(|path| path.display().to_string());
        talk(&format!(
            "rdt-recv: the transfer of {} is kept in {}, but its name may not outlive a loss of power, and its sender is not told that it is stored: cannot write the folder to the disk: {error}",
            name(peer),
            path.as_deref().unwrap_or_default(),
        ));
        self.json_failure(peer, error, &json!(path));
    }

    fn json_failure(&self, peer: Remote, error: &io::Error, path: &Value) {
        self.logbook.json(&json!({
            "event": "store_failed", "peer": name(peer), "error": error.to_string(), "path": path,
        }));
    }

    /// A line in the format of the reference receiver's log.
    fn line(&self, peer: Remote, wire: Option<Wire>, what: &str, active: usize) {
        let ram = memory::read().now.unwrap_or(0);
        let time = jiff::Zoned::now().strftime("%m/%d/%y %H:%M:%S");
        // Those of the classic format are as the reference receiver prints them.
        let wire = match wire {
            Some(Wire::Native { .. }) => " (native)",
            _ => "",
        };
        self.logbook.line(&format!(
            "[{time}] {}{wire} {what}; RAM {:.2} MB active {active}",
            name(peer),
            megabytes(ram)
        ));
    }

    fn json_peer(&self, peer: Remote, event: &str, unfinished: bool, active: usize) {
        self.logbook.json(&json!({
            "event": event,
            "peer": name(peer),
            "wire": self.wire(peer).map(figures::wire_name),
            "unfinished": unfinished,
            "memory_bytes": memory::read().now,
            "active": active,
        }));
    }
}

/// A peer as people know it: IPv4 without its IPv6 clothes.
pub(super) fn name(peer: Remote) -> String {
    SocketAddr::new(peer.addr.ip().to_canonical(), peer.addr.port()).to_string()
}
