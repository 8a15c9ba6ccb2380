//! Start of the user's programs: the command, and the server at the far end.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::SigSet;
use rustix::process::{Pid, getpid};

use super::address;
use super::terminal::Terminal;

/// Environment variable with the address of the opposite end of the path.
const PEER: &str = "RDT_PEER";
/// Environment variable with the address of the program's own end.
const LOCAL: &str = "RDT_LOCAL";
/// Environment variables with the IPv6 addresses of both ends, set with `--ipv6` only.
const PEER6: &str = "RDT_PEER6";
const LOCAL6: &str = "RDT_LOCAL6";
/// Environment variables with the addresses of the host's loopback services, set with `--internet`.
const HOSTS: [&str; 2] = ["RDT_HOST", "RDT_HOST6"];

/// Addresses for the environment of a program.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) local: Ipv4Addr,
    pub(crate) peer: Ipv4Addr,
    pub(crate) ipv6: bool,
    /// IPv4 and IPv6 address of the host's loopback services, if they can be reached.
    pub(crate) hosts: [Option<IpAddr>; 2],
    /// Names and addresses of the destinations of `--to`.
    pub(crate) destinations: Vec<(String, IpAddr)>,
}

/// Starts the command, in a process group of its own if it has a terminal.
pub(crate) fn start(command: &[OsString], place: &Place, terminal: Option<&Terminal>) -> io::Result<Pid> {
    let mut arguments = command.iter();
    let program = arguments.next().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if terminal.is_some() {
        command.process_group(0);
    }
    spawn(command, place, terminal)
}

/// Starts a server by a shell command line, in a process group of its own.
pub(crate) fn start_server(line: &OsStr, place: &Place) -> io::Result<Pid> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).stdin(Stdio::null()).process_group(0);
    spawn(command, place, None)
}

/// Sockets in the current network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listening {
    /// No socket of a server.
    No,
    /// A UDP socket without a peer, at a port that the kernel may have chosen: of a server, or of
    /// a client that sent a query and waits for the answer.
    Perhaps,
    /// A program listens at a TCP or UDP port.
    Yes,
}

impl Listening {
    pub(crate) fn look() -> Self {
        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut range = range.split_whitespace().map_while(|port| port.parse().ok());
        let chosen = range.next().zip(range.next()).map_or(32_768..=60_999, |(first, last)| first..=last);
        let of = |protocol: &str| {
            let table = fs::read_to_string(format!("/proc/thread-self/net/{protocol}")).unwrap_or_default();
            table.lines().skip(1).map(|line| Self::of(protocol, line, &chosen)).max()
        };
        ["tcp", "tcp6", "udp", "udp6"].into_iter().filter_map(of).max().unwrap_or(Self::No)
    }

    /// Judges a line of the kernel's table of sockets. Sockets with a peer are those of clients: a
    /// resolver connects its UDP socket to the name server. `chosen` has the ports of sockets that
    /// were not bound.
    fn of(protocol: &str, line: &str, chosen: &RangeInclusive<u16>) -> Self {
        /// `TCP_LISTEN` of `include/net/tcp_states.h`.
        const TCP_LISTEN: &str = "0A";
        let mut columns = line.split_whitespace().skip(1);
        let (own, peer, state) = (columns.next(), columns.next(), columns.next());
        if protocol.starts_with("tcp") {
            return if state == Some(TCP_LISTEN) { Self::Yes } else { Self::No };
        }
        if !peer.is_some_and(|peer| peer.ends_with(":0000")) {
            return Self::No;
        }
        let port = own.and_then(|own| u16::from_str_radix(own.rsplit(':').next()?, 16).ok());
        if port.is_some_and(|port| chosen.contains(&port)) { Self::Perhaps } else { Self::Yes }
    }
}

/// Starts a program. Returns only its id, because a wait for any child detects its end.
fn spawn(mut command: Command, place: &Place, terminal: Option<&Terminal>) -> io::Result<Pid> {
    command.env(LOCAL, place.local.to_string()).env(PEER, place.peer.to_string());
    if place.ipv6 {
        command
            .env(LOCAL6, address::v6(place.local).to_string())
            .env(PEER6, address::v6(place.peer).to_string());
    } else {
        command.env_remove(LOCAL6).env_remove(PEER6);
    }
    for (name, address) in &place.destinations {
        command.env(format!("{PEER}_{name}"), address.to_string());
    }
    // The programs of a nested run inherit those of the enclosing one.
    for (name, address) in HOSTS.into_iter().zip(place.hosts) {
        if let Some(address) = address {
            command.env(name, address.to_string());
        }
    }
    let terminal = terminal.map(Terminal::try_clone).transpose()?;
    let prepare = move || {
        if let Some(terminal) = &terminal {
            terminal.give_to(getpid())?;
        }
        Ok(SigSet::empty().thread_set_mask()?)
    };
    // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
    #[expect(unsafe_code, reason = "the program must start without blocked signals, and with the terminal")]
    unsafe {
        command.pre_exec(prepare);
    }
    let child = command.spawn()?;
    Ok(Pid::from_child(&child))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_with_peer_is_no_server() {
        let listening = "0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 7 1";
        let connected = "1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 0 0 8 1";
        let bound = "2: 00000000:1451 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 9 2";
        let resolver = "3: 0200000A:D431 08080808:0035 01 00000000:00000000 00:00000000 00000000 0 0 9 2";
        let query = "4: 00000000:D431 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 9 2";
        for (protocol, line, expected) in [
            ("tcp", listening, Listening::Yes),
            ("tcp6", listening, Listening::Yes),
            ("tcp", connected, Listening::No),
            ("udp", bound, Listening::Yes),
            ("udp6", bound, Listening::Yes),
            ("udp", resolver, Listening::No),
            ("udp", query, Listening::Perhaps),
            ("udp", "", Listening::No),
        ] {
            assert_eq!(Listening::of(protocol, line, &(32_768..=60_999)), expected, "{protocol} {line}");
        }
    }
}
