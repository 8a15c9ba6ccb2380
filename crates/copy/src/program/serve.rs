//! `rdt-copy --serve DIR`: answers the copies of clients, within one directory.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rdt_endpoint::tokio::{Endpoint, Listener, Stream};
use rdt_endpoint::{EndpointConfig, Listen};
use rdt_program::TaskStop;
use rdt_trust::{Gate, TicketUse, reachable};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::args::{Arguments, DEFAULT_PORT, Ports};
use super::connect::{bind, connection};
use super::failure::Failure;
use super::report::{Client, Report};
use super::{LINGER, STOPPED};
use crate::{Permission, Root};

/// Options for the sentence of an address that others can reach.
const OPTIONS: &str = "--allow FILE, --secret-file FILE or --tickets N";
const DEFAULT_TICKET_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Runs until it is stopped. A stop while clients are connected is an error.
pub(crate) async fn serve(
    args: &Arguments,
    folder: &Path,
    report: &Report,
    stop: &TaskStop,
) -> Result<(), Failure> {
    let permission = match (args.serve.read_only, args.serve.write_only) {
        (true, _) => Permission::ReadOnly,
        (_, true) => Permission::WriteOnly,
        _ => Permission::ReadWrite,
    };
    let root = Root::confined(folder, permission).map_err(|error| Failure::Root(folder.to_owned(), error))?;
    let trust = args.trust.listen();
    let has_rule = trust.open || trust.allow.is_some() || trust.secret_file.is_some();
    let tickets = args.serve.tickets.unwrap_or(u16::from(!has_rule));
    if tickets == 0 && (args.serve.ticket_lifetime.is_some() || !args.serve.advertise.is_empty()) {
        let why = "--advertise and --ticket-lifetime are for tickets, and there are none: --tickets N";
        return Err(Failure::Usage(why.to_owned()));
    }
    let endpoint = bind(&args.serve, args.remote.port.unwrap_or(Ports::only(DEFAULT_PORT)), || {
        let mut config = EndpointConfig::new()?;
        config.max_connections = args.serve.max_clients as usize;
        // With --open, one host must not keep all others away.
        config.max_connections_per_source =
            if trust.open { config.max_connections.div_ceil(2) } else { config.max_connections };
        Ok(config)
    })?;
    let bound = endpoint.local_addr();
    let gate = Arc::new(trust.gate(bound, tickets > 0, OPTIONS, &report.surroundings())?);
    announce(args, report, &gate, bound, tickets)?;
    let responder = gate.responder(connection(args));
    let listening = endpoint.listen(Listen { responder, ..Listen::new(Arc::clone(gate.identity())) });
    let listener = listening.map_err(|error| Failure::system("listen")(error.into()))?;
    accept_all(&endpoint, &listener, &root, report, stop).await
}

/// Prints the address, the key and the tickets.
fn announce(
    args: &Arguments,
    report: &Report,
    gate: &Gate,
    bound: SocketAddr,
    tickets: u16,
) -> Result<(), Failure> {
    let key = gate.identity().public();
    report.remark(&format!("listening on {bound}, key {}", key.fingerprint()));
    let addresses = reachable(bound, &args.serve.advertise);
    let lifetime_s = args.serve.ticket_lifetime.unwrap_or(DEFAULT_TICKET_LIFETIME).as_secs();
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
        })
    });
    Ok(())
}

async fn accept_all(
    endpoint: &Endpoint,
    listener: &Listener,
    root: &Root,
    report: &Report,
    stop: &TaskStop,
) -> Result<(), Failure> {
    let mut clients = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let stream = accepted.map_err(|error| Failure::system("accept")(error.into()))?;
                number += 1;
                clients.spawn(client(stream, root.clone(), report.clone(), number));
            }
            Some(_) = clients.join_next() => {}
            () = stop.wait() => break,
        }
    }
    while clients.try_join_next().is_some() {}
    let is_idle = clients.is_empty();
    endpoint.close(STOPPED, "rdt-copy was stopped there");
    // After that time a client finds the end by its idle timeout.
    let last_packets = async {
        while clients.join_next().await.is_some() {}
        endpoint.wait_idle().await;
    };
    let _ = timeout(LINGER, last_packets).await;
    if is_idle { Ok(()) } else { Err(Failure::Interrupted) }
}

/// Handles one connection of a client.
async fn client(stream: Stream, root: Root, report: Report, number: u64) {
    let client = Arc::new(Client::new(report, number, stream.peer_addr()));
    let served = crate::serve(stream, root, Arc::clone(&client) as Arc<dyn crate::Observer>).await;
    client.ended(served.err().as_ref());
}
