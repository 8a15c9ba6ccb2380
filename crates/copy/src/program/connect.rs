//! The connection of a copy: opened by this side, or accepted from the other one.

use std::net::SocketAddr;
use std::sync::Arc;

use rdt_endpoint::tokio::{Endpoint, Stream};
use rdt_endpoint::{Connect, ConnectError, EndpointConfig, StreamError, generate_key};
use rdt_program::Failure;
use rdt_program::host_port::HostPort;
use rdt_transport::{ConnectionConfig, WindowConfig};
use rdt_trust::{
    Dialer, Gate, ListenOptions, Remote, Ticket, TicketUse, bind_or_any, bind_towards, is_silent, race,
    reachable, resolve, serving::listen,
};
use tokio::sync::Semaphore;

use super::args::{Arguments, DEFAULT_PORT, Ports, ServeArgs};
use super::failure::{NoAnswer, blocked, ended, no_answer};
use super::location::Far;
use super::report::Report;
use super::ssh::Ssh;

/// Time until the other side must have used the ticket that it got through ssh.
const SSH_TICKET_LIFETIME_S: u64 = 3600;
/// Largest window, bytes: 5 Gbit/s over 100 ms. A window grows with what arrives while a disk
/// stalls, and all of it may have to wait in memory.
const MAX_WINDOW_BYTES: u64 = 64 << 20;
/// Smallest window of a side that reads at `--max-rate`, bytes. Otherwise its window has half a
/// second at the rate.
const MIN_PACED_WINDOW_BYTES: u64 = 64 << 10;
const HINT: &str = "a firewall may block its port. --port PORT or FIRST-LAST takes another one, --listen-here lets it connect";

/// Open connection to the other side.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) endpoint: Endpoint,
    pub(crate) stream: Stream,
    /// Name of the other side for messages.
    pub(crate) name: String,
    /// Key and secret of the other side; `None` if it has opened the connection.
    pub(crate) dialer: Option<Dialer>,
    pub(crate) ssh: Option<Ssh>,
}

/// Opens the connection to the other side of a copy.
pub(crate) async fn open(args: &Arguments, far: &Far, report: &Report) -> Result<Session, Failure> {
    args.check(far)?;
    let config = connection(args);
    let port = args.remote.port.map_or(DEFAULT_PORT, |ports| ports.first);
    let remote = match far {
        Far::Ssh(host) if args.remote.listen_here => return listen_here(args, host, config, report).await,
        Far::Ssh(host) => return dial_by_ssh(args, host, config, report).await,
        Far::Ticket(text) => Remote::parse(text, port)?,
        Far::Host(host) => serve_at(host, port)?,
    };
    let dialer = args.trust.connect().dialer(&remote, &report.surroundings())?;
    let (endpoint, stream) = dial(&remote, &dialer, None, paced(config)).await?;
    Ok(Session { endpoint, stream, name: remote.name(), dialer: Some(dialer), ssh: None })
}

/// Returns the address of a `--serve`, whose port is no part of `HOST::PATH`.
fn serve_at(host: &str, port: u16) -> Result<Remote, Failure> {
    let HostPort { host, .. } = host.parse().map_err(Failure::usage)?;
    Ok(Remote::Host { host, port })
}

pub(crate) fn connection(args: &Arguments) -> ConnectionConfig {
    let mut config = args.path.connection();
    config.receiver.stream_window.max = MAX_WINDOW_BYTES;
    config
}

/// Limits what a peer may send before this side has read it, if there is a limit on the rate. By
/// ssh, the peer knows that limit itself.
fn paced(mut config: ConnectionConfig) -> ConnectionConfig {
    if let Some(bytes_per_s) = config.sender.max_rate {
        let window = &mut config.receiver.stream_window;
        let bytes = (bytes_per_s / 2).clamp(MIN_PACED_WINDOW_BYTES, window.max);
        *window = WindowConfig::fixed(bytes, window.mss);
    }
    config
}

