//! Reports of a relay: options, observers, and output at the end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rdt_emulator::parse_duration;
use rdt_program::files::{create_private, is_same_path};
use rdt_program::json::seed as seed_json;
use rdt_program::standard::stdout;
use rdt_program::{Printer, exit};
use rdt_udp::clock;
use serde_json::{Value, json};

use crate::Failure;
use crate::account::{Account, DestinationAccount, DestinationName};
use crate::capture::frame::Frame;
use crate::capture::{Capture, Captured};
use crate::host::{self, Alarm};
use crate::json_stream::{self, JsonStream, Out};
use crate::metrics::Published;
use crate::path::Described;
use crate::relay::{Event, Observer};
use crate::{STDOUT, json, report, talk};

const MIN_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OutputArgs {
    /// Print the account at the end as one line of JSON, on the standard output or in the file of
    /// --json-to
    #[arg(long)]
    pub(crate) json: bool,
    /// Like --json, and also print the account so far at intervals, one line each [default
    /// interval: 1s]
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = interval)]
    pub(crate) json_stream: Option<Duration>,
    /// Write the JSON to FILE in place of the standard output; implies --json
    #[arg(long, value_name = "FILE")]
    pub(crate) json_to: Option<PathBuf>,
    /// Write every packet that enters or leaves the link to a pcapng file, with the causes of drops
    /// as comments
    #[arg(long, value_name = "FILE")]
    pub(crate) pcapng: Option<PathBuf>,
    /// Replace the files of --json-to and --pcapng if they exist
    #[arg(long)]
    pub(crate) force: bool,
    /// Keep the first BYTES of each packet in the pcapng file, and its length; 128 hold the headers
    /// of TCP with selective ACKs [default: whole packets]
    #[arg(long, value_name = "BYTES", requires = "pcapng", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) snaplen: Option<u32>,
    /// Print no text report at the end; warnings remain
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    if interval < MIN_INTERVAL { Err("it is at least 1ms".to_owned()) } else { Ok(interval) }
}

pub(crate) struct Watchers<F> {
    alarm: Alarm,
    stream: Option<JsonStream>,
    capture: Option<Capture<F>>,
    /// Copies the accounts for `--metrics` of the proxy.
    pub(crate) published: Option<Published>,
}

impl<F: Frame> Observer for Watchers<F> {
    fn on(&mut self, event: &Event<'_>) {
        self.alarm.on(event);
        if let Some(stream) = &mut self.stream {
            stream.on(event);
        }
        if let Some(published) = &mut self.published {
            published.on(event);
        }
        if let Some(capture) = &mut self.capture {
            capture.on(event);
        }
    }

    fn late_drops(&self) -> usize {
        self.capture.as_ref().map_or(0, Observer::late_drops)
    }

    fn next_turn(&self) -> Option<Instant> {
        let stream = self.stream.as_ref().and_then(Observer::next_turn);
        let published = self.published.as_ref().and_then(Observer::next_turn);
        let capture = self.capture.as_ref().and_then(Observer::next_turn);
        stream.into_iter().chain(published).chain(capture).min()
    }
}

/// Data of the final report besides the accounts.
#[derive(Debug)]
pub(crate) struct Circumstances {
    pub(crate) mode: &'static str,
    pub(crate) seed: u64,
    /// Packets that the system lost before the path, forward first; `None` if the system does not
    /// report them.
    pub(crate) lost_before: [Option<u64>; 2],
    /// Exit code of the program if all reports can be written.
    pub(crate) code: u8,
    /// Additional lines of the text report.
    pub(crate) notes: String,
    /// Accounts of the paths of `--to`.
    pub(crate) destinations: Vec<DestinationAccount>,
}

