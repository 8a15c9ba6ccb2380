//! `rdt-copy --server`: the far side of a copy by ssh.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rdt_endpoint::EndpointConfig;
use rdt_endpoint::tokio::{Endpoint, Stream};
use rdt_program::{Failure, TaskStop};
use rdt_trust::{Ticket, TrustError, reachable, serving::LINGER};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Stdin, stdin};
use tokio::time::{sleep, timeout};

use super::STOPPED;
use super::args::{Arguments, Ports};
use super::connect::{accept, bind, connection, dial_ticket, gate, in_order};
use super::failure::interrupted;
use super::report::Report;
use super::serve::serve_stream;
use crate::Root;

/// Time for the last packets of a client whose ssh has ended.
const GRACE: Duration = Duration::from_millis(500);
/// Longest line with a ticket, bytes.
const MAX_TICKET_BYTES: u64 = 4096;

/// Serves one copy. Ends with it, or with the standard input: then ssh has ended.
pub(crate) async fn server(args: &Arguments, report: &Report, stop: &TaskStop) -> Result<(), Failure> {
    let mut input = BufReader::new(stdin());
    let (endpoint, stream) = tokio::select! {
        opened = open(args, report, &mut input) => opened?,
        () = stop.wait() => return Err(interrupted()),
    };
    let root = Root::whole().map_err(Failure::system("no current directory"))?;
    let client_has_ended = async {
        ended(&mut input).await;
        sleep(GRACE).await;
    };
    let linger = tokio::select! {
        // The client reports what failed.
        served = serve_stream(stream, root, Arc::new(())) => match served {
            // The client has left, or got the chance to hear of the end.
            Ok(_) => return Ok(()),
            Err(_) => LINGER,
        },
        // The client was killed, or ends because its ssh has: it need not confirm the end.
        () = client_has_ended => Duration::ZERO,
        () = stop.wait() => LINGER,
    };
    endpoint.close(STOPPED, "rdt-copy was stopped there");
    let _ = timeout(linger, endpoint.wait_idle()).await;
    Err(interrupted())
}

/// Opens the connection, in the direction that the client has chosen.
async fn open(
    args: &Arguments,
    report: &Report,
    input: &mut BufReader<Stdin>,
) -> Result<(Endpoint, Stream), Failure> {
    let [client, server] = ssh_addresses(&std::env::var("SSH_CONNECTION").unwrap_or_default());
    if args.dial {
        let ticket = read_ticket(input).await?;
        let first = client.zip(ticket.addresses().first()).map(|(ip, at)| SocketAddr::new(ip, at.port()));
        let dialed = dial_ticket(&ticket, first, connection(args), report);
        return tokio::select! {
            dialed = dialed => dialed,
            () = ended(input) => Err(interrupted()),
        };
    }
    let endpoint = bind(&args.serve, args.remote.port.unwrap_or(Ports::FREE), &EndpointConfig::default())?;
    let bound = endpoint.local_addr();
    let server = server.map(|ip| SocketAddr::new(ip, bound.port()));
    let addresses = in_order(server, reachable(bound, &args.serve.advertise));
    let (gate, ticket) = gate(&addresses, report)?;
    report.line(&ticket.to_string());
    tokio::select! {
        stream = accept(&endpoint, &gate, connection(args)) => Ok((endpoint.clone(), stream?)),
        () = ended(input) => Err(interrupted()),
    }
}

async fn read_ticket(input: &mut BufReader<Stdin>) -> Result<Ticket, Failure> {
    let mut line = String::new();
    let read = input.take(MAX_TICKET_BYTES).read_line(&mut line).await;
    read.map_err(Failure::system("cannot read the standard input"))?;
    line.parse().map_err(|error| TrustError::from(error).into())
}

async fn ended(input: &mut BufReader<Stdin>) {
    let mut bytes = [0; 64];
    while input.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

/// Returns the addresses of the ssh connection, which both hosts reach: the client's and the
/// server's. `text` is `CLIENT PORT SERVER PORT`. An address with a zone is left out.
fn ssh_addresses(text: &str) -> [Option<IpAddr>; 2] {
    let words: Vec<_> = text.split_whitespace().collect();
    match words[..] {
        [client, _, server, _] => [client.parse().ok(), server.parse().ok()],
        _ => [None; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ssh_are_read() {
        let found = ssh_addresses("192.0.2.1 50000 2001:db8::1 22");
        assert_eq!(found, ["192.0.2.1".parse().ok(), "2001:db8::1".parse().ok()]);
        assert_eq!(ssh_addresses("fe80::1%eth0 5 fe80::2%eth0 22"), [None; 2]);
        assert_eq!(ssh_addresses(""), [None; 2]);
    }
}
