//! Lines for users on the standard error, results and JSON on the standard output.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{DecimalBytes, HumanCount};
use rdt_program::exit::INCOMPLETE;
use rdt_program::{Console, Failure, Output, Remarks, Shown, progress};
use rdt_trust::Surroundings;
use rdt_trust::services::COPIES;
use serde_json::json;
use tokio::time::Instant;

use super::args::OutputArgs;
use super::json::{self, rate_bps};
use super::printable::{self, escaped, short};
use super::progress::Progress;
use crate::{CopyError, Event, Observer, SkipReason, Summary};

/// Time between two events of progress.
const PROGRESS_INTERVAL_MS: u64 = 1000;

/// Output of the program. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Report(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    output: Output,
    progress: Progress,
    begun_at: Instant,
    moved: Moved,
    summary: Mutex<Summary>,
}

impl Deref for Report {
    type Target = Output;

    fn deref(&self) -> &Output {
        &self.0.output
    }
}

impl Report {
    /// Creates the output of one copy, which waits for its readers, because each event reports a
    /// file. In the background, for `--serve`, clients do not wait for readers: lines that a slow
    /// reader does not take are dropped.
    pub(crate) fn new(output: &OutputArgs, is_background: bool) -> Self {
        let progress = Progress::new(!is_background && !output.quiet && !output.json);
        let (console, remarks) = if is_background {
            (Console::in_background().unwrap_or_default(), Remarks::in_background())
        } else {
            (Console::default(), Remarks::Now(progress.talk()))
        };
        let shared = Shared {
            output: Output::new("rdt-copy", (output.quiet, output.json), console, remarks),
            progress,
            begun_at: Instant::now(),
            moved: Moved::default(),
            summary: Mutex::default(),
        };
        Self(Arc::new(shared))
    }

    /// Returns the connection of the trust options to this output and the system's clock.
    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings::of(COPIES, &self.0.output)
    }

    pub(crate) fn connected(&self, name: &str, address: Option<SocketAddr>) {
        let address = address.map(|address| Shown(address).to_string());
        self.0.output.event(|| json!({ "event": "connected", "peer": name, "address": address }));
        self.0.progress.start();
    }

    /// Prints the summary, with the failure of a copy that is not complete, and waits for the
    /// reader of the output.
    pub(crate) fn summarize(&self, exit_code: u8, failure: Option<&Failure>) -> std::io::Result<()> {
        self.0.progress.end();
        let summary = self.0.summary.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failure.filter(|failure| failure.code() != INCOMPLETE);
        if *summary != Summary::default() {
            for line in failures(&summary) {
                self.warn(&line);
            }
            self.remark(&if failed.is_some() { so_far(&summary) } else { totals(&summary) });
        }
        if let Some(failure) = failed {
            self.warn(&failure.to_string());
        }
        self.0.output.event(|| {
            let elapsed = if summary.elapsed.is_zero() { self.0.begun_at.elapsed() } else { summary.elapsed };
            let text = failure.map(ToString::to_string);
            json::summary(&summary, elapsed, exit_code, text.as_deref())
        });
        self.finish()
    }
}

/// Bytes so far, and when they were last reported by JSON.
#[derive(Debug, Default)]
struct Moved {
    bytes: AtomicU64,
    /// Time of the last event, milliseconds since the begin.
    reported_ms: AtomicU64,
}

