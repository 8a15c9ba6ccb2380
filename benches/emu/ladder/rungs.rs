//! Measurement of one rung with the real program: `rdt-emu run` with this bench as the command, or
//! `rdt-emu proxy` between two sockets of this bench. Used by the bench and a test.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rdt_udp::{UdpIo, UdpOptions};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use super::traffic::{self, PING};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-emu");
/// RTT of each link, without transmission time.
pub(crate) const RTT: Duration = Duration::from_millis(100);
/// Destination port of the load in a namespace.
const PORT: u16 = 9;
/// Environment variable with the task of a program in a namespace.
const ROLE: &str = "RDT_LADDER";
const LOCALHOST: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

pub(crate) struct Measurement {
    /// Samples of the elapsed microseconds, and the bytes received until then.
    counts: Vec<(f64, f64)>,
    /// Forward account of the load, as in the program's JSON.
    pub(crate) forward: Value,
    round_trips: Vec<Duration>,
    /// Size of a ping as the path counts it, bytes.
    ping: usize,
}

impl Measurement {
    pub(crate) fn rate(&self) -> f64 {
        traffic::steady(&self.counts).unwrap_or(f64::NAN) / 1e6
    }

    /// Returns by how much each ping's RTT exceeds that of a link with this rate, ascending,
    /// microseconds. Negative if a reply arrived early.
    pub(crate) fn excess(&self, mbps: f64) -> Vec<f64> {
        // Transmission time of the ping in both directions.
        let own = 2.0 * 8.0 * f64::from(u32::try_from(self.ping).unwrap_or(0)) / mbps / 1e6;
        let asked = RTT.as_secs_f64() + own;
        let mut excess: Vec<_> =
            self.round_trips.iter().map(|time| (time.as_secs_f64() - asked) * 1e6).collect();
        excess.sort_by(f64::total_cmp);
        excess
    }
}

pub(crate) fn percentile(sorted: &[f64], share: usize) -> f64 {
    sorted.get(sorted.len() * share / 100).copied().unwrap_or(f64::NAN)
}

fn options(mbps: f64, wait: &str) -> Vec<String> {
    let rtt = format!("--rtt={}ms", RTT.as_millis());
    vec!["--quiet".into(), "--json".into(), rtt, format!("--rate={mbps}mbit"), format!("--wait={wait}")]
}

/// Returns the forward account in the last line of the output.
fn account(output: &str) -> Value {
    let end = output.lines().next_back().and_then(|line| serde_json::from_str::<Value>(line).ok());
    end.map(|mut end| end["forward"].take()).expect("the program tells an account at the end")
}

/// Returns a command that finds no calibration of this host.
fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("XDG_STATE_HOME", "/there/is/none");
    command
}

/// Measures a rung in a namespace. `itself` is a shell command line of the calling program, which
/// must then call [`inside`].
pub(crate) fn in_namespace(mbps: f64, wait: &str, itself: &str) -> Measurement {
    let run = |role: &str| {
        let mut command = program();
        let call = |role| format!("exec env {ROLE}='{role} {}' {itself}", mbps * 1e6);
        command.arg("run").args(options(mbps, wait)).arg(format!("--server={}", call("count")));
        command.args(["--", "sh", "-c", &call(role)]);
        let output = command.stderr(Stdio::inherit()).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let (flooded, pinged) = (run("flood"), run("ping"));
    let words = |line: &str| -> Vec<f64> { line.split(' ').filter_map(|word| word.parse().ok()).collect() };
    let counts = flooded.lines().filter(|line| line.starts_with("count "));
    let round_trips = pinged.lines().filter(|line| line.starts_with("ping ")).flat_map(words);
    Measurement {
        counts: counts.map(|line| (words(line)[0], words(line)[1])).collect(),
        forward: account(&flooded),
        round_trips: round_trips.map(Duration::from_secs_f64).collect(),
        ping: PING + 20,
    }
}

/// Returns the role, and the rate in bits per second, from the environment of a program in a
/// namespace; `None` outside of one.
pub(crate) fn role() -> Option<(String, f64)> {
    let text = env::var(ROLE).ok()?;
    let (role, bps) = text.split_once(' ')?;
    Some((role.to_owned(), bps.parse().ok()?))
}

pub(crate) fn inside(role: &str, bps: f64) {
    let address = |name: &str| -> IpAddr {
        env::var(name).ok().and_then(|text| text.parse().ok()).expect("an address, as in a run")
    };
    match role {
        "count" => {
            let to = SocketAddr::new(address("RDT_LOCAL"), PORT);
            traffic::count(UdpIo::bind(to, UdpOptions::default()).expect("a socket"), |us, bytes| {
                println!("\ncount {us} {bytes}");
                true
            });
        }
        "flood" => traffic::flood(SocketAddr::new(address("RDT_PEER"), PORT), bps),
        _ => {
            let near =
                Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4)).expect("a socket for ICMP");
            near.connect(&SocketAddr::new(address("RDT_PEER"), 0).into()).expect("a way to the far end");
            for round_trip in traffic::ping(&near, None) {
                println!("\nping {}", round_trip.as_secs_f64());
            }
        }
    }
}

pub(crate) fn proxied(mbps: f64, wait: &str) -> Measurement {
    let far = UdpIo::bind(LOCALHOST.into(), UdpOptions::default()).expect("a socket");
    let (proxy, listen) = start_proxy(far.local_addr().expect("an address"), mbps, wait);
    let (enough, is_enough) = mpsc::channel::<()>();
    let counting = thread::spawn(move || {
        let mut counts = Vec::new();
        traffic::count(far, |us, bytes| {
            #[expect(clippy::cast_precision_loss, reason = "a few seconds, a few gigabytes")]
            counts.push((us as f64, bytes as f64));
            matches!(is_enough.try_recv(), Err(mpsc::TryRecvError::Empty))
        });
        counts
    });
    traffic::flood(listen, mbps * 1e6);
    let forward = account(&end(proxy));
    drop(enough);
    let counts = counting.join().expect("it counts to the end");

    let echo = UdpSocket::bind(LOCALHOST).expect("a socket");
    echo.set_nonblocking(true).expect("one that does not block");
    let (proxy, listen) = start_proxy(echo.local_addr().expect("an address"), mbps, wait);
    let near = UdpSocket::bind(LOCALHOST).expect("a socket");
    near.connect(listen).expect("a way to the proxy");
    let round_trips = traffic::ping(&near.into(), Some(&echo));
    end(proxy);
    Measurement { counts, forward, round_trips, ping: PING + 28 }
}

/// Starts a proxy, and returns its listening address.
fn start_proxy(target: SocketAddr, mbps: f64, wait: &str) -> (Child, SocketAddr) {
    let mut command = program();
    command.args(["proxy", "127.0.0.1:0", &target.to_string()]).args(options(mbps, wait));
    let mut proxy = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut told = BufReader::new(proxy.stderr.take().expect("it has a standard error"));
    let mut line = String::new();
    told.read_line(&mut line).expect("it says where it listens");
    let listen = line.split(' ').find_map(|word| word.parse().ok()).expect("which is an address");
    // Forwards later messages.
    thread::spawn(move || std::io::copy(&mut told, &mut std::io::stderr()));
    (proxy, listen)
}

/// Interrupts the proxy, and returns its output.
fn end(mut proxy: Child) -> String {
    let id = rustix::process::Pid::from_child(&proxy);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it is there");
    let mut output = String::new();
    proxy.stdout.take().expect("it has an output").read_to_string(&mut output).expect("text");
    proxy.wait().expect("it ends");
    output
}
