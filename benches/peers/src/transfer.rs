//! One transfer: starts the two processes, waits for them, and kills them after a timeout.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde_json::Value;

/// Timeout of one transfer, from the start of its first process to the end of its last.
const LIMIT: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Rate from the first to the last byte at the receiver, Gbit/s.
    pub(crate) gbps: f64,
    /// Processor time of both processes, seconds per GB.
    pub(crate) cpu_per_gb: f64,
}

impl Run {
    /// Computes the result; `processor_ns` is the processor time of both processes, nanoseconds.
    pub(crate) fn new(bytes: u64, seconds: f64, processor_ns: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let (gigabytes, processor) = (bytes as f64 / 1e9, processor_ns as f64 / 1e9);
        Self { gbps: gigabytes * 8.0 / seconds, cpu_per_gb: processor / gigabytes }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Gbit/s, {:.3} CPU s/GB", self.gbps, self.cpu_per_gb)
    }
}

pub(crate) fn deadline() -> Instant {
    Instant::now() + LIMIT
}

/// Process that prints one JSON object per line; killed on drop.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    lines: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

impl Process {
    /// Starts the command, and writes one line to its standard input.
    pub(crate) fn start(name: &'static str, command: &mut Command, input: &str) -> Result<Self> {
        let mut child = command
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let mut stdin = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        let mut stderr = child.stderr.take().expect("standard error is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines();
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let errors = thread::spawn(move || {
            let mut text = Vec::new();
            // Output before a read error is still shown.
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let process = Self { name, child, lines, errors: Some(errors) };
        // If the process has already ended, its own error is more useful than that of the write.
        let _ = writeln!(stdin, "{input}");
        Ok(process)
    }

    pub(crate) fn first_line(&mut self, deadline: Instant) -> Result<Value> {
        match self.line(deadline)? {
            Some(line) => parse(&line),
            None => Err(self.failure()),
        }
    }

    /// Waits for the exit with code 0, and returns the last line of the output.
    pub(crate) fn last_line(mut self, deadline: Instant) -> Result<Value> {
        let mut last = None;
        while let Some(line) = self.line(deadline)? {
            last = Some(line);
        }
        // The output has ended, so the process is about to end.
        let status = self.child.wait()?;
        match last {
            Some(line) if status.success() => parse(&line),
            _ => Err(self.failure()),
        }
    }

    fn line(&mut self, deadline: Instant) -> Result<Option<String>> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!("{} was not done after {LIMIT:?}", self.name),
        }
    }

    /// Returns why the process failed: its standard error in one line.
    fn failure(&mut self) -> anyhow::Error {
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let text = self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        anyhow!("{} ended without a result ({status}): {}", self.name, words.join(" "))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(line: &str) -> Result<Value> {
    serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))
}

pub(crate) fn number(object: &Value, key: &str) -> Result<u64> {
    object[key].as_u64().with_context(|| format!("no number \"{key}\" in {object}"))
}

/// Checks that all bytes arrived.
pub(crate) fn check_bytes(summary: &Value, bytes: u64) -> Result<()> {
    let received = number(summary, "bytes")?;
    ensure!(received == bytes, "{received} bytes of {bytes} came");
    Ok(())
}

/// Runs a transfer between two children. Passes the receiver's first line to the sender.
pub(crate) fn run_children(receive: &mut Command, transmit: &mut Command, bytes: u64) -> Result<Run> {
    let deadline = deadline();
    let mut receiver = Process::start("the receiver", receive, "")?;
    let hello = receiver.first_line(deadline)?;
    let sender = Process::start("the sender", transmit, &hello.to_string())?;
    let sent = sender.last_line(deadline)?;
    let summary = receiver.last_line(deadline)?;
    check_bytes(&summary, bytes)?;
    let (theirs, ours) = (&summary["crc"], &sent["crc"]);
    ensure!(theirs == ours, "checksum {theirs} came for {ours}");
    let seconds = summary["seconds"].as_f64().context("the receiver told no time")?;
    Ok(Run::new(bytes, seconds, number(&sent, "processor_ns")? + number(&summary, "processor_ns")?))
}
