//! `rdt-emu proxy`: the path between UDP clients and a server, without namespaces or rights.
//!
//! ```text
//! client 1 --.                                .-- socket of client 1 --.
//!             LISTEN --> forward link -------<                          >-- TARGET
//! client 2 --'       <-- reverse link --------'-- socket of client 2 --'
//! ```
//!
//! A packet's tag says whose it is. All clients share one path, as they would share a router; or
//! each has its own.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | options | `args.rs` | what the user types |
//! | addresses | `address.rs` | LISTEN and TARGET |
//! | clients | `clients.rs` | who is there, with a socket each; the limits |
//! | sockets | `sockets.rs` | all sockets: who has something to read, what has gone wrong |
//! | ports | `ports.rs` | the sockets as a relay sees it |
//! | batch | `batch.rs` | packets that leave together |
//! | watch | `watch.rs` | waiting on many sockets |

mod address;
pub(crate) mod args;
mod batch;
mod clients;
mod ports;
mod sockets;
#[cfg(test)]
mod tests;
mod watch;

use std::cell::RefCell;
use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process;
use std::rc::Rc;
use std::sync::PoisonError;
use std::time::Duration;

use rdt_emulator::{Direction, Path};
use rdt_udp::clock;

use crate::account::Account;
use crate::calibration::Mode;
use crate::capture::frame::Datagrams;
use crate::failure::Failure;
#[cfg(target_os = "linux")]
use crate::host;
use crate::observer::Observer;
use crate::output::Circumstances;
use crate::paths::{Paths, PerTag};
use crate::relay::Relay;
use crate::waiter::{Waiter, Waiting};
use crate::{stderr_log, talk};
use args::ProxyArgs;
use clients::Addresses;
pub(crate) use clients::Limits;
use rdt_program::{exit, signals};
use sockets::Counts;
pub(crate) use sockets::ProxySockets;
use watch::Stop;

/// Bytes of the headers of UDP over IPv4: 20 (RFC 791, section 3.1) and 8 (RFC 768).
pub(crate) const HEADERS_IPV4: u32 = 28;
/// IP and UDP headers over IPv6, bytes: 40 (RFC 8200, section 3) and 8.
const HEADERS_IPV6: u32 = 48;
/// Requests to end that come within this time are one: timeout(1) sends its signal to the process
/// and to its group.
const SAME_REQUEST: Duration = Duration::from_millis(200);
/// The least that makes sense to wait for a client.
const MIN_IDLE: Duration = Duration::from_millis(10);

/// Carries packets until the user asks it to end.
pub(crate) fn proxy(args: &ProxyArgs) -> Result<u8, Failure> {
    let (listen, target) = address::both(&args.listen, &args.target)?;
    if args.idle < MIN_IDLE {
        return Err(Failure::Usage("--idle: it is 10 ms at least".into()));
    }
    let mut described = args.path.describe()?;
    described.path.assume_headers(if target.is_ipv4() { HEADERS_IPV4 } else { HEADERS_IPV6 });
    let (config, seed) = (described.config()?, described.seed());
    let limits = Limits { most: args.max_clients.into(), idle: args.idle };
    args.calibration.check(&config, Mode::Proxy { paths: if args.per_client { limits.most } else { 1 } })?;
    let warnings = stderr_log()?;
    let sockets = ProxySockets::bind(listen, target, limits, warnings.clone())
        .map_err(|error| Failure::Forbidden(error.to_string()))?;
    let local = sockets.local_addr().map_err(Failure::system("no address"))?;
    if address::is_loop(local, target) {
        return Err(Failure::Usage("TARGET: that is LISTEN, so each packet would come back".into()));
    }
    let stop = sockets.stop();
    if let Err(error) = signals::on_interrupt_or_quit(ending(stop)) {
        tracing::warn!(%error, "Ctrl-C will end the program without a summary");
    }
    talk(&format!("{local} -> {target}"));
    let paths: Paths =
        if args.per_client { PerTag::new(config, seed).into() } else { Path::new(config, seed).into() };
    let frame = datagrams(sockets.addresses(), target);
    let watchers = args.output.watchers(frame, seed, warnings.clone())?;
    let begin = clock::now();
    let (end, watchers, carried) = carry(sockets, paths, watchers, args.wait);
    warnings.close();
    let stopped = carried.map_err(Failure::system("the relay stopped"));
    let circumstances = Circumstances {
        mode: "proxy",
        seed,
        begin,
        lost_before: end.counts.overflow(),
        code: stopped.as_ref().err().map_or(0, Failure::code),
        notes: end.notes(),
    };
    let code = args.output.finish(watchers, &end.accounts, &circumstances);
    // What it did until then is accounted for.
    stopped.map(|()| code)
}

/// Handler of signals: the first one stops the relay, a later one exits at once, because the reader
/// of the account may be slow.
fn ending(stop: Stop) -> impl FnMut() + Send {
    let mut first = None;
    move || {
        stop.set();
        let now = clock::now();
        if now.saturating_duration_since(*first.get_or_insert(now)) > SAME_REQUEST {
            process::exit(exit::INTERRUPTED.into());
        }
    }
}

/// How a capture shows what is carried: as packets between the client and TARGET.
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

/// How it went.
pub(crate) struct End {
    pub(crate) accounts: [Account; 2],
    counts: Counts,
}

/// Carries packets until the sockets is asked to end.
pub(crate) fn serve<T: Observer>(
    sockets: ProxySockets,
    paths: Paths,
    observer: T,
    waiting: Waiting,
) -> io::Result<(End, T)> {
    let (end, observer, carried) = carry(sockets, paths, observer, waiting);
    carried.map(|()| (end, observer))
}

/// Runs the relay, and returns its result together with the accounts, even after an error.
fn carry<T: Observer>(
    sockets: ProxySockets,
    paths: Paths,
    observer: T,
    waiting: Waiting,
) -> (End, T, io::Result<()>) {
    let sockets = Rc::new(RefCell::new(sockets));
    let (near, far, eyes) = ports::of(&sockets);
    let mut relay = Relay::new(paths, near, far, observer);
    let carried = relay.run(&mut Waiter::new(waiting, eyes));
    let (mut accounts, observer) = relay.finish();
    let (counts, lost) = sockets.borrow_mut().finish();
    // What was handed over and did not leave after all.
    for (account, lost) in accounts.iter_mut().zip(lost) {
        account.refused += lost;
    }
    (End { accounts, counts }, observer, carried)
}

impl End {
    /// Returns true if the host kept up with the link.
    #[cfg(target_os = "linux")]
    pub(crate) fn kept_up(&self) -> bool {
        host::shortcomings(&self.accounts, self.counts.overflow().map(Option::unwrap_or_default)).is_empty()
    }

    /// Describes the fates of the clients.
    fn notes(&self) -> String {
        let totals = &self.counts.totals;
        let mut text = format!("clients: {}\n", totals.clients);
        let others = [
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
