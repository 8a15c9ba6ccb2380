//! Command line of `rdt-copy`.

#![allow(
    clippy::doc_markdown,
    rustdoc::broken_intra_doc_links,
    reason = "the comments are the text of --help, in which [V6] is no link"
)]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use rdt_program::host_port::{self, HostPort};
use rdt_program::{ENVIRONMENT, Failure, VERSION};
use rdt_trust::{ConnectOptions, ListenOptions, PathOptions, parse_lifetime};

use super::failure::CODES;
use super::location::Far;
use crate::Compression;

/// UDP port of `--serve`. That of `rdt-tunnel serve` is one less.
pub(crate) const DEFAULT_PORT: u16 = 22347;
/// Largest number of tickets.
const MAX_TICKETS: i64 = 1000;

/// Help of `--idle-timeout`. A copy outlives longer outages than a tunnel, whose clients wait.
const IDLE_TIMEOUT: &str = "End a copy if no packet of the other side arrived for this long, from 1s. \
    Shorter outages of the path delay it";

const AFTER_HELP: &str = "\
Examples:
  $ rdt-copy photos host:                 by ssh, which starts rdt-copy there; into the home folder
  $ rdt-copy host:data/run7 'host:photos/*.jpg' .
  $ rdt-copy --listen-here big.img host:  the UDP ports of the other host cannot be reached
  $ rdt-copy --exclude '*.o' --exclude target/ project host:backup/

Without ssh, by a ticket:
  host$ rdt-copy --serve incoming --write-only       prints a ticket
  here$ rdt-copy photos rdt1...
  here$ rdt-copy rdt1...:photos/2026 .               from a server without --write-only

Stopped, crashed or disconnected: the same command again goes on where it was. After a success, it copies
into DEST if DEST is a directory, as cp -r does. Not kept: owners, hard links, ACLs, extended attributes.";

/// Copies files and directories between hosts over encrypted rdt connections.
///
/// A directory is copied with its name, as by cp and scp, also as 'photos/'. Only its contents are
/// copied as 'photos/.', which rsync writes as 'photos/'.
#[derive(Debug, Parser)]
#[command(
    name = "rdt-copy",
    version = VERSION,
    override_usage = "rdt-copy [OPTIONS] SRC... DEST\n       rdt-copy [OPTIONS] --serve DIR",
    after_help = format!("{AFTER_HELP}\n\n{CODES}\n\n{ENVIRONMENT}"),
    mut_arg("idle_timeout", |arg| arg.default_value("2min").help(IDLE_TIMEOUT))
)]
pub(crate) struct Arguments {
    /// Sources, then the destination. One side is on this host, the other one is HOST:PATH (by
    /// ssh), TICKET or @FILE with a ticket (also TICKET:PATH), or HOST::PATH (a `--serve` that
    /// admits this user's key). An existing directory, or DEST/, receives the sources inside it.
    /// The other host expands *, ? and [...] in its sources: quote them here
    #[arg(value_name = "SRC... DEST", required_unless_present_any = ["serve", "server"], conflicts_with_all = ["serve", "server"])]
    pub(crate) paths: Vec<OsString>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) destination: DestinationArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    #[command(flatten)]
    pub(crate) path: PathOptions,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Far side of a copy by ssh: prints a ticket, ends with its standard input
    #[arg(long, hide = true)]
    pub(crate) server: bool,
    /// With --server: reads a ticket from the standard input, and connects
    #[arg(long, hide = true, requires = "server", conflicts_with = "paths")]
    pub(crate) dial: bool,
}

impl Arguments {
    /// Checks that no option is given that a copy with this other side does not use.
    pub(crate) fn check(&self, far: &Far) -> Result<(), Failure> {
        let Self { remote, serve, trust, .. } = self;
        let (is_ssh, is_ticket) = (matches!(far, Far::Ssh(_)), matches!(far, Far::Ticket(_)));
        let is_listening = is_ssh && remote.listen_here;
        let (ssh, host) = ("HOST:PATH, by ssh", "HOST::PATH");
        let options = [
            ("--listen-here", remote.listen_here, is_ssh, ssh),
            ("-e", remote.ssh.is_some(), is_ssh, ssh),
            ("--remote-program", remote.remote_program.is_some(), is_ssh, ssh),
            ("--bind", serve.bind.is_some(), is_listening, "--serve and --listen-here"),
            ("--advertise", !serve.advertise.is_empty(), is_listening, "--serve and --listen-here"),
            ("--port", remote.port.is_some(), !is_ticket, "the side that listens: a ticket has its own"),
            ("--identity", trust.identity.is_some(), !is_ssh, "copies without ssh"),
            ("--known-hosts", trust.known_hosts.is_some(), !is_ssh && !is_ticket, host),
            ("--secret-file", trust.secret_file.is_some(), !is_ssh && !is_ticket, host),
        ];
        if let Some((name, .., used_for)) = options.iter().find(|(_, given, used, _)| *given && !used) {
            return Err(Failure::usage(format_args!("{name} is for {used_for}")));
        }
        if matches!(far, Far::Host(_)) && remote.port.is_some_and(|ports| ports.first < ports.last) {
            return Err(Failure::usage("HOST::PATH has one port: --port PORT"));
        }
        Ok(())
    }
}

