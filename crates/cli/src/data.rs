//! Source of the data that `rdt-send` sends: an array of 32-bit numbers as in the reference
//! programs, a file, or the standard input.

use std::fs::File;
use std::io::{self, Stdin};
use std::path::Path;

use rdt_sim::payload;
use rdt_udp::Waker;

use crate::output::status::Status;
use crate::source::{DwordArray, Piped, Source, file_source};
use crate::{Failure, SendArgs};

pub(crate) enum Data {
    Power(u8),
    Bytes(u64),
    /// Array without end.
    Endless,
    File {
        name: String,
        file: File,
        bytes: u64,
    },
    Stdin(Stdin),
}

impl Data {
    /// Opens the data source that the arguments select. `stdin` is true if one of them is `-`.
    pub(crate) fn parse(args: &SendArgs, stdin: bool) -> Result<Self, Failure> {
        if let Some(bytes) = args.bytes {
            return Ok(Self::Bytes(bytes));
        }
        if args.time.is_some() {
            return Ok(Self::Endless);
        }
        match &args.file {
            Some(path) if path == Path::new("-") => Ok(Self::Stdin(io::stdin())),
            Some(path) => Self::open(path),
            None if stdin => Ok(Self::Stdin(io::stdin())),
            None => Ok(Self::Power(args.power.unwrap_or(20))),
        }
    }

    fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let unreadable = |error: io::Error| Failure::input(&name, &error);
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.is_dir() {
            return Err(unreadable(io::Error::other("it is a directory")));
        }
        Ok(Self::File { name, file, bytes: metadata.len() })
    }

    pub(crate) fn announce(&self, status: &Status) {
        match self {
            // The line reports 0 ms, because the array is generated while it is sent.
            Self::Power(power) => status
                .text(&format!("Main:\tinitializing DWORD array with 2^{power} elements... done in 0 ms")),
            Self::Bytes(bytes) => status.text(&format!("Main:\tsending {bytes} bytes of the DWORD array")),
            Self::Endless => status.text("Main:\tsending the DWORD array without end"),
            Self::File { name, bytes, .. } => status.text(&format!("Main:\tsending {name}, {bytes} bytes")),
            Self::Stdin(_) => status.text("Main:\tsending the standard input"),
        }
    }

    /// Calls `is` with the name and the file that is read, if there is one. The name is empty for
    /// the standard input.
    pub(crate) fn is_file(&self, is: impl FnOnce(&str, &File) -> bool) -> bool {
        match self {
            Self::File { name, file, .. } => is(name, file),
            Self::Stdin(stdin) => redirected_file(stdin).is_some_and(|file| is("", &file)),
            Self::Power(_) | Self::Bytes(_) | Self::Endless => false,
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Power(_) | Self::Bytes(_) | Self::Endless => "the array".into(),
            Self::File { name, .. } => name.clone(),
            Self::Stdin(_) => "the standard input".into(),
        }
    }

    /// Returns the number of bytes; `None` if it is not known.
    #[cfg(target_os = "linux")]
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            Self::Power(power) => Some(payload::WORD << power),
            Self::Bytes(bytes) | Self::File { bytes, .. } => Some(*bytes),
            Self::Endless | Self::Stdin(_) => None,
        }
    }

    pub(crate) fn source(self, waker: Waker) -> io::Result<Box<dyn Source>> {
        match self {
            Self::Power(power) => Ok(Box::new(DwordArray::new(payload::WORD << power))),
            Self::Bytes(bytes) => Ok(Box::new(DwordArray::new(bytes))),
            Self::Endless => Ok(Box::new(DwordArray::new(u64::MAX))),
            Self::File { file, .. } => file_source(file, waker),
            Self::Stdin(stdin) => match redirected_file(&stdin) {
                Some(file) => file_source(file, waker),
                None => Ok(Box::new(Piped::new(stdin, waker))),
            },
        }
    }
}

/// Returns the regular file that the shell made the standard input, if it did.
#[cfg(unix)]
fn redirected_file(stdin: &Stdin) -> Option<File> {
    use std::os::fd::AsFd as _;

    let file = File::from(stdin.as_fd().try_clone_to_owned().ok()?);
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
}

/// Returns `None`: on this system the standard input is read as a pipe.
#[cfg(not(unix))]
fn redirected_file(_: &Stdin) -> Option<File> {
    None
}
