//! `rdt-emu proxy`: a path between UDP clients and a server, without namespaces or privileges.
//!
//! ```text
//! client 1 --.                                .-- socket of client 1 --.
//!             LISTEN --> forward link -------<                          >-- TARGET
//! client 2 --'       <-- reverse link --------'-- socket of client 2 --'
//! ```
//!
//! A packet's tag identifies its client. All clients share one path, like a router, or each has its
//! own.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | addresses | `address.rs` | LISTEN and TARGET |
//! | clients | `clients.rs` | table of clients with their sockets; limits |
//! | sockets | `sockets.rs` | all sockets: readiness, errors, counters |
//! | batch | `batch.rs` | batches of departing packets |

mod address;
mod batch;
mod clients;
mod sockets;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
#[cfg(unix)]
use std::path::PathBuf;
use std::process;
use std::rc::Rc;
use std::sync::PoisonError;
use std::time::Duration;

use rdt_emulator::{Direction, Path, parse_duration};
use rdt_udp::{Shown, Waker, clock};

use crate::Failure;
use crate::account::Account;
use crate::calibration::{CalibrationArgs, Mode};
use crate::capture::frame::Datagrams;
#[cfg(unix)]
use crate::control_socket::{ControlSocket, InForce};
#[cfg(target_os = "linux")]
use crate::host;
use crate::metrics::Published;
use crate::output::{Circumstances, OutputArgs};
use crate::path::PathArgs;
use crate::paths::{Changes, Paths, PerTag};
use crate::relay::{Observer, Relay};
use crate::waiter::{Waiter, Waiting};
use crate::{stderr_log, talk};
use clients::Addresses;
pub(crate) use clients::Limits;
use rdt_program::files::raise_descriptor_limit;
use rdt_program::metrics::MetricsArgs;
use rdt_program::{Printer, exit, signals};
pub(crate) use sockets::ProxySockets;
use sockets::{Counts, ProxyPort};

/// Bytes of the headers of UDP over IPv4: 20 (RFC 791, section 3.1) and 8 (RFC 768).
pub(crate) const HEADERS_IPV4: u32 = 28;
/// IP and UDP headers over IPv6, bytes: 40 (RFC 8200, section 3) and 8.
const HEADERS_IPV6: u32 = 48;
/// Signals within this time count as one request to end, because timeout(1) signals both the
/// process and its group.
const SAME_REQUEST: Duration = Duration::from_millis(200);
const MIN_IDLE: Duration = Duration::from_millis(10);

pub(crate) const AFTER_PROXY: &str = "\
Examples:
  rdt-emu proxy 127.0.0.1:9000 192.0.2.1:4433 --rtt 100ms --rate 10mbit --loss 1%
  rdt-emu proxy [::]:9000 [::1]:9001 --preset lte --per-client
  rdt-emu proxy 127.0.0.1:9000 localhost:9001 --path link.toml --seed 7

Clients send to LISTEN, and the proxy forwards to TARGET. Ctrl-C ends it and prints a report.
The path counts 28 bytes of headers for each datagram (48 if TARGET is an IPv6 address) unless
--headers sets another number: so a datagram occupies the link for as long as in `rdt-emu run`.

Exit codes: 0 after Ctrl-C or a signal to end, and
   64  wrong arguments    69  LISTEN cannot be bound    71  system error while running
   73  FILE cannot be created    74  FILE is incomplete
   78  the path has a rate that failed in the calibration of this host";

#[derive(Debug, clap::Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the text of --help")]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    path: PathArgs,
    /// Give each client its own path, with its own seed derived from --seed; otherwise all clients
    /// share one path, like a router
    #[arg(long)]
    per_client: bool,
    /// Clients at a time, 1 to 1000, each with up to 2 MiB of memory and, if the system grants
    /// them, socket buffers of 8 MiB; a further client replaces the one that was silent longest, if
    /// that was for 1 s at least, else its packets are dropped
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_clients: u16,
    /// Forget a client after this time without a packet from it or for it
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    idle: Duration,
    /// Create this socket, by which `rdt-emu set SOCKET` changes the path
    #[cfg(unix)]
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Behaviour between packets
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    wait: Waiting,
    #[command(flatten)]
    calibration: CalibrationArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Address for clients: ADDRESS:PORT, 0.0.0.0:PORT or [::]:PORT for all addresses; port 0 takes
    /// a free one
    listen: String,
    /// Address of the server: ADDRESS:PORT or NAME:PORT
    target: String,
}