/// What is read.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArgs {
    /// Leave out what matches PATTERN, written as in .gitignore, named sources too; may be given
    /// several times. One that can match nothing is refused
    #[arg(long, value_name = "PATTERN", conflicts_with = "serve")]
    pub(crate) exclude: Vec<String>,
    /// Copy what symbolic links lead to, instead of the links
    #[arg(long, conflicts_with = "serve")]
    pub(crate) follow: bool,
    /// Compress the data: auto (while it becomes smaller and the line is slower than the
    /// processor), off, or a level of zstd from 1 to 19
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = compression, conflicts_with = "serve")]
    pub(crate) compress: Compression,
}

/// What is written.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of the command line")]
pub(crate) struct DestinationArgs {
    /// Compare files that exist by their content, instead of size and time
    #[arg(long, conflicts_with = "serve")]
    pub(crate) checksum: bool,
    /// Replace files and links that exist and differ, and modes of directories that exist
    #[arg(long, conflicts_with_all = ["keep_both", "serve"])]
    pub(crate) overwrite: bool,
    /// Store a file beside one that exists and differs, as 'name (2).ext'
    #[arg(long, conflicts_with = "serve")]
    pub(crate) keep_both: bool,
    /// Report success only when files and their names are on the disk
    #[arg(long, conflicts_with = "serve")]
    pub(crate) sync: bool,
    /// Keep setuid, setgid and sticky bits of modes
    #[arg(long, conflicts_with = "serve")]
    pub(crate) special_modes: bool,
    /// Print what would be copied, and copy nothing
    #[arg(long, short = 'n', conflicts_with = "serve")]
    pub(crate) dry_run: bool,
}

/// How the other side is reached.
#[derive(Debug, Clone, Args)]
pub(crate) struct RemoteArgs {
    /// Command to run instead of ssh, with its options [default: ssh]
    #[arg(long, short = 'e', value_name = "CMD", value_parser = ssh_command, conflicts_with = "serve")]
    pub(crate) ssh: Option<SshCommand>,
    /// Command that starts rdt-copy on the other host, read by its shell [default: rdt-copy]
    #[arg(long, value_name = "PATH", conflicts_with = "serve")]
    pub(crate) remote_program: Option<String>,
    /// Listen on this side, and let the other host connect: for hosts behind a firewall or NAT
    #[arg(long, conflicts_with = "serve")]
    pub(crate) listen_here: bool,
    /// UDP port, or range FIRST-LAST, of the side that listens; HOST::PATH has one port [default:
    /// 22347 for --serve and HOST::PATH, else a free port]
    #[arg(long, value_name = "PORT", value_parser = ports)]
    pub(crate) port: Option<Ports>,
}

/// A side that listens.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// Let clients copy to and from DIR, and nothing outside of it, until stopped
    #[arg(long, value_name = "DIR", help_heading = "Serving")]
    pub(crate) serve: Option<PathBuf>,
    /// Clients may only read
    #[arg(long, requires = "serve", conflicts_with = "paths", help_heading = "Serving")]
    pub(crate) read_only: bool,
    /// Clients may only write, and replace no file
    #[arg(long, requires = "serve", conflicts_with_all = ["paths", "read_only"], help_heading = "Serving")]
    pub(crate) write_only: bool,
    /// With --write-only: clients may replace files
    #[arg(long, requires = "write_only", conflicts_with = "paths", help_heading = "Serving")]
    pub(crate) allow_overwrite: bool,
    /// Local address to listen on, with --serve or --listen-here [default: all]
    #[arg(long, value_name = "ADDR", value_parser = bound, help_heading = "Serving")]
    pub(crate) bind: Option<SocketAddr>,
    /// Address in tickets, up to 8 times; for hosts behind NAT [default: that of --bind, or those
    /// of the interfaces with a default route]
    #[arg(long, value_name = "ADDR:PORT", value_parser = advertised, help_heading = "Serving")]
    pub(crate) advertise: Vec<SocketAddr>,
    /// Number of tickets to print; each is for one client [default: 1; 0 with --allow,
    /// --secret-file or --open]
    #[arg(long, value_name = "N", requires = "serve", conflicts_with = "paths", value_parser = clap::value_parser!(u16).range(0..=MAX_TICKETS), help_heading = "Serving")]
    pub(crate) tickets: Option<u16>,
    /// Time until a client must have used its ticket first; afterwards it is good until the program
    /// ends [default: 24h]
    #[arg(long, value_name = "TIME", requires = "serve", conflicts_with = "paths", value_parser = parse_lifetime, help_heading = "Serving")]
    pub(crate) ticket_lifetime: Option<Duration>,
    /// Limit on clients at a time; further ones are refused
    #[arg(long, value_name = "N", requires = "serve", conflicts_with = "paths", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Serving")]
    pub(crate) max_clients: u32,
}