impl Moved {
    /// Counts bytes. Returns the sum if an event is due.
    fn add(&self, bytes: u64, begun_at: Instant) -> Option<u64> {
        // Files with holes may have any size.
        let sum = self.bytes.fetch_add(bytes, Relaxed).saturating_add(bytes);
        let now_ms = u64::try_from(begun_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last_ms = self.reported_ms.load(Relaxed);
        let is_due = now_ms.saturating_sub(last_ms) >= PROGRESS_INTERVAL_MS
            && self.reported_ms.compare_exchange(last_ms, now_ms, Relaxed, Relaxed).is_ok();
        is_due.then_some(sum)
    }
}

impl Observer for Report {
    fn event(&self, event: &Event<'_>) {
        let Shared { progress, begun_at, moved, .. } = &*self.0;
        progress.event(event);
        if let Event::Ended { summary } = *event {
            summary.clone_into(&mut self.0.summary.lock().unwrap_or_else(PoisonError::into_inner));
        } else if self.is_json() {
            let bytes =
                if let Event::Progress { bytes } = event { moved.add(*bytes, *begun_at) } else { None };
            if let Some(value) = json::event(event, bytes) {
                self.0.output.event(|| value);
            }
        } else if let Event::Skipped { path, reason: SkipReason::DryRun, .. } = event {
            self.line(&printable::path(path));
        }
    }
}

/// One client of `--serve`, which observes its copy.
#[derive(Debug)]
pub(crate) struct Client {
    report: Report,
    number: u64,
    name: String,
    /// True once its request was read. Before, the connection may be one of several attempts.
    has_request: AtomicBool,
    /// Counts, once the copy has ended, in whatever way.
    summary: Mutex<Summary>,
}

impl Client {
    pub(crate) fn new(report: Report, number: u64, address: Option<SocketAddr>) -> Self {
        let name = address.map_or_else(|| "a client".to_owned(), |address| Shown(address).to_string());
        Self { report, number, name, has_request: AtomicBool::new(false), summary: Mutex::default() }
    }

