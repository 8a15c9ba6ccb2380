//! Hosts and ports on command lines: `name`, `name:port`, `[v6]:port`, `[v6%zone]:port` (RFC 4007,
//! section 11). [`Shown`](rdt_udp::Shown) prints addresses in the same form.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
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
            if !is_ipv6(host) {
                return Err(format!("'{host}' is no IPv6 address"));
            }
            let host = without_escape(host);
            return match rest.strip_prefix(':') {
                Some(digits) => Ok(Self { host, port: Some(port(digits)?) }),
                None if rest.is_empty() => Ok(Self { host, port: None }),
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

/// True for an IPv6 address with or without a zone.
fn is_ipv6(host: &str) -> bool {
    let (ip, zone) = host.split_once('%').unwrap_or((host, "0"));
    ip.parse::<Ipv6Addr>().is_ok() && !zone.is_empty()
}

/// Returns an address with its zone as RFC 4007 writes it: URLs have `%25` in place of `%` (RFC
/// 6874).
fn without_escape(host: &str) -> String {
    match host.split_once("%25") {
        Some((ip, zone)) if !zone.starts_with(|c: char| c.is_ascii_digit()) && !zone.is_empty() => {
            format!("{ip}%{zone}")
        }
        _ => host.to_owned(),
    }
}

/// Returns the address of a host with a zone: none if no interface has this name. `None` for other
/// hosts.
fn zoned(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    let (ip, zone) = host.split_once('%')?;
    let ip = ip.parse().ok()?;
    // The system looks the interface up for link-local addresses alone, whatever their host.
    let found = (&*format!("fe80::1%{zone}"), port).to_socket_addrs();
    let index = found.into_iter().flatten().find_map(|address| match address {
        SocketAddr::V6(address) => Some(address.scope_id()),
        SocketAddr::V4(_) => None,
    });
    Some(index.map(|index| SocketAddrV6::new(ip, port, 0, index).into()).into_iter().collect())
}

/// Resolves a name, to IPv4 addresses first: reference receivers have no IPv6.
pub fn resolve(host: &str, port: u16) -> Vec<SocketAddr> {
    if let Some(addresses) = zoned(host, port) {
        return addresses;
    }
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
    address.ok_or_else(|| match host.split_once('%') {
        Some((_, zone)) => format!("'{text}' has the zone {zone}, and no interface has this name"),
        None => format!("'{text}' is no address of this machine: try 127.0.0.1 or ::1"),
    })
}

/// Joins a host and a port as [`HostPort`] reads them.
pub fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
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
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]", "fe80::1%eth0", None),
            ("[fe80::1%eth0.5]:22345", "fe80::1%eth0.5", Some(22345)),
            ("[fe80::1%25eth0]:7", "fe80::1%eth0", Some(7)),
            ("[fe80::1%2]:7", "fe80::1%2", Some(7)),
            ("[fe80::1%25]:7", "fe80::1%25", Some(7)),
            ("[fe80::1%251]:7", "fe80::1%251", Some(7)),
        ];
        for (text, host, port) in cases {
            assert_eq!(text.parse(), Ok(HostPort { host: host.into(), port }), "{text}");
        }
        for bad in [
            "host:x",
            "host:65536",
            "[::1",
            "[::1]x",
            "[abc]:1",
            "[fe80::1%]:7",
            "[abc%eth0]:7",
            "[10.0.0.1%eth0]:7",
        ] {
            assert!(bad.parse::<HostPort>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bind_takes_addresses_of_this_machine() {
        assert_eq!(bind_address("127.0.0.1", 22345), Ok("127.0.0.1:22345".parse().unwrap()));
        assert_eq!(bind_address("[::1]:0", 22345), Ok("[::1]:0".parse().unwrap()));
        assert!(bind_address("no.such.name.invalid", 1).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn zone_is_name_or_number_of_interface() {
        let lo = SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0, 1);
        for text in ["[fe80::1%lo]:7", "[fe80::1%1]:7", "[fe80::1%25lo]:7"] {
            assert_eq!(bind_address(text, 1), Ok(lo.into()), "{text}");
        }
        assert_eq!(bind_address("fe80::1%lo", 7), Ok(lo.into()));
        assert_eq!(resolve("::1%lo", 7), [SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0, 1).into()]);
        assert_eq!(rdt_udp::Shown(lo.into()).to_string(), "[fe80::1%lo]:7");
        let missing = "'[fe80::1%nope]:7' has the zone nope, and no interface has this name";
        assert_eq!(bind_address("[fe80::1%nope]:7", 1), Err(missing.to_owned()));
        assert!(resolve("fe80::1%nope", 7).is_empty());
    }
}
