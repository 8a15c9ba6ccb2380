//! Hosts and ports on command lines: `name`, `name:port`, `[v6]:port`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Host, not resolved, and the port if one was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Name or address, without brackets. Empty if the text begins with the port.
    pub host: String,
    /// Port.
    pub port: Option<u16>,
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) =
                rest.split_once(']').ok_or_else(|| format!("'{text}' has a [ without its ]"))?;
            host.parse::<Ipv6Addr>().map_err(|_| format!("'{host}' is no IPv6 address"))?;
            return match rest.strip_prefix(':') {
                Some(digits) => Ok(Self { host: host.into(), port: Some(port(digits)?) }),
                None if rest.is_empty() => Ok(Self { host: host.into(), port: None }),
                None => Err(format!("'{text}' has something other than :PORT behind its ]")),
            };
        }
        match text.split_once(':') {
            // With more than one colon, it is an IPv6 address without brackets or port.
            Some((_, rest)) if rest.contains(':') => Ok(Self { host: text.into(), port: None }),
            Some((host, digits)) => Ok(Self { host: host.into(), port: Some(port(digits)?) }),
            None => Ok(Self { host: text.into(), port: None }),
        }
    }
}

fn port(digits: &str) -> Result<u16, String> {
    digits.parse().map_err(|_| format!("'{digits}' is no port: it must be a number from 0 to 65535"))
}

/// Resolves a name, to IPv4 addresses first: reference receivers have no IPv6.
pub fn resolve(host: &str, port: u16) -> Vec<SocketAddr> {
    let mut addresses: Vec<_> = (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses
}

/// Parses an address to bind to, and resolves a name. The error lacks the option's name.
pub fn bind_address(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    let HostPort { host, port } = text.parse()?;
    let port = port.unwrap_or(default_port);
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok((ip, port).into());
    }
    let address = resolve(&host, port).first().copied();
    address.ok_or_else(|| format!("'{text}' is no address of this machine: try 127.0.0.1 or ::1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_addresses_and_ports_are_split() {
        let cases = [
            ("localhost", "localhost", None),
            ("10.1.2.3:99", "10.1.2.3", Some(99)),
            ("::1", "::1", None),
            ("[::1]:7", "::1", Some(7)),
            ("[fe80::1]", "fe80::1", None),
            (":7", "", Some(7)),
        ];
        for (text, host, port) in cases {
            assert_eq!(text.parse(), Ok(HostPort { host: host.into(), port }), "{text}");
        }
        for bad in ["host:x", "host:65536", "[::1", "[::1]x", "[abc]:1"] {
            assert!(bad.parse::<HostPort>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bind_takes_addresses_of_this_machine() {
        assert_eq!(bind_address("127.0.0.1", 22345), Ok("127.0.0.1:22345".parse().unwrap()));
        assert_eq!(bind_address("[::1]:0", 22345), Ok("[::1]:0".parse().unwrap()));
        assert!(bind_address("no.such.name.invalid", 1).is_err());
    }
}