const TRUST: &str = "Keys and permissions";

/// Options of `rdt-trust`. Both sides have some of them in common, and here they share a command
/// line.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrustArgs {
    /// Own private key, made at first use [default: identity in ~/.config/rdt]. Copies by ssh use a
    /// key of their own
    #[arg(long, help_heading = TRUST, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
    /// Keys of peers, trusted at first use. A changed key is refused: exit code 76 [default:
    /// known_hosts in ~/.config/rdt]
    #[arg(long, help_heading = TRUST, value_name = "FILE", conflicts_with = "serve")]
    pub(crate) known_hosts: Option<PathBuf>,
    /// Secret that both sides have: a line of base32, at least 16 random bytes (rdt-tunnel secret
    /// makes it). Not with a ticket, which has its own
    #[arg(long, help_heading = TRUST, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// With --serve: admit the clients whose public keys are in FILE, one a line (rdt-tunnel key
    /// prints it)
    #[arg(long, help_heading = TRUST, value_name = "FILE", requires = "serve", conflicts_with = "paths")]
    pub(crate) allow: Option<PathBuf>,
    /// With --serve: admit every client
    #[arg(long, help_heading = TRUST, requires = "serve", conflicts_with_all = ["paths", "allow", "secret_file"])]
    pub(crate) open: bool,
}

impl TrustArgs {
    pub(crate) fn connect(&self) -> ConnectOptions {
        let Self { identity, known_hosts, secret_file, .. } = self.clone();
        ConnectOptions { identity, known_hosts, secret_file }
    }

    pub(crate) fn listen(&self) -> ListenOptions {
        let Self { identity, allow, secret_file, open, .. } = self.clone();
        ListenOptions { identity, allow, secret_file, open }
    }
}

/// What is printed.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OutputArgs {
    /// Print neither progress nor summary, only errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print JSON, one object a line: files and their ends; the last one is the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// Range of UDP ports. Port 0 is a free one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl Ports {
    pub(crate) const FREE: Self = Self::only(0);

    pub(crate) const fn only(port: u16) -> Self {
        Self { first: port, last: port }
    }
}

impl std::fmt::Display for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

fn ports(text: &str) -> Result<Ports, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last && (first > 0 || last == 0) => Ok(Ports { first, last }),
        _ => Err("write a port, as 22347, or a range, as 60000-60010".to_owned()),
    }
}

/// Words of the command of `--ssh`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshCommand(pub(crate) Vec<String>);

fn ssh_command(text: &str) -> Result<SshCommand, String> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(SshCommand(words)),
        Some(_) => Err("write a command, as 'ssh -p 2222'".to_owned()),
        None => Err("a quotation mark is not closed".to_owned()),
    }
}

fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "auto" => Ok(Compression::Auto),
        "off" => Ok(Compression::Off),
        level => match level.parse() {
            Ok(level @ 1..=Compression::MAX_LEVEL) => Ok(Compression::Level(level)),
            _ => Err("write auto, off, or a level from 1 to 19".to_owned()),
        },
    }
}

/// Parses an address without a port.
fn bound(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<HostPort>()?.port {
        None => host_port::bind_address(text, 0),
        Some(_) => Err("write an address without a port, as ::1; --port has the port".to_owned()),
    }
}

