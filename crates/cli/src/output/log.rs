//! Log of a receiver: one line for each event of a peer, as text or JSON. With `--faithful`, lines
//! of text have the date of the reference receiver and no level.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdt_program::json::{EventStamp, nanos};
use rdt_program::{Console, Failure, Printer, talk, talk_in_background, time};
use rdt_server::Server;
use rdt_udp::{Remote, Shown, clock};
use serde_json::{Value, json};

use super::counters::ledger_json;
use super::format::{megabytes, rate_bps, seconds_and_kbps};
use crate::peer::{Format, Peer};
use crate::resources;

/// Mean time between two lines about unknown peers.
const UNKNOWN_LINE_INTERVAL: Duration = Duration::from_millis(100);
/// Lines about unknown peers that may follow each other at once after a pause.
const UNKNOWN_LINE_BURST: u32 = 20;
/// Interval of the reports of lines left out, and of the readings of the resident memory.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogForm {
    Text,
    /// Text on the standard error, because the standard output carries the received data.
    Talk,
    Json,
}

#[derive(Debug, Clone)]
pub(crate) struct EventLog {
    form: LogForm,
    /// True with `--faithful`.
    is_faithful: bool,
    /// True if no line or event is printed, except results, failures to store and the JSON summary.
    is_quiet: bool,
    pub(crate) console: Console,
    /// Printer of the standard error, because network threads print.
    pub(crate) remarks: Printer,
    shared: Arc<Mutex<Shared>>,
    stamp: EventStamp,
}

#[derive(Debug, Default)]
struct Shared {
    unknown: LineBudget,
    memory: ResidentMemory,
    /// Time of the next report by `EventLog::poll`.
    #[cfg(target_os = "linux")]
    report_at: Option<Instant>,
}

impl EventLog {
    fn new(form: LogForm, is_quiet: bool, console: Console, remarks: Printer) -> Self {
        let stamp = EventStamp::new(clock::now());
        Self { form, is_quiet, is_faithful: false, console, remarks, shared: Arc::default(), stamp }
    }

    /// Returns the log with the dates of the reference receiver if `is_faithful`.
    pub(crate) fn faithful(self, is_faithful: bool) -> Self {
        Self { is_faithful, ..self }
    }

    /// Creates a log that prints on threads of its own.
    pub(crate) fn in_background(form: LogForm, is_quiet: bool) -> Result<Self, Failure> {
        let console = Console::in_background().map_err(Failure::stdout)?;
        let remarks = talk_in_background().map_err(|error| Failure::output("the standard error", &error))?;
        Ok(Self::new(form, is_quiet, console, remarks))
    }

    pub(crate) fn quiet() -> Self {
        Self::new(LogForm::Text, true, Console::default(), Printer::discard())
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints the number of lines about unknown peers that were left out since the last report.
    pub(crate) fn report_left_out(&self) {
        let lines = mem::take(&mut self.shared().unknown.left_out);
        let text = format!("{lines} lines of unknown peers left out");
        match self.form {
            _ if lines == 0 => {}
            _ if self.is_quiet => self.talk(&format!("rdt-recv: {text}")),
            LogForm::Text | LogForm::Talk => self.dated("WARN", &text),
            LogForm::Json => self.json(json!({ "event": "left_out", "lines": lines })),
        }
    }

    /// Reports lines left out, once in [`REPORT_INTERVAL`] at most.
    #[cfg(target_os = "linux")]
    pub(crate) fn poll(&self, now: Instant) {
        let is_due = {
            let mut shared = self.shared();
            let is_due = shared.report_at.is_none_or(|at| at <= now);
            if is_due {
                shared.report_at = Some(now + REPORT_INTERVAL);
            }
            is_due
        };
        if is_due {
            self.report_left_out();
        }
    }

    /// True if a line about an unknown peer may be printed now. Otherwise counts it as left out.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_line(&self, now: Instant) -> bool {
        !self.is_quiet && self.shared().unknown.take(now)
    }

    pub(crate) fn memory(&self, now: Instant) -> Option<u64> {
        self.shared().memory.at(now)
    }

    fn dated(&self, level: &str, text: &str) {
        self.line(&if self.is_faithful {
            format!("[{}] {text}", time::local_as_reference())
        } else {
            format!("{} {level:>5} {text}", time::local())
        });
    }

