//! Command line of `rdt-tunnel`.

#![allow(
    clippy::doc_markdown,
    rustdoc::broken_intra_doc_links,
    reason = "the comments are the text of --help, in which [V6] is no link"
)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use rdt_emulator::parse_bytes;
use rdt_endpoint::EndpointConfig;
use rdt_program::host_port::{self, HostPort};
use rdt_program::memory::host_memory;
use rdt_program::metrics::MetricsArgs;
use rdt_program::{ENVIRONMENT, VERSION};
use rdt_trust::{ConnectOptions, ListenOptions, PathOptions, parse_lifetime};

/// UDP port of `serve`. That of `rdt-recv` is one less.
pub(crate) const DEFAULT_PORT: u16 = 22346;
/// Largest number of tickets.
const MAX_TICKETS: i64 = 1000;

const CODES: &str = "\
Exit codes:
    0  stdio: both directions have ended; serve, connect: Ctrl-C while no connection was open
    3  no such host                     5  no answer, or the path is gone
    8  the peer or the target of the tunnel refused or closed the connection (with a reason)
   64  wrong arguments, damaged ticket 66  a file of keys is missing, exposed or wrong
   69  no socket can be had            71  a system call failed
   73  the file of a secret cannot be created
   74  the standard input or output failed
   76  the peer's key has changed      77  the peer does not admit this key or ticket
  130  Ctrl-C while connections were open";

const AFTER_HELP: &str = "\
Examples:
  server$ rdt-tunnel serve --to 127.0.0.1:22        prints a ticket for one client
  client$ rdt-tunnel connect rdt1... --listen 127.0.0.1:2222
  client$ ssh -p 2222 user@127.0.0.1

With keys instead of tickets, for ssh, rsync and git over one line in ~/.ssh/config:
  client$ rdt-tunnel key >> allow                   copy the file to the server
  server$ rdt-tunnel serve --to 127.0.0.1:22 --allow allow
  Host server
      ProxyCommand rdt-tunnel stdio %h";

/// TCP connections of any program over encrypted rdt connections.
#[derive(Debug, Parser)]
#[command(name = "rdt-tunnel", version = VERSION, after_help = format!("{AFTER_HELP}\n\n{CODES}\n\n{ENVIRONMENT}"))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Passes the connections of clients to a TCP server
    #[command(after_help = CODES)]
    Serve(ServeArgs),
    /// Listens on a TCP port, and passes its connections to `rdt-tunnel serve`
    #[command(after_help = CODES)]
    Connect(ConnectArgs),
    /// Passes the standard input and output to `rdt-tunnel serve`, as ssh's ProxyCommand
    #[command(after_help = CODES)]
    Stdio(StdioArgs),
    /// Prints the public key of this host, a line for the file of --allow
    Key(KeyArgs),
    /// Makes a file with a random secret for --secret-file
    Secret(SecretArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// TCP server that clients reach
    #[arg(long, value_name = "HOST:PORT", value_parser = target)]
    pub(crate) to: HostPort,
    /// UDP address to listen on: ADDR, ADDR:PORT, [V6]:PORT; port 0 takes a free one [default: all,
    /// port 22346]
    #[arg(long, value_name = "ADDR", value_parser = udp_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Address in tickets, up to 8 times; for hosts behind NAT [default: that of --listen, or those
    /// of the interfaces with a default route]
    #[arg(long, value_name = "ADDR", value_parser = udp_address)]
    pub(crate) advertise: Vec<SocketAddr>,
    /// Number of tickets to print; each is for one client [default: 1; 0 with --allow,
    /// --secret-file or --open]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=MAX_TICKETS))]
    pub(crate) tickets: Option<u16>,
    /// Time until a client must have used its ticket first; afterwards it is good until `serve`
    /// ends [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
    pub(crate) ticket_lifetime: Option<Duration>,
    /// Limit on connections at a time; further ones are refused. With --open, a host gets one
    /// more only while it has fewer than are free
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) max_connections: u32,
    #[command(flatten)]
    pub(crate) trust: ListenOptions,
    #[command(flatten)]
    pub(crate) path: PathOptions,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
}

