//! Runs on a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::running::{PROGRAM, host_allows};

const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// Shell script on a terminal of its own.
struct Seat {
    terminal: File,
    shell: Child,
    seen: String,
}

impl Seat {
    fn start(script: &str) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let open = || File::options().read(true).write(true).open(&name).unwrap();
        let mut shell = Command::new("setsid");
        shell.args(["--wait", "--ctty", "sh", "-c", script]).stdin(open()).stdout(open()).stderr(open());
        Self { terminal: terminal.into(), shell: shell.spawn().unwrap(), seen: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    fn sees(&mut self, part: &str) {
        while !self.seen.contains(part) {
            let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
            let timeout = Timespec::try_from(WAIT_LIMIT).unwrap();
            assert_eq!(poll(&mut fds, Some(&timeout)).unwrap(), 1, "no {part} in {}", self.seen);
            let mut bytes = [0; 1024];
            // Fails once the script has closed the terminal.
            let read = self.terminal.read(&mut bytes).unwrap_or_default();
            assert!(read > 0, "no {part} in {}", self.seen);
            self.seen += &String::from_utf8_lossy(&bytes[..read]);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Fails if the shell has ended.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Returns true if `setsid` exists, which starts a script on a terminal of its own.
fn can_sit() -> bool {
    let can = Command::new("setsid").args(["--wait", "true"]).status().is_ok_and(|status| status.success());
    if !can {
        rdt_testing::skipped("there is no `setsid`");
    }
    can && host_allows()
}

#[test]
fn shell_inside_gets_and_returns_terminal() {
    if !can_sit() {
        return;
    }
    let script = format!("{PROGRAM} run -q -- sh -i; echo code $?; read line; echo got $line");
    let mut seat = Seat::start(&script);
    seat.types("echo in''side; exit 3\n");
    seat.sees("inside");
    seat.sees("code 3");
    seat.types("hello\n");
    seat.sees("got hello");
}

#[test]
fn stop_key_stops_and_continues_run() {
    if !can_sit() {
        return;
    }
    let mut seat = Seat::start("exec sh -i");
    seat.types(&format!("{PROGRAM} run -q -- sh -c 'while read line; do echo +$line; done; exit 3'\n"));
    seat.types("one\n");
    seat.sees("+one");
    seat.types("\x1a");
    seat.sees("Stopped");
    seat.types("echo out''side\n");
    seat.sees("outside");
    seat.types("fg\n");
    seat.types("two\n");
    seat.sees("+two");
    // End of input.
    seat.types("\x04");
    seat.types("echo code $?\n");
    seat.sees("code 3");
}

#[test]
fn hangup_reaches_command_of_session_leader() {
    if !can_sit() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("end");
    let command =
        format!("trap \"echo hup >{}; exit 5\" HUP; echo up; while :; do sleep 0.1; done", file.display());
    // Under nohup, which ignores the signal, no shell could trap it.
    let mut seat = Seat::start(&format!("exec env --default-signal=HUP {PROGRAM} run -- sh -c '{command}'"));
    seat.sees("up");
    // Closes the terminal, as the end of a window or of `ssh -t` does.
    seat.terminal = File::open("/dev/null").unwrap();
    let ended = (0..200).find_map(|_| {
        #[expect(clippy::disallowed_methods, reason = "waits for another process")]
        std::thread::sleep(WAIT_LIMIT / 200);
        seat.shell.try_wait().unwrap()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(5), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hup\n");
}

#[test]
fn command_in_pipeline_keeps_terminal_shared() {
    if !can_sit() {
        return;
    }
    let reader = "{ read first; read line </dev/tty; echo got $first $line; }";
    let mut seat = Seat::start(&format!("{PROGRAM} run -q -- sh -c 'echo first; sleep 0.2' | {reader}"));
    seat.types("hello\n");
    seat.sees("got first hello");
}