    /// Prints a line about a peer.
    pub(crate) fn peer_line(&self, now: Instant, peer: &str, (level, what): (&str, &str), active: usize) {
        if self.is_quiet || self.form == LogForm::Json {
            return;
        }
        let ram = megabytes(self.memory(now).unwrap_or(0));
        self.dated(level, &format!("{peer} {what}; RAM {ram:.2} MB active {active}"));
    }

    pub(crate) fn line(&self, line: &str) {
        match self.form {
            _ if self.is_quiet => {}
            LogForm::Text => self.console.line(line),
            LogForm::Talk => self.talk(line),
            LogForm::Json => {}
        }
    }

    /// Prints a result (the ticket), also with `--quiet`. It goes to the standard error if the
    /// standard output carries data or JSON. With `--json` alone an event has it.
    pub(crate) fn result(&self, line: &str) {
        match self.form {
            LogForm::Text => self.console.line(line),
            LogForm::Json if !self.is_quiet => {}
            LogForm::Talk | LogForm::Json => self.talk(line),
        }
    }

    pub(crate) fn aside(&self, line: &str) {
        if self.form != LogForm::Json && !self.is_quiet {
            self.talk(line);
        }
    }

    /// Prints a line to the standard error without waiting for its reader.
    pub(crate) fn talk(&self, line: &str) {
        self.remarks.print(line);
    }

    pub(crate) fn flush(&self) {
        self.console.flush();
        self.remarks.flush();
    }

    /// Returns the number of lines that were dropped because a reader was too slow.
    pub(crate) fn dropped(&self) -> u64 {
        self.console.dropped() + self.remarks.dropped()
    }

    /// Waits until everything is printed, and reports dropped lines. Returns the first error of the
    /// standard output, as [`Console::finish`] does.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.remarks.flush();
        if let dropped @ 1.. = self.remarks.dropped() {
            talk(&format!("{dropped} log lines were dropped because standard error was read too slowly"));
        }
        self.console.finish(self.form == LogForm::Json)
    }

    pub(crate) fn json(&self, event: Value) {
        if self.form == LogForm::Json && !self.is_quiet {
            self.console.line(&self.stamp.now(event).to_string());
        }
    }

    pub(crate) fn summary(&self, event: Value) {
        if self.form == LogForm::Json {
            self.console.line(&self.stamp.now(event).to_string());
        }
    }
}

/// Transfer whose FIN and data arrived.
pub(crate) struct Finished {
    /// `None` if the peer was already removed.
    pub(crate) format: Option<Format>,
    pub(crate) bytes: u64,
    /// `None` if the format has no checksum.
    pub(crate) crc: Option<u32>,
    pub(crate) elapsed: Duration,
}

/// Log of the peers of one thread. The number of lines about peers that have not finished a
/// transfer is limited, because a flood of such peers must not fill the log.
pub(crate) struct PeerLog {
    log: EventLog,
    peers: BTreeMap<Peer, Known>,
    now: Instant,
    /// Time of the next report of lines that this thread left out; `None` without any.
    report_at: Option<Instant>,
    /// An unencrypted sender that is refused is to be remarked on, once.
    pub(crate) is_remark_due: bool,
}

struct Known {
    format: Format,
    /// True once a transfer has finished; until then the peer is unknown.
    has_finished: bool,
}

impl PeerLog {
    pub(crate) fn new(log: EventLog) -> Self {
        Self { log, peers: BTreeMap::new(), now: clock::now(), report_at: None, is_remark_due: false }
    }

