//! Programs under test, killed when their handle is dropped. Every wait is for output or exit, with
//! a time limit. A failing test prints the command and output of each program.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use rdt_program_testing::contract::Contract;
use serde_json::Value;

pub(super) const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Folder with the keys of all programs, empty at the start of the tests.
static CONFIG: LazyLock<&Path> = LazyLock::new(|| {
    let folder = Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/config"));
    // Fails if there were no tests before.
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).unwrap();
    folder
});

static SEND_CONTRACT: LazyLock<Option<Contract>> = LazyLock::new(|| Contract::load("rdt-send.json"));
static RECV_CONTRACT: LazyLock<Option<Contract>> = LazyLock::new(|| Contract::load("rdt-recv.json"));

/// Returns an `rdt-send` command with these arguments, separated by blanks.
pub(super) fn rdt_send(args: &str) -> Command {
    command(env!("CARGO_BIN_EXE_rdt-send"), args)
}

/// Returns an `rdt-recv` command with these arguments, separated by blanks.
pub(super) fn rdt_recv(args: &str) -> Command {
    command(env!("CARGO_BIN_EXE_rdt-recv"), args)
}

/// Returns a command for `rdt-recv` with these arguments, run by a shell after its command `first`.
#[cfg(unix)]
pub(super) fn rdt_recv_after(first: &str, args: &[&str]) -> Command {
    let mut shell = command("sh", "-c");
    shell.arg(format!("{first}; exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_rdt-recv")).args(args);
    shell
}

fn command(program: &str, args: &str) -> Command {
    let mut command = Command::new(program);
    command.args(args.split_ascii_whitespace());
    command.env("XDG_CONFIG_HOME", *CONFIG);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns a number of a summary.
pub(super) fn number(summary: &Value, key: &str) -> f64 {
    summary[key].as_f64().unwrap_or_else(|| panic!("{key} in {summary}"))
}

pub(super) fn send(args: &str) -> Ended {
    Program::start(&mut rdt_send(args)).ended()
}

/// Output of a program, collected by a thread.
#[derive(Default)]
struct Printed {
    text: Mutex<(Vec<u8>, bool)>,
    changed: Condvar,
}

impl Printed {
    /// Collects the output of `pipe` on a thread: all of it, or only the first line.
    fn collect(pipe: Option<impl Read + Send + 'static>, first_line_only: bool) -> Arc<Self> {
        let printed = Arc::new(Self::default());
        let Some(mut pipe) = pipe else {
            printed.text.lock().unwrap().1 = true;
            return printed;
        };
        let writer = Arc::clone(&printed);
        thread::spawn(move || {
            let mut chunk = vec![0; 64 * 1024];
            loop {
                let n = pipe.read(&mut chunk).unwrap_or(0);
                let mut text = writer.text.lock().unwrap();
                text.0.extend_from_slice(&chunk[..n]);
                text.1 = n == 0 || first_line_only && text.0.contains(&b'\n');
                writer.changed.notify_all();
                if text.1 {
                    return;
                }
            }
        });
        printed
    }

    fn so_far(&self) -> String {
        let text = self.text.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&text.0).into_owned()
    }

    /// Waits until `wanted` returns a value; `None` if the output ends first.
    fn wait<T>(&self, mut wanted: impl FnMut(&[u8], bool) -> Option<T>) -> Option<T> {
        let mut found = None;
        let text = self.text.lock().unwrap();
        let waiting = |text: &mut (Vec<u8>, bool)| {
            found = wanted(&text.0, text.1);
            found.is_none() && !text.1
        };
        drop(self.changed.wait_timeout_while(text, WAIT_LIMIT, waiting).unwrap());
        found
    }

    /// Waits for a complete line that `wanted` accepts; `None` if the output ends first.
    fn line(&self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        self.wait(|text, _| {
            let whole = text.iter().rposition(|byte| *byte == b'\n')?;
            let text = String::from_utf8_lossy(&text[..whole]);
            text.lines().find(|line| wanted(line)).map(str::to_string)
        })
    }
}

