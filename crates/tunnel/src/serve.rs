//! `rdt-tunnel serve`: accepts rdt connections and passes each to a new connection to the target.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rdt_endpoint::tokio::{Endpoint, Stream};
use rdt_endpoint::{EndpointConfig, Listen};
use rdt_program::TaskStop;
use rdt_program::host_port::HostPort;
use rdt_trust::{Gate, PathOptions, TicketUse, bind_any, reachable};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::args::{DEFAULT_PORT, ServeArgs};
use crate::failure::Failure;
use crate::protocol::{Code, OPEN};
use crate::report::Report;
use crate::session::{Local, Outcome, carry};
use crate::{Ended, finish};

/// Options for the sentence of an address that others can reach.
const OPTIONS: &str = "--allow FILE, --secret-file FILE or --tickets N";
const DEFAULT_TICKET_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Time for the first byte of a stream. The client sends it with the handshake.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for a connection to the target, which is on this host or near it.
const TARGET_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs until it is stopped.
pub(crate) async fn serve(args: &ServeArgs, report: &Report, stop: &TaskStop) -> Result<Ended, Failure> {
    let trust = &args.trust;
    let has_rule = trust.open || trust.allow.is_some() || trust.secret_file.is_some();
    let tickets = args.tickets.unwrap_or(u16::from(!has_rule));
    if tickets > 0 && trust.open {
        return Err(Failure::Usage(
            "--open admits every peer, with or without a ticket: leave out --tickets".into(),
        ));
    }
    if tickets == 0 && (args.ticket_lifetime.is_some() || !args.advertise.is_empty()) {
        let why = "--advertise and --ticket-lifetime are for tickets, and there are none: --tickets N";
        return Err(Failure::Usage(why.to_owned()));
    }
    let endpoint = bind(args.listen, args.max_connections, trust.open)?;
    let bound = endpoint.local_addr();
    let gate = Arc::new(trust.gate(bound, tickets > 0, OPTIONS, &report.surroundings())?);
    let metrics = report.serve_metrics(&args.metrics)?;
    announce(args, report, &gate, (bound, metrics), tickets)?;
    let dial = {
        let to = args.to.clone();
        move || connect_target(to.clone())
    };
    accept_all(&endpoint, gate, &args.path, dial, report, stop).await
}

/// Binds the UDP socket. If this host has no IPv6, the default address is that of all IPv4
/// interfaces. If it `is_open`, one host may have half of the connections.
fn bind(address: Option<SocketAddr>, max_connections: u32, is_open: bool) -> Result<Endpoint, Failure> {
    let bind = |address| {
        let mut config = EndpointConfig::new()?;
        config.max_connections = max_connections as usize;
        config.max_connections_per_source =
            if is_open { config.max_connections.div_ceil(2) } else { config.max_connections };
        Endpoint::bind(address, config)
    };
    let bound = match address {
        Some(address) => bind(address).map_err(|error| (address, error)),
        None => bind_any(DEFAULT_PORT, bind),
    };
    bound.map_err(|(address, error)| Failure::Bind(address, error))
}

/// Prints the address, the key and the tickets.
fn announce(
    args: &ServeArgs,
    report: &Report,
    gate: &Gate,
    (bound, metrics): (SocketAddr, Option<SocketAddr>),
    tickets: u16,
) -> Result<(), Failure> {
    let key = gate.identity().public();
    report.remark(&format!("listening on {bound}, key {}", key.fingerprint()));
    let addresses = reachable(bound, &args.advertise);
    let lifetime_s = args.ticket_lifetime.unwrap_or(DEFAULT_TICKET_LIFETIME).as_secs();
    let issue = || gate.issue(&addresses, TicketUse::OneClient, lifetime_s);
    let tickets = (0..tickets).map(|_| issue().map(|ticket| ticket.to_string()));
    let tickets = tickets.collect::<Result<Vec<_>, _>>()?;
    if gate.is_open() {
        report.remark("every peer that reaches this address is admitted");
    }
    report.result(&tickets.join("\n"), || {
        json!({
            "event": "listening",
            "address": bound.to_string(),
            "key": key.to_string(),
            "fingerprint": key.fingerprint(),
            "tickets": tickets,
            "metrics": metrics.map(|address| address.to_string()),
        })
    });
    Ok(())
}

async fn connect_target(to: HostPort) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((to.host.as_str(), to.port.unwrap_or_default())).await?;
    // The client's program decides what is sent together.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Accepts connections until the program is stopped. `dial` connects to the target.
pub(crate) async fn accept_all<L, D, F>(
    endpoint: &Endpoint,
    gate: Arc<Gate>,
    path: &PathOptions,
    dial: D,
    report: &Report,
    stop: &TaskStop,
) -> Result<Ended, Failure>
where
    L: Local + Send + 'static,
    D: Fn() -> F,
    F: Future<Output = io::Result<L>> + Send + 'static,
{
    let responder = gate.responder(path.connection());
    let listening = endpoint.listen(Listen { responder, ..Listen::new(Arc::clone(gate.identity())) });
    let listener = listening.map_err(|error| Failure::system("listen")(error.into()))?;
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let stream = accepted.map_err(|error| Failure::system("accept")(error.into()))?;
                let (report, stop, target) = (report.clone(), stop.clone(), dial());
                sessions.spawn(async move { session(stream, target, &report, &stop).await });
            }
            Some(_) = sessions.join_next() => {}
            () = stop.wait() => break,
        }
    }
    drop(listener);
    Ok(finish(endpoint, sessions).await)
}

/// Handles one connection of a client.
async fn session<L, F>(mut stream: Stream, target: F, report: &Report, stop: &TaskStop)
where
    L: Local,
    F: Future<Output = io::Result<L>>,
{
    let name = stream.peer_addr().map_or_else(|| "a client".to_owned(), |address| address.to_string());
    let mut first = [0];
    match timeout(FIRST_BYTE_TIMEOUT, stream.read(&mut first)).await {
        Ok(Ok(1)) if first == [OPEN] => {}
        Ok(Ok(1)) => return stream.close(Code::Version.number(), ""),
        // The client only tested whether it is admitted. Dropping the stream ends the connection.
        Ok(Ok(_)) => return,
        Ok(Err(_)) | Err(_) => return stream.close(0, ""),
    }
    let local = match timeout(TARGET_TIMEOUT, target).await {
        Ok(Ok(local)) => local,
        Ok(Err(error)) => {
            report.remark(&format!("{name}: no connection to the target: {error}"));
            let code = match error.kind() {
                io::ErrorKind::ConnectionRefused => Code::TargetRefused,
                _ => Code::TargetUnreachable,
            };
            return stream.close(code.number(), &error.to_string());
        }
        Err(_) => {
            report.remark(&format!("{name}: no answer from the target"));
            return stream.close(Code::TargetUnreachable.number(), "no answer");
        }
    };
    match carry(report, stop, &name, local, stream).await {
        Outcome::LocalFailed(error) => report.remark(&format!("{name}: the target: {error}")),
        Outcome::PeerFailed(end) => report.remark(&format!("{name}: {end}")),
        Outcome::Finished | Outcome::Stopped => {}
    }
}