impl OutputArgs {
    /// Rejects options without effect, and one file for two outputs.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match (&self.json_to, &self.pcapng) {
            (None, None) if self.force => {
                Err(Failure::usage("--force replaces the files of --json-to and --pcapng: none is given"))
            }
            (Some(json), Some(pcapng)) if is_same_path(json, pcapng) => {
                Err(Failure::usage("--json-to and --pcapng need two files"))
            }
            _ => Ok(()),
        }
    }

    /// Rejects output files from which the paths were read: with `--force` they would be replaced.
    pub(crate) fn check_inputs<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a Described>,
    ) -> Result<(), Failure> {
        let inputs: Vec<_> = paths.into_iter().flat_map(Described::files).collect();
        let is_input = |output: &PathBuf| inputs.iter().any(|input| is_same_path(input, output));
        let outputs = [("--json-to", &self.json_to), ("--pcapng", &self.pcapng)];
        let found = outputs.iter().find(|(_, file)| file.iter().any(&is_input));
        found.map_or(Ok(()), |(option, _)| {
            Err(Failure::usage(format!("{option}: the path is read from this file; choose another one")))
        })
    }

    /// Creates the observers that the options request (capture, JSON) and opens their files. Failed
    /// writes during the run are reported to `warnings`. `destinations` names the paths of `--to`,
    /// in their order.
    pub(crate) fn watchers<F: Frame>(
        &self,
        frame: F,
        seed: u64,
        warnings: Printer,
        destinations: Vec<DestinationName>,
    ) -> Result<Watchers<F>, Failure> {
        let file = self.pcapng.as_deref().map(|path| self.create(path)).transpose()?;
        let out = self.json_out().inspect_err(|_| self.pcapng.iter().for_each(|path| remove_empty(path)))?;
        let capture = self
            .pcapng
            .as_deref()
            .zip(file)
            .map(|to| Capture::start(to, frame, self.snaplen, &format!("seed {seed}"), &destinations));
        let mut stream = out.map(|out| JsonStream::start(self.json_stream, out));
        if let Some(stream) = &mut stream {
            stream.destinations = destinations;
        }
        Ok(Watchers { alarm: Alarm::new(warnings), stream, capture, published: None })
    }

    /// Opens the named pipes among the files, which waits until programs read them. Called while
    /// signals still end the program; the files can then be opened again without a wait, as long as
    /// the pipes are open.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_pipes(&self) -> Result<Vec<File>, Failure> {
        use std::os::unix::fs::FileTypeExt as _;
        let is_pipe = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_fifo());
        let files = [&self.json_to, &self.pcapng].into_iter().flatten();
        files.filter(|path| is_pipe(path)).map(|path| self.create(path)).collect()
    }

    fn create(&self, path: &Path) -> Result<File, Failure> {
        create_private(path, self.force).map_err(|error| Failure::create(path, &error))
    }

    fn json_out(&self) -> Result<Option<Out>, Failure> {
        match &self.json_to {
            Some(path) => Ok(Some(Box::new(self.create(path)?))),
            None if self.json || self.json_stream.is_some() => Ok(Some(Box::new(stdout()))),
            None => Ok(None),
        }
    }

    /// Prints all reports and returns the exit code. `accounts` has forward first.
    pub(crate) fn finish<F: Frame>(
        &self,
        Watchers { stream, capture, .. }: Watchers<F>,
        accounts: &[Account; 2],
        circumstances: &Circumstances,
    ) -> u8 {
        let captured = capture.map(Capture::finish);
        if !self.quiet {
            for line in report::text(accounts).lines().chain(circumstances.notes.lines()) {
                talk(line);
            }
            for (DestinationName { name, .. }, accounts) in &circumstances.destinations {
                report::text(accounts).lines().for_each(|line| talk(&format!("{name}: {line}")));
            }
            talk(&format!("seed: {}", circumstances.seed));
        }
        for sentence in warnings(accounts, captured.as_ref(), circumstances) {
            talk(&sentence);
        }
        let mut code = circumstances.code;
        if code == 0 && captured.as_ref().is_some_and(Captured::is_incomplete) {
            code = exit::IO;
        }
        if let Some(stream) = stream {
            let end = stream.stamp().now(summary(accounts, captured.as_ref(), circumstances, code));
            let written = stream.finish().and_then(|mut out| json_stream::line(&mut out, &end));
            let to = self.json_to.as_ref().map_or_else(|| STDOUT.into(), |path| path.to_string_lossy());
            if let Err(failure) = written.map_err(|error| Failure::output(to, &error)) {
                talk(&failure.to_string());
                code = if code == 0 { failure.code() } else { code };
            }
        }
        code
    }
}

/// Removes a file of a run that does not start: the next one would refuse to replace it.
fn remove_empty(path: &Path) {
    if path.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == 0) {
        // If it fails, the file stays.
        let _ = fs::remove_file(path);
    }
}

/// Returns the warnings, which `--quiet` does not suppress.
fn warnings(
    accounts: &[Account; 2],
    captured: Option<&Captured>,
    circumstances: &Circumstances,
) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, account) in host::NAMES.into_iter().zip(accounts) {
        if !account.balances() {
            sentences
                .push(format!("{name}: the account does not balance, which is an error of this program"));
        }
    }
    // If the host was the bottleneck, the emulated link was not the requested one.
    sentences.extend(host::shortcomings(accounts, circumstances.lost_before.map(Option::unwrap_or_default)));
    sentences.extend(captured.and_then(Captured::warning));
    sentences
}

fn summary(
    accounts: &[Account; 2],
    captured: Option<&Captured>,
    circumstances: &Circumstances,
    code: u8,
) -> Value {
    let Circumstances { mode, seed, lost_before, .. } = circumstances;
    let capture = captured.map(|captured| {
        json!({
            "file": captured.path.to_string_lossy(),
            "packets": captured.packets,
            "missed": captured.missed,
            "error": captured.error.as_ref().map(ToString::to_string),
        })
    });
    let destinations = json::destinations(&circumstances.destinations);
    let direction = |index: usize| {
        let mut object = json::account(&accounts[index]);
        json::extend(&mut object, json!({ "lost_before": lost_before[index] }));
        object
    };
    json!({
        "event": "end",
        "mode": mode,
        "seed": seed_json(*seed),
        "monotonic_ns": json::monotonic(clock::now()),
        "exit_code": code,
        "balances": accounts.iter().all(Account::balances),
        "forward": direction(0),
        "reverse": direction(1),
        "pcapng": capture,
        "destinations": destinations,
    })
}
