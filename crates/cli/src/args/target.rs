//! Parsing of HOST and `--bind`: a name, an address, `host:port`, `[v6]:port`, `local`, or a
//! ticket.

use std::net::SocketAddr;

use rdt_program::Failure;
use rdt_program::host_port::{self, HostPort};
use rdt_trust::{Remote, TrustError};

use super::{Given, usage};

/// UDP port of the classic protocol.
pub(crate) const DEFAULT_PORT: u16 = 22345;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A receiver in this process (HOST `local`).
    Local,
    /// A receiver on the network; `host` is not resolved yet.
    Remote { host: String, port: u16 },
    /// The receiver that printed this ticket.
    Ticket(Remote),
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        if text == "local" {
            return Ok(Self::Local);
        }
        match Remote::parse(text, DEFAULT_PORT) {
            Ok(ticket @ Remote::Ticket(_)) => return Ok(Self::Ticket(ticket)),
            Err(error @ (TrustError::Ticket(_) | TrustError::TicketFile { .. })) => return Err(error.into()),
            Ok(Remote::Host { .. }) | Err(_) => {}
        }
        let HostPort { host, port } = text.parse().map_err(|error: String| usage(error))?;
        if host.is_empty() {
            return Err(usage(format!("HOST '{text}' has no name before its port")));
        }
        Ok(Self::Remote { host, port: port.unwrap_or(DEFAULT_PORT) })
    }
}

impl Given<Target> {
    /// Returns the name for messages. The text of a ticket is a secret.
    pub(crate) fn name(&self) -> String {
        match &self.value {
            Target::Ticket(ticket) => ticket.name(),
            Target::Local | Target::Remote { .. } => self.text.clone(),
        }
    }
}

/// Parses `--bind`, and resolves a name.
pub(super) fn parse_bind(text: &str) -> Result<SocketAddr, Failure> {
    host_port::bind_address(text, DEFAULT_PORT).map_err(|error| usage(format!("--bind {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(host: &str, port: u16) -> Target {
        Target::Remote { host: host.into(), port }
    }

    #[test]
    fn host_takes_names_addresses_and_ports() {
        assert_eq!(Target::parse("local").unwrap(), Target::Local);
        assert_eq!(Target::parse("localhost").unwrap(), remote("localhost", 22345));
        assert_eq!(Target::parse("10.1.2.3:99").unwrap(), remote("10.1.2.3", 99));
        assert_eq!(Target::parse("::1").unwrap(), remote("::1", 22345));
        assert_eq!(Target::parse("[::1]:7").unwrap(), remote("::1", 7));
        assert_eq!(Target::parse("[fe80::1]").unwrap(), remote("fe80::1", 22345));
        for bad in ["host:x", "host:65536", "[::1", "[::1]x", "[abc]:1", ":7"] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }
}
