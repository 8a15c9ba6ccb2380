//! Programs of a repetition in real time: started behind the path of `rdt-emu run` or without a
//! path, and ended with the repetition, whatever they do.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rdt_emulator::spec::PathSpec;
use rdt_emulator::{Bitrate, child_seed};
use rdt_program::Stop;
use rdt_program::exit::{CONFIG, UNAVAILABLE, USAGE};
use rdt_udp::clock;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::Value;

use super::EngineError;
use crate::flow::{DEFAULT_PACKET, UDP_HEADERS, UDP_HEADERS_IPV6};

/// Interval of the checks whether a program has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Time from SIGTERM to SIGKILL for a server.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(1);

/// Limit on each output of a user's program, bytes: it is read into memory.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// The program `rdt-lab`, which is also the load program and `rdt-emu`.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the program `rdt-lab`, which the engines of real time start for each repetition. The
/// program itself calls this; tests and other programs that use this library must do so.
pub fn use_program(program: PathBuf) {
    PROGRAM.get_or_init(|| program);
}

pub(super) fn program() -> Result<&'static Path, EngineError> {
    PROGRAM.get().map(PathBuf::as_path).ok_or_else(|| {
        EngineError::Unavailable("engines of real time run in the program rdt-lab only".to_owned())
    })
}

pub(super) fn cannot(step: &str, error: &io::Error) -> EngineError {
    EngineError::Unavailable(format!("the engine cannot {step}: {error}"))
}

/// Returns an error if this host refuses namespaces. They are tried once in a process.
pub(super) fn check_namespaces() -> Result<(), EngineError> {
    static TRIED: OnceLock<Result<(), EngineError>> = OnceLock::new();
    TRIED.get_or_init(try_namespaces).clone()
}

/// Returns true if this host carries a rate behind an emulated path. Takes one to three seconds.
pub(super) fn holds(rate: Bitrate) -> Result<bool, EngineError> {
    rdt_emu::holds(program()?, rate).map_err(EngineError::Unavailable)
}

/// Runs a command that does nothing behind a path.
fn try_namespaces() -> Result<(), EngineError> {
    let links = [PathSpec::default()];
    let behind = Behind { links: &links, ..Behind::default() };
    let command = [program()?.into(), "load".into(), "--try".into()];
    let ended = behind.run(&command, None, &Stop::default())?;
    if ended.status.success() {
        return Ok(());
    }
    let sentence = ended.sentence();
    // This remedy is for other programs than the lab's.
    let sentence = sentence.trim_end_matches(". `rdt-emu proxy` needs none of this");
    Err(EngineError::Unavailable(format!(
        "this host has no network namespaces for an emulated path: {sentence}; '--engine virtual' needs no rights"
    )))
}

