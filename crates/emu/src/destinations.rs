//! `--to`: a path of its own for each destination. Owns prefixes, names, and the lookup of a
//! packet's path by its address. Path 0 is that of all other destinations.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use rdt_emulator::child_seed;
use rdt_emulator::spec::{Key, Scope};

use crate::failure::Failure;
use crate::path::{Described, PathArgs, Setting};

/// Limit on the destinations of a run: each packet is compared with all of them.
const MAX_DESTINATIONS: usize = 32;
/// Name of path 0, which carries what has no destination of its own.
pub(crate) const OTHER: &str = "other";

/// Destination with its path.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    pub(crate) name: String,
    pub(crate) prefix: Prefix,
    pub(crate) described: Described,
}

impl Destination {
    /// Parses the values of `--to`: pairs of a destination and a path.
    pub(crate) fn parse_all(words: &[String]) -> Result<Vec<Self>, Failure> {
        if words.len() > 2 * MAX_DESTINATIONS {
            return Err(Failure::Usage(format!("--to: there are at most {MAX_DESTINATIONS} destinations")));
        }
        let mut all: Vec<Self> = Vec::new();
        for pair in words.chunks_exact(2) {
            let usage = |message: String| Failure::Usage(format!("--to {}: {message}", pair[0]));
            let number = (all.len() + 1).to_string();
            let (name, prefix) = pair[0].split_once('=').unwrap_or((&number, &pair[0]));
            if !is_name(name) || name == OTHER {
                return Err(usage("a name has letters, digits and underscores, and is not 'other'".into()));
            }
            let prefix: Prefix = prefix.parse().map_err(usage)?;
            if let Some(same) = all.iter().find(|it| it.name == name || it.prefix == prefix) {
                return Err(usage(format!("it repeats {}={}", same.name, same.prefix)));
            }
            let described = describe(&pair[1]).map_err(|failure| usage(failure.to_string()))?;
            all.push(Self { name: name.to_owned(), prefix, described });
        }
        Ok(all)
    }

    /// Returns the seed of the path of destination `number`, from 1, if that of the run is `seed`.
    pub(crate) fn seed(&self, number: usize, seed: u64) -> u64 {
        self.described.path.seed().unwrap_or_else(|| child_seed(seed, number as u64))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reads a path: settings such as `rtt=100ms; loss-reverse=1%`, else the name of a file. An empty
/// text is a perfect wire.
fn describe(text: &str) -> Result<Described, Failure> {
    if text.contains('=') || text.trim().is_empty() {
        return PathArgs::of(None, settings(text)?).describe();
    }
    PathArgs::of(Some(PathBuf::from(text)), Vec::new()).describe_as("file")
}

fn settings(text: &str) -> Result<Vec<Setting>, Failure> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| setting(part).map_err(Failure::Usage)).collect()
}

fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("'{text}' is no KEY=VALUE; write rtt=100ms; loss=1%"))?;
    let name = name.trim();
    let (key, scope) = match (name.strip_suffix("-forward"), name.strip_suffix("-reverse")) {
        (Some(key), _) => (key, Scope::Forward),
        (_, Some(key)) => (key, Scope::Reverse),
        _ => (name, Scope::Both),
    };
    let key: Key = key.parse().map_err(|unknown: rdt_emulator::spec::UnknownKey| unknown.to_string())?;
    if scope != Scope::Both && !key.is_per_direction() {
        return Err(format!("{} is of both directions", key.name()));
    }
    Ok((scope, key, value.trim().to_owned()))
}

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    base: IpAddr,
    length: u8,
}

impl Prefix {
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        self.base.is_ipv4() == address.is_ipv4() && masked(address, self.length) == self.base
    }

    pub(crate) const fn is_ipv6(self) -> bool {
        self.base.is_ipv6()
    }

    /// Returns the address for the far end: the only address, or the first one after that of the
    /// network. `None` for a prefix of all addresses.
    pub(crate) fn host(self) -> Option<IpAddr> {
        let bits = if self.is_ipv6() { 128 } else { 32 };
        match self.base {
            _ if self.length == 0 => None,
            base if self.length == bits => Some(base),
            IpAddr::V4(base) => Some(Ipv4Addr::from_bits(base.to_bits() | 1).into()),
            IpAddr::V6(base) => Some(Ipv6Addr::from_bits(base.to_bits() | 1).into()),
        }
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

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.length)
    }
}

/// Lookup of a packet's path by its address: the longest prefix wins.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// Longest first, each with the number of its path.
    prefixes: Vec<(Prefix, u32)>,
}

/// Address of a packet by which its path is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// For packets from the near end.
    Destination,
    /// For packets from the far end.
    Source,
}

impl Table {
    /// Creates the table of these prefixes; the path of the n-th has the number n, from 1.
    pub(crate) fn new(prefixes: impl IntoIterator<Item = Prefix>) -> Self {
        let mut prefixes: Vec<_> = prefixes.into_iter().zip(1..).collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length));
        Self { prefixes }
    }

    /// Returns the number of the path of an IP packet: 0 if no prefix has its address.
    pub(crate) fn path(&self, packet: &[u8], by: By) -> u32 {
        let Some(address) = address(packet, by) else { return 0 };
        self.prefixes.iter().find(|(prefix, _)| prefix.contains(address)).map_or(0, |(_, path)| *path)
    }
}

fn address(packet: &[u8], by: By) -> Option<IpAddr> {
    let skip = |source: usize, length: usize| if by == By::Source { source } else { source + length };
    match packet.first()? >> 4 {
        4 => packet.get(skip(12, 4)..)?.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        6 => packet.get(skip(8, 16)..)?.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        _ => None,
    }
}

/// Returns the index of the path with this name: 0 without one.
pub(crate) fn find<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    wanted: Option<&str>,
) -> Result<usize, Failure> {
    let Some(wanted) = wanted else { return Ok(0) };
    names.clone().position(|name| name == wanted).ok_or_else(|| {
        let nearest = names.clone().map(|name| (strsim::osa_distance(wanted, name), name)).min();
        let hint = match nearest {
            Some((distance, name)) if distance <= 2 => format!("did you mean '{name}'?"),
            _ => format!("the paths are {}", names.collect::<Vec<_>>().join(", ")),
        };
        Failure::Usage(format!("--to: there is no path '{wanted}'; {hint}"))
    })
}

#[cfg(test)]
mod tests;
