//! The far side of a copy, started by ssh. Its standard input or output carries one ticket, and the
//! end of its standard input ends it.

use std::convert::Infallible;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rdt_program::Failure;
use rdt_program::exit::{NOT_FOUND, TIMEOUT};
use rdt_trust::Ticket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::args::{Arguments, SshCommand};
use super::failure::{RESUME, blocked};
use super::printable;
use super::report::Report;

/// Exit code of ssh for its own failures.
const SSH_FAILED: i32 = 255;
/// First characters of a ticket.
const TICKET_START: &[u8] = b"rdt1";
/// Limit on what the shell of the other host may print before the ticket, bytes.
const MAX_GREETING_BYTES: usize = 64 << 10;
/// Time after the first byte that is no ticket until the user is told.
const TOLD_AFTER: Duration = Duration::from_secs(5);
/// Time for ssh to bring a first byte, in units of `--connect-give-up`. By default 2 min, which
/// sshd grants for a login by default: a user may have to type a password.
const SILENT_GIVE_UPS: u32 = 6;
/// Time for what an ssh that has ended left in its pipe.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// Time for the connection to end after ssh has failed, or for the Ctrl-C that ended both.
const GRACE: Duration = Duration::from_secs(1);
/// Time for the far side to end by itself after a copy.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Running ssh. Killed when dropped, unless it was left to end by itself.
#[derive(Debug)]
pub(crate) struct Ssh {
    child: Child,
    input: Option<ChildStdin>,
    /// `None` after its end.
    output: Option<ChildStdout>,
    /// Output before the ticket, or instead of it.
    greeting: Vec<u8>,
    host: String,
    program: String,
    give_up: Duration,
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
    pub(crate) fn start(args: &Arguments, host: &str, options: &[String]) -> Result<Self, Failure> {
        let default = ["ssh".to_owned()];
        let words = args.remote.ssh.as_ref().map_or(&default[..], |SshCommand(words)| words.as_slice());
        let command = &words[0];
        let program = args.remote.remote_program.as_deref().unwrap_or("rdt-copy");
        let mut ssh = Command::new(command);
        ssh.args(&words[1..]).arg(host).arg(program).arg("--server").args(options);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped());
        let error = |error: io::Error| Failure::unavailable(format_args!("cannot run {command}: {error}"));
        let mut child = ssh.spawn().map_err(error)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (host, program, give_up) = (host.to_owned(), program.to_owned(), args.path.connect_give_up);
        Ok(Self { child, input, output, greeting: Vec::new(), host, program, give_up, is_left: false })
    }

    /// Reads the ticket of a far side that listens, wherever it stands in what comes.
    pub(crate) async fn read_ticket(&mut self, report: &Report) -> Result<Ticket, Failure> {
        self.hear(report, self.give_up, find_ticket).await
    }

    /// Waits until a far side that connects can do so no more, and returns the reason. Cancel safe.
    pub(crate) async fn cannot_connect(&mut self, report: &Report) -> Failure {
        // A far side that finds no way gives up first, and its end says so.
        let Err(failure) = self.hear(report, 2 * self.give_up, |_| None::<Infallible>).await;
        failure
    }

    /// Reads until `find` finds something in what came. The user is told of a shell that prints
    /// something else, and it is given up if nothing follows for `patience`.
    async fn hear<T>(
        &mut self,
        report: &Report,
        patience: Duration,
        find: fn(&[u8]) -> Option<T>,
    ) -> Result<T, Failure> {
        let begun_at = Instant::now();
        let (mut first_at, mut is_told) = (None, false);
        let mut piece = [0; 4096];
        loop {
            let due_at = match first_at {
                None => begun_at + self.give_up * SILENT_GIVE_UPS,
                Some(at) if !is_told => at + TOLD_AFTER.min(patience),
                Some(at) => at + patience,
            };
            tokio::select! {
                biased;
                read = read(&mut self.output, &mut piece) => {
                    self.greeting.extend_from_slice(&piece[..read]);
                    first_at.get_or_insert_with(Instant::now);
                }
                status = self.child.wait() => return Err(self.after_end(status).await),
                () = sleep_until(due_at) => match first_at {
                    Some(_) if !is_told => {
                        is_told = true;
                        report.remark(&self.instead_of_ticket());
                    }
                    _ => return Err(self.given_up(patience)),
                },
            }
            if let Some(found) = find(&self.greeting) {
                return Ok(found);
            }
            if self.greeting.len() > MAX_GREETING_BYTES {
                return Err(self.too_much_greeting());
            }
        }
    }

    fn instead_of_ticket(&self) -> String {
        let Self { host, greeting, .. } = self;
        let text = printable::bytes(greeting);
        format!("{host} printed '{text}', and no rdt-copy has answered there so far: is its shell clean?")
    }

    fn given_up(&self, patience: Duration) -> Failure {
        let Self { host, greeting, .. } = self;
        if greeting.is_empty() {
            let seconds = (self.give_up * SILENT_GIVE_UPS).as_secs_f64();
            return Failure::unavailable(format_args!(
                "ssh has started no rdt-copy at {host} for {seconds} s"
            ));
        }
        let (text, seconds) = (printable::bytes(greeting), patience.as_secs_f64());
        Failure::unavailable(format_args!(
            "{host} printed '{text}', and no rdt-copy answered there for {seconds} s: 'ssh {host} true' must print nothing"
        ))
    }

    fn too_much_greeting(&self) -> Failure {
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
        let status = self.wait().await;
        self.after_end(status).await
    }

    /// Waits until ssh ends, and reads what it prints: with a full pipe it would not end.
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        let mut piece = [0; 4096];
        loop {
            tokio::select! {
                status = self.child.wait() => return status,
                read = read(&mut self.output, &mut piece) => {
                    if self.greeting.len() <= MAX_GREETING_BYTES {
                        self.greeting.extend_from_slice(&piece[..read]);
                    }
                }
            }
        }
    }

    /// Returns the reason of an end before the connection, with the last that ssh has printed.
    async fn after_end(&mut self, status: io::Result<ExitStatus>) -> Failure {
        let status = match status {
            Ok(status) => status,
            Err(error) => return Failure::system("cannot wait for ssh")(error),
        };
        let rest = async {
            let mut piece = [0; 4096];
            while self.greeting.len() <= MAX_GREETING_BYTES {
                let read = read(&mut self.output, &mut piece).await;
                self.greeting.extend_from_slice(&piece[..read]);
            }
        };
        // A program that ssh has left in the background may keep the pipe open.
        let _ = timeout(DRAIN_TIMEOUT, rest).await;
        self.failure(status)
    }

    /// Waits until the far side of a copy in progress fails. Never if it ends well: then its last
    /// packets are on their way. Cancel safe.
    pub(crate) async fn failed(&mut self) -> Failure {
        if self.wait().await.is_ok_and(|status| status.success()) {
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
                let ended = format!("{program} at {host} ended with exit code {code}");
                let said = match printable::bytes(&self.greeting) {
                    text if text.is_empty() => String::new(),
                    text => format!(", after '{text}'"),
                };
                Failure::unavailable(format_args!("{ended}{said}"))
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
        let _ = timeout(END_TIMEOUT, self.wait()).await;
    }
}

/// Reads at least a byte. Waits for ever after the end of the output. Cancel safe.
async fn read(output: &mut Option<ChildStdout>, piece: &mut [u8]) -> usize {
    if let Some(pipe) = output
        && let Ok(read @ 1..) = pipe.read(piece).await
    {
        return read;
    }
    *output = None;
    std::future::pending().await
}

/// Returns the first ticket in the text, whose end has come if something follows it.
fn find_ticket(text: &[u8]) -> Option<Ticket> {
    let starts = text.windows(TICKET_START.len()).enumerate().filter(|(_, word)| *word == TICKET_START);
    starts.into_iter().find_map(|(at, _)| {
        let length = text[at..].iter().position(|byte| !byte.is_ascii_alphanumeric())?;
        std::str::from_utf8(&text[at..at + length]).ok()?.parse().ok()
    })
}
