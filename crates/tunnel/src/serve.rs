//! `rdt-tunnel serve`: accepts rdt connections and passes each to a new connection to the target.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rdt_endpoint::tokio::{Endpoint, Listener, Stream};
use rdt_program::host_port::HostPort;
use rdt_program::{Failure, Shown, TaskStop};
use rdt_trust::bind_or_any;
use rdt_trust::serving::{
    TicketOptions, accept_until, announce, linger, listen, server_endpoint, session_limit,
};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::args::{DEFAULT_PORT, ServeArgs};
use crate::copy::Local;
use crate::protocol::{Code, OPEN, connection};
use crate::report::Report;
use crate::session::{Outcome, carry};

/// Time for the first byte of a stream. The client sends it with the handshake.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for a connection to the target, which is on this host or near it.
const TARGET_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs until it is stopped.
pub(crate) async fn serve(args: &ServeArgs, report: &Report, stop: &TaskStop) -> Result<usize, Failure> {
    let trust = &args.trust;
    let options =
        TicketOptions { tickets: args.tickets, lifetime: args.ticket_lifetime, advertise: &args.advertise };
    let tickets = options.count(trust).map_err(Failure::usage)?;
    let surroundings = report.surroundings();
    let max_connections = session_limit(args.max_connections, 1, &surroundings);
    let endpoint = bind(args, max_connections)?;
    let bound = endpoint.local_addr();
    let gate = Arc::new(trust.gate(bound, tickets > 0, &surroundings)?);
    let metrics = report.serve_metrics(&args.metrics)?;
    let (tickets, mut event) = announce(&gate, bound, &options, tickets, &surroundings)?;
    event["metrics"] = json!(metrics.map(|address| Shown(address).to_string()));
    report.result(&tickets, || event);
    let places = Arc::new(Semaphore::new(max_connections as usize));
    let listener = listen(&endpoint, &gate, connection(&args.path), &places)?;
    accept_all(listener, &places, || connect_target(args.to.clone()), report, stop).await
}

/// Binds the UDP socket. If this host has no IPv6, the default address is that of all IPv4
/// interfaces.
fn bind(args: &ServeArgs, max_connections: u32) -> Result<Endpoint, Failure> {
    let bind = |address| {
        let mut config = server_endpoint(max_connections, args.trust.open);
        args.memory.limit(&mut config);
        Endpoint::bind(address, config)
    };
    let bound = bind_or_any(args.listen, DEFAULT_PORT, bind);
    bound.map_err(|(address, error)| Failure::bind(address, error))
}

async fn connect_target(to: HostPort) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((to.host.as_str(), to.port.unwrap_or_default())).await?;
    // No Nagle delay here: the program at the client's end has grouped its writes already.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Accepts connections until the program is stopped. `dial` connects to the target.
pub(crate) async fn accept_all<L, D, F>(
    listener: Listener,
    places: &Arc<Semaphore>,
    dial: D,
    report: &Report,
    stop: &TaskStop,
) -> Result<usize, Failure>
where
    L: Local + Send + 'static,
    D: Fn() -> F,
    F: Future<Output = io::Result<L>> + Send + 'static,
{
    let accepted = accept_until(&listener, places, stop.wait(), |stream| {
        let (report, stop, target) = (report.clone(), stop.clone(), dial());
        async move { session(stream, target, &report, &stop).await }
    });
    let sessions = accepted.await?;
    let endpoint = listener.endpoint().clone();
    drop(listener);
    Ok(linger(&endpoint, sessions).await)
}

/// Handles one connection of a client. Returns true if a stop of the program cut it.
async fn session<L, F>(mut stream: Stream, target: F, report: &Report, stop: &TaskStop) -> bool
where
    L: Local,
    F: Future<Output = io::Result<L>>,
{
    let name = stream.peer_addr().map_or_else(|| "a client".to_owned(), |address| Shown(address).to_string());
    let mut first = [0];
    match timeout(FIRST_BYTE_TIMEOUT, stream.read(&mut first)).await {
        Ok(Ok(1)) if first == [OPEN] => {}
        Ok(Ok(1)) => return refuse(&stream, Code::Version.number(), ""),
        // The client only tested whether it is admitted. Dropping the stream ends the connection.
        Ok(Ok(_)) => return false,
        Ok(Err(_)) | Err(_) => return refuse(&stream, 0, ""),
    }
    let dialed = tokio::select! {
        dialed = timeout(TARGET_TIMEOUT, target) => dialed,
        // The client is gone.
        _ = stream.closed() => return false,
    };
    let local = match dialed {
        Ok(Ok(local)) => local,
        Ok(Err(error)) => {
            report.remark_on_peer(&format!("{name}: no connection to the target: {error}"));
            let code = match error.kind() {
                io::ErrorKind::ConnectionRefused => Code::TargetRefused,
                _ => Code::TargetUnreachable,
            };
            return refuse(&stream, code.number(), &error.to_string());
        }
        Err(_) => {
            report.remark_on_peer(&format!("{name}: no answer from the target"));
            return refuse(&stream, Code::TargetUnreachable.number(), "no answer");
        }
    };
    match carry(report, stop, &name, local, stream).await {
        Outcome::LocalFailed(error) => report.remark_on_peer(&format!("{name}: the target: {error}")),
        Outcome::PeerFailed(end) => report.remark_on_peer(&format!("{name}: {end}")),
        Outcome::Finished => {}
        Outcome::Stopped => return true,
    }
    false
}

/// Ends a connection that is not carried. Returns false, because no stop of the program cut it.
fn refuse(stream: &Stream, code: u32, text: &str) -> bool {
    stream.close(code, text);
    false
}
