//! Programs under test, killed when their handle is dropped. Every wait has a time limit.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// Limit of every wait.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Running program, with the lines of its standard output.
#[derive(Debug)]
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

/// End of a program.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Lines of the standard output.
    pub lines: Vec<String>,
    /// Standard error.
    pub errors: String,
}

impl Ended {
    /// Returns the last line, which is the summary with `--json`.
    pub fn summary(&self) -> Value {
        let line = self.lines.last().unwrap_or_else(|| panic!("no output: {self:?}"));
        serde_json::from_str(line).unwrap()
    }
}

impl Program {
    /// Starts a program, and reads its standard output and error if they are pipes.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (tell, lines) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
            });
        }
        let errors = child.stderr.take().map(|mut errors| {
            thread::spawn(move || {
                let mut text = Vec::new();
                let _ = errors.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })
        });
        Self { child, lines, errors }
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the program has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for a JSON event of this name.
    pub fn event(&self, name: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(WAIT_LIMIT);
            let line = line.unwrap_or_else(|error| panic!("no event {name}: {error}"));
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == name {
                return event;
            }
        }
    }

    /// Sends a signal to this program. Fails if it has ended.
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Kills the program, unless it has ended.
    pub fn kill(&mut self) {
        // Fails if it was waited for.
        let _ = self.child.kill();
    }

    /// Waits for the end.
    pub fn ended(mut self) -> Ended {
        let mut lines = Vec::new();
        // The channel ends with the program's output.
        while let Ok(line) = self.lines.recv_timeout(WAIT_LIMIT) {
            lines.push(line);
        }
        let code = self.wait().code();
        let errors = self.errors.take().map(|errors| errors.join().unwrap()).unwrap_or_default();
        Ended { code, lines, errors }
    }

    fn wait(&mut self) -> ExitStatus {
        for _ in 0..WAIT_LIMIT.as_millis() / 10 {
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
pub fn pause() {
    thread::sleep(Duration::from_millis(10));
}

/// Returns true if the program is installed; else prints that the test is skipped.
pub fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&folders).chain(["/usr/sbin".into()]);
    let found = folders.any(|folder| folder.join(program).is_file());
    if !found {
        rdt_testing::skipped(format!("{program} is not installed"));
    }
    found
}

/// Runs a command that must succeed, and returns its standard output.
pub fn output(command: &mut Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output.stdout
}

/// Returns the name of this user.
pub fn user() -> String {
    String::from_utf8(output(Command::new("id").arg("-un"))).unwrap().trim().to_owned()
}

/// Returns a TCP address whose port was free.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Returns true if the host allows `rdt-emu run`; else prints why not. With `RDT_NAMESPACES=1` a
/// host that does not is a failure.
pub fn allows_emulation(rdt_emu: &Path) -> bool {
    let is_required = std::env::var_os("RDT_NAMESPACES").is_some_and(|value| value == "1");
    let sentence = match Command::new(rdt_emu).args(["run", "-q", "--", "true"]).output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => format!("{}: {error}: build it with cargo build -p rdt-emu", rdt_emu.display()),
    };
    assert!(!is_required, "not skipped: {sentence}");
    rdt_testing::skipped(sentence);
    false
}

/// Server of another package, killed when its handle is dropped.
#[derive(Debug)]
pub struct Daemon(Child);

impl Daemon {
    /// Starts a server and waits until it listens.
    pub fn start(command: &mut Command, address: SocketAddr) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = Self(child.spawn().unwrap());
        for _ in 0..WAIT_LIMIT.as_millis() / 10 {
            if TcpStream::connect(address).is_ok() {
                return daemon;
            }
            pause();
        }
        panic!("{command:?} does not listen on {address}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keys and configuration of a private sshd, for this user.
#[derive(Debug)]
pub struct SshFiles {
    folder: PathBuf,
}

impl SshFiles {
    /// Makes the files for a server on `address`. Returns `None` if ssh cannot be tested here, and
    /// says why.
    pub fn new(folder: &Path, address: SocketAddr) -> Option<Self> {
        if !["sshd", "ssh", "ssh-keygen"].iter().all(|program| has(program)) {
            return None;
        }
        // The folder for sshd's unprivileged process is made by its service.
        if user() == "root" && fs::create_dir_all("/run/sshd").is_err() {
            rdt_testing::skipped("sshd has no folder /run/sshd");
            return None;
        }
        let files = Self { folder: folder.to_owned() };
        for name in ["host", "user"] {
            let path = folder.join(name);
            output(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path));
        }
        let config = format!(
            "ListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n",
            files.show("host"),
            files.show("user.pub")
        );
        fs::write(folder.join("sshd_config"), config).unwrap();
        Some(files)
    }

    fn show(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Returns the words of the command that runs the server.
    pub fn sshd(&self) -> [String; 5] {
        ["/usr/sbin/sshd", "-D", "-e", "-f", &self.show("sshd_config")].map(ToOwned::to_owned)
    }

    /// Starts the server.
    pub fn start(&self, address: SocketAddr) -> Daemon {
        let [sshd, args @ ..] = self.sshd();
        Daemon::start(Command::new(sshd).args(args), address)
    }

    /// Returns `ssh` with all options but the port and the host.
    pub fn ssh(&self) -> String {
        format!(
            "ssh -q -i {} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile={}",
            self.show("user"),
            self.show("ssh_known")
        )
    }
}