    pub(crate) fn ended(&self, error: Option<&CopyError>) {
        let Self { report, number, name, .. } = self;
        if !self.has_request.load(Relaxed) {
            // A client that tries several addresses ends all streams but one.
            if let Some(error) = error.filter(|error| !matches!(error, CopyError::Stream(_))) {
                report.remark(&format!("{name}: {}", escaped(&error.to_string())));
            }
            return;
        }
        let summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        for line in failures(&summary) {
            report.remark(&format!("{name}: {}", short(&line)));
        }
        let text = error.map(ToString::to_string);
        match &text {
            Some(text) => report.remark(&format!("{name}: {}; {}", so_far(&summary), escaped(text))),
            None => report.remark(&format!("{name}: {}", totals(&summary))),
        }
        report.0.output.event(|| json::client_end(*number, &summary, text.as_deref()));
    }
}

impl Observer for Client {
    fn event(&self, event: &Event<'_>) {
        if let Event::Request { push, path } = event {
            self.has_request.store(true, Relaxed);
            let verb = if *push { "writes to" } else { "reads" };
            self.report.remark(&format!("{} {verb} {}", self.name, short(&printable::path(path))));
            self.report.0.output.event(|| json::client(self.number, &self.name, *push, path));
        }
        if let Event::Ended { summary } = *event {
            summary.clone_into(&mut self.summary.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// Returns a sentence for each failure, and one for those that have no name.
fn failures(summary: &Summary) -> Vec<String> {
    let line = |failure: &crate::Failure| {
        format!("not copied: {}: {}", printable::path(&failure.path), escaped(&failure.text))
    };
    let mut lines: Vec<_> = summary.failed.iter().map(line).collect();
    let unnamed = summary.failures.saturating_sub(lines.len() as u64);
    if unnamed > 0 {
        lines.push(format!("not copied: {} more", HumanCount(unnamed)));
    }
    lines
}

/// Returns the last line: `12 files copied, 1.34 GB in 10.2 s, 1.05 Gbit/s; 3 skipped`.
fn totals(summary: &Summary) -> String {
    let Summary { files, bytes, .. } = summary;
    format!("{} copied, {}{}", count(*files, "file"), in_time(*bytes, summary), others(summary))
}

/// Returns the last line of a copy that was not whole: `so far 11.0 MB in 2.9 s, 30.3 Mbit/s; 0
/// files complete`. Its bytes are those that were sent, also of unfinished files.
fn so_far(summary: &Summary) -> String {
    let Summary { files, sent_bytes, .. } = summary;
    let files = count(*files, "file");
    format!("so far {}; {files} complete{}", in_time(*sent_bytes, summary), others(summary))
}

fn in_time(bytes: u64, summary: &Summary) -> String {
    let Summary { sent_bytes, elapsed, .. } = summary;
    let rate = rate_bps(*sent_bytes, *elapsed).map(|bps| format!(", {}", progress::rate(bps)));
    let seconds = elapsed.as_secs_f64();
    format!("{} in {seconds:.1} s{}", DecimalBytes(bytes), rate.unwrap_or_default())
}

fn others(summary: &Summary) -> String {
    let Summary { links, skipped, planned, failures, resumed_bytes, .. } = summary;
    let Summary { uncompressed_bytes, compressed_bytes, .. } = summary;
    let mut rest = Vec::new();
    if compressed_bytes < uncompressed_bytes {
        let (from, to) = (DecimalBytes(*uncompressed_bytes), DecimalBytes(*compressed_bytes));
        rest.push(format!("{from} compressed to {to}"));
    }
    if *links > 0 {
        rest.push(count(*links, "link"));
    }
    if *resumed_bytes > 0 {
        rest.push(format!("{} were there from an earlier copy", DecimalBytes(*resumed_bytes)));
    }
    if *planned > 0 {
        rest.push(format!("{} would be copied", HumanCount(*planned)));
    }
    if *skipped > 0 {
        rest.push(format!("{} skipped", HumanCount(*skipped)));
    }
    if *failures > 0 {
        rest.push(format!("{} not copied", HumanCount(*failures)));
    }
    if rest.is_empty() { String::new() } else { format!("; {}", rest.join(", ")) }
}

fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn totals_name_what_is_there() {
        let summary = Summary {
            files: 1,
            bytes: 2_000_000,
            sent_bytes: 1_000_000,
            elapsed: Duration::from_secs(2),
            ..Summary::default()
        };
        assert_eq!(totals(&summary), "1 file copied, 2.00 MB in 2.0 s, 4.0 Mbit/s");
        let summary = Summary { uncompressed_bytes: 990_000, compressed_bytes: 200_000, ..summary };
        let text = "1 file copied, 2.00 MB in 2.0 s, 4.0 Mbit/s; 990.00 kB compressed to 200.00 kB";
        assert_eq!(totals(&summary), text);
        let summary = Summary {
            files: 1200,
            links: 2,
            skipped: 3,
            failures: 1,
            resumed_bytes: 5000,
            ..Summary::default()
        };
        let text = "1,200 files copied, 0 B in 0.0 s; 2 links, 5.00 kB were there from an earlier copy, 3 skipped, 1 not copied";
        assert_eq!(totals(&summary), text);
    }

    #[test]
    fn copy_that_was_stopped_counts_unfinished_files() {
        let elapsed = Duration::from_secs(4);
        let summary = Summary { sent_bytes: 11_000_000, elapsed, ..Summary::default() };
        assert_eq!(so_far(&summary), "so far 11.00 MB in 4.0 s, 22.0 Mbit/s; 0 files complete");
    }

    #[test]
    fn failures_are_named_and_escaped() {
        let failed = vec![crate::Failure { path: "a\n\x1b[2J".into(), text: "no permission".into() }];
        let summary = Summary { failed, failures: 3, ..Summary::default() };
        assert_eq!(failures(&summary), ["not copied: a\\n\\u{1b}[2J: no permission", "not copied: 2 more"]);
    }

    #[test]
    fn progress_is_reported_once_a_second() {
        let moved = Moved::default();
        let begun_at = Instant::now();
        assert_eq!(moved.add(5, begun_at), None);
        let Some(earlier) = begun_at.checked_sub(Duration::from_secs(2)) else { return };
        assert_eq!(moved.add(5, earlier), Some(10));
        assert_eq!(moved.add(5, earlier), None);
    }
}