/// Place of programs at the two ends of an emulated path.
#[derive(Debug, Default)]
pub(super) struct Behind<'a> {
    /// Links in series, from the near end on. The run of `rdt-emu` for each is inside the next one.
    pub(super) links: &'a [PathSpec],
    pub(super) seed: u64,
    /// MTU of the devices at both ends of each link, bytes.
    pub(super) device_mtus: &'a [u32],
    /// True if the ends have IPv6 addresses too, and all traffic uses them.
    pub(super) ipv6: bool,
    /// Shell command line of a program at the far end. It is started first.
    pub(super) server: Option<OsString>,
    /// File with the process number of that program, by which the command finds its namespace.
    pub(super) far: Option<&'a Path>,
    /// File for a capture of the first link, and the bytes that it keeps of each packet. 0: all.
    pub(super) capture: Option<(&'a Path, u32)>,
    /// Interval of the links' reports, which show their use over time. `None`: only at the end.
    pub(super) report_interval: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct LinkAccount {
    /// Account at the end, as `rdt-emu run --json` prints it.
    pub(super) end: Value,
    /// Times of the reports in seconds of the system's monotonic clock, and the seconds that the
    /// forward and the reverse serialiser had worked by then. The last one is the end.
    worked: Vec<(f64, [f64; 2])>,
}

impl LinkAccount {
    /// Reads the account from the lines of `--json-stream`. `None` if the run did not end.
    pub(super) fn read(lines: impl Iterator<Item = String>) -> Option<Self> {
        let mut account = Self { end: Value::Null, worked: Vec::new() };
        for line in lines {
            let Ok(report) = serde_json::from_str::<Value>(&line) else { continue };
            let seconds = |value: &Value| value.as_f64().map(|nanos| nanos / 1e9);
            let busy = [&report["forward"], &report["reverse"]].map(|link| seconds(&link["busy_ns"]));
            if let (Some(at), [Some(forward), Some(reverse)]) = (seconds(&report["monotonic_ns"]), busy) {
                account.worked.push((at, [forward, reverse]));
            }
            account.end = report;
        }
        (account.end["event"] == "end").then_some(account)
    }

    /// Returns the share of `span` seconds from `start` on in which the serialiser of a direction
    /// (0 forward, 1 reverse) worked: evenly between two reports, and not before `start`.
    pub(super) fn utilisation(&self, direction: usize, start: f64, span: f64) -> Option<f64> {
        let end = start + span;
        let mut before = (start, 0.0);
        for (at, worked) in self.worked.iter().map(|(at, worked)| (*at, worked[direction])) {
            if at >= end {
                let share = (end - before.0) / (at - before.0);
                before.1 += share * (worked - before.1);
                break;
            }
            if at > start {
                before = (at, worked);
            }
        }
        (!self.worked.is_empty() && span > 0.0).then(|| (before.1 / span).min(1.0))
    }
}

/// Shell script that opens the network namespace of the far end before a nested run, in whose PID
/// namespace the far end has no number.
const OPEN_FAR: &str =
    "read -r far < \"$0\"; exec 9< \"/proc/$far/ns/net\"; export RDT_LAB_FAR=/proc/self/fd/9; exec \"$@\"";

impl Behind<'_> {
    /// Runs `command` at the near end, and returns its results with the accounts of the links.
    pub(super) fn run(
        &self,
        command: &[OsString],
        limit: Option<Duration>,
        stop: &Stop,
    ) -> Result<Ended, EngineError> {
        let folder = tempfile::tempdir().map_err(|error| cannot("create a folder", &error))?;
        let account = |index: usize| folder.path().join(format!("account-{index}.json"));
        let mut line = command.to_vec();
        for (index, link) in self.links.iter().enumerate() {
            let path = folder.path().join(format!("path-{index}.toml"));
            let mut link = link.clone();
            // `rdt-emu` sees whole IP packets, so it must not add their headers.
            link.contain_headers(if self.ipv6 { UDP_HEADERS_IPV6 } else { UDP_HEADERS });
            fs::write(&path, link.to_toml()).map_err(|error| cannot("write a file", &error))?;
            if index > 0 {
                line.splice(..0, self.nested(index + 1 == self.links.len())?);
            }
            line.splice(..0, self.emulator(path, account(index), index));
        }
        let mut emulator = Command::new(program()?);
        emulator.arg0("rdt-emu").args(line);
        let mut ended = Group::start(emulator, folder.path())?.end(limit, stop)?;
        let read = |index| {
            let file = File::open(account(index)).ok()?;
            LinkAccount::read(BufReader::new(file).lines().map_while(Result::ok))
        };
        ended.accounts = (0..self.links.len()).map_while(read).collect();
        Ok(ended)
    }

    /// Returns the arguments of `rdt-emu` for a link, before those of its command.
    fn emulator(&self, path: PathBuf, account: PathBuf, index: usize) -> Vec<OsString> {
        let is_outermost = index + 1 == self.links.len();
        let server = self.server.iter().filter(|_| is_outermost);
        // Links with equal seeds would lose the same packets.
        let seed = if index == 0 { self.seed } else { child_seed(self.seed, index as u64) };
        let words = ["run", "--quiet", "--path"].map(OsString::from).into_iter().chain([path.into()]);
        let device_mtu = self.device_mtus.get(index).copied().unwrap_or(DEFAULT_PACKET);
        let options = [format!("--seed={seed}"), format!("--device-mtu={device_mtu}")];
        let options = options.map(OsString::from).into_iter().chain(["--json-to".into(), account.into()]);
        let options = options.chain(self.ipv6.then(|| "--ipv6".into()));
        let server = server.flat_map(|server| ["--server".into(), server.clone()]);
        let capture = self.capture.iter().filter(|_| index == 0);
        let capture = capture.flat_map(|(file, snaplen)| {
            let snaplen = (*snaplen > 0).then(|| format!("--snaplen={snaplen}").into());
            // An earlier try of the repetition may have left a capture.
            ["--force".into(), "--pcapng".into(), OsString::from(file)].into_iter().chain(snaplen)
        });
        let reports = self.report_interval.map(|it| format!("--json-stream={}ms", it.as_millis()).into());
        words.chain(options).chain(reports).chain(server).chain(capture).chain(["--".into()]).collect()
    }

    /// Returns the arguments by which the command of a run starts a nested run.
    fn nested(&self, is_outermost: bool) -> Result<Vec<OsString>, EngineError> {
        let emulate = [program()?.into(), "load".into(), "--emulator".into()];
        let far = self.far.filter(|_| is_outermost).map(|far| {
            let shell = ["sh", "-c", OPEN_FAR].map(OsString::from);
            shell.into_iter().chain([far.into()])
        });
        Ok(far.into_iter().flatten().chain(emulate).collect())
    }
}

