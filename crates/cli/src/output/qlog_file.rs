//! Output file of `--qlog`, the trace of a sender; checks of output files.

use std::fs::{self, File, Metadata};
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rdt_program::Failure;
use rdt_program::files::{create_private, is_same_path};
use rdt_program::talk;
use rdt_transport::qlog::{Qlog, QlogConfig};
use rdt_transport::{Observer, SenderConfig, Wire};
use rdt_udp::clock;

use crate::args::SendArgs;
use crate::data::Data;

/// Size of the write buffer, bytes.
const BUFFER: usize = 256 * 1024;

pub(crate) struct QlogFile {
    path: PathBuf,
    log: Qlog<BufWriter<File>>,
}

impl QlogFile {
    /// Creates the file, or replaces it with `force`. Times in the file are relative to `start`.
    pub(crate) fn create(
        path: &Path,
        force: bool,
        start: Instant,
        addresses: &[SocketAddr],
        config: &SenderConfig,
    ) -> Result<Self, Failure> {
        let file = create_private(path, force).map_err(|error| Failure::output(path.display(), &error))?;
        let classic = config.wire == Wire::Classic;
        // The transfer goes to one of several addresses, and the header comes first.
        let receiver = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        let config = QlogConfig {
            title: format!("rdt-send to {receiver}, {}", config.congestion),
            epoch: start,
            reference_time_ms: i64::try_from(clock::unix_time().as_millis()).unwrap_or(i64::MAX),
            peer: addresses.first().copied().filter(|_| addresses.len() == 1),
            window_unit: if classic { config.payload_size() as u64 } else { 1 },
        };
        Ok(Self { path: path.to_owned(), log: Qlog::new(BufWriter::with_capacity(BUFFER, file), &config) })
    }

    pub(crate) fn observer(&self) -> Box<dyn Observer> {
        Box::new(self.log.clone())
    }
}

/// Completes the file, and returns the failure of the program.
pub(crate) fn finish(file: Option<QlogFile>, failure: Option<Failure>) -> Option<Failure> {
    let Some(QlogFile { path, log }) = file else { return failure };
    or_unwritten(failure, log.finish().map_err(|error| Failure::output(path.display(), &error)))
}

/// Returns a failed write as the program's failure, but only prints it if the transfer failed too.
pub(crate) fn or_unwritten(failure: Option<Failure>, written: Result<(), Failure>) -> Option<Failure> {
    let Err(unwritten) = written else { return failure };
    if failure.is_some() {
        talk(&format!("rdt-send: {unwritten}"));
    }
    failure.or(Some(unwritten))
}

/// Rejects output files that are one file, and those that the program reads from or prints to:
/// creating one with `--force` would replace it.
pub(crate) fn check_outputs(args: &SendArgs, data: &Data) -> Result<(), Failure> {
    if let (Some(qlog), Some(csv)) = (&args.qlog, &args.csv)
        && is_same_path(qlog, csv)
    {
        return Err(Failure::usage("--qlog and --csv need two files"));
    }
    let outputs = [("--qlog", &args.qlog), ("--csv", &args.csv)];
    outputs
        .into_iter()
        .filter_map(|(option, path)| Some((option, path.as_deref()?)))
        .try_for_each(|(option, path)| check(option, path, data))
}

fn check(option: &str, path: &Path, data: &Data) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Err(Failure::usage(format_args!(
            "{option} needs the name of a file, not -: the standard output has the program's lines"
        )));
    }
    // A file that does not exist is not in use.
    let Ok(there) = fs::metadata(path) else { return Ok(()) };
    match use_of(&there, path, data) {
        Some(what) => {
            Err(Failure::usage(format_args!("{option} {} is {what}: choose another file", path.display())))
        }
        None => Ok(()),
    }
}

fn use_of(there: &Metadata, path: &Path, data: &Data) -> Option<&'static str> {
    if data.is_file(|name, file| is_input(there, path, name, file)) {
        return Some("what is to be sent");
    }
    standard(there)
}

#[cfg(unix)]
fn is_input(there: &Metadata, _: &Path, _: &str, file: &File) -> bool {
    file.metadata().is_ok_and(|open| is_same(&open, there))
}

#[cfg(not(unix))]
fn is_input(_: &Metadata, path: &Path, name: &str, _: &File) -> bool {
    matches!((fs::canonicalize(path), fs::canonicalize(name)), (Ok(one), Ok(other)) if one == other)
}

/// Returns the name of the program's output to which the path leads, if it does. Character devices
/// such as `/dev/null` are allowed, terminals are not.
#[cfg(unix)]
fn standard(there: &Metadata) -> Option<&'static str> {
    use std::io::IsTerminal as _;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::fs::FileTypeExt as _;

    fn is(there: &Metadata, output: BorrowedFd<'_>) -> bool {
        let open = output.try_clone_to_owned().and_then(|output| File::from(output).metadata());
        let mixes = |open: &Metadata| !open.file_type().is_char_device() || output.is_terminal();
        open.is_ok_and(|open| is_same(&open, there) && mixes(&open))
    }
    match there {
        there if is(there, std::io::stdout().as_fd()) => Some("the standard output"),
        there if is(there, std::io::stderr().as_fd()) => Some("the standard error"),
        _ => None,
    }
}

/// Returns `None`: on this system no path leads to the standard outputs.
#[cfg(not(unix))]
fn standard(_: &Metadata) -> Option<&'static str> {
    None
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
