//! Where lines go: results to the standard output, talk to the standard error. A reader that goes away is
//! not an error of the transfer; a full disk is, and is told at the end.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::Failure;

/// The standard output, shared by those who print lines of results.
#[derive(Debug, Clone, Default)]
pub(crate) struct Console {
    error: Arc<Mutex<Option<io::Error>>>,
}

impl Console {
    /// Prints a line.
    pub(crate) fn line(&self, line: &str) {
        self.text(&format!("{line}\n"));
    }

    /// Prints text without ending the line.
    pub(crate) fn text(&self, text: &str) {
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
            && error.kind() != io::ErrorKind::BrokenPipe
            && let Ok(mut first) = self.error.lock()
        {
            first.get_or_insert(error);
        }
    }

    /// The first error of any line.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        match self.error.lock().ok().and_then(|mut first| first.take()) {
            Some(error) => Err(Failure::Output { name: "the standard output".into(), error }),
            None => Ok(()),
        }
    }
}

/// Prints a line to the standard error. If that is gone, nobody listens.
pub(crate) fn talk(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