pub(super) struct Program {
    command: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Arc<Printed>,
    stderr: Arc<Printed>,
}

impl Program {
    /// Starts a program. Collects its outputs unless `command` redirects them.
    pub(super) fn start(command: &mut Command) -> Self {
        Self::start_reading(command, false)
    }

    /// Starts a program whose standard output is closed after one line.
    pub(super) fn start_for_one_line(command: &mut Command) -> Self {
        Self::start_reading(command, true)
    }

    fn start_reading(command: &mut Command, first_line_only: bool) -> Self {
        let mut child = command.spawn().unwrap();
        Self {
            command: format!("{command:?}"),
            stdin: child.stdin.take(),
            stdout: Printed::collect(child.stdout.take(), first_line_only),
            stderr: Printed::collect(child.stderr.take(), false),
            child,
        }
    }

    /// Waits for a line of the standard output that contains `wanted`.
    pub(super) fn line(&self, wanted: &str) -> String {
        self.line_where(wanted, |line| line.contains(wanted))
    }

    /// Waits for a line that contains `wanted`; `None` if the output ends first.
    pub(super) fn line_or_end(&self, wanted: &str) -> Option<String> {
        self.stdout.line(|line| line.contains(wanted))
    }

    /// Waits for a line of the standard output that `wanted` accepts; `what` describes the line in
    /// a failure message.
    pub(super) fn line_where(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        self.stdout.line(wanted).unwrap_or_else(|| panic!("no line with {what}"))
    }

    /// Waits for a line of the standard error that contains `wanted`.
    pub(super) fn error_line(&self, wanted: &str) -> String {
        self.stderr.line(|line| line.contains(wanted)).unwrap_or_else(|| panic!("no line with {wanted}"))
    }

    /// Waits until the standard output has `bytes` bytes.
    pub(super) fn has_printed(&self, bytes: usize) {
        let enough = self.stdout.wait(|text, _| (text.len() >= bytes).then_some(()));
        assert!(enough.is_some(), "fewer than {bytes} bytes");
    }

    /// Writes a few bytes (at most a pipe buffer) to the standard input, and leaves it open.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("the standard input is a pipe").write_all(bytes).unwrap();
    }

    pub(super) fn without_more_input(mut self) -> Self {
        self.stdin = None;
        self
    }

    /// Writes `data` to the standard input in pieces of these sizes, cyclically, and closes it.
    /// After each piece, waits for one more line of output.
    pub(super) fn feed(&mut self, data: Vec<u8>, sizes: &'static [usize]) {
        let mut stdin = self.stdin.take().expect("the standard input is a pipe");
        let stdout = Arc::clone(&self.stdout);
        let lines = |text: &[u8]| text.split(|byte| *byte == b'\n').count();
        thread::spawn(move || {
            let mut rest = &data[..];
            for size in sizes.iter().cycle() {
                let seen = lines(&stdout.text.lock().unwrap().0);
                let piece = rest.split_off(..rest.len().min(*size)).unwrap();
                // If the program has exited, its exit code shows why.
                if stdin.write_all(piece).is_err() || rest.is_empty() {
                    return;
                }
                stdout.wait(|text, _| (lines(text) > seen).then_some(()));
            }
        });
    }

    /// Sends a signal: `INT`, `TERM`, `KILL`, or `STOP`. After `STOP`, waits until the program is
    /// stopped.
    #[cfg(unix)]
    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success(), "kill -s {name} {pid}");
        if name == "STOP" {
            self.until_stopped();
        }
    }

    /// Waits until all threads are stopped, because a thread may still run after the signal.
    #[cfg(unix)]
    fn until_stopped(&self) {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else {
            // Without /proc, it cannot be observed whether the threads are stopped.
            return;
        };
        for task in threads.flatten() {
            let stopped = || {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('T'))
            };
            while !stopped() {
                thread::yield_now();
            }
        }
    }

    /// Returns the text of a file in the directory of the program in /proc.
    #[cfg(target_os = "linux")]
    pub(super) fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// Returns the resident memory of the program, bytes.
    #[cfg(target_os = "linux")]
    pub(super) fn resident_bytes(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    pub(super) fn ended(mut self) -> Ended {
        let ends = [&self.stdout, &self.stderr].map(|output| output.wait(|_, ended| ended.then_some(())));
        assert!(ends.iter().all(Option::is_some), "the program does not end");
        let status = self.child.wait().unwrap();
        let stdout = self.stdout.text.lock().unwrap().0.clone();
        Ended { command: self.command.clone(), status, stdout, stderr: self.stderr.so_far() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if the program has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            show(&self.command, &self.stdout.so_far(), &self.stderr.so_far());
        }
    }
}

