//! Parsing of HOST and `--bind`: a name, an address, `host:port`, `[v6]:port`, or `local`.

use super::usage;
use crate::Failure;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// UDP port of the classic protocol.
pub(crate) const DEFAULT_PORT: u16 = 22345;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A receiver in this process (HOST `local`).
    Local,
    /// A receiver on the network; `host` is not resolved yet.
    Remote { host: String, port: u16 },
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        if text == "local" {
            return Ok(Self::Local);
        }
        let (host, port) = split(text)?;
        if host.is_empty() {
            return Err(usage(format!("HOST '{text}' has no name before its port")));
        }
        Ok(Self::Remote { host, port: port.unwrap_or(DEFAULT_PORT) })
    }
}

/// Resolves a name. Prefers IPv4, because reference receivers have no IPv6.
pub(crate) fn resolve(host: &str, port: u16) -> Option<SocketAddr> {
    let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().ok()?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.first().copied()
}

/// Parses `--bind`, and resolves a name.
pub(super) fn parse_bind(text: &str) -> Result<SocketAddr, Failure> {
    let (host, port) = split(text)?;
    let port = port.unwrap_or(DEFAULT_PORT);
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok((ip, port).into());
    }
    resolve(&host, port)
        .ok_or_else(|| usage(format!("--bind '{text}' is no address of this machine: try 127.0.0.1 or ::1")))
}

/// Splits an argument into host (without brackets) and port.
fn split(text: &str) -> Result<(String, Option<u16>), Failure> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) =
            rest.split_once(']').ok_or_else(|| usage(format!("'{text}' has a [ without its ]")))?;
        host.parse::<Ipv6Addr>().map_err(|_| usage(format!("'{host}' is no IPv6 address")))?;
        return match rest.strip_prefix(':') {
            Some(digits) => Ok((host.into(), Some(port(digits)?))),
            None if rest.is_empty() => Ok((host.into(), None)),
            None => Err(usage(format!("'{text}' has something other than :PORT behind its ]"))),
        };
    }
    match text.split_once(':') {
        // With more than one colon, the text is an IPv6 address without brackets, and thus without
        // a port.
        Some((_, rest)) if rest.contains(':') => Ok((text.into(), None)),
        Some((host, digits)) => Ok((host.into(), Some(port(digits)?))),
        None => Ok((text.into(), None)),
    }
}

fn port(digits: &str) -> Result<u16, Failure> {
    digits.parse().map_err(|_| usage(format!("'{digits}' is no port: it must be a number from 0 to 65535")))
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

    #[test]
    fn bind_takes_addresses_of_this_machine() {
        assert_eq!(parse_bind("127.0.0.1").unwrap(), "127.0.0.1:22345".parse().unwrap());
        assert_eq!(parse_bind("[::1]:0").unwrap(), "[::1]:0".parse().unwrap());
        assert!(parse_bind("no.such.name.invalid").is_err());
    }
}