async fn dial_by_ssh(
    args: &Arguments,
    host: &str,
    config: ConnectionConfig,
    report: &Report,
) -> Result<Session, Failure> {
    let mut options = far_options(args);
    options.extend(args.remote.port.map(|ports| format!("--port={ports}")));
    let mut ssh = Ssh::start(args, host, &options)?;
    let ticket = ssh.read_ticket(report).await?;
    let dialed = dial_ticket(&ticket, None, config, report);
    let (endpoint, stream) = tokio::select! {
        dialed = dialed => dialed.map_err(|failure| match failure.cause() {
            Some(NoAnswer(why)) => blocked(host, why, HINT),
            _ => failure,
        })?,
        failure = ssh.ended() => return Err(failure),
    };
    Ok(Session { endpoint, stream, name: host.to_owned(), dialer: None, ssh: Some(ssh) })
}

/// Options of the far side that follow from those of this side.
fn far_options(args: &Arguments) -> Vec<String> {
    let seconds = |name: &str, time: std::time::Duration| format!("--{name}={}s", time.as_secs());
    let mut options = vec![
        seconds("idle-timeout", args.path.idle_timeout),
        seconds("connect-give-up", args.path.connect_give_up),
        seconds("no-progress", args.path.no_progress),
        format!("--cc={}", args.path.cc),
    ];
    if let Some(bytes_per_s) = args.path.max_rate {
        options.push(format!("--max-rate={}bit", bytes_per_s.saturating_mul(8)));
    }
    options
}

async fn listen_here(
    args: &Arguments,
    host: &str,
    config: ConnectionConfig,
    report: &Report,
) -> Result<Session, Failure> {
    let endpoint = bind(&args.serve, args.remote.port.unwrap_or(Ports::FREE), &EndpointConfig::default())?;
    let addresses = reachable(endpoint.local_addr(), &args.serve.advertise);
    let mut options = far_options(args);
    options.push("--dial".to_owned());
    let mut ssh = Ssh::start(args, host, &options)?;
    let (gate, ticket) = gate(&addresses, report)?;
    ssh.write_ticket(&ticket).await?;
    let stream = tokio::select! {
        stream = accept(&endpoint, &gate, config) => stream?,
        failure = ssh.cannot_connect(report) => return Err(failure),
    };
    Ok(Session { endpoint, stream, name: host.to_owned(), dialer: None, ssh: Some(ssh) })
}

/// Makes a key for one copy, and a ticket for one connection.
pub(crate) fn gate(addresses: &[SocketAddr], report: &Report) -> Result<(Arc<Gate>, Ticket), Failure> {
    let key = generate_key().map_err(Failure::system("no random numbers"))?;
    let gate = Arc::new(ListenOptions::default().gate_of(key, false, &report.surroundings())?);
    let ticket = gate.issue(addresses, TicketUse::Once, SSH_TICKET_LIFETIME_S)?;
    Ok((gate, ticket))
}

pub(crate) async fn accept(
    endpoint: &Endpoint,
    gate: &Arc<Gate>,
    config: ConnectionConfig,
) -> Result<Stream, Failure> {
    let place = Arc::new(Semaphore::new(1));
    let listener = listen(endpoint, gate, config, &place)?;
    listener.accept().await.map_err(|error| Failure::system("accept")(error.into()))
}

/// Connects to the holder of a ticket, with a key for this connection alone. `first` is an address
/// to try before those of the ticket.
pub(crate) async fn dial_ticket(
    ticket: &Ticket,
    first: Option<SocketAddr>,
    config: ConnectionConfig,
    report: &Report,
) -> Result<(Endpoint, Stream), Failure> {
    let key = generate_key().map_err(Failure::system("no random numbers"))?;
    let dialer = Dialer::of_ticket(key, ticket, &report.surroundings())?;
    dial(&Remote::Ticket(ticket.clone()), &dialer, first, config).await
}