/// Server, and how it is reached.
#[derive(Debug, Args)]
pub(crate) struct RemoteArgs {
    /// Ticket that `serve` printed; @FILE with a ticket, which `ps` does not show; or HOST,
    /// HOST:PORT, [V6]:PORT [default port: 22346]
    #[arg(value_name = "TICKET|HOST")]
    pub(crate) remote: String,
    #[command(flatten)]
    pub(crate) trust: ConnectOptions,
    #[command(flatten)]
    pub(crate) path: PathOptions,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Memory for data that arrived and was not read yet.
#[derive(Debug, Clone, Args)]
pub(crate) struct MemoryArgs {
    /// Memory for received data that its program has not read yet, at least 1mib; one connection
    /// may take a quarter [default: 1/8 of the host's, from 64mib to 2gib]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub(crate) memory: Option<u64>,
}

impl MemoryArgs {
    pub(crate) fn limit(&self, config: &mut EndpointConfig) {
        let all = self.memory.unwrap_or_else(|| default_memory(host_memory()));
        (config.memory_limit, config.connection_memory_limit) = (all, all / 4);
    }
}

fn default_memory(host: Option<u64>) -> u64 {
    host.map_or(512 << 20, |bytes| (bytes / 8).clamp(64 << 20, 2 << 30))
}

fn memory(text: &str) -> Result<u64, String> {
    match parse_bytes(text).map_err(|error| error.to_string())? {
        bytes @ 0x10_0000.. => Ok(bytes),
        _ => Err("the memory must be at least 1mib".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// TCP address to listen on
    #[arg(long, value_name = "ADDR:PORT", value_parser = tcp_address)]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StdioArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Print only errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// Own private key, made at first use [default: identity in ~/.config/rdt]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// File to make, mode 0600; it must not exist
    pub(crate) file: PathBuf,
}

/// Options of what is printed.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Print only errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print JSON, one object a line: connections with their statistics; the last one is the
    /// summary
    #[arg(long)]
    pub(crate) json: bool,
}

fn target(text: &str) -> Result<HostPort, String> {
    let target: HostPort = text.parse()?;
    match target.port {
        Some(1..) if !target.host.is_empty() => Ok(target),
        _ => Err("write HOST:PORT, as 127.0.0.1:22".to_owned()),
    }
}

fn udp_address(text: &str) -> Result<SocketAddr, String> {
    host_port::bind_address(text, DEFAULT_PORT)
}

fn tcp_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<HostPort>()?.port {
        None => Err("write ADDR:PORT, as 127.0.0.1:2222; port 0 takes a free one".to_owned()),
        Some(port) => host_port::bind_address(text, port),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        let words = std::iter::once("rdt-tunnel").chain(line.split_whitespace());
        Arguments::try_parse_from(words)
            .map(|args| args.command)
            .map_err(|error| rdt_program::argument_error(&error))
    }

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn memory_has_limits() {
        let Ok(Command::Serve(args)) = parse("serve --to a:1 --memory 64mib") else { panic!() };
        let mut config = EndpointConfig::default();
        args.memory.limit(&mut config);
        assert_eq!((config.memory_limit, config.connection_memory_limit), (64 << 20, 16 << 20));
        assert!(
            parse("serve --to a:1 --memory 1kib").is_err() && parse("serve --to a:1 --memory x").is_err()
        );
        assert_eq!([None, Some(1 << 32), Some(1 << 40)].map(default_memory), [1 << 29, 1 << 29, 2 << 30]);
    }

    #[test]
    fn addresses_need_their_parts() {
        let Command::Serve(args) = parse("serve --to localhost:22 --listen 127.0.0.1").unwrap() else {
            panic!("another command")
        };
        assert_eq!(args.to, HostPort { host: "localhost".into(), port: Some(22) });
        assert_eq!(args.listen, Some("127.0.0.1:22346".parse().unwrap()));
        for line in ["serve --to localhost", "serve --to :22", "serve --to localhost:0", "serve"] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in ["connect host", "connect host --listen 127.0.0.1", "connect --listen 127.0.0.1:1"] {
            assert!(parse(line).is_err(), "{line}");
        }
        parse("connect host --listen 127.0.0.1:0").unwrap();
    }

    #[test]
    fn open_contradicts_rules() {
        for rule in ["--allow f", "--secret-file f"] {
            assert!(parse(&format!("serve --to h:1 --open {rule}")).is_err());
        }
        parse("serve --to h:1 --allow f --secret-file g --tickets 3").unwrap();
    }
}
