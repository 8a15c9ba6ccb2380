//! Why a program ends with an exit code other than 0, and the frame of every program.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use rdt_udp::SocketError;

use crate::exit::{
    CANNOT_CREATE, FAILED_RECV, FAILED_SEND, INTERRUPTED, IO, NO_INPUT, NO_SUCH_HOST, OS, UNAVAILABLE, USAGE,
};
use crate::standard::check_stdout;
use crate::{command_error, help_without_command, start_logging, talk};

/// Name of the standard output in sentences.
pub const STDOUT: &str = "the standard output";

/// Exit code of a program, and the sentence that it prints.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    /// Empty if the program has said why already.
    sentence: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// Creates a failure. With an empty sentence nothing is printed.
    pub fn new(code: u8, sentence: impl Display) -> Self {
        Self { code, sentence: sentence.to_string(), cause: None }
    }

    /// Wrong arguments.
    pub fn usage(sentence: impl Display) -> Self {
        Self::new(USAGE, sentence)
    }

    /// A socket, thread, memory or permission is not available.
    pub fn unavailable(sentence: impl Display) -> Self {
        Self::new(UNAVAILABLE, sentence)
    }

    /// Ended by Ctrl-C, which prints no sentence.
    pub fn interrupted() -> Self {
        Self::new(INTERRUPTED, "")
    }

    /// An input cannot be read.
    pub fn input(name: impl Display, error: &io::Error) -> Self {
        Self::new(NO_INPUT, format_args!("cannot read {name}: {error}"))
    }

    /// An output is incomplete.
    pub fn output(name: impl Display, error: &io::Error) -> Self {
        Self::new(IO, format_args!("cannot write {name}: {error}"))
    }

    /// The standard output is incomplete.
    pub fn stdout(error: io::Error) -> Self {
        Self::output(STDOUT, &error).because(error)
    }

    /// Converts the result of writing text. A closed pipe (the reader ended) is no error.
    pub fn writing(to: &str, result: io::Result<()>) -> Result<(), Self> {
        match result {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Self::output(to, &error)),
            _ => Ok(()),
        }
    }

    /// An output file cannot be created.
    pub fn create(path: &Path, error: &io::Error) -> Self {
        Self::new(CANNOT_CREATE, format_args!("cannot create {}: {error}", path.display()))
    }

    /// A name has no address.
    pub fn no_such_host(name: &str) -> Self {
        Self::new(NO_SUCH_HOST, format_args!("no such host: {name}"))
    }

    /// An address cannot be listened on.
    pub fn bind(address: SocketAddr, error: io::Error) -> Self {
        SocketError::Bind { address, error }.into()
    }

    /// Returns a function for `map_err` that adds the system call that failed after the start.
    pub fn system(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::new(OS, format_args!("{step}: {error}"))
    }

    /// Adds the error behind the failure, for callers that act on it.
    #[must_use]
    pub fn because(self, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { cause: Some(Box::new(cause)), ..self }
    }

    /// Returns the error behind the failure if it is of this type.
    pub fn cause<E: Error + 'static>(&self) -> Option<&E> {
        self.cause.as_ref()?.downcast_ref()
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Returns the error message; `None` if it was printed before, or none is needed.
    pub fn sentence(&self) -> Option<&str> {
        Some(self.sentence.as_str()).filter(|sentence| !sentence.is_empty())
    }

    /// Returns the failure without its sentence, which was printed.
    #[must_use]
    pub fn said(self) -> Self {
        Self { sentence: String::new(), ..self }
    }

    /// True if Ctrl-C ended the program.
    pub fn is_interrupted(&self) -> bool {
        self.code == INTERRUPTED
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

impl From<SocketError> for Failure {
    fn from(error: SocketError) -> Self {
        let code = match error {
            SocketError::Send(_) => FAILED_SEND,
            SocketError::Receive(_) => FAILED_RECV,
            _ => UNAVAILABLE,
        };
        Self::new(code, error)
    }
}

/// Returns the failure of a command line that clap rejects: that of the parser of a value, or
/// clap's message in one line.
pub fn rejection(error: &clap::Error, program: &clap::Command) -> Failure {
    match error.source().and_then(|source| source.downcast_ref::<Failure>()) {
        Some(Failure { code, sentence, .. }) => Failure::new(*code, sentence),
        None => Failure::usage(format_args!("{}; see --help", command_error(error, program))),
    }
}

/// Runs a program: starts its log, and prints the help that was asked for, or calls `run` and
/// prints its failure after the program's name. `reject` returns the failure of a wrong command
/// line ([`rejection`]).
pub fn main<A>(
    program: &str,
    args: Result<A, clap::Error>,
    reject: impl FnOnce(&clap::Error) -> Failure,
    run: impl FnOnce(A) -> Result<u8, Failure>,
) -> ExitCode {
    start_logging(program);
    let result = match args {
        Ok(args) => run(args),
        Err(error) if help_without_command(&error) => Ok(USAGE),
        Err(error) if error.use_stderr() => Err(reject(&error)),
        Err(help) => Failure::writing(STDOUT, check_stdout().and_then(|()| help.print())).map(|()| 0),
    };
    let code = result.unwrap_or_else(|failure| {
        if let Some(sentence) = failure.sentence() {
            talk(&format!("{program}: {sentence}"));
        }
        failure.code()
    });
    ExitCode::from(code)
}
