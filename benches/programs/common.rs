//! Shared parts of the benches of whole programs: child processes, their JSON, medians.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Instant;

use rdt_udp::clock;
use serde_json::Value;

pub(crate) const SEND: &str = env!("CARGO_BIN_EXE_rdt-send");
pub(crate) const RECV: &str = env!("CARGO_BIN_EXE_rdt-recv");
/// Variable that names the directory of keys and known hosts, and that of the benches, so that the
/// user's stays as it is.
pub(crate) const CONFIG: (&str, &str) =
    ("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/bench-config"));

/// A child process that prints JSON objects, killed on drop.
pub(crate) struct Program {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn start(mut command: Command) -> Self {
        command.env(CONFIG.0, CONFIG.1).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program was built with this bench");
        let lines = BufReader::new(child.stdout.take().expect("its output is piped"));
        Self { child, lines }
    }

    /// Starts `rdt-send ARGS --json`.
    pub(crate) fn sender(args: &str) -> Self {
        let mut command = Command::new(SEND);
        command.args(args.split_whitespace()).arg("--json");
        Self::start(command)
    }

    /// Starts `rdt-recv ARGS --json` on a free port of the loopback interface; also returns its
    /// address.
    pub(crate) fn receiver(args: &str) -> (Self, String) {
        let mut command = Command::new(RECV);
        command.args(args.split_whitespace()).args(["--bind", "127.0.0.1:0", "--json"]);
        let mut program = Self::start(command);
        let address = program.line()["address"].as_str().expect("the first line has the address").to_string();
        (program, address)
    }

    pub(crate) fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("its input is piped")
    }

    /// Reads the next object; null at the end of the output.
    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("its output is text");
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    pub(crate) fn lines(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| Some(self.line()).filter(|line| !line.is_null())).collect()
    }

    pub(crate) fn last_line(&mut self) -> Value {
        self.lines().pop().unwrap_or_default()
    }

    /// Reads the output on a thread, so that the program never waits for its reader. Returns a
    /// function that interrupts the program and returns its last object.
    pub(crate) fn until_interrupted(mut self) -> impl FnOnce() -> Value {
        let pid = self.child.id().to_string();
        let reader = thread::spawn(move || self.last_line());
        move || {
            let sent =
                Command::new("kill").args(["-s", "INT", &pid]).status().expect("there is a kill program");
            assert!(sent.success(), "kill -s INT {pid}");
            reader.join().expect("reading does not fail")
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if the program has exited, as it has unless the bench failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a transfer that must succeed. Returns the summaries of `rdt-send` and `rdt-recv`.
/// `--insecure` of the sender goes to both, because neither gives the cipher up alone.
pub(crate) fn transfer(receiver: &str, sender: &str) -> (Value, Value) {
    let insecure = if sender.contains("--insecure") { " --insecure" } else { "" };
    let (mut recv, address) = Program::receiver(&format!("{receiver}{insecure} --once"));
    let sent = Program::sender(&format!("{address} {sender} --quiet")).last_line();
    if receiver.contains("--dummy") {
        assert_eq!(sent["exit_code"], 0, "rdt-send {sender}: {sent}");
    } else {
        assert_arrived(&sent);
    }
    (sent, recv.last_line())
}

/// Checks that `rdt-send` succeeded, and that the receiver of a classic transfer has the same
/// CRC-32. Native checks each packet.
pub(crate) fn assert_arrived(sent: &Value) {
    let same =
        sent["wire"] == "native" || sent["crc32"].is_string() && sent["crc32"] == sent["crc32_received"];
    assert!(sent["exit_code"] == 0 && same, "{sent}");
}

pub(crate) fn argument(name: &str, default: u64) -> u64 {
    let args: Vec<String> = env::args().collect();
    let at = args.iter().position(|arg| arg == name);
    at.and_then(|i| args.get(i + 1)?.parse().ok()).unwrap_or(default)
}

pub(crate) fn rounds(default: u64) -> usize {
    usize::try_from(argument("--rounds", default)).expect("a number of rounds")
}

/// Returns the median; NaN without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    sorted[last / 2].midpoint(sorted[last.div_ceil(2)])
}

/// Returns "met", or the names of the missed targets. `asked` has a name, and true if its target is
/// met.
pub(crate) fn verdict(asked: &[(&str, bool)]) -> String {
    let missed: Vec<_> = asked.iter().filter(|(_, met)| !met).map(|(name, _)| *name).collect();
    if missed.is_empty() { "met".into() } else { format!("missed: {}", missed.join(", ")) }
}

pub(crate) fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(f64::NAN)
}

/// Returns the processor time of both programs, seconds per GB.
pub(crate) fn cpu_per_gb(sent: &Value, received: &Value) -> f64 {
    let cpu = (number(sent, "processor_ns") + number(received, "processor_ns")) / 1e9;
    cpu / (number(sent, "bytes") / 1e9)
}

pub(crate) fn table(columns: &[&str]) {
    println!("| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
}

/// Processor time used by other processes during a bench. If it is high, the results are
/// unreliable.
pub(crate) struct Surroundings(Option<Times>, Instant);

/// Processor time since the system started, seconds.
#[derive(Clone, Copy)]
struct Times {
    /// Time of all processes, and of this process with its exited children.
    all: f64,
    own: f64,
    /// Time in interrupts, and in softirqs, which for example receive datagrams.
    irq: f64,
    softirq: f64,
    /// Steal time of the hypervisor.
    steal: f64,
}

impl Surroundings {
    pub(crate) fn now() -> Self {
        Self(Times::read(), clock::now())
    }

    /// Prints the processor time of other processes since `now`, if the system reports it.
    pub(crate) fn report(&self) {
        let (Some(before), Some(after)) = (self.0, Times::read()) else { return };
        let seconds = self.1.elapsed().as_secs_f64();
        let spent = |of: fn(&Times) -> f64| ((of(&after) - of(&before)) / seconds).max(0.0);
        println!(
            "\nOther processes took {:.2} processors meanwhile, the host {:.3} (steal), interrupts {:.3} and {:.3} (irq, softirq).",
            spent(|times| times.all - times.own),
            spent(|times| times.steal),
            spent(|times| times.irq),
            spent(|times| times.softirq),
        );
    }
}

impl Times {
    fn read() -> Option<Self> {
        // The kernel counts in hundredths of a second.
        let numbers = |text: &str| -> Vec<f64> {
            text.split_whitespace().filter_map(|n| n.parse::<f64>().ok()).map(|n| n / 100.0).collect()
        };
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let [user, nice, system, _idle, _iowait, irq, softirq, steal] =
            *numbers(stat.lines().next()?).first_chunk()?;
        let own = std::fs::read_to_string("/proc/self/stat").ok()?;
        // Fields after the name: a letter, ten numbers, user and system time, and those of exited
        // children.
        let own = numbers(own.rsplit_once(')')?.1).get(10..14)?.iter().sum();
        Some(Self { all: user + nice + system, own, irq, softirq, steal })
    }
}
