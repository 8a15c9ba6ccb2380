//! Selector of a destination: addresses, and optionally ports and a protocol.
//!
//! `10.1.0.0/16`, `10.1.0.1:5201`, `10.1.0.1:5000-5999/udp`, `[fd00:1::/64]:443`. Ports and
//! protocol are written as for `docker run --publish` or firewalld.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Numbers of protocols whose headers begin with two ports (IANA): TCP, UDP, DCCP, SCTP, UDP-Lite.
pub(super) const WITH_PORTS: [u8; 5] = [Protocol::Tcp as u8, Protocol::Udp as u8, 33, 132, 136];

/// Packets of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Selector {
    prefix: Prefix,
    /// `None` for all packets, those of protocols without ports included.
    ports: Option<Ports>,
}

impl Selector {
    /// Returns true if a packet belongs to this destination. `service` has its protocol and port,
    /// if it has one.
    pub(super) fn contains(self, address: IpAddr, service: Option<(u8, u16)>) -> bool {
        let has_port = |ports: Ports| {
            service.is_some_and(|(protocol, port)| {
                ports.protocol.is_none_or(|it| it as u8 == protocol)
                    && (ports.first..=ports.last).contains(&port)
            })
        };
        self.ports.is_none_or(has_port) && self.prefix.contains(address)
    }

    /// Returns the precedence, lowest first: longest prefix, then fewest ports, then a protocol.
    pub(super) fn precedence(self) -> impl Ord {
        let ports = self.ports.map(|it| (it.last - it.first, it.protocol.is_none()));
        (std::cmp::Reverse(self.prefix.length), ports.is_none(), ports)
    }

    pub(super) const fn has_ports(self) -> bool {
        self.ports.is_some()
    }

    pub(crate) const fn is_ipv6(self) -> bool {
        self.prefix.base.is_ipv6()
    }

    /// Returns the address for the far end: the only address, or the first one after that of the
    /// network. `None` for a prefix of all addresses.
    pub(crate) fn host(self) -> Option<IpAddr> {
        let bits = if self.is_ipv6() { 128 } else { 32 };
        match self.prefix.base {
            _ if self.prefix.length == 0 => None,
            base if self.prefix.length == bits => Some(base),
            IpAddr::V4(base) => Some(Ipv4Addr::from_bits(base.to_bits() | 1).into()),
            IpAddr::V6(base) => Some(Ipv6Addr::from_bits(base.to_bits() | 1).into()),
        }
    }
}

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix {
    base: IpAddr,
    length: u8,
}

impl Prefix {
    fn contains(self, address: IpAddr) -> bool {
        self.base.is_ipv4() == address.is_ipv4() && masked(address, self.length) == self.base
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ports {
    first: u16,
    last: u16,
    /// `None` for all protocols that have ports.
    protocol: Option<Protocol>,
}

/// Protocol and its number in IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Protocol {
    Tcp = 6,
    Udp = 17,
}

impl Protocol {
    const ALL: [(&'static str, Self); 2] = [("tcp", Self::Tcp), ("udp", Self::Udp)];
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (prefix, ports) = split(text)?;
        Ok(Self { prefix: prefix.parse()?, ports: ports.map(str::parse).transpose()? })
    }
}

/// Splits a selector into its prefix and its ports. A prefix in brackets is one of IPv6.
fn split(text: &str) -> Result<(&str, Option<&str>), String> {
    let Some(rest) = text.strip_prefix('[') else {
        // More than one colon is an IPv6 address without ports.
        let parts = text.split_once(':').filter(|(_, ports)| !ports.contains(':'));
        return Ok(parts.map_or((text, None), |(prefix, ports)| (prefix, Some(ports))));
    };
    let wanted = || format!("'{text}' is no destination such as [fd00:1::/64]:443");
    let (prefix, rest) = rest.split_once(']').ok_or_else(wanted)?;
    if prefix.parse::<Prefix>()?.base.is_ipv4() {
        return Err("only IPv6 addresses have brackets".into());
    }
    match rest.strip_prefix(':') {
        Some(ports) => Ok((prefix, Some(ports))),
        None if rest.is_empty() => Ok((prefix, None)),
        None => Err(wanted()),
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, length) = text.split_once('/').map_or((text, None), |(it, length)| (it, Some(length)));
        let wanted = || format!("'{text}' is no address or prefix such as 10.1.0.0/16");
        let address: IpAddr = address.parse().map_err(|_| wanted())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(bits), str::parse).map_err(|_| wanted())?;
        if length > bits {
            return Err(format!("a prefix of this address has at most {bits} bits"));
        }
        let base = masked(address, length);
        if base != address {
            return Err(format!("bits after the prefix are set; did you mean {base}/{length}?"));
        }
        Ok(Self { base, length })
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("'{text}' is no port or range of ports such as 5201, 5000-5999 or 443/tcp");
        let (ports, protocol) = text.split_once('/').map_or((text, None), |(it, name)| (it, Some(name)));
        let named = |name: &str| {
            let found = Protocol::ALL.iter().find(|(known, _)| *known == name);
            found.map(|(_, it)| *it).ok_or_else(|| format!("'{name}' is no protocol with ports: tcp or udp"))
        };
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let [first, last] = [first, last].map(|port| port.parse::<u16>().map_err(|_| wanted()));
        let (first, last) = (first?, last?);
        if first > last {
            return Err(format!("ports {first}-{last}: did you mean {last}-{first}?"));
        }
        Ok(Self { first, last, protocol: protocol.map(named).transpose()? })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Prefix { base, length } = self.prefix;
        let Some(Ports { first, last, protocol }) = self.ports else { return write!(f, "{base}/{length}") };
        match base {
            IpAddr::V4(base) => write!(f, "{base}/{length}:{first}")?,
            IpAddr::V6(base) => write!(f, "[{base}/{length}]:{first}")?,
        }
        if last != first {
            write!(f, "-{last}")?;
        }
        match Protocol::ALL.iter().find(|(_, it)| Some(*it) == protocol) {
            Some((name, _)) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}
