//! Standard output for results, standard error for remarks. A failed write, such as to a full disk,
//! is reported at the end. If people read the output, a closed pipe (the reader ended) is no error.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::Printer;
use crate::printer::keep_first;
use crate::standard::stdout;

/// Limit on the lines that wait for a slow reader; a line has at most 2 KB.
const QUEUE_LINES: usize = 4096;

/// Standard output, shared by all threads that print result lines.
#[derive(Debug, Clone, Default)]
pub struct Console {
    error: Arc<Mutex<Option<io::Error>>>,
    background: Option<Printer>,
}

impl Console {
    /// Creates a console that prints on a thread; only `flush` and `finish` wait for a slow reader.
    pub fn in_background() -> io::Result<Self> {
        let printer = Printer::spawn(QUEUE_LINES, |text| print(&mut stdout(), text))?;
        Ok(Self { background: Some(printer), ..Self::default() })
    }

    /// Prints a line.
    pub fn line(&self, line: &str) {
        self.text(&format!("{line}\n"));
    }

    /// Prints text without ending the line.
    pub fn text(&self, text: &str) {
        match &self.background {
            None => keep_first(&self.error, print(&mut stdout(), text)),
            Some(printer) => printer.print(text),
        }
    }

    /// Waits until everything is printed.
    pub fn flush(&self) {
        if let Some(printer) = &self.background {
            printer.flush();
        }
    }

    /// Returns the number of lines that were dropped because the reader was too slow.
    pub fn dropped(&self) -> u64 {
        self.background.as_ref().map_or(0, Printer::dropped)
    }

    /// Waits until everything is printed, and reports dropped lines. Returns the first write error.
    /// A closed pipe counts only if the output `is_json`: programs need it whole, and people leave
    /// it early (`| head`).
    pub fn finish(&self, is_json: bool) -> io::Result<()> {
        self.flush();
        if let dropped @ 1.. = self.dropped() {
            talk(&format!("{dropped} lines were dropped because standard output was read too slowly"));
        }
        let foreground = self.error.lock().ok().and_then(|mut first| first.take());
        let error = foreground.or_else(|| self.background.as_ref()?.take_error());
        error.filter(|error| is_json || error.kind() != io::ErrorKind::BrokenPipe).map_or(Ok(()), Err)
    }
}

/// Prints text by one system call, so that no other output of the same terminal or file begins
/// between a line and its end: the standard error has no buffer.
fn print(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Creates a printer of lines on the standard error, for threads that must not wait for its reader.
pub fn talk_in_background() -> io::Result<Printer> {
    Printer::spawn(QUEUE_LINES, |line| {
        talk(line);
        Ok(())
    })
}

/// Prints a line to the standard error. There is no other place to report a write error.
pub fn talk(line: &str) {
    let _ = print(&mut io::stderr(), &format!("{line}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_pipe_is_error_for_json_alone() {
        let finish = |kind: io::ErrorKind, is_json| {
            let background = Printer::spawn(1, move |_| Err(kind.into())).ok();
            let console = Console { background, ..Console::default() };
            console.line("{}");
            console.finish(is_json).map_err(|error| error.kind())
        };
        assert_eq!(finish(io::ErrorKind::BrokenPipe, false), Ok(()));
        for (kind, is_json) in [
            (io::ErrorKind::BrokenPipe, true),
            (io::ErrorKind::StorageFull, true),
            (io::ErrorKind::StorageFull, false),
        ] {
            assert_eq!(finish(kind, is_json), Err(kind), "{is_json}");
        }
    }
}