pub(super) struct Ended {
    command: String,
    status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl Ended {
    /// Returns the exit code; panics if a signal ended the program.
    pub(super) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{}", self.status))
    }

    pub(super) fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "exit code");
        self
    }

    pub(super) fn lines(&self) -> Vec<&str> {
        std::str::from_utf8(&self.stdout).unwrap().lines().collect()
    }

    /// Returns the only line of the standard output that starts with `start`.
    pub(super) fn line(&self, start: &str) -> &str {
        let lines: Vec<_> = self.lines().into_iter().filter(|line| line.starts_with(start)).collect();
        assert_eq!(lines.len(), 1, "lines that start with '{start}'");
        lines[0]
    }

    /// Returns the lines of the standard error that `rdt-recv` does not always print.
    pub(super) fn remarks(&self) -> Vec<&str> {
        let usual = |line: &&str| line.starts_with("own key ") || line.starts_with("received ");
        self.stderr.lines().filter(|line| !usual(line)).collect()
    }

    /// Returns the JSON objects, after a check that each fits the schema of the program.
    pub(super) fn objects(&self) -> Vec<Value> {
        let objects: Vec<_> =
            self.lines().into_iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let contract = if self.command.contains("rdt-recv\"") { &*RECV_CONTRACT } else { &*SEND_CONTRACT };
        if let Some(contract) = contract {
            for event in &objects {
                contract.check_event(event);
            }
        }
        objects
    }

    /// Returns the summary, which is the last object.
    pub(super) fn summary(&self) -> Value {
        let last = self.objects().pop().expect("no output");
        assert_eq!(last["event"], "summary");
        last
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if thread::panicking() {
            show(&self.command, &String::from_utf8_lossy(&self.stdout), &self.stderr);
        }
    }
}

fn show(command: &str, stdout: &str, stderr: &str) {
    let stdout: String = stdout.chars().take(4000).collect();
    eprintln!("{command}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---");
}

/// A running `rdt-recv` with a bound socket.
pub(super) struct Receiver {
    pub(super) program: Program,
    pub(super) address: SocketAddr,
}

impl Receiver {
    /// Starts a receiver on the IPv4 loopback.
    pub(super) fn start(args: &str) -> Self {
        Self::from(&mut rdt_recv(&format!("--bind 127.0.0.1:0 {args}")))
    }

    pub(super) fn keeping(output: &Path, args: &str) -> Self {
        let mut command = rdt_recv(&format!("--bind 127.0.0.1:0 --no-link {args}"));
        Self::from(command.arg("--output").arg(output))
    }

    /// Starts `command`, and waits until it has printed its address.
    pub(super) fn from(command: &mut Command) -> Self {
        let program = Program::start(command);
        let to_stdout = program.command.contains("\"--output\" \"-\"");
        let line = if to_stdout { program.error_line("initialized") } else { program.line("initialized") };
        let address = match serde_json::from_str::<Value>(&line) {
            Ok(event) => event["address"].as_str().unwrap().parse(),
            Err(_) => line.rsplit(' ').next().unwrap().parse(),
        };
        Self { program, address: address.unwrap() }
    }

    /// Returns arguments of `rdt-send` with this receiver as HOST.
    pub(super) fn args(&self, args: &str) -> String {
        format!("{} {args}", self.address)
    }

    /// Sends SIGINT and waits for the exit.
    #[cfg(unix)]
    pub(super) fn interrupted(self) -> Ended {
        self.program.signal("INT");
        self.program.ended()
    }
}
