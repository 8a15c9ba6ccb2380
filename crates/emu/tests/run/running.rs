//! Starts the program and checks what remains after it.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Environment variable that marks the processes of a run.
const MARK: &str = "RDT_EMU_TEST";

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-emu");

/// Environment variable that, if 1, makes a test fail that cannot run, instead of being skipped.
const REQUIRED: &str = "RDT_NAMESPACES";

/// Returns true if the host allows runs; else prints why not.
pub(crate) fn host_allows() -> bool {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    let refusal = REFUSAL.get_or_init(|| {
        let output = Command::new(PROGRAM).args(["run", "-q", "--", "true"]).output().unwrap();
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code() == Some(69)).then_some(sentence)
    });
    if let Some(sentence) = refusal {
        assert!(std::env::var_os(REQUIRED).is_none_or(|value| value != "1"), "not skipped: {sentence}");
        rdt_testing::skipped(sentence);
    }
    refusal.is_none()
}

/// Prepares `rdt-emu run` with `arguments`, split at spaces, and `command`.
pub(crate) fn run(arguments: &str, command: &[&str]) -> Run {
    run_with(&arguments.split_whitespace().collect::<Vec<_>>(), command)
}

/// Prepares `rdt-emu run` with arguments that may contain spaces.
pub(crate) fn run_with(arguments: &[&str], command: &[&str]) -> Run {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mark = format!("{}-{number}", std::process::id());
    let mut program = Command::new(PROGRAM);
    program.arg("run").args(arguments).arg("--").args(command).env(MARK, &mark);
    // So that no calibration of this host is found.
    program.env("XDG_STATE_HOME", "/there/is/none");
    Run { program, mark }
}

pub(crate) struct Run {
    program: Command,
    mark: String,
}

impl Run {
    pub(crate) fn with_stdout(mut self, file: File) -> Self {
        self.program.stdout(file);
        self
    }

    /// Runs the program to its end and checks that nothing remains.
    pub(crate) fn output(mut self) -> Output {
        let output = self.program.stdin(Stdio::null()).output().unwrap();
        assert_nothing_left(&self.mark);
        output
    }

    pub(crate) fn with_path(self, folders: &str) -> Self {
        self.with_env("PATH", folders)
    }

    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
        self.program.env(name, value);
        self
    }

    /// Starts the program and waits for the first output line of the command.
    pub(crate) fn start(self) -> Running {
        let mut running = self.spawn();
        let mut byte = [0];
        let mut line = Vec::new();
        while running.child.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        running.line = String::from_utf8(line).unwrap();
        running
    }

    /// Starts the program without waiting for output.
    pub(crate) fn spawn(mut self) -> Running {
        let program = self.program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { child: program.spawn().unwrap(), line: String::new(), mark: self.mark }
    }
}

pub(crate) struct Running {
    pub(crate) child: Child,
    /// First output line of the command; empty if it was not waited for.
    pub(crate) line: String,
    mark: String,
}

impl Running {
    /// Waits for the process of the run that has `argument`; returns its id outside of the
    /// namespaces.
    pub(crate) fn process(&self, argument: &str) -> u32 {
        let has = |id: &u32| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|each| each == argument.as_bytes())
        };
        let found = within_10_s(|| marked(&self.mark).into_iter().find(has));
        found.unwrap_or_else(|| panic!("no process {argument}"))
    }

    /// Waits until SIGTERM is no longer blocked, so that the run waits for the reader of its
    /// output.
    pub(crate) fn waits_for_its_reader(&self) {
        const SIGTERM: u64 = 1 << 14;
        let status = format!("/proc/{}/status", self.child.id());
        let blocked = || {
            let text = fs::read_to_string(&status).unwrap();
            let mask = text.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
            u64::from_str_radix(mask.trim(), 16).ok().filter(|mask| mask & SIGTERM == 0)
        };
        within_10_s(blocked).expect("signals are never let through");
    }

    /// Waits for the end and checks that nothing remains. Returns the exit code as a shell reports
    /// it, and the standard error.
    pub(crate) fn end(self) -> (i32, String) {
        let output = self.child.wait_with_output().unwrap();
        assert_nothing_left(&self.mark);
        (code(&output), String::from_utf8(output.stderr).unwrap())
    }
}

/// Returns the exit code as a shell reports it: 128 + signal.
pub(crate) fn code(output: &Output) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let status = output.status;
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    assert_eq!(code(output), 0, "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns what the program said, without the remark that this host was busy.
pub(crate) fn remarks(output: &Output) -> Vec<String> {
    let all = String::from_utf8(output.stderr.clone()).unwrap();
    all.lines()
        .filter(|line| !line.contains("this host, not the link, was the limit"))
        .map(str::to_owned)
        .collect()
}

pub(crate) fn kill(process: u32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}

/// Asserts that no process of the run remains; the last ones may end a moment later. A namespace
/// lasts as long as its processes, a device as long as its namespace.
fn assert_nothing_left(mark: &str) {
    if within_10_s(|| marked(mark).is_empty().then_some(())).is_none() {
        let line = |id: &u32| fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let left: Vec<_> = marked(mark).iter().map(line).collect();
        panic!("10 s after the end there is still {left:?}");
    }
}

/// Calls `ask` until it returns a value, for up to 10 s.
fn within_10_s<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    (0..1000).find_map(|_| {
        let answer = ask();
        if answer.is_none() {
            #[expect(clippy::disallowed_methods, reason = "waits for other processes")]
            std::thread::sleep(Duration::from_millis(10));
        }
        answer
    })
}

/// Returns the ids of the running processes with this mark.
fn marked(mark: &str) -> Vec<u32> {
    let entry = format!("{MARK}={mark}");
    let of_run = |path: &PathBuf| {
        // Processes that have ended, and those of other users, are not readable.
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|each| each == entry.as_bytes())
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|process| Some(process.ok()?.path()))
        .filter(of_run)
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .collect()
}
