//! Source of the data that `rdt-send` sends: an array of 32-bit numbers as in the reference
//! programs, a file, or the standard input.

use std::fs::File;
use std::io::{self, Stdin};
use std::path::Path;

use rdt_program::Failure;
use rdt_program::standard::check_stdin;
use rdt_sim::payload;
use rdt_udp::Waker;

use crate::args::SendArgs;
use crate::output::status::Status;
use crate::source::{DwordArray, Piped, Source, file_source};

pub(crate) enum Data {
    /// The first bytes of the array, or the array without end, and the line that says so.
    Array(Option<u64>, String),
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
            return Ok(Self::Array(Some(bytes), format!("sending {bytes} bytes of the DWORD array")));
        }
        if args.time.is_some() {
            return Ok(Self::Array(None, "sending the DWORD array without end".into()));
        }
        match &args.file {
            Some(path) if path != Path::new("-") => Self::open(path),
            file if stdin || file.is_some() => {
                check_stdin().map_err(|error| Failure::input("the standard input", &error))?;
                Ok(Self::Stdin(io::stdin()))
            }
            _ => {
                let power = args.power.unwrap_or(20);
                // The line reports 0 ms, because the array is generated while it is sent.
                let line = format!("initializing DWORD array with 2^{power} elements... done in 0 ms");
                Ok(Self::Array(Some(payload::WORD << power), line))
            }
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
        let line = match self {
            Self::Array(_, line) => line,
            Self::File { name, bytes, .. } => &format!("sending {name}, {bytes} bytes"),
            Self::Stdin(_) => "sending the standard input",
        };
        status.text(&format!("Main:\t{line}"));
    }

    /// Calls `is` with the name, empty for the standard input, and the file that is read, if any.
    pub(crate) fn is_file(&self, is: impl FnOnce(&str, &File) -> bool) -> bool {
        match self {
            Self::File { name, file, .. } => is(name, file),
            Self::Stdin(stdin) => redirected_file(stdin).is_some_and(|file| is("", &file)),
            Self::Array(..) => false,
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Array(..) => "the array".into(),
            Self::File { name, .. } => name.clone(),
            Self::Stdin(_) => "the standard input".into(),
        }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            Self::Array(bytes, _) => *bytes,
            Self::File { bytes, .. } => Some(*bytes),
            Self::Stdin(_) => None,
        }
    }

    pub(crate) fn source(self, waker: Waker) -> io::Result<Box<dyn Source>> {
        match self {
            Self::Array(bytes, _) => Ok(Box::new(DwordArray::new(bytes.unwrap_or(u64::MAX)))),
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