pub(super) fn run_here(command: Command, limit: Option<Duration>, stop: &Stop) -> Result<Ended, EngineError> {
    let folder = tempfile::tempdir().map_err(|error| cannot("create a folder", &error))?;
    Group::start(command, folder.path())?.end(limit, stop)
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
    /// Accounts of the links, up to the first run that printed none.
    pub(super) accounts: Vec<LinkAccount>,
}

impl Ended {
    /// Returns the last sentence on the standard error, without the name of the program.
    pub(super) fn sentence(&self) -> String {
        let last = self.stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        match last.split_once(": ") {
            Some(("rdt-lab" | "rdt-emu", sentence)) => sentence.to_owned(),
            _ if last.is_empty() => format!("it ended with {}", self.status),
            _ => last.to_owned(),
        }
    }

    /// Returns the error that the exit code means if the program was the load program or `rdt-emu`.
    pub(super) fn own_error(&self) -> Option<EngineError> {
        match self.status.code() {
            Some(0) => None,
            Some(code) if code == i32::from(USAGE) => Some(EngineError::Word(self.sentence())),
            Some(code) if [CONFIG, UNAVAILABLE].map(i32::from).contains(&code) => {
                Some(EngineError::Unavailable(self.sentence()))
            }
            _ => Some(EngineError::Failed(format!("the load program failed: {}", self.sentence()))),
        }
    }

    /// True if `rdt-emu run` said at its end that the host was too slow for the path.
    pub(super) fn is_host_limited(&self) -> bool {
        self.stderr.contains(&format!("{}, was", rdt_emu::HOST_BLAME))
    }
}

/// Process group of a started program. Its processes are killed when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    started: Instant,
    /// Files with the outputs. A pipe would stay open in processes that left the group.
    outputs: [PathBuf; 2],
}

impl Group {
    /// Starts a program, whose outputs go to files in `folder`.
    pub(super) fn start(mut command: Command, folder: &Path) -> Result<Self, EngineError> {
        let outputs = ["stdout", "stderr"].map(|name| folder.join(name));
        let open = |file: &PathBuf| File::create(file).map_err(|error| cannot("create a file", &error));
        command.stdin(Stdio::null()).stdout(open(&outputs[0])?).stderr(open(&outputs[1])?).process_group(0);
        let started = clock::now();
        let name = command.get_program().to_string_lossy().into_owned();
        let leader = command.spawn().map_err(|error| cannot(&format!("start {name}"), &error))?;
        Ok(Self { leader, started, outputs })
    }

