//! HOST and `--bind`: a name, an address, `host:port`, `[v6]:port`, or `local`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// The classic protocol's port.
pub(crate) const DEFAULT_PORT: u16 = 22345;

/// Where to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A receiver in this process.
    Local,
    /// A receiver on the network; the name is not resolved yet.
    Remote { host: String, port: u16 },
}

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "local" {
            return Ok(Self::Local);
        }
        let (host, port) = split(text)?;
        if host.is_empty() {
            return Err(format!("HOST '{text}' has no name before its port"));
        }
        Ok(Self::Remote { host, port: port.unwrap_or(DEFAULT_PORT) })
    }
}

/// Finds the address of a name, IPv4 before IPv6, because the course's receivers know only that.
pub(crate) fn resolve(host: &str, port: u16) -> Option<SocketAddr> {
    let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().ok()?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.first().copied()
}

/// An address to bind to: all interfaces unless one is named.
pub(crate) fn parse_bind(text: Option<&str>) -> Result<SocketAddr, String> {
    let Some(text) = text else { return Ok((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into()) };
    let (host, port) = split(text)?;
    let port = port.unwrap_or(DEFAULT_PORT);
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok((ip, port).into());
    }
    resolve(&host, port)
        .ok_or_else(|| format!("--bind '{text}' is no address of this machine: try 127.0.0.1 or ::1"))
}

/// Host and port, brackets removed.
fn split(text: &str) -> Result<(String, Option<u16>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| format!("'{text}' has a [ without its ]"))?;
        host.parse::<Ipv6Addr>().map_err(|_| format!("'{host}' is no IPv6 address"))?;
        return match rest.strip_prefix(':') {
            Some(digits) => Ok((host.into(), Some(port(digits)?))),
            None if rest.is_empty() => Ok((host.into(), None)),
            None => Err(format!("'{text}' has something other than :PORT behind its ]")),
        };
    }
    match text.split_once(':') {
        // More than one colon: an IPv6 address without brackets, so without a port.
        Some((_, rest)) if rest.contains(':') => Ok((text.into(), None)),
        Some((host, digits)) => Ok((host.into(), Some(port(digits)?))),
        None => Ok((text.into(), None)),
    }
}

fn port(digits: &str) -> Result<u16, String> {
    digits.parse().map_err(|_| format!("'{digits}' is no port: it must be a number from 0 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(host: &str, port: u16) -> Target {
        Target::Remote { host: host.into(), port }
    }

    #[test]
    fn every_form_of_host() {
        assert_eq!(Target::parse("local"), Ok(Target::Local));
        assert_eq!(Target::parse("localhost"), Ok(remote("localhost", 22345)));
        assert_eq!(Target::parse("10.1.2.3:99"), Ok(remote("10.1.2.3", 99)));
        assert_eq!(Target::parse("::1"), Ok(remote("::1", 22345)));
        assert_eq!(Target::parse("[::1]:7"), Ok(remote("::1", 7)));
        assert_eq!(Target::parse("[fe80::1]"), Ok(remote("fe80::1", 22345)));
        for bad in ["host:x", "host:65536", "[::1", "[::1]x", "[abc]:1", ":7"] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bind_addresses() {
        assert_eq!(parse_bind(None), Ok("[::]:22345".parse().unwrap()));
        assert_eq!(parse_bind(Some("127.0.0.1")), Ok("127.0.0.1:22345".parse().unwrap()));
        assert_eq!(parse_bind(Some("[::1]:0")), Ok("[::1]:0".parse().unwrap()));
        assert!(parse_bind(Some("no.such.name.invalid")).is_err());
    }
}