fn advertised(text: &str) -> Result<SocketAddr, String> {
    host_port::bind_address(text, DEFAULT_PORT)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::location::Plan;
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let words = std::iter::once("rdt-copy").chain(line.split_whitespace());
        Arguments::try_parse_from(words).map_err(|error| rdt_program::argument_error(&error))
    }

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn paths_or_folder_to_serve_are_required() {
        assert_eq!(parse("a b host:").unwrap().paths, ["a", "b", "host:"]);
        assert_eq!(parse("--serve d").unwrap().serve.serve, Some("d".into()));
        for line in ["", "--serve d a host:", "--read-only a host:", "--open a host:", "--dial a host:"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "--overwrite --keep-both a host:",
            "--serve d --read-only --write-only",
            "--serve d --open --allow f",
            "--serve d --open --secret-file f",
            "--serve d --overwrite",
            "--serve d --allow-overwrite",
            "--serve d --keep-both",
            "--serve d --checksum",
            "--serve d --sync",
            "--serve d --special-modes",
            "--serve d -n",
            "--serve d --exclude x",
            "--serve d --follow",
            "--serve d -e ssh",
            "--serve d --remote-program x",
            "--serve d --listen-here",
            "--serve d --known-hosts f",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        parse("--serve d --allow f --secret-file g --tickets 3").unwrap();
    }

    #[test]
    fn options_of_other_copies_are_refused() {
        let refusal = |line: &str| {
            let args = parse(line).unwrap();
            let far = Plan::parse(&args.paths).unwrap().far;
            args.check(&far).err().map(|failure| failure.to_string())
        };
        let ticket = "rdt1abcdefghijklmnopqrstuvwxyz:";
        for (options, far, used_for) in [
            ("--secret-file f", "host:", "HOST::PATH"),
            ("--identity f", "host:", "copies without ssh"),
            ("--known-hosts f", "host:", "HOST::PATH"),
            ("--bind ::1", "host:", "--serve and --listen-here"),
            ("--advertise [::1]:5", "host:", "--serve and --listen-here"),
            ("--port 5", ticket, "the side that listens: a ticket has its own"),
            ("--bind ::1", ticket, "--serve and --listen-here"),
            ("--advertise [::1]:5", ticket, "--serve and --listen-here"),
            ("-e ssh", ticket, "HOST:PATH, by ssh"),
            ("--remote-program x", ticket, "HOST:PATH, by ssh"),
            ("--listen-here", ticket, "HOST:PATH, by ssh"),
            ("--known-hosts f", ticket, "HOST::PATH"),
            ("--secret-file f", ticket, "HOST::PATH"),
            ("--bind ::1", "host::", "--serve and --listen-here"),
            ("-e ssh", "host::", "HOST:PATH, by ssh"),
        ] {
            let name = options.split(' ').next().unwrap();
            let expected = format!("{name} is for {used_for}");
            assert_eq!(refusal(&format!("{options} a {far}")), Some(expected), "{options} {far}");
        }
        let range = refusal("--port 40054-40056 a host::").unwrap();
        assert!(range.contains("one port"), "{range}");
        for line in [
            "--listen-here --bind ::1 --advertise [::1]:5 --port 5-7 -e ssh --remote-program x a host:",
            "--port 5 --identity f --known-hosts f --secret-file f a host::",
            &format!("--identity f a {ticket}"),
        ] {
            assert_eq!(refusal(line), None, "{line}");
        }
    }

    #[test]
    fn compression_is_word_or_level() {
        let found = ["auto", "off", "1", "19"].map(|text| compression(text).unwrap());
        let levels = [Compression::Level(1), Compression::Level(19)];
        assert_eq!(found, [Compression::Auto, Compression::Off, levels[0], levels[1]]);
        for text in ["", "on", "0", "20", "-1", "3.5", "zstd"] {
            assert!(compression(text).is_err(), "{text}");
        }
        assert_eq!(parse("a host:").unwrap().source.compress, Compression::Auto);
        assert!(parse("--serve d --compress off").is_err());
    }

    #[test]
    fn ports_are_one_or_range() {
        assert_eq!(ports("22347"), Ok(Ports::only(22347)));
        assert_eq!(ports("60000-60010"), Ok(Ports { first: 60000, last: 60010 }));
        assert_eq!(ports("60000-60010").unwrap().to_string(), "60000-60010");
        assert_eq!(ports("0").unwrap(), Ports::FREE);
        for text in ["", "-", "5-", "9-5", "0-5", "65536", "x"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ssh_command_has_words_and_quotes() {
        let words = |text| ssh_command(text).map(|command| command.0);
        assert_eq!(words("ssh -p 2222").unwrap(), ["ssh", "-p", "2222"]);
        assert_eq!(words("ssh -o 'A b=c'").unwrap(), ["ssh", "-o", "A b=c"]);
        assert!(words("").is_err() && words("ssh 'x").is_err());
    }
}