/// Returns the addresses, each of them once, after the first one.
pub(crate) fn in_order(first: Option<SocketAddr>, others: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = Vec::from_iter(first);
    for address in others {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

async fn dial(
    remote: &Remote,
    dialer: &Dialer,
    first: Option<SocketAddr>,
    config: ConnectionConfig,
) -> Result<(Endpoint, Stream), Failure> {
    let addresses = in_order(first, resolve(remote).await?);
    let endpoint = bind_towards(&addresses, |any| {
        Endpoint::bind(any, EndpointConfig::default()).map_err(|error| Failure::bind(any, error))
    })?;
    let connect = |keys| Connect::with(keys).config(config.clone());
    match race(&endpoint, &addresses, dialer, connect).await {
        Ok(stream) => Ok((endpoint, stream)),
        Err(error) => Err(connect_failure(error, &remote.name(), dialer)),
    }
}

fn connect_failure(error: ConnectError, name: &str, dialer: &Dialer) -> Failure {
    let closed = match error {
        ConnectError::Stream(StreamError::Closed(closed)) => closed,
        error => return ended(name, error),
    };
    if let Some(refusal) = dialer.refusal(name, &closed) {
        return refusal.into();
    }
    if is_silent(&closed) { no_answer(name, closed.to_string()) } else { ended(name, closed) }
}

/// Binds a UDP socket to the first free port of a range.
pub(crate) fn bind(args: &ServeArgs, ports: Ports, config: &EndpointConfig) -> Result<Endpoint, Failure> {
    let open = |address: SocketAddr| Endpoint::bind(address, config.clone());
    let at = |mut address: SocketAddr, port| {
        address.set_port(port);
        address
    };
    let bind = |port| bind_or_any(args.bind.map(|address| at(address, port)), port, open);
    let mut result = bind(ports.first);
    for port in (ports.first..=ports.last).skip(1) {
        if result.is_ok() {
            break;
        }
        result = bind(port);
    }
    result.map_err(|(address, error)| Failure::bind(address, error))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;
    use rdt_endpoint::{Listen, Network};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    use super::super::paced::Paced;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rate_limits_what_peer_sends_unread() {
        let network = Network::new("rtt 20ms rate 1gbit", 5).unwrap();
        let [client, server] = [0, 1].map(|_| Endpoint::on_network(&network).unwrap());
        let identity = generate_key().unwrap();
        let listener = server.listen(Listen::new(identity.clone())).unwrap();
        let args = Arguments::try_parse_from(["rdt-copy", "--max-rate", "8mbit", "h::a", "b"]).unwrap();
        let connect = Connect::to(identity.public()).config(paced(connection(&args)));
        let (near, far) = tokio::join!(client.connect(listener.local_addr(), connect), listener.accept());
        let (near, mut far) = (near.unwrap(), far.unwrap());
        let writing = tokio::spawn(async move { far.write_all(&vec![7; 32 << 20]).await });
        let mut near = Paced::new(near, Some(1_000_000));
        let mut read = 0;
        let reading = async {
            let mut bytes = vec![0; 1 << 16];
            loop {
                read += near.read(&mut bytes).await.unwrap();
            }
        };
        assert!(timeout(Duration::from_secs(2), reading).await.is_err());
        let sent = network.ledger().sent_bytes;
        // 2 MB at the rate, the window, a burst of 64 KiB, and headers.
        assert!(read >= 1_900_000 && sent <= 2_800_000, "{read} bytes read, {sent} sent");
        writing.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn outage_of_a_minute_ends_no_connection() {
        const BYTES: usize = 4 << 20;
        let network = Network::new("rtt 20ms rate 10mbit outage 1s-62s", 5).unwrap();
        let [client, server] = [0, 1].map(|_| Endpoint::on_network(&network).unwrap());
        let args = Arguments::try_parse_from(["rdt-copy", "a", "h::b"]).unwrap();
        let identity = generate_key().unwrap();
        let mut listen = Listen::new(identity.clone());
        listen.responder.config = connection(&args);
        let listener = server.listen(listen).unwrap();
        let connect = Connect::to(identity.public()).config(connection(&args));
        let (near, far) = tokio::join!(client.connect(listener.local_addr(), connect), listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        let begin = tokio::time::Instant::now();
        let (sent, mut bytes) = (vec![7; BYTES], vec![0; BYTES]);
        let (written, read) = tokio::join!(near.write_all(&sent), far.read_exact(&mut bytes));
        written.unwrap();
        read.unwrap();
        // It takes 3.4 s without the outage.
        let elapsed = begin.elapsed().as_secs();
        assert!((62..70).contains(&elapsed), "{elapsed} s");
    }

    #[test]
    fn host_of_serve_has_given_port() {
        assert_eq!(serve_at("[::1]", 7).unwrap(), Remote::Host { host: "::1".into(), port: 7 });
        assert_eq!(serve_at("host", 7).unwrap(), Remote::Host { host: "host".into(), port: 7 });
    }
}
