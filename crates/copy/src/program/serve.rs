//! `rdt-copy --serve DIR`: answers the copies of clients, within one directory.

use std::path::Path;
use std::sync::Arc;

use rdt_endpoint::tokio::Stream;
use rdt_program::exit::NO_INPUT;
use rdt_program::{Failure, TaskStop};
use rdt_trust::serving::{
    TicketOptions, accept_until, announce, linger, listen, server_endpoint, session_limit,
};
use tokio::sync::Semaphore;

use super::args::{Arguments, DEFAULT_PORT, Ports, ServeArgs};
use super::connect::{bind, connection};
use super::failure::interrupted;
use super::report::{Client, Report};
use super::{COPY_FAILED, STOPPED};
use crate::{CopyError, Observer, Permission, Root, Summary};

/// Most descriptors that a client needs at a time, for files and directories in use.
const DESCRIPTORS: u64 = 12;

/// Runs until it is stopped. A stop while clients are connected is an error.
pub(crate) async fn serve(
    args: &Arguments,
    folder: &Path,
    report: &Report,
    stop: &TaskStop,
) -> Result<(), Failure> {
    let ServeArgs { read_only, write_only, allow_overwrite, .. } = args.serve;
    let permission = match (read_only, write_only, allow_overwrite) {
        (true, ..) => Permission::ReadOnly,
        (_, true, false) => Permission::AddOnly,
        (_, true, true) => Permission::WriteOnly,
        _ => Permission::ReadWrite,
    };
    let root = Root::confined(folder, permission).map_err(|error| {
        Failure::new(NO_INPUT, format_args!("cannot serve {}: {error}", folder.display()))
    })?;
    let trust = args.trust.listen();
    let ServeArgs { tickets, ticket_lifetime, advertise, .. } = &args.serve;
    let options = TicketOptions { tickets: *tickets, lifetime: *ticket_lifetime, advertise };
    let tickets = options.count(&trust).map_err(Failure::usage)?;
    let ports = args.remote.port.unwrap_or(Ports::only(DEFAULT_PORT));
    let surroundings = report.surroundings();
    let max_clients = session_limit(args.serve.max_clients, DESCRIPTORS, &surroundings);
    let endpoint = bind(&args.serve, ports, &server_endpoint(max_clients, trust.open))?;
    let bound = endpoint.local_addr();
    let gate = Arc::new(trust.gate(bound, tickets > 0, &surroundings)?);
    let (tickets, event) = announce(&gate, bound, &options, tickets, &surroundings)?;
    report.result(&tickets, || event);
    let places = Arc::new(Semaphore::new(max_clients as usize));
    let listener = listen(&endpoint, &gate, connection(args), &places)?;
    let mut number = 0;
    let accepted = accept_until(&listener, &places, stop.wait(), |stream| {
        number += 1;
        client(stream, root.clone(), report.clone(), number)
    });
    let clients = accepted.await?;
    endpoint.close(STOPPED, "rdt-copy was stopped there");
    if linger(&endpoint, clients).await == 0 { Ok(()) } else { Err(interrupted()) }
}

/// Handles one connection of a client. Returns true if it failed: after the stop, because of it.
async fn client(stream: Stream, root: Root, report: Report, number: u64) -> bool {
    let client = Arc::new(Client::new(report, number, stream.peer_addr()));
    let root = stream.peer_identity().map_or_else(|| root.clone(), |key| root.for_peer(&key.to_string()));
    let error = serve_stream(stream, root, Arc::clone(&client) as Arc<dyn Observer>).await.err();
    client.ended(error.as_ref());
    error.is_some()
}

/// Serves one copy. If it fails on this side, closes the stream with the reason for the client.
pub(super) async fn serve_stream(
    mut stream: Stream,
    root: Root,
    observer: Arc<dyn Observer>,
) -> Result<Summary, CopyError> {
    // Answers that end with a packet that is not full need not wait for an ACK.
    stream.set_nodelay(true);
    // The stream outlives its session, so that it can be closed with a reason.
    let served = crate::serve(&mut stream, root, observer).await;
    match &served {
        // The client has its answer, or is gone.
        Ok(_) | Err(CopyError::Request(_) | CopyError::Stream(_)) => {}
        Err(error) => stream.close(COPY_FAILED, &error.to_string()),
    }
    served
}
