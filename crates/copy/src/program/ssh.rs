//! The far side of a copy, started by ssh. Its standard input or output carries one ticket, and the
//! end of its standard input ends it.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rdt_program::Failure;
use rdt_program::exit::{NOT_FOUND, TIMEOUT};
use rdt_trust::Ticket;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use super::args::{RemoteArgs, SshCommand};
use super::failure::{RESUME, blocked};

/// Exit code of ssh for its own failures.
const SSH_FAILED: i32 = 255;
/// Limit on what the shell of the other host may print before the ticket, bytes.
const MAX_GREETING_BYTES: u64 = 64 << 10;
/// Time for the connection to end after ssh has failed, or for the Ctrl-C that ended both.
const GRACE: Duration = Duration::from_secs(1);
/// Time for the far side to end by itself after a copy.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Running ssh. Killed when dropped, unless it was left to end by itself.
#[derive(Debug)]
pub(crate) struct Ssh {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<tokio::io::Take<ChildStdout>>,
    host: String,
    program: String,
    is_left: bool,
}

impl Drop for Ssh {
    fn drop(&mut self) {
        if !self.is_left {
            // Fails if it has ended.
            let _ = self.child.start_kill();
        }
    }
}

impl Ssh {
    /// Starts the far side with these options.
    pub(crate) fn start(args: &RemoteArgs, host: &str, options: &[String]) -> Result<Self, Failure> {
        let default = ["ssh".to_owned()];
        let words = args.ssh.as_ref().map_or(&default[..], |SshCommand(words)| words.as_slice());
        let command = &words[0];
        let program = args.remote_program.as_deref().unwrap_or("rdt-copy");
        let mut ssh = Command::new(command);
        ssh.args(&words[1..]).arg(host).arg(program).arg("--server").args(options);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped());
        let error = |error: io::Error| Failure::unavailable(format_args!("cannot run {command}: {error}"));
        let mut child = ssh.spawn().map_err(error)?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| error(io::ErrorKind::BrokenPipe.into()))?;
        let output = BufReader::new(output.take(MAX_GREETING_BYTES));
        Ok(Self { child, input, output, host: host.to_owned(), program: program.to_owned(), is_left: false })
    }

    /// Reads the ticket of a far side that listens. Waits as long as ssh does, because a user may
    /// have to type a password. Other lines are a greeting of the shell.
    pub(crate) async fn read_ticket(&mut self) -> Result<Ticket, Failure> {
        let mut line = Vec::new();
        loop {
            line.clear();
            // An error is the end of ssh.
            if self.output.read_until(b'\n', &mut line).await.unwrap_or(0) == 0 {
                if self.output.get_ref().limit() == 0 {
                    return Err(self.too_much_greeting());
                }
                return Err(self.ended().await);
            }
            if let Ok(ticket) = String::from_utf8_lossy(&line).parse() {
                return Ok(ticket);
            }
        }
    }

    /// Ends ssh, which would wait for ever: its output is not read any further.
    fn too_much_greeting(&mut self) -> Failure {
        // Fails if ssh has ended.
        let _ = self.child.start_kill();
        let (host, kib) = (&self.host, MAX_GREETING_BYTES >> 10);
        Failure::unavailable(format_args!(
            "the shell of {host} prints more than {kib} KiB before rdt-copy starts there"
        ))
    }

    /// Gives a ticket to a far side that connects. Not as an argument, because other users see
    /// those.
    pub(crate) async fn write_ticket(&mut self, ticket: &Ticket) -> Result<(), Failure> {
        let written = match &mut self.input {
            Some(input) => input.write_all(format!("{ticket}\n").as_bytes()).await.is_ok(),
            None => false,
        };
        if written { Ok(()) } else { Err(self.ended().await) }
    }

    /// Waits until ssh ends, and returns the reason. Cancel safe.
    pub(crate) async fn ended(&mut self) -> Failure {
        match self.child.wait().await {
            Ok(status) => self.failure(status),
            Err(error) => Failure::system("cannot wait for ssh")(error),
        }
    }

    /// Waits until the far side of a copy in progress fails. Never if it ends well: then its last
    /// packets are on their way. Cancel safe.
    pub(crate) async fn failed(&mut self) -> Failure {
        if self.child.wait().await.is_ok_and(|status| status.success()) {
            std::future::pending::<()>().await;
        }
        // The connection may say more than this.
        sleep(GRACE).await;
        let host = &self.host;
        Failure::unavailable(format_args!(
            "rdt-copy at {host} was killed, or ssh lost its connection. {RESUME}"
        ))
    }

    fn failure(&self, status: ExitStatus) -> Failure {
        let Self { host, program, .. } = self;
        match status.code() {
            Some(code) if code == i32::from(NOT_FOUND) => {
                let remedy = "install it there, or name it by --remote-program PATH";
                Failure::new(NOT_FOUND, format_args!("{host} has no {program}: {remedy}"))
            }
            Some(SSH_FAILED) => Failure::unavailable(format_args!("ssh has no connection to {host}")),
            Some(code) if code == i32::from(TIMEOUT) => blocked(
                host,
                "it cannot connect to this host",
                "a firewall or NAT is between. --advertise ADDR:PORT names an address of this host that it reaches",
            ),
            Some(code) => {
                Failure::unavailable(format_args!("{program} at {host} ended with exit code {code}"))
            }
            None => Failure::unavailable(format_args!("ssh to {host} was killed")),
        }
    }

    /// Lets ssh and the far side end by themselves, which takes them another round trip.
    pub(crate) fn leave(mut self) {
        self.is_left = true;
    }

    /// Ends the far side, and waits for it.
    pub(crate) async fn finish(mut self) {
        self.input = None;
        // After that time the drop kills ssh, and so closes the far side's input too.
        let _ = timeout(END_TIMEOUT, self.child.wait()).await;
    }
}