    /// Sets the time of the events that follow, and reports lines left out if that is due.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        self.now = now;
        if self.report_at.is_some_and(|at| at <= now) {
            self.report_at = None;
            self.log.report_left_out();
        }
    }

    /// Returns the time by which [`PeerLog::begin_turn`] must be called; `None` for no such time.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.report_at
    }

    /// Records the format of an accepted SYN: the peer's last transfer may have had another.
    pub(crate) fn note_format(&mut self, peer: Peer, format: Option<Format>) {
        if let Some(format) = format {
            self.peers.entry(peer).or_insert(Known { format, has_finished: false }).format = format;
        }
    }

    pub(crate) fn format(&self, peer: Peer) -> Option<Format> {
        self.peers.get(&peer).map(|peer| peer.format)
    }

    pub(crate) fn connected(&mut self, peer: Peer, active: usize) {
        self.change(peer, ("connected", ("INFO", "connected")), true, active);
    }

    pub(crate) fn cleaned_up(&mut self, peer: Peer, unfinished: bool, active: usize) {
        let what = if unfinished { ("WARN", "cleaned up (unfinished)") } else { ("INFO", "cleaned up") };
        self.change(peer, ("cleaned_up", what), unfinished, active);
        self.peers.remove(&peer);
    }

    fn change(&mut self, peer: Peer, (event, what): (&str, (&str, &str)), unfinished: bool, active: usize) {
        if self.log.is_quiet || !self.has_line(peer) {
            return;
        }
        let format = self.format(peer);
        self.line(peer, format, what, active);
        let mut event = peer_event(event, peer, format);
        event["unfinished"] = json!(unfinished);
        event["memory_bytes"] = json!(self.log.memory(self.now));
        event["active"] = json!(active);
        self.log.json(event);
    }

    /// Says once that unencrypted senders are refused. Their addresses may be forged.
    pub(crate) fn unencrypted_refused(&mut self) {
        self.is_remark_due = false;
        self.log.aside("rdt-recv: refused an unencrypted sender: rdt-send without --insecure encrypts");
    }

    /// True if a line about `peer` may be printed now. Otherwise counts it as left out.
    fn has_line(&mut self, peer: Peer) -> bool {
        let is_known = self.peers.get(&peer).is_some_and(|peer| peer.has_finished);
        let has_line = is_known || self.log.shared().unknown.take(self.now);
        if !has_line {
            self.report_at.get_or_insert(self.now + REPORT_INTERVAL);
        }
        has_line
    }

    /// Logs a stored transfer and its file. The peer may have been removed already.
    pub(crate) fn finished(
        &mut self,
        server: &Server<Remote>,
        peer: Peer,
        end: &Finished,
        path: Option<&Path>,
    ) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.has_finished = true;
        }
        if self.log.is_quiet {
            return;
        }
        let path = path.map(|path| path.display().to_string());
        let kept = path.as_deref().map(|p| format!(", kept in {p}")).unwrap_or_default();
        let checked = match (end.crc, end.format.and_then(Format::cipher)) {
            (Some(crc), _) => format!("checksum {crc:X}"),
            (None, Some("none")) => "not authenticated".into(),
            (None, _) => "authenticated".into(),
        };
        let (bytes, (seconds, kbps)) = (end.bytes, seconds_and_kbps(end.bytes, end.elapsed));
        let what = format!("finished: {bytes} bytes in {seconds:.3} sec, {kbps:.2} Kbps, {checked}{kept}");
        self.line(peer, end.format, ("INFO", &what), server.active());
        let ledgers = server.path_ledgers(peer);
        let mut event = peer_event("finished", peer, end.format);
        event["bytes"] = json!(end.bytes);
        event["elapsed_ns"] = json!(nanos(end.elapsed));
        event["rate_bps"] = json!(rate_bps(end.bytes, end.elapsed));
        event["crc32"] = json!(end.crc.map(|crc| format!("{crc:08x}")));
        event["path"] = json!(path);
        event["forward"] = json!(ledgers.map(|(forward, _)| ledger_json(forward)));
        event["reverse"] = json!(ledgers.map(|(_, reverse)| ledger_json(reverse)));
        self.log.json(event);
    }

    pub(crate) fn lost(&mut self, peer: Peer, error: &io::Error) {
        if !self.has_line(peer) {
            return;
        }
        self.log
            .talk(&format!("rdt-recv: cannot store the transfer of {}: {error}", name(peer.address.addr)));
        self.json_failure(peer, error, &Value::Null);
    }

    pub(crate) fn not_synced(&self, peer: Peer, path: Option<&Path>, error: &io::Error) {
        let path = path.map(|path| path.display().to_string());
        self.log.talk(&format!(
            "rdt-recv: the transfer of {} is kept in {}, but its name may not outlive a loss of power, and its sender is not told that it is stored: cannot write the folder to the disk: {error}",
            name(peer.address.addr),
            path.as_deref().unwrap_or_default(),
        ));
        self.json_failure(peer, error, &json!(path));
    }

    fn json_failure(&self, peer: Peer, error: &io::Error, path: &Value) {
        self.log.json(json!({
            "event": "store_failed", "peer": name(peer.address.addr), "error": error.to_string(), "path": path,
        }));
    }

    fn line(&self, peer: Peer, format: Option<Format>, what: (&str, &str), active: usize) {
        let remark = format.map(Format::remark).unwrap_or_default();
        self.log.peer_line(self.now, &format!("{}{remark}", name(peer.address.addr)), what, active);
    }
}

