//! Output of a program that people watch and programs read: remarks on the standard error, results
//! and events of `--json` on the standard output.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdt_udp::clock;
use serde_json::Value;

use crate::json::EventStamp;
use crate::{Console, Printer, talk, talk_in_background};

/// Lines in a second that peers may cause.
const MAX_PEER_LINES: u32 = 10;

/// Output of a program. Clones share it.
#[derive(Debug, Clone)]
pub struct Output {
    program: &'static str,
    console: Console,
    remarks: Remarks,
    is_quiet: bool,
    is_json: bool,
    stamp: EventStamp,
    limit: Arc<Mutex<LineLimit>>,
}

/// How remarks reach the standard error.
#[derive(Clone)]
pub enum Remarks {
    /// On a thread of its own: lines that a slow reader does not take are dropped.
    Background(Printer),
    /// By this function, which may wait.
    Now(Arc<dyn Fn(&str) + Send + Sync>),
}

impl Remarks {
    /// Starts the thread. Without one, remarks are dropped.
    pub fn in_background() -> Self {
        Self::Background(talk_in_background().unwrap_or_else(|_| Printer::discard()))
    }
}

impl fmt::Debug for Remarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remarks")
    }
}

impl Output {
    /// Creates the output of a program, whose name begins each remark.
    pub fn new(
        program: &'static str,
        (is_quiet, is_json): (bool, bool),
        console: Console,
        remarks: Remarks,
    ) -> Self {
        let stamp = EventStamp::new(clock::now());
        Self { program, console, remarks, is_quiet, is_json, stamp, limit: Arc::default() }
    }

    /// Prints a line for the user, unless `--quiet` was given.
    pub fn remark(&self, line: &str) {
        if !self.is_quiet {
            self.warn(line);
        }
    }

    /// Prints a line that a peer has caused, if there were fewer than ten in this second. The
    /// others are counted, and the next line is printed after their number.
    pub fn remark_on_peer(&self, line: &str) {
        let Some(left_out) = self.limit().take(clock::unix_time_s()) else { return };
        self.remark_left_out(left_out);
        self.remark(line);
    }

    /// Prints a line for the user, also with `--quiet`.
    pub fn warn(&self, line: &str) {
        let line = format!("{}: {line}", self.program);
        match &self.remarks {
            Remarks::Background(printer) => printer.print(&line),
            Remarks::Now(say) => say(&line),
        }
    }

    /// Prints the reason of the program's end, after all remarks.
    pub fn fail(&self, line: &str) {
        self.flush();
        talk(&format!("{}: {line}", self.program));
    }

    /// Prints a line on the standard output.
    pub fn line(&self, line: &str) {
        self.console.line(line);
    }

    /// Prints a result: with `--json` the event, else the line.
    pub fn result(&self, line: &str, event: impl FnOnce() -> Value) {
        if self.is_json {
            self.event(event);
        } else if !line.is_empty() {
            self.line(line);
        }
    }

    /// Prints a JSON object if `--json` was given.
    pub fn event(&self, event: impl FnOnce() -> Value) {
        if self.is_json {
            self.line(&self.stamp.now(event()).to_string());
        }
    }

    /// True with `--json`.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Waits for the readers, and says how many lines were left out or dropped. Returns the first
    /// error of the standard output, as [`Console::finish`] does.
    pub fn finish(&self) -> io::Result<()> {
        let left_out = std::mem::take(&mut self.limit().left_out);
        self.remark_left_out(left_out);
        self.flush();
        if let Remarks::Background(printer) = &self.remarks
            && let dropped @ 1.. = printer.dropped()
        {
            let why = "log lines were dropped because standard error was read too slowly";
            self.fail(&format!("{dropped} {why}"));
        }
        self.console.finish(self.is_json)
    }

    fn remark_left_out(&self, lines: u64) {
        if lines > 0 {
            self.remark(&format!(
                "{lines} log lines about peers were left out: at most {MAX_PEER_LINES} a second are printed"
            ));
        }
    }

    fn flush(&self) {
        if let Remarks::Background(printer) = &self.remarks {
            printer.flush();
        }
    }

    fn limit(&self) -> MutexGuard<'_, LineLimit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Limit of the lines that peers cause, so that no peer fills the log.
#[derive(Debug, Default)]
struct LineLimit {
    /// Second since 1970 of the newest line.
    second: u64,
    /// Lines printed in that second.
    printed: u32,
    /// Lines left out since the last one printed.
    left_out: u64,
}

impl LineLimit {
    /// Returns the number of lines left out before this one, or `None` to leave this one out.
    fn take(&mut self, second: u64) -> Option<u64> {
        if self.second != second {
            (self.second, self.printed) = (second, 0);
        }
        if self.printed == MAX_PEER_LINES {
            self.left_out += 1;
            return None;
        }
        self.printed += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_cause_ten_lines_a_second() {
        let mut limit = LineLimit::default();
        let printed =
            |limit: &mut LineLimit, second| (0..1000).filter_map(|_| limit.take(second)).collect::<Vec<_>>();
        assert_eq!(printed(&mut limit, 5), [0; 10]);
        let after = printed(&mut limit, 6);
        assert_eq!((after.len(), after[0], after[1]), (10, 990, 0));
    }
}