pub(crate) fn proxy(args: &ProxyArgs) -> Result<u8, Failure> {
    args.output.check()?;
    let (listen, target) = address::both(&args.listen, &args.target)?;
    if args.idle < MIN_IDLE {
        return Err(Failure::usage("--idle: must be at least 10 ms"));
    }
    let mut described = args.path.describe()?;
    args.output.check_inputs([&described])?;
    described.path.assume_headers(if target.is_ipv4() { HEADERS_IPV4 } else { HEADERS_IPV6 });
    let (config, seed) = (described.config()?, described.seed());
    let limits = Limits { most: args.max_clients.into(), idle: args.idle };
    let mode = Mode::Proxy { paths: if args.per_client { limits.most } else { 1 } };
    args.calibration.check([&config], mode)?;
    #[cfg(unix)]
    let in_force = InForce::new(described, config.clone(), args.calibration.clone(), mode);
    let warnings = stderr_log()?;
    #[cfg(unix)]
    let control = args.control.as_deref().map(ControlSocket::bind).transpose()?;
    let (sockets, local) = bind(listen, target, limits, &warnings)?;
    let stop = sockets.stop();
    if let Err(error) = signals::on_interrupt_or_quit(ending(stop)) {
        tracing::warn!(%error, "Ctrl-C will end the program without a summary");
    }
    talk(&format!("{} -> {}", Shown(local), Shown(target)));
    let paths: Paths =
        if args.per_client { PerTag::new(config, seed).into() } else { Path::new(config, seed).into() };
    let frame = datagrams(sockets.addresses(), target);
    #[cfg(unix)]
    let changes = match &control {
        Some(control) => Some(control.serve(in_force, warnings.clone())?),
        None => None,
    };
    #[cfg(not(unix))]
    let changes = None;
    let published =
        args.metrics.metrics.map(|address| Published::serve(address, clock::now())).transpose()?;
    // Last, because a start that fails must leave no files.
    let mut watchers = args.output.watchers(frame, seed, warnings.clone(), Vec::new())?;
    watchers.published = published;
    let (end, watchers, carried) = carry(sockets, (paths, changes), watchers, args.wait);
    warnings.close();
    let stopped = carried.map_err(Failure::system("the relay stopped"));
    let code = stopped.as_ref().err().map_or(0, Failure::code);
    let code = args.output.finish(watchers, &end.accounts, &end.circumstances(seed, code));
    // After an error, the report covers the packets until then.
    stopped.map(|()| code)
}

/// Binds the sockets, and returns their address towards clients.
fn bind(
    listen: SocketAddr,
    target: SocketAddr,
    limits: Limits,
    warnings: &Printer,
) -> Result<(ProxySockets, SocketAddr), Failure> {
    // Each client has a socket.
    raise_descriptor_limit();
    let sockets =
        ProxySockets::bind(listen, target, limits, warnings.clone()).map_err(Failure::unavailable)?;
    let local = sockets.local_addr().map_err(Failure::system("no address"))?;
    if address::is_loop(local, target) {
        return Err(Failure::usage("TARGET: equals LISTEN, so each packet would come back"));
    }
    Ok((sockets, local))
}

/// Returns a signal handler. The first signal stops the relay. A later one exits the process at
/// once, because the reader of the report may be slow.
fn ending(stop: Waker) -> impl FnMut() + Send {
    let mut first = None;
    move || {
        stop.wake();
        let now = clock::now();
        if now.saturating_duration_since(*first.get_or_insert(now)) > SAME_REQUEST {
            process::exit(exit::INTERRUPTED.into());
        }
    }
}

/// Returns the frame format of a capture: UDP packets between a client and TARGET.
fn datagrams(
    clients: Addresses,
    target: SocketAddr,
) -> Datagrams<impl Fn(Direction, u32) -> [SocketAddr; 2]> {
    let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Datagrams(move |direction, tag| {
        let clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = clients.get(&tag).copied().unwrap_or(unknown);
        match direction {
            Direction::Forward => [client, target],
            Direction::Reverse => [target, client],
        }
    })
}

pub(crate) struct End {
    pub(crate) accounts: [Account; 2],
    counts: Counts,
}

/// Runs the relay until a stop is requested. Fails if the relay does.
#[cfg(any(test, target_os = "linux"))]
pub(crate) fn serve<T: Observer>(
    sockets: ProxySockets,
    paths: Paths,
    observer: T,
    waiting: Waiting,
) -> io::Result<(End, T)> {
    let (end, observer, carried) = carry(sockets, (paths, None), observer, waiting);
    carried.map(|()| (end, observer))
}

/// Runs the relay. Returns the accounts even if it fails.
fn carry<T: Observer>(
    sockets: ProxySockets,
    (paths, changes): (Paths, Option<Changes>),
    observer: T,
    waiting: Waiting,
) -> (End, T, io::Result<()>) {
    let sockets = Rc::new(RefCell::new(sockets));
    let [near, far] = ProxyPort::both(&sockets);
    let mut relay = Relay::new(paths, near, far, observer).with_changes(changes);
    let carried = relay.run(&mut Waiter::new(waiting, Rc::clone(&sockets)));
    let (mut accounts, observer) = relay.finish();
    let (counts, lost) = sockets.borrow_mut().finish();
    // Packets that a socket accepted and lost later also count as refused.
    for (account, lost) in accounts.iter_mut().zip(lost) {
        account.refused += lost;
    }
    (End { accounts, counts }, observer, carried)
}

impl End {
    /// Returns true if the host was not the bottleneck.
    #[cfg(target_os = "linux")]
    pub(crate) fn kept_up(&self) -> bool {
        host::shortcomings(&self.accounts, self.counts.overflow().map(Option::unwrap_or_default)).is_empty()
    }

    fn circumstances(&self, seed: u64, code: u8) -> Circumstances {
        let (lost_before, notes) = (self.counts.overflow(), self.notes());
        Circumstances { mode: "proxy", seed, lost_before, code, notes, destinations: Vec::new() }
    }

    fn notes(&self) -> String {
        let totals = &self.counts.totals;
        let mut text = format!("clients: {}\n", totals.clients);
        let others = [
            (totals.replaced, "clients, silent for 1 s at least, were replaced by new ones"),
            (totals.turned_away, "packets of other clients were turned away"),
            (totals.sockets.unreachable, "ICMP errors reported that no program listens at the target"),
            (totals.foreign_messages, "messages for clients were not the target's"),
        ];
        for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
            let _ = writeln!(text, "{count} {what}");
        }
        text
    }
}