    /// Waits for the end of the program, and returns its results. With a `limit` on its time, its
    /// output is limited to [`MAX_OUTPUT_BYTES`], too.
    ///
    /// # Errors
    /// The program was ended because it exceeded a limit, or `stop` was set.
    pub(super) fn end(mut self, limit: Option<Duration>, stop: &Stop) -> Result<Ended, EngineError> {
        while !self.has_ended() {
            if stop.is_set() {
                return Err(EngineError::Failed("it was interrupted".to_owned()));
            }
            if let Some(limit) = limit {
                self.check(limit)?;
            }
            pause();
        }
        let stdout = fs::read(&self.outputs[0]).unwrap_or_default();
        let stderr = self.stderr();
        let status = self.kill().map_err(|error| cannot("wait for a program", &error))?;
        Ok(Ended { status, stdout, stderr, accounts: Vec::new() })
    }

    /// Returns an error if the program has exceeded its time or its output.
    fn check(&self, limit: Duration) -> Result<(), EngineError> {
        let is_long = |file: &PathBuf| fs::metadata(file).is_ok_and(|it| it.len() > MAX_OUTPUT_BYTES);
        if self.outputs.iter().any(is_long) {
            return Err(EngineError::Failed(format!(
                "the program printed more than {} MiB, and was ended: write to a file instead",
                MAX_OUTPUT_BYTES >> 20
            )));
        }
        if clock::now().duration_since(self.started) <= limit {
            return Ok(());
        }
        let stderr = self.stderr();
        let said = stderr.lines().last().map_or(String::new(), |line| format!(": {line}"));
        Err(EngineError::Failed(format!(
            "the program did not end within {} s, and was ended{said}",
            limit.as_secs_f64()
        )))
    }

    /// True if the program has ended. It is not reaped, so that the group keeps its number.
    pub(super) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.leader)), options), Ok(None))
    }

    pub(super) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.outputs[1]).unwrap_or_default()).into_owned()
    }

    /// Ends the group with SIGTERM, after a timeout with SIGKILL, and returns its standard error.
    pub(super) fn terminate(self) -> String {
        // Fails if the group has no process left.
        let _ = kill_process_group(Pid::from_child(&self.leader), Signal::TERM);
        let latest = clock::now() + TERMINATION_TIMEOUT;
        while !self.has_ended() && clock::now() < latest {
            pause();
        }
        self.stderr()
    }

    /// True if a process of the group has bound a TCP or UDP port.
    pub(super) fn has_bound_a_port(&self) -> bool {
        let inodes: BTreeSet<u64> = self.processes().iter().flat_map(|process| sockets(*process)).collect();
        ["tcp", "tcp6", "udp", "udp6"].iter().any(|protocol| {
            let table = fs::read_to_string(format!("/proc/net/{protocol}")).unwrap_or_default();
            // Column 10 is the inode of the socket.
            let inode = |line: &str| line.split_whitespace().nth(9).and_then(|it| it.parse().ok());
            table.lines().skip(1).filter_map(inode).any(|inode: u64| inodes.contains(&inode))
        })
    }

    fn processes(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|process| group_of(*process) == Some(self.leader.id())).collect()
    }

    /// Kills what is left of the group, and returns the status of the program.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        // Fails if the group has no process left.
        let _ = kill_process_group(Pid::from_child(&self.leader), Signal::KILL);
        self.leader.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Returns the process group of a process (`/proc/PID/stat`).
fn group_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may have spaces. State, parent and group follow it.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(2)?.parse().ok()
}

/// Returns the inodes of the sockets of a process.
fn sockets(process: u32) -> Vec<u64> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let inode =
        |target: &Path| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
    files.filter_map(|file| inode(&fs::read_link(file.path()).ok()?)).collect()
}

#[expect(clippy::disallowed_methods, reason = "waits for processes in real time")]
pub(super) fn pause() {
    std::thread::sleep(POLL_INTERVAL);
}

/// Returns a path in quotes for a shell.
pub(super) fn quoted(path: &Path) -> Result<String, EngineError> {
    let text = path.to_str().filter(|text| !text.contains('\''));
    text.map(|text| format!("'{text}'")).ok_or_else(|| {
        EngineError::Unavailable(format!(
            "{} cannot be started by a shell: the path is not text or has a quote; move the program",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_output_ends_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let group = Group::start(Command::new("yes"), folder.path()).expect("a program");
        let limit = Some(Duration::from_secs(60));
        let error = group.end(limit, &Stop::default()).expect_err("too much output");
        assert!(error.to_string().contains("64 MiB"), "{error}");
    }
}
