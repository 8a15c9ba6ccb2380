//! Rungs of the ladder, each over the real program: `rdt-emu run` with the bench as command, or
//! `rdt-emu proxy` between two of its sockets. For the bench and a test.

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
/// RTT of each rung, without serialisation time.
pub(crate) const RTT: Duration = Duration::from_millis(100);
/// Where a flood goes in a namespace.
const PORT: u16 = 9;
/// The variable that tells a program inside what it is to do.
const ROLE: &str = "RDT_LADDER";
const LOCALHOST: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// Measurements of a rung.
pub(crate) struct Readiness {
    /// Microseconds and bytes, where the flood arrived.
    counts: Vec<(f64, f64)>,
    /// The account of the flood's direction.
    pub(crate) forward: Value,
    round_trips: Vec<Duration>,
    /// Bytes of a ping as the path counts it.
    ping: usize,
}

impl Readiness {
    /// The flood's rate where it arrived, Mbit/s.
    pub(crate) fn rate(&self) -> f64 {
        traffic::steady(&self.counts).unwrap_or(f64::NAN) / 1e6
    }

    /// How much longer than they should pings took on a link of this rate, microseconds, from the
    /// shortest to the longest. Less than nothing, if an answer came too early.
    pub(crate) fn excess(&self, mbps: f64) -> Vec<f64> {
        // Each ping takes the link for so long, both ways.
        let own = 2.0 * 8.0 * f64::from(u32::try_from(self.ping).unwrap_or(0)) / mbps / 1e6;
        let asked = RTT.as_secs_f64() + own;
        let mut excess: Vec<_> =
            self.round_trips.iter().map(|time| (time.as_secs_f64() - asked) * 1e6).collect();
        excess.sort_by(f64::total_cmp);
        excess
    }
}

/// Returns a percentile.
pub(crate) fn percentile(sorted: &[f64], share: usize) -> f64 {
    sorted.get(sorted.len() * share / 100).copied().unwrap_or(f64::NAN)
}

/// The options of a path, and of what is told.
fn options(mbps: f64, wait: &str) -> Vec<String> {
    let rtt = format!("--rtt={}ms", RTT.as_millis());
    vec!["--quiet".into(), "--json".into(), rtt, format!("--rate={mbps}mbit"), format!("--wait={wait}")]
}

/// The account of the forward direction in the last line.
fn account(output: &str) -> Value {
    let end = output.lines().next_back().and_then(|line| serde_json::from_str::<Value>(line).ok());
    end.map(|mut end| end["forward"].take()).expect("the program tells an account at the end")
}

/// The program, whatever this host was calibrated to hold.
fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("XDG_STATE_HOME", "/there/is/none");
    command
}

/// Command line of this bench for a shell; the process must call [`inside`].
pub(crate) fn in_namespace(mbps: f64, wait: &str, itself: &str) -> Readiness {
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
    Readiness {
        counts: counts.map(|line| (words(line)[0], words(line)[1])).collect(),
        forward: account(&flooded),
        round_trips: round_trips.map(Duration::from_secs_f64).collect(),
        ping: PING + 20,
    }
}

/// Task of a program inside a namespace: role and rate, if it is one.
pub(crate) fn role() -> Option<(String, f64)> {
    let text = env::var(ROLE).ok()?;
    let (role, bps) = text.split_once(' ')?;
    Some((role.to_owned(), bps.parse().ok()?))
}

/// Does it.
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

pub(crate) fn proxied(mbps: f64, wait: &str) -> Readiness {
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
    Readiness { counts, forward, round_trips, ping: PING + 28 }
}

/// A proxy, and where it listens.
fn start_proxy(target: SocketAddr, mbps: f64, wait: &str) -> (Child, SocketAddr) {
    let mut command = program();
    command.args(["proxy", "127.0.0.1:0", &target.to_string()]).args(options(mbps, wait));
    let mut proxy = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut told = BufReader::new(proxy.stderr.take().expect("it has a standard error"));
    let mut line = String::new();
    told.read_line(&mut line).expect("it says where it listens");
    let listen = line.split(' ').find_map(|word| word.parse().ok()).expect("which is an address");
    // What else it has to say.
    thread::spawn(move || std::io::copy(&mut told, &mut std::io::stderr()));
    (proxy, listen)
}

/// Output at its end.
fn end(mut proxy: Child) -> String {
    let id = rustix::process::Pid::from_child(&proxy);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it is there");
    let mut output = String::new();
    proxy.stdout.take().expect("it has an output").read_to_string(&mut output).expect("text");
    proxy.wait().expect("it ends");
    output
}