/// Returns an event of a peer and its transfer.
fn peer_event(event: &str, peer: Peer, format: Option<Format>) -> Value {
    json!({
        "event": event,
        "peer": name(peer.address.addr),
        "wire": format.map(Format::name),
        "cipher": format.and_then(Format::cipher),
        "key": format.and_then(Format::key).map(|key| key.to_string()),
        "secret": format.is_some_and(Format::has_secret),
    })
}

impl Drop for PeerLog {
    fn drop(&mut self) {
        if self.report_at.is_some() {
            self.log.report_left_out();
        }
    }
}

/// Limit on the lines about unknown peers: one for each [`UNKNOWN_LINE_INTERVAL`], and
/// [`UNKNOWN_LINE_BURST`] of them at once.
#[derive(Debug, Default)]
struct LineBudget {
    /// End of the intervals that the lines so far take up; `None` without lines.
    used_until: Option<Instant>,
    /// Lines left out since the last report.
    left_out: u64,
}

impl LineBudget {
    /// True if the budget has room for a line. Otherwise counts the line as left out.
    fn take(&mut self, now: Instant) -> bool {
        let used_until = self.used_until.map_or(now, |at| at.max(now)) + UNKNOWN_LINE_INTERVAL;
        let has_room = used_until <= now + UNKNOWN_LINE_INTERVAL * UNKNOWN_LINE_BURST;
        if has_room {
            self.used_until = Some(used_until);
        } else {
            self.left_out += 1;
        }
        has_room
    }
}

/// Resident memory, read once in [`REPORT_INTERVAL`] at most: that takes longer than a line.
#[derive(Debug, Default)]
struct ResidentMemory {
    read_at: Option<Instant>,
    bytes: Option<u64>,
}

impl ResidentMemory {
    fn at(&mut self, now: Instant) -> Option<u64> {
        let age = self.read_at.map(|at| now.saturating_duration_since(at));
        if age.is_none_or(|age| age >= REPORT_INTERVAL) {
            self.read_at = Some(now);
            self.bytes = resources::memory().now;
        }
        self.bytes
    }
}

/// Formats the address of a peer.
pub(crate) fn name(address: SocketAddr) -> String {
    Shown(address).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_peers_get_ten_lines_a_second() {
        let mut budget = LineBudget::default();
        let start = clock::now();
        // 1000 lines a second for ten seconds.
        let lines = (0..10_000_u32).filter(|n| budget.take(start + *n * Duration::from_millis(1)));
        assert_eq!(lines.count(), 20 + 99, "a burst of 20, and ten a second");
        assert_eq!(budget.left_out, 10_000 - 119);
        let later = start + Duration::from_secs(60);
        assert_eq!((0..100).filter(|_| budget.take(later)).count(), 20, "a pause refills the burst only");
    }

    #[test]
    fn resident_memory_is_read_once_a_second() {
        let mut memory = ResidentMemory::default();
        let start = clock::now();
        memory.at(start);
        memory.bytes = Some(7);
        assert_eq!(memory.at(start + Duration::from_millis(999)), Some(7), "the last reading");
        assert_ne!(memory.at(start + Duration::from_secs(1)), Some(7));
    }

    #[test]
    fn lines_of_known_peers_are_not_limited() {
        let peer = |port| Peer::from(Remote::from(SocketAddr::from(([127, 0, 0, 1], port))));
        let mut log = PeerLog::new(EventLog::quiet());
        let lines = |log: &mut PeerLog| (0..100).filter(|port| log.has_line(peer(*port))).count();
        assert_eq!((lines(&mut log), log.log.shared().unknown.left_out), (20, 80));
        for port in 0..100 {
            log.peers.insert(peer(port), Known { format: Format::Classic, has_finished: true });
        }
        assert_eq!(lines(&mut log), 100);
        assert_eq!(log.deadline(), Some(log.now + REPORT_INTERVAL));
    }
}
