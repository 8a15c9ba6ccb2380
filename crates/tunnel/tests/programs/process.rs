//! Programs under test, killed when their handle is dropped. Every wait has a time limit.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-tunnel");
/// Limit of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Folder of the keys of a test's programs.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that others may not read.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;

        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Returns a command whose arguments are separated by blanks. `user` has a folder of keys of
    /// its own.
    pub(crate) fn command(&self, user: &str, args: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args.split_whitespace()).env("XDG_CONFIG_HOME", self.path(user));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a program to its end.
    pub(crate) fn run(&self, user: &str, args: &str) -> Ended {
        Program::start(&mut self.command(user, args)).ended()
    }

    /// Starts `serve` for a target, on a free port of the loopback interface.
    pub(crate) fn serve(&self, target: SocketAddr, options: &str) -> Serve {
        let args = format!("serve --to {target} --listen 127.0.0.1:0 --json {options}");
        let program = Program::start(&mut self.command("server", &args));
        let listening = program.event("listening");
        let address = listening["address"].as_str().unwrap().parse().unwrap();
        let tickets = listening["tickets"].as_array().unwrap();
        let tickets = tickets.iter().map(|ticket| ticket.as_str().unwrap().to_owned()).collect();
        Serve { program, address, tickets }
    }

    /// Starts `connect` on a free TCP port.
    pub(crate) fn connect(&self, user: &str, remote: &str, options: &str) -> Connect {
        let args = format!("connect {remote} --listen 127.0.0.1:0 --json {options}");
        let program = Program::start(&mut self.command(user, &args));
        let address = program.event("listening")["address"].as_str().unwrap().parse().unwrap();
        Connect { program, address }
    }
}

pub(crate) struct Serve {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
    pub(crate) tickets: Vec<String>,
}

pub(crate) struct Connect {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
}

/// Running program, with the lines of its standard output.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

/// End of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) lines: Vec<String>,
    pub(crate) errors: String,
}

impl Ended {
    /// Returns the last line, which is the summary with `--json`.
    pub(crate) fn summary(&self) -> Value {
        let line = self.lines.last().unwrap_or_else(|| panic!("no output: {self:?}"));
        serde_json::from_str(line).unwrap()
    }
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (tell, lines) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
            });
        }
        let errors = child.stderr.take().map(|mut errors| {
            thread::spawn(move || {
                let mut text = String::new();
                errors.read_to_string(&mut text).map(|_| text).unwrap_or_default()
            })
        });
        Self { child, lines, errors }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a JSON event of this name.
    pub(crate) fn event(&self, name: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("no event {name}: {error}"));
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == name {
                return event;
            }
        }
    }

    /// Sends a signal to this program.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Waits for the end.
    pub(crate) fn ended(mut self) -> Ended {
        let mut lines = Vec::new();
        // The channel ends with the program's output.
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            lines.push(line);
        }
        let code = self.wait().code();
        let errors = self.errors.take().map(|errors| errors.join().unwrap()).unwrap_or_default();
        Ended { code, lines, errors }
    }

    fn wait(&mut self) -> ExitStatus {
        for _ in 0..PATIENCE.as_millis() / 10 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            pause();
        }
        panic!("still running: {}", self.failed());
    }

    /// Kills the program, and returns what it said.
    fn failed(&mut self) -> String {
        let _ = self.child.kill();
        self.errors.take().map(|errors| errors.join().unwrap()).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if the program has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits before another look at a different process.
#[expect(clippy::disallowed_methods, reason = "the other process gives no sign")]
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(10));
}

/// Returns true if the program is installed; else prints that the test is skipped.
pub(crate) fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&folders).chain(["/usr/sbin".into()]);
    let found = folders.any(|folder| folder.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}
