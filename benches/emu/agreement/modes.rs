//! Measurement in the proxy and in a namespace, and the table.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::time::{ClockId, clock_gettime};

use super::ends::{self, Arrival};
use super::model::{self, Difference};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-emu");
/// Path of both modes and of the model.
pub(crate) const PATH: [&str; 6] =
    ["--rtt=100ms", "--rate=20mbit", "--loss=1%/0", "--duplicate=1%", "--corrupt=1%", "--seed=20"];

/// Largest accepted change of the system clock against the monotonic clock, ns: the error of two
/// consecutive readings.
const CLOCKS: i64 = 20_000;

pub(crate) fn main() {
    let arguments: Vec<_> = env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("send") => ends::send_to_peer(),
        Some("receive") => ends::receive_to(Path::new(&arguments[2])),
        _ => table(),
    }
}

fn table() {
    let directory = tempfile::tempdir().unwrap();
    println!("{}\n", PATH.join(" "));
    println!("| | entered | compared | other fates | late p50 us | p99 | p99.9 | least | most |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let file = directory.path().join("proxy");
    row("proxy", &measure(&file, false, proxy));
    let file = directory.path().join("namespace");
    row("namespace", &measure(&file, true, namespace));
}

/// Measures one mode. The system clock must not be set during the measurement, because kernel
/// timestamps are of the system clock, and the relay's times of the monotonic clock.
fn measure(capture: &Path, drops_changed: bool, mode: fn(&Path) -> Vec<Arrival>) -> Difference {
    let before = between_clocks();
    let arrivals = mode(capture);
    let apart = between_clocks() - before;
    assert!(apart.abs() < CLOCKS, "the system's clock was set by {apart} ns");
    model::compare(capture, &arrivals, drops_changed)
}

/// Returns system clock minus monotonic clock, ns.
fn between_clocks() -> i64 {
    let [system, monotonic] = [ClockId::Realtime, ClockId::Monotonic]
        .map(clock_gettime)
        .map(|time| time.tv_sec * 1_000_000_000 + time.tv_nsec);
    system - monotonic
}

/// Returns a command that finds no calibration of this host.
fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("XDG_STATE_HOME", "/there/is/none");
    command
}

fn proxy(capture: &Path) -> Vec<Arrival> {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut proxy = program()
        .args(["proxy", "127.0.0.1:0", &target.local_addr().unwrap().to_string(), "-q", "--force"])
        .args(PATH)
        .arg("--pcapng")
        .arg(capture)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(proxy.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let listen = line.strip_prefix("rdt-emu: ").and_then(|line| line.split(' ').next()).unwrap();
    let listen = listen.parse().unwrap();
    let receiving = thread::spawn(move || ends::receive(&target));
    ends::send(listen);
    let arrivals = receiving.join().unwrap();
    kill(Pid::from_raw(proxy.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(proxy.wait().unwrap().success());
    arrivals
}

fn namespace(capture: &Path) -> Vec<Arrival> {
    let bench = env::current_exe().unwrap();
    let arrivals = capture.with_extension("arrivals");
    let server = format!("exec '{}' receive '{}'", bench.display(), arrivals.display());
    let status = program()
        .args(["run", "-q", "--force"])
        .args(PATH)
        .arg("--pcapng")
        .arg(capture)
        .args(["--server", &server, "--"])
        .arg(&bench)
        .arg("send")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    ends::read(&arrivals)
}

#[expect(clippy::cast_precision_loss, reason = "times are below 2^53 ns")]
fn row(name: &str, difference: &Difference) {
    let Difference { entered, compared, other_fates, late_ns } = difference;
    let us = |thousandths: usize| late_ns[(late_ns.len() - 1) * thousandths / 1000] as f64 / 1e3;
    let [p50, p99, p999, least, most] = [500, 990, 999, 0, 1000].map(us);
    println!(
        "| {name} | {entered} | {compared} | {other_fates} | {p50:.1} | {p99:.1} | {p999:.1} | {least:.1} | {most:.1} |"
    );
}
